"""Batches of one training step, whatever the task: examples in random order (`Examples`), and windows
of a text (`Carried`, `Shuffled`, `Separate`).

A batch is a function of a cursor, so a resumed run continues exactly where it was. A part of it has
every k-th row, for processes that share an update. In windows of a text the `inputs` (B, T) are the
`targets` (B, T) shifted by one; before the first token is `</s>`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from seqloom.batching import cut, like_lengths, longest_first, ranges
from seqloom.errors import ConfigError, DataError
from seqloom.metrics.language import unit_lengths

Cursor = tuple[int, int]  # epoch, position in it
Part = tuple[int, int]  # rows of a batch: the first, and every how many
WHOLE: Part = (0, 1)
_CORRUPTION = 7919  # in the seed, so that noise does not repeat the random numbers of shuffling


@dataclass(frozen=True)
class Batch:
    """Named arrays, rows first. `targets` is among them; `mask` and `weights` have its shape, or that of
    its first axes.
    """

    arrays: dict[str, np.ndarray]
    following: Cursor = (0, 0)
    mask: np.ndarray | None = None  # bool: which targets are not padding; None: all
    weights: np.ndarray | None = None  # of the targets; None: one
    # a carried state is reset; else the rows continue the first rows of the batch before
    fresh: bool = True

    def __getitem__(self, name: str) -> np.ndarray:
        return self.arrays[name]

    @property
    def rows(self) -> int:
        return len(self.arrays["targets"])

    @property
    def count(self) -> float:
        """Return the number of targets, each by its weight: the divisor of the sum of losses."""
        shape = self.arrays["targets"].shape
        if self.weights is None:
            return math.prod(shape) if self.mask is None else int(_spread(self.mask, shape).sum())
        weights = _spread(self.weights, shape)
        return float(
            weights.sum() if self.mask is None else weights[_spread(self.mask, shape)].sum()
        )


def _spread(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Broadcast values of the first axes to every target."""
    return np.broadcast_to(values.reshape(values.shape + (1,) * (len(shape) - values.ndim)), shape)


def taken(rows: np.ndarray, part: Part) -> np.ndarray:
    """Return the rows of a part."""
    first, step = part
    return rows[first::step]


def _nothing(following: Cursor, fresh: bool = True) -> Batch:
    """Return a part without rows, of a batch that has fewer rows than parts."""
    return Batch({"targets": np.zeros((0, 1), np.int64)}, following, fresh=fresh)


class Batches(Protocol):
    def batch(self, cursor: Cursor, part: Part = WHOLE) -> Batch:
        """Return the batch there, or a part of it. What a row holds does not depend on the part."""
        ...

    def length(self, cursor: Cursor) -> int:
        """Return about the number of batches of one epoch."""
        ...

    def share(self, cursor: Cursor) -> float:
        """Return the share of the epoch that is done."""
        ...


class Examples:
    """Examples of any kind in a new random order in each epoch, batched by similar length."""

    def __init__(
        self,
        lengths: Sequence[int] | np.ndarray,
        collate: Callable[[np.ndarray], Batch],
        *,
        batch_size: int | None = 32,
        most_steps: int | None = None,
        seed: int = 0,
    ) -> None:
        """Make batches of examples of these `lengths`; `collate` makes a batch of the examples with the
        given indices. `most_steps`: of a batch with its padding, so that it has fewer long examples.
        """
        self.lengths, self.collate, self.seed = np.asarray(lengths), collate, seed
        self.most = most_steps, batch_size
        if not len(self.lengths):
            raise DataError("there are no examples to learn from")
        self._epoch: tuple[int, list[np.ndarray]] | None = None

    def length(self, cursor: Cursor) -> int:
        return len(self.groups(cursor[0]))

    def share(self, cursor: Cursor) -> float:
        return cursor[1] / self.length(cursor)

    def batch(self, cursor: Cursor, part: Part = WHOLE) -> Batch:
        epoch, number = cursor
        groups = self.groups(epoch)
        end = number + 1 == len(groups)
        following = (epoch + 1, 0) if end else (epoch, number + 1)
        chosen = taken(groups[number], part)
        return (
            replace(self.collate(chosen), following=following)
            if len(chosen)
            else _nothing(following)
        )

    def groups(self, epoch: int) -> list[np.ndarray]:
        """Return the indices of the examples in each batch of an epoch."""
        if self._epoch is None or self._epoch[0] != epoch:
            rng = np.random.default_rng([self.seed, epoch])
            groups = self.deal(rng)
            self._epoch = epoch, [groups[i] for i in rng.permutation(len(groups))]
        return self._epoch[1]

    def deal(self, rng: np.random.Generator) -> list[np.ndarray]:
        """Return the batches of an epoch, which are then read in random order."""
        order = rng.permutation(len(self.lengths))
        return [order[group] for group in like_lengths(self.lengths[order], *self.most)]


