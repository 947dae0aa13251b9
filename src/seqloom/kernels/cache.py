"""Counting inside a sliding window, for the cache model."""

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def window_counts(ids, lengths, window, vocab_size, out):
    """out[i]: share of the last `window` tokens of the unit that equal ids[i]; -1 where nothing was read yet."""
    counts = np.zeros(vocab_size, np.int64)
    start = 0
    for u in range(len(lengths)):
        end = start + lengths[u]
        for i in range(start, end):
            oldest = max(start, i - window)
            out[i] = counts[ids[i]] / (i - oldest) if i > oldest else -1.0
            counts[ids[i]] += 1
            if i - oldest == window:
                counts[ids[oldest]] -= 1
        for i in range(max(start, end - window - 1), end):
            counts[ids[i]] = 0
        start = end
