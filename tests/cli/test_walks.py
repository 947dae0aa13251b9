"""How often work is done: a text is read at most twice by `fit`, a line is tokenised once by
`translate`, and so on.
"""

import csv
import gzip
import hashlib
import io
import json
import lzma
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import seqloom as library
from seqloom.cli.translate import Job
from seqloom.comparison import bench, run
from seqloom.comparison.classification import ClassificationLadder
from seqloom.contracts import Forecaster
from seqloom.data.documents import CHUNK, Document
from seqloom.data.tables import Parquet
from seqloom.models.word_vectors.reading import read_words
from seqloom.text.tokenizer import Tokenizer
from tests.comparison.test_tasks import reviews
from tests.fuzz.specimens import SPECIMENS

LATIN = "caf\u00e9 na\u00efve\n"


@pytest.fixture
def readings(monkeypatch):
    """How often each file, by its name, was read to its end; looking at its beginning does not count."""
    ended = Counter()
    raw, blocks = Document._raw, Parquet.blocks

    def counted_raw(self, *arguments):
        yield from raw(self, *arguments)
        ended[Path(self.name).name] += 1

    def counted_blocks(self, wanted):
        yield from blocks(self, wanted)
        ended[Path(self.document.name).name] += 1

    monkeypatch.setattr(Document, "_raw", counted_raw)
    monkeypatch.setattr(Parquet, "blocks", counted_blocks)
    return ended


@pytest.fixture(scope="module")
def text(shakespeare):
    return shakespeare[:120_000]


def table_rows(shakespeare):
    """Long rows: the file has several megabytes, so that its first rows are not all of it."""
    lines = shakespeare.replace("\t", " ").split("\n")
    return [" ".join(lines[i::100]) for i in range(100) for _ in range(3)]


def write_csv(path, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("n", "text"), *enumerate(rows)])


def write_source(place, kind, text, rows):
    """A text of some kind; what `fit` is given, and what it is read with."""
    (place / "folder").mkdir()
    if kind in ("folder", "pattern"):
        for i in range(3):
            (place / "folder" / f"{i}.txt").write_text(text[i * 30_000 : (i + 1) * 30_000])
        return "folder" if kind == "folder" else "folder/*.txt", ()
    if kind == "folder of tables":
        for i in range(2):
            write_csv(place / "folder" / f"{i}.csv", rows)
        return "folder", ("--column", "text")
    packers = {"a.gz": gzip.compress, "a.xz": lzma.compress}
    if kind in packers:
        (place / kind).write_bytes(packers[kind](text.encode()))
    elif kind == "a.zst":
        (place / kind).write_bytes(
            pytest.importorskip("zstandard").ZstdCompressor().compress(text.encode())
        )
    elif kind == "latin.txt":
        (place / kind).write_bytes((LATIN + text).encode("latin-1"))
        return kind, ("--encoding", "latin-1")
    elif kind == "a.csv":
        write_csv(place / kind, rows)
    elif kind == "a.jsonl":
        (place / kind).write_text(
            "".join(json.dumps({"n": i, "text": row}) + "\n" for i, row in enumerate(rows))
        )
    elif kind == "a.parquet":
        pytest.importorskip("polars").DataFrame(
            {"n": range(len(rows)), "text": rows}
        ).write_parquet(place / kind)
    else:
        (place / kind).write_text(text)
    return kind, ("--column", "text") if Path(kind).suffix in (".csv", ".jsonl", ".parquet") else ()


def expected_hash(kind, text, rows):
    """What is recorded of a text, made in another way than by reading it."""

    def of_table():
        texts = [f"{row}\n".encode() for row in rows]
        ends = np.cumsum([len(one) for one in texts]).astype("<i8").tobytes()
        return hashlib.sha256(b"".join(texts) + hashlib.sha256(ends).digest()).hexdigest()

    if kind in ("folder", "pattern"):
        parts = [
            hashlib.sha256(text[i * 30_000 : (i + 1) * 30_000].encode()).hexdigest()
            for i in range(3)
        ]
    elif kind == "folder of tables":
        parts = [of_table()] * 2
    elif kind in ("a.csv", "a.jsonl", "a.parquet"):
        parts = [of_table()]
    else:
        parts = [
            hashlib.sha256(((LATIN if kind == "latin.txt" else "") + text).encode()).hexdigest()
        ]
    return (parts[0] if len(parts) == 1 else hashlib.sha256(" ".join(parts).encode()).hexdigest())[
        :16
    ]


