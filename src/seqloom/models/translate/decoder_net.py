"""A translation network as a Stepper, by torch: the sources are read once, and each token moves the state of its row.

The state has the number of each row's source, so that the memory of the sources stays where it is while a search drops, copies
and reorders rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from seqloom.models.translate.pairs import in_source_order
from seqloom.trace import Trace


class NetworkState(NamedTuple):
    source: np.ndarray  # (n,) int64: which of the sources a row belongs to
    inner: Any  # of the network
    looked: Tensor  # (n, S): weights of the source steps behind the last log-probabilities; (n, 0) without attention


class NetworkDecoder:
    """Row i of `start(n)` belongs to source i of the batch."""

    def __init__(
        self,
        network: Any,
        batch: Mapping[str, np.ndarray],
        vocab_size: int,
        eos_id: int,
        *,
        start: Sequence[int] | None = None,
        backwards: bool = False,
    ) -> None:
        """A target comes after the tokens `start`, or else after `</s>`; `backwards`: sources are read from right to left."""
        self.network, self.vocab_size, self.eos_id, self.backwards = (
            network,
            vocab_size,
            eos_id,
            backwards,
        )
        self.first, *self.further = start or [eos_id]
        self.device = next(network.parameters()).device
        self.lengths = batch["lengths"]
        with torch.inference_mode():
            self.memory = network.encode(
                {name: torch.from_numpy(array).to(self.device) for name, array in batch.items()}
            )
        self._taken = np.arange(len(self.lengths)), self.memory  # the last choice of sources

    def start(self, n: int) -> tuple[NetworkState, np.ndarray]:
        source = np.arange(n)
        with torch.inference_mode():
            state, log_probs = self._advance(
                source, self.network.start(self._rows(source)), np.full(n, self.first)
            )
            for token in self.further:
                state, log_probs = self._advance(source, state.inner, np.full(n, token))
            return state, log_probs

    def step(self, state: NetworkState, ids: np.ndarray) -> tuple[NetworkState, np.ndarray]:
        with torch.inference_mode():
            return self._advance(state.source, state.inner, ids)

    def _advance(
        self, source: np.ndarray, inner: Any, ids: np.ndarray
    ) -> tuple[NetworkState, np.ndarray]:
        trace = Trace("*cross.weights")
        tokens = torch.from_numpy(np.ascontiguousarray(ids, np.int64)).to(self.device)
        features, inner = self.network.step(self._rows(source), inner, tokens, trace)
        log_probs = self.network.output.log_probs(features).float().cpu().numpy()
        weights = torch.cat(list(trace.values()), 1).mean((1, 2)) if trace else features[:, :0]
        return NetworkState(source, inner, weights), log_probs

    def _rows(self, source: np.ndarray) -> Any:
        """The memory of these sources; taken anew only where they are others than in the step before."""
        known, memory = self._taken
        if not np.array_equal(known, source):
            memory = self.memory.rows(torch.from_numpy(source).to(self.device))
            self._taken = source.copy(), memory
        return memory

    def attention(self, state: NetworkState) -> tuple[np.ndarray, np.ndarray]:
        """The weights of the source (n, S) behind the log-probabilities that came with this state, the mean over heads and
        layers, and the length of each row's source (n,)."""
        weights, lengths = state.looked.float().cpu().numpy(), self.lengths[state.source]
        return in_source_order(weights, lengths) if self.backwards else weights, lengths
