"""Forward and backward passes of a hidden Markov model (Rabiner 1989, section III and V) and of a
linear-chain conditional random field (Lafferty et al. 2001), many sequences at once.

A batch is packed by time: its sequences are sorted by falling length, and the rows of step t are
offsets[t] to offsets[t + 1], one for each sequence that is that long. So row l of step t + 1
follows row l of step t, and a step is a small matrix product. States are padded with impossible
ones to a width P that is a multiple of four. table[symbols[row]], (P,), are the probabilities of a row's
symbol in each state.

Beliefs are scaled to sum to one (their normaliser is p(symbol | past)); a step with less than TINY
leaves zeros, and `log_pass` then computes that sequence with logarithms. Products are written as dot
products of rows, four rows by two, because LLVM then keeps the sums in registers; that needs permission
to reorder sums (`reassoc`), but none that would exclude infinities.
"""

import math

import numpy as np
from numba import njit

TINY = 1e-290
HUGE = 1e290
BLOCK = 64  # rows whose outer products are added together


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"})
def multiply(x, first, n, matrix, out, at):
    """Compute out[at + r, j] = sum_i x[first + r, i] matrix[j, i] for r < n; all widths multiples
    of four.
    """
    width, inner = matrix.shape
    r = 0
    while r + 4 <= n:
        x0, x1, x2, x3 = x[first + r], x[first + r + 1], x[first + r + 2], x[first + r + 3]
        for j in range(0, width, 2):
            m0, m1 = matrix[j], matrix[j + 1]
            a = b = c = d = e = f = g = h = 0.0
            for i in range(inner):
                a += x0[i] * m0[i]
                b += x0[i] * m1[i]
                c += x1[i] * m0[i]
                d += x1[i] * m1[i]
                e += x2[i] * m0[i]
                f += x2[i] * m1[i]
                g += x3[i] * m0[i]
                h += x3[i] * m1[i]
            to = at + r
            out[to, j], out[to, j + 1], out[to + 1, j], out[to + 1, j + 1] = a, b, c, d
            out[to + 2, j], out[to + 2, j + 1], out[to + 3, j], out[to + 3, j + 1] = e, f, g, h
        r += 4
    for q in range(r, n):
        x0 = x[first + q]
        for j in range(0, width, 4):
            m0, m1, m2, m3 = matrix[j], matrix[j + 1], matrix[j + 2], matrix[j + 3]
            a = b = c = d = 0.0
            for i in range(inner):
                a += x0[i] * m0[i]
                b += x0[i] * m1[i]
                c += x0[i] * m2[i]
                d += x0[i] * m3[i]
            out[at + q, j], out[at + q, j + 1], out[at + q, j + 2], out[at + q, j + 3] = a, b, c, d


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"})
def forward(start, incoming, table, symbols, offsets, beliefs, scales):
    """Predict, correct, normalise: beliefs[row] = p(state | symbols so far), scales[row] = p(symbol | past).

    incoming[j, i] = p(j | i), (P, P): the transposed transitions. From a step below TINY on all is zero.
    """
    width = len(start)
    for t in range(len(offsets) - 1):
        first, end = offsets[t], offsets[t + 1]
        if t == 0:
            for row in range(end):
                beliefs[row] = start
        else:
            multiply(beliefs, offsets[t - 1], end - first, incoming, beliefs, first)
        for row in range(first, end):
            belief, emission = beliefs[row], table[symbols[row]]
            total = 0.0
            for j in range(width):
                belief[j] *= emission[j]
                total += belief[j]
            possible = total >= TINY
            scales[row] = total if possible else 0.0
            inverse = 1.0 / total if possible else 0.0
            for j in range(width):
                belief[j] *= inverse


