"""`seqloom predict MODEL [TEXT]`."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from seqloom import progress, tasks
from seqloom.cli.options import common, emit, no_bars, options_of, stdin_lines, task_options
from seqloom.errors import ConfigError

if TYPE_CHECKING:
    from seqloom.config import Config
    from seqloom.tasks.task import Task


def _configs(task: Task) -> tuple[type[Config], ...]:
    return () if task.predicting is None else (task.predicting,)


@click.command(
    name="predict",
    epilog="""\b
Examples:
  seqloom predict sentiment reviews.txt
  echo "what a lovely film" | seqloom predict sentiment --proba --json
  echo "what a lovely film" | seqloom predict sentiment --explain
  echo "what a lovely film" | seqloom predict sentiment --explain --chart why.png
  seqloom predict entailment new.tsv --text-column premise --pair-column hypothesis
  echo "Time flies like an arrow" | seqloom predict tagger
  tail -f readings.txt | seqloom predict alarms --stream
""",
)
@click.argument("model")
@click.argument("text", nargs=-1)
@task_options(_configs)
@common
def command(model: str, text: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Predict the class of each line of TEXT, or the tags of its words.

    A line is one text, or one sentence of words separated by spaces; with --column, each row of a
    table is one. For a classifier of pairs of texts, a line is a pair with a tab between the two;
    or columns of a table are named. Without TEXT, or with -, standard input is read; with --stream
    each of its lines is answered as it comes: a line is a word (or more) of the text or sentence,
    or a row of numbers of the series.
    """
    loaded = tasks.open_model("predict", model)
    task = tasks.of(loaded)
    (predicting,) = options_of(task, model, _configs(task), options, _configs)
    if predicting.stream and text not in ((), ("-",)):
        raise ConfigError(
            "--stream reads standard input; leave TEXT out (seqloom predict MODEL --stream < TEXT)"
        )
    answers = (
        task.stream(loaded, stdin_lines(), predicting)
        if predicting.stream
        else task.predict(loaded, text, predicting)
    )
    with progress.collecting(), no_bars() if sys.stdout.isatty() else nullcontext():
        for answer in answers:
            if as_json and answer.values is not None:
                emit(answer.values)
            elif not as_json and answer.text is not None:
                click.echo(answer.text)
