"""Base of the frozen dataclasses that hold every option of a model, a tokenizer or a command.

A field is made by `option(default, help, ...)`. The same field is the keyword argument in Python,
the flag on the command line (generated from it, see `cli/options.py`) and the key in `config.json`,
so the three are always the same word. Values are checked when the config is made; unknown keys are
refused, and so is an option that would have no effect beside the others (`only_with`).

    >>> @dataclass(frozen=True, kw_only=True)
    ... class Demo(Config):
    ...     order: int = option(3, "length of the n-grams", minimum=1)
    >>> Demo(order=2).to_dict()
    {'order': 2}
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, Literal, Self, TypeVar

from seqloom.errors import ConfigError, quoted, suggest

C = TypeVar("C", bound="Config")
Unit = Literal["line", "document", "stream"]
OnlyWith = Mapping[str, Mapping[str, Collection[Any]]]

# What `fit` may take besides the data: how much memory counting may use, where checkpoints go, how
# to train and where. On the command line there is also `cluster`: who may count.
COUNTS, ITERATES, TRAINS = (
    frozenset({"memory"}),
    frozenset({"run"}),
    frozenset({"train", "device", "run"}),
)
CONTINUES = TRAINS | {"start"}  # and a fitted model whose weights training starts from

# The largest values of options that nothing else limits: beyond all use, yet small enough to count
# and to multiply with.
MAX_INTEGER = 10**9
MOST_TOKENS = 10**8
MOST_WIDTH = 100_000
MOST_MINUTES = 10**6
MOST_SEED = 2**53  # what JSON keeps


def option(
    default: Any,
    help: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    metavar: str | None = None,
    negatable: bool = True,
    repeated: bool = False,
    saved: bool = True,
    known: Collection[str] | None = None,
) -> Any:
    """Make a documented config field. `metavar` names the value in `--help` (for example FILE);
    `negatable`: has a --no- form; `repeated`: a list, filled by repeating the
    flag; `saved`: whether its default is written too; `known`: the words that it may be, of a
    list to which other packages may add.
    """
    meta = {
        "help": help,
        "minimum": minimum,
        "maximum": maximum,
        "metavar": metavar,
        "negatable": negatable,
        "repeated": repeated,
        "saved": saved,
        "known": known,
    }
    return field(default=default, metadata=meta)


@dataclass(frozen=True, kw_only=True)
class Config:
    """Frozen, keyword-only, validated options."""

    # option: the other options on which it depends, with the values that give it an effect; (): any
    # but the default.
    # A class adds to those of its bases.
    only_with: ClassVar[OnlyWith] = {}
    # Arguments of `fit`, besides the data, that the model uses.
    fit_arguments: ClassVar[frozenset[str]] = frozenset()
    # Options without meaning for published weights, with those of bases.
    training_only: ClassVar[frozenset[str]] = frozenset()
    # Options that may differ from those of a model to start from.
    changeable: ClassVar[frozenset[str]] = frozenset()
    # Options that say what a network begins with, if not with a model.
    initial_options: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        values = {
            name: _checked(type(self), name, getattr(self, name)) for name in defaults(type(self))
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        for name, other in unused_options(type(self), values):
            self._check_exists(other)
            allowed, actual = conditions(type(self))[name][other], getattr(self, other)
            wanted = (
                f"it is for {other} {' or '.join(map(in_words, allowed))}"
                if allowed
                else f"give {other} as well"
            )
            raise ConfigError(
                f"{name} has no effect with {other} {in_words(actual)}; {wanted}, or leave {name} out",
                (name, other),
            )

    def _check_exists(self, name: str) -> None:
        """Refuse a value that names nothing, of an option without a fixed list of values; called for
        one that leaves others without effect, so that its own error comes first.
        """

    def __new__(cls, *args: Any, **values: Any) -> Self:
        """Refuse an unknown option with an error that says where it belongs, or names its neighbour."""
        names = list(defaults(cls))
        if unknown := [name for name in values if name not in names]:
            from seqloom.describing import explain_unknown

            raise ConfigError(
                f"unknown option {quoted(unknown[0])}{explain_unknown(unknown[0], cls)}"
            )
        return super().__new__(cls)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Build from plain values (JSON, keyword arguments)."""
        return cls(**values)

    @classmethod
    def from_saved(cls, values: dict[str, Any]) -> Self:
        """Make the config of a saved model, dropping options without effect, which earlier versions
        accepted.
        """
        useless = {name for name, _ in unused_options(cls, defaults(cls) | values)}
        return cls.from_dict({name: value for name, value in values.items() if name not in useless})

    def effective_options(self, *, trained: bool = True) -> dict[str, Any]:
        """Return the options that have an effect beside the others, as plain values; `trained`:
        whether there was a training here.
        """
        values = self.to_dict()
        without = {name for name, _ in unused(type(self), values)}
        if not trained:
            without |= self.gathered("training_only")
        return {name: value for name, value in values.items() if name not in without}

    @classmethod
    def gathered(cls, names: str) -> frozenset[str]:
        """Return what a class and its bases list as `training_only`, `changeable` or `initial_options`."""
        return frozenset(name for base in cls.__mro__ for name in vars(base).get(names, ()))

    @classmethod
    def continued(cls, inherited: dict[str, Any], given: typing.Mapping[str, Any]) -> Self:
        """Return the given options and those inherited ones that have an effect beside them."""
        values = {**inherited, **given}
        useless = {name for name, _ in unused_options(cls, defaults(cls) | values)} - given.keys()
        return cls.from_dict({name: value for name, value in values.items() if name not in useless})

    def may_change(self, name: str) -> bool:
        """Tell whether training may start from a model with another value of that option."""
        return name in self.gathered("changeable")

    def all_options(self) -> dict[str, Any]:
        """Return every option with its value."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        plain = self.all_options()
        left_out = {
            f.name
            for f in dataclasses.fields(self)
            if not f.metadata.get("saved", True) and plain[f.name] == f.default
        }
        return {
            k: list(v) if isinstance(v, tuple) else v for k, v in plain.items() if k not in left_out
        }


@dataclass(frozen=True, kw_only=True)
class CorpusConfig(Config):
    """Options of every model that learns from running text."""

    tokenizer: str = option(
        "whitespace",
        "whitespace, word, char, byte, bpe, wordpiece, unigram, or a saved tokenizer",
        metavar="KIND|PATH",
    )
    vocab_size: int | None = option(None, "maximum vocabulary size", minimum=2, maximum=MOST_TOKENS)
    min_count: int = option(
        1, "words seen less often than this become <unk>", minimum=1, maximum=MAX_INTEGER
    )
    vocab_file: str | None = option(
        None, "read the vocabulary from a file, one token per line", metavar="FILE"
    )
    normalize: str = option(
        "none",
        "preprocessing: none, topic, sentiment, or steps such as case=lower,stem=porter",
        metavar="PRESET|STEP=VALUE,..",
    )
    unit: Unit = option(
        "line",
        "what counts as one sequence: a line, a document (file), or the whole text as a stream",
    )


@dataclass(frozen=True, kw_only=True)
class TextConfig(CorpusConfig):
    """Options of every model that has a probability for text."""

    marks: tuple[str, ...] = option(
        (),
        "further tokens that no text produces, such as <|user|>,<|assistant|>",
        metavar="MARK,..",
        saved=False,
    )


@dataclass(frozen=True, kw_only=True)
class SeriesConfig(Config):
    """Options of every model that forecasts a series."""

    horizon: int = option(24, "number of steps to forecast", minimum=1, maximum=10_000)
    season: int | None = option(
        None,
        "steps of the cycle that repeats  [default: by the data: a day of hours, a week of days, "
        "a year of months]",
        minimum=1,
        maximum=1_000_000,
    )
    seasons: tuple[int, ...] = option(
        (),
        "several cycles, such as 48,336 for days and weeks of half hours: the shortest is the season, the "
        "mean course of the others is subtracted before and added after",
        minimum=2,
        maximum=1_000_000,
    )


def _defaults(cls: Any) -> dict[str, Any]:
    """Return the options of a class, each with its default."""
    return {f.name: f.default for f in dataclasses.fields(cls)}


def _conditions(cls: type) -> OnlyWith:
    """Return `only_with` of a class and its bases."""
    return {
        name: needs
        for base in reversed(cls.__mro__)
        for name, needs in vars(base).get("only_with", {}).items()
    }


defaults: Callable[[type], dict[str, Any]] = cache(_defaults)
conditions: Callable[[type], OnlyWith] = cache(_conditions)


def unused(cls: type[Config], values: dict[str, Any]) -> list[tuple[str, str]]:
    """Return options that have no effect beside the others, each with the option that takes it
    from them.
    """
    return [
        (name, other)
        for name, needs in conditions(cls).items()
        for other, allowed in needs.items()
        if (values[other] not in allowed if allowed else values[other] == defaults(cls)[other])
    ]


def unused_options(cls: type[Config], values: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the `unused` options that differ from their default."""
    return [
        (name, other) for name, other in unused(cls, values) if values[name] != defaults(cls)[name]
    ]


