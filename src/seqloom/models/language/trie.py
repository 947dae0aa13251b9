"""An n-gram model as arrays: a back-off trie in level order (see kernels/ngram_query for its layout).

It scores, steps and gives distributions of ids. `estimation` builds it from counts, `from_levels` from
n-grams with probabilities, as in an ARPA file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from seqloom.arrays import Length, Spec
from seqloom.errors import DataError, ModelError

SCORE_CHUNK = 1 << 17
INDEX_FROM = 1 << 14  # tokens scored at a time, from which on building an index pays off
_NO_NODES, _NO_INDEX = np.empty(0, np.uint32), np.empty(0, np.uint64)
Tables = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, bool]


@dataclass(frozen=True)
class Trie:
    words: np.ndarray  # uint32 (nodes): last word of each n-gram
    # uint32 (inner nodes + 1, 4): first child, back-off weight, link, log-probability
    contexts: np.ndarray
    leaves: np.ndarray  # uint32 (n-grams of the highest order, 2): log-probability, link
    # int64 (order + 2): first node of each level, level 0 being the empty context
    level_starts: np.ndarray
    chained: bool  # an unseen word backs off to the lower order

    @classmethod
    def pack(
        cls,
        words: np.ndarray,
        log_probs: np.ndarray,
        links: np.ndarray,
        first: np.ndarray,
        backoffs: np.ndarray,
        level_starts: np.ndarray,
        chained: bool,
    ) -> Trie:
        """Make a trie from one array for each property, over all nodes or, for `first` and `backoffs`,
        the inner ones.
        """
        n = len(backoffs)
        trie = cls(
            words,
            np.zeros((n + 1, 4), np.uint32),
            np.zeros((len(words) - n, 2), np.uint32),
            level_starts,
            chained,
        )
        trie.first[:], trie.backoffs[:] = first, backoffs
        trie.inner_links[:], trie.inner_log_probs[:] = links[:n], log_probs[:n]
        trie.leaf_links[:], trie.leaf_log_probs[:] = links[n:], log_probs[n:]
        return trie

    @property
    def order(self) -> int:
        return len(self.level_starts) - 2

    @property
    def vocab_size(self) -> int:
        return int(self.level_starts[2] - self.level_starts[1]) - 1

    @cached_property
    def bos_state(self) -> int:
        bos = self.vocab_size + 1
        live = self.order > 1 and (self.first[bos] < self.first[bos + 1] or self.backoffs[bos] != 0)
        return bos if live else 0

    # Views of single columns; writing to them changes the tables.

    @property
    def first(self) -> np.ndarray:
        return self.contexts[:, 0]

    @property
    def backoffs(self) -> np.ndarray:
        return self.contexts.view(np.float32)[:-1, 1]

    @property
    def inner_links(self) -> np.ndarray:
        return self.contexts[:-1, 2]

    @property
    def inner_log_probs(self) -> np.ndarray:
        return self.contexts.view(np.float32)[:-1, 3]

    @property
    def leaf_log_probs(self) -> np.ndarray:
        return self.leaves.view(np.float32)[:, 0]

    @property
    def leaf_links(self) -> np.ndarray:
        return self.leaves[:, 1]

    @cached_property
    def log_probs(self) -> np.ndarray:
        """Return the log-probabilities of all nodes, as a copy."""
        return np.concatenate([self.inner_log_probs, self.leaf_log_probs])

    @cached_property
    def links(self) -> np.ndarray:
        """Return the links of all nodes, as a copy."""
        return np.concatenate([self.inner_links, self.leaf_links])

    def arrays(self) -> dict[str, np.ndarray]:
        return {
            "words": self.words,
            "contexts": self.contexts,
            "leaves": self.leaves,
            "level_starts": self.level_starts,
        }

    @cached_property
    def tables(self) -> Tables:
        """Return what the query kernels take."""
        return (
            self.words,
            self.contexts,
            self.contexts.view(np.float32),
            self.leaves,
            self.leaves.view(np.float32),
            self.chained,
        )

    @cached_property
    def index(self) -> np.ndarray:
        """Return a hash table (uint64) of the children of contexts that have many; see
        kernels/ngram_query.
        """
        from seqloom.kernels.ngram_query import count_indexed, fill_index

        slots = 2 * count_indexed(self.contexts)
        index = np.full(slots, np.iinfo(np.uint64).max, np.uint64)
        fill_index(self.words, self.contexts, index)
        return index

    def score(self, ids: np.ndarray, eos_id: int) -> np.ndarray:
        """Compute the log-probability (float32) of each id. Each unit ends with `eos_id` and begins in
        the `<s>` state.
        """
        return self._score(ids, eos_id, _NO_NODES)

    def score_with_orders(self, ids: np.ndarray, eos_id: int) -> tuple[np.ndarray, np.ndarray]:
        """Compute the log-probability of each id, and the length of the n-gram that matched (uint8)."""
        nodes = np.empty(len(ids), np.uint32)
        return self._score(ids, eos_id, nodes), self.order_of(nodes)

    def _score(self, ids: np.ndarray, eos_id: int, nodes: np.ndarray) -> np.ndarray:
        ids = np.ascontiguousarray(ids, np.uint32)
        log_probs = np.empty(len(ids), np.float32)
        index = self.index if len(ids) >= INDEX_FROM else self.__dict__.get("index", _NO_INDEX)
        if len(ids) <= SCORE_CHUNK:
            self._score_span(
                index, ids, 0, len(ids), self.order, eos_id, self.bos_state, log_probs, nodes
            )
            return log_probs
        from seqloom.kernels.parallel import chunk_bounds, parallel_run

        def run(span: tuple[int, int]) -> None:
            self._score_span(
                index, ids, *span, self.order, eos_id, self.bos_state, log_probs, nodes
            )

        parallel_run(run, chunk_bounds(len(ids), SCORE_CHUNK))
        return log_probs

    @cached_property
    def _score_span(self) -> Callable[..., None]:
        """Return the kernel with the tables of this model; cached, because importing it and unpacking
        the tables takes longer than scoring a short text.
        """
        from seqloom.kernels.ngram_query import score_span

        return partial(score_span, *self.tables)

    def order_of(self, nodes: np.ndarray) -> np.ndarray:
        return (np.searchsorted(self.level_starts, nodes, side="right") - 1).astype(np.uint8)

    def advance(self, states: np.ndarray, ids: np.ndarray) -> np.ndarray:
        from seqloom.kernels.ngram_query import step_states

        next_states = np.empty(len(states), np.int64)
        step_states(*self.tables, states, np.ascontiguousarray(ids, np.int64), next_states)
        return next_states

    @cached_property
    def _words_sum(self) -> float:
        """Return the sum of the probabilities of the words without a context."""
        log_probs = self.inner_log_probs[1:] if self.order > 1 else self.leaf_log_probs
        return float(np.exp(log_probs[: self.vocab_size].astype(np.float64)).sum())

    def distributions(self, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Compute log-probabilities of every next token, float32 (n, V), and the sum of the
        probabilities of each row (n,).
        """
        from seqloom.kernels.ngram_query import distributions

        log_probs = np.empty((len(states), self.vocab_size), np.float32)
        sums = np.empty(len(states))
        distributions(*self.tables, self.vocab_size, self._words_sum, states, log_probs, sums)
        return log_probs, sums


