"""`seqloom score MODEL [TEXT]`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from seqloom import tasks
from seqloom.cli.options import common, emit, options_of, task_options
from seqloom.errors import ConfigError

if TYPE_CHECKING:
    from seqloom.config import Config
    from seqloom.contracts import LanguageModel
    from seqloom.data.corpus import Corpus
    from seqloom.tasks.task import Task


def _configs(task: Task) -> tuple[type[Config], ...]:
    return () if task.scoring is None else (task.scoring,)


@click.command(
    name="score",
    epilog="""\b
Examples:
  echo "to be or not to be" | seqloom score model
  seqloom score model test.txt --tokens
  seqloom score model test.txt --colour
  seqloom score translator pairs.tsv
""",
)
@click.argument("model")
@click.argument("text", nargs=-1)
@click.option(
    "--tokens",
    is_flag=True,
    help="One line per token: token, log-probability and, for n-gram models, matched order and "
    "whether unknown.",
)
@click.option(
    "--colour",
    "--color",
    is_flag=True,
    help="Language models: print the text with each token coloured by its cost, below a legend.",
)
@click.option(
    "--force-colour",
    "--force-color",
    is_flag=True,
    help="Like --colour, even into a pipe or with NO_COLOR set.",
)
@task_options(_configs)
@common
def command(
    model: str,
    text: tuple[str, ...],
    tokens: bool,
    colour: bool,
    force_colour: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Print the natural-log probability of each line of TEXT (of each file, or of the whole text,
    if that is the model's unit).

    For a translator, TEXT has pairs, and it is the probability of each target given its source.
    Without TEXT, or with -, standard input is read.
    """
    if (colour or force_colour) and (tokens or as_json):
        raise ConfigError("--colour shows the text itself; give it without --tokens and --json")
    loaded = tasks.open_model("score", model)
    task = tasks.of(loaded)
    (scoring,) = options_of(task, model, _configs(task), options, _configs)
    if colour or force_colour:
        if not hasattr(loaded, "unit"):
            raise ConfigError(f"--colour is for language models; {model} is {task.phrase}")
        _show_coloured(loaded, task.read(text, scoring), force_colour)
        return
    for answer in task.score(loaded, text, scoring, tokens):
        emit(answer.values) if as_json else click.echo(answer.text)


def _show_coloured(model: LanguageModel, corpus: Corpus, forced: bool) -> None:
    from seqloom.charts.passage import legend, show, wanted
    from seqloom.tasks.language import units
    from seqloom.views.language import pieces, scale

    bounds, per = scale(model)
    painted = wanted(sys.stdout, forced=forced)
    click.echo(legend(bounds, per, colour=painted), color=painted)
    for unit in units(corpus, model.unit):
        click.echo(
            show(pieces(model, unit), bounds, colour=painted).removesuffix("\n"), color=painted
        )
