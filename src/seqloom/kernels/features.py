"""Features of documents: word n-grams, exact or hashed, and character n-grams of words; counted by
class, looked up and summed without a matrix of documents.

Documents come as one array of word ids, int32, with END after each and UNKNOWN for a word that is no
feature; no n-gram spans an unknown word. `hash_ngrams` has the character n-grams of fastText, the part
"bag features" the hashed features of its classifier, the part "features" the exact word n-grams of naive
Bayes.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_BASIS, _FNV_PRIME = np.uint32(2166136261), np.uint32(16777619)


@njit(nogil=True, cache=True)
def weighted_rows(table, ends, rows, shares, out):
    """Compute out[w] = the sum of shares[k] table[rows[k]] for k from ends[w - 1] to ends[w]."""
    low = 0
    for w in range(len(ends)):
        out[w] = 0
        if out.shape[1] == 1:  # the sum stays in a register, four times as fast
            total = out[w, 0]
            for k in range(low, ends[w]):
                total += shares[k] * table[rows[k], 0]
            out[w, 0] = total
        else:
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
    """Return the bucket of every character n-gram (`hash_ngrams`), int64, word after word, and their
    number up to the end of each word.
    """
    ends = np.zeros(len(offsets) - 1, np.int64)
    arguments = arena, offsets, shortest, longest, buckets, alone
    bucket_ids = np.empty(hash_ngrams(*arguments, np.zeros(0, np.int64), ends), np.int64)
    hash_ngrams(*arguments, bucket_ids, ends)
    return bucket_ids, ends


@njit(nogil=True, cache=True)
def hash_ngrams(arena, offsets, shortest, longest, buckets, alone, out, ends):
    """Write the bucket of every character n-gram of every word to `out`, word after word, as fastText
    does (Bojanowski et al. 2017); ends[k]: their number up to word k.

    A word is framed by `<` and `>`. Lengths count characters, not bytes; for fastText the frame alone
    is no n-gram (`alone`: it is), and </s> has none. The hash is 32-bit FNV-1a over sign-extended
    bytes: fastText once used `char` there, and every file since depends on it.

    Return the number of n-grams; a shorter `out` is filled as far as it goes: call with an empty one to
    count.
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
        end_mark = (
            size == 6
            and framed[1] == 60
            and framed[2] == 47
            and framed[3] == 115
            and framed[4] == 62
        )  # </s> has none
        for i in range(0 if end_mark else size):
            if framed[i] & 0xC0 == 0x80:
                continue
            j, h = i, _BASIS
            for length in range(1, longest + 1):
                if j >= size:
                    break
                h = np.uint32((h ^ np.uint32(np.int32(np.int8(framed[j])))) * _FNV_PRIME)
                j += 1
                while j < size and framed[j] & 0xC0 == 0x80:
                    h = np.uint32((h ^ np.uint32(np.int32(np.int8(framed[j])))) * _FNV_PRIME)
                    j += 1
                if length >= shortest and (alone or length > 1 or (i > 0 and j < size)):
                    if n < len(out):
                        out[n] = np.int64(h) % buckets
                    n += 1
        ends[k] = n
    return n


# ---- bag features: words, their character n-grams and hashed n-grams of words (Joulin et al. 2016)
#
# The end of a text is a word too, so that an empty text still has one. A feature's number is the id of a
# word, or V + the bucket of an n-gram (uint32). `bits` marks the numbers that have a row; `ranks` counts the
# bits set before each 64 of them, from which the row follows. For two million buckets both take 0.4 MB, which
# stays in the cache.

END, UNKNOWN = -1, -2

_PRIME = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


