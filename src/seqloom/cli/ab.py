"""`seqloom ab DATA`."""

from __future__ import annotations

import contextlib
import types
import typing
from typing import TYPE_CHECKING, Any

import click

from seqloom import tasks
from seqloom.cli.options import Choice, common, emit, options_of, task_options
from seqloom.registry import MODELS

if TYPE_CHECKING:
    from seqloom.config import Config
    from seqloom.tasks.task import Task


def _configs(task: Task) -> tuple[type[Config]]:
    return (task.reading,)


@click.command(
    name="ab",
    epilog="""\b
Examples:
  seqloom ab corpus.txt --both tokenizer=word --a normalize=topic --b normalize=topic,stem=porter --folds 3
  seqloom ab corpus.txt --both tokenizer=byte --both unit=stream --a order=4 --b order=6
  seqloom ab reviews.tsv --model naive-bayes --b normalize=stopwords=remove --folds 5
  seqloom ab corpus.txt --a lstm --b gru --both steps=200 --folds 5
  seqloom ab train.conllu --valid dev.conllu --model hmm-tagger --a order=1 --b order=2
""",
)
@click.argument("data", nargs=-1)
@click.option(
    "--model",
    type=Choice([name for name, entry in MODELS.items() if entry.fitted]),
    default="ngram",
    metavar="NAME",
    show_default=True,
    help="Model, unless A and B name their own.",
)
@click.option(
    "--a",
    "a",
    multiple=True,
    metavar="MODEL|OPTION=VALUE",
    help="Model or option of setting A; may be repeated.",
)
@click.option(
    "--b",
    "b",
    multiple=True,
    metavar="MODEL|OPTION=VALUE",
    help="Model or option of setting B; may be repeated.",
)
@click.option(
    "--both",
    multiple=True,
    metavar="OPTION=VALUE",
    help="Option of both settings; may be repeated.",
)
@click.option(
    "--valid",
    metavar="FILE",
    help="Held-out data; for word vectors, analogies or similarities [default: the last "
    "tenth of DATA].",
)
@click.option(
    "--folds", type=click.IntRange(2, 1000), help="Cross-validation with this many folds."
)
@click.option(
    "--seeds", metavar="N,..", help="Repeat with each of these seeds, on the same held-out part."
)
@click.option("--device", metavar="NAME", help="Device of networks: cpu, cuda, mps.")
@task_options(_configs)
@common
def command(
    data: tuple[str, ...],
    model: str,
    a: tuple[str, ...],
    b: tuple[str, ...],
    both: tuple[str, ...],
    valid: str | None,
    folds: int | None,
    seeds: str | None,
    device: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Compare two models, or a model with and without an option, on the same held-out part of DATA,
    with paired intervals.

    Options are those of `seqloom fit MODEL`, including training. The metric is that of the task:
    bits per byte, accuracy, span F1, MSE, or correct answers; translators are compared by `seqloom
    compare`. Without DATA, or with -, standard input is read.
    """
    from seqloom.comparison.ab import ab
    from seqloom.errors import ConfigError
    from seqloom.registry import find

    try:
        numbers = [int(seed) for seed in seeds.replace(",", " ").split()] if seeds else []
    except ValueError:
        raise ConfigError(f"--seeds must be whole numbers such as 1,2,3; got {seeds!r}") from None
    names = [next((part for part in side if part in MODELS), model) for side in (a, b)]
    first, second = (
        model_options([name], [part for part in side if part != name]) | {"model": name}
        for name, side in zip(names, (a, b))
    )
    task = tasks.get(find(names[0]).task)
    (reading,) = options_of(task, names[0], _configs(task), options, _configs)
    result = ab(
        task.read(data, reading),
        a=first,
        b=second,
        both=model_options(names, both),
        folds=folds,
        seeds=numbers,
        valid=None if valid is None else task.read_valid(valid, reading),
        device=device,
    )
    emit(result.to_dict()) if as_json else click.echo(result.table())


def _fields(model: str) -> dict[str, Any]:
    """Return the types of a model's options, those of training included."""
    from seqloom.config import field_types
    from seqloom.registry import config_class
    from seqloom.training.config import TrainConfig

    config = config_class(model)
    return {
        **(field_types(TrainConfig) if "train" in config.fit_arguments else {}),
        **field_types(config),
    }


def model_options(models: list[str], pairs: typing.Sequence[str]) -> dict[str, Any]:
    """Convert values to the types of the config fields; a config itself refuses what is wrong."""
    from seqloom.errors import ConfigError, suggest

    kinds = {name: kind for model in models for name, kind in _fields(model).items()}
    options: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise ConfigError(
                f"{pair!r} is neither a model nor OPTION=VALUE, for example order=3{suggest(pair, MODELS)}"
            )
        name = name.strip().replace("-", "_")
        options[name] = _typed(kinds.get(name), value)
    return options


def _typed(kind: Any, value: str) -> Any:
    """Convert the text to a value of that type where possible, else return it as it is."""
    if typing.get_origin(kind) is tuple:
        return [_typed(typing.get_args(kind)[0], part) for part in value.replace(",", " ").split()]
    kinds = typing.get_args(kind) if typing.get_origin(kind) is types.UnionType else (kind,)
    if bool in kinds and value in ("true", "false"):
        return value == "true"
    if type(None) in kinds and value == "none":
        return None
    for number in (int, float):
        if number in kinds:
            with contextlib.suppress(ValueError):
                return number(value)
    return value
