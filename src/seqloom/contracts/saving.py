"""What a model saves besides the arrays that it declares: learnt values, or the attributes that `fit` set.

Learnt values are small and named, such as the names of classes. A model declares in `learnt_values` what
each must be; they are saved as `learnt` in `config.json` and checked when the model is loaded.

A model that does not define how it is saved gets its attributes saved (`collect`, `restore`): arrays in
`model.safetensors`; numbers, texts, and lists and dicts of them in `config.json`, under `attributes` of
the learnt values, where `{"$array": NAME}` stands for an array. A value that would not come back the same
(a set, a Counter, an object) is refused when the model is saved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Set
from reprlib import repr  # shortens long values
from typing import Any

import numpy as np

from seqloom.arrays import Length, Spec, can_be_written
from seqloom.errors import ModelError

Kind = Callable[[Any], bool]
MISSING = object()  # stands for a value that is missing


def positive(value: Any) -> bool:
    """Return whether the value is a whole number, at least one."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def natural(value: Any) -> bool:
    """Return whether the value is a whole number, at least zero."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def names(value: Any) -> bool:
    """Return whether the value is a list of different names, at least one."""
    return (
        isinstance(value, list)
        and len(value) > 0
        and all(isinstance(name, str) for name in value)
        and len(set(value)) == len(value)
    )


def labels(value: Any) -> bool:
    """Return whether the value is a list of different labels, at least one: all names, all whole
    numbers, or all true and false.
    """
    return (
        isinstance(value, list)
        and len(value) > 0
        and type(value[0]) in (str, int, bool)
        and all(type(label) is type(value[0]) for label in value)
        and len(set(value)) == len(value)
    )


def one_of(*values: Any) -> Kind:
    return lambda value: any(
        value is allowed or value == allowed for allowed in values if type(value) is type(allowed)
    )


def optional(kind: Kind) -> Kind:
    """Return a check that also allows the value to be missing."""
    return lambda value: value is MISSING or kind(value)


def check_learnt(learnt: Mapping[str, Any], kinds: Mapping[str, Kind]) -> None:
    """Refuse values that are unknown, missing, or not what they must be."""
    if unknown := sorted(learnt.keys() - kinds.keys()):
        raise ModelError(
            f"its learned values include {repr(unknown[0])}, unknown to this kind of model: the "
            f"file is damaged"
        )
    for name, kind in kinds.items():
        value = learnt.get(name, MISSING)
        if not kind(value):
            raise ModelError(
                f"invalid learned value: {name!r} is {'missing' if value is MISSING else repr(value)}"
            )


# ---- attributes

KEY = "attributes"  # in what a model learnt
ARRAY = "$array"
DEEPEST = 20  # lists in lists, and dicts
MAX_JSON_INTEGER = 2**63  # whole numbers that JSON readers keep
ADVICE = (
    "keep it as an array, or as numbers, texts, lists or dicts with text keys; "
    "or write arrays() and restore_arrays()"
)


def collect(model: Any, known: Set[str]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays of a fitted model by name, and its attributes for JSON; `known`: those of
    its contract, which are left out.
    """
    arrays: dict[str, np.ndarray] = {}
    values = {}
    for name, value in vars(model).items():
        if name in known:
            continue
        if fault := _unusable_name(type(model), name):
            raise ModelError(
                f"cannot save the attribute {name!r} of {type(model).__name__}: {fault}; give it another name"
            )
        values[name] = _plain(model, value, name, arrays, 0)
    return arrays, values


def restore(model: Any, arrays: Mapping[str, np.ndarray], values: Any) -> None:
    """Restore what `collect` gave to a model that has only the attributes of its contract; neither
    input is trusted.
    """
    known = set(vars(model))
    if not isinstance(values, dict):
        raise ModelError(f"its {KEY} are {repr(values)}: the file is damaged")
    left = dict(arrays)
    for name, value in values.items():
        if name in known or _unusable_name(type(model), name):
            raise ModelError(
                f"{repr(name)} cannot be an attribute of {model.name} models: the file is damaged"
            )
        setattr(model, name, _rebuilt(value, left))
    if left:
        raise ModelError(
            f"the array {repr(min(left))} belongs to none of its {KEY}: the file is damaged"
        )


