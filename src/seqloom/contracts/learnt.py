"""What a model learnt besides its arrays: small named values such as the names of classes, and what each must be.

A model declares them in `learnt_values`; they are saved as `learnt` in `config.json` and checked when it is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from reprlib import repr  # short, whatever it is
from typing import Any

from seqloom.errors import ModelError

Kind = Callable[[Any], bool]
MISSING = object()  # what a value is that is not there


def positive(value: Any) -> bool:
    """A whole number, at least one."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def natural(value: Any) -> bool:
    """A whole number, at least zero."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def names(value: Any) -> bool:
    """A list of different names, at least one."""
    return (
        isinstance(value, list)
        and len(value) > 0
        and all(isinstance(name, str) for name in value)
        and len(set(value)) == len(value)
    )


def labels(value: Any) -> bool:
    """A list of different labels, at least one: all names, all whole numbers, or all true and false."""
    return (
        isinstance(value, list)
        and len(value) > 0
        and type(value[0]) in (str, int, bool)
        and all(type(label) is type(value[0]) for label in value)
        and len(set(value)) == len(value)
    )


def one_of(*values: Any) -> Kind:
    return lambda value: any(
        value is known or value == known for known in values if type(value) is type(known)
    )


def optional(kind: Kind) -> Kind:
    """The value may be missing."""
    return lambda value: value is MISSING or kind(value)


def check_learnt(learnt: Mapping[str, Any], kinds: Mapping[str, Kind]) -> None:
    """Refuse values that are unknown, missing, or not what they must be."""
    if unknown := sorted(learnt.keys() - kinds.keys()):
        raise ModelError(
            f"its learned values include {repr(unknown[0])}, unknown to this kind of model: the file is damaged"
        )
    for name, kind in kinds.items():
        value = learnt.get(name, MISSING)
        if not kind(value):
            raise ModelError(
                f"invalid learned value: {name!r} is {'missing' if value is MISSING else repr(value)}"
            )
