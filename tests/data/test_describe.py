"""The vocabulary report against plain counting."""

import json
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from seqloom.charts.theme import specification
from seqloom.cli.main import main
from seqloom.data.corpus import Corpus, read
from seqloom.data.describe import describe
from seqloom.text.segment import words
from seqloom.views import description


@pytest.fixture(scope="module")
def text(shakespeare: str) -> str:
    return shakespeare[:50_000]


def test_counts(text: str) -> None:
    train, _, test = Corpus.from_texts(text).split()
    counts = Counter(words(train.text()))
    asked = words(test.text())
    found = describe(text, kinds=("word",), sizes=(100, 500))
    assert (found.words, found.types, found.once) == (
        sum(counts.values()),
        len(counts),
        sum(n == 1 for n in counts.values()),
    )
    assert (found.n_bytes, found.documents, found.lines) == (len(text), 1, len(text.splitlines()))
    ranked = sorted(counts, key=lambda word: (-counts[word], word.encode()))
    for point in found.coverage:
        top = set(ranked[: point.types])
        assert point.train == pytest.approx(sum(counts[word] for word in top) / found.words)
        assert point.held_out == pytest.approx(sum(word in top for word in asked) / len(asked))
    for row, known in zip(found.rows, (set(ranked[:98]), set(ranked[:498]), set(ranked))):
        assert row.vocab_size == len(known) + 2
        assert row.tokens == len(asked)
        assert row.oov_rate == pytest.approx(sum(word not in known for word in asked) / len(asked))
        assert row.known_types == pytest.approx(len(known & set(asked)) / len(set(asked)))
    assert found.rows[-1].oov_rate == pytest.approx(1 - (found.coverage[-1].held_out or 0))


def test_every_kind(text: str) -> None:
    found = describe(
        text, sizes=(400, 100_000), kinds=("whitespace", "word", "char", "byte", "bpe", "wordpiece")
    )
    sizes = [(row.kind, row.vocab_size) for row in found.rows]
    assert len(sizes) == len(set(sizes))
    by_kind = {row.kind: row for row in found.rows}
    assert by_kind["byte"].oov_rate == by_kind["bpe"].oov_rate == 0
    assert by_kind["byte"].bytes_per_token == 1
    assert by_kind["bpe"].known_types is None
    assert by_kind["whitespace"].oov_rate > by_kind["word"].oov_rate > 0
    assert "tokenizers on held-out text (last tenth)" in found.table()
    assert json.dumps(found.to_dict())


def test_lengths() -> None:
    lines = ["a bb ccc", "", "dddd"] * 30
    found = {one.name: one for one in describe(lines, kinds=()).lengths}
    by_bytes = found["lines, in bytes"]
    assert (by_bytes.count, by_bytes.mean, by_bytes.median, by_bytes.longest) == (90, 4, 4, 8)
    assert sum(count for _, _, count in by_bytes.histogram) == 90
    assert by_bytes.histogram[0] == (0, 0, 30)
    assert by_bytes.histogram[-1][1] == 8
    assert found["words, in characters"].median == 2
    skewed = describe(["x"] * 999 + ["y" * 5000], kinds=()).lengths[0]
    assert skewed.histogram == [(0, 0, 0), (1, 5000, 1000)]


def test_held_out_text_and_normalisation(text: str) -> None:
    part = text[: text.index("\n", 5000)]
    plain = describe(text, held_out=part, kinds=("word",), sizes=())
    lower = describe(text, held_out=part, kinds=("word",), sizes=(), normalize="topic")
    assert plain.rows[0].oov_rate == 0  # it was learnt from
    assert plain.held_out == "text"
    assert lower.types < plain.types
    assert "normalised by topic" in lower.table()


def test_too_small_to_split() -> None:
    found = describe("a")
    assert (found.types, found.rows, found.held_out, found.coverage[0].held_out) == (
        1,
        [],
        "",
        None,
    )
    assert "a: " not in found.table()