# ---- fit reads a text twice


@pytest.mark.parametrize(
    "kind",
    [
        "a.txt",
        "folder",
        "pattern",
        "a.gz",
        "a.xz",
        "a.zst",
        "latin.txt",
        "a.csv",
        "a.jsonl",
        "a.parquet",
        "folder of tables",
        "stdin",
    ],
)
def test_fit_reads_any_kind_of_source_twice(seqloom, tmp_path, readings, text, shakespeare, kind):
    rows = table_rows(shakespeare)
    source, options = ("-", ()) if kind == "stdin" else write_source(tmp_path, kind, text, rows)
    done = seqloom(
        "fit",
        "ngram",
        source,
        "-o",
        "m",
        "--order",
        2,
        "--json",
        *options,
        stdin=text if kind == "stdin" else "",
    )
    assert done.code == 0
    assert readings
    assert set(readings.values()) == {2}
    assert done.json()[0]["data_hash"] == expected_hash(kind, text, rows)


@pytest.mark.parametrize(
    ("kind", "times"),
    [
        ("byte", 1),
        ("whitespace", 2),
        ("word", 2),
        ("char", 2),
        ("bpe", 2),
        ("unigram", 2),
        ("wordpiece", 2),
    ],
)
def test_a_tokenizer_is_made_in_one_reading(seqloom, tmp_path, readings, text, kind, times):
    (tmp_path / "a.txt").write_text(text)
    done = seqloom("fit", "ngram", "a.txt", "-o", "m", "--order", 2, "--tokenizer", kind, "--json")
    assert done.json()[0]["bytes"] == len(text)
    assert readings == {"a.txt": times}


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("hmm", ("--states", 2, "--iterations", 1)),
        ("uniform", ()),
        ("cache", ()),
        ("word2vec", ("--epochs", 1, "--dimensions", 4)),
        ("glove", ("--epochs", 1, "--dimensions", 4)),
        ("fasttext", ("--epochs", 1, "--dimensions", 4, "--buckets", 100)),
        ("lstm", ("--steps", 1, "--d-hidden", 4)),
        ("gpt", ("--steps", 1, "--d-model", 8, "--n-heads", 2)),
    ],
)
def test_all_models_of_text_read_it_twice(seqloom, tmp_path, readings, text, model, options):
    if model in ("lstm", "gpt"):
        pytest.importorskip("torch")
    (tmp_path / "a.gz").write_bytes(gzip.compress(text.encode()))
    done = seqloom("fit", model, "a.gz", "-o", "m", "--json", *options)
    assert done.code == 0
    assert done.json()[0]["data_hash"] == hashlib.sha256(text.encode()).hexdigest()[:16]
    assert readings["a.gz"] <= 2


def test_a_packed_text_that_no_tokenizer_has_read_is_worked_on_in_a_file_too(
    tmp_path, readings, text
):
    (tmp_path / "a.gz").write_bytes(gzip.compress(text.encode()))
    tokenizer = Tokenizer(kind="whitespace").fit(text)
    stream = read_words(library.read(tmp_path / "a.gz"), tokenizer, "line", memory=len(text) - 1)
    assert isinstance(stream.ids.base, np.memmap)
    assert readings["a.gz"] == 2


