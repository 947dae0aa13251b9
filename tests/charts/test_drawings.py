"""What stands in the charts: every number that was given, in its order, and nothing that JSON has not."""

import itertools
import json
import math

import numpy as np
import pytest

from seqloom.charts.calibration import Forecasts, logit, reliability
from seqloom.charts.comparison import CurvePoint, Row, ladder, learning_curves, quality_against
from seqloom.charts.costs import along, cost_shares, histogram, windows
from seqloom.charts.passage import Piece, cells, passage_chart, passage_html
from seqloom.charts.scales import LINE, decades, log_domain, log_moved, log_share, round_ticks
from seqloom.charts.theme import specification

ROWS = [
    Row("byte-1", "byte", 4.8, 4.7, 4.9, 0.02, 5e3),
    Row("byte-5", "byte", 2.5, 2.4, 2.6, 0.2, 3e6),
    Row("mixture", "mixture", 2.4, math.nan, math.nan, 2.0, 5e7),
]


def data(chart):
    """All rows of a chart, and that it is plain JSON."""
    spec = specification(chart)
    json.dumps(spec, allow_nan=False)
    return [row for rows in spec.get("datasets", {}).values() for row in rows]


def test_ladder_has_every_rung_with_its_interval():
    rows = data(ladder(ROWS))
    assert [(r["name"], r["value"], r["low"], r["high"]) for r in rows] == [
        ("byte-1", 4.8, 4.7, 4.9),
        ("byte-5", 2.5, 2.4, 2.6),
        ("mixture", 2.4, 2.4, 2.4),
    ]  # no interval, no width
    spec = ladder(ROWS).to_dict()
    assert spec["layer"][0]["encoding"]["y"]["sort"] == ["byte-1", "byte-5", "mixture"]


@pytest.mark.parametrize("price", ["seconds", "disk"])
def test_every_point_is_named_in_both_windows(price):
    rows = data(quality_against(ROWS, price))
    assert all(r["narrow"] >= 0 and r["wide"] >= 0 for r in rows)
    assert {r["group"] for r in rows} == {"byte", "mixture"}


def test_one_rung_can_be_drawn():
    assert len(data(quality_against(ROWS[:1], "disk"))) == 1
    assert len(data(ladder(ROWS[:1]))) == 1


def test_scales():
    domain = log_domain([1.0, 100.0], 0.0)
    assert log_share(10.0, domain) == pytest.approx(0.5)
    assert log_moved(100.0, 180, domain, height=360) == pytest.approx(10.0)  # half the height down
    assert decades([0.05, 20.0]) == [0.1, 1.0, 10.0]
    assert decades([4.0, 20.0]) == [5.0, 10.0, 20.0]  # 3 and 30 lie outside
    assert decades([5.5, 9.5]) == [6.0, 7.0, 8.0, 9.0]
    assert decades([2.0, 40.0]) == [3.0, 10.0, 30.0]
    assert round_ticks([2.3, 5.1]) == [2.5, 3.0, 3.5, 4.0, 4.5, 5.0]


def test_curves_are_named_at_their_last_point_without_overlap():
    points = [
        CurvePoint(f"r{i}", "g", size, 2 + 0.001 * i + 100 / size)
        for i in range(12)
        for size in (100, 1000)
    ]
    chart = learning_curves(points)
    ends = [r for r in data(chart) if "at" in r]
    assert sorted(r["name"] for r in ends) == sorted({p.name for p in points})
    domain = chart.to_dict()["layer"][0]["encoding"]["y"]["scale"]["domain"]
    heights = sorted(log_share(r["at"], domain) * chart.height for r in ends)
    assert min(b - a for a, b in itertools.pairwise(heights)) >= LINE - 1e-6
    assert {r["size"] for r in ends} == {1000}


def test_reliability_draws_bins_with_enough_forecasts():
    bins = [
        Forecasts(0.5, 0.4, 0.3, 0.5, 100),
        Forecasts(0.01, 0.0, 0.0, 0.3, 100),
        Forecasts(0.999, 1.0, 0.9, 1.0, 100),
    ]
    drawn = [r for r in data(reliability({"m": bins})) if "name" in r]
    assert [(r["predicted"], r["observed"]) for r in drawn] == [(0.5, 0.4)]
    assert drawn[0]["said"] == 0.0
    assert drawn[0]["came"] == pytest.approx(math.log(0.4 / 0.6))


