"""Random drawing: tables for drawing words (Walker's alias method, the Huffman tree), single tokens, and
dropout.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from seqloom.kernels.maths import FAST, exp


@njit(nogil=True, cache=True)
def place_and_count(ids, table, totals):
    """Count ids, and replace each by its entry in the table."""
    for i in range(len(ids)):
        k = ids[i]
        totals[k] += 1
        ids[i] = table[k]


@njit(nogil=True, cache=True)
def fill_alias(share, alias):
    """Fill an alias table from `share`, the probabilities times their number. Then draw k uniformly: the
    result is k with probability share[k], else alias[k].
    """
    size = len(share)
    small, large = np.empty(size, np.int64), np.empty(size, np.int64)
    n_small = n_large = 0
    for k in range(size - 1, -1, -1):
        if share[k] < 1.0:
            small[n_small] = k
            n_small += 1
        else:
            large[n_large] = k
            n_large += 1
    while n_small > 0 and n_large > 0:
        n_small -= 1
        low, high = small[n_small], large[n_large - 1]
        alias[low] = high
        remainder = share[high] - (1.0 - share[low])
        if remainder < 1.0:
            n_large -= 1
            small[n_small] = high
            n_small += 1
        share[high] = remainder
    for i in range(n_small):  # left over by rounding
        share[small[i]] = 1.0
    for i in range(n_large):
        share[large[i]] = 1.0


@njit(nogil=True, cache=True)
def build_tree(counts, parents, turns):
    """Build the Huffman tree over descending counts: leaves 0..V-1, then inner nodes in the order of
    their creation.
    """
    size = len(counts)
    sums = np.empty(max(size - 1, 1), np.int64)
    leaf, inner = size - 1, 0
    for inner_node in range(size - 1):
        total = np.int64(0)
        for turn in range(2):
            if leaf >= 0 and (inner >= inner_node or counts[leaf] <= sums[inner]):
                node = leaf
                total += counts[leaf]
                leaf -= 1
            else:
                node = size + inner
                total += sums[inner]
                inner += 1
            parents[node] = size + inner_node
            turns[node] = turn
        sums[inner_node] = total


@njit(nogil=True, cache=True)
def fill_paths(parents, turns, leaves, ends, nodes, labels):
    """Write the inner nodes from the root (node 0) to each word, and the turns there to `labels`; with
    empty `nodes`, only count them. leaves[w] is the leaf of word w.
    """
    size = len(leaves)
    root = 2 * size - 2
    n = 0
    for w in range(size):
        length = 0
        at = leaves[w]
        while at != root:
            at = parents[at]
            length += 1
        if len(nodes):
            at = leaves[w]
            for j in range(length - 1, -1, -1):
                labels[n + j] = turns[at]
                at = parents[at]
                nodes[n + j] = root - at
        n += length
        ends[w] = n
    return n


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def draw(log_probs, uniform):
    """Return one token from log-probabilities (V,) that sum to one,
    by inverting the cumulative distribution at `uniform`.
    """
    block = 256
    probs = np.empty(len(log_probs), np.float32)
    blocks = np.empty(len(probs) // block + 1, np.float64)
    total = 0.0
    for b in range(len(blocks)):
        part = np.float32(0.0)
        for j in range(b * block, min(b * block + block, len(probs))):
            probs[j] = exp(log_probs[j]) if log_probs[j] > np.float32(-87.0) else np.float32(0.0)
            part += probs[j]
        blocks[b] = part
        total += part
    remaining = uniform * total
    b = 0
    while b < len(blocks) - 1 and remaining >= blocks[b]:
        remaining -= blocks[b]
        b += 1
    last = -1
    for j in range(b * block, len(probs)):
        if probs[j] > 0:
            last = j
            remaining -= probs[j]
            if remaining < 0:
                return j
    if last < 0:  # past the end by rounding
        last = np.argmax(probs)
    return last


# ---- dropout: the mask is a function of a seed, computed again in the backward pass instead of stored
#
# torch draws a number for each entry, one after the other, which takes longer than the layer itself. Here
# two entries, half the array apart, get the halves of splitmix64 (Steele et al. 2014) of a counter: none
# waits for another, and the loop uses vector instructions. The rate is exact to 2^-32.

STEP, FIRST, SECOND = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
)
LOW = np.uint64(0xFFFFFFFF)


@njit(nogil=True, cache=True)
def drop(x, seed, threshold, scale, out):
    """Set out = scale x, or 0 where the entry's 32 random bits are below the threshold; all flat,
    scale of the type of x.
    """
    zero = x.dtype.type(0)
    half = len(x) // 2
    for i in range(half):
        z = seed + np.uint64(i) * STEP
        z = (z ^ (z >> np.uint64(30))) * FIRST
        z = (z ^ (z >> np.uint64(27))) * SECOND
        z = z ^ (z >> np.uint64(31))
        out[i] = x[i] * scale if (z & LOW) >= threshold else zero
        out[half + i] = x[half + i] * scale if (z >> np.uint64(32)) >= threshold else zero
    if len(x) % 2:  # the last entry gets the low half of the next counter
        z = seed + np.uint64(half) * STEP
        z = (z ^ (z >> np.uint64(30))) * FIRST
        z = (z ^ (z >> np.uint64(27))) * SECOND
        out[-1] = x[-1] * scale if ((z ^ (z >> np.uint64(31))) & LOW) >= threshold else zero