def test_labelled_and_parallel_tables_are_read_once(seqloom, tmp_path, readings, shakespeare):
    pytest.importorskip("torch")
    rows = table_rows(shakespeare)
    (tmp_path / "a.tsv").write_text(
        "text\tlabel\n" + "".join(f"{row}\t{'ab'[i % 2]}\n" for i, row in enumerate(rows))
    )
    (tmp_path / "p.tsv").write_text(
        "de\ten\n" + "".join(f"{row}\t{row[:50]}\n" for row in rows) + "a\tb\n"
    )
    assert seqloom("fit", "naive-bayes", "a.tsv", "-o", "nb").code == 0
    (tmp_path / "valid.tsv").write_text("de\ten\na\tb\n")
    assert (
        seqloom(
            "fit",
            "seq2seq",
            "p.tsv",
            "-o",
            "s",
            "--valid",
            "valid.tsv",
            "--steps",
            1,
            "--d-hidden",
            4,
            "--d-embed",
            4,
            "--tokenizer",
            "char",
            "--max-length",
            9,
        ).code
        == 0
    )
    del readings["valid.tsv"]
    assert readings == {"a.tsv": 1, "p.tsv": 1}


def test_a_corpus_that_was_read_is_not_read_for_its_hash(tmp_path, readings, text):
    (tmp_path / "a.txt").write_text(text)
    corpus = library.read(tmp_path / "a.txt")
    assert list(corpus.lines()) == text.split("\n")
    assert corpus.fingerprint == hashlib.sha256(text.encode()).hexdigest()
    assert corpus.text() == text
    assert readings == {"a.txt": 2}


# ---- files of a directory that are not text


