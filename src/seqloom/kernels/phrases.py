"""Pairs of words that follow each other: counting them, and joining those that are phrases.

A word is a number. A possible beginning of a phrase is a node: a word, or a word and the connecting words
after it ("bank of"), numbered after all words by a small table of chains. A pair is a node and the word
that ends it, exactly, in one number of 64 bits. Pairs are counted in a table with key and count side by
side, found by open addressing: a pair costs one cache line. The keys of a block are computed first and
added then, so that look-ups wait for memory together.
"""

from __future__ import annotations

import numpy as np
from numba import njit

NOTHING = -1  # no phrase can go on here; also an empty row of a table
UNKNOWN = -2  # a word, or a beginning, that no phrase has

_PRIME = np.uint64(0x9E3779B97F4A7C15)


@njit(nogil=True, cache=True, inline="always")
def _slot(key, mask):
    return np.int64((np.uint64(key) * _PRIME) >> np.uint64(20)) & mask


@njit(nogil=True, cache=True, inline="always")
def _row(key, table, mask):
    """Return the row of a key, or the empty row where it would stand."""
    row = _slot(key, mask)
    while table[row, 0] != key and table[row, 0] != NOTHING:
        row = (row + 1) & mask
    return row


@njit(nogil=True, cache=True)
def pair_keys(ids, i, node, end, connects, chains, n_chains, out):
    """Write the keys of all pairs from position i on, after the beginning `node`; return (next
    position, node, number of chains, number of keys).

    `chains` maps keys of a node and a connecting word to the number of the longer node. Returns before
    the end when that table is half full: grow it and call again.
    """
    n_words, mask, n = len(connects), np.int64(len(chains) - 1), 0
    while i < len(ids):
        word = np.int64(ids[i])
        if word == end:
            node = NOTHING
        elif not connects[word]:
            if node >= 0:
                out[n] = (node << 32) | word
                n += 1
            node = word
        elif node >= 0:
            key = (node << 32) | word
            row = _row(key, chains, mask)
            if chains[row, 0] == NOTHING:
                if 2 * n_chains >= len(chains):
                    break
                chains[row, 0], chains[row, 1] = key, n_words + n_chains
                n_chains += 1
            node = chains[row, 1]
        i += 1
    return i, node, n_chains, n


@njit(nogil=True, cache=True)
def add_keys(keys, i, n, table, used):
    """Count keys i..n; return (next key, rows in use), before the end when the table is half full."""
    mask = np.int64(len(table) - 1)
    while i < n:
        row = _row(keys[i], table, mask)
        if table[row, 0] == NOTHING:
            if 2 * used >= len(table):
                break
            table[row, 0] = keys[i]
            used += 1
        table[row, 1] += 1
        i += 1
    return i, used


@njit(nogil=True, cache=True)
def copy_rows(table, larger):
    """Copy everything into a larger, empty table."""
    mask = np.int64(len(larger) - 1)
    for k in range(len(table)):
        if table[k, 0] != NOTHING:
            row = _row(table[k, 0], larger, mask)
            larger[row, 0], larger[row, 1] = table[k, 0], table[k, 1]


@njit(nogil=True, cache=True)
def mark_phrases(words, starts, stops, connects, chains, pairs, glued):
    """Mark the tokens to be joined to the one before; return the first token that is not decided yet,
    and the number of phrases.

    From left to right, the first phrase that fits; the end of one does not begin another. A token of
    length zero is the end of a line.
    """
    chain_mask, pair_mask = np.int64(len(chains) - 1), np.int64(len(pairs) - 1)
    node, first, count = NOTHING, 0, 0
    for t in range(len(words)):
        word = words[t]
        glued[t] = False
        if starts[t] == stops[t]:
            node = NOTHING
        elif word >= 0 and connects[word]:
            if node >= 0:
                row = _row((node << 32) | word, chains, chain_mask)
                node = chains[row, 1] if chains[row, 0] != NOTHING else UNKNOWN
        else:
            if (
                node >= 0
                and word >= 0
                and pairs[_row((node << 32) | word, pairs, pair_mask), 0] != NOTHING
            ):
                for k in range(first + 1, t + 1):
                    glued[k] = True
                node = NOTHING
                count += 1
            else:
                first, node = t, word if word >= 0 else UNKNOWN
    return first if node != NOTHING else len(words), count


@njit(nogil=True, cache=True)
def write_joined(data, starts, stops, glued, n, end, joiner, out):
    """Write the bytes up to `end` with the joiner instead of the blanks before glued tokens, of the
    first n; return the number of bytes.
    """
    at, o = 0, 0
    for t in range(n):
        if glued[t]:
            for k in range(len(joiner)):
                out[o + k] = joiner[k]
            o += len(joiner)
            at = starts[t]
        while at < stops[t]:
            out[o] = data[at]
            o += 1
            at += 1
    while at < end:
        out[o] = data[at]
        o += 1
        at += 1
    return o
