"""The association test against its formulas in plain Python, over all partitions; lists and what is
refused.
"""

import itertools
import json
import math
import statistics

import numpy as np
import pytest

from seqloom.errors import ConfigError, DataError
from seqloom.metrics import bias
from seqloom.metrics.bias import (
    as_pairs,
    built_in,
    direct_bias,
    p_of_partition,
    read_word_lists,
    told_by_neighbours,
    weat,
    with_built_in,
    word_list,
)


class Table:
    def __init__(self, words):
        self.words = words

    def knows(self, word):
        return word in self.words

    def rows(self, words):
        return np.array([self.words[word] for word in words], np.float32)


@pytest.fixture
def table():
    rng = np.random.default_rng(3)
    return Table(
        {
            f"{name}{i}": rng.normal(size=6) + (name in "xa")
            for name, size in (("x", 5), ("y", 4), ("a", 3), ("b", 6))
            for i in range(size)
        }
    )


def words_of(table, letter):
    return [word for word in table.words if word.startswith(letter)]


def cosine(u, v):
    return sum(p * q for p, q in zip(u, v)) / math.sqrt(
        sum(p * p for p in u) * sum(q * q for q in v)
    )


def slow_weat(table, x, y, a, b):
    s = {
        w: statistics.mean(cosine(table.words[w], table.words[k]) for k in a)
        - statistics.mean(cosine(table.words[w], table.words[k]) for k in b)
        for w in (*x, *y)
    }
    effect = (
        statistics.mean(s[w] for w in x) - statistics.mean(s[w] for w in y)
    ) / statistics.stdev(s.values())

    def statistic(chosen):
        return sum(v if w in chosen else -v for w, v in s.items())

    every = [statistic(set(chosen)) for chosen in itertools.combinations(s, len(x))]
    return (
        effect,
        sum(value >= statistic(set(x)) - 1e-9 for value in every) / len(every),
        statistic(set(x)),
        len(every),
    )


def test_equal_to_the_formulas_over_all_partitions(table):
    four = [words_of(table, letter) for letter in "xyab"]
    found = weat(table, *four)
    effect, p_value, statistic, count = slow_weat(table, *four)
    assert found.effect_size == pytest.approx(effect, abs=1e-6)
    assert found.p_value == pytest.approx(p_value, abs=1e-12)
    assert found.statistic == pytest.approx(statistic, abs=1e-6)
    assert (found.partitions, found.exact, found.missing) == (count, True, ())
    turned = weat(table, four[1], four[0], four[2], four[3])
    assert turned.effect_size == pytest.approx(-effect, abs=1e-6)
    assert effect > 0.5
    assert turned.p_value > 0.5 > found.p_value


@pytest.mark.parametrize("n", [1, 3, 6, 7])
def test_counting_by_halves(n):
    """Also with ties: small whole numbers."""
    values = np.random.default_rng(n).integers(0, 4, 11).astype(float)
    sums = [sum(c) for c in itertools.combinations(values, n)]
    assert p_of_partition(values, n, 10, 0) == (
        sum(s >= values[:n].sum() for s in sums) / len(sums),
        len(sums),
    )


def test_drawn_partitions_come_near_to_all(monkeypatch):
    values = np.random.default_rng(0).normal(size=14)
    values[:7] += 0.6
    exact, _ = p_of_partition(values, 7, 1, 0)
    monkeypatch.setattr(bias, "EXACT", 5)
    drawn, count = p_of_partition(values, 7, 40_000, 1)
    assert count == 40_001
    assert drawn == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 40_000))
    assert p_of_partition(values, 7, 500, 1) == p_of_partition(values, 7, 500, 1)
    assert p_of_partition(values, 7, 500, 1) != p_of_partition(values, 7, 500, 2)
    extreme = np.r_[np.full(7, 9.0), np.zeros(7)]
    assert (
        p_of_partition(extreme, 7, 100, 0)[0] <= 3 / 101
    )  # the observed one counts, so it is never zero
    assert p_of_partition(extreme, 7, 100, 0)[0] > 0


def test_words_without_a_vector_are_left_out_and_said(table):
    four = [words_of(table, letter) for letter in "xyab"]
    whole = weat(table, *four)
    found = weat(table, [*four[0], "nowhere"], four[1], four[2], [*four[3], "Nothing"])
    assert found.missing == ("nowhere", "Nothing")
    assert found.effect_size == whole.effect_size
    upper = weat(table, [word.upper() for word in four[0]], *four[1:])  # else in lower case
    assert upper.associations[0].keys() == set(four[0])
    assert upper.p_value == whole.p_value


