"""Weights as networks take them: by name and shape, each where it is used.

A constructor takes every array that it needs: `weights.take("norm.weight", d_model)`,
`weights.linear("qkv", d_qkv, d_model)`. From saved arrays it gets them; from a `Recorder` it gets
placeholders, and the recorder then has all names, shapes and roles. The contents of a file, the arrays
that may be quantised and the size of a network follow from these, so weights are declared once.
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

    Packed for the kernels when first used.
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
        """Set the weight and bias; `rows`, `columns`: the part of the matrix to use."""
        self.weight, self.bias, self.part = weight, bias, (rows, columns)
        self.inputs_16_bit, self.eight_bit, self.name = inputs_16_bit, eight_bit, name

    @property
    def size(self) -> int:
        """Return the size of the whole matrix in units of four bytes."""
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
        """Return a layer of some rows of the whole matrix."""
        return Linear(
            self.weight,
            self.bias,
            inputs_16_bit=inputs_16_bit or self.inputs_16_bit,
            eight_bit=self.eight_bit,
            name=self.name,
            rows=part,
        )

    def columns(self, part: slice, *, bias: bool = True) -> Linear:
        """Return a layer of some columns of the whole matrix, in float32 where it is quantised."""
        return Linear(
            self.weight,
            self.bias if bias else NONE,
            inputs_16_bit=self.inputs_16_bit,
            eight_bit=self.eight_bit,
            name=self.name,
            columns=part,
        )


class Weights:
    """The arrays of a saved network; `eight_bit`: round float32; `inputs_16_bit` as in `Linear`."""

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
        """Return the weights of a part, under the part's names."""
        return Weights(
            self.arrays,
            f"{self.prefix}{name}.",
            eight_bit=self.eight_bit,
            inputs_16_bit=self.inputs_16_bit,
        )

    def with_16_bit_inputs(self) -> Weights:
        """Return the weights for a part that reads all steps at once, so that its errors add up in one
        vector.
        """
        return Weights(self.arrays, self.prefix, eight_bit=self.eight_bit, inputs_16_bit=True)

    def _get(self, name: str, shape: tuple[int, ...], role: Role) -> Any:
        """Return an array, or a matrix that is quantised."""
        full = self.prefix + name
        if isinstance(self.arrays, QuantisedWeights) and full in self.arrays.matrices:
            array: Any = self.arrays.matrices[full]
        else:
            array = self.arrays[full]
        assert array.shape == shape, f"{full} has the shape {array.shape} where {shape} is needed"
        return array

    def take(self, name: str, *shape: int, role: Role = "vector") -> np.ndarray:
        """Return an array as float32."""
        array = self._get(name, shape, role)
        return (
            array.floats()
            if isinstance(array, Quantised)
            else np.ascontiguousarray(array, np.float32)
        )

    def indices(self, name: str, size: int) -> np.ndarray:
        """Return whole numbers from 0 to below `size`, each once."""
        array: np.ndarray = self._get(name, (size,), "index")
        return array

    def table(self, name: str, rows: int, columns: int) -> np.ndarray | Quantised:
        """Return a matrix for looking up single rows, as `table[ids]`."""
        matrix: np.ndarray | Quantised = self._get(name, (rows, columns), "table")
        return matrix

    def matrix(
        self, name: str, rows: int, columns: int, bias: np.ndarray = NONE, *, role: Role = "matrix"
    ) -> Linear:
        """Return a matrix for multiplying."""
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
        """Return the equivalent of torch's Linear of that name."""
        return self.matrix(
            f"{name}.weight",
            d_out,
            d_in,
            self.take(f"{name}.bias", d_out) if bias else NONE,
            role=role,
        )


class Recorder(Weights):
    """Stands in for weights that do not exist yet, and records what a network takes."""

    def __init__(self, prefix: str = "", declared: Declarations | None = None) -> None:
        super().__init__({}, prefix)
        self.declared: Declarations = {} if declared is None else declared

    def within(self, name: str) -> Recorder:
        return Recorder(f"{self.prefix}{name}.", self.declared)

    def with_16_bit_inputs(self) -> Recorder:
        return self

    def _get(self, name: str, shape: tuple[int, ...], role: Role) -> np.ndarray:
        full = self.prefix + name
        first = self.declared.setdefault(full, Declared(shape, role))
        assert first.shape == shape, f"{full} is taken as {first.shape} and as {shape}"
        # without memory
        return np.broadcast_to(np.zeros((), np.int64 if role == "index" else np.float32), shape)

    def take(self, name: str, *shape: int, role: Role = "vector") -> np.ndarray:
        return self._get(name, shape, role)
