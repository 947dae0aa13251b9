"""Hostile files against the commands that read them: each must work, or be refused in one line, in
bounded time and memory.

A sound little file of some kind is broken in one to three ways, packed or not, given a name that
fits or not, and handed to a command for that kind or for another.
"""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import random
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path

from .command_worker import Worker
from .counts import Counts

TEXT = "the cat sat on the mat\nthe dog met a cat\na dog and a cat slept on the mat\n" * 4


def _word2vec_binary(words: int = 3, width: int = 4) -> bytes:
    rows = b"".join(
        f"w{i} ".encode() + struct.pack("<4f", *(0.5 * i + j for j in range(4))) + b"\n"
        for i in range(3)
    )
    return f"{words} {width}\n".encode() + rows


def _fasttext_bin() -> bytes:
    """The beginning of a fastText model: magic, version, arguments, then a dictionary that promises much."""
    arguments = struct.pack("<12i", 4, 5, 5, 1, 5, 1, 1, 1, 100, 3, 6, 100) + struct.pack(
        "<d", 1e-4
    )
    dictionary = struct.pack("<3i2q", 2, 2, 0, 10, -1)
    dictionary += b"the\0" + struct.pack("<qb", 5, 0) + b"cat\0" + struct.pack("<qb", 3, 0)
    matrices = b"".join(
        b"\0" + struct.pack("<2q", rows, 4) + b"\1" * 16 * rows for rows in (102, 2)
    )
    return struct.pack("<2i", 793712314, 12) + arguments + dictionary + matrices


def _parquet() -> bytes:
    try:
        import polars
    except ImportError:
        return b"PAR1" + b"\0" * 50 + b"PAR1"
    place = io.BytesIO()
    polars.DataFrame({"text": ["good cat", "bad dog"] * 3, "label": ["x", "y"] * 3}).write_parquet(
        place
    )
    return place.getvalue()


ARPA = (
    "\\data\\\nngram 1=5\nngram 2=3\n\n\\1-grams:\n-99\t<s>\t-0.3\n-1\t</s>\n-1.2\t<unk>\n-0.5\tcat\t-0.2\n"
    "-0.6\tdog\t-0.1\n\n"
    "\\2-grams:\n-0.2\t<s> cat\n-0.4\tcat dog\n-0.3\tdog </s>\n\n\\end\\\n"
)
CONLLU = "1\tthe\tthe\tDET\t_\t_\t0\t_\t_\t_\n2\tcat\tcat\tNOUN\t_\t_\t0\t_\t_\t_\n\n"
SOUND: dict[str, tuple[str, bytes]] = {  # kind: name, content
    "text": ("a.txt", TEXT.encode()),
    "jsonl": (
        "a.jsonl",
        b"".join(
            json.dumps({"text": t, "label": x, "n": {"m": [1, 2.5]}}).encode() + b"\n"
            for t, x in [("good cat", "x"), ("bad dog", "y")] * 4
        ),
    ),
    "csv": ("a.csv", b'text,label\n"good, cat",x\nbad dog,y\n' + b"fine cat,x\nawful dog,y\n" * 3),
    "tsv": ("a.tsv", b"text\tlabel\ngood cat\tx\nbad dog\ty\n" * 3),
    "parquet": ("a.parquet", _parquet()),
    "labels": ("a.labels", b"__label__x good cat\n__label__y bad dog\n" * 4),
    "conll": ("a.conll", b"the DT O\ncat NN B-X\n\na DT O\ndog NN B-X\n\n" * 4),
    "conllu": ("a.conllu", (CONLLU * 5).encode()),
    "slash": ("a.pos", b"the/DT cat/NN sat/VB\n" * 5),
    "arpa": ("a.arpa", ARPA.encode()),
    "word2vec": ("a.vec", b"4 3\nthe 1 2 3\ncat 0.5 -1 2e0\ndog 1 1 1\na 0 0 1\n"),
    "glove": ("a.glove.txt", b"the 1 2 3\ncat 0.5 -1 2e0\ndog 1 1 1\na 0 0 1\n"),
    "binary": ("a.w2v.bin", _word2vec_binary()),
    "fasttext": ("a.bin", _fasttext_bin()),
    "questions": ("a.questions", b": family\nthe cat a dog\ncat the dog a\n"),
    "pairs": ("a.pairs", b"cat dog 5.0\nthe a 2.5\n"),
    "tokenizer": (
        "tokenizer.json",
        b'{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,'
        b'"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true},'
        b'"post_processor":null,"decoder":{"type":"ByteLevel"},'
        b'"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":[["a","b"]]}}',
    ),
    "vocabulary": ("a.vocab", b"the\ncat\ndog\n"),
}

