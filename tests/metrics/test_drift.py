"""Whether texts differ: the tests against formulas and other programs, their rates, and references
that a stranger wrote.
"""

import itertools
import json
import random

import numpy as np
import pytest

from seqloom.errors import DataError
from seqloom.metrics import bootstrap, drift
from seqloom.metrics.reference import (
    HASHES,
    Reference,
    divided,
    known_words,
    measured,
    packed,
    unpacked,
    words_of,
)

COMMON = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "dog", "red", "big", "house"]
RARE = [f"word{i}" for i in range(300)]
FOREIGN = ["der", "Hund", "lief", "und", "sah", "die", "Katze", "im", "Haus", "ein"]


def texts(n, rng, share=0.0):
    """Sentences of common and rare words, a share of them foreign."""

    def one():
        if rng.random() < share:
            return " ".join(rng.choices(FOREIGN, k=rng.randint(4, 9)))
        return " ".join(rng.choices(COMMON * 30 + RARE, k=rng.randint(4, 9)))

    return [one() for _ in range(n)]


def reference(rng, n=400, **more):
    every = texts(n, rng)
    kept, rest = divided(n)
    labels = [["cat" if "cat" in every[i] else "none"] for i in kept]
    return Reference(
        measured([every[i] for i in kept], labels=labels, **more),
        known_words([every[i] for i in rest]),
        n,
        "held out",
    )


def sample(some):
    return measured(some, labels=[["cat" if "cat" in text else "none"] for text in some])


def test_anderson_darling_is_the_sum_that_defines_it():
    rng = np.random.default_rng(0)
    base, came = rng.integers(0, 6, 9).astype(float), rng.integers(0, 6, 7).astype(float)
    pooled, n, m = np.concatenate([base, came]), len(base), len(came)
    expected = 0.0
    for value in np.unique(pooled)[:-1]:
        below = np.count_nonzero(pooled <= value)
        here = np.count_nonzero(pooled == value)
        mine = np.count_nonzero(came <= value)
        expected += here * (mine - below * m / (n + m)) ** 2 / (below * (n + m - below))
    signs = np.array([[False] * n + [True] * m])
    assert drift._anderson_darling(base, came)(signs)[0] == pytest.approx(expected)


@pytest.mark.filterwarnings("ignore::UserWarning")  # about its p-values
def test_it_orders_as_scipys_does():
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(1)
    ours, theirs = [], []
    for shift in (0.0, 0.2, 0.5, 1.0, 2.0):
        base, came = rng.normal(size=80), rng.normal(size=60) + shift
        signs = np.array([[False] * 80 + [True] * 60])
        ours.append(drift._anderson_darling(base, came)(signs)[0])
        theirs.append(stats.anderson_ksamp([base, came]).statistic)
    assert np.argsort(ours).tolist() == np.argsort(theirs).tolist()


def test_p_values_of_few_texts_are_those_of_all_exchanges():
    base, came = np.array([1.0, 2, 3, 4]), np.array([3.5, 5.0, 6])
    test = drift._anderson_darling(base, came)
    rows = np.zeros((35, 7), dtype=bool)
    for row, chosen in zip(rows, itertools.combinations(range(7), 3)):
        row[list(chosen)] = True
    seen = test(np.array([[False] * 4 + [True] * 3]))[0]
    exact = np.mean(test(rows) >= seen - 1e-9)
    found, _, _ = drift._permute({"x": test}, 4, 3, 20_000, np.random.default_rng(0))
    assert found["x"] == pytest.approx(exact, abs=0.03)


def test_distances_are_those_of_the_means():
    rng = np.random.default_rng(2)
    rows = rng.random((9, 4))
    signs = np.zeros((1, 9), dtype=bool)
    signs[0, 5:] = True
    gap = rows[5:].mean(axis=0) - rows[:5].mean(axis=0)
    assert drift._distance(rows, squared=True)(signs)[0] == pytest.approx(gap @ gap)
    assert drift._distance(rows, squared=False)(signs)[0] == pytest.approx(np.abs(gap).sum() / 2)


def test_the_interval_of_two_sets_is_about_that_of_the_normal_distribution():
    rng = np.random.default_rng(3)
    a, b = (np.stack([rng.normal(mean, 1, 400), np.ones(400)], axis=1) for mean in (1.0, 0.0))
    [(value, other, low, high)] = bootstrap.unpaired(a[:, None], b[:, None])
    half = 1.96 * np.sqrt(a[:, 0].var() / 400 + b[:, 0].var() / 400)
    assert (value, other) == (pytest.approx(a[:, 0].mean()), pytest.approx(b[:, 0].mean()))
    assert (low, high) == (
        pytest.approx(value - other - half, abs=0.03),
        pytest.approx(value - other + half, abs=0.03),
    )


