"""The decoder of a recurrent encoder-decoder (Bahdanau et al. 2015): attention to the sources, and greedy search for one source
as a single call.

One target at a time is written at the speed of memory: all that a step reads are weights, and most of them are the output
layer's, of which only the largest score is wanted. `likeliest` reads that layer in 4 bits, an eighth of the bytes. From the
length of what rounding took off a row it knows how far each score can be off (Cauchy and Schwarz), and makes the few scores
exactly that can be the largest. Where two of them are so close that another order of their sums could turn them round, it does
not decide, so what is written is what any search over log-probabilities would write. Every other step reads the weights from
their end: what was read last is still in the cache.

`fastmath` and `error_model` as in `kernels/decode`: loops may use vector units; NaN and infinity keep their meaning.
"""

import numpy as np
from numba import njit

from seqloom.kernels.intrinsics import (
    add_scaled,
    at_least,
    dot,
    exp,
    in_order,
    prefetch,
    product_of_row,
    products_of_64,
    softmax,
    tanh32,
    trailing_zeros,
)

FAST = {"reassoc", "contract", "nsz"}
ZERO, ONE = np.float32(0), np.float32(1)
ROUNDING = np.float32(1.3e-7)  # of one addition in float32, in both of two orders
SAFE = np.float32(1.001)  # for the rounding of the limits themselves
LEAST_GAP = np.float32(4e-6)  # of two logits whose log-probabilities differ after rounding
LARGEST_LOGIT = np.float32(1e5)  # as in `kernels/decode`


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def product(weight, x, backwards, out):
    """out (R,) = weight (R, K) times x (K,); four rows at a time, so that x is loaded once for all of them."""
    whole = len(weight) // 4 * 4
    for i in range(0, whole, 4):
        r = whole - 4 - i if backwards else i
        w0, w1, w2, w3 = weight[r], weight[r + 1], weight[r + 2], weight[r + 3]
        dot0 = dot1 = dot2 = dot3 = ZERO
        for j in range(len(x)):
            value = x[j]
            dot0 += w0[j] * value
            dot1 += w1[j] * value
            dot2 += w2[j] * value
            dot3 += w3[j] * value
        out[r], out[r + 1], out[r + 2], out[r + 3] = dot0, dot1, dot2, dot3
    for r in range(whole, len(weight)):
        out[r] = dot(weight[r], x)


# ---- attention


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def additive(query, key, energy):
    """energy . tanh(query + key)."""
    total = ZERO
    for j in range(len(query)):
        total += energy[j] * tanh32(query[j] + key[j])
    return total


@njit(nogil=True, cache=True)
def attend_memory(queries, vectors, keys, borders, source, energy, scale, covered, coverage, out, looked):
    """Of queries (n, Q) to the vectors (N, D), by their keys (N, Q), of each row's source, as in `nn.memory`; what is seen is
    added to out (n, D), and the weights are written to looked (n, S), which has zeros. With an `energy` (Q,) scores are
    additive, else products times `scale`. With `covered` (Q,) a key is shifted by what its step was given before,
    coverage (n, S), to which the weights are added."""
    shifted = np.empty(queries.shape[1], np.float32)
    for row in range(len(queries)):
        low = borders[source[row]]
        steps = borders[source[row] + 1] - low
        if steps == 0:
            continue
        query, weights = queries[row], looked[row, :steps]
        for t in range(steps):
            key = keys[low + t]
            if len(covered) > 0:
                shifted[:] = key
                add_scaled(shifted, coverage[row, t], covered)
                key = shifted
            weights[t] = additive(query, key, energy) if len(energy) > 0 else scale * dot(query, key)
        softmax(weights)
        for t in range(steps):
            add_scaled(out[row], weights[t], vectors[low + t])
        if len(covered) > 0:
            add_scaled(coverage[row, :steps], ONE, weights)


