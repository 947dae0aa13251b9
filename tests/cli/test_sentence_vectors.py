"""Sentence vectors from the command line."""

import json

import numpy as np
import pytest

from tests.fuzz.specimens import SPECIMENS

LINES = ["the cat sat", "on the log", "", "a\tdog"]


@pytest.fixture
def saved(tmp_path):
    SPECIMENS["sentence-encoder"]().save(tmp_path / "model")
    (tmp_path / "lines.txt").write_text("\n".join(LINES) + "\n")
    (tmp_path / "pairs.tsv").write_text("the cat\ta cat\t5\nthe log\ta zebra\t1\nsat\ton\t2\n")
    return tmp_path


def test_embed(seqloom, saved):
    piped = "".join(f"{line}\n" for line in LINES)
    rows = seqloom("embed", "model", "--json", stdin=piped).json()
    assert [row["text"] for row in rows] == LINES
    made = seqloom("embed", "model", "-o", "lines.npy", stdin=piped)
    assert made.out == "lines.npy: 4 x 8\n"
    array = np.load(saved / "lines.npy")
    assert array.dtype == np.float32
    np.testing.assert_allclose(array, [row["vector"] for row in rows], atol=1e-6)
    plain = seqloom("embed", "model", "a\tdog").out.rstrip("\n").split("\t")
    assert (plain[0], len(plain)) == ("a dog", 9)
    assert seqloom("embed", "model", "-o", "none.npy", stdin="").out == "none.npy: 0 x 8\n"
    assert np.load(saved / "none.npy").shape == (0, 8)


def test_nearest_among_the_lines_of_a_file(seqloom, saved):
    found = seqloom("nearest", "model", "the cat", "log", "--among", "lines.txt", "-n", 2)
    assert found.out.startswith("the cat\n")
    assert len(found.out.splitlines()) == 6
    (first,) = seqloom("nearest", "model", "the cat sat", "--among", "lines.txt", "--json").json()
    assert first["nearest"][0]["text"] == "the cat sat"
    assert len(first["nearest"]) == 3  # blank lines are none


def test_evaluate_and_convert(seqloom, saved):
    (values,) = seqloom("evaluate", "model", "--on", "pairs.tsv", "--json").json()
    assert values["metrics"]["pairs"] == 3
    assert seqloom("convert", "model", "theirs", "--form", "hugging-face").code == 0
    assert json.loads((saved / "theirs" / "modules.json").read_text())[1]["path"] == "1_Pooling"
    (again,) = seqloom("convert", "theirs", "again", "--json").json()
    assert (again["model"], again["dimensions"]) == ("sentence-encoder", 8)
    assert seqloom("embed", "again", "the cat").out == seqloom("embed", "model", "the cat").out
    assert seqloom("convert", "model", "small", "--bits", 8).code == 0
    assert seqloom("embed", "small", "the cat").code == 0


def test_refusals_are_one_line(seqloom, saved):
    assert "give among" in seqloom("nearest", "model", "cat").one_line()
    assert "give among" in seqloom("nearest", "model", "cat", "--among", 5).one_line()
    assert (
        "must be a file or a number" in seqloom("nearest", "model", "cat", "--among", 0).one_line()
    )
    assert "missing.txt" in seqloom("nearest", "model", "cat", "--among", "missing.txt").one_line()
    assert "analogy is for word vectors" in seqloom("analogy", "model", "a", "b", "c").one_line()
    assert "give --on FILE" in seqloom("evaluate", "model", "lines.txt").one_line()
    assert "line 1" in seqloom("evaluate", "model", "--on", "lines.txt").one_line()
    assert "leave unknown out" in seqloom("embed", "model", "cat", "--unknown", "mean").one_line()
