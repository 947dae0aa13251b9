"""What one step of training reads, whatever the task, and examples in random order.

A batch is a function of a cursor, so a resumed run reads on exactly where it was.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol

import numpy as np

from seqloom.errors import DataError

Cursor = tuple[int, int]  # epoch, position in it
_CORRUPTION = 7919  # so that noise does not repeat the numbers by which batches are shuffled


@dataclass(frozen=True)
class Batch:
    """Named arrays, rows first. `targets` is among them; `mask` and `weights` are as long as it, or as its first axes."""

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
        """How many targets there are, each by its weight: what the sum of losses is divided by."""
        shape = self.arrays["targets"].shape
        if self.weights is None:
            return math.prod(shape) if self.mask is None else int(_spread(self.mask, shape).sum())
        weights = _spread(self.weights, shape)
        return float(
            weights.sum() if self.mask is None else weights[_spread(self.mask, shape)].sum()
        )


def _spread(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Values of the first axes, for every target."""
    return np.broadcast_to(values.reshape(values.shape + (1,) * (len(shape) - values.ndim)), shape)


class Batches(Protocol):
    def batch(self, cursor: Cursor) -> Batch: ...

    def length(self, cursor: Cursor) -> int:
        """About how many updates one epoch has."""
        ...

    def share(self, cursor: Cursor) -> float:
        """How much of its epoch is done."""
        ...


class Examples:
    """Examples of any kind in a new random order in each epoch; those of like length stand together."""

    def __init__(
        self,
        lengths: Sequence[int] | np.ndarray,
        collate: Callable[[np.ndarray], Batch],
        *,
        batch_size: int = 32,
        most_steps: int | None = None,
        seed: int = 0,
    ) -> None:
        """`lengths` of the examples; `collate` makes a batch of the examples with these numbers. `most_steps`: of a batch with
        its padding; where examples are long, there are fewer of them in it."""
        self.lengths, self.collate, self.batch_size, self.seed = (
            np.asarray(lengths),
            collate,
            batch_size,
            seed,
        )
        if not len(self.lengths):
            raise DataError("there are no examples to learn from")
        self.borders = self._cut(most_steps)
        self._epoch: tuple[int, list[np.ndarray]] | None = None

    def _cut(self, most_steps: int | None) -> list[int]:
        """Where batches begin among the examples by length, the longest first."""
        lengths, borders = np.sort(self.lengths)[::-1], [0]
        while borders[-1] < len(lengths):
            longest = max(int(lengths[borders[-1]]), 1)
            many = (
                self.batch_size
                if most_steps is None
                else min(self.batch_size, max(most_steps // longest, 1))
            )
            borders.append(min(borders[-1] + many, len(lengths)))
        return borders

    def length(self, cursor: Cursor) -> int:
        return len(self.borders) - 1

    def share(self, cursor: Cursor) -> float:
        return cursor[1] / self.length(cursor)

    def batch(self, cursor: Cursor) -> Batch:
        epoch, number = cursor
        groups = self._groups(epoch)
        end = number + 1 == len(groups)
        return replace(
            self.collate(groups[number]), following=(epoch + 1, 0) if end else (epoch, number + 1)
        )

    def _groups(self, epoch: int) -> list[np.ndarray]:
        if self._epoch is None or self._epoch[0] != epoch:
            rng = np.random.default_rng([self.seed, epoch])
            order = rng.permutation(len(self.lengths))
            order = order[np.argsort(-self.lengths[order], kind="stable")]
            groups = [order[low:high] for low, high in pairwise(self.borders)]
            self._epoch = epoch, [groups[i] for i in rng.permutation(len(groups))]
        return self._epoch[1]


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


def padded(rows: Sequence[np.ndarray], fill: float = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of unequal length side by side (B, T, ...), filled up on the right, and which places are theirs (B, T)."""
    longest = max(map(len, rows))
    first = np.asarray(rows[0])
    values, mask = (
        np.full((len(rows), longest, *first.shape[1:]), fill, first.dtype),
        np.zeros((len(rows), longest), bool),
    )
    for i, row in enumerate(rows):
        values[i, : len(row)], mask[i, : len(row)] = row, True
    return values, mask