@pytest.fixture
def mixed(tmp_path, text):
    """A file that is not text, which is seen after more than a chunk of it; and the others."""
    for name in ("mixed", "good"):
        (tmp_path / name).mkdir()
        for i in range(2):
            (tmp_path / name / f"{i}.txt").write_text(text[i * 30_000 : (i + 1) * 30_000])
    (tmp_path / "mixed" / "0-late.txt").write_bytes(
        (text * (CHUNK // len(text) + 1)).encode() + LATIN.encode("latin-1")
    )
    return tmp_path


@pytest.mark.parametrize("kind", ["bpe", "word", "byte", "wordpiece"])
def test_what_turns_out_not_to_be_text_leaves_no_trace(seqloom, mixed, kind):
    options = ("--order", 2, "--tokenizer", kind, "-o")
    done = seqloom("fit", "ngram", "mixed", *options, "a")
    assert done.err.count("mixed: skipped 1 file: not valid UTF-8 (0-late.txt)") == 1
    seqloom("fit", "ngram", "good", *options, "b")
    assert (mixed / "a" / "model.safetensors").read_bytes() == (
        mixed / "b" / "model.safetensors"
    ).read_bytes()
    facts = [json.loads((mixed / name / "config.json").read_text())["fit"] for name in "ab"]
    assert [one.pop("data") for one in facts] == ["mixed", "good"]
    assert facts[0] == facts[1]


def test_several_sources_are_called_by_how_many_are_text(seqloom, mixed):
    assert (
        seqloom("fit", "ngram", "mixed", "good", "-o", "m", "--order", 2, "--json").json()[0][
            "data"
        ]
        == "4 files"
    )


def test_a_table_that_is_not_text_is_left_out_of_a_folder(seqloom, tmp_path, readings, shakespeare):
    (tmp_path / "d").mkdir()
    rows = table_rows(shakespeare)
    write_csv(tmp_path / "d" / "a.csv", rows)
    (tmp_path / "d" / "b.csv").write_bytes(b"n,text\n1," + LATIN.encode("latin-1"))
    done = seqloom("fit", "ngram", "d", "-o", "m", "--order", 2, "--column", "text", "--json")
    assert "d: skipped 1 file: not valid UTF-8 (b.csv)" in done.err
    assert done.json()[0]["data_hash"] == expected_hash("a.csv", "", rows)
    assert readings["a.csv"] == 2
    refused = seqloom("fit", "ngram", "d", "-o", "n", "--column", "text", "--strict")
    assert (refused.code, "d/b.csv is not UTF-8 text" in refused.err) == (1, True)


def test_where_nothing_is_text_the_first_file_is_named(seqloom, tmp_path):
    (tmp_path / "d").mkdir()
    for name in ("a.txt", "b.csv"):
        (tmp_path / "d" / name).write_bytes(LATIN.encode("latin-1"))
    assert "d/a.txt is not UTF-8 text" in seqloom("fit", "ngram", "d", "-o", "m").err
    assert "d/b.csv is not UTF-8 text" in seqloom("fit", "ngram", "d/*.csv", "-o", "m").err
    (tmp_path / "good.txt").write_text("some text\n")
    assert (
        "d/a.txt is not UTF-8 text" in seqloom("fit", "ngram", "good.txt", "d/*.txt", "-o", "m").err
    )


# ---- each line is tokenised once


@pytest.fixture
def tokenised(monkeypatch):
    """How often each line was made into tokens."""
    lines = Counter()
    encode_block = Tokenizer.encode_block

    def counted(self, data, newline_ends):
        lines.update(data.decode().removesuffix("\n").split("\n"))
        return encode_block(self, data, newline_ends)

    monkeypatch.setattr(Tokenizer, "encode_block", counted)
    return lines


LINES = [
    "abcde"[i % 5 :] * (1 + i % 7)
    + "".join("abcde"[int(digit) % 5] for digit in f"{i:03}")
    + "e" * (i // 100)
    for i in range(200)
]


@pytest.fixture(scope="module")
def translators(tmp_path_factory):
    pytest.importorskip("torch")
    made = tmp_path_factory.mktemp("translators")
    for name in ("seq2seq", "transformer"):
        SPECIMENS[name]().save(made / name)
    (made / "lines").write_text("\n".join(LINES) + "\n")
    return made


@pytest.mark.parametrize("model", ["seq2seq", "transformer"])
@pytest.mark.parametrize(
    "options",
    [
        ("--beams", 1),
        ("--beams", 3),
        ("--nbest", 2),
        ("--json",),
        ("--json", "--nbest", 2),
        ("--search", "sample"),
        ("--prefix", "a"),
        ("-o", "out"),
    ],
    ids=str,
)
def test_translate_tokenises_each_line_once(seqloom, translators, tokenised, model, options):
    done = seqloom(
        "translate", translators / model, translators / "lines", "--max-tokens", 3, *options
    )
    assert done.code == 0
    assert {line: tokenised[line] for line in LINES} == dict.fromkeys(LINES, 1)


def test_each_member_of_an_ensemble_tokenises_a_line_once(seqloom, translators, tokenised):
    assert (
        seqloom(
            "translate",
            translators / "seq2seq",
            translators / "lines",
            "--max-tokens",
            3,
            "--with",
            translators / "seq2seq",
        ).code
        == 0
    )
    assert {line: tokenised[line] for line in LINES} == dict.fromkeys(LINES, 2)


def test_a_resumed_translation_tokenises_the_lines_that_are_left(
    seqloom, translators, tokenised, monkeypatch, tmp_path
):
    args = (
        "translate",
        translators / "seq2seq",
        translators / "lines",
        "--max-tokens",
        3,
        "-o",
        "out",
    )
    whole = seqloom(*args).code, (tmp_path / "out").read_text()
    (tmp_path / "out").unlink()
    lines = Job.lines

    def interrupted(self, number, source, best):
        if number == 101:
            raise KeyboardInterrupt
        return lines(self, number, source, best)

    monkeypatch.setattr(Job, "lines", interrupted)
    assert seqloom(*args).code == 130
    monkeypatch.setattr(Job, "lines", lines)
    tokenised.clear()
    assert (seqloom(*args, "--resume").code, (tmp_path / "out").read_text()) == whole
    assert {line: tokenised[line] for line in LINES} == dict.fromkeys(
        LINES[:100], 0
    ) | dict.fromkeys(LINES[100:], 1)


def test_a_dictionary_does_not_tokenise_lines_to_sort_them(
    seqloom, tokenised, translators, tmp_path
):
    library.Dictionary().fit([("das Haus", "the house"), ("ein Hund", "a dog")]).save(
        tmp_path / "m"
    )
    tokenised.clear()
    assert seqloom("translate", "m", translators / "lines").code == 0
    assert sum(tokenised[line] for line in LINES) == 0


@pytest.mark.parametrize("options", [{}, {"select_by": "bleu"}, {"max_length": 9}], ids=str)
@pytest.mark.parametrize("reads", ["texts", "numbers"])
def test_fit_encodes_both_sides_of_a_pair_once(tokenised, options, reads):
    pytest.importorskip("torch")
    targets = [line.upper() for line in LINES]
    sources = (
        LINES
        if reads == "texts"
        else [np.full((1 + i % 20, 2), i, np.float32) for i in range(len(LINES))]
    )
    model = library.Seq2Seq(tokenizer="char", d_hidden=4, d_embed=4, **options)
    model.fit(sources, targets, train=library.TrainConfig(steps=2, evaluate_every=1))
    assert {line: tokenised[line] for line in targets} == dict.fromkeys(targets, 1)
    trained = [i for i in range(200) if i not in held_out(sources, targets)]
    steps = [len(source) + (reads == "texts") for source in sources]
    short = [i for i in trained if max(steps[i], len(targets[i]) + 1) <= model.config.max_length]
    assert model.learnt["longest_source"] == max(len(sources[i]) for i in short)
    assert model.learnt["longest_target"] == max(map(len, targets)) + 1
    if reads == "texts":
        assert {line: tokenised[line] for line in LINES} == dict.fromkeys(LINES, 1)


def held_out(sources, targets):
    """The pairs that no weights are learnt from."""
    from seqloom.models.translation.pairs import hold_out

    _, valid = hold_out(library.Parallel.of(sources, targets), None)
    return [targets.index(target) for target in valid.targets]


# ---- comparing and forecasting


def test_compare_makes_each_model_once(seqloom, tmp_path, monkeypatch):
    made = Counter()
    model_class, choose = bench.model_class, run._choose
    monkeypatch.setattr(ClassificationLadder, "warm_up", lambda self: None)
    monkeypatch.setattr(bench, "model_class", lambda name: made.update([name]) or model_class(name))
    monkeypatch.setattr(run, "_choose", lambda *given: made.update(["rungs"]) or choose(*given))
    monkeypatch.setattr(
        run.ladders,
        "of_data",
        lambda data, of=run.ladders.of_data: made.update(["ladder"]) or of(data),
    )
    (tmp_path / "reviews.tsv").write_text(
        "text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in reviews(200))
    )
    args = (
        "compare",
        "reviews.tsv",
        "--rungs",
        "majority,bayes-1,cnn",
        "--minutes",
        0.01,
        "--work",
        "work",
    )
    names = {"majority": 1, "naive-bayes": 1}
    try:
        import torch  # noqa: F401
    except ImportError:
        pass
    else:
        names["classifier"] = 1
    for _ in range(2):  # the second time, finished rungs are read
        made.clear()
        assert seqloom(*args).code == 0
        assert {name: made[name] for name in names} == names
        assert made["rungs"] == 1
        assert made["ladder"] == 1


def test_a_drawn_forecast_is_made_once(seqloom, tmp_path, monkeypatch):
    pytest.importorskip("vl_convert")
    out = io.StringIO()
    rows = [(f"2024-01-{1 + hour // 24:02} {hour % 24:02}:00:00", hour % 24) for hour in range(480)]
    csv.writer(out).writerows([("date", "load"), *rows])
    (tmp_path / "a.csv").write_text(out.getvalue())
    library.SeasonalNaive(horizon=12).fit(tmp_path / "a.csv").save(tmp_path / "m")
    calls, forecast = [], Forecaster.forecast

    def counted(self, *given, **named):
        calls.append(given)
        return forecast(self, *given, **named)

    monkeypatch.setattr(Forecaster, "forecast", counted)
    plain = seqloom("forecast", "m", "a.csv", "--horizon", 3)
    drawn = seqloom("forecast", "m", "a.csv", "--horizon", 3, "--chart", "f.svg")
    assert (drawn.code, drawn.out) == (0, plain.out)
    assert (tmp_path / "f.svg").stat().st_size > 1000
    assert len(calls) == 2  # one for each command
