"""`seqloom predict MODEL [TEXT]`."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from seqloom import tasks
from seqloom.cli.options import common, emit, no_bars, options_of, task_options

if TYPE_CHECKING:
    from seqloom.config import Config
    from seqloom.tasks.task import Task


def _configs(task: Task) -> tuple[type[Config], ...]:
    return () if task.predicting is None else (task.predicting,)


@click.command(name="predict", epilog="""\b
Examples:
  seqloom predict sentiment reviews.txt
  echo "what a lovely film" | seqloom predict sentiment --proba --json
  echo "what a lovely film" | seqloom predict sentiment --explain
  echo "what a lovely film" | seqloom predict sentiment --explain --chart why.png
  seqloom predict entailment new.tsv --text-column premise --pair-column hypothesis
  echo "Time flies like an arrow" | seqloom predict tagger
""")
@click.argument("model")
@click.argument("text", nargs=-1)
@task_options(_configs)
@common
def command(model: str, text: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Predict the class of each line of TEXT, or the tags of its words.

    A line is one text, or one sentence of words separated by spaces; with --column, each row of a table is one. For a
    classifier of pairs of texts, a line is a pair with a tab between the two; or columns of a table are named.
    Without TEXT, or with -, standard input is read.
    """
    loaded = tasks.open_model("predict", model)
    task = tasks.of(loaded)
    predicting, = options_of(task, model, _configs(task), options, _configs)
    with no_bars() if sys.stdout.isatty() else nullcontext():
        for answer in task.predict(loaded, text, predicting):
            if as_json and answer.values is not None:
                emit(answer.values)
            elif not as_json and answer.text is not None:
                click.echo(answer.text)
