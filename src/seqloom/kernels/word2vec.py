"""One pass of word2vec or fastText over a part of a text (Mikolov et al. 2013; Bojanowski et al. 2017).

A word's vector is composed of the rows of its bag: its own row alone (word2vec), with the rows of its
character n-grams (fastText: their mean), or those of its n-grams alone (charngram). With skip-gram each word
near the current one predicts it, with CBOW their mean does. All are trained against the same few outputs (the
word itself with shared negatives, or the nodes on its path in the tree), so that single dot products become a
small matrix product, and a row is fetched once for a window, not once for a pair (Ji et al. 2016,
"Parallelizing Word2Vec in Shared and Distributed Memory").

For CBOW with n-grams the words of the window are in a ring: composed when they enter, and their updates
written back to their rows when they leave. Skip-gram with n-grams is inverted, as in fastText: a word is
composed once and predicts each of its neighbours, with separate negatives, because updates of rows that many
words share must not be delayed. Without a ring, runs of words from several positions (CURSORS) are read in
turn: consecutive text has one subject for long, and vectors that follow it forget the others. Rows are padded
with zeros to a multiple of LANES.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from seqloom.kernels.intrinsics import prefetch_row, random_bits
from seqloom.kernels.maths import softmax

LANES = 32  # float32 that a loop takes at once, without remainder
NEGATIVE, TREE, ALL = 0, 1, 2  # what a word is predicted with
# how the rows of a word become one vector; OWN: row w is word w
MEAN, SUM, WEIGHTED, ATTENTION, OWN = range(5)
# END and GONE of models/word_vectors/reading.py
_END, _GONE = np.uint32(0xFFFFFFFF), np.uint32(0xFFFFFFFE)
BOUND, CELLS = 8.0, 4096  # the tables of sigmoid and softplus go from -BOUND to BOUND
_MAX_WEIGHT = np.float32(4)  # attention: largest magnitude of an n-gram's log-weight
CURSORS = 12  # positions that are read in turn, so that no subject dominates the vectors for long
RUN = 16  # words read at one of them: neighbours share most of their windows
_OUTPUTS_PER_PASS = 3  # outputs computed at once: their sums fit into the registers
_FAST = {"reassoc", "contract", "nsz", "arcp"}  # sums in any order; NaN stays NaN


@njit(nogil=True, cache=True)
def _subsample(ids, keep, state, sampled):
    """Write the words without most of the very frequent ones to `sampled`, with -1 at the end of a unit;
    return how many.
    """
    n = 0
    for t in range(len(ids)):
        w = ids[t]
        if w == _END:
            sampled[n] = -1
            n += 1
        elif w != _GONE and np.uint32(random_bits(state) >> np.uint64(32)) <= keep[w]:
            sampled[n] = w
            n += 1
    return n


@njit(nogil=True, cache=True)
def _choose_outputs(word, outputs, state, chosen, labels, sizes, side, Y):
    """Choose the output rows for this word, with labels 1 and 0, or -1 where the negative is the word
    itself, and prefetch them.
    """
    if outputs.kind == TREE:
        low = outputs.ends[word - 1] if word > 0 else 0
        m = outputs.ends[word] - low
        for j in range(m):
            chosen[side, j], labels[side, j] = outputs.nodes[low + j], outputs.turns[low + j]
    else:
        m = outputs.negatives + 1
        chosen[side, 0], labels[side, 0] = word, 1
        for j in range(1, m):
            r = random_bits(state)
            k = np.int64(
                ((r & np.uint64(0xFFFFFFFF)) * np.uint64(len(outputs.cut))) >> np.uint64(32)
            )
            alias = np.int64(outputs.alias[k])
            k = alias if np.uint32(r >> np.uint64(32)) > outputs.cut[k] else k
            chosen[side, j], labels[side, j] = k, -1 if k == word else 0
    sizes[side] = m
    for j in range(m):
        prefetch_row(Y, chosen[side, j])


@njit(nogil=True, cache=True)
def _gradient_and_loss(score, label, sigmoid, softplus):
    """Return label - sigmoid(score), the negative gradient of the loss, and the loss."""
    if label < 0:
        return np.float32(0), np.float32(0)
    if abs(score) < np.float32(BOUND):
        at = (score + np.float32(BOUND)) * np.float32(CELLS / (2 * BOUND))
        k = np.int64(at)
        fraction = at - np.float32(k)
        p = sigmoid[k] + fraction * (sigmoid[k + 1] - sigmoid[k])
        loss = softplus[k] + fraction * (softplus[k + 1] - softplus[k])
    else:
        p = np.float32(1) if score > 0 else np.float32(0)
        loss = score if not score < 0 else np.float32(0)  # NaN stays NaN
    return np.float32(label) - p, loss - score if label else loss


@njit(nogil=True, cache=True, fastmath=_FAST)
def _learn_many(
    hidden, slots, n, Y, chosen, labels, side, m, rate, ys, moves, scores, sigmoid, softplus
):
    """Train every hidden vector against every chosen output, updating both. Return the sum of losses."""
    width = hidden.shape[1]
    padded = (m + _OUTPUTS_PER_PASS - 1) // _OUTPUTS_PER_PASS * _OUTPUTS_PER_PASS
    loss = 0.0
    for j in range(m):
        row = chosen[side, j]
        for d in range(width):
            ys[j, d] = Y[row, d]
            moves[j, d] = np.float32(0)
    for i in range(n):
        x = slots[i]
        for j in range(0, padded, _OUTPUTS_PER_PASS):
            s0, s1, s2 = np.float32(0), np.float32(0), np.float32(0)
            for d in range(width):
                v = hidden[x, d]
                s0 += v * ys[j, d]
                s1 += v * ys[j + 1, d]
                s2 += v * ys[j + 2, d]
            scores[j], scores[j + 1], scores[j + 2] = s0, s1, s2
        for j in range(m):
            move, lost = _gradient_and_loss(scores[j], labels[side, j], sigmoid, softplus)
            scores[j] = move * rate
            loss += lost
        for j in range(m, padded):
            scores[j] = np.float32(0)
        for j in range(0, padded, _OUTPUTS_PER_PASS):
            g0, g1, g2 = scores[j], scores[j + 1], scores[j + 2]
            for d in range(width):
                v = hidden[x, d]
                moves[j, d] += g0 * v
                moves[j + 1, d] += g1 * v
                moves[j + 2, d] += g2 * v
        for j in range(0, padded, _OUTPUTS_PER_PASS):
            g0, g1, g2 = scores[j], scores[j + 1], scores[j + 2]
            for d in range(width):
                hidden[x, d] += g0 * ys[j, d] + g1 * ys[j + 1, d] + g2 * ys[j + 2, d]
    for j in range(m):
        row = chosen[side, j]
        for d in range(width):
            Y[row, d] += moves[j, d]
    return loss


@njit(nogil=True, cache=True, fastmath=_FAST)
def _learn_one(hidden, Y, chosen, labels, side, m, rate, scores, sigmoid, softplus):
    """Train the single vector hidden[0] against the chosen outputs, without copies; hidden[1],
    zeros before, receives its update. Return the sum of losses.
    """
    width = hidden.shape[1]
    loss = 0.0
    for j in range(0, m, _OUTPUTS_PER_PASS):
        r0, r1, r2 = chosen[side, j], chosen[side, j + 1], chosen[side, j + 2]
        s0, s1, s2 = np.float32(0), np.float32(0), np.float32(0)
        for d in range(width):
            v = hidden[0, d]
            s0 += v * Y[r0, d]
            s1 += v * Y[r1, d]
            s2 += v * Y[r2, d]
        scores[j], scores[j + 1], scores[j + 2] = s0, s1, s2
    for j in range(m):
        move, lost = _gradient_and_loss(scores[j], labels[side, j], sigmoid, softplus)
        scores[j] = move * rate
        loss += lost
    for j in range(m):
        row, g = chosen[side, j], scores[j]
        for d in range(width):
            y = Y[row, d]
            hidden[1, d] += g * y
            Y[row, d] = y + g * hidden[0, d]
    return loss


@njit(nogil=True, cache=True, fastmath=_FAST)
def _learn_all(hidden, Y, word, rate, scores):
    """Train with a softmax over all words, for small vocabularies; `hidden` as in `_learn_one`. Return
    the loss.
    """
    width = hidden.shape[1]
    for j in range(len(Y)):
        s = np.float32(0)
        for d in range(width):
            s += hidden[0, d] * Y[j, d]
        scores[j] = s
    softmax(scores)
    for j in range(len(Y)):
        g = rate * (np.float32(j == word) - scores[j])
        for d in range(width):
            y = Y[j, d]
            hidden[1, d] += g * y
            Y[j, d] = y + g * hidden[0, d]
    return -np.log(scores[word])


@njit(nogil=True, cache=True)
def _share_out(bags, low, high, shares):
    """Compute the weight of each row in its bag: equal, or by the softmax of `bags.weights`."""
    n = high - low
    if n == 0:
        return
    if bags.kind == MEAN or bags.kind == SUM:
        shares[:n] = np.float32(1) / np.float32(n) if bags.kind == MEAN else np.float32(1)
        return
    for k in range(n):
        shares[k] = bags.weights[bags.rows[low + k]]
    softmax(shares[:n])


@njit(nogil=True, cache=True, fastmath=_FAST)
def _compose(word, X, bags, shares, ring, before, slot):
    """Compose a word's vector from its rows, in its slot of the ring."""
    low, high = bags.ends[word - 1] if word > 0 else 0, bags.ends[word]
    width = X.shape[1]
    _share_out(bags, low, high, shares)
    for d in range(width):
        ring[slot, d] = np.float32(0)
    for k in range(low, high):
        row, share = bags.rows[k], shares[k - low]
        for d in range(width):
            ring[slot, d] += share * X[row, d]
    for d in range(width):
        before[slot, d] = ring[slot, d]


