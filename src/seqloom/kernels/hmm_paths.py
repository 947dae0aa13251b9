"""Best paths through hidden Markov models (Viterbi 1967) of order one and two, and random walks.

There are no back-pointers: only scores are stored, and tracing back scores the few candidates before the
one state on the path again. So the loop over targets has only additions and maxima. Scores are logarithms;
-inf is an impossible path; NaN and +inf do not occur (`nnan`).
"""

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def last_best(scores, moves):
    """Return the highest i with the largest scores[i] + moves[i]."""
    best, index = -np.inf, 0
    for i in range(len(scores)):
        value = scores[i] + moves[i]
        if value >= best:
            best, index = value, i
    return index


@njit(nogil=True, cache=True, fastmath={"nnan", "nsz"})
def arrive(scores, first, n, transitions, table, symbols, at, work):
    """Compute scores[at + r, j] = max_i scores[first + r, i] + transitions[i, j] +
    table[symbols[at + r], j] for r < n.

    The width is a multiple of four. The maximum goes back and forth between two rows because LLVM
    would turn an update in place into a masked store, which is slow.
    """
    width = len(transitions)
    old, new = work[0], work[1]
    for r in range(n):
        old[:] = -np.inf
        for i in range(0, width, 4):
            a, b, c, d = (
                scores[first + r, i],
                scores[first + r, i + 1],
                scores[first + r, i + 2],
                scores[first + r, i + 3],
            )
            m0, m1, m2, m3 = (
                transitions[i],
                transitions[i + 1],
                transitions[i + 2],
                transitions[i + 3],
            )
            for j in range(width):
                u, v, w, z = m0[j] + a, m1[j] + b, m2[j] + c, m3[j] + d
                u = u if u > v else v
                w = w if w > z else z
                u = u if u > w else w
                v = old[j]
                new[j] = u if u > v else v
            old, new = new, old
        into, emission = scores[at + r], table[symbols[at + r]]
        for j in range(width):
            into[j] = old[j] + emission[j]


@njit(nogil=True, cache=True, fastmath={"nnan", "nsz"})
def arrive_eight(scores, first, n, transitions, table, symbols, at):
    """Run `arrive` for a width of eight, where all sources fit into one pass, in half the time."""
    m0, m1, m2, m3 = transitions[0], transitions[1], transitions[2], transitions[3]
    m4, m5, m6, m7 = transitions[4], transitions[5], transitions[6], transitions[7]
    for r in range(n):
        x, into, emission = scores[first + r], scores[at + r], table[symbols[at + r]]
        a, b, c, d, e, f, g, h = x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]
        for j in range(len(m0)):  # not 8: LLVM would unroll it before it can use vectors
            u, v, w, z = m0[j] + a, m1[j] + b, m2[j] + c, m3[j] + d
            u = u if u > v else v
            w = w if w > z else z
            u = u if u > w else w
            k, v, w, z = m4[j] + e, m5[j] + f, m6[j] + g, m7[j] + h
            k = k if k > v else v
            w = w if w > z else z
            k = k if k > w else w
            into[j] = (u if u > k else k) + emission[j]


@njit(nogil=True, cache=True, fastmath={"nnan", "nsz"})
def best_paths(
    start, transitions, incoming, table, symbols, offsets, lengths, where, scores, states, joints
):
    """Run Viterbi over a batch packed by time (see kernels/hmm.py): states[where[row]], joints[l]
    = log p(path, symbols).

    Everything is a logarithm and padded with -inf to a width that is a multiple of four; incoming =
    transitions.T. scores, (rows, P), is working memory. Equal paths: the lowest last state, then
    always the highest one before it.
    """
    width = len(start)
    work = np.empty((2, width))
    for t in range(len(offsets) - 1):
        first, end = offsets[t], offsets[t + 1]
        if t > 0:
            if width == 8:
                arrive_eight(
                    scores, offsets[t - 1], end - first, transitions, table, symbols, first
                )
            else:
                arrive(
                    scores, offsets[t - 1], end - first, transitions, table, symbols, first, work
                )
            continue
        for row in range(end):
            into, emission = scores[row], table[symbols[row]]
            for j in range(width):
                into[j] = start[j] + emission[j]
    for lane in range(len(lengths)):
        joints[lane] = 0.0
        if lengths[lane] == 0:
            continue
        row = offsets[lengths[lane] - 1] + lane
        following = np.argmax(scores[row])
        joints[lane] = scores[row, following]
        states[where[row]] = following
        for t in range(lengths[lane] - 2, -1, -1):
            row = offsets[t] + lane
            following = last_best(scores[row], incoming[following])
            states[where[row]] = following


