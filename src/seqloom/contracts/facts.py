"""What a saved model says about its fitting: the facts of `fit_info` that are relied on later, and what each must be.

Everything else in `fit_info` is for people to read and may be anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from reprlib import repr  # short, whatever it is
from typing import Any

from seqloom.errors import ModelError

Kind = Callable[[Any], bool]
MISSING = object()  # what a fact is that is not there


def text(value: Any) -> bool:
    return isinstance(value, str)


def count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def names(value: Any) -> bool:
    """A list of different names, at least one."""
    return isinstance(value, list) and len(value) > 0 and all(map(text, value)) and len(set(value)) == len(value)


def one_of(*values: Any) -> Kind:
    return lambda value: any(value is known or value == known for known in values if type(value) is type(known))


def if_known(kind: Kind) -> Kind:
    """The fact may be missing."""
    return lambda value: value is None or value is MISSING or kind(value)


def check_facts(fit_info: Any, kinds: Mapping[str, Kind]) -> None:
    if not isinstance(fit_info, dict):
        raise ModelError(f"what is written down of its fitting is {repr(fit_info)} and no list of facts")
    for name, kind in kinds.items():
        value = fit_info.get(name, MISSING)
        if not kind(value):
            wrong = "is missing" if value is MISSING else f"is {repr(value)}"
            raise ModelError(f"what is written down of its fitting cannot be: {name!r} {wrong}")
