"""GloVe (Pennington, Socher and Manning 2014): counting co-occurrences row by row, and training one
block of cells after another with AdaGrad.

Counting: positions are sorted by their word once. All neighbours of a word are then added up, position
by position, in one array over the vocabulary, which stays in the cache; so nothing is hashed and no pair
is stored or sorted. Weights are integers (see `models/word_vectors/cooccurrence.py`), so the order of
additions does not matter. Of a symmetric table only columns >= row are counted; a word beside itself is
counted from both positions, hence twice, as it should be. Slow twin: a double loop in
`tests/models/test_cooccurrence.py`.

Training: a row of a table holds a word's vector, its bias and a one (for contexts a one and the bias),
padded with zeros to `width` numbers, so that a single product of two rows is w.c + b_w + b_c (equation 8
without log x); then the sums of squared gradients of these numbers. `starts` is the initial value of such
a sum, one over the square of the first step; for the ones it is infinite, so they never change. Cells are
in blocks of (words, contexts) small enough for the cache. A cell is three numbers of 32 bits: both indices
inside the block, 16 bits each; log x; f(x).
"""

import numpy as np
from numba import njit

from seqloom.kernels.intrinsics import prefetch, trailing_zeros

END, GONE = 0xFFFFFFFF, 0xFFFFFFFE
POSITIONS_AHEAD = 16  # positions by which the windows are prefetched


@njit(nogil=True, cache=True)
def reach(ids, low, high, window):
    """Return the range to read so that every position of low..high has all of its neighbours."""
    begin, words = low, 0
    while begin > 0 and words < window and ids[begin - 1] != END:
        begin -= 1
        words += ids[begin] != GONE
    stop, words = high, 0
    while stop < len(ids) and words < window and ids[stop] != END:
        words += ids[stop] != GONE
        stop += 1
    return begin, stop


@njit(nogil=True, cache=True)
def compact(ids, low, high, out, at):
    """Copy the ids that are not GONE; return where the copy ends."""
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
    """Sort positions by word; `starts` ends as where the next word begins."""
    for i in range(low, high):
        if text[i] != END:
            word = text[i]
            positions[starts[word]] = i
            starts[word] += 1


@njit(nogil=True, cache=True)
def emit_row(sums, touched, n, marks, tops, out_columns, out_sums, at):
    """Write the n touched columns in ascending order, and reset everything to zero for the next row.

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
    """Count the cells of rows low..high. `text` begins and ends with END;
    starts[w]..starts[w + 1]: the positions of word w.

    lengths[r]: number of cells of row low + r, which are written to columns and totals. Return the number
    of all cells.
    """
    at, window, last = 0, len(weights), len(positions) - 1
    for row in range(low, high):
        n = 0
        for t in range(starts[row], starts[row + 1]):
            position = np.int64(positions[t])
            soon = np.int64(positions[min(t + POSITIONS_AHEAD, last)])
            prefetch(text, max(soon - window, 0), 0)
            prefetch(text, soon, 0)
            prefetch(text, min(soon + window, len(text) - 1), 0)
            for k in range(window):
                neighbour = text[position + 1 + k]
                if neighbour == END:
                    break
                keep = (not symmetric) or neighbour >= row
                before = sums[neighbour]
                sums[neighbour] = before + (weights[k] if keep else 0)
                touched[n] = neighbour
                n += keep and before == 0
            if symmetric:
                for k in range(window):
                    neighbour = text[position - 1 - k]
                    if neighbour == END:
                        break
                    keep = neighbour >= row
                    before = sums[neighbour]
                    sums[neighbour] = before + (weights[k] if keep else 0)
                    touched[n] = neighbour
                    n += keep and before == 0
        after = emit_row(sums, touched, n, marks, tops, columns, totals, at)
        lengths[row - low] = after - at
        at = after
    return at


@njit(nogil=True, cache=True)
def merge_rows(
    offsets, run_columns, run_totals, sums, touched, marks, tops, lengths, columns, totals
):
    """Add up the same rows of several runs. offsets (R, rows + 1): bounds of each run's cells of each row."""
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


# ---- glove

CELLS_AHEAD, CELLS_FAR_AHEAD = (
    4,
    12,
)  # cells by which rows, and before them the cells, are prefetched


@njit(nogil=True, cache=True)
def scramble(state):
    """Return the next number of SplitMix64."""
    z = np.uint64(state) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(nogil=True, cache=True)
def block_sizes(offsets, columns, low, high, parts, symmetric, sizes):
    """Count in sizes[a, b] the cells of words w = a and contexts c = b (mod parts), rows
    low..high.
    """
    for row in range(low, high):
        a = row % parts
        for k in range(offsets[row], offsets[row + 1]):
            column = np.int64(columns[k])
            b = column % parts
            if symmetric and a > b:
                sizes[b, a] += 1
            else:
                sizes[a, b] += 1
                if symmetric and a == b and row != column:
                    sizes[a, b] += 1