FIT = ["-o", "{out}", "-q"]
LANGUAGE = [
    ["fit", "ngram", "{file}", "--order", "2", *FIT],
    ["fit", "ngram", "{file}", "--tokenizer", "byte", "--unit", "stream", *FIT],
    ["fit", "ngram", "{file}", "--tokenizer", "bpe", "--vocab-size", "260", "--order", "2", *FIT],
    [
        "fit",
        "ngram",
        "{file}",
        "--tokenizer",
        "word",
        "--normalize",
        "topic",
        "--unit",
        "document",
        "--order",
        "2",
        *FIT,
    ],
    ["fit", "ngram", "-", "--order", "1", *FIT],
    ["fit", "ngram", "{file}", "--encoding", "utf-16", "--order", "2", *FIT],
    ["fit", "ngram", "{file}", "--memory", "1M", *FIT],
    ["fit", "cache", "{file}", *FIT],
    ["fit", "hmm", "{file}", "--states", "2", "--iterations", "2", *FIT],
    ["fit", "word2vec", "{file}", "--min-count", "1", "--dimensions", "4", "--epochs", "1", *FIT],
    ["fit", "glove", "{file}", "--min-count", "1", "--dimensions", "4", "--epochs", "1", *FIT],
    ["evaluate", "words", "{file}", "-q"],
    ["evaluate", "bytes", "{file}", "-q", "--json"],
    ["evaluate", "bytes", "-", "-q"],
    ["score", "words", "{file}", "-q"],
    ["score", "bytes", "{file}", "-q"],
    ["score", "words", "-", "-q", "--tokens"],
    ["tokenize", "{file}", "-q"],
    ["tokenize", "{file}", "--kind", "char", "--json", "-q"],
    ["tokenize", "{file}", "--kind", "wordpiece", "--vocab-size", "60", "--ids", "-q"],
    ["data", "describe", "{file}", "-q"],
    ["phrases", "{file}", "--min-count", "1", "-q"],
    ["fit", "ngram", "{file}", "--column", "text", "--order", "2", *FIT],
    ["score", "words", "{file}", "--column", "n.m", "-q"],
]
LABELS = [
    ["fit", "naive-bayes", "{file}", *FIT],
    ["fit", "naive-bayes", "-", *FIT],
    ["evaluate", "classes", "{file}", "-q"],
    ["predict", "classes", "{file}", "-q"],
    [
        "fit",
        "fasttext-classifier",
        "{file}",
        "--dimensions",
        "4",
        "--buckets",
        "100",
        "--epochs",
        "1",
        *FIT,
    ],
]
TAGS = [
    ["fit", "hmm-tagger", "{file}", *FIT],
    ["fit", "hmm-tagger", "{file}", "--scheme", "iob1", *FIT],
    ["evaluate", "tags", "{file}", "-q"],
    ["predict", "tags", "{file}", "-q"],
]
CONVERT = [
    ["convert", "{file}", "{out}", "-q"],
    ["convert", "{file}", "{out}.vec", "--form", "word2vec", "-q"],
    ["nearest", "{file}", "cat", "-q"],
    ["evaluate", "{file}", "--on", "sound.questions", "-q"],
    ["embed", "{file}", "cat", "-q"],
]
OTHERS = {
    "questions": [["evaluate", "vectors", "--on", "{file}", "-q"]],
    "pairs": [["evaluate", "vectors", "--on", "{file}", "-q"]],
    "tokenizer": [
        ["tokenize", "sound.txt", "--tokenizer", "{file}", "-q"],
        ["fit", "ngram", "sound.txt", "--tokenizer", "{file}", "--order", "2", *FIT],
    ],
    "vocabulary": [
        ["fit", "ngram", "sound.txt", "--vocab-file", "{file}", "--order", "2", *FIT],
        ["tokenize", "sound.txt", "--kind", "char", "--vocab-file", "{file}", "-q"],
    ],
}
FITTING = {
    **dict.fromkeys(("text", "parquet"), LANGUAGE),
    **dict.fromkeys(("jsonl", "csv", "tsv"), LANGUAGE + LABELS),
    "labels": LABELS,
    **dict.fromkeys(("conll", "conllu", "slash"), TAGS),
    **dict.fromkeys(("arpa", "word2vec", "glove", "binary", "fasttext"), CONVERT),
    **OTHERS,
}
EVERY = [
    *LANGUAGE,
    *LABELS,
    *TAGS,
    *CONVERT,
    *(args for several in OTHERS.values() for args in several),
]


