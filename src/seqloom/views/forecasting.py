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
    from seqloom.contracts.forecasts import Anomalies, Forecast
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

    def draw(page: bool) -> dict[str, Any]:
        charts: dict[str, Any] = {}
        for key, (times, _) in found.scores.items():
            for c, column in enumerate(found.columns):
                marks = [one for one in found.found if (one.key, one.column) == (key, column)]
                if len(charts) < MAX_CHARTS:
                    charts[_heading(key, column)] = marks_chart(
                        Line(times.tolist(), found.values[key][:, c].tolist()),
                        Line([one.time for one in marks], [one.value for one in marks]),
                        rows=found.clock.rows,
                        title=column,
                    )
        return _lower(charts)

    return Sheet(f"{name}: {len(found):,} steps that are not as expected", draw, found.to_dict())


def _lower(charts: dict[str, Any]) -> dict[str, Any]:
    if len(charts) <= MANY:
        return charts
    return {heading: chart.properties(height=LOW) for heading, chart in charts.items()}


def _heading(key: str, column: str) -> str:
    return f"{key}: {column}" if key else column
