"""Stepping through a recurrent network without torch: RNN, LSTM and GRU stacks for drawing text on a CPU.

torch pays for every small call, and its LSTM packs the weights anew at each of them; for one sequence that is most of
the time. Here a layer is two products and one kernel (`kernels/decode`). The weights are those of
`nn.recurrent.RecurrentStack` by name, so this is the same network: a test holds both to the same numbers.

A sequence begins as if `eos_id` had just been read. The state is (layers, features): for each layer (h, c) or (h,),
each (n, H), with a projection h (n, P); and the vector (n, D) that the output layer turned into log-probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from seqloom.decoding.stepper import select
from seqloom.kernels.decode import gru_cell, gru_reset, gru_update, lstm_cell, norm_rows, rnn_cell
from seqloom.models.network.shapes import GATES
from seqloom.models.network.step_weights import Matrix, Weights

Cell = Literal["rnn", "lstm", "gru"]


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
class Layer:
    w_x: Matrix
    w_h: Matrix
    b: np.ndarray
    b_h: np.ndarray
    w_reset: Matrix | None  # the candidate's rows of w_h, which multiply r * h when the reset comes before the product
    w_p: Matrix | None
    norm_x: Norm
    norm_h: Norm
    norm_reset: Norm
    norm_c: Norm
    start: tuple[np.ndarray, ...]  # h (1, H or P), and for an LSTM c (1, H)


class RecurrentStepper:
    """The decode path of a recurrent language model; `arrays` by the names of its saved file."""

    def __init__(self, arrays: dict[str, np.ndarray], *, cell: Cell, n_layers: int, eos_id: int,
                 activation: Literal["tanh", "relu"] = "tanh", reset: Literal["after", "before"] = "after",
                 update: Literal["keep", "replace"] = "keep", residual: bool = False, eight_bit: bool = False) -> None:
        if cell not in GATES:
            raise ValueError(f"cell is {cell!r}; it must be one of {', '.join(GATES)}")
        self.cell, self.eos_id, self.residual = cell, eos_id, residual
        self.relu, self.before, self.replace = activation == "relu", reset == "before", update == "replace"
        self.embedding = arrays["embedding.weight"]
        self.vocab_size = len(self.embedding)
        weights = Weights(arrays, eight_bit=eight_bit)
        self.layers = [_layer(weights, f"recurrent.layers.{i}.", cell, self.before) for i in range(n_layers)]
        self.bridge = weights.matrix("bridge.weight") if "bridge.weight" in weights else None
        self.bridge_bias = weights.vector("bridge.bias")
        self.output = weights.output()
        states = tuple(tuple(part.copy() for part in layer.start) for layer in self.layers)
        self.begun = self.step((states, None), np.array([self.eos_id]))  # one row, to be copied

    def start(self, n: int) -> tuple[Any, np.ndarray]:
        state, log_probs = self.begun
        rows = np.zeros(n, np.int64)
        return select(state, rows), log_probs[rows]

    def step(self, state: Any, ids: np.ndarray) -> tuple[Any, np.ndarray]:
        x = np.asarray(self.embedding[ids], np.float32)  # (n, E)
        states = []
        for layer, parts in zip(self.layers, state[0], strict=True):
            parts = self._move(layer, x, parts)
            states.append(parts)
            x = x + parts[0] if self.residual and x.shape == parts[0].shape else parts[0]
        if self.bridge is not None:
            x = self.bridge(x)
            x += self.bridge_bias
        return (tuple(states), x), self.output.log_probs(x)

    def features(self, state: Any) -> np.ndarray:
        """What the output layer saw, (n, D)."""
        return state[1]

    def _move(self, layer: Layer, x: np.ndarray, state: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        """The layer's state after x (n, D); c moves in place, h is a new array, for it may be kept as features."""
        h = state[0]
        from_x, from_h = layer.norm_x(layer.w_x(x)), layer.w_h(h)  # (n, G * H)
        out = np.empty((len(x), len(layer.b) // GATES[self.cell]), np.float32)
        if self.cell == "rnn":
            b = layer.b
            if len(layer.norm_h.weight):  # of the whole sum
                from_x, from_h, b = layer.norm_h(from_x + from_h + b), np.zeros_like(from_h), np.zeros_like(b)
            rnn_cell(from_x, from_h, b, self.relu, out)
            return (out,)
        from_h = layer.norm_h(from_h)
        if self.cell == "gru" and layer.w_reset is not None:
            gru_reset(from_x, from_h, layer.b, h, out)
            gru_update(from_x, from_h, layer.norm_reset(layer.w_reset(out)), layer.b, self.replace, h, out)
            return (out,)
        if self.cell == "gru":
            gru_cell(from_x, from_h, layer.b, layer.b_h, self.replace, h, out)
            return (out,)
        lstm_cell(from_x, from_h, layer.b, layer.norm_c.weight, layer.norm_c.bias, state[1], out)
        return (out if layer.w_p is None else layer.w_p(out)), state[1]


def _layer(weights: Weights, place: str, cell: Cell, before: bool) -> Layer:
    """Gather the layer whose names begin with `place`."""
    rows, width = weights.arrays[f"{place}w_h"].shape
    size = rows // GATES[cell]
    split = 2 * size if cell == "gru" and before else rows  # what of w_h multiplies h itself

    def norm(name: str, part: slice = slice(None)) -> Norm:
        return Norm(weights.vector(f"{place}{name}.weight")[part], weights.vector(f"{place}{name}.bias")[part])

    start = [weights.vector_or_zeros(f"{place}start_h", width)[None], weights.vector_or_zeros(f"{place}start_c", size)[None]]
    return Layer(w_x=weights.matrix(f"{place}w_x"), w_h=weights.matrix(f"{place}w_h", slice(split)),
                 b=weights.vector(f"{place}b"), b_h=weights.vector(f"{place}b_h"),
                 w_reset=weights.matrix(f"{place}w_h", slice(split, None)) if split < rows else None,
                 w_p=weights.matrix(f"{place}w_p") if f"{place}w_p" in weights else None,
                 norm_x=norm("norm_x"), norm_h=norm("norm_h", slice(split)), norm_reset=norm("norm_h", slice(split, None)),
                 norm_c=norm("norm_c"), start=tuple(start if cell == "lstm" else start[:1]))
