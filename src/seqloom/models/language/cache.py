"""A unigram model of the recent past (Kuhn and De Mori 1990): recent words are likely to recur.

Alone it is a poor model; as a member of a mixture it lets a static model follow the text's topic and names.
It forgets at the end of every unit, unless `carry` lets it remember those before. With probability `floor`
it draws uniformly from all tokens, so nothing is impossible.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from seqloom.contracts import FitOptions, LanguageModel
from seqloom.contracts.saving import Arrayless
from seqloom.models.language.configs import CacheConfig

INITIAL_TOKENS = 512  # capacity of a new state; doubled whenever it is full


class Cache(Arrayless, LanguageModel):
    name = "cache"
    config_class = CacheConfig

    def fit_ids(self, ids: np.ndarray, options: FitOptions) -> None:
        pass

    @property
    def context(self) -> int:
        return self.config.window

    @property
    def carry(self) -> bool:
        return self.config.carry

    def sequence_log_probs(self, ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        from seqloom.kernels.ngram_count import window_counts

        c, v = self.config, self.tokenizer.vocab_size
        shares = np.empty(len(ids), np.float64)
        window_counts(
            np.ascontiguousarray(ids, np.int64),
            np.ascontiguousarray(lengths, np.int64),
            c.window,
            v,
            shares,
        )
        return np.log(np.where(shares < 0, 1 / v, (1 - c.floor) * shares + c.floor / v)).astype(
            np.float32
        )

    def stepper(self, *, eight_bit: bool = False) -> CacheStepper:
        c = self.config
        return CacheStepper(
            self.tokenizer.vocab_size, self.tokenizer.eos_id, c.window, c.floor, c.carry
        )


class CacheStepper:
    """The state is a ring buffer of the last tokens, (n, C), and how many were read, (n,). C grows
    up to the window.
    """

    def __init__(
        self, vocab_size: int, eos_id: int, window: int, floor: float, carry: bool
    ) -> None:
        self.vocab_size, self.eos_id, self.window, self.floor = vocab_size, eos_id, window, floor
        self.carry = carry

    def start(self, n: int) -> tuple[Any, np.ndarray]:
        state = (np.zeros((n, min(self.window, INITIAL_TOKENS)), np.int64), np.zeros(n, np.int64))
        return state, self._log_probs(*state)

    def step(self, state: Any, ids: np.ndarray) -> tuple[Any, np.ndarray]:
        ring, read = state
        capacity = ring.shape[1]
        if capacity < self.window and int(read.max(initial=0)) >= capacity:
            ring = np.pad(ring, [(0, 0), (0, min(capacity, self.window - capacity))])
        ring[np.arange(len(ids)), read % self.window] = ids
        read = np.where((ids == self.eos_id) & (not self.carry), 0, read + 1)
        return (ring, read), self._log_probs(ring, read)

    def _log_probs(self, ring: np.ndarray, read: np.ndarray) -> np.ndarray:
        filled = np.minimum(read, self.window)
        probs = np.full((len(ring), self.vocab_size), 1 / self.vocab_size)
        for row in np.flatnonzero(filled):
            counts = np.bincount(ring[row, : filled[row]], minlength=self.vocab_size)
            probs[row] = (1 - self.floor) * counts / filled[row] + self.floor / self.vocab_size
        return np.log(probs).astype(np.float32)
