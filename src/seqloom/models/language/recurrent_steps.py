"""Stepping through a recurrent network without torch: RNN, LSTM and GRU stacks for drawing text on a CPU.

torch pays for every small call, and its LSTM packs the weights anew at each of them; for one sequence that is most of
the time. Here a layer is two products and one kernel (`network/recurrent_layer`). The weights are those of
`nn.recurrent.RecurrentStack` by name, so this is the same network: a test holds both to the same numbers.

A sequence begins as if `eos_id` had just been read. The state is (layers, features): for each layer (h, c) or (h,),
each (n, H), with a projection h (n, P); and the vector (n, D) that the output layer turned into log-probabilities.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from seqloom.decoding.stepper import select
from seqloom.models.network.recurrent_layer import Cell, RecurrentLayer
from seqloom.models.network.shapes import GATES
from seqloom.models.network.step_weights import Weights


class RecurrentStepper:
    """The decode path of a recurrent language model; `arrays` by the names of its saved file."""

    def __init__(self, arrays: Mapping[str, np.ndarray], *, cell: Cell, n_layers: int, eos_id: int,
                 activation: Literal["tanh", "relu"] = "tanh", reset: Literal["after", "before"] = "after",
                 update: Literal["keep", "replace"] = "keep", residual: bool = False, eight_bit: bool = False) -> None:
        if cell not in GATES:
            raise ValueError(f"cell is {cell!r}; it must be one of {', '.join(GATES)}")
        self.cell, self.eos_id, self.residual = cell, eos_id, residual
        self.embedding = arrays["embedding.weight"]
        self.vocab_size = len(self.embedding)
        weights = Weights(arrays, eight_bit=eight_bit)
        self.layers = [RecurrentLayer.load(weights, f"recurrent.layers.{i}.", cell, relu=activation == "relu",
                                           before=reset == "before", replace=update == "replace") for i in range(n_layers)]
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
            parts = layer.move(layer.project(x), parts)
            states.append(parts)
            x = x + parts[0] if self.residual and x.shape == parts[0].shape else parts[0]
        if self.bridge is not None:
            x = self.bridge(x)
            x += self.bridge_bias
        return (tuple(states), x), self.output.log_probs(x)

    def features(self, state: Any) -> np.ndarray:
        """What the output layer saw, (n, D)."""
        return state[1]
