"""What one step of training reads, whatever the task, and examples in random order.

A batch is a function of a cursor, so a resumed run reads on exactly where it was.

Token ids in windows. A batch is a function of a cursor, so a resumed run reads on exactly where it was.

`Carried` lays the text out in `batch_size` long rows that are read side by side, window by window,
with the state carried on: truncated back-propagation through time. `Shuffled` reads windows in a
new random order in each epoch, for networks without a state. In both a unit follows the one before.
`Separate` begins each unit afresh, as it is scored where nothing is carried: units of like length
stand side by side, padded on the right, and a row leaves when its unit ends, so neither state nor
gradient nor sight crosses a `</s>`. `inputs` (B, T) are the `targets` (B, T) moved by one; before
the first token stands `</s>`.
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
_CORRUPTION = 7919  # so that noise does not repeat the numbers by which batches are shuffled


@dataclass(frozen=True)
class Batch:
    """Named arrays, rows first. `targets` is among them; `mask` and `weights` are as long as it, or
    as its first axes.
    """

    arrays: dict[str, np.ndarray]
    following: Cursor = (0, 0)
    mask: np.ndarray | None = None  # bool: which targets are there; None: all
    weights: np.ndarray | None = None  # how much each target counts; None: one
    fresh: bool = (
        True  # a carried state begins anew; else the rows are the first ones of the batch before
    )

    def __getitem__(self, name: str) -> np.ndarray:
        return self.arrays[name]

    @property
    def rows(self) -> int:
        return len(self.arrays["targets"])

    @property
    def count(self) -> float:
        """Return how many targets there are, each by its weight: what the sum of losses is divided by."""
        shape = self.arrays["targets"].shape
        if self.weights is None:
            return math.prod(shape) if self.mask is None else int(_spread(self.mask, shape).sum())
        weights = _spread(self.weights, shape)
        return float(
            weights.sum() if self.mask is None else weights[_spread(self.mask, shape)].sum()
        )


def _spread(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Spread values of the first axes over every target."""
    return np.broadcast_to(values.reshape(values.shape + (1,) * (len(shape) - values.ndim)), shape)


class Batches(Protocol):
    def batch(self, cursor: Cursor) -> Batch: ...

    def length(self, cursor: Cursor) -> int:
        """Return about how many updates one epoch has."""
        ...

    def share(self, cursor: Cursor) -> float:
        """Return how much of its epoch is done."""
        ...


