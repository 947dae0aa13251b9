"""What a network declares and reads: name, shape and role of each weight array, and the steps of
examples. Loads neither torch nor numba.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from seqloom.arrays import Spec

Role = Literal["matrix", "table", "output", "vector", "index"]
Shapes = dict[str, tuple[int, ...]]


class Declared(NamedTuple):
    """An array that a network takes. Its role says how it is used, and so how many bits its numbers
    may have.
    """

    shape: tuple[int, ...]
    # matrix: multiplied; table: rows are looked up; output: decides; index: whole numbers below its length
    role: Role


Declarations = dict[str, Declared]


def shapes_of(declared: Mapping[str, Declared]) -> Shapes:
    """Return the shapes alone."""
    return {name: each.shape for name, each in declared.items()}


def float_spec(declared: Declared) -> Spec:
    """Return what the array must be in a file, where it is not quantised."""
    if declared.role == "index":
        return Spec("int64", declared.shape, 0, declared.shape[0] - 1)
    return Spec("float32", declared.shape)


# ---- examples


class Examples(NamedTuple):
    """Concatenated steps of examples, as readers take them; an example is one row of steps or several."""

    steps: Any  # named arrays
    offsets: np.ndarray  # (R + 1,): of the rows
    first_row: np.ndarray  # (E + 1,): of the examples among the rows
    spellings: Any = None
    word_steps: np.ndarray | None = (
        None  # (W,): first step of each word, if words are several steps
    )
    word_offsets: np.ndarray | None = None  # (E + 1,)
