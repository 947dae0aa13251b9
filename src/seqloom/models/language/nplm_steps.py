"""Stepping through the network of Bengio et al. 2003, "A Neural Probabilistic Language Model", without torch.

    y = b + W x + U tanh(d + H x)        (equation 1)

x are the embeddings of the last order - 1 tokens, oldest first, side by side; W, the direct connections, is optional and
stands beside U in the output layer. Tokens that are missing at the beginning are `eos_id`. The state is (context ids
(n, order - 1), features): the features are the hidden layer tanh(d + H x) and, with direct connections, x after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from seqloom.decoding.stepper import select
from seqloom.kernels.decode import add_tanh
from seqloom.models.network.step_weights import Weights


class NPLMStepper:
    """The decode path of an NPLM; `arrays` by the names of its saved file."""

    def __init__(self, arrays: Mapping[str, np.ndarray], *, order: int, eos_id: int, direct: bool = False,
                 eight_bit: bool = False) -> None:
        if order < 2:
            raise ValueError(f"order is {order}; a network needs at least one token of context, so at least 2")
        self.order, self.eos_id, self.direct = order, eos_id, direct
        self.embedding = arrays["embedding.weight"]
        self.vocab_size = len(self.embedding)
        weights = Weights(arrays, eight_bit=eight_bit)
        self.hidden, self.hidden_bias = weights.matrix("hidden.weight"), weights.vector("hidden.bias")
        self.output = weights.output()
        self.begun = self._read(np.full((1, order - 1), eos_id, np.int64))  # one row, to be copied

    def start(self, n: int) -> tuple[Any, np.ndarray]:
        state, log_probs = self.begun
        rows = np.zeros(n, np.int64)
        return select(state, rows), log_probs[rows]

    def step(self, state: Any, ids: np.ndarray) -> tuple[Any, np.ndarray]:
        return self._read(np.concatenate([state[0][:, 1:], np.asarray(ids, np.int64)[:, None]], axis=1))

    def features(self, state: Any) -> np.ndarray:
        """What the output layer saw, (n, D)."""
        return state[1]

    def _read(self, context: np.ndarray) -> tuple[Any, np.ndarray]:
        x = np.asarray(self.embedding[context], np.float32).reshape(len(context), -1)  # (n, (order - 1) E)
        hidden = self.hidden(x)  # (n, H)
        add_tanh(hidden, self.hidden_bias)
        features = np.concatenate([hidden, x], axis=1) if self.direct else hidden
        return (context, features), self.output.log_probs(features)
