"""Series as charts: a forecast with its intervals against what came, and steps that were not as expected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from seqloom.charts.forecasting import Line, forecast_chart, marks_chart
from seqloom.charts.page import Sheet
from seqloom.data.forecasting import as_series
from seqloom.describing import renamed

if TYPE_CHECKING:
    from seqloom.contracts import Forecaster
    from seqloom.contracts.forecasts import Anomalies, Forecast, Unusual
    from seqloom.data.forecasting import Series

MAX_CHARTS = 8  # charts of one sheet
MANY, LOW = (
    3,
    170,
)  # from more charts than this on, pixels of each, so that they fit a screen or two
BEFORE = 4  # horizons of history that are drawn before a forecast


def forecast(
    model: Forecaster,
    data: Any,
    *,
    horizon: int | None = None,
    since: Any = None,
    start: Any = None,
    backtest: bool = False,
) -> Sheet:
    """Draw the forecast after the data, or from the time `since` on beside what came (`start` is
    its former name); `backtest`: of the last steps of the data.
    """
    since = renamed("since", since, "start", start)
    series = as_series(data, model.key_column)
    ahead = horizon or model.horizon
    if backtest:
        longest = max(series.tracks, key=len)
        since = series.clock.show(int(series.times(longest)[max(len(longest) - ahead, 1)]))
    return forecast_sheet(model, series, model.forecast(series, horizon, since=since))


def forecast_sheet(model: Forecaster, series: Series, forecast: Forecast) -> Sheet:
    """Draw a forecast that the model has made for the series."""
    return Sheet(
        f"{model.label()}: forecast",
        lambda page: _forecasts(forecast, series.like(model.columns, forecast.known_columns)),
        forecast.to_dict(),
        _left_out(len(forecast.tracks) * len(forecast.columns), "the first"),
    )


def _forecasts(forecast: Forecast, series: Series) -> dict[str, Any]:
    charts: dict[str, Any] = {}
    tracks = {track.key: track for track in series.tracks}
    for ahead in forecast.tracks:
        track = tracks[ahead.key]
        times = series.times(track)
        low = int(np.searchsorted(times, ahead.times[0])) - BEFORE * len(ahead.times)
        shown = slice(max(low, 0), int(np.searchsorted(times, ahead.times[-1], side="right")))
        for c, column in enumerate(forecast.columns):
            if len(charts) < MAX_CHARTS:
                bands = {
                    share: (lower[:, c].tolist(), upper[:, c].tolist())
                    for share, (lower, upper) in ahead.bands.items()
                }
                charts[_heading(ahead.key, column)] = forecast_chart(
                    Line(times[shown].tolist(), track.values[shown, c].tolist()),
                    Line(ahead.times.tolist(), ahead.values[:, c].tolist()),
                    bands,
                    rows=forecast.clock.rows,
                    title=column,
                )
    return _lower(charts)


def anomalies(found: Anomalies, name: str = "model") -> Sheet:
    """Draw each series with its unusual steps marked, as `Forecaster.anomalies` found them."""

    marks: dict[tuple[str, str], list[Unusual]] = {
        (key, column): [] for key in found.scores for column in found.columns
    }
    for one in found.found:
        marks[one.key, one.column].append(one)
    # where not all can be drawn, those with most marks, in their order
    most = sorted(marks, key=lambda place: -len(marks[place]))[:MAX_CHARTS]

    def draw(page: bool) -> dict[str, Any]:
        charts: dict[str, Any] = {}
        for key, column in (place for place in marks if place in most):
            its, c = marks[key, column], found.columns.index(column)
            charts[_heading(key, column)] = marks_chart(
                Line(found.scores[key][0].tolist(), found.values[key][:, c].tolist()),
                Line([one.time for one in its], [one.value for one in its]),
                rows=found.clock.rows,
                title=column,
            )
        return _lower(charts)

    return Sheet(
        f"{name}: {len(found):,} steps that are not as expected",
        draw,
        found.to_dict(),
        _left_out(len(marks), "those with most marks"),
    )


def _left_out(columns: int, chosen: str) -> list[str]:
    """Say that not all columns of all series are drawn, where it is so."""
    return (
        [f"{MAX_CHARTS} of {columns:,} columns are drawn, {chosen}."]
        if columns > MAX_CHARTS
        else []
    )


def _lower(charts: dict[str, Any]) -> dict[str, Any]:
    if len(charts) <= MANY:
        return charts
    return {heading: chart.properties(height=LOW) for heading, chart in charts.items()}


def _heading(key: str, column: str) -> str:
    return f"{key}: {column}" if key else column