# ---- the likeliest token


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def round_to_bytes(x, rounded):
    """x (D,) in whole numbers from -127 to 127. Returns their unit and sum, the length of x, and that of what rounding took."""
    largest = ZERO
    for j in range(len(x)):
        largest = max(largest, abs(x[j]))
    unit, total = largest / np.float32(127), np.int32(0)
    square, off = ZERO, ZERO
    for j in range(len(x)):
        number = np.rint(x[j] / unit)
        rounded[j] = np.int8(number)
        total += np.int32(number)
        square += x[j] * x[j]
        off += (x[j] - unit * number) ** 2
    return unit, total, np.sqrt(square), np.sqrt(off)


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def highest(sums, middle, scale, unit, error, length, bias, group, most):
    """What the scores of a group can be at most by its 4-bit numbers and what those lack, to most[group], and the largest."""
    top = np.int32(-(2**31))
    for r in range(64):
        score = (np.float32(sums[r]) - middle) * (scale[group, r] * unit) + length * error[group, r] + bias[group, r]
        most[group, r] = score
        top = max(top, in_order(np.float32(score).view(np.int32)))
    return in_order(top).view(np.float32)


@njit(nogil=True, cache=True)
def candidates(most, tops, least, rows, which):
    """The rows whose scores can be `least` or more, to which; returns how many. They lie far apart, so memory is asked for
    all of them before the first is needed."""
    n = 0
    for group in range(len(tops)):
        if tops[group] < least:
            continue
        found = at_least(most, group, least)
        while found != 0:
            which[n] = 64 * group + trailing_zeros(found)
            found &= found - np.uint64(1)
            for column in range(0, rows.shape[1], 64):
                prefetch(rows, which[n], column)
            n += 1
    return n


@njit(nogil=True, cache=True, error_model="numpy")
def likeliest(x, backwards, rough, fine, weight, bias, limits, most):
    """The row of weight (V, D) whose product with x (D,), plus bias (V,), is the largest, or -1 if rounding could hide which.

    Three looks: at all rows in 4 bits, at those that can be the largest in 4 more bits, at those that still can as they are. A
    look has numbers, 7.5 too large, their scale, and an error, the length of what rounding took off a row. rough is for groups
    of 64 rows: numbers (G, D / 8, 64, 4) as `products_of_64` reads them, scale, error and bias (G, 64), which is -inf where
    there is no row; fine is for what rough took off a row: numbers (V, D / 2) as `product_of_row` reads them, scale and error
    (V,). limits are the length of the longest row, rounded or not, and the most that a bias can be rounded by. most (G, 64) is
    written over. `backwards`: groups are read from the last one, which after a reading from the first is still near.
    """
    numbers, rough_scale, rough_error, rough_bias = rough
    fine_numbers, fine_scale, fine_error = fine
    longest, slack = limits
    size, groups = weight.shape[1], len(numbers)
    rounded = np.zeros(2 * fine_numbers.shape[1], np.int8)
    unit, total, length, x_error = round_to_bytes(x, rounded)
    if not (length > ZERO and length * longest < LARGEST_LOGIT):  # NaN too
        return -1
    doubt = np.float32(size + 16) * ROUNDING * length * longest + slack  # of the rounding of sums
    off = SAFE * x_error * longest + doubt
    sums, which = np.empty(64, np.int32), np.empty(most.size, np.int32)
    tops, top_group = np.empty(groups, np.float32), 0
    middle = np.float32(7.5) * total
    for i in range(groups):
        group = groups - 1 - i if backwards else i
        products_of_64(numbers, group, rounded, sums)
        tops[group] = highest(sums, middle, rough_scale, unit, rough_error, SAFE * length, rough_bias, group, most)
        top_group = group if i == 0 or tops[group] > tops[top_group] else top_group
    guess = 64 * top_group + most[top_group].argmax()
    best, first, second = guess, dot(weight[guess], x) + bias[guess], np.float32(-np.inf)
    surely = first - doubt - LEAST_GAP
    for k in range(candidates(most, tops, surely - off, fine_numbers, which)):
        r = which[k]
        if r == guess:
            continue
        group, place = r // 64, r % 64
        score = most[group, place] - SAFE * length * rough_error[group, place]
        score += (np.float32(product_of_row(fine_numbers, r, rounded)) - middle) * (fine_scale[r] * unit)
        if score + SAFE * length * fine_error[r] + off < surely:
            continue
        score = dot(weight[r], x) + bias[r]
        if score > first:
            best, first, second = r, score, first
            surely = first - doubt - LEAST_GAP
        else:
            second = max(second, score)
    return best if first - second > 2 * doubt + LEAST_GAP and abs(first) < LARGEST_LOGIT else -1


