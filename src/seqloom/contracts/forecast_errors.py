"""How wide intervals are, and what is unusual: learnt from errors on a held-out part.

Errors are taken in units of how large they were lately. How large they are comes from the held-out
part alone, since a model may remember its training data. The shape of their distribution does not:
where the held-out part is short, its tails are a matter of luck, so the last errors of the training
part, made as large as the held-out ones, count beside them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from seqloom import progress
from seqloom.contracts.fitting import FitOptions
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
from seqloom.data.forecasting_windows import Prepared, Windows, mean_courses
from seqloom.errors import ConfigError, DataError, ModelError
from seqloom.metrics import forecasting

if TYPE_CHECKING:
    from seqloom.contracts.forecasting import Forecaster

HELD_OUT = 0.2  # share of the data that intervals are learnt from, unless `valid` is given
MAX_ORIGINS = 20_000  # origins of a backtest, or of recent errors; of more, evenly spread ones
RECENT, LATELY = 7, (48, 1000)  # seasons that are recent; least and most steps of them
BLOCKS = 3  # of cross-fitting
MORE, LARGER = 3, 1.5  # times the rate that is far more; median error that is another size
MAX_FORECASTS = 3000  # forecasts that intervals come from; of more, evenly spread ones

Part = tuple[Prepared, np.ndarray]  # a series and the origins of forecasts


def held_back(model: Forecaster, series: Series) -> tuple[Series, Series]:
    """Split the series into a training part and a last part; intervals come from the errors on
    the latter.
    """
    shortest = min(len(track) - track.begin for track in series.tracks)
    share = max(HELD_OUT, model.horizon / max(shortest, 1))
    if (1 - share) * shortest < 2 * (model.window + model.horizon):
        progress.say(
            f"{series.name} is too short to hold out a part: its intervals come from errors on "
            f"the training data and may be too narrow"
        )
        return series, series
    return series.between(0, 1 - share), series.between(1 - share, 1.0)


def fit_and_learn(
    model: Forecaster, series: Series, held_out: Series | None, options: FitOptions
) -> None:
    """Fit the model and learn how large its errors are: on `held_out`, or on the last part of the series,
    after which it is fitted on all of it, unless it is a network.
    """
    learnt, valid = (series, held_out) if held_out is not None else held_back(model, series)
    _fit(model, learnt, replace(options, valid=valid))
    usual = learn(model, learnt, valid)
    if held_out is None and len(learnt) < len(series):
        if (each := block_errors(model, series, options)) is not None:
            usual |= step_errors(each)
            model.fit_info["usual_steps"] = len(each)
        if not model.trained:
            _fit(model, series, replace(options, valid=None))
    model.scale |= usual


def _fit(model: Forecaster, part: Series, options: FitOptions) -> None:
    """Fit the model on a part of the data, with the mean course of longer seasons in it."""
    if model.longer_seasons and options.start is None:
        model.scale["course"] = mean_courses(part, model.scale, model.longer_seasons)
    model.fit_series(part, options)


def answer(model: Forecaster, windows: Windows, horizon: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the forecasts of a model, checked, and the spread that it expects of their errors, both
    (n, horizon, C).
    """
    point = np.asarray(model.forecast_windows(windows, horizon), np.float64)
    shape = (len(windows), horizon, len(model.columns))
    if point.shape != shape:
        raise ModelError(f"forecast_windows gave the shape {point.shape} instead of {shape}")
    if not np.isfinite(point).all():
        raise ModelError(
            f"the {model.name} model forecasts values that are not finite; fit it again with other options"
        )
    spread = model.spread_windows(windows, horizon)
    return point, np.ones(shape) if spread is None else np.maximum(spread, MIN_DEVIATION)


