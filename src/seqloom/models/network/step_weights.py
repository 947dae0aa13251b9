"""Weights as the decode path holds them: float32 as they were saved, or rounded to 8 bits.

For one sequence a step reads every weight once and does two operations with it, so the speed is that of memory. A
small matrix is read by one core with our kernel, since waking a second thread takes longer than the product; a large one
goes to BLAS, since two cores together get more out of the memory. The few rows of a beam go to our kernel, many to BLAS.

8 bits are read up to four times faster than 32; each row has its own scale (its largest weight becomes 127), so a row of large
weights does not spoil the others: a weight is off by at most 1/254 of the largest of its row. Activations are not rounded.
"""

from __future__ import annotations

import numpy as np

from seqloom.kernels.decode import log_softmax, product_8bit
from seqloom.kernels.translate import product

SMALL = 1_000_000  # weights up to which one core is done before a second one has begun
SEVERAL = 10  # rows, as those of a beam, up to which our kernel is quicker than BLAS
FEW = 4  # rows up to which the 8-bit kernel is quicker than turning the weights back into floats for BLAS
BLOCK = 1 << 18  # weights that are turned back at a time, to stay in the cache
NONE = np.empty(0, np.float32)  # an optional vector that a model does not have


class Matrix:
    """Weights (R, K) for rows (n, K): `matrix(x)` is x times its transpose, float32 (n, R), a new array.

    >>> Matrix(np.array([[1.0, 2.0], [0.0, 10.0]]), eight_bit=True)(np.array([[1.0, 1.0]], np.float32)).round(2)
    array([[ 3.01, 10.  ]], dtype=float32)
    """

    def __init__(self, weight: np.ndarray, *, eight_bit: bool = False) -> None:
        self.eight_bit, self.large = eight_bit, weight.size > SMALL
        self.weight = np.ascontiguousarray(weight, np.float32)
        self.scale = NONE
        if eight_bit:
            largest = np.abs(self.weight).max(axis=1)
            self.scale = np.where(largest > 0, largest / 127, 1).astype(np.float32)
            self.weight = np.rint(self.weight / self.scale[:, None]).astype(np.int8)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        n = len(x)
        if n > SEVERAL and not self.eight_bit:
            return x @ self.weight.T
        if n == 1 and self.large and not self.eight_bit:
            return np.dot(self.weight, x[0])[None]
        out = np.empty((n, len(self.weight)), np.float32)
        if not self.eight_bit:
            product(self.weight, x, out)
        elif n <= FEW:
            product_8bit(self.weight, self.scale, x, out)
        else:
            rows = max(BLOCK // self.weight.shape[1], 1)
            for lo in range(0, len(self.weight), rows):
                part = slice(lo, lo + rows)
                out[:, part] = x @ (self.weight[part] * self.scale[part, None]).T
        return out


class Weights:
    """The arrays of a saved network by name."""

    def __init__(self, arrays: dict[str, np.ndarray], *, eight_bit: bool) -> None:
        self.arrays, self.eight_bit = arrays, eight_bit

    def __contains__(self, name: str) -> bool:
        return name in self.arrays

    def matrix(self, name: str, rows: slice = slice(None), columns: slice = slice(None)) -> Matrix:
        return Matrix(self.arrays[name][rows, columns], eight_bit=self.eight_bit)

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
    def __init__(self, matrix: Matrix, bias: np.ndarray) -> None:
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
