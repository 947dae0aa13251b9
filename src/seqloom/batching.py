"""Sequences of unequal length put together: which of them, where their steps lie, and padding.

A batch is as large as its longest row allows (`like_lengths`, `cut`) where rows are padded, or as
its rows add up to (`runs`) where they lie one after the other. What is padded is padded on the right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

Lengths = Sequence[int] | np.ndarray
Span = tuple[int, int]  # from and to


def longest_first(lengths: Lengths) -> np.ndarray:
    """Return the indices by falling length, equal ones in their order."""
    return np.argsort(-np.asarray(lengths, np.int64), kind="stable")


def like_lengths(
    lengths: Lengths, most: int | None = None, rows: int | None = None
) -> list[np.ndarray]:
    """Return the indices of each batch of like lengths, the longest first; limits as in `cut`.

    >>> [batch.tolist() for batch in like_lengths([2, 5, 1, 2], most=6)]
    [[1], [0, 3, 2]]
    """
    order = longest_first(lengths)
    return [order[low:high] for low, high in cut(np.asarray(lengths)[order], most, rows)]


def cut(lengths: np.ndarray, most: int | None = None, rows: int | None = None) -> list[Span]:
    """Cut neighbours into batches of at most `most` steps with their padding and `rows` rows, but
    of at least one. `lengths` (n,), or (n, sides) of rows whose sides are padded by themselves.
    """
    sides = np.atleast_2d(np.maximum(lengths, 1).T).T
    bounds = [0]
    while (low := bounds[-1]) < len(sides):
        count = len(sides) - low if rows is None else min(rows, len(sides) - low)
        if most is not None:
            count = min(count, max(most // int(sides[low].sum()), 1))
            padded = np.maximum.accumulate(sides[low : low + count]).sum(1) * np.arange(
                1, count + 1
            )
            count = max(int(np.searchsorted(padded, most, side="right")), 1)
        bounds.append(low + count)
    return list(pairwise(bounds))


def runs(sizes: Lengths, most: int) -> list[Span]:
    """Cut neighbours into runs whose sizes add up to at most `most`, or that are a single one.

    >>> runs([3, 1, 9, 2, 2], most=4)
    [(0, 2), (2, 3), (3, 5)]
    """
    ends, bounds = offsets(sizes), [0]
    while (low := bounds[-1]) < len(sizes):
        bounds.append(max(int(np.searchsorted(ends, ends[low] + most, side="right")) - 1, low + 1))
    return list(pairwise(bounds))


def portions(
    items: Iterable[Any], most: int, rows: int, size: Callable[[Any], int] = len
) -> Iterator[list[Any]]:
    """Yield neighbours of a stream: `rows` of them, or fewer as soon as their sizes exceed `most`."""
    group: list[Any] = []
    total = 0
    for item in items:
        group.append(item)
        total += size(item)
        if len(group) == rows or total > most:
            yield group
            group, total = [], 0
    if group:
        yield group


def offsets(lengths: Lengths) -> np.ndarray:
    """Return where rows that lie one after the other begin, and the last one ends: int64 (n + 1,)."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return start, start + 1, ... of each row, one row after the other.

    >>> ranges(np.array([7, 2]), np.array([2, 3])).tolist()
    [7, 8, 2, 3, 4]
    """
    ends = np.cumsum(lengths)
    return np.repeat(starts - ends + lengths, lengths) + np.arange(ends[-1] if len(ends) else 0)


def by_step(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the order of rows whose first steps stand together, then their second ones, ..., by
    falling length, and the offsets (T + 1,) of the steps.
    """
    return longest_first(lengths), offsets(len(lengths) - np.cumsum(np.bincount(lengths))[:-1])


def there(lengths: Lengths, width: int | None = None) -> np.ndarray:
    """Return which steps of padded rows are theirs, bool (n, width), or as wide as the longest."""
    lengths = np.asarray(lengths)
    return np.arange(lengths.max(initial=0) if width is None else width) < lengths[:, None]


def pad_flat(
    flat: np.ndarray, lengths: Lengths, value: float = 0, least: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Pad rows that lie one after the other to (n, T, ...), T at least `least`, and return which
    steps are theirs (n, T).
    """
    mask = there(lengths, max(int(np.max(lengths, initial=0)), least))
    values = np.full((*mask.shape, *flat.shape[1:]), value, flat.dtype)
    values[mask] = flat
    return values, mask


def pad(rows: Sequence[np.ndarray], value: float = 0) -> tuple[np.ndarray, np.ndarray]:
    """Pad rows of unequal length to (n, T, ...), and return which steps are theirs (n, T)."""
    return pad_flat(
        np.concatenate(rows) if len(rows) else np.zeros(0), [len(row) for row in rows], value
    )
