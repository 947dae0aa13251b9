"""`seqloom bias`: the table, before and after, own lists, the saved vectors, and what is refused."""

import json

import numpy as np
import pytest

from seqloom import load
from seqloom.metrics.bias import weat
from seqloom.models.word_vectors.word_vectors import WordVectors


@pytest.fixture
def vectors(tmp_path):
    rng = np.random.default_rng(2)
    words = {
        "he": 1.0,
        "she": -1.0,
        "man": 0.9,
        "woman": -0.8,
        "captain": 0.7,
        "soldier": 0.5,
        "nurse": -0.7,
        "nanny": -0.5,
        "painter": 0.1,
        "baker": -0.1,
        "cook": -0.2,
        "guard": 0.3,
    }
    rows = np.c_[list(words.values()), 0.3 * rng.normal(size=(len(words), 4))]
    made = WordVectors.of(words, rows)
    made.save(tmp_path / "v")
    (tmp_path / "own.json").write_text(
        json.dumps(
            {
                "hard": ["captain", "soldier"],
                "soft": ["nurse", "nanny", "nowhere"],
                "m": ["he", "man"],
                "f": ["she", "woman"],
                "jobs": ["captain", "soldier", "nurse", "nanny"],
                "tests": {"work": ["hard", "soft", "m", "f"]},
            }
        )
    )
    return made


def test_the_numbers(seqloom, vectors):
    (found,) = seqloom("bias", "v", "--words", "own.json", "--json").json()
    wanted = weat(
        vectors, ["captain", "soldier"], ["nurse", "nanny"], ["he", "man"], ["she", "woman"]
    )
    assert found["tests"].keys() == {"work"}
    assert found["tests"]["work"]["effect_size"] == [pytest.approx(wanted.effect_size)]
    assert found["tests"]["work"]["p_value"] == [pytest.approx(1 / 6)]
    assert found["tests"]["work"]["missing"] == ["nowhere"]
    assert found["direction"]["pairs"] == [
        ["she", "he"],
        ["woman", "man"],
    ]  # of the built-in pairs those with vectors
    out = seqloom("bias", "v", "--words", "own.json").out
    assert f"work  {wanted.effect_size:.3f}  0.17" in out
    assert "skipped, without a vector: nowhere" in out
    assert "towards she: nurse -" not in out
    assert "towards she: nurse +" in out


def test_tests_by_the_names_of_lists(seqloom, vectors):
    (found,) = seqloom(
        "bias", "v", "--words", "own.json", "--test", "hard,soft,m,f", "--test", "work", "--json"
    ).json()
    assert found["tests"]["hard,soft,m,f"] == found["tests"]["work"]


def test_before_and_after(seqloom, vectors, tmp_path):
    (tmp_path / "pairs.txt").write_text("captain soldier 5\nnurse nanny 4\nhe nurse 1\n")
    done = seqloom(
        "bias",
        "v",
        "--words",
        "own.json",
        "--direction",
        "he,she",
        "--neutralise",
        "jobs",
        "--neutralise",
        "painter,baker",
        "--on",
        "pairs.txt",
        "-o",
        "out",
        "--chart",
        "lean.svg",
    )
    assert done.code == 0, done.err
    assert "p after" in done.out
    assert "spearman on pairs.txt: " in done.out
    assert done.out.endswith("written to out\nwritten to lean.svg\n")
    made = load(tmp_path / "out")
    line = vectors["he"] / np.linalg.norm(vectors["he"]) - vectors["she"] / np.linalg.norm(
        vectors["she"]
    )
    for word in ("captain", "soldier", "nurse", "nanny", "painter", "baker"):
        assert abs(made[word] @ line) < 1e-6
    assert made.similarity("nurse", "he") == pytest.approx(
        made.similarity("nurse", "she"), abs=1e-6
    )
    assert (made["cook"] == vectors["cook"]).all()
    drawn = (tmp_path / "lean.svg").read_text()
    assert "captain" in drawn
    assert "nearer to he" in drawn
    (left,) = seqloom(
        "bias", "v", "--words", "own.json", "--neutralise", "jobs", "--equalise", "none", "--json"
    ).json()
    assert max(abs(after) for _, after in left["neutral"]["leans"].values()) < 1e-6
    assert left["tests"]["work"]["effect_size"][1] != left["tests"]["work"]["effect_size"][0]


def test_tests_without_words_are_left_out_unless_asked_for(seqloom, vectors):
    done = seqloom("bias", "v")
    assert done.code == 0
    assert "no test could be made" in done.out
    assert "skipped tests that have a list without any known word" in done.err


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--test", "career-famly"], "did you mean 'career-family'"),
        (["--test", "career-family"], "no word of list X has a vector"),
        (["--direction", "hee,she"], "no vector for 'hee'; did you mean 'he'"),
        (["--direction", "he"], "not a pair he,she"),
        (["-o", "out"], "give --neutralise"),
        (["--equalise", "he,she"], "--equalise needs words"),
        (["--neutralise", "painter,bakr"], None),
        (["--neutralise", "bakr,cok"], "no vector for 'bakr'; did you mean 'baker'"),
        (["--neutralise", "he,cook"], "'he' is both among the words to neutralise and in a pair"),
        (["--neutralise", "occupation"], "did you mean 'occupations'"),
        (["--words", "none.json"], "cannot read none.json"),
        (["--chart", "a.gif"], ".png, .svg or .html"),
        (["--neutralise", "cook,guard", "-o", "own.json"], "own.json"),
    ],
)
def test_faults(seqloom, vectors, args, said):
    done = seqloom("bias", "v", *args)
    if said is None:  # some words are there: the others are said
        assert done.code == 0
        assert "words without a vector: bakr" in done.out
    else:
        assert said in done.one_line()
