"""Random drawing: tables for drawing words (Walker's alias method, the Huffman tree), single tokens, and
dropout.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numba.extending import overload

from seqloom.kernels.maths import BLOCK, EXP_WORK, exp_block, row_max
from seqloom.kernels.team import do_parts, share


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


# ---- tokens, from a model's log-probabilities

BUCKETS = 1024  # by which likely tokens are told from unlikely ones without sorting them
BUCKETED = 16.0  # nats below the likeliest token that they cover; the last has all others
EXACT = 1024  # tokens up to which weights are exact, so that a share that is reached exactly counts
STEEPEST = 1e30  # of temperatures near 0: beyond it 0 times infinity is no number
LEAST = 1e-20  # sum of the probabilities that are left, below which float32 has lost some of them


@njit(nogil=True, cache=True, inline="always")
def _worse(values, a, b):
    """Return whether token a goes before b is given up: it is less likely or, of equal ones, comes later."""
    return values[a] < values[b] or (values[a] == values[b] and a > b)


@njit(nogil=True, cache=True)
def _sink(heap, values, at, end):
    """Move an entry of a heap down to where both below it are better; the worst token is at the top."""
    while 2 * at + 1 < end:
        below = 2 * at + 1
        if below + 1 < end and _worse(values, heap[below + 1], heap[below]):
            below += 1
        if not _worse(values, heap[below], heap[at]):
            return
        heap[at], heap[below] = heap[below], heap[at]
        at = below


@njit(nogil=True, cache=True)
def _make_heap(heap, values):
    """Order tokens so that the worst is at the top."""
    for at in range(len(heap) // 2 - 1, -1, -1):
        _sink(heap, values, at, len(heap))


@njit(nogil=True, cache=True)
def _sort_heap(heap, values):
    """Sort the tokens of a heap, the best first."""
    for end in range(len(heap) - 1, 0, -1):
        heap[0], heap[end] = heap[end], heap[0]
        _sink(heap, values, 0, end)


@njit(nogil=True, cache=True)
def largest(values, k):
    """Return the indices of the k largest of values (V,), the largest first, of equal ones the lowest."""
    heap = np.arange(min(k, len(values)))
    _make_heap(heap, values)
    for token in range(len(heap), len(values)):
        if values[token] > values[heap[0]]:
            heap[0] = token
            _sink(heap, values, 0, len(heap))
    _sort_heap(heap, values)
    return heap


@njit(nogil=True, cache=True, error_model="numpy")
def _cut(log_probs, weights, top, temperature, by_count, needed):
    """Keep the likeliest tokens up to the one with which their number, or the sum of their weights, is
    at least `needed`; of equal ones those with the lowest ids. The weights of all others become 0.
    """
    scale = min(BUCKETS / (BUCKETED * temperature), STEEPEST)
    sums = np.zeros(BUCKETS, np.float64)
    for j in range(len(weights)):
        if weights[j] > 0:
            bucket = min(int(min((top - log_probs[j]) * scale, 1e6)), BUCKETS - 1)
            sums[bucket] += 1.0 if by_count else weights[j]
    crossing, total = 0, 0.0
    while crossing < BUCKETS - 1 and total + sums[crossing] < needed:
        total += sums[crossing]
        crossing += 1
    within = np.empty(len(weights), np.int64)
    size = 0
    for j in range(len(weights)):
        if weights[j] > 0:
            bucket = min(int(min((top - log_probs[j]) * scale, 1e6)), BUCKETS - 1)
            if bucket > crossing:
                weights[j] = 0.0
            elif bucket == crossing:
                within[size] = j
                size += 1
    within = within[:size]
    _make_heap(within, log_probs)  # numba's sort would take longer to compile than all else here
    _sort_heap(within, log_probs)
    for j in within:
        if total >= needed:
            weights[j] = 0.0
        else:
            total += 1.0 if by_count else weights[j]


@njit(nogil=True, cache=True, error_model="numpy")
def nucleus(log_probs, temperature, top_k, top_p):
    """Return the weights of log-probabilities (V,), 0 where a token is not kept: after a temperature
    above zero, the top_k likeliest (0: all), and of these the smallest set with at least the share top_p.
    """
    weights = np.empty(len(log_probs), np.float64)
    top = log_probs.max()
    if len(weights) > EXACT:
        exp_block(log_probs, np.float32(top), np.float32(min(1 / temperature, STEEPEST)), weights)
    else:
        for j in range(len(weights)):
            weights[j] = math.exp((np.float64(log_probs[j]) - top) / temperature)
    if 0 < top_k < len(weights):
        _cut(log_probs, weights, top, temperature, True, np.float64(top_k))
    if top_p < 1:
        share = top_p * weights.sum()
        _cut(log_probs, weights, top, temperature, False, max(share, 1e-300))
    return weights


@njit(nogil=True, cache=True, error_model="numpy")
def _draw_any(log_probs, top, coldness, uniform):
    """Return one token by inverting the cumulative distribution at `uniform`, all tokens in order; -1 where
    their probabilities relative to `top` are too small to be told apart.
    """
    probs = np.empty(len(log_probs), np.float32)
    sums = np.empty(len(probs) // BLOCK + 1, np.float64)
    total = 0.0
    for b in range(len(sums)):
        low, high = b * BLOCK, b * BLOCK + BLOCK
        sums[b] = exp_block(log_probs[low:high], top, coldness, probs[low:high])
        total += sums[b]
    if total < LEAST:
        return -1
    remaining = uniform * total
    b = 0
    while b < len(sums) - 1 and remaining >= sums[b]:
        remaining -= sums[b]
        b += 1
    last = -1
    for j in range(b * BLOCK, len(probs)):
        if probs[j] > 0:
            last = j
            remaining -= probs[j]
            if remaining < 0:
                return j
    if last < 0:  # past the end by rounding
        last = np.argmax(probs)
    return last


@njit(nogil=True, cache=True, error_model="numpy")
def draw(log_probs, temperature, top_k, top_p, uniform):
    """Return one token from log-probabilities (V,): at temperature 0 the likeliest, else of those that
    `nucleus` keeps (0 and 1: all) the one at `uniform` of their cumulative distribution.
    """
    if temperature == 0:
        return first_of(log_probs, row_max(log_probs))
    if not top_k and top_p >= 1:
        if (
            temperature == 1
        ):  # the largest need not be looked for, unless hardly any probability is left
            token = _draw_any(log_probs, np.float32(0.0), np.float32(1.0), uniform)
            if token >= 0:
                return token
        coldness = np.float32(min(1 / temperature, STEEPEST))
        return _draw_any(log_probs, row_max(log_probs), coldness, uniform)
    weights = nucleus(log_probs, temperature, top_k, top_p)
    remaining, last = uniform * weights.sum(), 0
    for j in range(len(weights)):
        if weights[j] > 0:
            last = j
            remaining -= weights[j]
            if remaining < 0:
                return j
    return last  # past the end by rounding


@njit(nogil=True, cache=True)
def rule_out_in(log_probs, rows, tokens):
    """Forbid some tokens in these rows of log-probabilities (n, V), except where nothing else is left."""
    before = np.empty(len(tokens), log_probs.dtype)
    for row in rows:
        x = log_probs[row]
        for i in range(len(tokens)):
            before[i] = x[tokens[i]]
        for token in tokens:
            x[token] = -np.inf
        at = 0
        while at < len(x) and x[at] == -np.inf:
            at += 1
        if at == len(x):
            for i in range(len(tokens)):
                x[tokens[i]] = before[i]


@njit(nogil=True, cache=True)
def first_of(values, value):
    """Return where a value stands first."""
    for j in range(len(values)):
        if values[j] == value:
            return j
    return 0


class DrawJob(NamedTuple):
    """Rows of which threads draw a token each."""

    log_probs: np.ndarray
    temperatures: np.ndarray
    top_ks: np.ndarray
    top_ps: np.ndarray
    uniforms: np.ndarray
    ids: np.ndarray


@overload(do_parts)
def _do_draws(job, low, high):
    def run(job, low, high):
        for row in range(low, high):
            job.ids[row] = draw(
                job.log_probs[row],
                job.temperatures[row],
                job.top_ks[row],
                job.top_ps[row],
                job.uniforms[row],
            )

    return run if job.instance_class is DrawJob else None


@njit(nogil=True, cache=True)
def draw_rows(log_probs, temperatures, top_ks, top_ps, uniforms, team):
    """Return one token of each row (n, V), drawn as `draw` does with the row's own options."""
    ids = np.empty(len(log_probs), np.int64)
    job = DrawJob(log_probs, temperatures, top_ks, top_ps, uniforms, ids)
    share(team, job, len(ids), log_probs.size * EXP_WORK)
    return ids


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
