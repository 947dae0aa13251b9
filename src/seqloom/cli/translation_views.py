"""`seqloom inspect exposure-bias`: views of translators."""

from __future__ import annotations

from typing import Any

import click

from seqloom import tasks
from seqloom.cli.options import common, config_options, emit, given
from seqloom.tasks.translation import PairsReading


@click.command(name="exposure-bias", epilog="""\b
Examples:
  seqloom inspect exposure-bias model test.tsv
  seqloom inspect exposure-bias model test.en test.de --chart exposure.png
""")
@click.argument("model")
@click.argument("data", nargs=-1)
@click.option("--chart", metavar="FILE", help="Draw the nats by position in the target: .png, .svg, .html.")
@config_options(PairsReading)
@common
def exposure_command(model: str, data: tuple[str, ...], chart: str | None, as_json: bool, **options: Any) -> None:
    """What it costs a translator to continue its own text instead of the true one.

    DATA are pairs. The nats per token of the targets after the true tokens before each (teacher forcing), and after the
    model's own greedy translation up to there (free running); their difference is the exposure-bias gap.
    """
    from seqloom.charts.files import check_target
    from seqloom.inspect import exposure_bias
    from seqloom.metrics.tables import numbers

    if chart is not None:
        check_target(chart)
    loaded = tasks.open_model("inspect exposure-bias", model)
    sheet = exposure_bias(loaded, tasks.of(loaded).read(data, PairsReading(**given(PairsReading, options))))
    if chart is not None:
        sheet.save(chart)
    emit(sheet.data) if as_json else click.echo("\n".join([*sheet.summary, "", numbers(sheet.data["positions"])]))
