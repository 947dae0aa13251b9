"""Word n-grams of documents: counted for each class, looked up and summed, without a matrix of documents in between.

Documents come as one array of word ids, int32, with END after each; UNKNOWN stands where a word is no feature, and no
n-gram reaches over it. An n-gram is the pair (feature before its last word, last word) in one number of 64 bits:

    key = code << 32 | word       where the code of a single word is its id, and that of n-gram g is offset + g

so keys are exact at any length, and an n-gram is reached only through its beginnings. `slots` finds g from the key: a
table of a power of two, at most half full, -1 = empty, by open addressing. While counting, words and n-grams grow
side by side, so the offset is GROWING, above all words; afterwards it is the number of words, and code = row.
"""

from __future__ import annotations

import numpy as np
from numba import njit

END, UNKNOWN = -1, -2
GROWING = 1 << 31

_PRIME = np.uint64(0x9E3779B97F4A7C15)


@njit(nogil=True, cache=True, inline="always")
def _find(key, keys, slots, shift):
    """The number of an n-gram, or -1 - (the free slot where it belongs)."""
    mask = np.int64(len(slots) - 1)
    slot = np.int64((key * _PRIME) >> shift)
    g = np.int64(slots[slot])
    while g >= 0 and keys[g] != key:
        slot = (slot + 1) & mask
        g = np.int64(slots[slot])
    return g if g >= 0 else -1 - slot


@njit(nogil=True, cache=True, inline="always")
def _shift(slots):
    """How far a product is moved right to leave as many bits as the table has places for."""
    bits = 0
    while (1 << bits) < len(slots):
        bits += 1
    return np.uint64(64 - bits)


@njit(nogil=True, cache=True)
def gather(data, starts, stops, chosen, arena, borders):
    """Copy the chosen ones of the stretches `data[start:stop]` one behind the other; borders (n + 1,) begins with 0."""
    at = 0
    for k in range(len(chosen)):
        for i in range(starts[chosen[k]], stops[chosen[k]]):
            arena[at] = data[i]
            at += 1
        borders[k + 1] = at


@njit(nogil=True, cache=True)
def fill_slots(keys, n, slots):
    """Enter the first n keys (all distinct) into an empty table of at least two places."""
    shift = _shift(slots)
    for g in range(n):
        slots[-1 - _find(keys[g], keys, slots, shift)] = g


@njit(nogil=True, cache=True)
def add_documents(
    ids,
    labels,
    first,
    longest,
    presence,
    counts,
    seen,
    stamps,
    keys,
    slots,
    gram_counts,
    gram_seen,
    gram_stamps,
    n,
):
    """Count the n-grams of documents into tables that have room for all of them; returns how many n-grams there are.

    counts (W, C): of each word in each class. With `presence` a word counts once a document; then stamps (W,) holds the
    document that counted it last, numbered from `first` on, and seen (W,) all occurrences, which else are the sum of
    the counts. The same for the n-grams, of which there are n.
    """
    shift, doc = _shift(slots), 0
    for i in range(len(ids)):
        w = np.int64(ids[i])
        if w < 0:
            doc += w == END
            continue
        label, stamp = labels[doc], first + doc
        if not presence:
            counts[w, label] += 1
        else:
            seen[w] += 1
            if stamps[w] != stamp:
                counts[w, label] += 1
                stamps[w] = stamp
        code = np.uint64(w)
        for j in range(i + 1, min(i + longest, len(ids))):
            if ids[j] < 0:
                break
            key = (code << np.uint64(32)) | np.uint64(ids[j])
            g = _find(key, keys, slots, shift)
            if g < 0:
                slots[-1 - g] = n
                keys[n] = key
                g = n
                n += 1
            if not presence:
                gram_counts[g, label] += 1
            else:
                gram_seen[g] += 1
                if gram_stamps[g] != stamp:
                    gram_counts[g, label] += 1
                    gram_stamps[g] = stamp
            code = np.uint64(g + GROWING)
    return n


@njit(nogil=True, cache=True)
def score_documents(ids, longest, presence, offset, keys, slots, weights, stamps, out, known):
    """Add the weights of each document's features to its row of `out` (n, C); `known` (n,): how many it has.

    weights (F, C): words first, the n-grams from row `offset` on. stamps (F,): zeros, needed with `presence`.
    """
    shift, doc, classes = _shift(slots), 0, weights.shape[1]
    for i in range(len(ids)):
        w = np.int64(ids[i])
        if w < 0:
            doc += w == END
            continue
        row, j = w, i
        while True:
            if not presence or stamps[row] != doc + 1:
                for c in range(classes):
                    out[doc, c] += weights[row, c]
                known[doc] += 1
                if presence:
                    stamps[row] = doc + 1
            j += 1
            if j >= i + longest or j >= len(ids) or ids[j] < 0:
                break
            g = _find((np.uint64(row) << np.uint64(32)) | np.uint64(ids[j]), keys, slots, shift)
            if g < 0:
                break
            row = offset + g


@njit(nogil=True, cache=True)
def list_features(ids, longest, offset, keys, slots, rows):
    """Write the row of every feature of the documents, repeated as often as it comes; returns how many there are."""
    shift, n = _shift(slots), 0
    for i in range(len(ids)):
        if ids[i] < 0:
            continue
        row, j = np.int64(ids[i]), i
        while True:
            rows[n] = row
            n += 1
            j += 1
            if j >= i + longest or j >= len(ids) or ids[j] < 0:
                break
            g = _find((np.uint64(row) << np.uint64(32)) | np.uint64(ids[j]), keys, slots, shift)
            if g < 0:
                break
            row = offset + g
    return n
