"""Examples as arrays: the steps of all of them one after the other, dealt out in padded batches.

An example is one row, or several: the sentences or windows of a long document (`counts` says how many). What belongs to a step
(its id, its word's spelling, its tag, its values) is a flat array; a batch takes the places of its rows from each. Spellings
are kept once for each different word. Where a word is several steps, what belongs to words is apart (`words`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from seqloom.runtime.declarations import Examples

PADDING = 0  # of characters


@dataclass(frozen=True)
class Spellings:
    """Characters of different words as ids (U, L) int32, filled up with `PADDING`, and how many each has (U,)."""

    ids: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, words: Sequence[str], known: Mapping[str, int], longest: int) -> Spellings:
        """`known` characters have a number above one; others have one. Of a very long word the beginning is read."""
        cut = [word[:longest] for word in words]
        lengths = np.fromiter(map(len, cut), np.int64, len(cut))
        ids = np.full((len(cut), max(int(lengths.max(initial=0)), 1)), PADDING, np.int32)
        places = np.arange(ids.shape[1]) < lengths[:, None]
        ids[places] = [known.get(char, 1) for word in cut for char in word]
        return cls(ids, lengths)


@dataclass(frozen=True)
class Encoded:
    """`steps`: named arrays with a row for each step; `borders` (R + 1,) of the rows in them."""

    steps: dict[str, np.ndarray]
    borders: np.ndarray
    spellings: Spellings | None = None  # of which `words`, one of the steps' arrays, has the place
    counts: np.ndarray | None = None  # (E,): rows of each example; None: one each
    words: Encoded | None = (
        None  # with a row for each example and a step for each word: `rows` and `places` of its first step
    )
    first_row: np.ndarray = field(init=False)  # (E + 1,)

    def __post_init__(self) -> None:
        rows = (
            np.arange(len(self.borders))
            if self.counts is None
            else np.concatenate([[0], np.cumsum(self.counts)])
        )
        object.__setattr__(self, "first_row", rows)

    def __len__(self) -> int:
        return len(self.first_row) - 1

    @property
    def lengths(self) -> np.ndarray:
        """Steps of each example."""
        return np.diff(self.borders[self.first_row])

    def part(self, chosen: np.ndarray) -> Encoded:
        """Return some of the examples in the given order, where each is one row.

        >>> some = Encoded({"ids": np.array([1, 2, 3, 4])}, np.array([0, 1, 3, 4])).part(np.array([2, 1]))
        >>> some.steps["ids"].tolist(), some.borders.tolist()
        ([4, 2, 3], [0, 1, 3])
        """
        assert self.counts is None
        assert self.words is None
        lengths = self.borders[chosen + 1] - self.borders[chosen]
        borders = np.concatenate([[0], np.cumsum(lengths)])
        places = np.repeat(self.borders[chosen] - borders[:-1], lengths) + np.arange(borders[-1])
        return Encoded(
            {name: values[places] for name, values in self.steps.items()}, borders, self.spellings
        )

    def batch(self, chosen: np.ndarray) -> dict[str, np.ndarray]:
        """The arrays of a batch of these examples."""
        rows = chosen
        arrays: dict[str, np.ndarray] = {}
        if self.counts is not None:
            arrays["counts"] = self.counts[chosen].astype(np.int64)
            rows = np.concatenate(
                [np.arange(self.first_row[i], self.first_row[i + 1]) for i in chosen.tolist()]
            )
        starts, lengths = self.borders[rows], self.borders[rows + 1] - self.borders[rows]
        steps = np.arange(max(int(lengths.max(initial=0)), 1))
        there = steps < lengths[:, None]
        places = np.where(there, starts[:, None] + steps, 0)
        arrays["lengths"] = lengths.astype(np.int64)
        for name, values in self.steps.items():
            taken = (
                values[places]
                if len(values)
                else np.zeros((*places.shape, *values.shape[1:]), values.dtype)
            )
            taken[~there] = 0
            arrays[name] = taken.astype(np.int64) if taken.dtype.kind in "iu" else taken
        if self.words is not None:
            of_words = self.words.batch(chosen)
            arrays |= {**of_words, "lengths": arrays["lengths"], "word_counts": of_words["lengths"]}
        if self.spellings is not None:
            used, where = np.unique(arrays["words"], return_inverse=True)
            lengths = self.spellings.lengths[used]
            arrays["words"], arrays["spelling_lengths"] = where.reshape(places.shape), lengths
            arrays["spellings"] = self.spellings.ids[
                used, : max(int(lengths.max(initial=0)), 1)
            ].astype(np.int64)
        return arrays

    def examples(self, low: int = 0, high: int | None = None) -> Examples:
        """Return the examples from `low` to `high` as networks without torch read them: without padding."""
        high = len(self) if high is None else high
        first_row = self.first_row[low : high + 1]
        offsets = self.borders[first_row[0] : first_row[-1] + 1]
        begin, end = int(offsets[0]), int(offsets[-1])
        steps = {name: values[begin:end] for name, values in self.steps.items()}
        places = word_offsets = None
        if self.words is not None:
            word_offsets = self.words.borders[low : high + 1]
            of_words = slice(int(word_offsets[0]), int(word_offsets[-1]))
            word_offsets = word_offsets - word_offsets[0]
            example = np.repeat(np.arange(high - low), np.diff(word_offsets))
            rows = first_row[example] + self.words.steps["rows"][of_words]
            places = self.borders[rows] + self.words.steps["places"][of_words] - begin
        return Examples(
            steps, offsets - begin, first_row - first_row[0], self.spellings, places, word_offsets
        )

    def groups(self, most_steps: int = 1 << 11) -> list[tuple[int, int]]:
        """Return neighbouring examples that are read together, from and to; where they are divided depends on them alone."""
        ends, bounds = self.borders[self.first_row], [0]
        for i in range(1, len(self) + 1):
            if i == len(self) or ends[i + 1] - ends[bounds[-1]] > most_steps:
                bounds.append(i)
        return list(pairwise(bounds))

    def buckets(self, most_steps: int = 1 << 13, most_rows: int = 256) -> list[np.ndarray]:
        """All examples in batches of like length, the longest first, each of at most so many steps with its padding."""
        lengths = self.lengths
        order = np.argsort(-lengths, kind="stable")
        groups, at = [], 0
        while at < len(order):
            many = int(np.clip(most_steps // max(int(lengths[order[at]]), 1), 1, most_rows))
            groups.append(order[at : at + many])
            at += many
        return groups


def flat(rows: Sequence[np.ndarray], dtype: type = np.int64) -> tuple[np.ndarray, np.ndarray]:
    """Rows one after the other, and their borders."""
    borders = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    return (np.concatenate(rows) if len(rows) else np.zeros(0, dtype)), borders
