"""`seqloom scaling DATA` and `seqloom scaling MODEL...`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from seqloom.cli.ab import model_options
from seqloom.cli.options import common, config_options, emit
from seqloom.config import MOST_MINUTES, MOST_SEED
from seqloom.tasks.reading import TextReading, read_text


def _numbers(kind: type) -> Any:
    """Return a callback that reads numbers separated by commas."""

    def read(context: click.Context, parameter: click.Parameter, text: str | None) -> list[Any]:
        try:
            return [kind(part) for part in (text or "").replace(",", " ").split()]
        except ValueError:
            raise click.BadParameter(f"{text!r} is no list of numbers such as 32,64,128") from None

    return read


@click.command(
    name="scaling",
    epilog="""\b
Examples:
  seqloom scaling corpus.txt --model lstm --minutes 20
  seqloom scaling corpus.txt --model gpt --minutes 10 --check -o scaling.png
  seqloom scaling corpus.txt --model ngram --set order=5 --json
  seqloom scaling corpus.txt --model lstm --widths 32,64,128 --shares 0.06,0.25,1 --set lr=0.02
  seqloom scaling small medium large ...   # six saved networks or more
""",
)
@click.argument("data", metavar="[DATA|MODEL...]", nargs=-1)
@click.option(
    "--model", default="lstm", metavar="NAME", show_default=True, help="Language model to train."
)
@click.option(
    "--minutes",
    type=click.FloatRange(min=0, max=MOST_MINUTES, min_open=True),
    default=20.0,
    show_default=True,
    metavar="N",
    help="How long all runs together may take; widths and lengths are chosen by it.",
)
@click.option(
    "--widths", callback=_numbers(int), metavar="N,N,..", help="Widths of the networks instead."
)
@click.option(
    "--shares",
    callback=_numbers(float),
    metavar="X,X,..",
    help="Shares of the training text instead.",
)
@click.option(
    "--set",
    "pairs",
    multiple=True,
    metavar="OPTION=VALUE",
    help="Option of the model, or of training, in all runs; may be repeated.",
)
@click.option("--valid", metavar="FILE", help="Text to measure on [default: the last 5 % of DATA].")
@click.option(
    "--check",
    is_flag=True,
    help="Also train a run of four times the compute of the largest, and say whether it was foretold; "
    "takes two and a half times as long again.",
)
@click.option("-o", "--output", metavar="FILE", help="Picture: .png, .svg, .html.")
@click.option(
    "--work", metavar="DIR", help="Where plan and runs are kept.  [default: the user's cache]"
)
@click.option("-s", "--seed", type=click.IntRange(0, MOST_SEED), default=0, help="Random seed.")
@click.option("--device", metavar="NAME", help="Device of networks: cpu, cuda, mps.")
@config_options(TextReading)
@common
def command(
    data: tuple[str, ...],
    model: str,
    minutes: float,
    widths: list[int],
    shares: list[float],
    pairs: tuple[str, ...],
    valid: str | None,
    check: bool,
    output: str | None,
    work: str | None,
    seed: int,
    device: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Say how far more text, a larger network or more time would help, from small runs.

    A plan of nine runs of a language model on parts of DATA, three widths by three lengths, and two
    with other seeds, for the noise; then the law L = E + A / N^a + B / D^b of weights N and text D, with
    intervals. Models that count have lengths alone. Finished runs are kept, so the same command
    resumes. With saved networks of your own, at least six of one tokenizer, nothing is trained. Without
    DATA the bundled text is read, with - standard input.
    """
    from seqloom.charts.theme import check_target
    from seqloom.comparison.scaling import scaling
    from seqloom.comparison.scaling_result import scaling_of
    from seqloom.errors import ConfigError

    if output:
        check_target(output)
    reading = TextReading(**{name: value for name, value in options.items() if value is not None})
    held_out = None if valid is None else read_text((valid,), reading)
    if data and all((Path(one) / "config.json").is_file() for one in data):
        if widths or shares or pairs or check:
            raise ConfigError(
                "widths, shares, set and check are for runs that are trained here; leave them out for saved "
                "models"
            )
        result = scaling_of(data, valid=held_out)
    else:
        try:
            result = scaling(
                read_text(data, reading) if data else None,
                model=model,
                minutes=minutes,
                widths=widths,
                shares=shares,
                options=model_options([model], pairs),
                valid=held_out,
                check=check,
                work=work,
                seed=seed,
                device=device,
            )
        except KeyboardInterrupt as error:
            raise type(error)(
                "interrupted; finished runs are kept; run the same command to resume"
            ) from None
    if output:
        result.sheet().save(output)
    emit(result.to_dict()) if as_json else click.echo(result.table())
