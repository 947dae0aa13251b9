"""`seqloom robustness MODEL DATA`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from seqloom import tasks
from seqloom.cli.options import common, emit, options_of, task_options

if TYPE_CHECKING:
    from seqloom.config import Config
    from seqloom.tasks.task import Task


def _configs(task: Task) -> tuple[type[Config], ...]:
    return () if task.perturbing is None else (task.perturbing, task.reading)


@click.command(
    name="robustness",
    epilog="""\b
Examples:
  seqloom robustness sentiment test.tsv
  seqloom robustness sentiment test.tsv --perturb typos --typo-rate 0.1 --seed 7 --json
  seqloom robustness tagger test.conllu --chart robustness.png
""",
)
@click.argument("model")
@click.argument("data", nargs=-1)
@task_options(_configs)
@common
def command(model: str, data: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Evaluate a classifier or a tagger on the same data, perturbed.

    Typing errors (letters swapped with the next, dropped, doubled), lower and upper case, truncated
    to the first half of the words, lengthened by another text of the same class, and the words
    shuffled: if that costs nothing, word order does not matter here. Each row has the metric and
    the paired difference to the data as it is. Without DATA, or with -, standard input is read.
    """
    from seqloom.comparison.robustness import robustness
    from seqloom.data.perturb import PERTURBATIONS
    from seqloom.tasks.task import shown

    loaded = tasks.open_model("robustness", model)
    task = tasks.of(loaded)
    perturbing, reading = options_of(task, model, _configs(task), options, _configs)
    if perturbing.chart is not None:
        from seqloom.charts.theme import check_target

        check_target(perturbing.chart)
    result = robustness(
        loaded,
        task.read(data, reading),
        perturb=perturbing.perturb or PERTURBATIONS,
        typo_rate=perturbing.typo_rate,
        seed=perturbing.seed,
    )
    if perturbing.chart is not None:
        from seqloom.views import robustness as picture

        picture(result).save(perturbing.chart)
    outcome = shown(result)
    emit(outcome.values) if as_json else click.echo(outcome.text)
