r"""ARPA files: the text format of n-gram models that SRILM, KenLM and others exchange.

Probabilities there are log10; ours are natural logarithms. Fields are separated by ASCII white
space. A literal `<s>`, `</s>` or `<unk>` of the corpus gets a backslash in front, and what would
break a line is written as `\u{20}`, so every model survives the round trip. A model read from ARPA
splits text at white space. Files of pruned models may lack a prefix or a suffix of an n-gram: a
missing prefix is filled in with its backed-off probability, a missing suffix is stepped over.
"""

from __future__ import annotations

import gzip
import hashlib
import math
import re
import zlib
from array import array
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NoReturn, cast

import numpy as np

from seqloom import progress
from seqloom.directories import writing_file
from seqloom.errors import ConfigError, DataError, ModelError
from seqloom.models.language.configs import NGramConfig
from seqloom.models.language.ngram import NGram
from seqloom.models.language.trie import Doubled, Explicit, Trie, from_levels
from seqloom.text.tokenizer import Tokenizer

LN10 = math.log(10)
NEVER = -99.0  # log10 of zero, by convention
MAX_WEIGHT = 1e30  # of a weight, in either direction; float32 ends soon after
UNKNOWN = -100.0  # log10 for <unk> where the file has none, as KenLM has it
LONGEST_LINE = 1 << 20  # bytes
BATCH = 50_000
BOS, EOS, UNK = b"<s>", b"</s>", b"<unk>"

_ESCAPED = re.compile(r"\\u\{([0-9a-f]+)\}")
_ESCAPE = re.compile("[\0\t-\r \udc80-\udcff]|" + r"\\(?=u\{[0-9a-f]+\})|^\\(?=(<s>|</s>|<unk>)$)")


def write_arpa(model: NGram, path: str | Path) -> None:
    """Write an n-gram model; compressed if the name ends in .gz."""
    if not isinstance(model, NGram):
        raise ConfigError(f"only n-gram models can be written as ARPA; this model is {model.name}")
    trie = model.trie
    if not trie.chained:
        raise ConfigError(
            f"{model.config.smoothing} cannot be written as ARPA: its unseen words do not back off"
        )
    names = _names(model.tokenizer)
    sizes = np.diff(trie.level_starts[1:])
    with (
        writing_file(path, ModelError) as partial,
        _open(partial, "wb", Path(path).name.endswith(".gz")) as file,
        progress.task("writing ARPA", int(sizes.sum()), "n-grams") as bar,
    ):
        file.write(
            "".join(["\\data\\\n", *(f"ngram {k}={n}\n" for k, n in enumerate(sizes, 1))]).encode()
        )
        for k, (size, lines) in enumerate(zip(sizes, _levels(trie, names)), 1):
            file.write(f"\n\\{k}-grams:\n".encode())
            for batch in lines:
                file.write(batch.encode())
            bar.advance(int(size))
        file.write(b"\n\\end\\\n")


def _names(tokenizer: Tokenizer) -> list[str]:
    """Return the spelling in the file of each token, and after them of `<s>`; no two alike."""
    spelled = [tokenizer.token_bytes(i) for i in range(tokenizer.vocab_size)]
    if tokenizer.kind == "wordpiece":  # its ##ing is not its ing
        spelled = [tokenizer.token(i).encode() for i in range(tokenizer.vocab_size)]
    names = [
        _escape(s.decode("utf-8", "surrogateescape") or tokenizer.token(i))
        for i, s in enumerate(spelled)
    ]
    names[tokenizer.eos_id] = EOS.decode()
    if tokenizer.unk_id is not None:
        names[tokenizer.unk_id] = UNK.decode()
    times = Counter(names)  # a stranger's tokenizer may spell the same bytes in two ways
    names = [name if times[name] == 1 else f"{name}\\#{i}" for i, name in enumerate(names)]
    return [*names, BOS.decode()]


def _levels(trie: Trie, names: list[str]) -> Iterator[Iterator[str]]:
    """Yield for each order the lines of its n-grams, in batches."""
    lookup = np.array(names, dtype=object)
    prefixes = np.array([""], dtype=object)
    for k in range(1, trie.order + 1):
        lo, hi, below = (int(trie.level_starts[i]) for i in (k, k + 1, k - 1))
        children = np.diff(trie.first[below : lo + 1].astype(np.int64)).astype(np.intp)
        words = lookup[trie.words[lo:hi]]
        ngrams = words if k == 1 else np.repeat(prefixes, children) + " " + words
        log_probs = np.maximum(trie.log_probs[lo:hi].astype(np.float64) / LN10, NEVER)
        backoffs = (
            np.maximum(trie.backoffs[lo:hi].astype(np.float64) / LN10, NEVER)
            if k < trie.order
            else None
        )
        yield _lines(ngrams, log_probs, backoffs)
        prefixes = ngrams


