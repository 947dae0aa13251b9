"""Measures of forecasts against their formulas."""

import numpy as np
import pytest

from seqloom.metrics.forecasting import LEVELS, evaluate_forecasts, pinball, quantiles, segments


@pytest.fixture(scope="module")
def parts():
    rng = np.random.default_rng(0)
    truth, point = rng.normal(size=(2, 40, 5, 2))
    truth[3, 2, 1] = np.nan
    bands = point + np.array(LEVELS)[:, None, None, None] * 4 - 2
    return truth, point, bands


def test_against_the_formulas(parts):
    truth, point, bands = parts
    std, naive = np.array([2.0, 3.0]), np.array([1.0, 5.0])
    metrics, details = evaluate_forecasts(
        truth, point, bands, np.arange(40), columns=["a", "b"], std=std, naive=naive
    )
    cells = [
        (i, h, c)
        for i in range(40)
        for h in range(5)
        for c in range(2)
        if np.isfinite(truth[i, h, c])
    ]
    errors = [truth[cell] - point[cell] for cell in cells]
    assert metrics["mse"] == pytest.approx(np.mean(np.square(errors)))
    assert metrics["mae_original"] == pytest.approx(
        np.mean([abs(e) * std[c] for e, (_, _, c) in zip(errors, cells)])
    )
    assert metrics["mase"] == pytest.approx(
        np.mean([abs(e) * std[c] / naive[c] for e, (_, _, c) in zip(errors, cells)])
    )
    assert metrics["coverage_80"] == pytest.approx(
        np.mean([bands[(1, *x)] <= truth[x] <= bands[(5, *x)] for x in cells])
    )
    losses = [
        max(level * (truth[x] - bands[(k, *x)]), (level - 1) * (truth[x] - bands[(k, *x)]))
        for k, level in enumerate(LEVELS)
        for x in cells
    ]
    assert metrics["pinball"] == pytest.approx(np.mean(losses))
    low, high = metrics["mse_interval"]
    assert low < metrics["mse"] < high
    assert [row["horizon"] for row in details["horizons"]] == [1, 2, 3, 4, 5]
    assert details["columns"][1]["mse"] == pytest.approx(np.nanmean((truth - point)[..., 1] ** 2))


def test_segments_add_up_and_keep_neighbours_together(parts):
    truth, point, _ = parts
    values, weights = segments(truth - point, np.arange(40), 5)
    assert len(values) == 8
    assert values.sum() / weights.sum() == pytest.approx(np.nanmean((truth - point) ** 2))
    assert weights.sum() == 399


def test_quantiles_are_conformal():
    """Of n errors the k-th is the quantile k / (n + 1), so that a new one is below it with that
    probability.
    """
    errors = np.arange(1.0, 40.0)[:, None, None]  # 39 of them: 10 % is the fourth
    found = quantiles(errors)[:, 0, 0]
    np.testing.assert_allclose(found, [1, 4, 10, 20, 30, 36, 39])
    with_gap = np.concatenate([errors, np.full((5, 1, 1), np.nan)])
    np.testing.assert_allclose(quantiles(with_gap)[:, 0, 0], found)
    rng = np.random.default_rng(1)
    inside = []
    for _ in range(400):
        drawn = rng.normal(size=(40, 1, 1))
        low, high = quantiles(drawn[:39])[[1, 5], 0, 0]
        inside.append(low <= drawn[39, 0, 0] <= high)
    assert abs(np.mean(inside) - 0.8) < 0.06


def test_pinball_is_least_at_the_quantile():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(500, 1, 1))
    right = np.quantile(truth, LEVELS)[:, None, None, None] + np.zeros((1, 500, 1, 1))
    assert pinball(truth, right) < pinball(truth, right * 1.3)
    assert pinball(truth, right) < pinball(truth, right * 0.7)
