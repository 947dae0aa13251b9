"""Counting which words stand near which, row by row.

Positions are sorted by their word once. All neighbours of one word are then found by looking around each of its positions
and added up in one array over the vocabulary, which stays in the cache; so nothing is hashed and no pair is ever written
down or sorted. Weights are whole numbers (see `models/vectors/cooccurrence.py`), so the order of additions is of no
account. Of a symmetric table only columns >= row are counted; a word beside itself is seen from both of its positions,
hence twice, as it should be.

Slow twin: a double loop in `tests/models/test_cooccurrence.py`.
"""

import numpy as np
from numba import njit

from seqloom.kernels.intrinsics import prefetch, trailing_zeros

END, GONE = 0xFFFFFFFF, 0xFFFFFFFE
AHEAD = 16  # positions whose surroundings are asked of the memory before they are looked at


@njit(nogil=True, cache=True)
def reach(ids, low, high, window):
    """Where to begin and stop reading so that every position of low..high sees all of its neighbours."""
    begin, seen = low, 0
    while begin > 0 and seen < window and ids[begin - 1] != END:
        begin -= 1
        seen += ids[begin] != GONE
    stop, seen = high, 0
    while stop < len(ids) and seen < window and ids[stop] != END:
        seen += ids[stop] != GONE
        stop += 1
    return begin, stop


@njit(nogil=True, cache=True)
def compact(ids, low, high, out, at):
    """Copy without what is GONE; returns where the copy ends."""
    for i in range(low, high):
        out[at] = ids[i]
        at += ids[i] != GONE
    return at


@njit(nogil=True, cache=True)
def word_counts(text, low, high, counts):
    for i in range(low, high):
        if text[i] != END:
            counts[text[i]] += 1


@njit(nogil=True, cache=True)
def sort_positions(text, low, high, starts, positions):
    """Positions by word; `starts` ends as where the next word begins."""
    for i in range(low, high):
        if text[i] != END:
            word = text[i]
            positions[starts[word]] = i
            starts[word] += 1


@njit(nogil=True, cache=True)
def emit_row(sums, touched, n, marks, tops, out_columns, out_sums, at):
    """Write the n touched columns in ascending order, and leave everything at zero for the next row.

    A bit for each column and a bit for each 64 of them sort without comparing.
    """
    for i in range(n):
        column = np.uint64(touched[i])
        group = column >> np.uint64(6)
        marks[group] |= np.uint64(1) << (column & np.uint64(63))
        tops[group >> np.uint64(6)] |= np.uint64(1) << (group & np.uint64(63))
    for t in range(len(tops)):
        top = tops[t]
        tops[t] = 0
        while top:
            group = np.uint64(t) * np.uint64(64) + trailing_zeros(top)
            top &= top - np.uint64(1)
            bits = marks[group]
            marks[group] = 0
            while bits:
                column = group * np.uint64(64) + trailing_zeros(bits)
                bits &= bits - np.uint64(1)
                out_columns[at] = column
                out_sums[at] = sums[column]
                sums[column] = 0
                at += 1
    return at


@njit(nogil=True, cache=True)
def count_rows(
    text,
    positions,
    starts,
    low,
    high,
    weights,
    symmetric,
    sums,
    touched,
    marks,
    tops,
    lengths,
    columns,
    totals,
):
    """The cells of rows low..high. `text` begins and ends with END; starts[w]..starts[w + 1]: the positions of word w.

    lengths[r]: cells of row low + r; columns and totals receive them. Returns how many there are.
    """
    at, window, last = 0, len(weights), len(positions) - 1
    for row in range(low, high):
        n = 0
        for t in range(starts[row], starts[row + 1]):
            here = np.int64(positions[t])
            soon = np.int64(positions[min(t + AHEAD, last)])
            prefetch(text, max(soon - window, 0), 0)
            prefetch(text, soon, 0)
            prefetch(text, min(soon + window, len(text) - 1), 0)
            for k in range(window):
                other = text[here + 1 + k]
                if other == END:
                    break
                keep = (not symmetric) or other >= row
                before = sums[other]
                sums[other] = before + (weights[k] if keep else 0)
                touched[n] = other
                n += keep and before == 0
            if symmetric:
                for k in range(window):
                    other = text[here - 1 - k]
                    if other == END:
                        break
                    keep = other >= row
                    before = sums[other]
                    sums[other] = before + (weights[k] if keep else 0)
                    touched[n] = other
                    n += keep and before == 0
        after = emit_row(sums, touched, n, marks, tops, columns, totals, at)
        lengths[row - low] = after - at
        at = after
    return at


@njit(nogil=True, cache=True)
def merge_rows(
    offsets, run_columns, run_totals, sums, touched, marks, tops, lengths, columns, totals
):
    """Add up the same rows of several runs. offsets (R, rows + 1): where each run's cells of each row are."""
    at = 0
    for row in range(offsets.shape[1] - 1):
        n = 0
        for r in range(offsets.shape[0]):
            for i in range(offsets[r, row], offsets[r, row + 1]):
                column = run_columns[i]
                before = sums[column]
                sums[column] = before + run_totals[i]
                touched[n] = column
                n += before == 0
        after = emit_row(sums, touched, n, marks, tops, columns, totals, at)
        lengths[row] = after - at
        at = after
    return at