@njit(nogil=True, cache=True)
def log_products(scales, offsets, out):
    """Compute out[l] = sum over steps of log scales, of sequence l; one logarithm for many factors.

    Products of probabilities only fall; the scales of a CRF may be above one, so HUGE is checked too.
    """
    products = np.ones(len(out))
    out[:] = 0.0
    for t in range(len(offsets) - 1):
        for row in range(offsets[t], offsets[t + 1]):
            lane = row - offsets[t]
            product = products[lane] * scales[row]
            if product < TINY or product > HUGE:
                out[lane] += math.log(products[lane]) if products[lane] > 0.0 else -np.inf
                product = scales[row]
            products[lane] = product
    for lane in range(len(out)):
        out[lane] += math.log(products[lane]) if products[lane] > 0.0 else -np.inf


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"})
def add_products(left, right, k, out):
    """Compute out[i, j] += sum of left[i, :k] right[j, :k]."""
    width = len(out)
    for i in range(0, width, 4):
        x0, x1, x2, x3 = left[i], left[i + 1], left[i + 2], left[i + 3]
        for j in range(0, width, 2):
            m0, m1 = right[j], right[j + 1]
            a = b = c = d = e = f = g = h = 0.0
            for r in range(k):
                a += x0[r] * m0[r]
                b += x0[r] * m1[r]
                c += x1[r] * m0[r]
                d += x1[r] * m1[r]
                e += x2[r] * m0[r]
                f += x2[r] * m1[r]
                g += x3[r] * m0[r]
                h += x3[r] * m1[r]
            out[i, j] += a
            out[i, j + 1] += b
            out[i + 1, j] += c
            out[i + 1, j + 1] += d
            out[i + 2, j] += e
            out[i + 2, j + 1] += f
            out[i + 3, j] += g
            out[i + 3, j + 1] += h


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"})
def smooth(
    transitions,
    table,
    symbols,
    offsets,
    beliefs,
    scales,
    weights,
    targets,
    counts,
    firsts,
    pairs,
    want_pairs,
):
    """Run the backward pass after `forward`: counts[targets[row]] += p(state | whole sequence)
    weights[sequence]; firsts, (P,), sums the same of the first step alone.

    With w = p(symbol | state) beta / scale (`message`), an expected transition is the sum of belief_i
    A_ij w_j; A_ij does not depend on time, so pairs, (P, P), sums only the outer products and the caller
    multiplies by A once. Where a belief is zero, w is set to zero: it has no effect there, and beta could
    grow without bound.
    """
    width = len(transitions)
    widest = offsets[1] if len(offsets) > 1 else 0
    beta = np.empty((widest, width))
    weight = np.empty((widest, width))
    # not a power of two, so that a column does not fall on few cache lines
    outgoing = np.empty((width, BLOCK + 8))
    incoming = np.empty((width, BLOCK + 8))
    filled = 0
    following = 0
    for t in range(len(offsets) - 2, -1, -1):
        first = offsets[t]
        n = offsets[t + 1] - first
        multiply(weight, 0, following, transitions, beta, 0)
        for lane in range(following, n):
            beta[lane] = weights[lane]
        for lane in range(n):
            row = first + lane
            belief, ahead, sums = beliefs[row], beta[lane], counts[targets[row]]
            for j in range(width):
                sums[j] += belief[j] * ahead[j]
            if t == 0:
                for j in range(width):
                    firsts[j] += belief[j] * ahead[j]
                continue
            emission, message = table[symbols[row]], weight[lane]
            inverse = 1.0 / scales[row] if scales[row] > 0.0 else 0.0
            for j in range(width):
                value = emission[j] * ahead[j] * inverse
                message[j] = value if belief[j] > TINY else 0.0
            if want_pairs:
                before = beliefs[offsets[t - 1] + lane]
                for j in range(width):
                    outgoing[j, filled] = before[j]
                    incoming[j, filled] = message[j]
                filled += 1
                if filled == BLOCK:
                    add_products(outgoing, incoming, filled, pairs)
                    filled = 0
        following = n
    if filled:
        add_products(outgoing, incoming, filled, pairs)


@njit(nogil=True, cache=True)
def add_rows(rows, counts, out):
    """Add out[rows[k]] += counts[k]; out may be narrower, without the padding."""
    width = out.shape[1]
    for k in range(len(rows)):
        into, values = out[rows[k]], counts[k]
        for j in range(width):
            into[j] += values[j]


@njit(nogil=True, cache=True)
def log_sum(values):
    """Return the log of the sum of exp; -inf if all values are."""
    top = -np.inf
    for value in values:
        top = max(top, value)
    if top == -np.inf:
        return top
    total = 0.0
    for value in values:
        total += math.exp(value - top)
    return top + math.log(total)


@njit(nogil=True, cache=True)
def log_pass(
    log_start, log_transitions, log_emissions, beliefs, log_scales, smoothed, pairs, want_smoothed
):
    """Run one sequence with logarithms throughout: slow, and no step can underflow.

    log_emissions, (T, S): log p(symbol | state). Fill beliefs and smoothed (T, S) and log_scales (T,),
    and add the expected transitions, complete with A, to pairs (S, S). After an impossible step all is
    zero; return whether there was none.
    """
    steps, width = log_emissions.shape
    alpha = np.full((steps, width), -np.inf)
    part = np.empty(width)
    beliefs[:] = 0.0
    smoothed[:] = 0.0
    log_scales[:] = -np.inf
    for t in range(steps):
        for j in range(width):
            if t == 0:
                alpha[t, j] = log_start[j] + log_emissions[t, j]
            else:
                for i in range(width):
                    part[i] = alpha[t - 1, i] + log_transitions[i, j]
                alpha[t, j] = log_sum(part) + log_emissions[t, j]
        log_scales[t] = log_sum(alpha[t])
        if log_scales[t] == -np.inf:
            return False
        for j in range(width):
            alpha[t, j] -= log_scales[t]
            beliefs[t, j] = math.exp(alpha[t, j])
    if not want_smoothed:
        return True
    beta = np.zeros(width)
    message = np.empty(width)
    for t in range(steps - 1, -1, -1):
        for j in range(width):
            smoothed[t, j] = math.exp(alpha[t, j] + beta[j])
            message[j] = log_emissions[t, j] + beta[j] - log_scales[t]
        if t == 0:
            break
        for i in range(width):
            for j in range(width):
                part[j] = log_transitions[i, j] + message[j]
                pairs[i, j] += math.exp(alpha[t - 1, i] + part[j])
            beta[i] = log_sum(part)
    return True


