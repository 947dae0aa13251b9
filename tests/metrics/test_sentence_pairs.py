from pathlib import Path

import pytest

from seqloom.errors import DataError
from seqloom.metrics.sentence_vectors import as_pairs, read_pairs
from seqloom.metrics.word_vectors import read_questions

PAIRS = [("a cat, here", "# a dog", 3.5), (": one", "two; three", 0.0)]


@pytest.mark.parametrize(
    "lines",
    [
        ["a cat, here\t# a dog\t3.5", ": one\ttwo; three\t0", ""],
        ["a cat, here\t# a dog\t3.5\tsource", ": one\ttwo; three\t0\tsource"],
        [
            "score\tsentence1\tid\tsentence2",
            "3.5\ta cat, here\t7\t# a dog",
            "0\t: one\t8\ttwo; three",
        ],
        [
            "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment",
            "1\ta cat, here\t# a dog\t3.5\tNEUTRAL",
            "2\t: one\ttwo; three\t0\tNEUTRAL",
        ],
        [
            "main-captions\tMSRvid\t2012test\t0001\t3.5\ta cat, here\t# a dog",
            "main\tMSRvid\t2012\t0005\t0.0\t: one\ttwo; three",
        ],
    ],
)
def test_forms_of_files(lines):
    for ends in ("\n", "\r\n"):
        assert read_pairs(ends.join(lines).encode(), "pairs.tsv").pairs == PAIRS


def test_where_pairs_come_from(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{a}\t{b}\t{score}\n" for a, b, score in PAIRS))
    assert as_pairs(path).pairs == as_pairs(PAIRS).pairs == as_pairs(as_pairs(PAIRS)).pairs == PAIRS
    assert as_pairs(path).fingerprint == as_pairs(PAIRS).fingerprint
    assert as_pairs(path).name == "pairs.tsv"


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (Path("missing.tsv"), "cannot read"),
        ("pairs.tsv", "give Path"),
        (7, "got int"),
        ([("a", "b")], "expected"),
        ([("a", "b", "c")], "expected"),
        ([("a", "b", float("nan"))], "expected"),
        ([], "no pairs"),
        (read_questions(b"a b c d\n", "analogies"), "has analogies"),
    ],
)
def test_what_is_no_list_of_pairs_is_refused(bad, message):
    with pytest.raises(DataError, match=message) as error:
        as_pairs(bad)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "line"),
    [("a\tb\t1\na\tb\n", 2), ("a b 1\n", 1), ("a\tb\tc\n", 1), ("\n\na\tb\t1\nx\ty\tz", 4)],
)
def test_a_line_of_another_form_is_named(text, line):
    with pytest.raises(DataError, match=rf"f\.tsv, line {line}: not two texts and a number"):
        read_pairs(text.encode(), "f.tsv")