# ---- ways to break a file


def _cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _flip(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randint(1, 8)):
        if changed:
            changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _inserted(*parts: bytes) -> Callable[[bytes, random.Random], bytes]:
    def insert(data: bytes, rng: random.Random) -> bytes:
        at = rng.randrange(len(data) + 1)
        return data[:at] + rng.choice(parts) * rng.choice((1, 1, 3)) + data[at:]

    return insert


def _numbers(data: bytes, rng: random.Random) -> bytes:
    """One of its numbers becomes another."""
    places = [i for i, byte in enumerate(data) if 48 <= byte < 58]
    if not places:
        return data
    at = rng.choice(places)
    other = rng.choice(
        [
            b"0",
            b"-1",
            b"1e39",
            b"-1e39",
            b"1e308",
            b"inf",
            b"nan",
            b"9" * 18,
            b"9" * 400,
            b"-" + b"9" * 30,
            b"4294967296",
            b"2147483648",
            b"0x10",
            b"1_0",
            b"\xd9\xa3",
        ]
    )
    return data[:at] + other + data[at + 1 :]


def _header(data: bytes, rng: random.Random) -> bytes:
    """Numbers of four or eight bytes near the beginning become extreme: headers that lie."""
    if len(data) < 16:
        return data
    changed = bytearray(data)
    form = rng.choice(("<i", "<q", "<I"))
    at = rng.randrange(min(len(data) - 8, 160))
    value = rng.choice((0, 1, 2**31 - 1, 2**30) if form != "<i" else (-1, 0, 2**31 - 1, -(2**31)))
    changed[at : at + struct.calcsize(form)] = struct.pack(form, value)
    return bytes(changed)


def _lines(data: bytes, rng: random.Random) -> bytes:
    """Lines lost, doubled, joined or in another order."""
    lines = data.split(b"\n")
    for _ in range(rng.randint(1, 3)):
        i = rng.randrange(len(lines))
        change = rng.randrange(4)
        if change == 0 and len(lines) > 1:
            del lines[i]
        elif change == 1:
            lines.insert(i, lines[i])
        elif change == 2 and i + 1 < len(lines):
            lines[i : i + 2] = [lines[i] + lines[i + 1]]
        else:
            rng.shuffle(lines)
    return b"\n".join(lines)


