"""The nearest of many vectors by cosine, exactly, without reading all of them.

Every row is also stored in eight bits, scaled by its length: `row / |row| = scale * small + error`. By
Cauchy-Schwarz the small row gives the cosine up to |error|, so only rows that might still be among the best
are read in full: a search reads a quarter of the memory and returns the same result. For many queries at
once the scores come from matrix products of one block of rows, and are sifted here while the block is still
in the cache. The best so far are a heap with the worst at the front: by score, ties by row (the earlier row
is better).

The part "centroids" is k-means of pairs of numbers, for product quantisation (Jégou et al. 2011; Joulin et
al. 2016, "FastText.zip").
"""

from __future__ import annotations

import numpy as np
from numba import njit

LANES = 32  # the small rows are padded to a multiple of this
_CHUNK = 1024  # small rows multiplied together, scores sifted together
_SLACK = np.float32(1e-5)  # for the rounding of sums
_MAX_SQUARED_LENGTH = 1e60  # of a row; products of longer ones overflow float32


@njit(nogil=True, cache=True)
def measure_rows(matrix, inverse):
    """Set inverse[i] to 1 / |matrix[i]|, 0 for a row of zeros; return the first row that is not
    finite or too long, or -1.
    """
    bad = -1
    for i in range(len(matrix)):
        total = 0.0
        for j in range(matrix.shape[1]):
            total += np.float64(matrix[i, j]) * np.float64(matrix[i, j])
        if not total < _MAX_SQUARED_LENGTH and bad < 0:
            bad = i
        # shorter rows have no direction in float32
        inverse[i] = 1.0 / np.sqrt(total) if total > 1e-75 else 0.0
    return bad


@njit(nogil=True, cache=True)
def shrink_rows(matrix, inverse, small, scales, errors):
    """Convert the rows to eight bits: int8 (V, padded D), with a scale and the length of the
    rounding error for each.
    """
    width = matrix.shape[1]
    for i in range(len(matrix)):
        largest = np.float32(0)
        for j in range(width):
            largest = max(largest, abs(matrix[i, j] * inverse[i]))
        scale = largest / np.float32(127) if largest > 0 else np.float32(1)
        error = 0.0
        for j in range(width):
            value = matrix[i, j] * inverse[i]
            near = np.rint(value / scale)
            small[i, j] = np.int8(near)
            error += np.float64(value - near * scale) ** 2
        scales[i] = scale
        errors[i] = np.float32(np.sqrt(error)) + _SLACK


@njit(nogil=True, cache=True)
def _sink(scores, rows, size):
    """Sift the front of the heap down."""
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            return
        sibling = child + 1
        if sibling < size and (
            scores[sibling] < scores[child]
            or (scores[sibling] == scores[child] and rows[sibling] > rows[child])
        ):
            child = sibling
        if scores[at] < scores[child] or (scores[at] == scores[child] and rows[at] > rows[child]):
            return
        scores[at], scores[child] = scores[child], scores[at]
        rows[at], rows[child] = rows[child], rows[at]
        at = child


@njit(nogil=True, cache=True)
def _multiply(small, unit, totals):
    """Compute the products of `small` and `unit` in a loop that does nothing else: only then does
    LLVM use vector instructions that add in pairs.
    """
    for r in range(len(small)):
        total = np.int32(0)
        for j in range(small.shape[1]):
            total += np.int32(small[r, j]) * np.int32(unit[j])
        totals[r] = total


@njit(nogil=True, cache=True)
def search_one(matrix, inverse, small, scales, errors, first, last, query, best, rows):
    """Find the rows of first..last with the largest cosine to `query` (of length one), as a heap
    in `best` and `rows`.
    """
    width, k = matrix.shape[1], len(best)
    padded = small.shape[1]
    unit = np.zeros(padded, np.int16)  # the query in sixteen bits, up to `query_error`
    largest = np.float32(0)
    for j in range(width):
        largest = max(largest, abs(query[j]))
    step = largest / np.float32(2047) if largest > 0 else np.float32(1)
    query_error = 0.0
    for j in range(width):
        near = np.rint(query[j] / step)
        unit[j] = np.int16(near)
        query_error += np.float64(query[j] - near * step) ** 2
    spare = np.float32(2 * np.sqrt(query_error)) + _SLACK  # |scale * small| < 2
    examined = 0
    totals = np.empty(_CHUNK, np.int32)
    for low in range(first, last, _CHUNK):
        part = small[low : min(low + _CHUNK, last)]
        _multiply(part, unit, totals)
        for r in range(len(part)):
            i = low + r
            if np.float32(totals[r]) * (scales[i] * step) + (errors[i] + spare) < best[0]:
                continue
            examined += 1
            exact = np.float32(0)
            for j in range(width):
                exact += matrix[i, j] * query[j]
            exact *= inverse[i]
            if exact > best[0]:  # a later row never beats an earlier one of the same score
                best[0], rows[0] = exact, i
                _sink(best, rows, k)
    return examined


