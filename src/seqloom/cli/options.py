"""Command-line options made from config dataclasses, and those that every command has.

A field `min_count` becomes `--min-count`; its help, default, range and choices are the field's own.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
import sys
import types
import typing
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

from seqloom.cli.reporter import reporter_for
from seqloom.config import Config, choices, field_types
from seqloom.errors import ConfigError, DataError, suggest
from seqloom.progress import reporting, say

if TYPE_CHECKING:
    from seqloom.data.corpus import Corpus

F = TypeVar("F", bound=Callable[..., Any])


def common(function: Callable[..., Any]) -> Callable[..., Any]:
    """--json, --quiet and --debug, and progress on stderr while the command runs."""

    @click.option("--json", "as_json", is_flag=True, help="Machine-readable output, one JSON object a line.")
    @click.option("-q", "--quiet", is_flag=True, help="No progress and no remarks.")
    @click.option("--debug", is_flag=True, help="Show the trace of an error.")
    @functools.wraps(function)
    def wrapped(*args: Any, quiet: bool, debug: bool, **options: Any) -> Any:
        try:
            with reporting(reporter_for(quiet)):
                result = function(*args, **options)
                sys.stdout.flush()
                return result
        except BrokenPipeError:  # the reader went away (head); that is its right
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            raise SystemExit(0) from None

    return wrapped


class Choice(click.Choice):
    """One of several words; a wrong one is told its neighbour."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value not in self.choices:
            known = ", ".join(self.choices)
            self.fail(f"{value!r} is not one of {known}{suggest(str(value), self.choices)}", param, ctx)
        return value


def config_options(cls: type[Config], skip: typing.Collection[str] = ()) -> Callable[[F], F]:
    """One option for each field of the config."""

    def decorate(function: F) -> F:
        for option in reversed(list(_options(cls, skip))):
            function = option(function)
        return function

    return decorate


def _options(cls: type[Config], skip: typing.Collection[str]) -> typing.Iterator[Callable[..., Any]]:
    kinds = field_types(cls)
    for f in dataclasses.fields(cls):
        if f.name in skip:
            continue
        kind, meta = kinds[f.name], f.metadata
        flag = "--" + f.name.replace("_", "-")
        settings: dict[str, Any] = {"help": _help(f.default, meta), "default": None, "metavar": meta.get("metavar")}
        if kind is bool:
            yield click.option(f"{flag}/--no-{flag[2:]}", f.name, help=settings["help"], default=None)
            continue
        if choices(kind):
            settings["type"] = Choice([c for c in choices(kind) if c != "imported"])
        elif typing.get_origin(kind) is tuple:
            settings |= {"metavar": meta.get("metavar") or "N,N,..", "callback": _listed(typing.get_args(kind)[0])}
        else:
            settings["type"] = next(t for t in _parts(kind) if t is not type(None))
        yield click.option(flag, f.name, **settings)


def _help(default: Any, meta: typing.Mapping[str, Any]) -> str:
    shown = ",".join(map(str, default)) if isinstance(default, tuple) else default
    return meta["help"] + ("" if shown in (None, "") else f"  [default: {shown}]")


def _parts(kind: Any) -> tuple[Any, ...]:
    return typing.get_args(kind) if typing.get_origin(kind) in (typing.Union, types.UnionType) else (kind,)


def _listed(item: type) -> Callable[[click.Context, click.Parameter, str | None], tuple[Any, ...] | None]:
    def parse(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[Any, ...] | None:
        if value is None:
            return None
        try:
            return tuple(item(part) for part in value.replace(",", " ").split())
        except ValueError:
            raise click.BadParameter(f"{value!r} is not a list such as 0,0,1") from None

    return parse


def given(cls: type[Config], values: dict[str, Any]) -> dict[str, Any]:
    """The options of that config that the user gave, taken out of `values`."""
    names = [f.name for f in dataclasses.fields(cls)]
    return {name: value for name in names if (value := values.pop(name, None)) is not None}


def emit(value: Any) -> None:
    """One JSON object on its own line; infinity and NaN, which JSON does not have, become text."""
    click.echo(json.dumps(_finite(value), ensure_ascii=False, allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def reading(function: Callable[..., Any]) -> Callable[..., Any]:
    """--encoding and --column, for commands that read text."""
    function = click.option("--column", metavar="NAME", help="Of a table (.csv, .tsv, .jsonl, .parquet): the column to "
                            "read, or a path such as messages.0.content; each row is a document.")(function)
    return click.option("--encoding", default="utf-8", show_default=True, help="Encoding of the text files.")(function)


def read_corpus(text: tuple[str, ...], encoding: str = "utf-8", column: str | None = None) -> Corpus:
    """The text arguments of a command; none, or `-`, is standard input."""
    from seqloom.data.corpus import read

    sources = list(text) or ["-"]
    if "-" in sources and sys.stdin.isatty():
        say("reading standard input; end it with Ctrl-D")
    return read(sources if len(sources) > 1 else sources[0], encoding=encoding, column=column)


def load_for(command: str, directory: str, *tasks: str) -> Any:
    """A saved model of one of the tasks that a command is for."""
    from seqloom.storage import load

    model = load(directory)
    if model.task not in tasks:
        wanted, there = (" or ".join(name if name.endswith("s") else f"a {name}" for name in names)
                         for names in (tasks, (model.task,)))
        raise ConfigError(f"{command} is for {wanted}; {directory} is {there} ({model.name})")
    return model


def stdin_lines() -> Iterator[str]:
    """Standard input line by line, without the newlines, as it comes."""
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            yield line.decode("utf-8").removesuffix("\n")
        except UnicodeDecodeError as error:
            raise DataError(f"stdin is not UTF-8 text: line {number}, byte {error.start + 1} of it "
                            f"is 0x{line[error.start]:02X}") from None
