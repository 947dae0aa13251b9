"""What every forecaster must do."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from seqloom.contracts import Forecaster
from seqloom.data.forecasting import Series, as_series
from seqloom.errors import ConfigError, DataError, NotFitted
from seqloom.testing.rules import (
    SHARED,
    Rule,
    Specimen,
    fit,
    fitting,
    loaded_again,
    refuses,
    refuses_data,
    require,
    run,
    same,
    specimen,
)


def hours(n: int, columns: int = 2, seed: int = 0) -> Series:
    """Make hourly values with a daily cycle, a slow wave and noise."""
    rng, t = np.random.default_rng(seed), np.arange(n)[:, None]
    phase = np.arange(columns)[None]
    values = (
        20
        + 5 * np.sin(2 * np.pi * t / 24 + phase)
        + 3 * np.sin(t / 70)
        + 0.5 * rng.normal(size=(n, columns))
    )
    start = datetime(2024, 1, 1)
    return Series.of(
        values,
        [start + timedelta(hours=i) for i in range(n)],
        columns=[f"c{k}" for k in range(columns)],
    )


SERIES, HELD_OUT = hours(300), hours(200, seed=1)


def check_forecaster(model: Forecaster, data: Any = None) -> None:
    """Raise AssertionError if a forecaster breaks a rule of its contract. `data`: a series, as
    `fit` takes it.
    """
    run(RULES, specimen(model, Forecaster, data, SERIES, HELD_OUT))


def _cut(series: Series, end: int) -> Series:
    track = series.tracks[0]
    return replace(series, tracks=(replace(track, values=track.values[:end]),))


def _changed(series: Series, values: np.ndarray) -> Series:
    return replace(series, tracks=(replace(series.tracks[0], values=values),))


def _held_out(s: Specimen) -> Series:
    """Return held-out data as the model knows it."""
    return as_series(s.held_out).like(s.model.columns, tuple(s.model.learnt["known_columns"]))


@fitting
def an_unfitted_model_refuses(s: Specimen) -> None:
    assert s.fresh is not None
    model = s.fresh()
    for verb, call in (
        ("forecast", lambda: model.forecast(s.data)),
        ("evaluate", lambda: model.evaluate(s.data)),
        ("anomalies", lambda: model.anomalies(s.data)),
    ):
        refuses(call, NotFitted, f"{verb} of a model that is not fitted")


def a_forecast_goes_on_where_the_data_ends(s: Specimen) -> None:
    data = _held_out(s)
    forecast = s.model.forecast(data)
    for track, ahead in zip(data.tracks, forecast.tracks, strict=True):
        end = len(track)
        shape = s.model.horizon, len(s.model.columns)
        require(
            ahead.values.shape == shape,
            f"the forecast has the shape {ahead.values.shape} instead of {shape}",
        )
        same(
            ahead.times, data.times(track, end, end + s.model.horizon), "the times of the forecast"
        )
        require(np.isfinite(ahead.values).all(), "the forecast is not finite")
    same(
        s.model.forecast(data, 1).tracks[0].values,
        forecast.tracks[0].values[:1],
        "a shorter horizon gives another first step",
        off=1e-9,
    )


def a_horizon_that_was_not_learnt_is_refused(s: Specimen) -> None:
    for horizon in (0, s.model.horizon + 1):
        said = f"the horizon {horizon}"
        refuses(lambda: s.model.forecast(_held_out(s), horizon), ConfigError, said)  # noqa: B023


def intervals_lie_inside_each_other(s: Specimen) -> None:
    ahead = s.model.forecast(_held_out(s)).tracks[0]
    (low, high), (lower, higher) = ahead.bands[80], ahead.bands[95]
    require(
        (lower <= low).all() and (low <= high).all() and (high <= higher).all(),
        "the interval of 95 % must hold that of 80 %, and lower ends be below upper ones",
    )
    require(
        (low <= ahead.values).all() and (ahead.values <= high).all(),
        "the forecast must lie inside its interval of 80 %",
    )


def the_future_is_not_seen(s: Specimen) -> None:
    """Check that other values after an origin change nothing that was forecast from it."""
    data = _held_out(s)
    values = data.tracks[0].values
    end = len(values) - 2 * s.model.horizon
    planted = values.copy()
    planted[end:] = 1000 * planted[end:] + 7
    first, second = (s.model.backtest(_changed(data, one)) for one in (values, planted))
    early = first.origins <= end
    require(early.any(), "there is no forecast to look at")
    same(
        second.point[early],
        first.point[early],
        "a forecast changes with what came after it",
        off=1e-12,
    )
    same(
        second.bands[:, early],
        first.bands[:, early],
        "an interval changes with what came after it",
        off=1e-12,
    )
    same(
        s.model.forecast(_changed(_cut(data, end), values[:end])).tracks[0].values,
        first.point[first.origins == end][0] * s.model.scale["std"] + s.model.scale["mean"],
        "the backtest and a forecast from data that ends there differ",
        off=1e-5,
    )


def a_window_is_answered_on_its_own(s: Specimen) -> None:
    data = _held_out(s)
    together = s.model.backtest(data)
    for k in (0, len(together.origins) // 2):
        end = int(together.origins[k])
        alone = (
            s.model.forecast(_cut(data, end)).tracks[0].values - s.model.scale["mean"]
        ) / s.model.scale["std"]
        same(
            alone,
            together.point[k],
            "alone a window gets another answer than among others",
            off=1e-5,
        )


def a_second_call_gives_the_same_answer(s: Specimen) -> None:
    same(
        s.model.forecast(_held_out(s)).values,
        s.model.forecast(_held_out(s)).values,
        "a second call gives another forecast",
    )


def missing_values_are_no_obstacle(s: Specimen) -> None:
    data = _held_out(s)
    values = data.tracks[0].values.copy()
    values[::3] = np.nan
    values[-2:] = np.nan
    require(
        np.isfinite(s.model.forecast(_changed(data, values)).values).all(),
        "missing values give a forecast that is none",
    )
    require(
        np.isfinite(float(s.model.evaluate(_changed(data, values), samples=0)["mse"])),
        "missing values spoil evaluate",
    )


def evaluate_measures_what_was_forecast(s: Specimen) -> None:
    data = _held_out(s)
    done, result = s.model.backtest(data), s.model.evaluate(data)
    errors = done.truth - done.point
    same(
        result["mse"], np.nanmean(errors**2), "mse is not the mean of the squared errors", off=1e-9
    )
    low, high = done.bands[1], done.bands[5]
    inside = np.nanmean(
        np.where(np.isfinite(done.truth), (low <= done.truth) & (done.truth <= high), np.nan)
    )
    same(result["coverage_80"], inside, "coverage_80 is not how often the interval held", off=1e-9)
    without = s.model.evaluate(data, samples=0)
    require("mse_interval" not in without.metrics, "samples=0 gives an interval all the same")


def anomalies_are_what_is_above_the_threshold(s: Specimen) -> None:
    data = _held_out(s)
    anomalies = s.model.anomalies(data, rate=0.05)
    above = sum(
        int((scores > anomalies.threshold).sum()) for _, scores in anomalies.scores.values()
    )
    require(
        len(anomalies) == above,
        f"{len(anomalies)} anomalies, but {above} scores above the threshold",
    )
    require(
        all(one.score > anomalies.threshold for one in anomalies.found),
        "an anomaly is not above the threshold",
    )
    require(
        anomalies.threshold <= s.model.anomalies(data, rate=0.001).threshold,
        "fewer false alarms need a higher threshold",
    )


def save_and_load_keep_every_bit(s: Specimen) -> None:
    with loaded_again(s) as again:
        before, after = s.model.forecast(_held_out(s)), again.forecast(_held_out(s))
        same(after.values, before.values, "the loaded model forecasts something else")
        same(after.band(95)[0], before.band(95)[0], "the loaded model has other intervals")


@fitting
def units_do_not_matter(s: Specimen) -> None:
    """Check that degrees instead of kelvins give the same forecast in degrees."""
    assert s.fresh is not None
    data = as_series(s.data)
    other = replace(
        data, tracks=tuple(replace(track, values=10 * track.values + 3) for track in data.tracks)
    )
    first, second = s.new().forecast(data).values, fit(s.fresh(), other).forecast(other).values
    same(second, 10 * first + 3, "in other units it forecasts something else", off=1e-3)


@fitting
def bad_data_is_refused_in_one_line(s: Specimen) -> None:
    refuses_data(
        s,
        [
            [],
            [1.0],
            ["a", "b"],
            [[1.0, 2.0], [3.0]],
            7,
            "1 2 3",
            [None, None, None],
            [1.0, float("inf")],
            Path("missing.csv"),
        ],
        DataError,
    )


RULES: list[Rule] = [
    an_unfitted_model_refuses,
    bad_data_is_refused_in_one_line,
    a_forecast_goes_on_where_the_data_ends,
    a_horizon_that_was_not_learnt_is_refused,
    intervals_lie_inside_each_other,
    the_future_is_not_seen,
    a_window_is_answered_on_its_own,
    a_second_call_gives_the_same_answer,
    missing_values_are_no_obstacle,
    evaluate_measures_what_was_forecast,
    anomalies_are_what_is_above_the_threshold,
    save_and_load_keep_every_bit,
    units_do_not_matter,
    *SHARED,
]
