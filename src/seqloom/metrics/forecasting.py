"""How good forecasts are: errors, scaled errors, and whether intervals hold as often as they say.

MSE and MAE of scaled data are what papers report (each column by the mean and standard deviation of
its training part); MASE divides by the error of repeating the last season in the training part
(Hyndman & Koehler 2006), so below 1 is better than that; the pinball loss judges quantiles. A
missing value counts nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from seqloom.metrics import bootstrap

LEVELS = (0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975)  # of the quantiles
INTERVALS = {80: (1, 5), 95: (0, 6)}  # per cent: which of them are its ends
MAX_HORIZONS_SHOWN = 8  # horizons of the table


def quantiles(residuals: np.ndarray) -> np.ndarray:
    """Return quantiles of residuals at LEVELS, widened for small samples: (n, H, C) with NaN to
    (L, H, C).
    """
    n = np.count_nonzero(np.isfinite(residuals), axis=0)
    ordered = np.sort(residuals, axis=0)  # NaN last
    values = np.empty((len(LEVELS), *residuals.shape[1:]))
    for k, level in enumerate(LEVELS):
        rank = (n + 1) * level - 1
        low = np.clip(np.floor(rank), 0, np.maximum(n - 1, 0)).astype(np.int64)
        high = np.minimum(low + 1, np.maximum(n - 1, 0))
        share = np.clip(rank - low, 0, 1)
        a, b = (np.take_along_axis(ordered, index[None], axis=0)[0] for index in (low, high))
        values[k] = np.where(n > 0, a + share * (b - a), 0.0)
    return values


def holding_zero(residuals: np.ndarray) -> np.ndarray:
    """Return quantiles (L, H, C) in which an interval that lies on one side of 0 is extended to 0."""
    shifted = residuals.copy()
    for low, high in INTERVALS.values():
        shifted[low], shifted[high] = np.minimum(shifted[low], 0.0), np.maximum(shifted[high], 0.0)
    return shifted


def segments(errors: np.ndarray, origins: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Return sums of squared errors and their number for stretches of origins: neighbouring
    forecasts are not independent.
    """
    number = origins // max(length, 1)
    _, group = np.unique(number, return_inverse=True)
    squares = np.nansum(errors**2, axis=(1, 2))
    counts = np.isfinite(errors).sum(axis=(1, 2))
    values, weights = np.bincount(group, squares), np.bincount(group, counts).astype(np.float64)
    return values[weights > 0], weights[weights > 0]


def evaluate_forecasts(
    truth: np.ndarray,
    point: np.ndarray,
    bands: np.ndarray,
    origins: np.ndarray,
    *,
    columns: Sequence[str],
    std: np.ndarray,
    naive: np.ndarray,
    samples: int = 1000,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Metrics and tables of forecasts (n, H, C) of scaled data with quantiles (L, n, H, C)."""
    errors = truth - point
    values, weights = segments(errors, origins, truth.shape[1])
    covered = {
        share: _inside(truth, bands[low], bands[high]) for share, (low, high) in INTERVALS.items()
    }
    original = np.abs(errors) * std
    metrics: dict[str, Any] = {"mse": _mean(errors**2)}
    if samples and len(values) > 1:
        metrics["mse_interval"] = bootstrap.interval(values, weights, samples=samples)
    metrics |= {
        "mae": _mean(np.abs(errors)),
        "mse_original": _mean((errors * std) ** 2),
        "mae_original": _mean(original),
        "mase": _mean(original / naive),
        "pinball": pinball(truth, bands),
    }
    metrics |= {f"coverage_{share}": _mean(inside) for share, inside in covered.items()}
    metrics |= {"horizon": truth.shape[1], "forecasts": len(truth)}
    every = (
        range(truth.shape[1])
        if truth.shape[1] <= MAX_HORIZONS_SHOWN
        else sorted({round(k) - 1 for k in np.geomspace(1, truth.shape[1], MAX_HORIZONS_SHOWN)})
    )
    details = {
        "horizons": [
            {
                "horizon": h + 1,
                "mse": _mean(errors[:, h] ** 2),
                "mae": _mean(np.abs(errors[:, h])),
                **{f"coverage_{share}": _mean(inside[:, h]) for share, inside in covered.items()},
            }
            for h in every
        ],
        "columns": [
            {
                "column": column,
                "mse": _mean(errors[..., c] ** 2),
                "mae_original": _mean(original[..., c]),
                "mase": _mean(original[..., c] / naive[c]),
                **{f"coverage_{share}": _mean(inside[..., c]) for share, inside in covered.items()},
            }
            for c, column in enumerate(columns)
        ],
    }
    return metrics, details


def pinball(truth: np.ndarray, bands: np.ndarray) -> float:
    """Compute the mean pinball loss of quantiles at LEVELS.

    >>> pinball(np.array([[[1.0]]]), np.zeros((7, 1, 1, 1)))
    0.5
    """
    losses = []
    for level, band in zip(LEVELS, bands):
        off = truth - band
        losses.append(_mean(np.maximum(level * off, (level - 1) * off)))
    return float(np.mean(losses))


def _inside(truth: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(truth), (low <= truth) & (truth <= high), np.nan)


def _mean(values: np.ndarray) -> float:
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")
