"""Command-line options made from config dataclasses, those that every command has, and those that the
commands for word vectors share.

A field `min_count` becomes `--min-count`; its help, default, range and choices are those of the field.
Commands are imported when they are asked for (`LazyGroup`).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import math
import os
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import click

from seqloom import tasks
from seqloom.cli.flags import flags_of, in_flags
from seqloom.config import MAX_INTEGER, Config, choices, field_types
from seqloom.describing import renamed
from seqloom.errors import ConfigError, DataError, SeqloomError, either, suggest
from seqloom.progress import current, reporting, worded
from seqloom.reporters import RemarksOnly, reporter_for
from seqloom.tasks.reading import TextReading, read_text
from seqloom.tasks.task import Command

if TYPE_CHECKING:
    from collections.abc import Callable

    from seqloom.data.corpus import Corpus
    from seqloom.tasks.task import Task


_WIDE = 60  # characters of choices that do not fit beside a flag

F = TypeVar("F", bound=Callable[..., Any])


def common(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --json, --quiet and --debug, and progress on stderr while the command runs."""

    @click.option(
        "--json", "as_json", is_flag=True, help="Machine-readable output, one JSON object per line."
    )
    @click.option("-q", "--quiet", is_flag=True, help="No progress or messages.")
    @click.option("--debug", is_flag=True, help="Show the traceback of an error.")
    @functools.wraps(function)
    def wrapped(*args: Any, quiet: bool, debug: bool, **options: Any) -> Any:
        flags = flags_of(click.get_current_context().command)
        try:
            with reporting(reporter_for(quiet)), worded(lambda text: in_flags(text, flags)):
                result = function(*args, **options)
                sys.stdout.flush()
                return result
        except SeqloomError as error:
            error.args = (in_flags(str(error), flags, getattr(error, "options", ())),)
            raise
        except BrokenPipeError:  # the reader went away (head); that is its right
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            raise SystemExit(0) from None

    return wrapped


def former_name(old: str, new: str) -> Callable[[F], F]:
    """Keep the former name of an option too, hidden from the help; put it below `common`, since
    using it is reported.
    """

    def decorate(function: F) -> F:
        @click.option(f"--{old}", "former", hidden=True)
        @functools.wraps(function)
        def wrapped(*args: Any, former: Any, **options: Any) -> Any:
            options[new] = renamed(f"--{new}", options[new], f"--{old}", former)
            return function(*args, **options)

        return typing.cast("F", wrapped)

    return decorate


def no_bars() -> AbstractContextManager[None]:
    """Return a context in which remarks are shown, but no progress, which would come between lines
    of output.
    """
    reporter = current()
    return reporting(None if reporter is None else RemarksOnly(reporter))


