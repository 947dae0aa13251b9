"""Numbers of slices equal those counted one by one; intervals of shares equal scipy's; the worst
slices come first.
"""

import math

import numpy as np
import pytest

from seqloom.errors import DataError
from seqloom.metrics import tables
from seqloom.metrics.bootstrap import interval
from seqloom.metrics.slices import (
    BINS,
    MAX_SLICES,
    MIN_EXAMPLES,
    by_length,
    by_name,
    by_number,
    length_record,
    ratio_interval,
    slice_rows,
    wilson,
    worst_first,
)


@pytest.mark.parametrize(("count", "size"), [(0, 7), (7, 7), (1, 3), (40, 90), (999, 1000)])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_wilson_is_that_of_scipy(count, size, level):
    stats = pytest.importorskip("scipy.stats")
    expected = stats.binomtest(count, size).proportion_ci(level, method="wilson")
    assert wilson(count, size, level) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_wilson_has_a_width_where_a_bootstrap_has_none():
    right = np.ones((12, 2))
    assert interval(right[:, 0], right[:, 1]) == (1.0, 1.0)
    assert ratio_interval(right, 100) == wilson(12, 12)
    assert wilson(12, 12)[0] < 0.8
    several = np.array([[2.0, 3.0], [1.0, 4.0], [5.0, 5.0]])  # words of sentences are no coin flips
    assert ratio_interval(several, 500) == interval(several[:, 0], several[:, 1], samples=500)
    assert all(map(math.isnan, ratio_interval(np.empty((0, 2)), 100)))


def test_rows_are_what_is_counted_one_by_one():
    rng = np.random.default_rng(0)
    places, both = (
        rng.integers(0, 4, 300),
        np.stack([rng.integers(0, 5, 300), np.full(300, 5)], axis=1).astype(float),
    )
    names = [str(place) for place in places]
    rows = list(
        slice_rows(
            by_name("source", names),
            {"accuracy": both},
            samples=50,
            more=lambda rows: {"sum": rows.sum()},
        )
    )
    for row in rows:
        inside = [i for i in range(300) if names[i] == row["slice"]]
        assert row["by"] == "source"
        assert row["size"] == len(inside)
        assert row["accuracy"] == pytest.approx(sum(both[i, 0] for i in inside) / (5 * len(inside)))
        assert row["accuracy_interval"] == interval(both[inside, 0], both[inside, 1], samples=50)
        assert row["sum"] == sum(inside)
    assert sorted(row["slice"] for row in rows) == sorted(set(names))


def test_a_slice_in_which_the_metric_has_no_meaning_has_none():
    (row,) = slice_rows(by_name("a", ["x", "x"]), {"span_f1": np.zeros((2, 2))}, samples=10)
    assert row["span_f1"] is None
    assert all(map(math.isnan, row["span_f1_interval"]))


def test_bins_hold_about_equally_many():
    values = np.random.default_rng(1).permutation(1000)
    made = by_number("n", values)
    assert np.bincount(made.indices).tolist() == [200] * BINS
    assert made.names == ["0 to 199", "200 to 399", "400 to 599", "600 to 799", "800 to 999"]
    assert by_number("n", np.array([7, 7, 7])).names == ["7"]
    shares = by_number("n", np.array([0.001, 0.002, 0.003, 0.5, 0.9]), "{:.0%}".format)
    assert len(set(shares.names)) == len(shares.names)  # although three of them are shown as 0%


def test_numbers_in_a_column_are_put_into_bins_where_there_are_many():
    assert by_name("age", [str(n) for n in range(100)]).names[0] == "0 to 19"
    assert by_name("stars", ["5", "1", "3"]).names == ["1", "3", "5"]
    assert len(by_name("mixed", [*map(str, range(50)), "n/a"]).names) == 51
    with pytest.raises(
        DataError,
        match=f"column 'id' has 1,001 different values; slice by one that has at most {MAX_SLICES:,}",
    ):
        by_name("id", [f"x{i}" for i in range(MAX_SLICES + 1)])


def test_examples_longer_than_those_of_training_have_bins_of_their_own():
    lengths = np.array([5] * 50 + [9] * 40 + [12, 13] + [30])
    known = by_length("words", lengths, {"median": 5, "p95": 10, "longest": 20})
    assert dict(zip(known.names, np.bincount(known.indices).tolist())) == {
        "5": 50,
        "9": 40,
        "12 to 13": 2,
        "30": 1,
    }
    assert known.longer_than == {"12 to 13": 0.95, "30": 1.0}
    wide = by_length("words", np.arange(1, 101), {"p95": 50, "longest": 90})
    assert wide.names == [
        "1 to 20",
        "21 to 40",
        "41 to 50",
        "51 to 90",
        "91 to 100",
    ]  # no border at 60 and 80
    assert wide.longer_than == {"51 to 90": 0.95, "91 to 100": 1.0}
    assert by_length("words", np.arange(1, 101), {"p95": 5, "longest": 9}).names == [
        "1 to 5",
        "6 to 9",
        "10 to 20",
        "21 to 40",
        "41 to 60",
        "61 to 80",
        "81 to 100",
    ]
    unknown = by_length("words", lengths, {})
    assert not unknown.longer_than
    assert unknown.names[-1].endswith("30")
    assert (
        by_length("words", lengths, {"p95": "10", "longest": None}).names == unknown.names
    )  # a record may be anything
    assert length_record(range(1, 101)) == {"median": 50, "p95": 95, "longest": 100}


def test_the_worst_come_first_and_small_ones_last():
    rows = [
        {"slice": "good", "size": 50, "accuracy": 0.9},
        {"slice": "tiny", "size": MIN_EXAMPLES - 1, "accuracy": 0.0},
        {"slice": "bad", "size": 50, "accuracy": 0.2},
        {"slice": "none", "size": 50, "accuracy": None},
    ]
    assert [row["slice"] for row in worst_first(rows, "accuracy")] == [
        "bad",
        "good",
        "tiny",
        "none",
    ]
    mixed = [
        {"slice": "tag", "size": 50, "accuracy": 0.1},
        {"slice": "long", "size": 50, "span_f1": 0.5, "accuracy": 0.9},
    ]
    assert [row["slice"] for row in worst_first(mixed, "span_f1")] == ["long", "tag"]


def test_the_table_tells_what_was_longer_in_training_and_how_many_more_there_are():
    rows = [
        {
            "by": "length",
            "slice": str(i),
            "size": 20,
            "accuracy": i / 100,
            "accuracy_interval": (0.0, math.nan),
        }
        for i in range(tables.SLICES + 3)
    ]
    rows[0]["longer_than"] = 0.95
    shown = tables._slices(rows)
    assert "length: 0 (longer than 95% in training)" in shown
    assert shown.endswith("and 3 more")
    assert "nan" not in tables._slices([{**rows[0], "accuracy_interval": (math.nan, math.nan)}])