def _lines(ngrams: np.ndarray, log_probs: np.ndarray, backoffs: np.ndarray | None) -> Iterator[str]:
    for lo in range(0, len(ngrams), BATCH):
        part = slice(lo, lo + BATCH)
        if backoffs is None:
            yield "".join(f"{p:.8g}\t{g}\n" for p, g in zip(log_probs[part].tolist(), ngrams[part]))
        else:
            yield "".join(
                f"{p:.8g}\t{g}\t{b:.8g}\n"
                for p, g, b in zip(log_probs[part].tolist(), ngrams[part], backoffs[part].tolist())
            )


def read_arpa(path: str | Path) -> NGram:
    """Read an n-gram model from an ARPA file, plain or gzipped."""
    source = Path(path)
    if not source.is_file():
        raise DataError(f"{path}: no such file")
    with open(source, "rb") as raw:
        head = raw.read(8)
        raw.seek(0)
        digest = hashlib.file_digest(raw, "sha256").hexdigest()
    if head.startswith(b"mmap lm"):
        raise DataError(
            f"{path}: a KenLM binary, whose layout belongs to KenLM; "
            "convert the ARPA file that it was built from"
        )
    reader = None
    try:
        with _open(source, "rb", head.startswith(b"\x1f\x8b")) as file:
            reader = _Reader(file, str(path))
            levels, words = reader.read()
            tokenizer = Tokenizer.from_tokens(_tokens(words))
            trie = from_levels(_renumbered(levels, words, tokenizer), tokenizer.vocab_size)
    except Doubled as error:
        assert reader is not None
        reader.fail(str(error), reader.begins[error.order] + error.row)
    except (EOFError, OSError, zlib.error) as error:
        raise DataError(
            f"{path}: cannot be read or damaged ({error}); get a complete copy of the file"
        ) from None
    info = {
        "data": source.name,
        "data_hash": digest[:16],
        "source": "ARPA",
        "ngrams": {str(k): len(level[0]) for k, level in enumerate(levels, 1)},
    }
    config = NGramConfig(order=len(levels), smoothing="imported")
    return NGram.from_parts(config, {"text": tokenizer}, {}, trie.arrays(), info)


def _tokens(words: list[bytes]) -> list[Any]:
    """Return the ordinary words as the tokenizer is to find them in text."""
    ordinary = [w for w in words if w not in (BOS, EOS, UNK)]
    plain = [_unescape(w) for w in ordinary]
    return plain if len(set(plain)) == len(plain) else ordinary  # not our escapes, then


def _renumbered(levels: list[Explicit], words: list[bytes], tokenizer: Tokenizer) -> list[Explicit]:
    """Return the n-grams with the tokenizer's ids; it puts its specials first and keeps the order
    of the words.
    """
    ids: dict[bytes, int] = {
        EOS: tokenizer.eos_id,
        UNK: cast(int, tokenizer.unk_id),
        BOS: tokenizer.vocab_size,
    }
    ordinary = [w for w in words if w not in ids]
    ids |= {w: i for i, w in enumerate(ordinary, tokenizer.vocab_size - len(ordinary))}
    renumber = np.array([ids[w] for w in words], np.int64)
    return [(renumber[grams], log_probs, backoffs) for grams, log_probs, backoffs in levels]