class Choice(click.Choice):
    """One of several words; for a wrong one the nearest is suggested."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value not in self.choices:
            known = ", ".join(self.choices)
            self.fail(
                f"{value!r} is not one of {known}{suggest(str(value), self.choices)}", param, ctx
            )
        return value


def config_options(cls: type[Config], skip: typing.Collection[str] = ()) -> Callable[[F], F]:
    """Add one option for each field of the config."""

    def decorate(function: F) -> F:
        for option in reversed(list(_options(cls, skip))):
            function = option(function)
        return function

    return decorate


def union_options(classes: Sequence[tuple[str, type[Config]]]) -> Callable[[F], F]:
    """Add one option for each name among the fields of the configs, naming the owner; where they
    differ in their choices or help, all are offered and shown.
    """
    offered: dict[str, list[str]] = {}
    helps: dict[str, dict[str, list[str]]] = {}
    for owner, cls in classes:
        for f in dataclasses.fields(cls):
            offered.setdefault(f.name, []).extend(choices(field_types(cls)[f.name]))
            helps.setdefault(f.name, {}).setdefault(_help(f), []).append(owner)
    shown = {
        name: next(iter(texts))
        if len(texts) == 1
        else " ".join(
            f"For {' or '.join(owners)}: {_continued(text)}" for text, owners in texts.items()
        )
        for name, texts in helps.items()
    }

    def decorate(function: F) -> F:
        done: set[str] = set()
        options: list[Callable[..., Any]] = []
        for _, cls in classes:
            options += _options(cls, done, offered, shown)
            done |= {f.name for f in dataclasses.fields(cls)}
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def _continued(text: str) -> str:
    """Return the text as written inside a sentence; names such as CoNLL stay."""
    return text[0].lower() + text[1:] if text[1:2].islower() and text.split()[0].istitle() else text


def _options(
    cls: type[Config],
    skip: typing.Collection[str],
    offered: typing.Mapping[str, list[str]] | None = None,
    helps: typing.Mapping[str, str] | None = None,
) -> typing.Iterator[Callable[..., Any]]:
    """Yield an option for each field; `offered` and `helps` replace, by name, its own choices and
    help.
    """
    kinds = field_types(cls)
    for f in dataclasses.fields(cls):
        if f.name in skip:
            continue
        kind, meta = kinds[f.name], f.metadata
        flag = "--" + f.name.replace("_", "-")
        settings: dict[str, Any] = {
            "help": (helps or {}).get(f.name) or _help(f),
            "default": None,
            "metavar": meta.get("metavar"),
        }
        if kind is bool:
            both = f"{flag}/--no-{flag[2:]}" if meta.get("negatable", True) else flag
            yield click.option(both, f.name, help=settings["help"], default=None, is_flag=True)
            continue
        if choices(kind) and str not in _parts(kind):
            every = (offered or {}).get(f.name) or choices(kind)
            words = [c for c in dict.fromkeys(every) if c != "imported"]
            settings["type"] = Choice(words)
            if len("|".join(words)) > _WIDE and settings["metavar"] is None:
                settings |= {"metavar": "NAME", "help": _with_choices(settings["help"], words)}
        elif meta.get("repeated"):
            settings |= {
                "multiple": True,
                "callback": _repeated,
                "default": (),
                "type": _item(typing.get_args(kind)[0]),
            }
        elif typing.get_origin(kind) is tuple:
            settings |= {
                "metavar": meta.get("metavar") or "N,N,..",
                "multiple": True,
                "default": (),
                "callback": _listed(typing.get_args(kind)[0]),
            }
        else:
            settings["type"] = (
                str if choices(kind) else next(t for t in _parts(kind) if t is not type(None))
            )
        yield click.option(flag, f.name, **settings)


def _with_choices(text: str, words: Sequence[str]) -> str:
    """Return a help text that names all choices, for flags where they would not fit beside it."""
    if all(word in text for word in words):
        return text
    before, mark, default = text.partition("  [default")
    return f"{before.rstrip('.')}: {', '.join(words)}{mark}{default}"


def _help(f: dataclasses.Field[Any]) -> str:
    """Return the help of a field with its default; for a switch that can only be turned on, off
    goes without saying.
    """
    default, text = f.default, str(f.metadata["help"])
    shown = ",".join(map(str, default)) if isinstance(default, tuple) else default
    if shown in (None, "") or not f.metadata.get("negatable", True):
        return text
    if isinstance(default, bool):
        shown = "on" if default else "off"
    return f"{text}  [default: {shown}]"


def _parts(kind: Any) -> tuple[Any, ...]:
    return (
        typing.get_args(kind)
        if typing.get_origin(kind) in (typing.Union, types.UnionType)
        else (kind,)
    )


def _item(kind: Any) -> click.ParamType | type:
    words = choices(kind)
    return Choice(words) if words else kind


def _repeated(
    ctx: click.Context, param: click.Parameter, value: tuple[Any, ...]
) -> tuple[Any, ...] | None:
    return value or None


def _listed(
    item: type,
) -> Callable[[click.Context, click.Parameter, tuple[str, ...]], tuple[Any, ...] | None]:
    """Return what parses lists: `--keep id,date` is `--keep id --keep date`."""

    def parse(
        ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
    ) -> tuple[Any, ...] | None:
        if not values:
            return None
        value = ",".join(values)
        try:
            if item is str:  # a name may have spaces
                return tuple(part.strip() for part in value.split(",") if part.strip())
            return tuple(item(part) for part in value.replace(",", " ").split())
        except ValueError:
            raise click.BadParameter(f"{value!r} is not a list such as 0,0,1") from None

    return parse


def given(cls: type[Config], values: dict[str, Any]) -> dict[str, Any]:
    """Take the options of that config that the user gave out of `values`."""
    names = [f.name for f in dataclasses.fields(cls)]
    return {name: value for name in names if (value := values.pop(name, None)) is not None}


def emit(value: Any) -> None:
    """Print one JSON object on its own line; infinity and NaN, which JSON lacks, become text."""
    click.echo(json_line(value))


def json_line(value: Any) -> str:
    """Return a value as one line of JSON."""
    return json.dumps(finite(value), ensure_ascii=False, allow_nan=False)


def finite(value: Any) -> Any:
    """Replace infinity and NaN, which JSON lacks, by text, and arrays by lists."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