def test_documents(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("to be or not to be\n" * (20 if name == "a.txt" else 60))
    found = describe(read(tmp_path), kinds=())
    assert found.documents == 2
    assert found.lengths[0].name == "documents, in bytes"
    assert "2 documents" in found.table()


def test_literal_unk(text: str) -> None:
    """In the Penn Treebank the word <unk> stands for all unknown ones; white space keeps it whole."""
    found = describe(text.replace("the", "<unk>"), kinds=("whitespace",), sizes=())
    assert found.rows[0].oov_rate > 0


def test_command(text: str, tmp_path: Path) -> None:
    path = tmp_path / "corpus.txt"
    path.write_text(text)
    start = ["data", "describe", str(path), "-q", "--kinds"]
    shown = CliRunner().invoke(main, [*start, "word,byte", "--sizes", "100,200"])
    assert shown.exit_code == 0, shown.output
    assert "most frequent words cover" in shown.output
    other = CliRunner().invoke(main, [*start, "byte", "--held-out", str(path), "--json"])
    values = json.loads(other.output)
    assert [row["kind"] for row in values["rows"]] == ["byte"]
    assert CliRunner().invoke(main, [*start, "byte", "--sizes", "many"]).exit_code


def test_few_things_have_the_longest_among_their_ends(tmp_path: Path) -> None:
    for name, times in (("a.txt", 20), ("b.txt", 60)):
        (tmp_path / name).write_text("to be or not to be\n" * times)
    documents = describe(read(tmp_path), kinds=()).lengths[0]
    assert (documents.median, documents.p90, documents.p99, documents.longest) == (
        380,
        1140,
        1140,
        1140,
    )
    assert [count for _, _, count in documents.histogram if count] == [1, 1]


# ---- pictures


def rows(chart: object) -> list[dict]:
    spec = specification(chart)
    json.dumps(spec, allow_nan=False)
    return [row for values in spec["datasets"].values() for row in values]


def test_charts_have_the_numbers(text: str) -> None:
    found = describe(text, kinds=("word", "bpe"), sizes=(300, 500))
    drawn = description(found).charts
    covered = rows(drawn["What the most frequent words cover"])
    assert [row["share"] for row in covered if row["text"] == "to learn from"] == [
        c.train for c in found.coverage
    ]
    assert [row["share"] for row in covered if row["text"] == "held-out"] == [
        c.held_out for c in found.coverage
    ]
    unknown = rows(drawn["Unknown tokens of held-out text"])
    assert [(row["name"], row["value"]) for row in unknown] == [
        (f"{row.kind} {row.vocab_size:,}", row.oov_rate) for row in found.rows
    ]
    assert [row["value"] for row in rows(drawn["How long tokens are"])] == [
        row.bytes_per_token for row in found.rows
    ]
    for one in found.lengths:
        bars = rows(drawn[f"Lengths of {one.name}"])
        assert [row["n"] for row in bars] == [count for _, _, count in one.histogram]
        assert [(row["from"] + row["to"]) / 2 for row in bars[:1]] == [
            sum(one.histogram[0][:2]) / 2
        ]  # around its numbers
        assert sum(row["share"] for row in bars) == pytest.approx(1)


def test_a_tiny_text_can_be_drawn(tmp_path: Path) -> None:
    assert list(description(describe("a")).charts) == [
        "What the most frequent words cover",
        "Lengths of lines, in bytes",
        "Lengths of lines, in words",
        "Lengths of words, in characters",
    ]
    description(describe("a")).save(tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_chart_option(text: str, tmp_path: Path) -> None:
    path = tmp_path / "corpus.txt"
    path.write_text(text)
    start = ["data", "describe", str(path), "-q", "--kinds", "word", "--chart"]
    done = CliRunner().invoke(main, [*start, str(tmp_path / "c.html")])
    assert done.exit_code == 0, done.output
    page = (tmp_path / "c.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert len(page.encode()) < 3_000_000
    assert "<h2>Unknown tokens of held-out text</h2>" in page
    assert "<td>word</td>" in page
    wrong = CliRunner().invoke(main, ["data", "describe", "no such file", "-q", "--chart", "c.pgn"])
    assert "did you mean 'png'" in str(wrong.exception)  # before anything is read


def test_held_out_text_beside_a_table(text: str, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(
        "".join(json.dumps({"t": line, "u": "x"}) + "\n" for line in text.split("\n"))
    )
    (tmp_path / "held.txt").write_text(text[:2000])
    done = CliRunner().invoke(
        main,
        [
            "data",
            "describe",
            str(tmp_path / "rows.jsonl"),
            "--column",
            "t",
            "--held-out",
            str(tmp_path / "held.txt"),
            "--kinds",
            "word",
            "-q",
            "--json",
        ],
    )
    assert done.exit_code == 0, done.exception
    assert json.loads(done.output)["held_out"] == "held.txt"