def make(cls: type[C], config: C | None, options: dict[str, Any]) -> C:
    """Make a config for `Model(config)` or `Model(**options)`, which are the same; both at once is
    an error.
    """
    if config is None:
        return cls.from_dict(options)
    if not isinstance(config, cls):
        raise ConfigError(
            f"expected a {cls.__name__}, got {type(config).__name__}; a model is made of options, "
            "and fit(data) takes the data"
        )
    if options:
        raise ConfigError(f"give either a {cls.__name__} or keyword options, not both")
    return config


field_types: Callable[[type], dict[str, Any]] = cache(typing.get_type_hints)


def choices(kind: Any) -> tuple[str, ...]:
    """Return the strings that a `Literal` (also inside `| None`) allows; empty for other types."""
    for part in parts(kind):
        if typing.get_origin(part) is Literal:
            return typing.get_args(part)
    return ()


@cache
def parts(kind: Any) -> tuple[Any, ...]:
    """Return the alternatives of a type `A | B`."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return typing.get_args(kind)
    return (kind,)


def _checked(cls: type[Config], name: str, value: Any) -> Any:
    """Return the value of an option in its canonical form, if it is allowed."""
    return (
        _checked_default(cls, name)
        if value is defaults(cls)[name]
        else _check_option(cls, name, value)
    )


def _check_option(cls: Any, name: str, value: Any) -> Any:
    return _check(name, field_types(cls)[name], value, cls.__dataclass_fields__[name].metadata)


_checked_default: Callable[[type, str], Any] = cache(
    lambda cls, name: _check_option(cls, name, defaults(cls)[name])
)


def _check(name: str, kind: Any, value: Any, meta: typing.Mapping[str, Any]) -> Any:
    if value is None and type(None) in parts(kind):
        return None
    for part in parts(kind):
        if part is type(None):
            continue
        fits, value = _convert(part, value)
        if fits:
            for item in value if isinstance(value, tuple) else (value,):
                _check_range(name, item, meta)
            return value
    allowed = choices(kind)
    if allowed:
        hint = suggest(value, allowed) if isinstance(value, str) else ""
        raise ConfigError(
            f"{name} must be one of {', '.join(allowed)}; got {quoted(value)}{hint}", [name]
        )
    raise ConfigError(f"{name} must be {_describe(kind)}; got {quoted(value)}", [name])


def _convert(kind: Any, value: Any) -> tuple[bool, Any]:
    """Return whether the value is of that type, and the value in its canonical form."""
    if typing.get_origin(kind) is Literal:
        return value in typing.get_args(kind), value
    if typing.get_origin(kind) is tuple:
        item = typing.get_args(kind)[0]
        if isinstance(value, str) or not isinstance(value, (list, tuple)):
            return False, value
        converted = [_convert(item, v) for v in value]
        return all(ok for ok, _ in converted), tuple(v for _, v in converted)
    if kind is float:
        if not isinstance(value, (int, float)) or isinstance(value, bool) or value != value:
            return False, value
        try:
            return True, float(value)
        except OverflowError:  # a whole number that is larger than all of them
            return True, math.inf if value > 0 else -math.inf
    if kind is int:
        ok = hasattr(value, "__index__") and not isinstance(value, bool)
        return ok, int(value) if ok else value
    return isinstance(value, kind), value


def _check_range(name: str, value: Any, meta: typing.Mapping[str, Any]) -> None:
    low, high, known = meta.get("minimum"), meta.get("maximum"), meta.get("known")
    if isinstance(value, str):  # where an option takes a word or a number
        if known is not None and value not in known:
            raise ConfigError(
                f"{name} must be one of {', '.join(known)}; got {quoted(value)}{suggest(value, known)}",
                [name],
            )
        return
    if low is not None and value < low:
        raise ConfigError(f"{name} must be at least {low}; got {quoted(value)}", [name])
    if high is not None and value > high:
        most = f"{high:,}" if isinstance(high, int) else f"{high:g}"
        raise ConfigError(f"{name} must be at most {most}; got {quoted(value)}", [name])


def in_words(value: Any) -> str:
    """Write a value of an option for a message."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return "not given" if value is None else str(value)


def _describe(kind: Any) -> str:
    words = {
        int: "a whole number",
        float: "a number",
        str: "text",
        bool: "true or false",
        type(None): "none",
    }
    lists = {
        part: f"a list of {_describe(typing.get_args(part)[0])}"
        for part in parts(kind)
        if typing.get_origin(part) is tuple
    }
    return " or ".join((words | lists).get(part, str(part)) for part in parts(kind))


def parse_size(size: int | str | None) -> int | None:
    """Parse bytes from 800_000_000, "800M" or "1.5G"."""
    if size is None:
        return None
    text = str(size).strip().upper().removesuffix("B").removesuffix("I")
    factors = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
    try:
        n_bytes = int(float(text[:-1]) * factors[text[-1]]) if text[-1:] in factors else int(text)
    except (ValueError, OverflowError):
        n_bytes = 0
    if n_bytes <= 0:
        raise ConfigError(
            f"memory must be a size such as 800M or 2G; got {quoted(size)}", ["memory"]
        )
    return n_bytes
