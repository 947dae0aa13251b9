"""`seqloom ab TEXT`."""

from __future__ import annotations

import contextlib
import types
import typing
from typing import TYPE_CHECKING, Any

import click

from seqloom import tasks
from seqloom.cli.options import common, emit, read_corpus, reading
from seqloom.registry import MODELS

if TYPE_CHECKING:
    from seqloom.config import Config


CHOICES = [name for name, entry in MODELS.items() if "ab" in tasks.get(entry.task).commands]


@click.command(name="ab", epilog="""\b
Examples:
  seqloom ab corpus.txt --both tokenizer=word --b normalize=case=lower
  seqloom ab corpus.txt --both tokenizer=word --a normalize=topic --b normalize=topic,stem=porter --folds 3
  seqloom ab corpus.txt --both tokenizer=byte --both unit=stream --a order=4 --b order=6
""")
@click.argument("text", nargs=-1)
@click.option("--model", type=click.Choice(CHOICES), default="ngram", show_default=True, help="Which language model.")
@click.option("--a", "a", multiple=True, metavar="OPTION=VALUE", help="Of the first setting; may be repeated.")
@click.option("--b", "b", multiple=True, metavar="OPTION=VALUE", help="Of the second setting; may be repeated.")
@click.option("--both", multiple=True, metavar="OPTION=VALUE", help="Of both settings; may be repeated.")
@click.option("--folds", default=5, show_default=True, type=click.IntRange(2, 1000),
              help="Contiguous parts, each held out once.")
@click.option("--seeds", metavar="N,..", help="Hold out the last fold only, once for each of these seeds.")
@reading
@common
def command(text: tuple[str, ...], model: str, a: tuple[str, ...], b: tuple[str, ...], both: tuple[str, ...],
            folds: int, seeds: str | None, encoding: str, column: str | None, strict: bool, as_json: bool) -> None:
    """The same language model with and without a step, on the same held-out lines of TEXT, with paired intervals.

    Options are those of `seqloom fit MODEL`. Without TEXT, or with -, standard input is read.
    """
    from seqloom.comparison.ab import ab
    from seqloom.errors import ConfigError
    from seqloom.registry import model_class

    config = model_class(model).config_class
    try:
        numbers = [int(seed) for seed in seeds.replace(",", " ").split()] if seeds else []
    except ValueError:
        raise ConfigError(f"--seeds must be whole numbers such as 1,2,3; got {seeds!r}") from None
    result = ab(read_corpus(text, encoding, column, strict), model=model, a=_options(config, a), b=_options(config, b),
                both=_options(config, both), folds=folds, seeds=numbers)
    emit(result.to_dict()) if as_json else click.echo(result.table())


def _options(config: type[Config], pairs: tuple[str, ...]) -> dict[str, Any]:
    """Values in the types that the fields of the config have; the config itself refuses what is wrong."""
    from seqloom.config import field_types
    from seqloom.errors import ConfigError

    kinds = field_types(config)
    options: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise ConfigError(f"{pair!r} is not OPTION=VALUE, for example order=3")
        name = name.strip().replace("-", "_")
        options[name] = _typed(kinds.get(name), value)
    return options


def _typed(kind: Any, value: str) -> Any:
    """The text as a value of that type where it can be one, else as it is."""
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
