"""A linear classifier over the mean of the rows of a text's features, learnt by stochastic gradient
descent (Joulin et al. 2016, "Bag of Tricks for Efficient Text Classification").

    h = mean of X[row]        p = softmax(Y h)        loss = -log p[label]

With a tree (Morin and Bengio 2005) a class is a path from the root, and p the product of the binary
decisions at its nodes. Rows come in the order in which they are read, so those a few positions
ahead can be prefetched (`prefetch_row`); otherwise a text of rare n-grams waits for memory at each row.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from seqloom.kernels.intrinsics import prefetch_row
from seqloom.kernels.maths import softmax

_AHEAD = 8  # rows being prefetched
_FAST = {"reassoc", "contract", "nsz", "arcp"}  # sums in any order; NaN stays NaN
_ONE, _ZERO = np.float32(1), np.float32(0)


@njit(nogil=True, cache=True)
def fill_random(X, width, first, seed):
    """Fill the first `width` numbers of each row with values between -1/width and 1/width: a
    32-bit hash of (seed, row, column).

    A hash can be computed for many columns at once; a generator would go one by one.
    """
    scale, low = np.float32(2.0 / width / 2.0**24), np.float32(-1.0 / width)
    for r in range(len(X)):
        mixed = (seed + np.uint64(first + r)) * np.uint64(0xD1B54A32D192ED03)
        base = np.uint32((mixed ^ (mixed >> np.uint64(29))) >> np.uint64(32))
        for d in range(width):
            z = np.uint32(base + np.uint32(d) * np.uint32(0x9E3779B9))
            z = np.uint32((z ^ (z >> np.uint32(16))) * np.uint32(0x7FEB352D))
            z = np.uint32((z ^ (z >> np.uint32(15))) * np.uint32(0x846CA68B))
            z = z ^ (z >> np.uint32(16))
            X[r, d] = np.float32(np.int32(z >> np.uint32(8))) * scale + low


@njit(nogil=True, cache=True)
def narrow(flat, n, wide, width):
    """Cut rows of `wide` numbers to their first `width`, in the same memory."""
    for r in range(n):
        for d in range(width):
            flat[r * width + d] = flat[r * wide + d]


@njit(nogil=True, cache=True, fastmath=_FAST)
def _mean(X, rows, low, high, hidden):
    """Compute the mean of X[rows[low:high]]; at least one row."""
    width = len(hidden)
    for d in range(width):
        hidden[d] = _ZERO
    unrolled = low + (high - low) // 4 * 4
    # four at once, so that `hidden` is read and written a quarter as often
    for k in range(low, unrolled, 4):
        for ahead in range(k + _AHEAD, min(k + _AHEAD + 4, high)):
            prefetch_row(X, rows[ahead])
        a, b, c, e = rows[k], rows[k + 1], rows[k + 2], rows[k + 3]
        for d in range(width):
            hidden[d] += (X[a, d] + X[b, d]) + (X[c, d] + X[e, d])
    for k in range(unrolled, high):
        a = rows[k]
        for d in range(width):
            hidden[d] += X[a, d]
    share = _ONE / np.float32(high - low)
    for d in range(width):
        hidden[d] *= share


@njit(nogil=True, cache=True, fastmath=_FAST)
def _learn_softmax(hidden, Y, label, rate, scores, update):
    """Update the output rows; `update` becomes the update of the hidden vector. Return the loss."""
    width = len(hidden)
    for c in range(len(Y)):
        s = _ZERO
        for d in range(width):
            s += hidden[d] * Y[c, d]
        scores[c] = s
    softmax(scores)
    for d in range(width):
        update[d] = _ZERO
    for c in range(len(Y)):
        g = rate * (np.float32(c == label) - scores[c])
        for d in range(width):
            y = Y[c, d]
            update[d] += g * y
            Y[c, d] = y + g * hidden[d]
    return -np.log(scores[label])


@njit(nogil=True, cache=True, fastmath=_FAST)
def _learn_tree(hidden, Y, low, high, nodes, turns, rate, update):
    """Update the nodes on the path to a class; `update` becomes the update of the hidden vector.
    Return the loss.
    """
    width = len(hidden)
    loss = _ZERO
    for d in range(width):
        update[d] = _ZERO
    for j in range(low, high):
        node = nodes[j]
        s = _ZERO
        for d in range(width):
            s += hidden[d] * Y[node, d]
        small = np.exp(-abs(s))
        p = (_ONE if s > 0 else small) / (_ONE + small)
        wrong = -s if turns[j] else s
        loss += max(wrong, _ZERO) + np.log(_ONE + small)
        g = rate * (np.float32(turns[j]) - p)
        for d in range(width):
            y = Y[node, d]
            update[d] += g * y
            Y[node, d] = y + g * hidden[d]
    return loss


@njit(nogil=True, cache=True, fastmath=_FAST)
def train(order, rows, row_offsets, labels, X, Y, ends, nodes, turns, first, last):
    """Learn from the texts `order`, the rate falling from `first` to `last`; X and Y change in place.

    ends, nodes, turns: the tree, nodes[ends[c - 1]:ends[c]] for class c; empty for softmax. Return the
    sum of the losses and the number of texts.
    """
    width = X.shape[1]
    hidden, update = np.empty(width, np.float32), np.empty(width, np.float32)
    scores = np.empty(len(Y), np.float32)
    loss, n_texts = 0.0, 0
    for i in range(len(order)):
        doc = order[i]
        low, high = row_offsets[doc], row_offsets[doc + 1]
        if low == high:
            continue
        rate = np.float32(first + (last - first) * i / len(order))
        _mean(X, rows, low, high, hidden)
        if i + 1 < len(order):  # prefetch the beginning of the next text during the arithmetic
            after = row_offsets[order[i + 1]]
            for k in range(after, min(after + _AHEAD, row_offsets[order[i + 1] + 1])):
                prefetch_row(X, rows[k])
        label = labels[doc]
        if len(ends):
            loss += _learn_tree(
                hidden,
                Y,
                ends[label - 1] if label > 0 else 0,
                ends[label],
                nodes,
                turns,
                rate,
                update,
            )
        else:
            loss += _learn_softmax(hidden, Y, label, rate, scores, update)
        share = _ONE / np.float32(high - low)
        for d in range(width):
            update[d] *= share
        for k in range(low, high):
            row = rows[k]
            for d in range(width):
                X[row, d] += update[d]
        n_texts += 1
    return loss, n_texts


@njit(nogil=True, cache=True, fastmath=_FAST)
def score(rows, row_offsets, X, Y, out):
    """Compute out (n, C) = Y h of each text; zeros if it has no feature."""
    hidden = np.empty(X.shape[1], np.float32)
    for doc in range(len(out)):
        if row_offsets[doc] == row_offsets[doc + 1]:
            out[doc] = 0
            continue
        _mean(X, rows, row_offsets[doc], row_offsets[doc + 1], hidden)
        for c in range(len(Y)):
            s = _ZERO
            for d in range(len(hidden)):
                s += hidden[d] * Y[c, d]
            out[doc, c] = s


@njit(nogil=True, cache=True, fastmath=_FAST)
def score_codes(rows, row_offsets, codes, centroids, norm_codes, norms, Y, out):
    """Compute the scores for quantised rows: a length, norms[norm_codes[row]], times one of 256
    centroids for each two dimensions.

    codes (R, S), centroids (S, 256, 2), Y (C, 2 S). The rows are never unpacked: their mean is summed
    from the centroids.
    """
    parts = codes.shape[1]
    hidden = np.empty(2 * parts, np.float32)
    for doc in range(len(out)):
        low, high = row_offsets[doc], row_offsets[doc + 1]
        hidden[:] = 0
        for k in range(low, high):
            row = rows[k]
            norm = norms[norm_codes[row]]
            for s in range(parts):
                code = codes[row, s]
                hidden[2 * s] += norm * centroids[s, code, 0]
                hidden[2 * s + 1] += norm * centroids[s, code, 1]
        share = _ONE / np.float32(max(high - low, 1))
        for c in range(len(Y)):
            s = _ZERO
            for d in range(len(hidden)):
                s += hidden[d] * Y[c, d]
            out[doc, c] = s * share


@njit(nogil=True, cache=True)
def tree_log_probs(scores, ends, nodes, turns, out):
    """Compute out (n, C), float64: the log-probability of each class from the scores of all nodes
    (n, C - 1).
    """
    for doc in range(len(out)):
        low = 0
        for c in range(out.shape[1]):
            total = 0.0
            for j in range(low, ends[c]):
                s = np.float64(scores[doc, nodes[j]])
                wrong = -s if turns[j] else s
                total -= max(wrong, 0.0) + np.log1p(np.exp(-abs(s)))
            out[doc, c] = total
            low = ends[c]