@njit(nogil=True, cache=True)
def pack(begins, offsets, where):
    """Set where[row] = position of the row in the flat data; `begins` are those of the sequences, by
    falling length.
    """
    for t in range(len(offsets) - 1):
        for row in range(offsets[t], offsets[t + 1]):
            where[row] = begins[row - offsets[t]] + t


@njit(nogil=True, cache=True)
def renumber(ids, where, number, symbols):
    """Number the symbols in order of first occurrence: set symbols[row] to the number, and return the
    distinct symbols in that order.

    number, (K,), must be -1 everywhere, and is restored.
    """
    distinct = np.empty(min(len(where), len(number)), np.int64)
    count = 0
    for row in range(len(where)):
        symbol = ids[where[row]]
        if number[symbol] < 0:
            number[symbol] = count
            distinct[count] = symbol
            count += 1
        symbols[row] = number[symbol]
    for k in range(count):
        number[distinct[k]] = -1
    return distinct[:count].copy()


# ---- crf
#
# Its passes are those of a hidden Markov model with tables that do not sum to one: exp(transitions) instead
# of the transitions, exp(emissions) instead of p(symbol | state), and the scores of the first and the last
# tag are added to the emissions there. Padding is -inf.
#
# Scaled beliefs are right as long as nothing possible becomes zero. With emissions of one step within RANGE
# of each other, transitions within STEP and beliefs above MIN_SCALE their product does not underflow, so a
# zero means impossible. Other sequences are marked as not `clear`, and computed again with logarithms.

RANGE = 250.0
STEP = 135.0
MIN_SCALE = 1e-120


@njit(nogil=True, cache=True)
def gather(emissions, where, offsets, lengths, start, end, table):
    """Set table[row] = emissions[where[row]] (N, K) as float64, with the scores of the first and
    the last tag, and padding.
    """
    n_tags, width = emissions.shape[1], table.shape[1]
    for t in range(len(offsets) - 1):
        for row in range(offsets[t], offsets[t + 1]):
            out, values = table[row], emissions[where[row]]
            for j in range(n_tags):
                out[j] = values[j]
            for j in range(n_tags, width):
                out[j] = -np.inf
            if t == 0:
                for j in range(n_tags):
                    out[j] += start[j]
            if t == lengths[row - offsets[t]] - 1:
                for j in range(n_tags):
                    out[j] += end[j]


@njit(nogil=True, cache=True)
def score_paths(table, transitions, tags, where, offsets, scores):
    """Compute scores[l] = the sum along the path tags[where[row]], from the table of `gather`."""
    scores[:] = 0.0
    for t in range(len(offsets) - 1):
        for row in range(offsets[t], offsets[t + 1]):
            lane, tag = row - offsets[t], tags[where[row]]
            scores[lane] += table[row, tag]
            if t > 0:
                scores[lane] += transitions[tags[where[offsets[t - 1] + lane]], tag]


@njit(nogil=True, cache=True)
def exponentiate(table, offsets, shifts, clear):
    """Set table[row] = exp(table[row] - its maximum); shifts[l] is the sum of the maxima of a sequence.

    A sequence is not clear if a possible tag is too far below the best, or anything is NaN or +inf.
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
    """Mark sequences with beliefs too small in `forward` as not clear; set the beliefs of all that are
    not clear to zero.
    """
    width = beliefs.shape[1]
    for t in range(len(offsets) - 1):
        for row in range(offsets[t], offsets[t + 1]):
            low, belief = 1.0, beliefs[row]
            for j in range(width):
                low = belief[j] if 0.0 < belief[j] < low else low
            if low < MIN_SCALE or not scales[row] > 0.0:
                clear[row - offsets[t]] = False
    for t in range(len(offsets) - 1):
        for row in range(offsets[t], offsets[t + 1]):
            if not clear[row - offsets[t]]:
                beliefs[row] = 0.0


@njit(nogil=True, cache=True)
def subtract_paths(tags, where, offsets, weights, counts, pairs):
    """Subtract the paths tags[where[row]], each weights[l] times, from the expected counts of tags
    and pairs.
    """
    for t in range(len(offsets) - 1):
        for row in range(offsets[t], offsets[t + 1]):
            lane, tag = row - offsets[t], tags[where[row]]
            counts[row, tag] -= weights[lane]
            if t > 0:
                pairs[tags[where[offsets[t - 1] + lane]], tag] -= weights[lane]


@njit(nogil=True, cache=True)
def spread(counts, where, offsets, lengths, out, first, last):
    """Set out[where[row]] (N, K) = counts[row] without the padding; first and last (K,) sum those of
    the first and last steps.
    """
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
