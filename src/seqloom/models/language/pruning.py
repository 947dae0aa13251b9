"""Entropy pruning: leave out the n-grams that the model hardly needs (Stolcke 1998).

An n-gram goes if the model without it, its back-off weight set anew, has a perplexity higher by less than the
threshold (1e-8 is mild, 1e-6 strong). The highest order goes first; an n-gram that something follows stays.
Unlike pruning by count this needs no counts, so it also works on models read from ARPA files.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from seqloom.models.language.trie import Trie

CHUNK = 1 << 15


def prune_by_entropy(trie: Trie, threshold: float) -> Trie:
    """A smaller trie; words themselves are never left out."""
    from seqloom.kernels import ngram_estimate as kernel
    from seqloom.kernels.parallel import chunk_bounds, parallel_run

    starts = trie.level_starts
    first, backoffs = np.ascontiguousarray(trie.first), np.ascontiguousarray(trie.backoffs)
    tables = (trie.words, trie.log_probs, first, backoffs, trie.links)
    history = np.empty(len(trie.backoffs), np.float64)
    kernel.history_log_probs(first, trie.log_probs, trie.vocab_size + 1, history)
    keep = np.ones(len(trie.words), np.bool_)
    for k in range(trie.order, 1, -1):
        lo, hi = int(starts[k - 1]), int(starts[k])  # the contexts of order k
        parallel_run(
            lambda s, lo=lo: kernel.mark_useless(
                *tables,
                history,
                keep,
                threshold,
                lo + s[0],  # type: ignore[misc]
                lo + s[1],
            ),
            chunk_bounds(hi - lo, CHUNK),
        )
    return _reweighted(_without(trie, keep))


def _without(trie: Trie, keep: np.ndarray) -> Trie:
    """The trie with only these nodes; back-off weights still the old ones."""
    from seqloom.kernels.ngram_estimate import relink

    numbers = np.cumsum(keep, dtype=np.int64) - 1
    starts = np.append(
        0,
        np.cumsum([int(keep[a:b].sum()) for a, b in zip(trie.level_starts, trie.level_starts[1:])]),
    )
    inner = int(starts[-2])
    old_inner = len(trie.backoffs)
    children = np.add.reduceat(
        np.append(keep, False).astype(np.int64), trie.first[:-1].astype(np.int64)
    )
    children[trie.first[:-1] == trie.first[1:]] = 0
    first = np.empty(inner + 1, np.uint32)
    first[0] = 1
    np.cumsum(children[keep[:old_inner]], out=first[1:], dtype=np.uint32)
    first[1:] += np.uint32(1)
    live = children > 0
    links = np.empty(int(starts[-1]), np.uint32)
    relink(trie.links, keep, numbers, live, links)
    return Trie.pack(
        trie.words[keep],
        trie.log_probs[keep],
        links,
        first,
        trie.backoffs[keep[:old_inner]],
        starts,
        trie.chained,
    )


def _reweighted(trie: Trie) -> Trie:
    """New back-off weights, shorter histories first, because longer ones are measured against them."""
    from seqloom.kernels.ngram_estimate import new_backoffs
    from seqloom.kernels.parallel import chunk_bounds, parallel_run

    first, backoffs = np.ascontiguousarray(trie.first), np.ascontiguousarray(trie.backoffs)
    backoffs[0] = 0
    for k in range(1, trie.order):
        lo, hi = int(trie.level_starts[k]), int(trie.level_starts[k + 1])
        out = backoffs.copy()
        run = partial(new_backoffs, trie.words, trie.log_probs, first, backoffs, trie.links, out)
        parallel_run(
            lambda s, lo=lo, run=run: run(lo + s[0], lo + s[1]), chunk_bounds(hi - lo, CHUNK)
        )  # type: ignore[misc]
        backoffs[lo:hi] = out[lo:hi]
    trie.backoffs[:] = backoffs
    return trie
