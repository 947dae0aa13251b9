"""IBM model 1: which words translate which, learned from pairs of sentences by EM.

Brown et al. 1993, "The Mathematics of Statistical Machine Translation", section 4.1: each target word is the translation of one
word of the source, any of them alike, or of the empty word, which every source has; t(f | e) are the only parameters. The
likelihood has one maximum (apart from ties), so it matters not where EM begins: all words that met are alike at first.

    >>> table = learn_table(Words.of([[1, 2, 0], [1, 3, 0]]), Words.of([[1, 2], [1, 3]]), 4, 4, iterations=50)[0]
    >>> round(float(table.probabilities(np.array([2]), np.array([2]))[0, 0]), 2)
    1.0
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from seqloom import progress

PAIRS = 1 << 21  # of words that are looked at together
KEPT = 1 << 27  # of words whose places are kept, four bytes each


@dataclass(frozen=True, eq=False)
class Words:
    """The words of many sentences behind one another, and where each sentence ends."""

    ids: np.ndarray  # int64 (N,)
    ends: np.ndarray  # int64 (n,)

    @classmethod
    def of(cls, sentences: Sequence[Sequence[int]]) -> Words:
        ends = np.cumsum([len(sentence) for sentence in sentences], dtype=np.int64)
        return cls(np.array([word for sentence in sentences for word in sentence], np.int64), ends)

    @property
    def starts(self) -> np.ndarray:
        return np.concatenate([[0], self.ends[:-1]])

    @property
    def lengths(self) -> np.ndarray:
        return self.ends - self.starts


@dataclass(frozen=True, eq=False)
class LexicalTable:
    """t(f | e) of the target words that met a source word; all others have probability zero."""

    starts: np.ndarray  # int64 (E + 1,): where the target words of each source word begin
    words: np.ndarray  # int32 (M,): target words, rising within a source word
    probs: np.ndarray  # float32 (M,)
    n_targets: int

    @cached_property
    def keys(self) -> np.ndarray:
        """Source and target word of each entry in one number, rising: int64 (M,)."""
        rows = np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))
        return rows * self.n_targets + self.words

    def probabilities(self, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """t of each target word given each source word: float64 (T, S)."""
        wanted = sources[None, :] * self.n_targets + targets[:, None]
        places = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        return np.where(self.keys[places] == wanted, self.probs[places], 0.0).astype(np.float64)

    def translations(self, source: int) -> tuple[np.ndarray, np.ndarray]:
        """The target words of a source word and their probabilities."""
        low, high = self.starts[source], self.starts[source + 1]
        return self.words[low:high], self.probs[low:high]

    def knows(self, sources: np.ndarray) -> np.ndarray:
        """Which source words have translations."""
        return self.starts[sources + 1] > self.starts[sources]

    def without_rare(self, least: float) -> LexicalTable:
        """Without translations that are less probable, but for the best of each word; the others share what they had."""
        rows, n_rows = (
            np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts)),
            len(self.starts) - 1,
        )
        best = np.zeros(n_rows, self.probs.dtype)
        np.maximum.at(best, rows, self.probs)
        kept = (self.probs >= least) | (self.probs == best[rows])
        rows, probs = rows[kept], self.probs[kept].astype(np.float64)
        probs /= np.bincount(rows, probs, n_rows)[rows]
        starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n_rows))])
        return LexicalTable(starts, self.words[kept], probs.astype(np.float32), self.n_targets)


def learn_table(
    sources: Words, targets: Words, n_sources: int, n_targets: int, *, iterations: int
) -> tuple[LexicalTable, list[float]]:
    """The table after so many iterations, and the log-likelihood before each; the empty word is among the words of each
    source."""
    from seqloom.kernels.alignment import expected_counts

    keys = _met(sources, targets, n_targets)
    rows, words = keys // n_targets, (keys % n_targets).astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n_sources))])
    probs, likelihoods = 1.0 / np.diff(starts)[rows], []
    places = _Places(sources, targets, starts, words)
    with progress.task("learning translations of words", iterations, "iterations") as bar:
        for _ in range(iterations):
            counts = np.zeros(len(keys))
            likelihoods.append(
                sum(
                    float(
                        expected_counts(
                            sources.ends, targets.ends, first, last, some, probs, counts
                        )
                    )
                    for first, last, some in places
                )
            )
            probs = counts / np.bincount(rows, counts, n_sources)[rows]
            bar.advance()
    return LexicalTable(starts, words, probs.astype(np.float32), n_targets), likelihoods


class _Places:
    """Blocks of pairs, and the places of their words in the table: kept, or found again each time where they are many."""

    def __init__(
        self, sources: Words, targets: Words, starts: np.ndarray, words: np.ndarray
    ) -> None:
        self.sources, self.targets, self.starts, self.words = sources, targets, starts, words
        self.sizes = sources.lengths * targets.lengths
        self.blocks = _blocks(self.sizes)
        self.kept = (
            [self._find(*block) for block in self.blocks] if self.sizes.sum() <= KEPT else None
        )

    def __iter__(self) -> Iterator[tuple[int, int, np.ndarray]]:
        for number, (first, last) in enumerate(self.blocks):
            yield first, last, self._find(first, last) if self.kept is None else self.kept[number]

    def _find(self, first: int, last: int) -> np.ndarray:
        from seqloom.kernels.alignment import find_places

        places = np.empty(self.sizes[first:last].sum(), np.int32)
        find_places(
            self.sources.ids,
            self.sources.ends,
            self.targets.ids,
            self.targets.ends,
            first,
            last,
            self.starts,
            self.words,
            places,
        )
        return places


def _blocks(sizes: np.ndarray) -> list[tuple[int, int]]:
    """From where to where go pairs that have about so many pairs of words together."""
    cuts = np.flatnonzero(np.diff(np.cumsum(sizes) // PAIRS)) + 1
    return list(pairwise([0, *cuts.tolist(), len(sizes)]))


def _met(sources: Words, targets: Words, n_targets: int) -> np.ndarray:
    """Source and target word, in one number, of all that are in one pair: rising."""
    found = np.zeros(0, np.int64)
    for first, last in _blocks(sources.lengths * targets.lengths):
        pair = np.repeat(np.arange(first, last), targets.lengths[first:last])  # of each target word
        many = sources.lengths[pair]
        at = (
            np.arange(many.sum())
            - np.repeat(np.cumsum(many) - many, many)
            + np.repeat(sources.starts[pair], many)
        )
        theirs = np.repeat(targets.ids[targets.starts[first] : targets.ends[last - 1]], many)
        found = _distinct(np.concatenate([found, _distinct(sources.ids[at] * n_targets + theirs)]))
    return found


def _distinct(keys: np.ndarray) -> np.ndarray:
    """Each once, rising; sorting is several times faster here than NumPy's hashing."""
    keys = np.sort(keys)
    return keys[np.diff(keys, prepend=-1) != 0]
