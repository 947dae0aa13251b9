"""The values and tensors of a published model, by name; every fault is one line that names the file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from seqloom.arrays import MAX_WEIGHT
from seqloom.errors import DataError, quoted

if TYPE_CHECKING:
    from seqloom.runtime.quantised import Blocks

Shapes = Mapping[str, tuple[int, ...]]
Keys = Mapping[
    str, tuple[Any, ...]
]  # our options: name of a value and its limits (`Values.options`)
MAX_ROWS = 10_000_000  # of token vectors


@dataclass(frozen=True)
class Values:
    name: str  # of the file or directory, the beginning of every error
    values: dict[str, Any]

    def text(self, key: str, default: str | None = None) -> str:
        value = self.values.get(key, default)
        if not isinstance(value, str):
            self.lacks(key, value, "a text")
        return value

    def integer(self, key: str, low: int, high: int, default: int | None = None) -> int:
        value = self.values.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            self.lacks(key, value, f"a whole number from {low:,} to {high:,}")
        return value

    def real(self, key: str, low: float, high: float, default: float | None = None) -> float:
        value = self.values.get(key, default)
        if (
            not isinstance(value, (int, float))
            or isinstance(value, bool)
            or not low <= value <= high
        ):
            self.lacks(key, value, f"a number from {low:g} to {high:g}")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            self.lacks(key, value, "true or false")
        return value

    def texts(self, key: str) -> list[str]:
        value = self.values.get(key)
        if not isinstance(value, list):
            self.lacks(key, value, "a list of texts")
        return value

    def choice(self, key: str, choices: Mapping[str, str], default: str | None = None) -> str:
        """Return the entry of `choices` that the value names."""
        name = self.text(key, default)
        if name not in choices:
            self.fail(f"{key} is {quoted(name)}; {', '.join(choices)} can be converted")
        return choices[name]

    def options(self, keys: Keys) -> dict[str, Any]:
        """Return the options of a table.

        Each has the name of its value, minimum, maximum and a default, if there is one; or the name and true
        or false, its default. Integer limits require an integer. Null counts as missing.
        """
        return {option: self._limited(*key) for option, key in keys.items()}

    def _limited(self, key: str, low: Any, high: Any = None, default: Any = None) -> Any:
        if isinstance(low, bool):
            return self.flag(key, low)
        values = (
            Values(self.name, {}) if default is not None and self.values.get(key) is None else self
        )
        return (values.integer if isinstance(low, int) else values.real)(key, low, high, default)

    def lacks(self, key: str, value: Any, wanted: str) -> NoReturn:
        self.fail(f"{key} is {'missing' if value is None else quoted(value)}; it must be {wanted}")

    def fail(self, fault: str) -> NoReturn:
        raise DataError(f"{self.name}: {fault}")


@dataclass(frozen=True)
class TensorFile(Values):
    """A file or directory of named tensors."""

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        raise NotImplementedError

    def array(self, name: str) -> np.ndarray:
        """Return a tensor as float32, a new array; refuse values that are not finite."""
        raise NotImplementedError

    def blocks(self, name: str, bits: int) -> Blocks:
        """Return a matrix with `bits` per weight."""
        from seqloom.runtime.quantised import Blocks

        return Blocks.of(self.array(name), bits, name)

    def digest(self) -> str:
        """Return a hash of the weights."""
        raise NotImplementedError

    def record(self, source: str, **further: str) -> dict[str, Any]:
        """Return where a model comes from, for its `fit_info`."""
        name = Path(self.name).absolute().name
        return {"data": name, "data_hash": self.digest()[:16], "source": source, **further}

    def rows(self, name: str, key: str = "vocab_size") -> int:
        """Return the number of token vectors, which must be the value of that key, if there is one."""
        shape = self.shapes.get(name, ())
        if len(shape) != 2:
            self.fail(f"it lacks the tensor {quoted(name)}")
        self.check_tensors(
            {name: shape}, {name: (self.integer(key, 2, MAX_ROWS, shape[0]), shape[1])}, ""
        )
        return shape[0]

    def check_tensors(self, found: Shapes, wanted: Shapes, family: str) -> None:
        """Refuse tensors that are missing, surplus or of another shape than the values of the file imply."""
        missing = [name for name in wanted if name not in found]
        surplus = [name for name in found if name not in wanted]
        for names, what in ((missing, "lacks"), (surplus, f"has, and a plain {family} has not,")):
            if names:
                self.fail(
                    f"it {what} the tensor{'s' * (len(names) > 1)} {shortened(map(quoted, names), 3)}"
                )
        for name, shape in wanted.items():
            if found[name] != shape:
                actual, needed = (" x ".join(map(str, numbers)) for numbers in (found[name], shape))
                self.fail(
                    f"the tensor {quoted(name)} is {actual} where its values ask for {needed}"
                )

    def checked(self, name: str, array: np.ndarray) -> np.ndarray:
        """Return the tensor; refuse numbers that are not finite, or so large that a product of two is not."""
        # NaN fails both comparisons
        if array.size and not (array.max() <= MAX_WEIGHT and array.min() >= -MAX_WEIGHT):
            self.fail(
                f"the tensor {quoted(name)} has values that are not finite numbers or beyond "
                f"{MAX_WEIGHT:g}; the file is damaged"
            )
        return array


def shortened(names: Iterable[str], most: int) -> str:
    """Return the first of some names, and how many more there are."""
    every = list(names)
    more = f" and {len(every) - most:,} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more


def written(options: Mapping[str, Any], keys: Keys) -> dict[str, Any]:
    """Return the values of options, under the names of a table."""
    return {key: options[option] for option, (key, *_) in keys.items()}
