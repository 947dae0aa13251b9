"""A layer of a recurrent network, step by step and without torch: two products and one kernel (`kernels/decode`).

The weights are those of a layer of `nn.recurrent.RecurrentStack` by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from seqloom.kernels.decode import gru_cell, gru_reset, gru_update, lstm_cell, norm_rows, rnn_cell
from seqloom.models.network.shapes import GATES
from seqloom.models.network.step_weights import Linear, Weights

Cell = Literal["rnn", "lstm", "gru"]
State = tuple[np.ndarray, ...]  # h (n, H), or (n, P) with a projection; for an LSTM also c (n, H)


@dataclass(frozen=True)
class Norm:
    """Scale and shift of a layer norm, or empty ones for none."""

    weight: np.ndarray
    bias: np.ndarray

    def __call__(self, x: np.ndarray) -> np.ndarray:
        if len(self.weight):
            norm_rows(x, self.weight, self.bias, x)
        return x


@dataclass(frozen=True)
class RecurrentLayer:
    cell: Cell
    relu: bool
    replace: bool  # z of a GRU is the share of the new state
    w_x: Linear
    w_h: Linear
    b: np.ndarray
    b_h: np.ndarray
    w_reset: Linear | None  # the candidate's rows of w_h, which multiply r * h when the reset comes before the product
    w_p: Linear | None
    norm_x: Norm
    norm_h: Norm
    norm_reset: Norm
    norm_c: Norm
    start: State  # of one row

    @classmethod
    def load(cls, weights: Weights, place: str, cell: Cell, *, relu: bool = False, before: bool = False,
             replace: bool = False, columns: slice = slice(None)) -> RecurrentLayer:
        """Gather the layer whose names begin with `place`; `columns`: the part of w_x that `project` is to multiply."""
        rows, width = weights.arrays[f"{place}w_h"].shape
        size = rows // GATES[cell]
        split = 2 * size if cell == "gru" and before else rows  # what of w_h multiplies h itself

        def norm(name: str, part: slice = slice(None)) -> Norm:
            return Norm(weights.vector(f"{place}{name}.weight")[part], weights.vector(f"{place}{name}.bias")[part])

        start = [weights.vector_or_zeros(f"{place}start_h", width)[None],
                 weights.vector_or_zeros(f"{place}start_c", size)[None]]
        return cls(cell, relu, replace, w_x=weights.matrix(f"{place}w_x", columns=columns),
                   w_h=weights.matrix(f"{place}w_h", slice(split)),
                   b=weights.vector(f"{place}b"), b_h=weights.vector(f"{place}b_h"),
                   w_reset=weights.matrix(f"{place}w_h", slice(split, None)) if split < rows else None,
                   w_p=weights.matrix(f"{place}w_p") if f"{place}w_p" in weights else None,
                   norm_x=norm("norm_x"), norm_h=norm("norm_h", slice(split)), norm_reset=norm("norm_h", slice(split, None)),
                   norm_c=norm("norm_c"), start=tuple(start if cell == "lstm" else start[:1]))

    def start_rows(self, n: int) -> State:
        """The state of n rows that have read nothing."""
        return tuple(np.repeat(leaf, n, axis=0) for leaf in self.start)

    def project(self, x: np.ndarray) -> np.ndarray:
        """The input's part of the gates, (n, G H) from (n, D), without the bias."""
        return self.norm_x(self.w_x(x))

    def move(self, from_x: np.ndarray, state: State) -> State:
        """The state after what `project` gave; c moves in place, h is a new array, for it may be kept as features."""
        h = state[0]
        from_h = self.w_h(h)
        out = np.empty((len(from_x), len(self.b) // GATES[self.cell]), np.float32)
        if self.cell == "rnn":
            b = self.b
            if len(self.norm_h.weight):  # of the whole sum
                from_x, from_h, b = self.norm_h(from_x + from_h + b), np.zeros_like(from_h), np.zeros_like(b)
            rnn_cell(from_x, from_h, b, self.relu, out)
            return (out,)
        from_h = self.norm_h(from_h)
        if self.cell == "gru" and self.w_reset is not None:
            gru_reset(from_x, from_h, self.b, h, out)
            gru_update(from_x, from_h, self.norm_reset(self.w_reset(out)), self.b, self.replace, h, out)
            return (out,)
        if self.cell == "gru":
            gru_cell(from_x, from_h, self.b, self.b_h, self.replace, h, out)
            return (out,)
        lstm_cell(from_x, from_h, self.b, self.norm_c.weight, self.norm_c.bias, state[1], out)
        return (out if self.w_p is None else self.w_p(out)), state[1]