def specs(order: int, vocab_size: int, length: Length) -> dict[str, Spec]:
    """Return types and shapes of the arrays of a saved trie; `check` checks their contents."""
    return {
        "words": Spec("uint32", (length("words"),), high=vocab_size),
        "contexts": Spec("uint32", (length("contexts"), 4)),
        "leaves": Spec("uint32", (length("leaves"), 2)),
        "level_starts": Spec("int64", (order + 2,), low=0),
    }


def check(trie: Trie, vocab_size: int) -> None:
    """Refuse inconsistent tables, so that no kernel reads outside them or loops forever."""
    starts, total = trie.level_starts, len(trie.words)
    sound = (
        starts[0] == 0
        and starts[1] == 1
        and starts[-1] == total
        and bool((np.diff(starts) >= 0).all())
        and trie.vocab_size == vocab_size
        and len(trie.contexts) - 1 == starts[-2]
        and len(trie.leaves) == total - starts[-2]
        and trie.first[0] == 1
        and trie.first[-1] == total
        and bool((trie.words[1 : vocab_size + 2] == np.arange(vocab_size + 1)).all())
    )
    if sound:
        from seqloom.kernels.ngram_query import check_tables

        sound = check_tables(*trie.tables[:-1], starts)
    if not sound:
        raise ModelError("its tables do not fit each other: the file is damaged")


