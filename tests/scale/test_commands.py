"""Commands on two workers give what they give in one process, to the byte."""

import os

import numpy as np
import pytest

pytest.importorskip("distributed")

from seqloom import NaiveBayes, NGram, Tokenizer, Word2Vec
from seqloom.data.corpus import bundled
from tests.cli.conftest import seqloom  # noqa: F401

LINES = [line for line in bundled().text()[:60_000].split("\n") if line.strip()]


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """Files of several kinds, and saved models."""
    place = tmp_path_factory.mktemp("made")
    many = LINES * (25_000 // len(LINES) + 1)  # more than two batches
    (place / "many.txt").write_text("\n".join(many[:25_000]))  # the last line is open
    (place / "few.txt").write_bytes(
        b"\xef\xbb\xbf" + "\r\n".join(["süß", "", "to be or not", "  "]).encode() + b"\n"
    )
    (place / "empty.txt").touch()
    (place / "table.csv").write_text("id,text\n" + "".join(f'{n},"{n}\n be"\n' for n in range(50)))
    (place / "latin.txt").write_bytes("süß\nbitter\n".encode("latin-1"))
    labels = ["long" if len(line) > 40 else "short" for line in LINES]
    NaiveBayes().fit(LINES, labels).save(place / "nb")
    NGram(order=3, tokenizer="word").fit(LINES).save(place / "words")
    NGram(order=2, tokenizer="char", unit="document").fit(LINES).save(place / "documents")
    NGram(order=2, tokenizer="char", unit="stream").fit(LINES).save(place / "stream")
    Tokenizer(kind="word").fit(LINES).save(place / "tokenizer")
    Word2Vec(dimensions=8, epochs=1, min_count=1).fit(LINES[:50]).save(place / "vectors")
    return place


def lines(found):
    assert found.code == 0, found.err
    return found.out


@pytest.mark.parametrize(
    "command",
    [
        "predict nb many.txt few.txt empty.txt --json",
        "predict nb many.txt --proba",
        "predict nb table.csv --column text --keep id",
        "predict nb latin.txt --encoding latin-1 --json",
        "score words many.txt few.txt",
        "score words few.txt --tokens --json",
        "score documents many.txt few.txt",
        "tokenize few.txt many.txt --tokenizer tokenizer --ids",
        "embed vectors --lines few.txt --unknown mean --json",
    ],
)
def test_what_is_printed_is_the_same(seqloom, made, address, command):  # noqa: F811
    os.chdir(made)
    here = lines(seqloom(*command.split()))
    assert here
    assert lines(seqloom(*command.split(), "--cluster", address)) == here


@pytest.mark.parametrize("name", ["out.txt", "out.csv", "out.jsonl"])
def test_files_of_answers_are_the_same(seqloom, made, address, tmp_path, name):  # noqa: F811
    os.chdir(made)
    written = []
    for number, how in enumerate([(), ("--cluster", address)]):
        target = tmp_path / str(number) / name
        target.parent.mkdir()
        ran = seqloom("predict", "nb", "many.txt", "few.txt", "--proba", "-o", target, *how)
        assert ran.code == 0, ran.err
        assert sorted(os.listdir(target.parent)) == [name]
        written.append(target.read_bytes())
    assert written[0] == written[1]
    assert len(written[0].splitlines()) == 25_004 + (name != "out.jsonl")  # headings


def test_arrays_are_the_same(seqloom, made, address, tmp_path):  # noqa: F811
    os.chdir(made)
    common = ("embed", "vectors", "--lines", "many.txt", "--unknown", "mean", "--json")
    one = seqloom(*common, "-o", tmp_path / "one.npy").json()
    two = seqloom(*common, "-o", tmp_path / "two.npy", "--cluster", address).json()
    assert [row | {"output": ""} for row in one] == [row | {"output": ""} for row in two]
    assert (tmp_path / "one.npy").read_bytes() == (tmp_path / "two.npy").read_bytes()
    assert np.load(tmp_path / "two.npy").shape == (25_000, 8)


def test_a_vocabulary_is_the_same(seqloom, made, address, tmp_path):  # noqa: F811
    os.chdir(made)
    common = ("tokenize", "many.txt", "few.txt", "--kind", "word", "--min-count", 2, "--save")
    assert lines(seqloom(*common, tmp_path / "one"))
    assert lines(seqloom(*common, tmp_path / "two", "--cluster", address))
    one, two = ({f.name: f.read_bytes() for f in (tmp_path / n).iterdir()} for n in ("one", "two"))
    assert one == two


def test_evaluations_are_the_same(seqloom, made, address, tmp_path):  # noqa: F811
    os.chdir(made)
    rows = [f"{'long' if len(line) > 40 else 'short'}\t{line}\n" for line in LINES]
    (tmp_path / "rows.tsv").write_text("".join(rows * (45_000 // len(rows))))
    for command in (f"nb {tmp_path / 'rows.tsv'}", "words many.txt", "stream many.txt"):
        here = lines(seqloom("evaluate", *command.split(), "--json"))
        assert lines(seqloom("evaluate", *command.split(), "--json", "--cluster", address)) == here
    said = seqloom("evaluate", "vectors", "--on", "few.txt", "--cluster", address).one_line()
    assert "is for another task (word vectors)" in said


def test_what_makes_no_sense_on_a_cluster_is_refused(seqloom, made, address):  # noqa: F811
    os.chdir(made)
    for command, why in {
        "predict nb -": "reads files that all workers can open",
        "predict nb --stream": "leave --stream out",
        "predict nb few.txt -o out --resume": "goes on by itself",
        "predict nb few.txt -o few.txt": "is what is read",
        "score words few.txt --colour": "leave out --cluster",
        "score stream few.txt": "one sequence, which has no parts",
        "tokenize few.txt": "a finished tokenizer",
        "tokenize few.txt --kind bpe --save out": "bpe is trained by one process",
        "embed vectors king": "name them with --lines",
        "predict nb missing.txt": "no such file: missing.txt",
        "fit ngram - -o out": "reads files that all workers can open",
    }.items():
        ran = seqloom(*command.split(), "--cluster", address, stdin="to be\n")
        assert why in ran.one_line(), command
        assert not (made / "out").exists()


def test_options_of_a_cluster_need_one(seqloom, made):  # noqa: F811
    os.chdir(made)
    assert (
        "--work is for --cluster" in seqloom("score", "words", "few.txt", "--work", "w").one_line()
    )
    ran = seqloom("fit", "ngram", "few.txt", "-o", "out", "--parts", "3")
    assert "--parts is for --cluster" in ran.one_line()


def test_a_part_that_cannot_be_answered_is_named_and_the_others_are_kept(
    seqloom,  # noqa: F811
    made,
    address,
    tmp_path,
):
    os.chdir(made)
    (tmp_path / "good.csv").write_text("text\nto be\n")
    (tmp_path / "bad.csv").write_text('text\n"to be\n')
    names = (tmp_path / "good.csv", tmp_path / "bad.csv")
    common = ("predict", "nb", *names, "--column", "text", "-o", tmp_path / "out.csv")
    said = seqloom(*common, "--cluster", address).one_line()
    assert "bad.csv failed 3 times: " in said
    assert "the other 1 of 2 parts are done and kept in" in said
    assert not (tmp_path / "out.csv").exists()
    (tmp_path / "bad.csv").write_text("text\nnot to be\n")
    ran = seqloom(*common, "--cluster", address)
    assert "1 of 2 parts are there already" in ran.err
    assert (tmp_path / "out.csv").read_text().count("\n") == 3
    assert not (tmp_path / "out.csv.work").exists()


def test_a_file_that_is_no_text_is_said_as_in_one_process(seqloom, made, address):  # noqa: F811
    os.chdir(made)
    said = seqloom("predict", "nb", "latin.txt", "--cluster", address).one_line()
    assert "latin.txt is not UTF-8 text: line 1, byte offset 1 holds 0xFC" in said