class Corrupted:
    """Batches that are changed before the network sees them: noise, masks, words left out.

    `corrupt(batch, rng)` returns the changed batch. Its random numbers depend on the seed, the cursor and the
    part, so they differ between epochs, and a resumed run draws the same ones again.
    """

    def __init__(
        self,
        batches: Batches,
        corrupt: Callable[[Batch, np.random.Generator], Batch],
        *,
        seed: int = 0,
    ) -> None:
        self.batches, self.corrupt, self.seed = batches, corrupt, seed

    def length(self, cursor: Cursor) -> int:
        return self.batches.length(cursor)

    def share(self, cursor: Cursor) -> float:
        return self.batches.share(cursor)

    def batch(self, cursor: Cursor, part: Part = WHOLE) -> Batch:
        original = self.batches.batch(cursor, part)
        if not original.rows:
            return original
        key = [_CORRUPTION, self.seed, *cursor, *(part if part != WHOLE else ())]
        changed = self.corrupt(original, np.random.default_rng(key))
        return replace(changed, following=original.following, fresh=original.fresh)


# ---- windows

# of a batch by default: many small steps learn faster than few large ones
DEFAULT_TOKENS, FEWEST_ROWS = 1024, 8


class Carried:
    """The text in `batch_size` long rows that are read in parallel, window by window, with the state
    carried on: truncated back-propagation through time. Units follow one another.
    """

    def __init__(
        self,
        ids: np.ndarray,
        eos_id: int,
        *,
        batch_size: int | None,
        truncation: int,
        vary: bool = False,
        seed: int = 0,
    ) -> None:
        self.ids, self.eos_id, self.vary, self.seed = ids, eos_id, vary, seed
        self.rows = _rows(batch_size, len(ids), truncation)
        self.columns = len(ids) // self.rows
        self.tokens = self.rows * self.columns
        self.truncation = min(truncation, self.columns)
        self.starts = np.arange(self.rows) * self.columns

    def length(self, cursor: Cursor) -> int:
        return -(-self.columns // self.truncation)

    def share(self, cursor: Cursor) -> float:
        return cursor[1] / self.columns

    def batch(self, cursor: Cursor, part: Part = WHOLE) -> Batch:
        epoch, at = cursor
        size = min(self._size(epoch, at), self.columns - at)
        starts = taken(self.starts, part)
        indices = starts[:, None] + np.arange(at, at + size)
        targets = self.ids[indices].astype(np.int64)
        inputs = np.empty_like(targets)
        inputs[:, 1:] = targets[:, :-1]
        inputs[:, 0] = self.eos_id if at == 0 else self.ids[starts + at - 1]
        end = at + size >= self.columns
        return Batch(
            {"inputs": inputs, "targets": targets},
            (epoch + 1, 0) if end else (epoch, at + size),
            fresh=at == 0,
        )

    def _size(self, epoch: int, at: int) -> int:
        return (
            _varied(self.truncation, np.random.default_rng([self.seed, epoch, at]))
            if self.vary
            else self.truncation
        )


class Shuffled:
    """Windows of the text in a new random order in each epoch, for networks without a state. Units
    follow one another.
    """

    def __init__(
        self,
        ids: np.ndarray,
        eos_id: int,
        *,
        batch_size: int | None,
        window: int,
        before: int = 0,
        start_id: int | None = None,
        seed: int = 0,
    ) -> None:
        """Split a text into windows. `before`: number of tokens before a window that the network also
        sees but is not trained on; `start_id`: the token before the first one, if not `</s>`.
        """
        self.ids, self.before, self.seed = ids, before, seed
        self.start_id = eos_id if start_id is None else start_id
        self.window = min(window, len(ids))
        self.rows = _rows(batch_size, len(ids), self.window)
        self.tokens = len(ids)
        self._order: tuple[int, np.ndarray] | None = None

    def length(self, cursor: Cursor) -> int:
        return -(-len(self._starts(cursor[0])) // self.rows)

    def share(self, cursor: Cursor) -> float:
        return cursor[1] / len(self._starts(cursor[0]))

    def batch(self, cursor: Cursor, part: Part = WHOLE) -> Batch:
        epoch, at = cursor
        starts = self._starts(epoch)
        chosen = taken(starts[at : at + self.rows], part)
        targets = self.ids[chosen[:, None] + np.arange(self.window)].astype(np.int64)
        indices = chosen[:, None] + np.arange(-1 - self.before, self.window - 1)
        inputs = np.where(indices >= 0, self.ids[np.maximum(indices, 0)], self.start_id).astype(
            np.int64
        )
        end = at + self.rows >= len(starts)
        return Batch(
            {"inputs": inputs, "targets": targets},
            (epoch + 1, 0) if end else (epoch, at + self.rows),
        )

    def _starts(self, epoch: int) -> np.ndarray:
        if self._order is None or self._order[0] != epoch:
            rng = np.random.default_rng([self.seed, epoch])
            slack = len(self.ids) - self.window
            offset = int(rng.integers(min(self.window, slack + 1)))
            starts = np.arange(offset, slack + 1, self.window)
            self._order = epoch, rng.permutation(starts)
        return self._order[1]


class Separate:
    """Units one by one, as they are scored where nothing is carried: units of similar length are read
    in parallel, padded on the right, and a row ends with its unit, so neither state nor gradient nor
    attention crosses a `</s>`.
    """

    def __init__(
        self,
        ids: np.ndarray,
        eos_id: int,
        *,
        batch_size: int | None,
        window: int,
        before: int = 0,
        carried: bool = False,
        vary: bool = False,
        start_id: int | None = None,
        seed: int = 0,
    ) -> None:
        """Split units into windows. `carried`: the state is carried on between the windows of a unit.
        `start_id`: the token before the first one of a unit, if not `</s>`.

        A unit longer than a row of `Carried` would be is cut like one, or it would be in a batch alone.
        """
        self.ids, self.eos_id, self.before, self.vary, self.seed = ids, eos_id, before, vary, seed
        self.start_id = eos_id if start_id is None else start_id
        self.window, self.carried, self.batch_size, self.tokens = (
            min(window, len(ids)),
            carried,
            batch_size,
            len(ids),
        )
        self.rows = _rows(batch_size, len(ids), self.window)
        self.longest = max(len(ids) // self.rows, self.window) if carried else self.window
        self.lengths = unit_lengths(ids, eos_id)
        self._epoch: tuple[int, _Epoch] | None = None

    def length(self, cursor: Cursor) -> int:
        return len(self._layout(cursor[0]).steps)

    def share(self, cursor: Cursor) -> float:
        return cursor[1] / self.length(cursor)

    def batch(self, cursor: Cursor, part: Part = WHOLE) -> Batch:
        epoch, number = cursor
        layout = self._layout(epoch)
        following = (epoch + 1, 0) if number + 1 == len(layout.steps) else (epoch, number + 1)
        group, at, size = layout.steps[number]
        group = taken(group, part)  # before rows end, so that a row stays in its part
        group = group[layout.ends[group] - layout.starts[group] > at]
        if not len(group):
            return _nothing(following, fresh=at == 0)
        first, end, unit = (
            layout.starts[group][:, None] + at,
            layout.ends[group][:, None],
            layout.units[group][:, None],
        )
        indices = first + np.arange(min(size, int((end - first).max())))  # (B, T)
        mask = indices < end
        input_indices = first + np.arange(-1 - self.before, indices.shape[1] - 1)  # (B, before + T)
        inputs = np.where(
            input_indices < end, self.ids[input_indices.clip(0, len(self.ids) - 1)], self.eos_id
        )
        inputs = np.where(input_indices < unit, self.start_id, inputs)
        targets = np.where(mask, self.ids[indices.clip(max=len(self.ids) - 1)], self.eos_id)
        arrays = {"inputs": inputs.astype(np.int64), "targets": targets.astype(np.int64)}
        return Batch(arrays, following, mask=None if mask.all() else mask, fresh=at == 0)

    def _layout(self, epoch: int) -> _Epoch:
        if self._epoch is None or self._epoch[0] != epoch:
            self._epoch = epoch, self._lay_out(np.random.default_rng([self.seed, epoch]))
        return self._epoch[1]

    def _lay_out(self, rng: np.random.Generator) -> _Epoch:
        # Without a carried state, long units are cut at different positions in each epoch.
        shift = np.where(
            self.lengths > self.longest, 0 if self.carried else rng.integers(self.longest), 0
        )
        pieces = -(-(self.lengths + shift) // self.longest)
        owners = np.repeat(np.arange(len(pieces)), pieces)  # the unit of each piece
        piece = ranges(np.zeros_like(pieces), pieces)
        unit_starts = (np.cumsum(self.lengths) - self.lengths)[owners]
        starts = unit_starts + np.maximum(piece * self.longest - shift[owners], 0)
        ends = unit_starts + np.minimum(
            (piece + 1) * self.longest - shift[owners], self.lengths[owners]
        )
        order = rng.permutation(len(owners))
        order = order[longest_first((ends - starts)[order])]  # those of one length in random order
        together = None if self.batch_size else self.rows * self.window  # tokens of a window
        widths = np.minimum(ends - starts, self.window)[order]
        cuts = cut(widths, together, self.batch_size)
        steps = []
        for chosen in rng.permutation(len(cuts)):
            group = order[slice(*cuts[chosen])]
            size = _varied(self.window, rng) if self.vary else self.window
            steps += [
                (group, at, size) for at in range(0, int(ends[group[0]] - starts[group[0]]), size)
            ]
        return _Epoch(starts, ends, unit_starts, steps)


class _Epoch(NamedTuple):
    """Pieces of units (or whole ones), and the batches of an epoch."""

    starts: np.ndarray
    ends: np.ndarray
    units: np.ndarray  # start of each piece's unit
    steps: list[tuple[np.ndarray, int, int]]  # pieces of a batch, offset in them, number of tokens


def _varied(truncation: int, rng: np.random.Generator) -> int:
    """Sample a length around the truncation, or with probability 0.05 around half of it (Merity et al.
    2018, section 4.1).
    """
    base = truncation if rng.random() < 0.95 else truncation / 2
    return max(1, round(rng.normal(base, truncation / 14)))


def _rows(batch_size: int | None, tokens: int, window: int) -> int:
    """Return the given number of rows, or a default, which is lower for a small text."""
    if batch_size is None:
        return int(np.clip(tokens // (2 * window), 1, max(DEFAULT_TOKENS // window, FEWEST_ROWS)))
    if batch_size > tokens // 2:
        raise ConfigError(
            f"batch_size {batch_size} is too large for a text of {tokens:,} tokens; "
            f"give at most {max(tokens // 2, 1)}, or more text"
        )
    return batch_size
