"""Sequences packed by time for the kernels of hidden Markov models.

A batch is a run of neighbouring sequences, sorted by falling length, whose tokens are laid out step by step (see
kernels/hmm.py). Borders of batches depend on the lengths alone, so sums over batches do not depend on the threads.
For emission counts over a large vocabulary a batch numbers only the symbols that occur in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from seqloom.errors import DataError

BATCH_VALUES = 1 << 18  # tokens times states of one batch: its beliefs stay near the processor
SMALLEST = 1 << 10  # tokens


@dataclass(frozen=True)
class Batch:
    first: int  # number of its first sequence
    order: np.ndarray  # (n,) its sequences by falling length, counted from `first`
    lengths: np.ndarray  # (n,) in that order
    offsets: np.ndarray  # (T + 1,) rows of a step
    where: np.ndarray  # (rows,) position of a row in the flat data
    symbols: (
        np.ndarray
    )  # (rows,) its symbol as an index into `known`; the row itself where there are no symbols
    known: np.ndarray  # (U,) symbols that occur

    @property
    def sequences(self) -> np.ndarray:
        return self.first + self.order

    def rows(self, lane: int) -> np.ndarray:
        """Rows of one sequence, in time."""
        return self.offsets[: self.lengths[lane]] + lane


def check_lengths(total: int, lengths: np.ndarray | None) -> np.ndarray:
    """int64 lengths that add up; None is one sequence."""
    lengths = np.array([total] if lengths is None else lengths, np.int64).reshape(-1)
    if (lengths < 0).any() or lengths.sum() != total:
        raise DataError(
            f"lengths must be at least 0 and add up to the {total:,} tokens; they add up to {lengths.sum():,}"
        )
    return lengths


def check_symbols(ids: np.ndarray, vocab_size: int) -> np.ndarray:
    array = np.asarray(ids)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and len(array)):
        raise DataError(
            f"symbols must be a flat array of whole numbers; got shape {array.shape}, type {array.dtype}"
        )
    if len(array) and (array.min() < 0 or array.max() >= vocab_size):
        place = int(np.flatnonzero((array < 0) | (array >= vocab_size))[0])
        raise DataError(
            f"symbol {array[place]} at position {place:,} is outside the vocabulary of {vocab_size:,}"
        )
    return array.astype(np.int64, copy=False)


@dataclass(frozen=True)
class Packer:
    """Cuts the data into spans of sequences, and packs a span in the thread that will work on it."""

    lengths: np.ndarray  # (n,)
    n_states: int
    ids: np.ndarray | None = None  # without symbols a row is its own symbol
    vocab_size: int = 0

    @cached_property
    def begins(self) -> np.ndarray:
        return np.cumsum(self.lengths) - self.lengths

    def spans(self) -> list[tuple[int, int]]:
        size = max(BATCH_VALUES // self.n_states, SMALLEST)
        cuts = np.flatnonzero(np.diff(self.begins // size, prepend=-1, append=-1)).tolist()
        return list(pairwise(cuts))

    def __call__(self, span: tuple[int, int]) -> Batch:
        from seqloom.kernels.hmm import pack

        own = self.lengths[slice(*span)]
        order = np.argsort(-own, kind="stable")
        per_step = len(own) - np.cumsum(np.bincount(own))[:-1]  # sequences longer than t
        offsets = np.concatenate([[0], np.cumsum(per_step)])
        where = np.empty(offsets[-1], np.int64)
        pack(self.begins[slice(*span)][order], offsets, where)
        symbols, known = self._symbols(where)
        return Batch(span[0], order, own[order], offsets, where, symbols, known)

    def _symbols(self, where: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        from seqloom.kernels.hmm import renumber

        if self.ids is None:
            return np.arange(len(where)), np.arange(len(where))
        symbols = np.empty(len(where), np.int32)
        return symbols, renumber(self.ids, where, np.full(self.vocab_size, -1, np.int32), symbols)
