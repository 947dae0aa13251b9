import math

import numpy as np
import pytest

from seqloom.metrics import bootstrap
from seqloom.metrics.bootstrap import Paired, interval, paired


def segments(rng, n, rate=2.0):
    """Costs that are `rate` a byte on average, in segments of unequal length."""
    weights = rng.integers(20, 200, n).astype(float)
    return rng.gamma(5.0, rate / 5.0, n) * weights, weights


def test_the_interval_covers_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(0)
    covered = 0
    for run in range(200):
        low, high = interval(*segments(rng, 80), samples=400, seed=run)
        covered += low <= 2.0 <= high
    assert 180 <= covered <= 198


def test_the_interval_narrows_with_data_and_widens_with_level():
    rng = np.random.default_rng(1)
    small, large = segments(rng, 50), segments(rng, 5000)
    widths = [
        high - low
        for low, high in (interval(*large), interval(*small), interval(*small, level=0.99))
    ]
    assert widths[0] < widths[1] / 5
    assert widths[1] < widths[2]


def test_it_is_a_ratio_of_sums():
    """A long segment counts for as much as it weighs: the mean of ratios would be near 5."""
    values, weights = np.array([10.0, 1000.0] * 50), np.array([1.0, 1000.0] * 50)
    low, high = interval(values, weights)
    assert 1.0 < low <= values.sum() / weights.sum() <= high < 1.1


def test_same_seed_same_interval_whatever_the_chunks(monkeypatch):
    data = segments(np.random.default_rng(2), 60)
    whole = interval(*data, seed=5)
    assert interval(*data, seed=5) == whole
    assert interval(*data, seed=6) != whole
    monkeypatch.setattr(bootstrap, "CELLS", 60 * 7)
    assert interval(*data, seed=5) == whole


def test_degenerate_intervals():
    assert all(math.isnan(end) for end in interval(np.array([3.0]), np.array([2.0])))
    assert interval(np.full(5, 3.0), np.full(5, 2.0)) == (1.5, 1.5)
    low, high = interval(np.array([1.0] * 999 + [np.inf]), np.ones(1000))
    assert low == 1.0
    assert high == math.inf


def test_paired_sees_a_small_steady_difference():
    rng = np.random.default_rng(3)
    a, weights = segments(rng, 400)
    b = a + weights * rng.normal(0.01, 0.05, len(a))
    result = paired(a, b, weights)
    assert result.difference == pytest.approx((a.sum() - b.sum()) / weights.sum())
    assert result.low < result.difference < result.high < 0
    assert result.p_value < 0.01
    low_a, high_a = interval(a, weights)
    assert low_a < b.sum() / weights.sum() < high_a  # which intervals of each alone do not show
    other_way = paired(b, a, weights)
    assert other_way.difference == -result.difference
    assert other_way.p_value < 0.01


def test_p_values_are_uniform_for_equal_models():
    rng = np.random.default_rng(4)
    values = []
    for run in range(200):
        a, weights = segments(rng, 40)
        values.append(paired(a, a + rng.normal(size=40), weights, samples=199, seed=run).p_value)
    assert 0.01 <= np.mean(np.array(values) <= 0.05) <= 0.10
    assert 0.4 <= np.mean(values) <= 0.6


def test_degenerate_pairs():
    same = np.array([1.0, 2.0, 3.0])
    assert paired(same, same, np.ones(3)) == Paired(0.0, 0.0, 0.0, 1.0)
    one = paired(np.array([1.0]), np.array([2.0]), np.array([2.0]))
    assert (one.difference, one.p_value) == (-0.5, 1.0)
    assert math.isnan(one.low)
    steady = paired(np.full(30, 2.0), np.full(30, 1.0), np.ones(30))
    assert (steady.low, steady.high) == (1.0, 1.0)
    assert steady.p_value == pytest.approx(1 / 1001)


def test_infinite_costs():
    finite, infinite = np.array([1.0, 2.0, 3.0]), np.array([1.0, np.inf, 3.0])
    assert paired(infinite, infinite, np.ones(3)).difference == 0.0  # impossible for both: a tie
    assert paired(infinite, finite, np.ones(3)).difference == math.inf
    assert paired(finite, infinite, np.ones(3)).difference == -math.inf
    assert math.isnan(paired(infinite, finite, np.ones(3)).p_value)
    assert math.isnan(paired(infinite, infinite[::-1].copy(), np.ones(3)).p_value) is False
    assert math.isnan(paired(infinite, np.roll(infinite, 1), np.ones(3)).difference)


@pytest.mark.parametrize(
    ("values", "weights", "message"),
    [
        ([], [], "shapes"),
        ([1.0], [1.0, 2.0], "shapes"),
        ([np.nan, 1.0], [1.0, 1.0], "NaN"),
        ([-np.inf, 1.0], [1.0, 1.0], "NaN"),
        ([1.0, 1.0], [1.0, 0.0], "weight"),
    ],
)
def test_bad_input(values, weights, message):
    with pytest.raises(ValueError, match=message):
        interval(np.array(values), np.array(weights))


def test_bad_options():
    for options in ({"level": 1.0}, {"samples": 0}):
        with pytest.raises(ValueError, match=next(iter(options))):
            interval(np.ones(3), np.ones(3), **options)


def test_few_kinds_of_segments_are_drawn_by_their_number():
    """Right or wrong, 100,000 times: the interval is that of the normal approximation, and quick."""
    right = np.arange(100_000) % 10 < 7  # 0.7
    low, high = bootstrap.interval(right.astype(float), np.ones(len(right)), samples=4000)
    spread = 1.96 * (0.7 * 0.3 / len(right)) ** 0.5
    assert (high - low) / 2 == pytest.approx(spread, rel=0.06)
    assert (high + low) / 2 == pytest.approx(0.7, abs=2e-4)
    few = bootstrap.interval(np.tile([0.0, 2.0], 500), np.tile([1.0, 3.0], 500), samples=4000)
    many = bootstrap.interval(
        np.tile([0.0, 2.0], 500) + np.arange(1000) * 1e-12, np.tile([1.0, 3.0], 500), samples=4000
    )
    assert few == pytest.approx(many, abs=3e-3)
