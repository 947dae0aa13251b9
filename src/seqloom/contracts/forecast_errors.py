"""How wide intervals are, and what is unusual: learnt from errors on a held-out part.

Errors are taken in units of how large they were lately. How large they are comes from the held-out
part alone, since a model may remember its training data. The shape of their distribution does not:
where the held-out part is short, its tails are a matter of luck, so the last errors of the training
part, made as large as the held-out ones, count beside them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from seqloom import progress
from seqloom.contracts.forecasts import (
    MIN_DEVIATION,
    RATES,
    TYPICAL_ERROR_STEPS,
    Anomalies,
    Answers,
    Unusual,
    divisors,
    positive_means,
)
from seqloom.data.forecasting import Series
from seqloom.data.forecasting_windows import Prepared, Windows
from seqloom.errors import DataError, ModelError
from seqloom.metrics import forecasting

if TYPE_CHECKING:
    from seqloom.contracts.forecasting import Forecaster

HELD_OUT = 0.2  # of the data that intervals are learnt from, where no other is given
JUDGED = 20_000  # forecasts that are looked at, evenly spread
RECENT, LATELY = 7, (48, 1000)  # seasons that are recent, and how many steps those may be
MAX_FORECASTS = 3000  # forecasts that intervals come from; of more, evenly spread ones

Part = tuple[Prepared, np.ndarray]  # a series and the origins of forecasts


def held_back(model: Forecaster, series: Series) -> tuple[Series, Series]:
    """Split the series into what to learn from, and the last part, whose errors say how wide
    intervals are.
    """
    shortest = min(len(track) - track.begin for track in series.tracks)
    share = max(HELD_OUT, model.horizon / max(shortest, 1))
    if (1 - share) * shortest < 2 * (model.window + model.horizon):
        progress.say(
            f"{series.name} is too short to hold out a part: its intervals come from errors on "
            f"the training data "
            "and may be too narrow"
        )
        return series, series
    return series.between(0, 1 - share), series.between(1 - share, 1.0)


def answer(model: Forecaster, windows: Windows, horizon: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the forecasts of a model, checked, and the spread that it expects of their errors, both
    (n, horizon, C).
    """
    point = np.asarray(model.forecast_windows(windows, horizon), np.float64)
    wanted = (len(windows), horizon, len(model.columns))
    if point.shape != wanted:
        raise ModelError(f"forecast_windows gave the shape {point.shape} instead of {wanted}")
    if not np.isfinite(point).all():
        raise ModelError(
            f"the {model.name} model forecasts values that are not finite; fit it again with other options"
        )
    spread = model.spread_windows(windows, horizon)
    return point, np.ones(wanted) if spread is None else np.maximum(spread, MIN_DEVIATION)


