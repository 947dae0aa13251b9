"""How many letters apart two words are: Levenshtein's distance, all rows of a column at once in the bits of one number.

Myers 1999, "A fast bit-vector algorithm for approximate string matching", in Hyyrö's form (2003) for whole words. It
counts bytes, so a letter outside ASCII weighs two or three: good enough to find what somebody meant to write.
"""

from __future__ import annotations

import numpy as np
from numba import njit

LONGEST = 64  # bytes of the word that is looked for


@njit(nogil=True, cache=True)
def edit_distances(word, arena, offsets, most, out):
    """out[k]: distance of `word` (1 to 64 bytes) to spelling k, or `most + 1` where lengths alone differ by more."""
    masks = np.zeros(256, np.uint64)
    one, size = np.uint64(1), len(word)
    for j in range(size):
        masks[word[j]] |= one << np.uint64(j)
    top = one << np.uint64(size - 1)
    for k in range(len(offsets) - 1):
        low, high = offsets[k], offsets[k + 1]
        if abs(high - low - size) > most:
            out[k] = most + 1
            continue
        distance = size
        plus, minus = (
            ~np.uint64(0),
            np.uint64(0),
        )  # where the distance rises or falls from one row to the next
        for i in range(low, high):
            equal = masks[arena[i]]
            across = (((equal & plus) + plus) ^ plus) | equal | minus
            right_up = minus | ~(across | plus)  # from the column before
            right_down = plus & across
            if right_up & top:
                distance += 1
            elif right_down & top:
                distance -= 1
            right_up = (right_up << one) | one
            right_down <<= one
            plus = right_down | ~(across | right_up)
            minus = right_up & across
        out[k] = distance