@njit(nogil=True, cache=True)
def _above(scores, inverse, threshold):
    """Count the scores above the threshold, in a loop that does nothing else, as in `_multiply`."""
    n = np.int32(0)
    for r in range(len(scores)):
        n += np.int32(scores[r] * inverse[r] > threshold)
    return n


@njit(nogil=True, cache=True)
def sift_block(scores, inverse, start, best, rows):
    """Insert the scores that are good enough into the heaps best, rows (Q, k).

    scores (B, G, Q / G, R): B groups of R rows from `start` on, queries in G groups.
    """
    stretches, groups, group, size = scores.shape
    k = best.shape[1]
    for g in range(groups):
        for i in range(group):
            q = g * group + i
            for b in range(stretches):
                for low in range(0, size, _CHUNK):
                    line, first = scores[b, g, i, low : low + _CHUNK], start + b * size + low
                    lengths = inverse[first : first + len(line)]
                    if _above(line, lengths, best[q, 0]) == 0:
                        continue
                    for r in range(len(line)):
                        score = line[r] * lengths[r]
                        if score > best[q, 0]:
                            best[q, 0], rows[q, 0] = score, first + r
                            _sink(best[q], rows[q], k)


# ---- centroids

_FAST = {"reassoc", "contract", "nsz", "arcp", "nnan"}


@njit(nogil=True, cache=True, fastmath=_FAST)
def nearest(points, centroids, codes):
    """Set codes[i] to the index of the centroid (K, 2), of at most 256, nearest to points[i]. Return the
    sum of squared distances.

    It is the one with the largest x . c - |c|^2 / 2, which needs two multiplications per candidate.
    """
    size = len(centroids)
    cx, cy, half, near = (
        np.empty(size, np.float32),
        np.empty(size, np.float32),
        np.empty(size, np.float32),
        np.empty(size, np.float32),
    )
    for k in range(size):
        cx[k], cy[k] = centroids[k, 0], centroids[k, 1]
        half[k] = np.float32(0.5) * (cx[k] * cx[k] + cy[k] * cy[k])
    apart = 0.0
    for i in range(len(points)):
        x, y = points[i, 0], points[i, 1]
        best = np.float32(-np.inf)
        for k in range(size):
            near[k] = x * cx[k] + y * cy[k] - half[k]
        for k in range(size):
            best = max(best, near[k])
        k = 0
        while near[k] < best:
            k += 1
        codes[i] = k
        apart += (x - cx[k]) ** 2 + (y - cy[k]) ** 2
    return apart


@njit(nogil=True, cache=True)
def improve(points, codes, centroids):
    """Set each centroid to the mean of its points; one without points to the point farthest from its
    centroid.
    """
    sums, counts = np.zeros((len(centroids), 2)), np.zeros(len(centroids), np.int64)
    for i in range(len(points)):
        k = codes[i]
        sums[k, 0] += points[i, 0]
        sums[k, 1] += points[i, 1]
        counts[k] += 1
    used = np.zeros(len(points), np.bool_)
    for k in range(len(centroids)):
        if counts[k]:
            centroids[k, 0], centroids[k, 1] = sums[k, 0] / counts[k], sums[k, 1] / counts[k]
    for k in range(len(centroids)):
        if counts[k]:
            continue
        worst, at = 0.0, -1
        for i in range(len(points)):
            c = codes[i]
            apart = (points[i, 0] - centroids[c, 0]) ** 2 + (points[i, 1] - centroids[c, 1]) ** 2
            if apart > worst and not used[i]:
                worst, at = apart, i
        if at < 0:  # fewer distinct points than centroids
            return
        used[at] = True
        centroids[k, 0], centroids[k, 1] = points[at, 0], points[at, 1]
