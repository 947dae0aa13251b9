"""`seqloom inspect trace` and `seqloom inspect exposure-bias`: views of translators."""

from __future__ import annotations

from textwrap import fill
from typing import Any

import click

from seqloom import tasks
from seqloom.cli.options import common, config_options, emit, given, stdin_lines
from seqloom.decoding.configs import TranslationConfig
from seqloom.errors import ConfigError, DataError
from seqloom.tasks.translation import PairsReading


@click.command(
    name="trace",
    epilog="""\b
Examples:
  seqloom inspect trace model "two dogs run"
  seqloom inspect trace model "two dogs run" --beams 2 --top 5 --chart trace.html
  echo "two dogs run" | seqloom inspect trace model --json
""",
)
@click.argument("model")
@click.argument("source", required=False)
@click.option(
    "--top",
    type=click.IntRange(1, 100),
    default=3,
    show_default=True,
    help="Candidates for the next token of each "
    "hypothesis that are shown; those that go on always are.",
)
@click.option(
    "--chart", metavar="FILE", help="Draw the beam, and what it looked at: .png, .svg, .html."
)
@config_options(TranslationConfig, skip=("search", "temperature", "top_k", "top_p", "seed"))
@common
def trace_command(
    model: str, source: str | None, top: int, chart: str | None, as_json: bool, **options: Any
) -> None:
    """Show how a translation came about, token by token.

    In each step: the open hypotheses of the beam with their log-probabilities, the source tokens
    that each looks at most, its likeliest next tokens with their probabilities and what becomes of
    them, and which hypotheses ended. * marks what became the best translation. SOURCE is one text;
    without it, the first line of standard input.
    """
    from seqloom.charts.theme import check_target
    from seqloom.views.tracing import SCREEN, trace

    if chart is not None:
        check_target(chart)
    loaded = tasks.open_model("inspect trace", model)
    if loaded.reads_numbers:
        raise ConfigError(
            f"{model} reads arrays of numbers, which are no text; use seqloom.inspect.trace in Python"
        )
    if source is None and (source := next(stdin_lines(), None)) is None:
        raise DataError("there is no source: give one, or a line on standard input")
    sheet = trace(loaded, source, top=top, **given(TranslationConfig, options))
    if chart is not None:
        sheet.save(chart)
    if as_json:
        emit({key: value for key, value in sheet.data.items() if key != "lines"})
    else:
        below = [fill(line, SCREEN) for line in sheet.summary]
        click.echo("\n\n".join([*sheet.data["lines"], "\n".join(below)]))


@click.command(
    name="exposure-bias",
    epilog="""\b
Examples:
  seqloom inspect exposure-bias model test.tsv
  seqloom inspect exposure-bias model test.en test.de --chart exposure.png
""",
)
@click.argument("model")
@click.argument("data", nargs=-1)
@click.option(
    "--chart", metavar="FILE", help="Draw the nats by position in the target: .png, .svg, .html."
)
@config_options(PairsReading)
@common
def exposure_command(
    model: str, data: tuple[str, ...], chart: str | None, as_json: bool, **options: Any
) -> None:
    """Measure what it costs a translator to continue its own text instead of the true one.

    DATA are pairs. The nats per token of the targets after the true tokens before each (teacher
    forcing), and after the model's own greedy translation up to there (free running); their
    difference is the exposure-bias gap.
    """
    from seqloom.charts.theme import check_target
    from seqloom.metrics.tables import numbers
    from seqloom.views import exposure_bias

    if chart is not None:
        check_target(chart)
    loaded = tasks.open_model("inspect exposure-bias", model)
    sheet = exposure_bias(
        loaded, tasks.of(loaded).read(data, PairsReading(**given(PairsReading, options)))
    )
    if chart is not None:
        sheet.save(chart)
    emit(sheet.data) if as_json else click.echo(
        "\n".join([*sheet.summary, "", numbers(sheet.data["positions"])])
    )
