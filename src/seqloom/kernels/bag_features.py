"""The features of texts as numbers: words, their character n-grams and n-grams of words, hashed (Joulin et al. 2016).

Texts come as one array of word ids, int32, with END after each and UNKNOWN where a word is not in the vocabulary; no n-gram
reaches over an unknown word. The end of a text is a word too, so that a text without any other still has one. A feature's
number is the id of a word, or V + the bucket of an n-gram (uint32). Which numbers have a row, and which, is told by `bits`,
one for each number, and `ranks`: how many bits are set before each 64 of them. For two million buckets that is 0.4 MB, which
stays in the cache.
"""

from __future__ import annotations

import numpy as np
from numba import njit

END, UNKNOWN = -1, -2

_PRIME = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


@njit(nogil=True, cache=True)
def list_features(ids, end, longest, words, buckets, spelled, spelled_ends, out, borders):
    """The features of every text into `out`, text after text; borders (n + 1,) begins with 0. Returns how many there are.

    `end`: the number of the end of a text. `words`: V. `spelled`: buckets of the character n-grams of the words one after the
    other, up to spelled_ends[i] for the i-th id; both are empty where there are none.
    """
    n, doc, size = 0, 0, np.uint64(buckets)
    for i in range(len(ids)):
        w = np.int64(ids[i])
        if w != UNKNOWN:
            out[n] = end if w == END else w
            n += 1
        if len(spelled_ends):
            for k in range(spelled_ends[i - 1] if i > 0 else 0, spelled_ends[i]):
                out[n] = words + spelled[k]
                n += 1
        if w >= 0:
            h = np.uint64(w + 1) * _PRIME
            for j in range(i + 1, min(i + longest, len(ids))):
                if ids[j] == UNKNOWN:
                    break
                h = ((h ^ (h >> _HALF)) + np.uint64(ids[j] + 2)) * _PRIME
                out[n] = words + np.int64(((h >> _HALF) * size) >> _HALF)
                n += 1
                if ids[j] == END:
                    break
        elif w == END:
            doc += 1
            borders[doc] = n
    return n


@njit(nogil=True, cache=True)
def mark(features, bits):
    for k in range(len(features)):
        f = np.int64(features[k])
        bits[f >> 6] |= np.uint64(1) << np.uint64(f & 63)


@njit(nogil=True, cache=True, inline="always")
def _count(x):
    """How many bits of 64 are set."""
    x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((x * np.uint64(0x0101010101010101)) >> np.uint64(56))


@njit(nogil=True, cache=True)
def rank(bits, ranks):
    """Fill `ranks` (int32, as long as bits); returns how many bits are set."""
    n = 0
    for k in range(len(bits)):
        ranks[k] = n
        n += _count(bits[k])
    return n


@njit(nogil=True, cache=True)
def marked(bits, out):
    """The numbers whose bits are set, ascending."""
    n = 0
    for k in range(len(bits)):
        x = bits[k]
        while x != 0:
            low = x & (~x + np.uint64(1))
            out[n] = (k << 6) + _count(low - np.uint64(1))
            n += 1
            x ^= low


@njit(nogil=True, cache=True)
def find_rows(features, borders, bits, ranks, rows):
    """The rows of features; those without one are left out, and the borders (n + 1,) move. Returns how many there are."""
    n = 0
    low = borders[0]
    for doc in range(len(borders) - 1):
        for k in range(low, borders[doc + 1]):
            f = np.int64(features[k])
            word, bit = bits[f >> 6], np.uint64(1) << np.uint64(f & 63)
            if word & bit:
                rows[n] = ranks[f >> 6] + _count(word & (bit - np.uint64(1)))
                n += 1
        low = borders[doc + 1]
        borders[doc + 1] = n
    return n