@njit(nogil=True, cache=True, fastmath={"nnan", "nsz"})
def best_before(scores, row, allowed, moves):
    """Return the largest score of arriving, over the tags before last: (value, its index in
    `allowed`).
    """
    best, index = -np.inf, 0
    for q in range(len(allowed)):
        value = scores[row + q] + moves[allowed[q]]
        if value > best:
            best, index = value, q
    return best, index


@njit(nogil=True, cache=True)
def best_tags(arriving, emissions, begins, lengths, firsts, tags, out, joints):
    """Run second-order Viterbi. arriving[v, w, u] = log p(w | u, v), (S + 1, S + 1, S + 1), where
    S is the sentence boundary.

    tags[firsts[i]:firsts[i + 1]] are the tags that token i may have, emissions[i, tag] its
    log-score, (T, S). A state is the pair of the last two tags; the scores of step t are indexed [v,
    u] over the allowed tags of t and t - 1. joints[n] = log-score of the best tagging of sequence
    n; its tags are in out, (T,).
    """
    boundary = np.array([len(arriving) - 1], np.int64)
    for n in range(len(begins)):
        begin, steps = begins[n], lengths[n]
        # where the scores of a step begin; step -1 is the pair (boundary, boundary)
        starts = np.empty(steps + 1, np.int64)
        size = 1
        for t in range(steps):
            starts[t] = size
            here = firsts[begin + t + 1] - firsts[begin + t]
            size += here * (firsts[begin + t] - firsts[begin + t - 1] if t > 0 else 1)
        scores = np.empty(size)
        scores[0] = 0.0
        for t in range(steps):
            i = begin + t
            here = tags[firsts[i] : firsts[i + 1]]
            last = tags[firsts[i - 1] : firsts[i]] if t > 0 else boundary
            earlier = tags[firsts[i - 2] : firsts[i - 1]] if t > 1 else boundary
            source = starts[t - 1] if t > 0 else 0
            for k in range(len(here)):
                for q in range(len(last)):
                    value, _ = best_before(
                        scores, source + q * len(earlier), earlier, arriving[last[q], here[k]]
                    )
                    scores[starts[t] + k * len(last) + q] = value + emissions[i, here[k]]
        joints[n] = end_and_trace(
            arriving, begin, steps, firsts, tags, scores, starts, boundary, out
        )


@njit(nogil=True, cache=True)
def end_and_trace(arriving, begin, steps, firsts, tags, scores, starts, boundary, out):
    """Choose the best last pair, including the transition to the boundary, and trace the path back;
    return the score.
    """
    end = boundary[0]
    if steps == 0:
        return 0.0
    i = begin + steps - 1
    current = tags[firsts[i] : firsts[i + 1]]
    last = tags[firsts[i - 1] : firsts[i]] if steps > 1 else boundary
    best, k, q = -np.inf, 0, 0
    for a in range(len(current)):
        value, b = best_before(
            scores, starts[steps - 1] + a * len(last), last, arriving[current[a], end]
        )
        if value > best:
            best, k, q = value, a, b
    for t in range(steps - 1, -1, -1):
        i = begin + t
        current = tags[firsts[i] : firsts[i + 1]]
        out[i] = current[k]
        if t == 0:
            break
        last = tags[firsts[i - 1] : firsts[i]]
        earlier = tags[firsts[i - 2] : firsts[i - 1]] if t > 1 else boundary
        _, u = best_before(
            scores, starts[t - 1] + q * len(earlier), earlier, arriving[last[q], current[k]]
        )
        k, q = q, u
    return best


@njit(nogil=True, cache=True)
def walk(cumulative, uniforms, out):
    """Sample a path: row 0 of cumulative is for the start, row i + 1 for the transitions from state i,
    (S + 1, S).
    """
    last = cumulative.shape[1] - 1
    state = -1
    for t in range(len(out)):
        state = min(np.searchsorted(cumulative[state + 1], uniforms[t], side="right"), last)
        out[t] = state
