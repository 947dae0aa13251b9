"""Character n-grams of words, hashed into buckets as fastText does (Bojanowski et al. 2017).

A word stands between `<` and `>`. An n-gram counts characters, not bytes; for fastText the marks alone are none (`alone`: they
are), and </s> has none. The hash is 32-bit FNV-1a over bytes that are sign-extended first: fastText once wrote `char` there,
and every file since depends on it.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_BASIS, _PRIME = np.uint32(2166136261), np.uint32(16777619)


@njit(nogil=True, cache=True)
def weighted_rows(table, ends, rows, shares, out):
    """out[w] = the sum of shares[k] table[rows[k]] for k from ends[w - 1] to ends[w]."""
    low = 0
    for w in range(len(ends)):
        out[w] = 0
        for k in range(low, ends[w]):
            for d in range(out.shape[1]):
                out[w, d] += shares[k] * table[rows[k], d]
        low = ends[w]


def ngram_buckets(
    arena: np.ndarray,
    offsets: np.ndarray,
    shortest: int,
    longest: int,
    buckets: int,
    *,
    alone: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """The bucket of every n-gram, int64, word after word, and how many there are up to the end of each word."""
    ends = np.zeros(len(offsets) - 1, np.int64)
    given = arena, offsets, shortest, longest, buckets, alone
    bucket_ids = np.empty(hash_ngrams(*given, np.zeros(0, np.int64), ends), np.int64)
    hash_ngrams(*given, bucket_ids, ends)
    return bucket_ids, ends


@njit(nogil=True, cache=True)
def hash_ngrams(arena, offsets, shortest, longest, buckets, alone, out, ends):
    """The bucket of every n-gram of every word, word after word in `out`; ends[k]: how many there are up to word k.

    Returns how many there are; where `out` is shorter it is filled as far as it goes: call with an empty one to count.
    """
    n = 0
    widest = 0
    for k in range(len(offsets) - 1):
        widest = max(widest, offsets[k + 1] - offsets[k])
    framed = np.empty(widest + 2, np.uint8)
    for k in range(len(offsets) - 1):
        size = offsets[k + 1] - offsets[k] + 2
        framed[0] = 60
        for j in range(size - 2):
            framed[1 + j] = arena[offsets[k] + j]
        framed[size - 1] = 62
        whole = (
            size == 6
            and framed[1] == 60
            and framed[2] == 47
            and framed[3] == 115
            and framed[4] == 62
        )  # </s> has none
        for i in range(0 if whole else size):
            if framed[i] & 0xC0 == 0x80:
                continue
            j, h = i, _BASIS
            for length in range(1, longest + 1):
                if j >= size:
                    break
                h = np.uint32((h ^ np.uint32(np.int32(np.int8(framed[j])))) * _PRIME)
                j += 1
                while j < size and framed[j] & 0xC0 == 0x80:
                    h = np.uint32((h ^ np.uint32(np.int32(np.int8(framed[j])))) * _PRIME)
                    j += 1
                if length >= shortest and (alone or length > 1 or (i > 0 and j < size)):
                    if n < len(out):
                        out[n] = np.int64(h) % buckets
                    n += 1
        ends[k] = n
    return n