def test_refused(table):
    four = [words_of(table, letter) for letter in "xyab"]
    with pytest.raises(DataError, match="no word of list B has a vector: q, r"):
        weat(table, *four[:3], ["q", "r"])
    with pytest.raises(ConfigError, match="'x1' is in both X and Y"):
        weat(table, four[0], ["x1", "y1"], *four[2:])
    with pytest.raises(ConfigError, match="permutations"):
        weat(table, *four, permutations=0)
    same = Table(dict.fromkeys(["x", "y", "a", "b"], np.ones(2)))
    assert weat(same, ["x"], ["y"], ["a"], ["b"]).effect_size == 0


def test_what_neighbours_tell():
    """Two clusters: when the lean is the cluster, neighbours tell it; when it is the row's parity,
    they do not.
    """
    rng = np.random.default_rng(0)
    where = np.repeat([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], 20, axis=0) + 0.1 * rng.normal(
        size=(40, 3)
    )
    assert told_by_neighbours(where, np.repeat([1.0, -1.0], 20) + 0.01 * rng.normal(size=40)) == 1.0
    assert told_by_neighbours(where, rng.normal(size=40)) < 0.75
    assert math.isnan(told_by_neighbours(where[:4], np.arange(4.0)))
    assert direct_bias(np.array([0.5, -0.5]), 2.0) == 0.25


# ---- lists


def test_built_in_lists_hang_together():
    known = built_in()
    for name in known.tests:
        x, y, a, b = known.test(name)
        assert len(x) == len(y)
        assert not set(x) & set(y)
        assert not set(a) & set(b)
    every = [word for pair in known.pairs["gender_equal"] for word in pair]
    assert len(every) == len(set(every))
    assert not set(every) & set(known.words("neutral"))
    assert set(known.words("occupations")) <= set(known.words("neutral"))


def test_own_lists(tmp_path):
    place = tmp_path / "own.json"
    place.write_text(
        json.dumps(
            {
                "career": ["office"],
                "rich": ["gold", "gold"],
                "poles": [["up", "down"]],
                "tests": {"t": ["career", "family", "rich", "arts"]},
                "inline": {"X": ["p"], "Y": ["q"], "A": ["r"], "B": ["s"]},
            }
        )
    )
    known = with_built_in(read_word_lists(place))
    assert known.test("t") == (
        ["office"],
        built_in().lists["family"],
        ["gold"],
        built_in().lists["arts"],
    )
    assert known.test("inline") == (["p"], ["q"], ["r"], ["s"])
    assert known.test("career, family,rich,arts") == known.test("t")
    assert known.pairs["poles"] == [("up", "down")]
    place.write_text(json.dumps({"X": ["p"], "Y": ["q"], "A": ["r"], "B": ["s"]}))
    assert read_word_lists(place).tests.keys() == {"own"}
    assert word_list("a, b,a", known) == ["a", "b"]
    (tmp_path / "words.txt").write_text("# jobs\nbaker\ncook\n\nbaker\n")
    assert word_list(str(tmp_path / "words.txt"), known) == ["baker", "cook"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not a JSON file"),
        ("3", "a JSON object of word lists"),
        ('{"a": 3}', "'a' is neither a list of words"),
        ('{"a": [["b"]]}', "neither"),
        ('{"tests": {"t": ["a", "b"]}}', "'t' needs four lists"),
        ('{"t": {"X": ["a"]}}', "'t' needs four lists"),
    ],
)
def test_bad_files(tmp_path, text, said):
    (tmp_path / "own.json").write_text(text)
    with pytest.raises(DataError, match=said):
        read_word_lists(tmp_path / "own.json")


def test_names_that_are_not_there():
    known = built_in()
    with pytest.raises(ConfigError, match="did you mean 'career-family'"):
        known.test("carer-family")
    with pytest.raises(ConfigError, match="names 3"):
        known.test("math,arts,male_terms")
    with pytest.raises(ConfigError, match="did you mean 'occupations'"):
        word_list("occupation", known)
    for text in ("he", "he:she:it,a:b", ":she,a:b", ""):
        with pytest.raises(ConfigError, match="not a pair"):
            as_pairs(text)
