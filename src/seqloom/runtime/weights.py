"""Weights as networks take them: by name and shape, each where it is used.

A constructor takes every array that it needs: `weights.take("norm.weight", d_model)`, `weights.linear("qkv",
d_qkv, d_model)`. With saved arrays it gets them; with a `Recorder` it gets placeholders, and the recorder
knows all names, shapes and roles. What a file must hold, what may be quantised and how large a network is
follow from that, so weights are declared once.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from seqloom.kernels.matmul import Panels, linear, pack
from seqloom.kernels.quantised import Tiles
from seqloom.runtime.declarations import Declarations, Declared, Role
from seqloom.runtime.quantised import Quantised, QuantisedWeights

NONE = np.empty(0, np.float32)  # an optional vector that a network does not have
ALL = slice(None)


class Linear:
    """Rows (n, K) times the transpose of a matrix (R, K), plus a bias:
    `linear(x)` is float32 (n, R), a new array.

    Packed when it is first used, as kernels take it.
    `inputs_16_bit`: inputs of a quantised matrix have 16 bits instead of 8.
    """

    def __init__(
        self,
        weight: np.ndarray | Quantised,
        bias: np.ndarray = NONE,
        *,
        inputs_16_bit: bool = False,
        eight_bit: bool = False,
        name: str = "",
        rows: slice = ALL,
        columns: slice = ALL,
    ) -> None:
        """Set the weight and bias; `rows`, `columns`: the part of the matrix that is meant."""
        self.weight, self.bias, self.part = weight, bias, (rows, columns)
        self.inputs_16_bit, self.eight_bit, self.name = inputs_16_bit, eight_bit, name

    @property
    def size(self) -> int:
        """Return how many numbers of four bytes the whole matrix has."""
        weight = self.weight
        return weight.size if isinstance(weight, np.ndarray) else weight.weight.size // 4

    @cached_property
    def packed(self) -> Panels | Tiles:
        weight, (rows, columns) = self.weight, self.part
        if isinstance(weight, Quantised):
            weight = weight.part(rows) if columns == ALL else weight.floats()[rows, columns]
        else:
            weight = weight[rows, columns]
        if self.eight_bit and isinstance(weight, np.ndarray):
            weight = Quantised.of(weight, 8, self.name)
        bias = self.bias[rows]
        return (
            weight.tiles(bias, inputs_16_bit=self.inputs_16_bit)
            if isinstance(weight, Quantised)
            else pack(weight, bias)
        )

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return linear(self.packed, x)

    def rows(self, part: slice, *, inputs_16_bit: bool = False) -> Linear:
        """Return some rows of a whole matrix as one of their own."""
        return Linear(
            self.weight,
            self.bias,
            inputs_16_bit=inputs_16_bit or self.inputs_16_bit,
            eight_bit=self.eight_bit,
            name=self.name,
            rows=part,
        )

    def columns(self, part: slice, *, bias: bool = True) -> Linear:
        """Return some columns of a whole matrix as one of their own, in float32 where it is quantised."""
        return Linear(
            self.weight,
            self.bias if bias else NONE,
            inputs_16_bit=self.inputs_16_bit,
            eight_bit=self.eight_bit,
            name=self.name,
            columns=part,
        )


class Weights:
    """The arrays of a saved network; `eight_bit`: float32 is rounded, `inputs_16_bit` as of Linear."""

    def __init__(
        self,
        arrays: Mapping[str, np.ndarray],
        prefix: str = "",
        *,
        eight_bit: bool = False,
        inputs_16_bit: bool = False,
    ) -> None:
        self.arrays, self.prefix, self.eight_bit, self.inputs_16_bit = (
            arrays,
            prefix,
            eight_bit,
            inputs_16_bit,
        )

    def within(self, name: str) -> Weights:
        """Return the weights of a part, as the part knows them."""
        return Weights(
            self.arrays,
            f"{self.prefix}{name}.",
            eight_bit=self.eight_bit,
            inputs_16_bit=self.inputs_16_bit,
        )

    def with_16_bit_inputs(self) -> Weights:
        """Return the same for a part that reads all steps at once, whose errors add up in one vector."""
        return Weights(self.arrays, self.prefix, eight_bit=self.eight_bit, inputs_16_bit=True)

    def _get(self, name: str, shape: tuple[int, ...], role: Role) -> Any:
        """Return an array, or a matrix that is quantised."""
        full = self.prefix + name
        if isinstance(self.arrays, QuantisedWeights) and full in self.arrays.matrices:
            found: Any = self.arrays.matrices[full]
        else:
            found = self.arrays[full]
        assert found.shape == shape, f"{full} has the shape {found.shape} where {shape} is needed"
        return found

    def take(self, name: str, *shape: int, role: Role = "vector") -> np.ndarray:
        """Return an array as float32."""
        found = self._get(name, shape, role)
        return (
            found.floats()
            if isinstance(found, Quantised)
            else np.ascontiguousarray(found, np.float32)
        )

    def indices(self, name: str, size: int) -> np.ndarray:
        """Return whole numbers from 0 to below `size`, each once."""
        found: np.ndarray = self._get(name, (size,), "index")
        return found

    def table(self, name: str, rows: int, columns: int) -> np.ndarray | Quantised:
        """Return a matrix of which single rows are looked up, as `table[ids]`."""
        found: np.ndarray | Quantised = self._get(name, (rows, columns), "table")
        return found

    def matrix(
        self, name: str, rows: int, columns: int, bias: np.ndarray = NONE, *, role: Role = "matrix"
    ) -> Linear:
        """Return a matrix that is multiplied."""
        return Linear(
            self._get(name, (rows, columns), role),
            bias,
            inputs_16_bit=self.inputs_16_bit,
            eight_bit=self.eight_bit,
            name=self.prefix + name,
        )

    def linear(
        self, name: str, d_out: int, d_in: int, *, bias: bool = True, role: Role = "matrix"
    ) -> Linear:
        """Return what torch's Linear of that name is."""
        return self.matrix(
            f"{name}.weight",
            d_out,
            d_in,
            self.take(f"{name}.bias", d_out) if bias else NONE,
            role=role,
        )


class Recorder(Weights):
    """Weights that nobody has yet: it lists what a network takes."""

    def __init__(self, prefix: str = "", declared: Declarations | None = None) -> None:
        super().__init__({}, prefix)
        self.declared: Declarations = {} if declared is None else declared

    def within(self, name: str) -> Recorder:
        return Recorder(f"{self.prefix}{name}.", self.declared)

    def with_16_bit_inputs(self) -> Recorder:
        return self

    def _get(self, name: str, shape: tuple[int, ...], role: Role) -> np.ndarray:
        full = self.prefix + name
        known = self.declared.setdefault(full, Declared(shape, role))
        assert known.shape == shape, f"{full} is taken as {known.shape} and as {shape}"
        # without memory
        return np.broadcast_to(np.zeros((), np.int64 if role == "index" else np.float32), shape)

    def take(self, name: str, *shape: int, role: Role = "vector") -> np.ndarray:
        return self._get(name, shape, role)
