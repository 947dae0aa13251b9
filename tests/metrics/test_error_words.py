"""The z-scores are those of the formula, written out; typical words are found, frequent and rare
ones are not.
"""

import math
from collections import Counter

import pytest

from seqloom.metrics.classification import SURE, characteristic_words, text_counts, words_of_errors


def z_score(word, inside, outside):
    """Equations 16 and 22, with sums written out."""
    vocabulary = set(inside) | set(outside)
    total = sum(inside.values()) + sum(outside.values())
    prior = {w: (inside[w] + outside[w]) * len(vocabulary) / total for w in vocabulary}
    k = sum(prior.values())

    def odds(counts):
        n, own = sum(counts.values()), counts[word] + prior[word]
        return math.log(own / (n + k - own))

    spread = math.sqrt(1 / (inside[word] + prior[word]) + 1 / (outside[word] + prior[word]))
    return (odds(inside) - odds(outside)) / spread


def test_z_scores_are_those_of_the_formula():
    inside = Counter({"not": 14, "film": 20, "good": 18, "once": 1, "barely": 9})
    outside = Counter({"film": 190, "good": 200, "not": 6, "fine": 50})
    found = {row["word"]: row for row in characteristic_words(inside, outside, 10)}
    assert list(found) == ["not", "barely"]
    assert found["not"]["z"] > found["barely"]["z"] > SURE
    for word, row in found.items():
        assert row["z"] == pytest.approx(z_score(word, inside, outside), abs=0.005)
        assert row["count"] == inside[word]
    assert [row["word"] for row in characteristic_words(inside, outside, 1)] == ["not"]
    assert (
        characteristic_words(Counter(), outside, 3)
        == characteristic_words(inside, Counter(), 3)
        == []
    )


def test_a_word_counts_once_a_text():
    assert text_counts(["Good, good GOOD!", "good -- bad"]) == {"good": 2, "bad": 1}


def test_errors_are_compared_with_texts_of_their_class_that_were_recognised():
    gold = ["+"] * 60 + ["-"] * 40
    said = ["-"] * 20 + ["+"] * 40 + ["-"] * 40
    texts = (
        [f"not bad {i}" for i in range(20)]
        + [f"good {i}" for i in range(40)]
        + [f"bad {i}" for i in range(40)]
    )
    (kind,) = words_of_errors([{"gold": "+", "predicted": "-", "count": 20}], texts, gold, said, 5)
    assert {row["word"] for row in kind["words"]} == {"not", "bad"}
    assert kind["count"] == 20
