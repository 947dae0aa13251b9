"""`seqloom evaluate MODEL DATA`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from seqloom import tasks
from seqloom.cli.options import common, emit, former_name, options_of, task_options

if TYPE_CHECKING:
    from seqloom.config import Config
    from seqloom.tasks.task import Task


def _configs(task: Task) -> tuple[type[Config], type[Config]]:
    return task.evaluation, task.reading


@click.command(
    name="evaluate",
    epilog="""\b
Examples:
  seqloom evaluate model test.txt
  seqloom evaluate model test.txt --against other-model --json
  seqloom evaluate model test.txt --chart costs.html
  seqloom evaluate network test.txt --dynamic --dynamic-lr 0.0005
  seqloom evaluate tagger test.conllu --chart confusion.png
  seqloom evaluate sentiment test.tsv --slice-by length --slice-by source --group-by gender
  seqloom evaluate vectors --on questions-words.txt
  seqloom evaluate forecaster whole.csv --since 2024-06-01
""",
)
@click.argument("model")
@click.argument("data", nargs=-1)
@task_options(_configs)
@common
@former_name("start", "since")
def command(model: str, data: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Evaluate a model on held-out data.

    A language model: perplexity with and without unknown words, and bits per byte with an interval.
    An answerer: exact match and F1 as SQuAD counts them, and of questions with and without an answer.
    A classifier or a tagger: accuracy with an interval, precision, recall and F1 of each class,
    span F1, confusion matrix, errors by kind with examples. Without DATA, or with -, standard input
    is read. Word vectors (saved, or a file of word2vec, GloVe or fastText): accuracy of analogies
    by section, or rank correlation of similarities, for the words in --on FILE. A forecaster:
    squared and absolute error of forecasts from every step, each made from the steps before it, and
    how often its intervals hold.
    """
    loaded = tasks.open_model("evaluate", model)
    task = tasks.of(loaded)
    evaluation, reading = options_of(task, model, _configs(task), options, _configs)
    outcome = task.evaluate(loaded, model, data, reading, evaluation)
    emit(outcome.values) if as_json else click.echo(outcome.text)
