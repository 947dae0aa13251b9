"""`seqloom anomalies MODEL DATA`."""

from __future__ import annotations

from typing import Any

import click

from seqloom.cli.options import common, config_options, emit, former_name, given
from seqloom.tasks import open_model
from seqloom.tasks.forecasting import Forecasting, SeriesReading


@click.command(
    name="anomalies",
    epilog="""\b
Examples:
  seqloom anomalies model sensor.csv
  seqloom anomalies model sensor.csv --top 10
  seqloom anomalies model sensor.csv --rate 0.01 --chart marks.png --json
""",
)
@click.argument("model")
@click.argument("data", nargs=-1)
@click.option(
    "--rate",
    type=click.FloatRange(1e-4, 0.5),
    default=0.001,
    show_default=True,
    help="Share of usual steps that may be marked.",
)
@click.option(
    "--top",
    type=click.IntRange(1, 1_000_000_000),
    metavar="K",
    help="Print only the K marks with the highest scores, highest first.",
)
@click.option(
    "--since",
    metavar="TIME",
    help="Look from this time on; what comes before is history  "
    "[default: where the training data ended].",
)
@click.option(
    "--chart", metavar="FILE", help="Draw the series with its anomalies: .png, .svg, .html."
)
@config_options(SeriesReading)
@common
@former_name("start", "since")
def command(
    model: str,
    data: tuple[str, ...],
    rate: float,
    top: int | None,
    since: str | None,
    chart: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Print the steps of DATA that differ from their forecast by more than a threshold.

    Each step is forecast from those before it. The score is the error in units of the usual one; the
    threshold was learned from all blocks of the training data, each forecast by a model that had not
    learned from it (of a network, by the network itself), or from --valid where that was given.

    DATA that goes on after the training data is looked at from there on. The training data itself is
    looked at as a whole, with a warning: what is in it counts as usual, so about a share --rate of it is
    marked, less where the model remembers it, and faults in it raise the threshold.
    """
    if chart is not None:
        from seqloom.charts.theme import check_target

        check_target(chart)
    loaded = open_model("anomalies", model)
    series = Forecasting().read(data, SeriesReading(**given(SeriesReading, options)), loaded)
    found = loaded.anomalies(series, rate=rate, top=top, since=since)
    if chart is not None:
        from seqloom.views import anomalies

        anomalies(found, loaded.label()).save(chart)
    emit(found.to_dict()) if as_json else click.echo(str(found))