@njit(nogil=True, cache=True)
def list_bag_features(ids, end, longest, words, buckets, spelled, spelled_ends, out, row_offsets):
    """Write the features of every text to `out`, text after text; row_offsets (n + 1,) begins with 0.
    Return their number.

    `end`: the number of the end of a text. `words`: V. `spelled`: concatenated buckets of the words'
    character n-grams, up to spelled_ends[i] for the i-th id; both empty without character n-grams.
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
            row_offsets[doc] = n
    return n


@njit(nogil=True, cache=True)
def mark(features, bits):
    for k in range(len(features)):
        f = np.int64(features[k])
        bits[f >> 6] |= np.uint64(1) << np.uint64(f & 63)


@njit(nogil=True, cache=True, inline="always")
def _count(x):
    """Count the bits set in a number of 64 bits."""
    x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((x * np.uint64(0x0101010101010101)) >> np.uint64(56))


@njit(nogil=True, cache=True)
def rank(bits, ranks):
    """Fill `ranks` (int32, as long as bits); return the number of bits set."""
    n = 0
    for k in range(len(bits)):
        ranks[k] = n
        n += _count(bits[k])
    return n


@njit(nogil=True, cache=True)
def marked(bits, out):
    """Write the numbers of the bits set to `out`, ascending."""
    n = 0
    for k in range(len(bits)):
        x = bits[k]
        while x != 0:
            low = x & (~x + np.uint64(1))
            out[n] = (k << 6) + _count(low - np.uint64(1))
            n += 1
            x ^= low


@njit(nogil=True, cache=True)
def find_rows(features, row_offsets, bits, ranks, rows):
    """Find the rows of features, without those that have none; row_offsets (n + 1,) are updated.
    Return the number of rows.
    """
    n = 0
    low = row_offsets[0]
    for doc in range(len(row_offsets) - 1):
        for k in range(low, row_offsets[doc + 1]):
            f = np.int64(features[k])
            word, bit = bits[f >> 6], np.uint64(1) << np.uint64(f & 63)
            if word & bit:
                rows[n] = ranks[f >> 6] + _count(word & (bit - np.uint64(1)))
                n += 1
        low = row_offsets[doc + 1]
        row_offsets[doc + 1] = n
    return n


# ---- features: exact word n-grams
#
# An n-gram is the pair (feature before its last word, last word) in one number of 64 bits:
#
#     key = code << 32 | word       the code of a single word is its id, that of n-gram g is offset + g
#
# so keys are exact at any length, and an n-gram is found only through its prefixes. `slots` finds g from the
# key: a table of a power of two, at most half full, -1 = empty, by open addressing. While counting, both
# words and n-grams grow, so the offset is GROWING, above all words; afterwards it is the number of words, and
# code = row.

GROWING = 1 << 31


@njit(nogil=True, cache=True, inline="always")
def _find(key, keys, slots, shift):
    """Return the number of an n-gram, or -1 - (the free slot where it belongs)."""
    mask = np.int64(len(slots) - 1)
    slot = np.int64((key * _PRIME) >> shift)
    g = np.int64(slots[slot])
    while g >= 0 and keys[g] != key:
        slot = (slot + 1) & mask
        g = np.int64(slots[slot])
    return g if g >= 0 else -1 - slot


@njit(nogil=True, cache=True, inline="always")
def _shift(slots):
    """Return the right shift that leaves as many bits of a product as index the table."""
    bits = 0
    while (1 << bits) < len(slots):
        bits += 1
    return np.uint64(64 - bits)


@njit(nogil=True, cache=True)
def gather(data, starts, stops, chosen, arena, row_offsets):
    """Concatenate the chosen ones of the slices `data[start:stop]`; row_offsets (n + 1,) begins with 0."""
    at = 0
    for k in range(len(chosen)):
        for i in range(starts[chosen[k]], stops[chosen[k]]):
            arena[at] = data[i]
            at += 1
        row_offsets[k + 1] = at


@njit(nogil=True, cache=True)
def fill_slots(keys, n, slots):
    """Insert the first n keys (all distinct) into an empty table of at least two slots."""
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
    """Count the n-grams of documents into tables large enough for all of them; return the number of
    n-grams.

    counts (W, C): of each word in each class. With `presence` a word counts once per document; then
    stamps (W,) holds the document that counted it last, numbered from `first` on, and seen (W,) all
    occurrences, which otherwise are the sum of the counts. The same for the n-grams; n are in the
    tables already.
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
def score_documents(ids, longest, presence, offset, keys, slots, weights, stamps, out, n_features):
    """Add the weights of each document's features to its row of `out` (n, C), their number to
    `n_features` (n,).

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
                n_features[doc] += 1
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
def list_features(ids, longest, offset, keys, slots, rows, ends):
    """Write the row of every occurrence of a feature in the documents, and to ends (n,) their number up
    to the end of each document.
    """
    shift, n, doc = _shift(slots), 0, 0
    for i in range(len(ids)):
        if ids[i] < 0:
            if ids[i] == END:
                ends[doc] = n
                doc += 1
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


@njit(nogil=True, cache=True)
def merge_features(rows, ends, last, times):
    """Keep each row once per document, where it came first, and write how often it came; `rows` and
    `ends` are overwritten. Return the number of rows that are left.

    last (F,): zeros; where the row was written last, counted from 1.
    """
    n, low = 0, 0
    for doc in range(len(ends)):
        first, high = n, ends[doc]
        for k in range(low, high):
            row = rows[k]
            if last[row] > first:
                times[last[row] - 1] += 1
            else:
                rows[n], times[n] = row, 1
                n += 1
                last[row] = n
        low = high
        ends[doc] = n
    return n


@njit(nogil=True, cache=True)
def transpose(ends, columns, values, out_ends, out_rows, out_values):
    """Transpose a sparse matrix: row i has values[k] in columns[k] for k from ends[i - 1] to ends[i].

    out_ends: zeros, one for each column of the matrix.
    """
    for k in range(len(columns)):
        if columns[k] + 1 < len(out_ends):
            out_ends[columns[k] + 1] += 1
    for c in range(1, len(out_ends)):
        out_ends[c] += out_ends[c - 1]
    low = 0
    for i in range(len(ends)):
        for k in range(low, ends[i]):
            to = out_ends[columns[k]]
            out_rows[to], out_values[to] = i, values[k]
            out_ends[columns[k]] += 1
        low = ends[i]
