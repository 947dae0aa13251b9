"""A language model that is a function: the tokens so far in, the log-probabilities of the next one out.

That is the least a model can write (`next_log_probs`), and what it is turned into here is all that decoding and scoring
need. A context begins with `</s>`, as if the sequence before had just ended, and holds the last `size` tokens where the
model sees no more than that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from seqloom.errors import ModelError

Following = Callable[[np.ndarray], Any]  # a context, int64 (T,), to log-probabilities (V,)


class ContextStepper:
    """The state is the context of each row, padded on the right, and its length."""

    def __init__(
        self, following: Following, vocab_size: int, eos_id: int, size: int | None
    ) -> None:
        self.following, self.vocab_size, self.eos_id, self.size = (
            following,
            vocab_size,
            eos_id,
            size,
        )

    def start(self, n: int) -> tuple[Any, np.ndarray]:
        ids = np.full((n, 0 if self.size == 0 else 1), self.eos_id, np.int64)
        return self._result(ids, np.full(n, ids.shape[1], np.int64))

    def step(self, state: Any, ids: np.ndarray) -> tuple[Any, np.ndarray]:
        old, lengths = state
        if self.size == 0:
            return self._result(old, lengths)
        rows = np.arange(len(old))
        longer = np.zeros((len(old), int(lengths.max(initial=0)) + 1), np.int64)
        longer[:, : old.shape[1]] = old[:, : longer.shape[1]]
        longer[rows, lengths] = ids
        lengths = lengths + 1
        if (
            self.size is not None and longer.shape[1] > self.size
        ):  # rows that are too long lose their first token
            over = lengths > self.size
            longer[over, :-1] = longer[over, 1:]
            longer, lengths = longer[:, : self.size], np.minimum(lengths, self.size)
        return self._result(longer, lengths)

    def _result(self, ids: np.ndarray, lengths: np.ndarray) -> tuple[Any, np.ndarray]:
        log_probs = np.empty((len(ids), self.vocab_size), np.float32)
        for i, length in enumerate(lengths.tolist()):
            log_probs[i] = _row(self.following(ids[i, :length].copy()), self.vocab_size)
        return (ids, lengths), log_probs

    def log_probs(self, ids: np.ndarray, lengths: np.ndarray, skip: int = 0) -> np.ndarray:
        """Log-probability of each token of sequences of these lengths but the first `skip`, float32; no state is copied."""
        out = np.empty(len(ids), np.float32)
        begin = 0
        for length in lengths.tolist():
            sequence = np.empty(length + 1, np.int64)
            sequence[0], sequence[1:] = self.eos_id, ids[begin : begin + length]
            sequence.setflags(write=False)
            for t in range(max(skip - begin, 0), length):
                context = sequence[(0 if self.size is None else max(t + 1 - self.size, 0)) : t + 1]
                out[begin + t] = _row(self.following(context), self.vocab_size)[sequence[t + 1]]
            begin += length
        return out[skip:]

    def continued(
        self, ids: np.ndarray, before: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The same for the next stretch of one sequence after all tokens `before`, and what comes before the one after it."""
        both = ids if before is None else np.concatenate([before, ids])
        return self.log_probs(both, np.array([len(both)]), len(both) - len(ids)), both


def _row(log_probs: Any, vocab_size: int) -> np.ndarray:
    row = np.asarray(log_probs)
    if row.shape != (vocab_size,):
        raise ModelError(
            f"next_log_probs gave an array of shape {row.shape}; it must be ({vocab_size},), "
            "a log-probability for each token of the vocabulary"
        )
    return row