class Examples:
    """Examples of any kind in a new random order in each epoch; those of like length stand together."""

    def __init__(
        self,
        lengths: Sequence[int] | np.ndarray,
        collate: Callable[[np.ndarray], Batch],
        *,
        batch_size: int | None = 32,
        most_steps: int | None = None,
        seed: int = 0,
    ) -> None:
        """Make batches of examples of these `lengths`; `collate` makes a batch of the examples with
        these numbers. `most_steps`: of a batch with its padding; where examples are long, there are
        fewer of them in it.
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

    def batch(self, cursor: Cursor) -> Batch:
        epoch, number = cursor
        groups = self.groups(epoch)
        end = number + 1 == len(groups)
        return replace(
            self.collate(groups[number]), following=(epoch + 1, 0) if end else (epoch, number + 1)
        )

    def groups(self, epoch: int) -> list[np.ndarray]:
        """Return the numbers of the examples in each batch."""
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

    `corrupt(batch, rng)` returns the changed batch. Its random numbers are made from the seed and the cursor,
    so they are others in each epoch, and a resumed run draws the same ones again.
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

    def batch(self, cursor: Cursor) -> Batch:
        made = self.batches.batch(cursor)
        changed = self.corrupt(made, np.random.default_rng([_CORRUPTION, self.seed, *cursor]))
        return replace(changed, following=made.following, fresh=made.fresh)


# ---- windows

DEFAULT_TOKENS, FEWEST_ROWS = (
    1024,
    8,
)  # of a batch by default: many small steps learn faster than few large ones


class Carried:
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

    def batch(self, cursor: Cursor) -> Batch:
        epoch, at = cursor
        size = min(self._size(epoch, at), self.columns - at)
        places = self.starts[:, None] + np.arange(at, at + size)
        targets = self.ids[places].astype(np.int64)
        inputs = np.empty_like(targets)
        inputs[:, 1:] = targets[:, :-1]
        inputs[:, 0] = self.eos_id if at == 0 else self.ids[self.starts + at - 1]
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
        """Split a text into windows. `before`: how many tokens the network also sees in front of a
        window without being trained on them; `start_id`: what stands before the first token, if not
        `</s>`.
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

    def batch(self, cursor: Cursor) -> Batch:
        epoch, at = cursor
        starts = self._starts(epoch)
        chosen = starts[at : at + self.rows]
        targets = self.ids[chosen[:, None] + np.arange(self.window)].astype(np.int64)
        places = chosen[:, None] + np.arange(-1 - self.before, self.window - 1)
        inputs = np.where(places >= 0, self.ids[np.maximum(places, 0)], self.start_id).astype(
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
        """Split units into windows. `carried`: a unit of several windows is read on with its state;
        else each window is by itself. `start_id`: what stands before the first token of a unit, if
        not `</s>`.

        A unit that is longer than a row of `Carried` would be is cut like one, or it would be read all alone.
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

    def batch(self, cursor: Cursor) -> Batch:
        epoch, number = cursor
        layout = self._layout(epoch)
        group, at, size = layout.steps[number]
        group = group[layout.ends[group] - layout.starts[group] > at]
        first, end, unit = (
            layout.starts[group][:, None] + at,
            layout.ends[group][:, None],
            layout.units[group][:, None],
        )
        places = first + np.arange(min(size, int((end - first).max())))  # (B, T)
        mask = places < end
        seen = first + np.arange(-1 - self.before, places.shape[1] - 1)  # (B, before + T)
        inputs = np.where(seen < end, self.ids[seen.clip(0, len(self.ids) - 1)], self.eos_id)
        inputs = np.where(seen < unit, self.start_id, inputs)
        targets = np.where(mask, self.ids[places.clip(max=len(self.ids) - 1)], self.eos_id)
        following = (epoch + 1, 0) if number + 1 == len(layout.steps) else (epoch, number + 1)
        arrays = {"inputs": inputs.astype(np.int64), "targets": targets.astype(np.int64)}
        return Batch(arrays, following, mask=None if mask.all() else mask, fresh=at == 0)

    def _layout(self, epoch: int) -> _Epoch:
        if self._epoch is None or self._epoch[0] != epoch:
            self._epoch = epoch, self._lay_out(np.random.default_rng([self.seed, epoch]))
        return self._epoch[1]

    def _lay_out(self, rng: np.random.Generator) -> _Epoch:
        # Long units are cut at other places in each epoch where a window is all that the network sees.
        shift = np.where(
            self.lengths > self.longest, 0 if self.carried else rng.integers(self.longest), 0
        )
        pieces = -(-(self.lengths + shift) // self.longest)
        of = np.repeat(np.arange(len(pieces)), pieces)  # the unit of each piece
        number = ranges(np.zeros_like(pieces), pieces)
        low = (np.cumsum(self.lengths) - self.lengths)[of]
        starts = low + np.maximum(number * self.longest - shift[of], 0)
        ends = low + np.minimum((number + 1) * self.longest - shift[of], self.lengths[of])
        order = rng.permutation(len(of))
        order = order[longest_first((ends - starts)[order])]  # like ones in random order
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
        return _Epoch(starts, ends, low, steps)


class _Epoch(NamedTuple):
    """Units or pieces of them, and in which batches they are read: which, from where in them, how
    many tokens.
    """

    starts: np.ndarray
    ends: np.ndarray
    units: np.ndarray  # where the unit of each begins
    steps: list[tuple[np.ndarray, int, int]]


def _varied(truncation: int, rng: np.random.Generator) -> int:
    """Sample a length, mostly about the truncation, now and then half of it (Merity et al. 2018,
    section 4.1).
    """
    base = truncation if rng.random() < 0.95 else truncation / 2
    return max(1, round(rng.normal(base, truncation / 14)))


def _rows(batch_size: int | None, tokens: int, window: int) -> int:
    """Return as many rows as were asked for, or fewer for a small text."""
    if batch_size is None:
        return int(np.clip(tokens // (2 * window), 1, max(DEFAULT_TOKENS // window, FEWEST_ROWS)))
    if batch_size > tokens // 2:
        raise ConfigError(
            f"batch_size {batch_size} is too large for a text of {tokens:,} tokens; "
            f"give at most {max(tokens // 2, 1)}, or more text"
        )
    return batch_size