@njit(nogil=True, cache=True)
def fill_blocks(
    offsets, columns, values, low, high, parts, symmetric, x_max, alpha, starts, pairs, facts
):
    """Write the cells of rows low..high at `starts`, which is advanced.

    Of two mirrored cells one is written, in the block (a, b) with a < b; where a = b, both.
    """
    for row in range(low, high):
        for k in range(offsets[row], offsets[row + 1]):
            column = np.int64(columns[k])
            x = np.float64(values[k])
            log_x = np.float32(np.log(x))
            weight = np.float32(1.0) if x >= x_max else np.float32((x / x_max) ** alpha)
            first, second = np.int64(row), column
            if symmetric and first % parts > second % parts:
                first, second = second, first
            a, b = first % parts, second % parts
            at = starts[a, b]
            pairs[3 * at] = (first // parts) << 16 | (second // parts)
            facts[3 * at + 1] = log_x
            facts[3 * at + 2] = weight
            at += 1
            if symmetric and a == b and first != second:
                pairs[3 * at] = (second // parts) << 16 | (first // parts)
                facts[3 * at + 1] = log_x
                facts[3 * at + 2] = weight
                at += 1
            starts[a, b] = at


@njit(nogil=True, cache=True)
def shuffle_block(pairs, begin, end, seed):
    """Shuffle whole cells (Fisher and Yates)."""
    state = np.uint64(seed)
    for i in range(end - begin - 1, 0, -1):
        state += np.uint64(0x9E3779B97F4A7C15)
        j = np.int64(scramble(state) % np.uint64(i + 1))
        for k in range(3):
            a, b = 3 * (begin + i) + k, 3 * (begin + j) + k
            pairs[a], pairs[b] = pairs[b], pairs[a]


@njit(nogil=True, cache=True)
def stride_of(n, seed):
    """Return a step coprime to n: stepping by it modulo n visits each of n indices once."""
    state = np.uint64(seed)
    while True:
        state += np.uint64(1)
        stride = np.int64(scramble(state) % np.uint64(n)) if n > 1 else np.int64(1)
        a, b = n, stride
        while b:
            a, b = b, a % b
        if a == 1:
            return stride


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def train_block(
    words,
    contexts,
    width,
    first_word,
    first_context,
    pairs,
    facts,
    begin,
    end,
    low,
    high,
    swapped,
    word_starts,
    context_starts,
    seed,
):
    """Train on the cells low..high of a block, in the order of a random stride; return the sum of
    f(x) e^2 / 2.

    e = w.c + b_w + b_c - log x before the cell's update.
    """
    n = end - begin
    if low >= high:
        return 0.0
    stride = stride_of(n, seed)
    at = np.int64(
        (scramble(np.uint64(seed)) % np.uint64(n) + np.uint64(low) * np.uint64(stride))
        % np.uint64(n)
    )
    near = (at + CELLS_AHEAD * stride) % n
    far = (at + CELLS_FAR_AHEAD * stride) % n
    length = 2 * width
    base_word, base_context = first_word * length, first_context * length
    loss = 0.0
    for _ in range(low, high):
        prefetch(pairs, 3 * (begin + far), 0)
        pair = np.int64(pairs[3 * (begin + near)])
        word, context = pair >> 16, pair & 0xFFFF
        if swapped:
            word, context = context, word
        for k in range(0, length, 16):
            prefetch(words, base_word + word * length + k, 0)
            prefetch(contexts, base_context + context * length + k, 0)
        cell = 3 * (begin + at)
        pair = np.int64(pairs[cell])
        log_x, weight = facts[cell + 1], facts[cell + 2]
        word, context = pair >> 16, pair & 0xFFFF
        if swapped:
            word, context = context, word
        row = base_word + word * length
        w, w_squares = words[row : row + width], words[row + width : row + length]
        row = base_context + context * length
        c, c_squares = contexts[row : row + width], contexts[row + width : row + length]
        error = np.float32(0.0)
        for k in range(width):
            error += w[k] * c[k]
        error -= log_x
        slope = weight * error
        loss += np.float64(slope) * np.float64(error)
        for k in range(width):
            for_w, for_c = slope * c[k], slope * w[k]
            w[k] -= for_w / np.sqrt(word_starts[k] + w_squares[k])
            c[k] -= for_c / np.sqrt(context_starts[k] + c_squares[k])
            w_squares[k] += for_w * for_w
            c_squares[k] += for_c * for_c
        at += stride
        at -= n if at >= n else 0
        near += stride
        near -= n if near >= n else 0
        far += stride
        far -= n if far >= n else 0
    return 0.5 * loss
