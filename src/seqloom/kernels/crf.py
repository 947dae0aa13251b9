"""What a linear-chain conditional random field (Lafferty et al. 2001) needs beside the passes of `kernels/hmm`.

Its forward and backward pass are those of a hidden Markov model whose tables do not sum to one: exp(transitions) stands for
the transitions, exp(emissions) for p(symbol | state), and the scores of the first and the last tag are added to the
emissions there. So a batch is packed by time in the same way: rows of step t are offsets[t] to offsets[t + 1], one for each
sequence that is that long, l = 0, 1, ... by falling length; and tags are padded with impossible ones, -inf, to a width that is
a multiple of four.

Scaled beliefs are right as long as nothing that is possible becomes zero. Emissions of one step within RANGE of each
other, transitions within STEP, beliefs above LEAST: their product is still a number, so a zero means impossible. Other
sequences are marked as not `clear`, and done again with logarithms.
"""

import math

import numpy as np
from numba import njit

RANGE = 250.0
STEP = 135.0
LEAST = 1e-120


@njit(nogil=True, cache=True)
def gather(emissions, where, offsets, lengths, start, end, table):
    """table[row] = emissions[where[row]] (N, K) as float64, with the scores of the first and the last tag, and padding."""
    n_tags, width = emissions.shape[1], table.shape[1]
    for t in range(len(offsets) - 1):
        for row in range(offsets[t], offsets[t + 1]):
            into, values = table[row], emissions[where[row]]
            for j in range(n_tags):
                into[j] = values[j]
            for j in range(n_tags, width):
                into[j] = -np.inf
            if t == 0:
                for j in range(n_tags):
                    into[j] += start[j]
            if t == lengths[row - offsets[t]] - 1:
                for j in range(n_tags):
                    into[j] += end[j]


@njit(nogil=True, cache=True)
def score_paths(table, transitions, tags, where, offsets, scores):
    """scores[l] = the sum along the path tags[where[row]], from what `gather` left."""
    scores[:] = 0.0
    for t in range(len(offsets) - 1):
        for row in range(offsets[t], offsets[t + 1]):
            lane, tag = row - offsets[t], tags[where[row]]
            scores[lane] += table[row, tag]
            if t > 0:
                scores[lane] += transitions[tags[where[offsets[t - 1] + lane]], tag]


@njit(nogil=True, cache=True)
def exponentiate(table, offsets, shifts, clear):
    """table[row] = exp(table[row] - its largest), whose sum over a sequence is shifts[l].

    A sequence is not clear where a possible tag is too far below the best, or anything is NaN or +inf.
    """
    width = table.shape[1]
    shifts[:] = 0.0
    clear[:] = True
    for t in range(len(offsets) - 1):
        for row in range(offsets[t], offsets[t + 1]):
            lane, values = row - offsets[t], table[row]
            top, low, total = -np.inf, np.inf, 0.0
            for j in range(width):
                value = values[j]
                total += value
                top = value if value > top else top
                low = value if -np.inf < value < low else low
            if not (total < np.inf and -np.inf < top < np.inf and top - low <= RANGE):
                clear[lane] = False
                values[:] = 0.0
                continue
            shifts[lane] += top
            for j in range(width):
                values[j] = math.exp(values[j] - top)


@njit(nogil=True, cache=True)
def set_aside(beliefs, scales, offsets, clear):
    """Marks what became too small in `forward` as not clear; beliefs of all that is not clear become zero."""
    width = beliefs.shape[1]
    for t in range(len(offsets) - 1):
        for row in range(offsets[t], offsets[t + 1]):
            low, belief = 1.0, beliefs[row]
            for j in range(width):
                low = belief[j] if 0.0 < belief[j] < low else low
            if low < LEAST or not scales[row] > 0.0:
                clear[row - offsets[t]] = False
    for t in range(len(offsets) - 1):
        for row in range(offsets[t], offsets[t + 1]):
            if not clear[row - offsets[t]]:
                beliefs[row] = 0.0


@njit(nogil=True, cache=True)
def subtract_paths(tags, where, offsets, weights, counts, pairs):
    """Takes the paths tags[where[row]], each weights[l] times, from how often tags and pairs were expected."""
    for t in range(len(offsets) - 1):
        for row in range(offsets[t], offsets[t + 1]):
            lane, tag = row - offsets[t], tags[where[row]]
            counts[row, tag] -= weights[lane]
            if t > 0:
                pairs[tags[where[offsets[t - 1] + lane]], tag] -= weights[lane]


@njit(nogil=True, cache=True)
def spread(counts, where, offsets, lengths, out, first, last):
    """out[where[row]] (N, K) = counts[row] without the padding; first and last (K,) add up those of the ends."""
    n_tags = out.shape[1]
    for t in range(len(offsets) - 1):
        for row in range(offsets[t], offsets[t + 1]):
            into, values = out[where[row]], counts[row]
            for j in range(n_tags):
                into[j] = values[j]
            if t == 0:
                for j in range(n_tags):
                    first[j] += values[j]
            if t == lengths[row - offsets[t]] - 1:
                for j in range(n_tags):
                    last[j] += values[j]
