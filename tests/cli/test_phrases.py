"""`seqloom phrases`: the joined text, the list, saved phrases, and what is refused."""

import json

import pytest

TEXT = "i saw new york once\nnew york is large\nwe like new york\nis it large\n" * 6


@pytest.fixture
def text(tmp_path):
    (tmp_path / "t.txt").write_text(TEXT)
    return tmp_path


def test_joined_text(seqloom, text):
    done = seqloom("phrases", "t.txt", "-o", "j.txt", "--threshold", 0.7)
    assert (text / "j.txt").read_text() == TEXT.replace("new york", "new_york")
    assert done.out == "1 phrases of 96 words; joined 18 times\nwritten to j.txt\n"
    (found,) = seqloom(
        "phrases", "t.txt", "-o", "j.txt", "--threshold", 0.7, "--list", 3, "--json"
    ).json()
    assert (found["phrases"], found["tokens"], found["joined"]) == (1, 96, 18)
    assert [b["phrase"] for b in found["best"]] == ["new_york"]
    assert found["config"]["threshold"] == 0.7
    assert not list(text.glob(".*partial"))


def test_list_and_standard_input(seqloom, text):
    out = seqloom("phrases", "t.txt", "--threshold", 0.7).out.splitlines()
    assert out[0].split() == ["phrase", "count", "score"]
    assert out[1].split()[:2] == ["new_york", "18"]
    assert seqloom("phrases", "-", "--threshold", 0.7, stdin=TEXT).out.splitlines() == out
    assert seqloom("phrases", "t.txt", "--list", 0).out == "0 phrases of 96 words\n"


def test_save_and_use(seqloom, text):
    seqloom("phrases", "t.txt", "--threshold", 0.7, "--save", "p.json", "--joiner", "+")
    (text / "other.txt").write_text("in new york\n")
    done = seqloom("phrases", "other.txt", "--use", "p.json", "-o", "j.txt")
    assert done.code == 0, done.err
    assert (text / "j.txt").read_text() == "in new+york\n"
    assert json.loads((text / "p.json").read_text())["config"]["joiner"] == "+"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["none.txt"], "none.txt"),
        (["t.txt", "-o", "t.txt"], "the text itself"),
        (["t.txt", "-o", "no/where.txt"], "there is no directory"),
        (["t.txt", "--use", "t.txt"], "not a file of phrases"),
        (["t.txt", "--use", "p.json", "--min-count", 3], "leave out --min-count"),
        (["t.txt", "--use", "p.json", "--save", "q.json"], "leave out --save"),
        (["t.txt", "--scoring", "npmi", "--threshold", 10], "between -1 and 1"),
        (["t.txt", "--scoring", "nmpi"], "did you mean 'npmi'"),
        (["t.txt", "--joiner", " "], "without white space"),
    ],
)
def test_faults(seqloom, text, args, said):
    assert said in seqloom("phrases", *args).one_line()
    assert (text / "t.txt").read_text() == TEXT


def test_a_file_without_phrases_is_used_as_it_is(seqloom, text):
    seqloom("phrases", "t.txt", "--save", "none.json")
    (text / "other.txt").write_text("in new york\n")
    used = seqloom("phrases", "other.txt", "--use", "none.json", "-o", "j.txt")
    assert used.out == "0 phrases of 96 words; joined 0 times\nwritten to j.txt\n"