def answers(model: Forecaster, prepared: Prepared, origins: np.ndarray, horizon: int) -> Answers:
    """Compute forecasts from origins, and from steps shortly before them, since the errors of those
    show how large recent errors are.
    """
    low, high = int(origins[0]), int(origins[-1]) + 1
    length = int(np.clip(RECENT * model.season, *LATELY))
    first = max(low - length - model.horizon, min(model.window, low))
    starts = np.union1d(np.arange(first, high, max((high - first) // MAX_ORIGINS, 1)), origins)
    batches = [answer(model, windows, model.horizon) for _, windows in prepared.windows(starts)]
    point, spread = (np.concatenate(part) for part in zip(*batches))
    errors = (prepared.truth(starts, model.horizon) - point) / spread
    rows = np.searchsorted(starts, origins)
    return Answers(
        point[rows, :horizon],
        spread[rows, :horizon],
        lambda typical: recent_errors(errors, starts, origins, length, typical),
    )


def learn(model: Forecaster, learnt: Series, held_out: Series) -> dict[str, np.ndarray]:
    """Learn the quantiles of errors by horizon and column, and of the score of single steps, from
    the held-out series `held_out`.
    """
    parts = [
        (series, origins)
        for series in model.prepared(held_out)
        if len(origins := model.origins(series, 1, MAX_FORECASTS))
    ]
    if not parts:
        raise DataError(f"{held_out.name} has no steps to learn intervals from; give more")
    first, residuals, typical = _errors(model, parts)
    if (
        learnt is not held_out
        and (more := MAX_FORECASTS - sum(len(origins) for _, origins in parts)) > 0
    ):
        parts = [
            (series, full[-more:])
            for series in model.prepared(learnt)
            if len(full := (every := model.origins(series, 1))[every >= model.window])
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
            prepared.truth(origins, model.horizon) - part.point
            for (prepared, origins), part in zip(parts, answers)
        ]
    )
    raw = errors / np.concatenate([part.spread for part in answers])
    typical = positive_means(np.abs(raw))
    lately = np.concatenate([part.recent(typical) for part in answers])
    return errors[:, 0], raw / lately[:, None], typical


def recent_errors(
    errors: np.ndarray, starts: np.ndarray, origins: np.ndarray, length: int, typical: np.ndarray
) -> np.ndarray:
    """Return how large errors were lately, (n, C): before each of `origins` the mean size of the
    errors of the forecasts, of all horizons, for the last `length` steps. `errors` (m, H, C)
    are those of forecasts from the origins `starts` (m,), NaN where nothing came; `typical` (C,)
    replaces what is not known.
    """
    horizon, columns = errors.shape[1:]
    first = int(starts.min())
    steps = (
        starts[:, None] + np.arange(horizon) - first
    ).ravel()  # the step that each value forecasts
    sizes = np.abs(errors).reshape(-1, columns)
    finite = np.isfinite(sizes)
    size = max(int(steps.max()), int(origins.max()) - first) + 1
    ends = np.clip(origins - first, 0, size)
    means = np.empty((len(origins), columns))
    for c in range(columns):
        sums, counts = (
            np.append(0.0, np.cumsum(np.bincount(steps, weights, minlength=size)))
            for weights in (
                np.where(finite[:, c], sizes[:, c], 0.0),
                finite[:, c].astype(np.float64),
            )
        )
        begins = np.maximum(ends - length, 0)
        total, n = sums[ends] - sums[begins], (counts[ends] - counts[begins]) / horizon
        means[:, c] = (total / horizon + TYPICAL_ERROR_STEPS * typical[c]) / (
            n + TYPICAL_ERROR_STEPS
        )
    return np.maximum(means, MIN_DEVIATION)


def error_quantiles(residuals: np.ndarray) -> np.ndarray:
    """Return quantiles (L, H, C) of errors (n, H, C) on held-out data, in units of how large they
    were lately.
    """
    quantiles = forecasting.quantiles(residuals)
    empty = ~np.isfinite(residuals).any(axis=0)  # horizons without any held-out value
    for h in range(1, residuals.shape[1]):
        quantiles[:, h, empty[h]] = quantiles[:, h - 1, empty[h]]
    return quantiles


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


def block_errors(model: Forecaster, series: Series, options: FitOptions) -> np.ndarray | None:
    """Compute errors (n, C) one step ahead on all blocks of the series, each by the model fitted on the other
    blocks (cross-fitting), so that thresholds know quiet and lively times; None where it is too
    short. A trained network, which would take as long for each block, is taken as it is.
    """
    shortest = min(len(track) - track.begin for track in series.tracks)
    if (1 - 1 / BLOCKS) * shortest < 2 * (model.window + model.horizon):
        return None
    found = []
    for k in range(BLOCKS):
        block = series.between(k / BLOCKS, (k + 1) / BLOCKS)
        if not model.trained:
            before, after = series.between(0, k / BLOCKS), series.between((k + 1) / BLOCKS, 1.0)
            rest = replace(series, tracks=before.tracks + after.alone().tracks)
            _fit(model, rest, replace(options, valid=None))
        for prepared in model.prepared(block):
            if len(origins := model.origins(prepared, 1, MAX_ORIGINS)):
                found.append(prepared.truth(origins, 1)[:, 0] - _next(model, prepared, origins))
    return np.concatenate(found) if found else None


def _next(model: Forecaster, prepared: Prepared, origins: np.ndarray) -> np.ndarray:
    """Forecast one step from each origin, (n, C)."""
    return np.concatenate(
        [answer(model, windows, 1)[0][:, 0] for _, windows in prepared.windows(origins)]
    )


def explain_marks(found: Anomalies, rate: float, usual_steps: int, larger: float) -> str:
    """Say that far more steps are marked than the rate allows, and why; empty where they are not.

    `larger`: the median error in units of the usual one.
    """
    if found.marked <= MORE * rate * found.steps + MORE:
        return ""
    seen = f"its {usual_steps:,} steps" if usual_steps else "the held-out data"
    why = (
        f"by their median, errors are {larger:.1f} times as large as in the training data, so that all of it "
        "is unusual; fit on data like this, or look at the highest scores"
        if larger > LARGER
        else "half of the errors are as small as in the training data, so these are anomalies, or errors "
        f"rarer than {seen} could show; look at the highest scores"
    )
    share = f"{found.marked / found.steps:.1%} of the steps are marked, the rate is {rate:.2%}"
    return f"{share}: {why} (top=...)"


def find_unusual(model: Forecaster, series: Series, rate: float, top: int | None) -> Anomalies:
    """Find the steps of the series whose score, one step ahead, is above the threshold of a rate."""
    if not RATES[-1] <= rate <= 0.5:
        raise ConfigError(f"rate must be between {RATES[-1]:g} and 0.5; got {rate!r:.20}")
    if top is not None and top < 1:
        raise ConfigError(f"top must be at least 1; got {top!r:.20}")
    if not {"step_error", "thresholds"} <= model.scale.keys():
        raise ModelError(
            "this model was fitted by an earlier version of seqloom, which scored steps in another way; "
            "fit it again to find anomalies"
        )
    threshold = float(np.interp(-np.log10(rate), -np.log10(RATES), model.scale["thresholds"]))
    unusual: list[Unusual] = []
    scores, values, errors = {}, {}, []
    mean, std = model.scale["mean"], model.scale["std"]
    for prepared in model.prepared(series):
        origins = model.origins(prepared, 1)
        point = _next(model, prepared, origins)
        errors.append(prepared.truth(origins, 1)[:, 0] - point)
        off = step_scores(errors[-1], model.scale["step_error"])
        score = off.max(axis=1, initial=0.0)
        times, key = series.times(prepared.track)[origins], prepared.track.key
        scores[key], values[key] = (times, score), prepared.track.values[origins]
        for i in np.flatnonzero(score > threshold).tolist():
            c = int(off[i].argmax())
            unusual.append(
                Unusual(
                    key,
                    int(times[i]),
                    model.columns[c],
                    float(prepared.track.values[origins[i], c]),
                    float((point[i, c] + prepared.course[origins[i], c]) * std[c] + mean[c]),
                    float(score[i]),
                )
            )
    marked = len(unusual)
    if top is not None:
        unusual = sorted(unusual, key=lambda one: -one.score)[:top]
    found = Anomalies(
        tuple(unusual), threshold, scores, series.clock, values, model.columns, marked
    )
    # of single values: the score of a step, the highest of its columns, is above 1 also where all is usual
    sizes = np.abs(np.concatenate(errors)) / model.scale["step_error"]
    larger = float(np.nanmedian(sizes)) if np.isfinite(sizes).any() else 0.0
    if why := explain_marks(found, rate, model.recorded("usual_steps", 0), larger):
        progress.say(why)
    return found
