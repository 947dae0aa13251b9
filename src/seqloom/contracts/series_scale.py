"""What a forecaster keeps of its data: by what values are scaled, and how large errors usually are."""

from __future__ import annotations

import numpy as np

from seqloom.arrays import Spec
from seqloom.data.series import Series
from seqloom.errors import DataError
from seqloom.metrics import forecasting

RATES = 10 ** -np.linspace(0, 4, 81)  # of false alarms whose thresholds are kept
SMALLEST = 1e-9  # of a standard deviation; a column that never changes is divided by 1
LARGEST = 1e300


def scaling(series: Series, season: int) -> dict[str, np.ndarray]:
    """Mean and standard deviation of each column, and the mean error of repeating the last season, in original units."""
    whole = np.concatenate([track.values[track.begin:] for track in series.tracks])
    there = np.isfinite(whole)
    if empty := [name for name, any_ in zip(series.columns, there.any(axis=0)) if not any_]:
        raise DataError(f"{series.name} has no values in column {empty[0]!r}; leave it out")
    mean, std = np.nanmean(whole, axis=0), np.nanstd(whole, axis=0)
    steps = [np.abs(track.values[season:] - track.values[:-season]) for track in series.tracks if len(track) > season]
    seasonal = np.nanmean(np.concatenate(steps), axis=0) if steps and np.isfinite(np.concatenate(steps)).any() else std
    known = np.concatenate([track.known[:len(track)] for track in series.tracks])
    return {"mean": mean, "std": _positive(std), "naive": _positive(seasonal), "known_mean": known.mean(axis=0),
            "known_std": _positive(known.std(axis=0))}


def _positive(values: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(values) & (values > SMALLEST), values, 1.0)


def usual_errors(residuals: np.ndarray) -> dict[str, np.ndarray]:
    """Of errors (n, H, C) on held-out data: their quantiles by horizon, the usual error of one step, and thresholds of the
    score of single steps, by the share of usual steps that are above."""
    found = forecasting.quantiles(residuals)
    empty = ~np.isfinite(residuals).any(axis=0)  # horizons that are never seen
    for h in range(1, residuals.shape[1]):
        found[:, h, empty[h]] = found[:, h - 1, empty[h]]
    first = np.abs(residuals[:, 0])
    usual = _positive(np.array([np.median(column[np.isfinite(column)]) if np.isfinite(column).any() else 1.0
                                for column in first.T]))
    scores = np.nan_to_num(first / usual).max(axis=1)
    return {"residuals": found, "usual": usual, "alarms": np.quantile(scores, 1 - RATES)}


def specs(columns: int, known: int, horizon: int) -> dict[str, Spec]:
    """What these arrays must be in a file."""
    def of(*shape: int, low: float = -LARGEST) -> Spec:
        return Spec("float64", shape, low, LARGEST)

    return {"mean": of(columns), "std": of(columns, low=SMALLEST), "naive": of(columns, low=SMALLEST), "known_mean": of(known),
            "known_std": of(known, low=SMALLEST), "usual": of(columns, low=SMALLEST), "alarms": of(len(RATES), low=0.0),
            "residuals": of(len(forecasting.LEVELS), horizon, columns)}
