"""A translation network as a Stepper, without torch: the sources are read once, and each token moves the state of its row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from seqloom.models.translate.pairs import in_source_order
from seqloom.runtime.declarations import Examples


class Decoder:
    """The targets of these sources; row i of `start(n)` belongs to source i."""

    def __init__(
        self,
        network: Any,
        sources: Examples,
        eos_id: int,
        *,
        start: Sequence[int],
        backwards: bool = False,
    ) -> None:
        """`network` of `runtime.seq2seq` or `runtime.encoder_decoder`. A target comes after the tokens `start`; `backwards`:
        sources are read from right to left."""
        self.network, self.eos_id, self.vocab_size = network, eos_id, network.vocab_size
        self.first, self.backwards = list(start), backwards
        self.lengths = np.diff(sources.offsets)
        self.memory = network.encode(sources)

    def start(self, n: int) -> tuple[Any, np.ndarray]:
        """Return the states of the first n sources before their first token, and the log-probabilities of it."""
        state = self.network.start(self.memory, n)
        for token in self.first:
            features, state = self.network.step(self.memory, state, np.full(n, token))
        return state, self.network.output.log_probs(features)

    def step(self, state: Any, ids: np.ndarray) -> tuple[Any, np.ndarray]:
        features, state = self.network.step(self.memory, state, ids)
        return state, self.network.output.log_probs(features)

    def attention(self, state: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the weights of the source (n, S) behind the log-probabilities that came with this state, of a Transformer the
        mean over heads and layers, and the length of each row's source (n,)."""
        lengths = self.lengths[state.source]
        return in_source_order(state.looked, lengths) if self.backwards else state.looked, lengths