@njit(nogil=True, cache=True, fastmath=_FAST)
def _give_back(word, X, bags, shares, ring, before, slot):
    """Update the rows of the bag so that their mean changes as the word's vector did in the ring."""
    low, high = bags.ends[word - 1] if word > 0 else 0, bags.ends[word]
    width = X.shape[1]
    for d in range(width):
        before[slot, d] = ring[slot, d] - before[slot, d]
    _share_out(bags, low, high, shares)
    if bags.kind == ATTENTION:
        mean_along = np.float32(0)
        for d in range(width):
            mean_along += before[slot, d] * (ring[slot, d] - before[slot, d])
        for k in range(low, high):
            row, along = bags.rows[k], np.float32(0)
            for d in range(width):
                along += before[slot, d] * X[row, d]
            weight = bags.weights[row] + shares[k - low] * (along - mean_along)
            bags.weights[row] = min(max(weight, -_MAX_WEIGHT), _MAX_WEIGHT)
    n = np.float32(high - low)
    for k in range(low, high):
        row, share = bags.rows[k], shares[k - low] * n if bags.kind != SUM else np.float32(1) / n
        for d in range(width):
            X[row, d] += share * before[slot, d]


@njit(nogil=True, cache=True, fastmath=_FAST)
def _mean_of_slots(ring, slots, low, high, hidden):
    """Set hidden[0] to the mean of the slots, and hidden[1] to zeros."""
    share = np.float32(1) / np.float32(high - low)
    width = ring.shape[1]
    for d in range(width):
        hidden[0, d] = hidden[1, d] = np.float32(0)
    for i in range(low, high):
        x = slots[i]
        for d in range(width):
            hidden[0, d] += ring[x, d]
    for d in range(width):
        hidden[0, d] *= share