def test_it_fires_for_a_fifth_of_foreign_texts_and_rarely_without():
    rng = random.Random(0)
    held = reference(rng)
    quiet = sum(
        drift.compare(held, sample(texts(100, rng)), rate=0.05, seed=i).fires for i in range(40)
    )
    loud = sum(drift.compare(held, sample(texts(100, rng, 0.2)), seed=i).fires for i in range(20))
    assert quiet <= 5  # at most 2 are expected; 6 would be one chance in 70
    assert loud == 20


def test_windows_find_where_it_began():
    rng = random.Random(1)
    came = texts(120, rng) + texts(60, rng, 0.8)
    found = drift.compare(reference(rng), sample(came), window=60)
    assert [(w.first, w.last) for w in found.windows] == [(1, 60), (61, 120), (121, 180)]
    assert [w.fires for w in found.windows] == [False, False, True]
    assert found.fires
    most = np.argsort(-found.foreign)[:20]
    assert all(came[i].split()[0] in FOREIGN for i in most)


def test_labels_alone_are_enough():
    rng = random.Random(2)
    some = texts(300, rng)
    columns = {}
    held = Reference(
        measured(some[:150], columns, [["a"] if i % 2 else ["b"] for i in range(150)]),
        np.ones(HASHES, dtype=bool),
        150,
    )
    same, other = (
        drift.compare(held, measured(some[150:], columns, [[one] for one in labels]))
        for labels in (["a", "b"] * 75, ["a"] * 130 + ["b"] * 20)
    )
    assert not same.fires
    row = other.whole.rows[-1]
    assert other.fires
    assert row.measure in ("label a", "label b")
    assert row.fires
    assert row.low <= row.value - row.expected <= row.high


def test_a_text_that_repeats_counts_once():
    """Probes of a monitor are one text, many times."""
    rng = random.Random(3)
    held, own = reference(rng), texts(150, rng)
    found = drift.compare(held, sample(own + ["is the server still there"] * 150))
    assert found.whole.distinct == len(set(own)) + 1
    assert not found.fires
    only = drift.compare(held, sample(["is the server still there"] * 50))
    assert only.whole.distinct == 1  # and no error


def test_texts_without_words_scripts_without_spaces_and_long_texts():
    assert len(words_of("!!! ...")) == 0
    assert len(words_of("東京都に住んでいる人々の多くは電車で通勤している")) > 10
    assert len(words_of(" ".join(map(str, range(1000))))) == 100
    rng = random.Random(4)
    found = drift.compare(reference(rng), sample([*texts(30, rng), "!!!", "...", "?"]))
    assert all(np.isfinite(row[1:6]).all() for row in found.whole.rows)


def test_too_few_texts_are_one_line():
    rng = random.Random(5)
    with pytest.raises(DataError, match="only 9 texts came in; 10 are needed"):
        drift.compare(reference(rng), sample(texts(9, rng)))
    with pytest.raises(DataError, match="the reference has 19 texts; give at least 20"):
        divided(19)


def test_a_reference_comes_back_and_answers_the_same():
    rng = random.Random(6)
    held = reference(rng)
    again = unpacked(json.loads(json.dumps(packed(held))))
    came = sample(texts(60, rng, 0.1))
    assert again.name == "held out"
    assert [r[:6] for r in drift.compare(again, came).whole.rows] == [
        r[:6] for r in drift.compare(held, came).whole.rows
    ]


DAMAGES = {
    "keys": [None, [], [1] * 5, [-1] * 200, ["a"] * 200, [1 << 40] * 200],
    "measures": [None, {}, {"bytes": 3}, {"bytes": [[1.0], [1.0]]}, {"bytes": [["x"] * 200] * 2}],
    "words": [None, 3, "not base64!", "AAAA"],
    "words_of_text": [None, [200] * 200, [1.5] * 200, [-1] * 200],
    "known": [None, "", "AAAA"],
    "labels": [None, [[0]], [[99]] * 200, [["a"]] * 200, [3] * 200],
    "label_names": [None, "ab", [1, 2]],
    "name": [None, 3],
    "texts": [None, -1, 1e300, True],
}


@pytest.mark.parametrize("key", DAMAGES)
def test_what_a_stranger_wrote_is_checked(key):
    good = packed(reference(random.Random(7)))
    assert len(unpacked(good).sample) == 200
    for value in DAMAGES[key]:
        with pytest.raises(ValueError, match=r"\w"):
            unpacked(good | {key: value})
    with pytest.raises(ValueError, match="no object"):
        unpacked([good])


def test_holm_is_stricter_for_the_smallest():
    assert drift._holm([0.01, 0.02, 0.04], 0.05) == [True, True, True]
    assert drift._holm([0.02, 0.03, 0.04], 0.05) == [False, False, False]
