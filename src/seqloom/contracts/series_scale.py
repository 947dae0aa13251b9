"""What a forecaster keeps of its data: by what values are scaled, and how large errors usually are."""

from __future__ import annotations

import numpy as np

from seqloom.arrays import Spec
from seqloom.data.forecasting import Series
from seqloom.errors import ConfigError, DataError
from seqloom.metrics import forecasting

RATES = 10 ** -np.linspace(0, 4, 81)  # of false alarms whose thresholds are kept
FEW = 10  # steps for which the typical error counts beside the recent ones
SMALLEST = 1e-9  # of a standard deviation; a column that never changes is divided by 1
LARGEST = 1e300
SCALED_BY = ("mean", "std", "known_mean", "known_std")  # what the inputs of a model are scaled by


def season_of(given: int | None, series: Series) -> int:
    """Steps of the cycle that the data repeats: as given, or as usual for its step, if there are three of them; 1: none."""
    longest = max(map(len, series.tracks))
    if given is not None and 2 * given > longest:
        raise ConfigError(
            f"season {given} needs {2 * given} steps of data; {series.name} has {longest}"
        )
    usual = series.step.season
    return given or (usual if 3 * usual <= longest else 1)


def scaling(series: Series, season: int) -> dict[str, np.ndarray]:
    """Mean and standard deviation of each column, and the mean error of repeating the last season, in original units."""
    whole = np.concatenate([track.values[track.begin :] for track in series.tracks])
    there = np.isfinite(whole)
    if empty := [name for name, any_ in zip(series.columns, there.any(axis=0)) if not any_]:
        raise DataError(f"{series.name} has no values in column {empty[0]!r}; leave it out")
    mean, std = np.nanmean(whole, axis=0), np.nanstd(whole, axis=0)
    steps = [
        np.abs(track.values[season:] - track.values[:-season])
        for track in series.tracks
        if len(track) > season
    ]
    seasonal = positive_means(np.concatenate(steps)[None]) if steps else std
    known = np.concatenate([track.known[: len(track)] for track in series.tracks])
    return {
        "mean": mean,
        "std": _positive(std),
        "naive": _positive(seasonal),
        "known_mean": known.mean(axis=0),
        "known_std": _positive(known.std(axis=0)),
    }


def positive_means(values: np.ndarray) -> np.ndarray:
    """Of each column of (n, H, C), without what is NaN; 1 where nothing is left."""
    there = np.isfinite(values)
    return _positive(
        np.where(there, values, 0.0).sum(axis=(0, 1)) / np.maximum(there.sum(axis=(0, 1)), 1)
    )


def _positive(values: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(values) & (values > SMALLEST), values, 1.0)


def recent_errors(
    errors: np.ndarray, made: np.ndarray, origins: np.ndarray, length: int, typical: np.ndarray
) -> np.ndarray:
    """How large errors were lately, (n, C): before each of `origins` the mean size of the errors of the forecasts, of all
    horizons, for the last `length` steps. `errors` (m, H, C) are those of forecasts from the origins `made` (m,), NaN where
    nothing came; `typical` (C,) takes the place of what is not known."""
    horizon, columns = errors.shape[1:]
    first = int(made.min())
    steps = (made[:, None] + np.arange(horizon) - first).ravel()  # that each forecast is of
    sizes = np.abs(errors).reshape(-1, columns)
    there = np.isfinite(sizes)
    size = max(int(steps.max()), int(origins.max()) - first) + 1
    ends = np.clip(origins - first, 0, size)
    found = np.empty((len(origins), columns))
    for c in range(columns):
        sums, counts = (
            np.append(0.0, np.cumsum(np.bincount(steps, weights, minlength=size)))
            for weights in (np.where(there[:, c], sizes[:, c], 0.0), there[:, c].astype(np.float64))
        )
        begins = np.maximum(ends - length, 0)
        total, n = sums[ends] - sums[begins], (counts[ends] - counts[begins]) / horizon
        found[:, c] = (total / horizon + FEW * typical[c]) / (n + FEW)
    return np.maximum(found, SMALLEST)


def error_quantiles(residuals: np.ndarray) -> np.ndarray:
    """Of errors (n, H, C) on held-out data, in units of how large they were lately: (L, H, C)."""
    found = forecasting.quantiles(residuals)
    empty = ~np.isfinite(residuals).any(axis=0)  # horizons that are never seen
    for h in range(1, residuals.shape[1]):
        found[:, h, empty[h]] = found[:, h - 1, empty[h]]
    return found


def step_errors(errors: np.ndarray) -> dict[str, np.ndarray]:
    """Of errors (n, C) one step ahead on held-out data: their usual size in each column, and thresholds of scores by the share
    of usual steps above them."""
    sizes = np.abs(errors)
    usual = _positive(
        np.array(
            [
                np.median(column[np.isfinite(column)]) if np.isfinite(column).any() else 1.0
                for column in sizes.T
            ]
        )
    )
    return {
        "step_error": usual,
        "thresholds": np.quantile(step_scores(errors, usual).max(axis=1), 1 - RATES),
    }


def step_scores(errors: np.ndarray, usual: np.ndarray) -> np.ndarray:
    """How unexpected each value is, (n, C): its error in units of the usual one; 0 where it is missing."""
    return np.nan_to_num(np.abs(errors) / usual)


def specs(columns: int, known: int, horizon: int) -> dict[str, Spec]:
    """What these arrays must be in a file."""

    def of(*shape: int, low: float = -LARGEST) -> Spec:
        return Spec("float64", shape, low, LARGEST)

    return {
        "mean": of(columns),
        "std": of(columns, low=SMALLEST),
        "naive": of(columns, low=SMALLEST),
        "known_mean": of(known),
        "known_std": of(known, low=SMALLEST),
        "typical": of(columns, low=SMALLEST),
        "residuals": of(len(forecasting.LEVELS), horizon, columns),
        **score_specs(columns),
    }


def score_specs(columns: int) -> dict[str, Spec]:
    """The arrays of scores; models of earlier versions have `usual`, `level` and `alarms` instead, which are no longer used."""
    by_column = Spec("float64", (columns,), SMALLEST, LARGEST, optional=True)
    by_rate = Spec("float64", (len(RATES),), 0.0, LARGEST, optional=True)
    return {
        "step_error": by_column,
        "thresholds": by_rate,
        "usual": by_column,
        "level": by_column,
        "alarms": by_rate,
    }
