"""k-means of pairs of numbers, for product quantisation (Jégou et al. 2011; Joulin et al. 2016, "FastText.zip").

The nearest centroid is the one with the largest  x . c - |c|^2 / 2,  which needs two multiplications a candidate.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_FAST = {"reassoc", "contract", "nsz", "arcp", "nnan"}


@njit(nogil=True, cache=True, fastmath=_FAST)
def nearest(points, centroids, codes):
    """codes[i]: which of the centroids (K, 2), at most 256, is nearest to points[i]. Returns the sum of squared distances."""
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
    """Each centroid to the mean of its points; one without points to the point that is farthest from its own."""
    sums, counts = np.zeros((len(centroids), 2)), np.zeros(len(centroids), np.int64)
    for i in range(len(points)):
        k = codes[i]
        sums[k, 0] += points[i, 0]
        sums[k, 1] += points[i, 1]
        counts[k] += 1
    moved = np.zeros(len(points), np.bool_)
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
            if apart > worst and not moved[i]:
                worst, at = apart, i
        if at < 0:  # there are fewer different points than centroids
            return
        moved[at] = True
        centroids[k, 0], centroids[k, 1] = points[at, 0], points[at, 1]
