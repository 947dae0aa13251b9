"""`seqloom forecast MODEL DATA`."""

from __future__ import annotations

from typing import Any

import click

from seqloom.cli.options import common, config_options, emit, former_name, given
from seqloom.tasks import open_model
from seqloom.tasks.forecasting import Forecasting, SeriesReading


@click.command(
    name="forecast",
    epilog="""\b
Examples:
  seqloom forecast model history.csv
  seqloom forecast model history.csv --horizon 12 --chart forecast.png
  seqloom forecast model whole.csv --since 2024-06-01 --chart against-truth.html
""",
)
@click.argument("model")
@click.argument("data", nargs=-1)
@click.option(
    "--horizon",
    type=click.IntRange(1, 10_000),
    help="Number of steps to forecast  [default: as many as the model was fitted for].",
)
@click.option(
    "--since",
    metavar="TIME",
    help="Forecast from this time on, as if nothing after it were "
    "known  [default: after the last row].",
)
@click.option(
    "--chart", metavar="FILE", help="Draw the forecast with its intervals: .png, .svg, .html."
)
@config_options(SeriesReading)
@common
@former_name("start", "since")
def command(
    model: str,
    data: tuple[str, ...],
    horizon: int | None,
    since: str | None,
    chart: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Forecast the next steps of the series in DATA, with intervals of 80 and 95 %.

    DATA: a table with a column of times, or of numbers alone; without it, or with -, standard input is read.
    """
    if chart is not None:
        from seqloom.charts.theme import check_target

        check_target(chart)
    loaded = open_model("forecast", model)
    series = Forecasting().read(data, SeriesReading(**given(SeriesReading, options)), loaded)
    forecast = loaded.forecast(series, horizon, since=since)
    if chart is not None:
        from seqloom.views.forecasting import forecast_sheet

        forecast_sheet(loaded, series, forecast).save(chart)
    if not as_json:
        click.echo(str(forecast))
        return
    for row in forecast.rows():
        emit(row)