# --encoding, --column and --strict, for commands that read text.
reading = config_options(TextReading)


def read_corpus(
    paths: tuple[str, ...],
    encoding: str | None = None,
    column: str | None = None,
    strict: bool | None = None,
) -> Corpus:
    """Read the text arguments of a command; none, or `-`, is standard input."""
    return read_text(
        paths,
        TextReading(
            **given(TextReading, {"encoding": encoding, "column": column, "strict": strict})
        ),
    )


def task_options(configs: Callable[[Task], Sequence[type[Config]]]) -> Callable[[F], F]:
    """Add the options of all tasks, for a command that learns its task from its model."""
    return union_options(
        [(task.phrase, config) for task in tasks.every() for config in configs(task)]
    )


def options_of(
    task: Task,
    path: str,
    chosen: Sequence[type[Config]],
    options: dict[str, Any],
    configs: Callable[[Task], Sequence[type[Config]]],
) -> list[Any]:
    """Build the configs of one task from the given options; refuse those of other tasks."""
    names = {f.name for config in chosen for f in dataclasses.fields(config)}
    for name, value in options.items():
        if name not in names and value is not None:
            users = [
                other.phrase
                for other in tasks.every()
                if name in {f.name for config in configs(other) for f in dataclasses.fields(config)}
            ]
            flags = ", ".join(f"--{option.replace('_', '-')}" for option in sorted(names))
            raise ConfigError(
                f"--{name.replace('_', '-')} is for {either(users)}; {path} is {task.phrase}, which takes "
                f"{flags}"
            )
    return [config(**given(config, dict(options))) for config in chosen]


def stdin_lines() -> Iterator[str]:
    """Yield standard input line by line, without line ends, as it comes."""
    return itertools.chain.from_iterable(stdin_arrivals())


def stdin_arrivals() -> Iterator[list[str]]:
    """Yield the lines of standard input without line ends, at a time those that have arrived."""
    # one call of the system: what has arrived, or what comes next if nothing waits
    arrived = typing.cast("Any", sys.stdin.buffer).read1
    chunks, waiting, number = iter(lambda: arrived(1 << 20), b""), [], 1
    for chunk in itertools.chain(chunks, [b""]):
        complete, newline, rest = chunk.rpartition(b"\n")
        waiting.append(complete if newline else rest)
        if newline or not chunk:
            joined = b"".join(waiting)
            lines = joined.split(b"\n") if newline or joined else []
            if lines:
                yield [_decoded(line, at) for at, line in enumerate(lines, number)]
            number += len(lines)
            waiting = [rest]


def _decoded(line: bytes, number: int) -> str:
    try:
        return line.decode("utf-8").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise DataError(
            f"stdin is not UTF-8 text: line {number}, byte {error.start + 1} of it "
            f"is 0x{line[error.start]:02X}"
        ) from None


# ---- groups


class LazyGroup(click.Group):
    """A group that imports a command's module when the command is asked for."""

    heading = "Commands"

    def entries(self) -> Mapping[str, Command]:
        """Return its commands by name."""
        raise NotImplementedError

    def answer(self, word: str) -> str | None:
        """Say what an unknown word is called here; None if nothing is known of it."""
        return None

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.entries())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if (entry := self.entries().get(cmd_name)) is None:
            return None
        module, _, attribute = entry.target.partition(":")
        return getattr(import_module(module), attribute)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in (known := self.entries()) and not args[0].startswith("-"):
            answer = self.answer(args[0])
            hint = suggest(args[0], known) if answer is None else f"; {answer}"
            raise click.UsageError(f"unknown {self.heading.lower()[:-1]} {args[0]!r}{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section(self.heading):
            formatter.write_dl([(name, command.help) for name, command in self.entries().items()])


# ---- vectors


def among(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--among",
        type=click.IntRange(1, MAX_INTEGER),
        metavar="N",
        help="Only among the N most frequent words.",
    )(function)


def approximate(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--approximate",
        is_flag=True,
        help="Approximate search in a neighbour graph, which misses a few. "
        "Building it takes minutes for 400,000 words: only for many queries on millions of words.",
    )(function)