def _plain(model: Any, value: Any, path: str, arrays: dict[str, np.ndarray], depth: int) -> Any:
    """Convert a value for JSON, its arrays put aside."""
    if isinstance(value, np.generic) and value.dtype.kind in "fiub":
        value = value.item()
    if value is None or type(value) in (bool, str):
        return _utf8(model, value, path) if type(value) is str else value
    if (type(value) is float and not math.isnan(value)) or (
        type(value) is int and abs(value) < MAX_JSON_INTEGER
    ):
        return value
    if isinstance(value, np.ndarray) and can_be_written(value):
        if value.dtype.kind == "f" and np.isnan(value).any():
            raise ModelError(
                f"cannot save the attribute {path!r} of {type(model).__name__}: it holds NaN; is "
                f"the fit wrong?"
            )
        arrays[path] = value
        return {ARRAY: path}
    if depth < DEEPEST and type(value) is list:
        return [
            _plain(model, item, f"{path}.{i}", arrays, depth + 1) for i, item in enumerate(value)
        ]
    if (
        depth < DEEPEST
        and type(value) is dict
        and all(type(key) is str and key != ARRAY for key in value)
    ):
        return {
            _utf8(model, key, path): _plain(model, item, f"{path}.{key}", arrays, depth + 1)
            for key, item in value.items()
        }
    raise ModelError(
        f"cannot save the attribute {path!r} of {type(model).__name__}: {_described(value)} would "
        f"not come back the same; {ADVICE}"
    )


def _utf8(model: Any, text: str, path: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ModelError(
            f"cannot save the attribute {path!r} of {type(model).__name__}: it holds half a "
            f"character (a lone surrogate); clean the text first"
        ) from None
    return text


def _described(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of type {value.dtype}"
    if type(value) is dict:
        odd = [key for key in value if type(key) is not str or key == ARRAY]
        return f"a dict with the key {repr(odd[0])}" if odd else "a dict nested so deeply"
    if type(value) is list:
        return "a list nested so deeply"
    return f"the {type(value).__name__} {repr(value)}"


def _rebuilt(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Rebuild a value from JSON with its arrays back in place; each is used once."""
    if isinstance(value, list):
        return [_rebuilt(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    if ARRAY not in value:
        return {key: _rebuilt(item, arrays) for key, item in value.items()}
    name = value[ARRAY]
    if len(value) != 1 or not isinstance(name, str) or name not in arrays:
        raise ModelError(f"the array {repr(name)} is missing: the file is damaged")
    array = arrays.pop(name)
    if fault := Spec(
        array.dtype.name, array.shape, *((-math.inf, math.inf) if array.dtype.kind == "f" else ())
    ).fault(array):
        raise ModelError(f"the array {name!r} {fault}: the file is damaged")
    return array


def _unusable_name(cls: type, name: str) -> str:
    """Say why a value may not be stored under this name; empty where it may."""
    if not name.isidentifier() or name.startswith("__"):
        return "it is not a usual name"
    for base in cls.__mro__:
        if name in vars(base):
            value = vars(base)[name]
            if (
                base.__module__.startswith("seqloom.")
                or callable(value)
                or hasattr(type(value), "__set__")
            ):
                return "the class has something else of that name"
    return ""


# ---- arrayless


class Arrayless:
    """Saving for models without arrays, which are their options, tokenizers and learnt values.

    A mixin, written before the contract: `class Copy(Arrayless, Translator)`.
    """

    def arrays(self) -> dict[str, np.ndarray]:
        return {}

    def array_specs(self, length: Length) -> dict[str, Spec]:
        return {}

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        pass
