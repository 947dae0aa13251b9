"""Dropout whose mask is a function of a seed, so that it is drawn again in the backward pass and never kept.

torch draws a number for each entry, one after the other, which takes longer than the layer that it drops. Here two
entries, half the array apart, get the halves of splitmix64 (Steele et al. 2014) of a counter: none waits for another, and
the loop runs in vector instructions. The rate is met to 2^-32.
"""

import numpy as np
from numba import njit

STEP, FIRST, SECOND = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
)
LOW = np.uint64(0xFFFFFFFF)


@njit(nogil=True, cache=True)
def drop(x, seed, threshold, scale, out):
    """out = scale x, or 0 where the entry's 32 random bits are below the threshold; all flat, scale of the type of x."""
    zero = x.dtype.type(0)
    half = len(x) // 2
    for i in range(half):
        z = seed + np.uint64(i) * STEP
        z = (z ^ (z >> np.uint64(30))) * FIRST
        z = (z ^ (z >> np.uint64(27))) * SECOND
        z = z ^ (z >> np.uint64(31))
        out[i] = x[i] * scale if (z & LOW) >= threshold else zero
        out[half + i] = x[half + i] * scale if (z >> np.uint64(32)) >= threshold else zero
    if len(x) % 2:  # one is left, and gets what the next counter gives to a first half
        z = seed + np.uint64(half) * STEP
        z = (z ^ (z >> np.uint64(30))) * FIRST
        z = (z ^ (z >> np.uint64(27))) * SECOND
        out[-1] = x[-1] * scale if ((z ^ (z >> np.uint64(31))) & LOW) >= threshold else zero