@njit(nogil=True, cache=True, fastmath=_FAST)
def _move_slots(ring, slots, low, high, hidden):
    """Add the update of their mean to each of the words, as word2vec does."""
    for i in range(low, high):
        x = slots[i]
        for d in range(ring.shape[1]):
            ring[x, d] += hidden[1, d]


@njit(nogil=True, cache=True)
def _near(sampled, n, c, span, ring_size, slots, words):
    """Find the words around c in the same unit, and their slots in the ring; return how many."""
    m = 0
    for step in (-1, 1):
        p = c + step
        while 0 <= p < n and abs(p - c) <= span and sampled[p] >= 0:
            slots[m], words[m] = p % ring_size, sampled[p]
            m += 1
            p += step
    return m


@njit(nogil=True, cache=True)
def _centre(t, n, window, free):
    """Return the index of the centre word at step t: one after the other or, without a ring, from
    CURSORS positions in turn.
    """
    if not free:
        return t - window
    rounds = (n + CURSORS * RUN - 1) // (CURSORS * RUN)
    run = t // RUN
    return (
        run % CURSORS * rounds * RUN + run // CURSORS * RUN + t % RUN
        if 0 <= run < CURSORS * rounds
        else -1
    )


@njit(nogil=True, cache=True)
def train(ids, cbow, X, bags, Y, outputs, keep, window, shrink, rate, seed, sigmoid, softplus):
    """Learn from consecutive ids; X and Y change in place. Return the sum of losses and the number of
    predictions.
    """
    state = np.array([seed], np.uint64)
    for _ in range(8):
        random_bits(state)
    sampled = np.empty(len(ids) + 2, np.int64)
    n = _subsample(ids, keep, state, sampled)
    sampled[n:] = -1
    width, ring_size = X.shape[1], 2 * window + 1
    direct, inverted = bags.kind == OWN, not cbow and bags.kind != OWN
    free = direct or inverted
    before = np.zeros((ring_size, width), np.float32)
    # a word with one row needs no ring
    ring = X if direct else np.zeros((ring_size, width), np.float32)
    hidden = np.zeros((2, width), np.float32)
    max_outputs = outputs.longest + _OUTPUTS_PER_PASS
    ys, moves = (
        np.zeros((max_outputs, width), np.float32),
        np.zeros((max_outputs, width), np.float32),
    )
    scores = np.zeros(len(Y) if outputs.kind == ALL else max_outputs, np.float32)
    # for this word and for the next one
    chosen, labels = np.zeros((2, max_outputs), np.int64), np.zeros((2, max_outputs), np.int8)
    sizes = np.zeros(2, np.int64)
    slots, words, current = (
        np.zeros(ring_size, np.int64),
        np.zeros(ring_size, np.int64),
        np.zeros(1, np.int64),
    )
    shares = np.zeros(bags.longest, np.float32)
    loss, examples = 0.0, 0
    for t in range(-1, n + max(2 * window, CURSORS * RUN)):
        c, after = _centre(t, n, window, free), _centre(t + 1, n, window, free)
        # the words that enter and leave the ring
        new, old = (c, c) if inverted else (t, t - 2 * window)
        if not direct and 0 <= new < n and sampled[new] >= 0:
            _compose(sampled[new], X, bags, shares, ring, before, new % ring_size)
        soon = after if inverted else after + window
        if 0 <= soon < n and sampled[soon] >= 0:
            w = sampled[soon]
            for k in range(bags.ends[w - 1] if w > 0 else 0, bags.ends[w]):
                prefetch_row(X, bags.rows[k])
        side = 0 if inverted else t & 1
        if outputs.kind != ALL and not inverted and 0 <= after < n and sampled[after] >= 0:
            _choose_outputs(sampled[after], outputs, state, chosen, labels, sizes, 1 - side, Y)
        if 0 <= c < n and sampled[c] >= 0:
            span = (
                1 + np.int64((random_bits(state) >> np.uint64(33)) % np.uint64(window))
                if shrink
                else window
            )
            m = _near(sampled, n, c, span, ring_size, slots, words)
            near = words if direct else slots
            if cbow or inverted or outputs.kind == ALL:
                current[0] = c % ring_size
                for i in range(1 if cbow and m > 0 else m):
                    low, high = (0, m) if cbow else (0, 1) if inverted else (i, i + 1)
                    used, word = (current, words[i]) if inverted else (near, sampled[c])
                    _mean_of_slots(ring, used, low, high, hidden)
                    if outputs.kind == ALL:
                        loss += _learn_all(hidden, Y, word, rate, scores)
                    else:
                        if inverted:
                            _choose_outputs(word, outputs, state, chosen, labels, sizes, 0, Y)
                        loss += _learn_one(
                            hidden,
                            Y,
                            chosen,
                            labels,
                            side,
                            sizes[side],
                            rate,
                            scores,
                            sigmoid,
                            softplus,
                        )
                    _move_slots(ring, used, low, high, hidden)
                    examples += 1
            elif m > 0:
                loss += _learn_many(
                    ring,
                    near,
                    m,
                    Y,
                    chosen,
                    labels,
                    side,
                    sizes[side],
                    rate,
                    ys,
                    moves,
                    scores,
                    sigmoid,
                    softplus,
                )
                examples += m
        if not direct and 0 <= old < n and sampled[old] >= 0:
            _give_back(sampled[old], X, bags, shares, ring, before, old % ring_size)
    return loss, examples
