"""Token ids as training batches. A batch is a function of a cursor, so a resumed run reads on exactly where it was.

`Carried` lays the text out in `batch_size` long rows that are read side by side, window by window, with the state
carried on: truncated back-propagation through time. `Shuffled` reads windows in a new random order in each epoch, for
networks without a state. Inputs are the targets moved by one; before the first token stands `</s>`.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from seqloom.errors import ConfigError

Cursor = tuple[int, int]  # epoch, position in it
DEFAULT_TOKENS, FEWEST_ROWS = 1024, 8  # of a batch, unless told: many small steps learn faster than few large ones


class Batch(NamedTuple):
    inputs: np.ndarray  # int64 (B, T)
    targets: np.ndarray  # int64 (B, T)
    fresh: bool  # the state begins anew
    following: Cursor


class Batches(Protocol):
    rows: int
    tokens: int  # of one epoch

    def batch(self, cursor: Cursor) -> Batch: ...

    def length(self, cursor: Cursor) -> int:
        """About how many updates one epoch has."""
        ...


class Carried:
    def __init__(self, ids: np.ndarray, eos_id: int, *, batch_size: int | None, truncation: int, vary: bool = False,
                 seed: int = 0) -> None:
        self.ids, self.eos_id, self.vary, self.seed = ids, eos_id, vary, seed
        self.rows = _rows(batch_size, len(ids), truncation)
        self.columns = len(ids) // self.rows
        self.tokens = self.rows * self.columns
        self.truncation = min(truncation, self.columns)
        self.starts = np.arange(self.rows) * self.columns

    def length(self, cursor: Cursor) -> int:
        return -(-self.columns // self.truncation)

    def batch(self, cursor: Cursor) -> Batch:
        epoch, at = cursor
        size = min(self._size(epoch, at), self.columns - at)
        places = self.starts[:, None] + np.arange(at, at + size)
        targets = self.ids[places].astype(np.int64)
        inputs = np.empty_like(targets)
        inputs[:, 1:] = targets[:, :-1]
        inputs[:, 0] = self.eos_id if at == 0 else self.ids[self.starts + at - 1]
        end = at + size >= self.columns
        return Batch(inputs, targets, at == 0, (epoch + 1, 0) if end else (epoch, at + size))

    def _size(self, epoch: int, at: int) -> int:
        """Mostly about the truncation, now and then half of it (Merity et al. 2018, section 4.1)."""
        if not self.vary:
            return self.truncation
        rng = np.random.default_rng([self.seed, epoch, at])
        base = self.truncation if rng.random() < 0.95 else self.truncation / 2
        return max(1, round(rng.normal(base, self.truncation / 14)))


class Shuffled:
    def __init__(self, ids: np.ndarray, eos_id: int, *, batch_size: int | None, window: int, before: int = 0,
                 seed: int = 0) -> None:
        """`before`: how many tokens the network also sees in front of a window without being trained on them."""
        self.ids, self.eos_id, self.before, self.seed = ids, eos_id, before, seed
        self.window = min(window, len(ids))
        self.rows = _rows(batch_size, len(ids), self.window)
        self.tokens = len(ids)
        self._order: tuple[int, np.ndarray] | None = None

    def length(self, cursor: Cursor) -> int:
        return -(-len(self._starts(cursor[0])) // self.rows)

    def batch(self, cursor: Cursor) -> Batch:
        epoch, at = cursor
        starts = self._starts(epoch)
        chosen = starts[at:at + self.rows]
        targets = self.ids[chosen[:, None] + np.arange(self.window)].astype(np.int64)
        places = chosen[:, None] + np.arange(-1 - self.before, self.window - 1)
        inputs = np.where(places >= 0, self.ids[np.maximum(places, 0)], self.eos_id).astype(np.int64)
        end = at + self.rows >= len(starts)
        return Batch(inputs, targets, True, (epoch + 1, 0) if end else (epoch, at + self.rows))

    def _starts(self, epoch: int) -> np.ndarray:
        if self._order is None or self._order[0] != epoch:
            rng = np.random.default_rng([self.seed, epoch])
            slack = len(self.ids) - self.window
            offset = int(rng.integers(min(self.window, slack + 1)))
            starts = np.arange(offset, slack + 1, self.window)
            self._order = epoch, rng.permutation(starts)
        return self._order[1]


def _rows(batch_size: int | None, tokens: int, window: int) -> int:
    """As many as were asked for; of a small text, fewer."""
    if batch_size is None:
        return int(np.clip(tokens // (2 * window), 1, max(DEFAULT_TOKENS // window, FEWEST_ROWS)))
    if batch_size > tokens // 2:
        raise ConfigError(f"batch_size {batch_size} is too large for a text of {tokens:,} tokens; "
                          f"give at most {max(tokens // 2, 1)}, or more text")
    return batch_size
