"""The values that a published model brings with it, taken by name and checked; every fault is one line that names the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from seqloom.arrays import LARGEST
from seqloom.errors import DataError, quoted

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Values:
    name: str  # of the file or directory, the beginning of every error
    values: dict[str, Any]

    def text(self, key: str, default: str | None = None) -> str:
        value = self.values.get(key, default)
        if not isinstance(value, str):
            self.lacks(key, value, "a text")
        return value

    def whole(self, key: str, low: int, high: int, default: int | None = None) -> int:
        value = self.values.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            self.lacks(key, value, f"a whole number from {low:,} to {high:,}")
        return value

    def real(self, key: str, low: float, high: float, default: float | None = None) -> float:
        value = self.values.get(key, default)
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not low <= value <= high:
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

    def lacks(self, key: str, value: Any, wanted: str) -> NoReturn:
        self.fail(f"{key} is {'missing' if value is None else quoted(value)}; it must be {wanted}")

    def fail(self, fault: str) -> NoReturn:
        raise DataError(f"{self.name}: {fault}")

    def check_tensors(self, found: Shapes, wanted: Shapes, family: str) -> None:
        """Refuse what is missing, surplus or of another shape than the values of the file ask for."""
        missing = [name for name in wanted if name not in found]
        surplus = [name for name in found if name not in wanted]
        for names, what in ((missing, "lacks"), (surplus, f"has, and a plain {family} has not,")):
            if names:
                self.fail(f"it {what} the tensor{'s' * (len(names) > 1)} {', '.join(map(quoted, names[:3]))}"
                          f"{f' and {len(names) - 3:,} more' if len(names) > 3 else ''}")
        for name, shape in wanted.items():
            if found[name] != shape:
                self.fail(f"the tensor {quoted(name)} is {' x '.join(map(str, found[name]))} where its values ask for "
                          f"{' x '.join(map(str, shape))}")

    def checked(self, name: str, array: np.ndarray) -> np.ndarray:
        """A tensor of finite numbers that no product of two makes infinite."""
        if array.size and not (array.max() <= LARGEST and array.min() >= -LARGEST):  # NaN fails both
            self.fail(f"the tensor {quoted(name)} has values that are not finite numbers or beyond {LARGEST:g}; "
                      "the file is damaged")
        return array


Read = Callable[[str], np.ndarray]  # a tensor by its name, as float32