class _Reader:
    """Reads section by section and checks what it reads; errors name the line."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self.file, self.name, self.line = file, name, 0
        self.begins: dict[int, int] = {}  # line of the first n-gram of each order

    def read(self) -> tuple[list[Explicit], list[bytes]]:
        counts = self._header()
        vocabulary: dict[bytes, int] = {}
        levels = []
        with progress.task("reading ARPA", sum(counts), "n-grams") as bar:
            for k, count in enumerate(counts, 1):
                levels.append(self._section(k, count, vocabulary, last=k == len(counts)))
                bar.advance(count)
        if self._next_text() != b"\\end\\":
            self.fail(
                "expected \\end\\; the file is cut off, or has more n-grams than its header says"
            )
        while self.file.read(1 << 20):  # gzip checks its sum at the very end
            pass
        missing = [w.decode() for w in (BOS, EOS) if w not in vocabulary]
        if missing:
            self.fail(f"the unigrams lack {' and '.join(missing)}")
        if UNK not in vocabulary:
            vocabulary[UNK] = len(vocabulary)
            grams, log_probs, backoffs = levels[0]
            levels[0] = (
                np.append(grams, [[vocabulary[UNK]]], axis=0),
                np.append(log_probs, np.float32(UNKNOWN * LN10)),
                np.append(backoffs, np.float32(0)),
            )
            progress.say(
                f"{self.name} has no <unk>; unknown words get log10 probability {UNKNOWN:g}"
            )
        return levels, list(vocabulary)

    def _header(self) -> list[int]:
        while (line := self._read_line()) and line.strip() != b"\\data\\" and self.line < 1000:
            pass
        if line.strip() != b"\\data\\":
            self.fail("no \\data\\ section; this is not an ARPA file")
        counts: list[int] = []
        while text := self._next_text():
            match = re.fullmatch(rb"ngram\s+(\d{1,9})\s*=\s*(\d{1,15})", text)
            if not match or int(match[1]) != len(counts) + 1:
                break
            counts.append(int(match[2]))
        if not counts or text != b"\\1-grams:":
            self.fail("expected 'ngram 1=COUNT', 'ngram 2=COUNT', ... and then \\1-grams:")
        return counts

    def _section(self, k: int, count: int, vocabulary: dict[bytes, int], last: bool) -> Explicit:
        if k > 1 and self._next_text() != f"\\{k}-grams:".encode():
            self.fail(
                f"expected \\{k}-grams: here; the number of {k - 1}-grams in the header may be wrong"
            )
        self.begins[k] = self.line + 1
        words, values = array("q"), array("d")  # they grow: a header may promise anything
        sizes = (k + 1,) if last else (k + 1, k + 2)
        for i in range(count):
            fields = self._read_line().split()
            if len(fields) not in sizes:
                weight = "no back-off weight at the highest order" if last else "a back-off weight"
                self.fail(
                    f"expected a probability, {k} words and {weight}; the header promises {count:,} "
                    f"{k}-grams and this is number {i + 1:,}"
                )
            if k == 1:
                self._add_word(fields[1], vocabulary)
            try:
                words.extend([vocabulary[w] for w in fields[1 : k + 1]])
                values.append(float(fields[0]))
                values.append(float(fields[-1]) if len(fields) == k + 2 else 0.0)
            except KeyError as error:
                self.fail(f"{error.args[0].decode('utf-8', 'replace')!r} is not among the unigrams")
            except ValueError:
                self.fail(
                    f"not a number: {b' '.join((fields[0], *fields[k + 1 :])).decode('utf-8', 'replace')!r}"
                )
        numbers = np.frombuffer(values, np.float64).reshape(-1, 2) if count else np.zeros((0, 2))
        bad = np.flatnonzero(~(numbers[:, 0] <= 1e-5) | ~(numbers[:, 1] < MAX_WEIGHT))
        if len(bad):
            self.fail(
                f"a log10 probability must not be above 0, nor a back-off weight inf or above "
                f"{MAX_WEIGHT:g}, nor any nan",
                self.begins[k] + bad[0],
            )
        numbers = np.maximum(numbers, -MAX_WEIGHT)
        log_probs = np.where(numbers[:, 0] <= NEVER, -np.inf, numbers[:, 0] * LN10)
        grams = (
            np.frombuffer(words, np.int64).reshape(-1, k) if count else np.zeros((0, k), np.int64)
        )
        backoffs = np.where(numbers[:, 1] <= -MAX_WEIGHT, -np.inf, numbers[:, 1] * LN10)
        return grams, log_probs.astype(np.float32), backoffs.astype(np.float32)

    def _add_word(self, word: bytes, vocabulary: dict[bytes, int]) -> None:
        if word in vocabulary:
            self.fail(f"{word.decode('utf-8', 'replace')!r} appears twice among the unigrams")
        try:
            word.decode()
        except UnicodeDecodeError:
            self.fail(f"{word.decode('utf-8', 'backslashreplace')!r} is not UTF-8 text")
        vocabulary[word] = len(vocabulary)

    def _read_line(self) -> bytes:
        self.line += 1
        line = self.file.readline(LONGEST_LINE)
        if len(line) == LONGEST_LINE:
            self.fail(f"a line of more than {LONGEST_LINE:,} bytes; this is not an ARPA file")
        return line

    def _next_text(self) -> bytes:
        while line := self._read_line():
            if text := line.strip():
                return text
        return b""

    def fail(self, message: str, line: int | None = None) -> NoReturn:
        raise DataError(f"{self.name}, line {self.line if line is None else line}: {message}")


def _open(path: Path, mode: str, gzipped: bool) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(path, mode, compresslevel=3) if gzipped else open(path, mode))


def _escape(token: str) -> str:
    if token.encode("utf-8", "surrogateescape") in (BOS, EOS, UNK):
        return "\\" + token
    return _ESCAPE.sub(lambda m: f"\\u{{{ord(m[0]):x}}}", token)


def _unescape(word: bytes) -> bytes:
    """Undo `_escape`; a lone byte stands as half of a surrogate pair."""
    if word[:1] == b"\\" and word[1:] in (
        BOS,
        EOS,
    ):  # a literal <unk> would become the unknown word
        return word[1:]
    return _ESCAPED.sub(_character, word.decode()).encode("utf-8", "surrogateescape")


def _character(match: re.Match[str]) -> str:
    code = int(match[1], 16)
    return (
        chr(code)
        if code < 0xD800 or 0xDC80 <= code <= 0xDCFF or 0xE000 <= code < 0x110000
        else match[0]
    )