def answers(model: Forecaster, prepared: Prepared, origins: np.ndarray, horizon: int) -> Answers:
    """Compute forecasts from origins, and from those shortly before them, whose errors show the
    recent ones.
    """
    low, high = int(origins[0]), int(origins[-1]) + 1
    length = int(np.clip(RECENT * model.season, *LATELY))
    first = max(low - length - model.horizon, min(model.window, low))
    made = np.union1d(np.arange(first, high, max((high - first) // JUDGED, 1)), origins)
    found = [answer(model, windows, model.horizon) for _, windows in prepared.windows(made)]
    point, spread = (np.concatenate(part) for part in zip(*found))
    errors = (prepared.truth(made, model.horizon) - point) / spread
    asked = np.searchsorted(made, origins)
    return Answers(
        point[asked, :horizon],
        spread[asked, :horizon],
        lambda typical: recent_errors(errors, made, origins, length, typical),
    )


def learn(model: Forecaster, learnt: Series, kept: Series) -> dict[str, np.ndarray]:
    """Learn the quantiles of errors by horizon and column, and of the score of single steps, from
    the held-out series `kept`.
    """
    parts = [
        (one, origins)
        for one in model.prepared(kept)
        if len(origins := model.origins(one, 1, MAX_FORECASTS))
    ]
    if not parts:
        raise DataError(f"{kept.name} has no steps to learn intervals from; give more")
    first, residuals, typical = _errors(model, parts)
    if (
        learnt is not kept
        and (more := MAX_FORECASTS - sum(len(origins) for _, origins in parts)) > 0
    ):
        parts = [
            (one, whole[-more:])
            for one in model.prepared(learnt)
            if len(whole := (every := model.origins(one, 1))[every >= model.window])
        ]
        if parts:
            before = _errors(model, parts)[1]
            factor = positive_means(np.abs(residuals)) / positive_means(np.abs(before))
            residuals = np.concatenate([factor * before, residuals])
    return {
        "residuals": error_quantiles(residuals),
        "typical": typical,
        **step_errors(first),
    }


def _errors(model: Forecaster, parts: list[Part]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return errors (n, C) one step ahead; those of all steps (n, H, C) in units of recent ones;
    and the mean size in each column, in units of the spread that the model expects.
    """
    answers = [model.answers(prepared, origins, model.horizon) for prepared, origins in parts]
    errors = np.concatenate(
        [
            prepared.truth(origins, model.horizon) - one.point
            for (prepared, origins), one in zip(parts, answers)
        ]
    )
    raw = errors / np.concatenate([one.spread for one in answers])
    typical = positive_means(np.abs(raw))
    lately = np.concatenate([one.recent(typical) for one in answers])
    return errors[:, 0], raw / lately[:, None], typical


def recent_errors(
    errors: np.ndarray, made: np.ndarray, origins: np.ndarray, length: int, typical: np.ndarray
) -> np.ndarray:
    """Return how large errors were lately, (n, C): before each of `origins` the mean size of the
    errors of the forecasts, of all horizons, for the last `length` steps. `errors` (m, H, C)
    are those of forecasts from the origins `made` (m,), NaN where nothing came; `typical` (C,)
    replaces what is not known.
    """
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
        found[:, c] = (total / horizon + TYPICAL_ERROR_STEPS * typical[c]) / (
            n + TYPICAL_ERROR_STEPS
        )
    return np.maximum(found, MIN_DEVIATION)


def error_quantiles(residuals: np.ndarray) -> np.ndarray:
    """Return quantiles (L, H, C) of errors (n, H, C) on held-out data, in units of how large they
    were lately.
    """
    found = forecasting.quantiles(residuals)
    empty = ~np.isfinite(residuals).any(axis=0)  # horizons that are never seen
    for h in range(1, residuals.shape[1]):
        found[:, h, empty[h]] = found[:, h - 1, empty[h]]
    return found


def step_errors(errors: np.ndarray) -> dict[str, np.ndarray]:
    """Compute from errors (n, C) one step ahead on held-out data their usual size in each column,
    and thresholds of scores by the share of usual steps above them.
    """
    sizes = np.abs(errors)
    usual = divisors(
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
    """Score how unexpected each value is, (n, C): its error in units of the usual one; 0 where it
    is missing.
    """
    return np.nan_to_num(np.abs(errors) / usual)


def find_unusual(model: Forecaster, series: Series, threshold: float) -> Anomalies:
    """Find the steps of the series whose score, one step ahead, is above a threshold."""
    found: list[Unusual] = []
    scores, values = {}, {}
    mean, std = model.scale["mean"], model.scale["std"]
    for prepared in model.prepared(series):
        origins = model.origins(prepared, 1)
        point = np.concatenate(
            [answer(model, windows, 1)[0][:, 0] for _, windows in prepared.windows(origins)]
        )
        off = step_scores(prepared.truth(origins, 1)[:, 0] - point, model.scale["step_error"])
        score = off.max(axis=1, initial=0.0)
        times, key = series.times(prepared.track)[origins], prepared.track.key
        scores[key], values[key] = (times, score), prepared.track.values[origins]
        for i in np.flatnonzero(score > threshold).tolist():
            c = int(off[i].argmax())
            found.append(
                Unusual(
                    key,
                    int(times[i]),
                    model.columns[c],
                    float(prepared.track.values[origins[i], c]),
                    float(point[i, c] * std[c] + mean[c]),
                    float(score[i]),
                )
            )
    return Anomalies(tuple(found), threshold, scores, series.clock, values, model.columns)