def _long_line(data: bytes, rng: random.Random) -> bytes:
    filler = rng.choice(
        [b"a", b"ab ", "é".encode(), b"1 ", b"\t", b" ", b"__label__x ", b'"', b"\\", b"/", b","]
    )
    return data + filler * (rng.choice((10_000, 300_000)) // len(filler)) + data


def _recoded(data: bytes, rng: random.Random) -> bytes:
    return data.decode("latin-1").encode(
        rng.choice(("utf-16", "utf-16-le", "utf-32", "utf-8-sig", "cp037"))
    )


BREAK: list[Callable[[bytes, random.Random], bytes]] = [
    _cut,
    _flip,
    _numbers,
    _numbers,
    _header,
    _lines,
    _long_line,
    _recoded,
    _inserted(b"\0", b"\0" * 4000),
    _inserted(b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xef\xbb\xbf"),
    _inserted(b"\r", b"\r\n", b"\n\n\n", b"\x0b", b"\x1c", "\u2028".encode(), b"\x1a"),
    _inserted(
        b"[" * 5000, b'{"a":' * 3000, b'"', b"\\u", b'{"text": null}\n', b'{"text": [[[[1]]]]}\n'
    ),
    lambda data, rng: data.replace(b"\n", rng.choice((b"\r\n", b"\r", b"", b"\n\n"))),
    lambda data, rng: data.rstrip(b"\n"),
    lambda data, rng: rng.choice((b"", b"\n", b" ", b"\0", b"\xef\xbb\xbf")),
    lambda data, rng: rng.randbytes(rng.choice((1, 100, 10_000))),
]
PACK: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".xz": lzma.compress}
try:
    import zstandard

    PACK[".zst"] = zstandard.ZstdCompressor().compress
except ImportError:
    pass


def _file(rng: random.Random, place: Path) -> tuple[str, Path, str]:
    """Kind of a broken file, where it is, and how it was made."""
    kind = rng.choice(list(SOUND))
    name, data = SOUND[kind]
    ways = [] if rng.random() < 0.05 else rng.sample(range(len(BREAK)), rng.choice((1, 1, 2, 3)))
    for way in ways:
        data = BREAK[way](data, rng)
    if rng.random() < 0.1:
        name = rng.choice(list(SOUND.values()))[0]
    done = f"{kind} broken by {ways} as {name}"
    if rng.random() < 0.15:
        suffix = rng.choice(list(PACK))
        data = PACK[suffix](
            data
            if rng.random() < 0.8
            else data + b"a" * (130 << 20 if rng.random() < 0.05 else 1 << 20)
        )
        broken = rng.choice((None, None, _cut, _flip))
        name, data = name + suffix, broken(data, rng) if broken else data
        done += f"{suffix}{' broken too' if broken else ''}"
    path = place / name
    if rng.random() < 0.01:
        path.mkdir()
        (path / name).write_bytes(data)
        return kind, path, f"{done} in a directory"
    path.write_bytes(data)
    return kind, path, done


MODELS = {
    "words": ["fit", "ngram", "sound.txt", "--order", "2", "--tokenizer", "word"],
    "bytes": [
        "fit",
        "ngram",
        "sound.txt",
        "--tokenizer",
        "byte",
        "--unit",
        "stream",
        "--order",
        "3",
    ],
    "classes": ["fit", "naive-bayes", "sound.labels"],
    "tags": ["fit", "hmm-tagger", "sound.conll"],
    "vectors": [
        "fit",
        "word2vec",
        "sound.txt",
        "--min-count",
        "1",
        "--dimensions",
        "4",
        "--epochs",
        "1",
    ],
}


def run(count: int, seed: int) -> Counts:
    counts = Counts()
    with tempfile.TemporaryDirectory(prefix="seqloom-fuzz-") as folder:
        home = Path(folder)
        for kind, name in (
            ("text", "txt"),
            ("labels", "labels"),
            ("conll", "conll"),
            ("questions", "questions"),
        ):
            (home / f"sound.{name}").write_bytes(SOUND[kind][1])
        worker = Worker(folder)
        try:
            for name, args in MODELS.items():
                ended = worker.run([*args, "-o", name, "-q"])
                if ended.code != 0:
                    raise RuntimeError(f"cannot make the model {name}: {ended.err}")
            for number in range(count):
                _attempt(number, seed, home, worker, counts)
        finally:
            worker.stop()
    return counts


def _attempt(number: int, seed: int, home: Path, worker: Worker, counts: Counts) -> None:
    rng = random.Random(f"{seed} {number}")
    with tempfile.TemporaryDirectory(dir=home) as folder:
        place = Path(folder)
        kind, path, done = _file(rng, place)
        args = rng.choice(FITTING[kind] if rng.random() < 0.85 else EVERY)
        args = [
            arg.format(file=os.path.relpath(path, home), out=os.path.relpath(place / "out", home))
            for arg in args
        ]
        ended = worker.run(args, str(path) if "-" in args and path.is_file() else os.devnull)
    fault = ended.fault()
    if fault is not None:
        counts.wrong.append(f"attempt {number}: {' '.join(args)} with {done}: {fault}")
    elif ended.code:
        counts.refused += 1
    else:
        counts.worked += 1
