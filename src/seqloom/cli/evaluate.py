"""`seqloom evaluate MODEL DATA`."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seqloom import tasks
from seqloom.cli.clusters import cluster_options, model_facts, refuse_work, workers
from seqloom.cli.options import common, emit, finite, former_name, options_of, task_options
from seqloom.errors import ConfigError, DataError
from seqloom.progress import reporting, say

if TYPE_CHECKING:
    from seqloom.config import Config
    from seqloom.tasks.task import Task

TIMED = 200  # examples whose speed is measured


def _configs(task: Task) -> tuple[type[Config], type[Config]]:
    return task.evaluation, task.reading


@click.command(
    name="evaluate",
    epilog="""\b
Examples:
  seqloom evaluate model test.txt
  seqloom evaluate model test.txt --against other-model --json
  seqloom evaluate model test.txt --chart costs.html
  seqloom evaluate model test.txt --card
  seqloom evaluate network test.txt --dynamic --dynamic-lr 0.0005
  seqloom evaluate tagger test.conllu --chart confusion.png
  seqloom evaluate sentiment test.tsv --slice-by length --slice-by source --group-by gender
  seqloom evaluate vectors --on questions-words.txt
  seqloom evaluate forecaster whole.csv --since 2024-06-01
  seqloom evaluate sentiment test.tsv --cluster 4      # four processes, 20,000 texts at a time
""",
)
@click.argument("model")
@click.argument("data", nargs=-1)
@task_options(_configs)
@click.option(
    "--card",
    is_flag=True,
    help="Add the result to the saved model: README.md and results.json in its directory, with the "
    "speed on this machine and, for models of text, a reference for seqloom drift.",
)
@cluster_options
@common
@former_name("start", "since")
def command(
    model: str,
    data: tuple[str, ...],
    card: bool,
    cluster: str | None,
    work: str | None,
    as_json: bool,
    **options: Any,
) -> None:
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
    refuse_work(cluster, work)
    loaded = tasks.open_model("evaluate", model)
    task = tasks.of(loaded)
    evaluation, reading = options_of(task, model, _configs(task), options, _configs)
    if card:
        _check_card(model)
    if cluster is None:
        outcome = task.evaluate(loaded, model, data, reading, evaluation)
    else:
        from seqloom.contracts.reading import SHARED
        from seqloom.scale.evaluating import share

        facts = model_facts(model)
        with workers(cluster, work, None) as given:
            share(loaded, given.cluster, given.folder, facts["model"], facts["digest"])
            outcome = task.evaluate(loaded, model, data, reading, evaluation)
            delattr(loaded, SHARED)
    if card:
        _add(loaded, model, data, reading, outcome.values or {}, getattr(evaluation, "on", None))
    emit(outcome.values) if as_json else click.echo(outcome.text)


def _check_card(model: str) -> None:
    """Refuse, before any work, a result that could not be added at the end."""
    from seqloom.cards import read_results

    if not Path(model).is_dir():
        raise ConfigError(f"--card writes into the directory of a saved model; {model} is a file")
    read_results(model)
    if not os.access(model, os.W_OK):
        raise ConfigError(f"--card: no permission to write into {model}")


def _add(
    model: Any,
    path: str,
    data: tuple[str, ...],
    reading: Config,
    values: dict[str, Any],
    questions: str | None,
) -> None:
    """Write the result into the model's directory, with its speed and a reference of its texts."""
    from seqloom.cards import add_result, machine
    from seqloom.metrics.reference import packed
    from seqloom.metrics.result import latency
    from seqloom.tasks.watching import reference_of

    task = tasks.of(model)
    piped = not data or "-" in data
    names = [questions] if questions else list(data)
    name = ", ".join(Path(one).name for one in names) or "standard input"
    result = {
        "data": name,
        **{key: finite(values[key]) for key in ("metrics", "signature", "notes")},
    }
    reference = None
    if questions is None and piped:
        say("standard input is read once: the card gets no speed and no reference for drift")
    elif questions is None:
        with contextlib.suppress(ConfigError):  # it reads no texts
            with reporting(None):  # it was said when it was evaluated
                read = task.read(data, reading)
            examples = task.examples(read)
            use = task.use(model)
            if use is not None:
                spent = latency(use, examples[:TIMED])
                result["speed"] = {
                    **{key: float(f"{value:.3g}") for key, value in spent.items()},
                    "machine": machine(),
                }
            try:
                reference = packed(reference_of(model, read, name))
            except DataError as error:
                say(f"no reference for drift: {error}")
    add_result(model, path, result, reference)
    say(f"added to {path}")
