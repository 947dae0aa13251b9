"""Weights as the decode path holds them: float32 as they were saved, or of 8 or 4 bits (`models/network/quantised`).

For one sequence a step reads every weight once and does two operations with it, so the speed is that of memory. A
small matrix is read by one core with our kernel, since waking a second thread takes longer than the product; a large one
goes to BLAS, since two cores together get more out of the memory. The few rows of a beam go to our kernel, many to BLAS.
8 bits are read up to four times faster than 32. An encoder reads all tokens of a text at once: its matrices lie in panels.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from seqloom.arrays import aligned
from seqloom.kernels import amx
from seqloom.kernels.bfloat import TILE, TOGETHER, bfloat_tiles, from_bits, multiply_bfloat, rounded_bits, split_rows
from seqloom.kernels.decode import log_softmax
from seqloom.kernels.panels import WIDTH, multiply_panels
from seqloom.kernels.parallel import chunk_bounds, parallel_run
from seqloom.kernels.translate import product
from seqloom.models.network.quantised import Quantised, QuantisedWeights

SMALL = 1_000_000  # weights up to which one core is done before a second one has begun
SEVERAL = 10  # rows, as those of a beam, up to which our kernel is quicker than BLAS
MANY = 64  # rows from which on BLAS takes them as they are as quickly as turned
SPLIT = 1 << 27  # products of two numbers from which on threads share those of an encoder, as for a long text
SHARES = 8
NONE = np.empty(0, np.float32)  # an optional vector that a model does not have


class Matrix:
    """Weights (R, K) in float32 for rows (n, K): `matrix(x)` is x times its transpose, float32 (n, R), a new array."""

    def __init__(self, weight: np.ndarray) -> None:
        self.large, self.weight = weight.size > SMALL, np.ascontiguousarray(weight, np.float32)

    def __len__(self) -> int:
        return len(self.weight)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        n = len(x)
        if n > SEVERAL:
            return x @ self.weight.T if n > MANY else np.ascontiguousarray((self.weight @ x.T).T)
        if n == 1 and self.large:
            return np.dot(self.weight, x[0])[None]
        out = np.empty((n, len(self.weight)), np.float32)
        product(self.weight, x, out)
        return out


def panels_of(weight: np.ndarray, width: int) -> np.ndarray:
    """A matrix (R, K) in the order in which kernels read it: float32 (P, K, width), what is beyond R is zero."""
    rows, columns = weight.shape
    padded = np.zeros((-(-rows // width) * width, columns), np.float32)
    padded[:rows] = weight
    return aligned(padded.reshape(-1, width, columns).swapaxes(1, 2))


class Panels:
    """Weights (R, K) in float32 for the rows (n, K) that are the tokens of texts: as `Matrix`, in the order of
    `kernels/panels`."""

    def __init__(self, weight: np.ndarray) -> None:
        self.rows, self.panels = len(weight), panels_of(weight, WIDTH)

    def __len__(self) -> int:
        return self.rows

    def __call__(self, x: np.ndarray) -> np.ndarray:
        x, count = np.ascontiguousarray(x, np.float32), len(self.panels)  # the kernel knows no other order
        out = np.empty((len(x), count * WIDTH), np.float32)
        if len(x) * self.panels.size > SPLIT:
            parallel_run(lambda bounds: multiply_panels(self.panels, x, *bounds, out),
                         chunk_bounds(count, -(-count // SHARES)))
        else:
            multiply_panels(self.panels, x, 0, count, out)
        return out if out.shape[1] == self.rows else np.ascontiguousarray(out[:, :self.rows])


class BFloat16:
    """As `Panels`, of weights rounded to bfloat16, for processors with a matrix unit (`kernels/bfloat`)."""

    def __init__(self, weight: np.ndarray) -> None:
        self.rows, self.tiles = len(weight), bfloat_tiles(weight)

    def __len__(self) -> int:
        return self.rows

    def __call__(self, x: np.ndarray) -> np.ndarray:
        groups = max(-(-len(x) // TOGETHER), 1)
        size = max(-(-len(x) // (2 * groups)), 1) * 2  # rows that are multiplied at a time, about as many in all groups
        pairs, steps = len(self.tiles) // 2, self.tiles.shape[1] // TILE
        parts = split_rows(np.ascontiguousarray(x, np.float32), size, steps)
        out = np.empty((parts.shape[1], len(self.tiles) * TILE), np.float32)
        if len(x) * self.tiles.size > SPLIT:
            parallel_run(lambda bounds: multiply_bfloat(self.tiles, parts, size, *bounds, out),
                         chunk_bounds(pairs, -(-pairs // SHARES)))
        else:
            multiply_bfloat(self.tiles, parts, size, 0, pairs, out)
        return np.ascontiguousarray(out[:len(x), :self.rows])


def bfloat16(weight: np.ndarray) -> BFloat16 | Panels:
    """Weights rounded to bfloat16: the same numbers whether or not the processor has a unit for them."""
    weight = np.ascontiguousarray(weight, np.float32)
    return BFloat16(weight) if amx.available() else Panels(from_bits(rounded_bits(weight)))


Linear = Matrix | Quantised
Wide = Panels | BFloat16 | Quantised


class Weights:
    """The arrays of a saved network by name; `eight_bit`: matrices of float32 are rounded."""

    def __init__(self, arrays: Mapping[str, np.ndarray], *, eight_bit: bool) -> None:
        self.arrays, self.eight_bit = arrays, eight_bit
        self.quantised = arrays.matrices if isinstance(arrays, QuantisedWeights) else {}

    def __contains__(self, name: str) -> bool:
        return name in self.arrays

    def matrix(self, name: str, rows: slice = slice(None), columns: slice = slice(None)) -> Linear:
        if name in self.quantised and columns == slice(None):
            return self.quantised[name].part(rows)
        weight = self.arrays[name][rows, columns]
        return Quantised.of(weight, 8, name) if self.eight_bit else Matrix(weight)

    def wide(self, name: str) -> Wide:
        """A matrix for all tokens of a text at once. Beside matrices of fewer bits, others have 16."""
        if name in self.quantised:
            return self.quantised[name].finely()
        return bfloat16(self.arrays[name]) if self.quantised else Panels(self.arrays[name])

    def times(self, name: str, x: np.ndarray) -> np.ndarray:
        """Rows x (n, K) times the transpose of a matrix (R, K): what `wide` gives, by BLAS and without a copy of the matrix."""
        return self.quantised[name].finely()(x) if name in self.quantised else x @ self.arrays[name].T

    def table(self, name: str) -> np.ndarray | Quantised:
        """A matrix of which single rows are wanted, as float32."""
        return self.quantised[name] if name in self.quantised else self.arrays[name]

    def output(self) -> Softmax | Adaptive:
        """The output layer, whose matrix is the embedding where the two are tied."""
        if "output.head.weight" in self:
            return Adaptive(self)
        return Softmax(self.matrix("output.weight" if "output.weight" in self else "embedding.weight"),
                       self.vector("output.bias"))

    def vector(self, name: str) -> np.ndarray:
        """A vector, or an empty one if the network has none of this name."""
        return np.ascontiguousarray(self.arrays[name], np.float32) if name in self.arrays else NONE

    def vector_or_zeros(self, name: str, size: int) -> np.ndarray:
        return self.vector(name) if name in self.arrays else np.zeros(size, np.float32)


class Softmax:
    def __init__(self, matrix: Linear, bias: np.ndarray) -> None:
        self.matrix, self.bias = matrix, bias

    def log_probs(self, features: np.ndarray) -> np.ndarray:
        """Of features (n, D), float32 (n, V)."""
        scores = self.matrix(features)
        log_softmax(scores, self.bias)
        return scores


class Adaptive:
    """`nn.outputs.AdaptiveSoftmax`: a head of frequent tokens and clusters, each cluster narrower than the one before."""

    def __init__(self, weights: Weights) -> None:
        self.head = Softmax(weights.matrix("output.head.weight"), weights.vector("output.head.bias"))
        tails = sum(name.endswith(".down.weight") and name.startswith("output.tails.") for name in weights.arrays)
        self.down = [weights.matrix(f"output.tails.{i}.down.weight") for i in range(tails)]
        self.up = [Softmax(weights.matrix(f"output.tails.{i}.up.weight"), NONE) for i in range(tails)]
        self.ranks = weights.arrays.get("output.ranks")

    def log_probs(self, features: np.ndarray) -> np.ndarray:
        head = self.head.log_probs(features)
        first = head.shape[1] - len(self.up)
        tails = [head[:, first + i, None] + up.log_probs(down(features))
                 for i, (down, up) in enumerate(zip(self.down, self.up))]
        by_rank = np.concatenate([head[:, :first], *tails], axis=1)
        return by_rank if self.ranks is None else by_rank[:, self.ranks]
