"""Which tag follows which: p(tag | one or two tags before), smoothed after Witten and Bell.

    p(c | a b) = (count(a b c) + d(a b) p(c | b)) / (count(a b) + d(a b)),   d: how many different tags were seen there

and the same from pairs to single tags. One tag more, the last, is the border: what stands before the first word and
after the last.
"""

from __future__ import annotations

import numpy as np


def count_tags(sequences: list[np.ndarray], n_tags: int) -> np.ndarray:
    """How often each tag follows each pair, (S + 1, S + 1, S + 1), borders included."""
    size, parts = n_tags + 1, []
    for tags in sequences:
        framed = np.concatenate([[n_tags, n_tags], tags, [n_tags]]).astype(np.int64)
        parts.append((framed[:-2] * size + framed[1:-1]) * size + framed[2:])
    codes = np.concatenate(parts) if parts else np.empty(0, np.int64)
    return np.bincount(codes, minlength=size**3).reshape(size, size, size)


def follow_probs(counts: np.ndarray, order: int) -> np.ndarray:
    """p(tag | the tag before), (S + 1, S + 1), or p(tag | the two before), (S + 1, S + 1, S + 1)."""
    single = counts.sum(axis=(0, 1)) + 0.1
    pairs = _witten_bell(counts.sum(axis=0), single / single.sum())
    return pairs if order == 1 else _witten_bell(counts, pairs)


def _witten_bell(counts: np.ndarray, lower: np.ndarray) -> np.ndarray:
    total, kinds = counts.sum(axis=-1, keepdims=True), (counts > 0).sum(axis=-1, keepdims=True)
    return np.where(total > 0, (counts + kinds * lower) / np.maximum(total + kinds, 1), lower)
