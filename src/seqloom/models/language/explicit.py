"""A back-off trie from n-grams that are given with their probabilities, as in an ARPA file.

Unlike counted levels, they may lack prefixes (which are filled in with what backing off gives them) and
suffixes (which links step over).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from seqloom.errors import DataError
from seqloom.models.language.trie import Trie

Explicit = tuple[
    np.ndarray, np.ndarray, np.ndarray
]  # word ids (n, k), log-probabilities, back-off weights


class Doubled(DataError):
    """An n-gram that is given twice: row `row` of those of order `order`."""

    def __init__(self, order: int, row: int) -> None:
        super().__init__(f"a {order}-gram stands there twice")
        self.order, self.row = order, row


def from_levels(levels: Sequence[Explicit], vocab_size: int) -> Trie:
    """`levels[k - 1]` holds the n-grams of order k in any order; level 1 has every word and `<s>` = vocab_size."""
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
    again = (grams[1:] == grams[:-1]).all(axis=1)
    if again.any():
        raise Doubled(grams.shape[1], int(order[1:][again].min()))
    return grams, log_probs[order], backoffs[order]


def _with_prefixes(level: Explicit, longer: np.ndarray) -> Explicit:
    """Add the prefixes of longer n-grams that are missing; NaN marks their probability as still to be found."""
    grams, log_probs, backoffs = level
    wanted = longer[:, :-1]
    wanted = (
        wanted[np.append([True], (wanted[1:] != wanted[:-1]).any(axis=1))]
        if len(wanted)
        else wanted
    )
    both = np.concatenate([grams, wanted])
    order = np.lexsort(both.T[::-1])  # stable: what is there comes before what is wanted
    rows = both[order]
    new = np.append([True], (rows[1:] != rows[:-1]).any(axis=1)) if len(rows) else np.zeros(0, bool)
    added = order[new][order[new] >= len(grams)]
    if not len(added):
        return level
    blank = np.full(len(added), np.nan, np.float32)
    return _sorted(
        np.concatenate([grams, both[added]]),
        np.append(log_probs, blank),
        np.append(backoffs, 0 * added),
    )


def _find(rows: np.ndarray, keys: Sequence[np.ndarray]) -> np.ndarray:
    """Numbers of these n-grams in their level, -1 where there is no such n-gram. keys[k - 2] belongs to order k."""
    place = rows[:, 0].copy()
    for j in range(1, rows.shape[1]):
        key = (place << 32) | rows[:, j]
        level = keys[j - 1]
        at = np.searchsorted(level, key).clip(max=max(len(level) - 1, 0))
        known = (place >= 0) & (level[at] == key if len(level) else np.zeros(len(key), bool))
        place = np.where(known, at, -1)
    return place


def _links(
    tables: list[Explicit],
    keys: list[np.ndarray],
    starts: np.ndarray,
    first: np.ndarray,
    backoffs: np.ndarray,
) -> np.ndarray:
    """The longest proper suffix that is there and that something follows or that has a back-off weight."""
    links = np.zeros(int(starts[-1]), np.uint32)
    live = (first[:-1] < first[1:]) | (backoffs != 0)
    for k, (grams, _, _) in enumerate(tables, 1):
        open_rows = np.arange(len(grams))
        for j in range(1, k):
            place = _find(grams[open_rows, j:], keys)
            node = np.where(place >= 0, place + starts[k - j], 0)
            good = (place >= 0) & live[node]
            links[starts[k] + open_rows[good]] = node[good]
            open_rows = open_rows[~good]
    return links


def _fill_blanks(trie: Trie, tables: list[Explicit], keys: list[np.ndarray]) -> None:
    """log p of an n-gram that only its extensions needed: back-off weight of its context plus the shorter n-gram."""
    for k, (grams, log_probs, _) in enumerate(tables, 1):
        blank = np.flatnonzero(np.isnan(log_probs))
        if len(blank):
            rows, nodes = grams[blank], int(trie.level_starts[k]) + blank
            trie.log_probs[nodes] = _backoff(trie, rows, keys) + _log_probs(trie, rows[:, 1:], keys)
    trie.inner_log_probs[:] = trie.log_probs[
        : len(trie.backoffs)
    ]  # log_probs is a copy; only inner nodes can be blank


def _log_probs(trie: Trie, rows: np.ndarray, keys: list[np.ndarray]) -> np.ndarray:
    """log p of the last word after the others, by the recursion that defines back-off."""
    place = _find(rows, keys)
    out = trie.log_probs[np.where(place >= 0, place + trie.level_starts[rows.shape[1]], 0)].astype(
        np.float64
    )
    missing = np.flatnonzero(place < 0)
    if len(missing):
        out[missing] = _backoff(trie, rows[missing], keys) + _log_probs(
            trie, rows[missing, 1:], keys
        )
    return out


def _backoff(trie: Trie, rows: np.ndarray, keys: list[np.ndarray]) -> np.ndarray:
    """The back-off weight of the context, all words but the last; none where it is unknown."""
    place = _find(rows[:, :-1], keys)
    return np.where(
        place >= 0, trie.backoffs[np.maximum(place, 0) + trie.level_starts[rows.shape[1] - 1]], 0.0
    )
