"""How words are drawn: which are read, which are noise, and the tree of hierarchical softmax."""

from __future__ import annotations

import numpy as np

_FULL = 2**32 - 1


def keep_thresholds(counts: np.ndarray, sample: float) -> np.ndarray:
    """uint32 (V,): a word is read when 32 random bits are not above this.

    word2vec reads a word of share f with probability sqrt(sample / f) + sample / f, as its program has it (its paper says
    1 - sqrt(sample / f) for leaving out).
    """
    if sample == 0:
        return np.full(len(counts), _FULL, np.uint32)
    ratio = sample * counts.sum() / np.maximum(counts, 1)
    return (np.minimum(np.sqrt(ratio) + ratio, 1.0) * _FULL).astype(np.uint32)


def alias_table(counts: np.ndarray, exponent: float) -> tuple[np.ndarray, np.ndarray]:
    """Walker's alias method for count^exponent: (alias int32, cut uint32), each (V,).

    Draw a place k evenly and 32 more bits; the word is k if these are not above cut[k], else alias[k].
    """
    from seqloom.kernels.sampling import fill_alias

    seen = np.maximum(counts, 1).astype(np.float64)
    weights = np.exp(
        exponent * (np.log(seen) - np.log(seen.max(initial=1)))
    )  # as large as 1 at most
    alias, share = (
        np.arange(len(counts), dtype=np.int32),
        weights / max(weights.sum(), 1e-300) * len(counts),
    )
    fill_alias(share, alias)
    return alias, (np.minimum(share, 1.0) * _FULL).astype(np.uint32)


def huffman(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The way from the root to every word in the tree in which frequent words have short ways.

    (ends int64 (V,), nodes int32, turns int8): word w passes nodes[ends[w - 1]:ends[w]], of V - 1, and turns 1 or 0 there.
    """
    from seqloom.kernels.sampling import build_tree, fill_paths

    size = len(counts)
    if size < 2:
        return np.zeros(size, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int8)
    order = np.argsort(-counts, kind="stable")
    parents, turns = np.zeros(2 * size - 1, np.int64), np.zeros(2 * size - 1, np.int8)
    build_tree(counts[order].astype(np.int64), parents, turns)
    place = np.empty(size, np.int64)
    place[order] = np.arange(size)  # where the tree has each word
    ends = np.empty(size, np.int64)
    total = fill_paths(parents, turns, place, ends, np.zeros(0, np.int32), np.zeros(0, np.int8))
    nodes, ways = np.empty(total, np.int32), np.empty(total, np.int8)
    fill_paths(parents, turns, place, ends, nodes, ways)
    return ends, nodes, ways
