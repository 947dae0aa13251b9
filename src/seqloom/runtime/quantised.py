"""Matrices with 8 or 4 bits a weight, in memory and in files as the kernel reads them (`kernels/quantised`).

32 neighbouring weights of a row are a block and share a scale, a float16: with 8 bits the largest
weight of a block becomes 127 or -127. With 4 bits a block has a minimum as well: a weight is scale *
number + minimum with numbers from 0 to 15. These are Q8_0 and Q4_1 of ggml, so blocks of such files
are used unchanged (`Blocks`). In a network of 4 bits, token vectors and output layer have 8, as in
most such files: they are used for every token and lose most by rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from seqloom import progress
from seqloom.arrays import Spec
from seqloom.errors import ModelError
from seqloom.kernels.matmul import NO_BIAS
from seqloom.kernels.parallel import chunk_bounds
from seqloom.kernels.quantised import BLOCK, TILE, Tiles
from seqloom.runtime.declarations import Declared

BITS = (8, 4)
SCALE, MINIMUM = ".scale", ".minimum"  # suffixes of a matrix's name: its other arrays
MAX_LEVEL = {8: 127, 4: 15}  # largest number by bits
PORTION = 1 << 22  # weights converted at a time, so that intermediate arrays stay small
_NONE = np.empty((0, 0, 0), np.float16)


def bits_of(name: str, declared: Declared, bits: int, exact: tuple[str, ...] = ()) -> int | None:
    """Return the bits per weight of that array in a network of `bits`; None: it stays float32.

    Vectors, positions and matrices with a name that ends in one of `exact` stay float32; token
    vectors and output layers have 8 bits.
    """
    if declared.role not in ("matrix", "table", "output") or name.endswith(exact):
        return None
    return bits if declared.role == "matrix" else 8


@dataclass(frozen=True)
class Blocks:
    """A matrix (R, K) row by row, before it is arranged in tiles."""

    numbers: np.ndarray  # int8 (R, K), or uint8 of 4 bits
    scale: np.ndarray  # float16 (R, B)
    minimum: np.ndarray | None  # float16 (R, B), of 4 bits

    @classmethod
    def of(cls, weight: np.ndarray, bits: int, name: str = "") -> Blocks:
        """Make blocks from a matrix, rounding to the nearest number of its block."""
        rows, columns = weight.shape
        numbers = np.empty((rows, columns), np.int8 if bits == 8 else np.uint8)
        scale = np.empty((rows, -(-columns // BLOCK)), np.float16)
        minimum = None if bits == 8 else np.empty_like(scale)
        for low, high in chunk_bounds(rows, max(PORTION // columns, 1)):
            part = np.zeros((high - low, scale.shape[1] * BLOCK), np.float32)
            part[:, :columns] = weight[low:high]
            if columns % BLOCK:
                # padding with the last weight changes neither scale nor minimum
                part[:, columns:] = part[:, columns - 1 : columns]
            part = part.reshape(high - low, -1, BLOCK)
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                smallest = part.min(axis=2) if minimum is not None else np.zeros(part.shape[:2])
                lowest = smallest.astype(np.float16)
                part -= lowest[:, :, None]
                step = _step(np.abs(part).max(axis=2), MAX_LEVEL[bits])
                part /= np.where(step > 0, step, 1)[:, :, None]
            if not (np.isfinite(step).all() and np.isfinite(lowest).all()):
                raise ModelError(
                    f"the weights {name or 'of a layer'} have numbers that {bits} bits cannot "
                    "hold: they are not finite, or too large for scales of 16 bits"
                )
            part = np.rint(part, out=part).reshape(high - low, -1)[:, :columns]
            numbers[low:high] = np.clip(part, -MAX_LEVEL[bits] if bits == 8 else 0, MAX_LEVEL[bits])
            scale[low:high] = step
            if minimum is not None:
                minimum[low:high] = lowest
        return cls(numbers, scale, minimum)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.numbers.shape

    def __getitem__(self, rows: np.ndarray) -> Blocks:
        minimum = None if self.minimum is None else self.minimum[rows]
        return Blocks(self.numbers[rows], self.scale[rows], minimum)

    @staticmethod
    def stacked(parts: Sequence[Blocks]) -> Blocks:
        """Join blocks one above the other."""
        minima = [part.minimum for part in parts if part.minimum is not None]
        return Blocks(
            np.concatenate([part.numbers for part in parts]),
            np.concatenate([part.scale for part in parts]),
            np.concatenate(minima) if minima else None,
        )

    def tiles(self) -> Quantised:
        rows, columns = self.numbers.shape
        tiles, blocks = -(-rows // TILE), self.scale.shape[1]
        numbers = np.zeros((tiles * TILE, blocks * BLOCK), self.numbers.dtype)
        numbers[:rows, :columns] = self.numbers
        weight = numbers.reshape(tiles, TILE, blocks * BLOCK // 4, 4).swapaxes(1, 2)
        if self.minimum is not None:
            pairs = weight.reshape(tiles, blocks * BLOCK // 8, 2, TILE, 4)
            weight = pairs[:, :, 0] | pairs[:, :, 1] << 4
        scale, minimum = (
            _NONE
            if array is None
            else np.ascontiguousarray(
                np.pad(array, [(0, tiles * TILE - rows), (0, 0)])
                .reshape(tiles, TILE, blocks)
                .swapaxes(1, 2)
            )
            for array in (self.scale, self.minimum)
        )
        return Quantised((rows, columns), np.ascontiguousarray(weight), scale, minimum)


def _step(largest: np.ndarray, number: int) -> np.ndarray:
    """Return the step `largest / number` as the nearest float16, or the next above where `largest`
    would be more than half a step beyond `number` steps.
    """
    step = (largest / np.float32(number)).astype(np.float16)
    below = step.astype(np.float32) * np.float32(number + 0.5) < largest
    return np.where(below, np.nextafter(step, np.float16(np.inf)), step)


@dataclass(frozen=True)
class Quantised:
    """A matrix (R, K) in tiles; `matrix[rows]` are rows as float32.

    >>> Quantised.of(np.array([[1.0, 2.0], [0.0, 10.0]], np.float32), 8)[:1].round(2)
    array([[1.01, 2.  ]], dtype=float32)
    """

    shape: tuple[int, int]
    weight: np.ndarray
    scale: np.ndarray
    minimum: np.ndarray

    @classmethod
    def of(cls, weight: np.ndarray, bits: int, name: str = "") -> Quantised:
        return Blocks.of(weight, bits, name).tiles()

    def tiles(self, bias: np.ndarray | None = None, *, inputs_16_bit: bool = False) -> Tiles:
        """Return the argument of kernels; `inputs_16_bit`: for inputs of 16 bits."""
        room = len(self.scale) * TILE
        full = NO_BIAS
        if bias is not None and len(bias):
            full = np.zeros(room, np.float32)
            full[: len(bias)] = bias
        return Tiles(
            self.weight,
            self.scale.view(np.uint16),
            self.minimum.view(np.uint16),
            full,
            len(self),
            inputs_16_bit,
        )

    def part(self, rows: slice) -> Quantised:
        """Return some rows as a matrix: a view where they are whole tiles, otherwise a copy with the
        same numbers.
        """
        start, stop, _ = rows.indices(len(self))
        if start % TILE or (stop % TILE and stop < len(self)):
            return Quantised.of(self[start:stop], self.bits)
        tiles = slice(start // TILE, -(-stop // TILE))
        return replace(
            self,
            shape=(stop - start, self.shape[1]),
            weight=self.weight[tiles],
            scale=self.scale[tiles],
            minimum=self.minimum[tiles],
        )

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def bits(self) -> int:
        return 4 if self.weight.dtype == np.uint8 else 8

    def __getitem__(self, rows: Any) -> np.ndarray:
        """Return the rows as float32 (n, K)."""
        indices = np.arange(len(self))[rows]
        tile, lane = indices // TILE, indices % TILE
        numbers = self.weight[tile, :, lane]  # (n, groups, 4)
        if self.bits == 4:
            numbers = np.stack([numbers & 15, numbers >> 4], axis=2)
        n_blocks = self.scale.shape[1]  # not -1 in `reshape`, since there may be no rows
        blocks = numbers.reshape(*indices.shape, n_blocks, BLOCK).astype(np.float32)
        blocks *= self.scale[tile, :, lane].astype(np.float32)[..., None]
        if self.bits == 4:
            blocks += self.minimum[tile, :, lane].astype(np.float32)[..., None]
        return blocks.reshape(*indices.shape, n_blocks * BLOCK)[..., : self.shape[1]]

    def floats(self) -> np.ndarray:
        """Return all rows as float32."""
        out = np.empty(self.shape, np.float32)
        for low, high in chunk_bounds(len(self), max(PORTION // self.shape[1], 1)):
            out[low:high] = self[low:high]
        return out

    def arrays(self, name: str) -> dict[str, np.ndarray]:
        return {
            name: self.weight,
            name + SCALE: self.scale,
            **({name + MINIMUM: self.minimum} if self.bits == 4 else {}),
        }


def quantised_specs(name: str, shape: tuple[int, ...], bits: int) -> dict[str, Spec]:
    """Return what the arrays of a matrix must be in a file."""
    tiles, blocks = -(-shape[0] // TILE), -(-shape[1] // BLOCK)
    scale = Spec("float16", (tiles, blocks, TILE), -65504, 65504)
    if bits == 8:
        return {name: Spec("int8", (tiles, blocks * BLOCK // 4, TILE, 4)), name + SCALE: scale}
    return {
        name: Spec("uint8", (tiles, blocks * BLOCK // 8, TILE, 4)),
        name + SCALE: scale,
        name + MINIMUM: scale,
    }


@dataclass(frozen=True)
class QuantisedWeights(Mapping[str, np.ndarray]):
    """The weights of a network by name; a matrix is converted to float32 on each access."""

    matrices: dict[str, Quantised]
    others: dict[str, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        weights: Mapping[str, np.ndarray],
        declared: Mapping[str, Declared],
        bits: int,
        exact: tuple[str, ...] = (),
    ) -> QuantisedWeights:
        """Round the weights of a network; `exact` is as in `bits_of`."""
        quantised = cls({}, {})
        with progress.task(
            "quantising", sum(array.size for array in weights.values()), "weights"
        ) as bar:
            for name, array in weights.items():
                if array_bits := bits_of(name, declared[name], bits, exact):
                    quantised.matrices[name] = Quantised.of(array, array_bits, name)
                else:
                    quantised.others[name] = array
                bar.advance(array.size)
        return quantised

    @classmethod
    def from_file(
        cls,
        arrays: Mapping[str, np.ndarray],
        declared: Mapping[str, Declared],
        bits: int,
        exact: tuple[str, ...] = (),
    ) -> QuantisedWeights:
        """Take arrays as `quantised_specs` describes them."""
        quantised = cls({}, {})
        for name, (shape, _) in declared.items():
            if bits_of(name, declared[name], bits, exact):
                quantised.matrices[name] = Quantised(
                    (shape[0], shape[1]),
                    arrays[name],
                    arrays[name + SCALE],
                    arrays.get(name + MINIMUM, _NONE),
                )
            else:
                quantised.others[name] = arrays[name]
        return quantised

    @property
    def parameters(self) -> int:
        quantised = sum(math.prod(matrix.shape) for matrix in self.matrices.values())
        return quantised + sum(array.size for array in self.others.values())

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays as they are saved."""
        return {
            **self.others,
            **{
                key: array
                for name, matrix in self.matrices.items()
                for key, array in matrix.arrays(name).items()
            },
        }

    def __getitem__(self, name: str) -> np.ndarray:
        return self.matrices[name].floats() if name in self.matrices else self.others[name]

    def __contains__(self, name: object) -> bool:
        return name in self.others or name in self.matrices

    def __iter__(self) -> Iterator[str]:
        yield from self.others
        yield from self.matrices

    def __len__(self) -> int:
        return len(self.others) + len(self.matrices)