# ---- explicit

# Word ids (n, k), log-probabilities, back-off weights.
Explicit = tuple[np.ndarray, np.ndarray, np.ndarray]


class Doubled(DataError):
    """An n-gram that is given twice: row `row` of those of order `order`."""

    def __init__(self, order: int, row: int) -> None:
        super().__init__(f"a {order}-gram stands there twice")
        self.order, self.row = order, row


def from_levels(levels: Sequence[Explicit], vocab_size: int) -> Trie:
    """Build a trie; `levels[k - 1]` holds the n-grams of order k in any order; level 1 has every
    word and `<s>` = vocab_size.

    Unlike counted levels, these may lack prefixes (which are added, with the probability of backing
    off) and suffixes (which links skip).
    """
    tables = [_sorted(*level) for level in levels]
    for k in range(len(tables) - 1, 1, -1):
        tables[k - 1] = _with_prefixes(tables[k - 1], tables[k][0])
    if len(tables[0][0]) != vocab_size + 1:
        raise DataError(f"{len(tables[0][0])} unigrams for {vocab_size} words and <s>")
    starts = np.cumsum([0, 1] + [len(grams) for grams, _, _ in tables], dtype=np.int64)
    total, inner = int(starts[-1]), int(starts[-2])
    words = np.concatenate([[0], *(grams[:, -1] for grams, _, _ in tables)]).astype(np.uint32)
    log_probs = np.concatenate([[0], *(p for _, p, _ in tables)]).astype(np.float32)
    backoffs = np.concatenate([[0], *(b for _, _, b in tables[:-1])]).astype(np.float32)
    first = np.full(inner + 1, total, np.uint32)
    first[0] = 1
    keys: list[np.ndarray] = []
    for k, (grams, _, _) in enumerate(tables[1:], 2):
        parents = _find(grams[:, :-1], keys)
        keys.append((parents << 32) | grams[:, -1])
        counts = np.bincount(parents, minlength=int(starts[k] - starts[k - 1]))
        first[starts[k - 1] : starts[k]] = starts[k] + np.cumsum(counts) - counts
    first[inner] = total
    trie = Trie.pack(
        words,
        log_probs,
        _links(tables, keys, starts, first, backoffs),
        first,
        backoffs,
        starts,
        True,
    )
    _fill_blanks(trie, tables, keys)
    return trie


def _sorted(grams: np.ndarray, log_probs: np.ndarray, backoffs: np.ndarray) -> Explicit:
    order = np.lexsort(grams.T[::-1])  # stable
    grams = np.asarray(grams, np.int64)[order]
    repeated = (grams[1:] == grams[:-1]).all(axis=1)
    if repeated.any():
        raise Doubled(grams.shape[1], int(order[1:][repeated].min()))
    return grams, log_probs[order], backoffs[order]