# ---- greedy search


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def sigmoid_of(a, b, bias):
    """a = sigmoid(a + b + bias)."""
    for j in range(len(a)):
        a[j] = ONE / (ONE + exp(-(a[j] + b[j] + bias[j])))


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def tanh_of(a, bias):
    """a = tanh(a + bias)."""
    for j in range(len(a)):
        a[j] = tanh32(a[j] + bias[j])


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def gru(gates, from_h, bias, bias_h, h):
    """`kernels.decode.gru_cell` of one row, in place on h (H,); gates (3H,), the input's part, is written over."""
    size = len(h)
    sigmoid_of(gates[: 2 * size], from_h[: 2 * size], bias[: 2 * size])
    r, z, n, inner = gates[:size], gates[size : 2 * size], gates[2 * size :], from_h[2 * size :]
    for j in range(size):
        n[j] += r[j] * (inner[j] + bias_h[j])
    tanh_of(n, bias[2 * size :])
    for j in range(size):
        h[j] = n[j] + z[j] * (h[j] - n[j])


@njit(nogil=True, cache=True)
def write(token, eos_id, done, ids, state, memory, inputs, recurrence, attention, output):
    """The likeliest token after `token`, the likeliest after that, and so on, to ids[done:], until `eos_id` or all are written.

    Returns how many are written, and the last one; or -1, where the next one could not be told for sure: `features` in the
    state are what predicts it. The tuples are those of `models.translate.greedy`.
    """
    h, products, features, coverage = state
    vectors, keys, bias = memory
    embedding, w_x, w_fed, table = inputs  # table: the products of all tokens with w_x, where they are kept
    w_together, b_h = recurrence  # W_h, the queries' and the readout's part for h, one below the other
    energy, scale, covered, readout_bias = attention
    n_gates, n_queries = len(w_x), len(w_together) - len(w_x) - len(features)
    gates, fed, looked = np.empty(n_gates, np.float32), np.empty(len(w_fed), np.float32), np.empty((1, len(keys)), np.float32)
    borders, source, readouts = np.array([0, len(keys)]), np.array([0]), features.reshape(1, -1)
    most = np.empty(output[0][1].shape, np.float32)
    if done == 0:
        product(w_together, h, False, products)
    for t in range(done, len(ids)):
        backwards = t % 2 == 1
        if len(table) > 0:
            gates[:] = table[token]
        else:
            product(w_x, embedding[token], backwards, gates)
        if len(w_fed) > 0:
            product(w_fed, features, False, fed)
            add_scaled(gates, ONE, fed)
        gru(gates, products[:n_gates], bias, b_h, h)
        product(w_together, h, backwards, products)
        features[:] = products[n_gates + n_queries :]
        queries = products[n_gates : n_gates + n_queries] if n_queries > 0 else h
        looked[:] = ZERO
        attend_memory(queries.reshape(1, -1), vectors, keys, borders, source, energy, scale, covered, coverage, readouts,
                      looked)
        tanh_of(features, readout_bias)
        token = likeliest(features, backwards, *output, most)
        if token < 0:
            return t, token
        ids[t] = token
        if token == eos_id:
            return t + 1, token
    return len(ids), token