def test_what_always_or_never_came_stands_at_the_edge():
    bins = [
        Forecasts(0.5, 0.9, 0.8, 0.95, 100),
        Forecasts(0.7, 1.0, 0.9, 1.0, 100),
        Forecasts(0.06, 0.0, 0.0, 0.1, 100),
    ]
    chart = reliability({"m": bins})
    low, high = chart.to_dict()["layer"][1]["encoding"]["y"]["scale"]["domain"]
    assert [r["came"] for r in data(chart) if "name" in r] == [
        pytest.approx(math.log(9)),
        high,
        low,
    ]
    assert low < math.log(0.06 / 0.94) < math.log(9) < high


def test_logit_of_certainties_can_be_drawn():
    assert math.isfinite(logit(0.0))
    assert logit(0.0) == pytest.approx(-logit(1.0))


def test_windows_keep_the_sum():
    rng = np.random.default_rng(0)
    bits, weights = rng.random(5000) * 8, rng.integers(0, 5, 5000).astype(float)
    rows = windows(bits, weights, 100)
    assert len(rows) == 100
    starts = np.append([r["at"] for r in rows], weights.sum())
    assert sum(r["cost"] * w for r, w in zip(rows, np.diff(starts))) == pytest.approx(
        bits.sum(), rel=1e-3
    )


def test_long_texts_are_aggregated_and_impossible_tokens_do_not_break_the_picture():
    bits = np.ones(100_000)
    bits[5] = np.inf
    assert len(data(along(bits, np.ones(100_000), unit="token"))) <= 201
    shares = cost_shares(bits)
    assert sum(s["tokens"] for s in shares) == pytest.approx(1)
    assert sum(s["bits"] for s in shares) == pytest.approx(1)
    data(histogram(bits))


def test_the_grid_of_a_passage_holds_every_character():
    pieces = [Piece("ab\n", 1.5, 3), Piece("cdefg", 40.0, 5), Piece("h", math.nan, 1)]
    found, rows = cells(pieces, columns=4)
    assert [(c["row"], c["column"], c["sign"]) for c in found] == [
        (0, 0, "a"),
        (0, 1, "b"),
        (0, 2, "↵"),
        (1, 0, "c"),
        (1, 1, "d"),
        (1, 2, "e"),
        (1, 3, "f"),
        (2, 0, "g"),
        (2, 1, "h"),
    ]
    assert rows == 3
    assert {c["step"] for c in found[:3]} == {"0.5 to 1"}
    assert {c["step"] for c in found[3:8]} == {"8 and more"}
    assert len(data(passage_chart({"one": pieces, "two": pieces}))) >= 9


def test_wide_characters_take_two_columns_of_the_grid_and_marks_none():
    found, rows = cells([Piece("猫e\u0301a猫", 1.0, 9)], columns=5)
    assert [(c["row"], c["column"], c["right"], c["sign"]) for c in found] == [
        (0, 0, 2, "猫"),
        (0, 2, 3, "e\u0301"),
        (0, 3, 4, "a"),
        (1, 0, 2, "猫"),
    ]
    assert [c["middle"] for c in found] == [1.0, 2.5, 3.5, 1.0]
    assert rows == 2


def test_a_page_gets_all_pieces_and_shows_those_asked_for():
    pieces = {"byte-1": [Piece("</script>", 3.14159, 9)], "b<2": [Piece("x", math.nan, 1)]}
    markup = passage_html(pieces, ["b<2"])
    assert markup.count("</script>") == 1
    inside = json.loads(markup.partition('json">')[2].partition("</script>")[0])
    assert inside["pieces"] == {"byte-1": [["</script>", 3.14, 9]], "b<2": [["x", None, 1]]}
    assert "<option>byte-1</option><option selected>b&lt;2</option>" in markup