def _with_prefixes(level: Explicit, longer: np.ndarray) -> Explicit:
    """Add the missing prefixes of longer n-grams; NaN marks probabilities that `_fill_blanks`
    computes.
    """
    grams, log_probs, backoffs = level
    prefixes = longer[:, :-1]
    prefixes = (
        prefixes[np.append([True], (prefixes[1:] != prefixes[:-1]).any(axis=1))]
        if len(prefixes)
        else prefixes
    )
    all_grams = np.concatenate([grams, prefixes])
    order = np.lexsort(all_grams.T[::-1])  # stable: n-grams of the level come before equal prefixes
    rows = all_grams[order]
    is_first = (
        np.append([True], (rows[1:] != rows[:-1]).any(axis=1)) if len(rows) else np.zeros(0, bool)
    )
    added = order[is_first][order[is_first] >= len(grams)]
    if not len(added):
        return level
    blank = np.full(len(added), np.nan, np.float32)
    return _sorted(
        np.concatenate([grams, all_grams[added]]),
        np.append(log_probs, blank),
        np.append(backoffs, 0 * added),
    )


def _find(rows: np.ndarray, keys: Sequence[np.ndarray]) -> np.ndarray:
    """Find the indices of these n-grams in their level, -1 where there is none. keys[k - 2]: those of
    order k.
    """
    index = rows[:, 0].copy()
    for j in range(1, rows.shape[1]):
        key = (index << 32) | rows[:, j]
        level = keys[j - 1]
        candidate = np.searchsorted(level, key).clip(max=max(len(level) - 1, 0))
        present = (index >= 0) & (
            level[candidate] == key if len(level) else np.zeros(len(key), bool)
        )
        index = np.where(present, candidate, -1)
    return index


def _links(
    tables: list[Explicit],
    keys: list[np.ndarray],
    starts: np.ndarray,
    first: np.ndarray,
    backoffs: np.ndarray,
) -> np.ndarray:
    """Find the longest proper suffix in the trie that has children or a back-off weight."""
    links = np.zeros(int(starts[-1]), np.uint32)
    live = (first[:-1] < first[1:]) | (backoffs != 0)
    for k, (grams, _, _) in enumerate(tables, 1):
        open_rows = np.arange(len(grams))
        for j in range(1, k):
            index = _find(grams[open_rows, j:], keys)
            node = np.where(index >= 0, index + starts[k - j], 0)
            usable = (index >= 0) & live[node]
            links[starts[k] + open_rows[usable]] = node[usable]
            open_rows = open_rows[~usable]
    return links


def _fill_blanks(trie: Trie, tables: list[Explicit], keys: list[np.ndarray]) -> None:
    """Compute log p of the prefixes that were added: back-off weight of the context plus log p of
    the shorter n-gram.
    """
    for k, (grams, log_probs, _) in enumerate(tables, 1):
        blank = np.flatnonzero(np.isnan(log_probs))
        if len(blank):
            rows, nodes = grams[blank], int(trie.level_starts[k]) + blank
            trie.log_probs[nodes] = _backoff(trie, rows, keys) + _log_probs(trie, rows[:, 1:], keys)
    # log_probs is a copy; only inner nodes can be blank.
    trie.inner_log_probs[:] = trie.log_probs[: len(trie.backoffs)]


def _log_probs(trie: Trie, rows: np.ndarray, keys: list[np.ndarray]) -> np.ndarray:
    """Compute log p of the last word after the others, by the recursion that defines back-off."""
    index = _find(rows, keys)
    log_probs = trie.log_probs[
        np.where(index >= 0, index + trie.level_starts[rows.shape[1]], 0)
    ].astype(np.float64)
    missing = np.flatnonzero(index < 0)
    if len(missing):
        log_probs[missing] = _backoff(trie, rows[missing], keys) + _log_probs(
            trie, rows[missing, 1:], keys
        )
    return log_probs


def _backoff(trie: Trie, rows: np.ndarray, keys: list[np.ndarray]) -> np.ndarray:
    """Return the back-off weight of the context, all words but the last; 0 where it is unknown."""
    index = _find(rows[:, :-1], keys)
    return np.where(
        index >= 0, trie.backoffs[np.maximum(index, 0) + trie.level_starts[rows.shape[1] - 1]], 0.0
    )
