"""The decoder of a recurrent encoder-decoder (Bahdanau et al. 2015): attention to the sources, and greedy search for one source
as a single call.

One target at a time is written at the speed of memory: all that a step reads are weights, and most of them are the output
layer's, of which only the largest score is wanted. `likeliest` reads that layer in 8 bits, a quarter of the bytes. From the
length of what rounding took off a row it knows how far each score can be off (Cauchy and Schwarz), and makes the few scores
exactly that can be the largest. Where two of them are so close that another order of their sums could turn them round, it does
not decide, so what is written is what any search over log-probabilities would write.

`fastmath` and `error_model` as in `kernels/decode`: loops may use vector units; NaN and infinity keep their meaning.
"""

import numpy as np
from numba import njit

from seqloom.kernels.intrinsics import exp, products_of_64, tanh32

FAST = {"reassoc", "contract", "nsz"}
FINITE = {"reassoc", "contract", "nsz", "nnan"}  # where numbers are known to be finite, so that a maximum uses vector units
ZERO, HALF, ONE = np.float32(0), np.float32(0.5), np.float32(1)
ROUNDING = np.float32(1.3e-7)  # of one addition in float32, in both of two orders
SAFE = np.float32(1.001)  # for the rounding of the limits themselves
LEAST_GAP = np.float32(4e-6)  # of two logits whose log-probabilities differ after rounding
LARGEST_LOGIT = np.float32(1e5)  # as in `kernels/decode`


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def dot(a, b):
    total = ZERO
    for j in range(len(a)):
        total += a[j] * b[j]
    return total


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def product(weight, x, out):
    """out (R,) = weight (R, K) times x (K,); four rows at a time, so that x is loaded once for all of them."""
    whole = len(weight) // 4 * 4
    for r in range(0, whole, 4):
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


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def add_scaled(out, share, x):
    for j in range(len(out)):
        out[j] += share * x[j]


# ---- attention


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def softmax(scores):
    top = scores[0]
    for t in range(len(scores)):
        top = max(top, scores[t])
    total = ZERO
    for t in range(len(scores)):
        scores[t] = exp(scores[t] - top)
        total += scores[t]
    share = ONE / total
    for t in range(len(scores)):
        scores[t] *= share


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


@njit(nogil=True, cache=True, fastmath=FINITE, error_model="numpy")
def highest(sums, scale, unit, bias, scores):
    """The scores of a group as its 8-bit numbers give them, and the largest of them."""
    top = np.float32(-np.inf)
    for r in range(len(scores)):
        scores[r] = np.float32(sums[r]) * (scale[r] * unit) + bias[r]
        top = max(top, scores[r])
    return top


@njit(nogil=True, cache=True, error_model="numpy")
def likeliest(x, backwards, numbers, scale, error, norm, slack, weight, bias):
    """The row of weight (V, D) whose product with x (D,), plus bias (V,), is the largest, or -1 if rounding could hide which.

    numbers (G, D / 2, 64, 2) are the weights in 8 bits, 64 rows a group, as `products_of_64` reads them, times scale (V,).
    Of each group (G,): error is the length of the most that this rounding took off a row, norm that of the longest row before
    and after together, slack the rounding of the bias. `backwards`: groups are read from the last one, which after a reading
    from the first is still near.
    """
    n, size = weight.shape
    largest, square = ZERO, ZERO
    for j in range(size):
        largest = max(largest, abs(x[j]))
        square += x[j] * x[j]
    length = np.sqrt(square)
    if not (length > ZERO and length * norm.max() < LARGEST_LOGIT):  # NaN too
        return -1
    unit = largest / np.float32(min(32767, (2**31 - 1) // (127 * size)))  # so that no sum is too large for 32 bits
    rounded = np.zeros(2 * numbers.shape[1], np.int16)
    for j in range(size):
        rounded[j] = np.int16(np.rint(x[j] / unit))
    summed = np.float32(size + 8) * ROUNDING * length  # of rounding, for each unit of a norm
    per_norm = HALF * unit * np.sqrt(np.float32(size)) + summed
    sums, scores, tops = np.empty(64, np.int32), np.empty(64, np.float32), np.empty(len(numbers), np.float32)
    surely = np.float32(-np.inf)
    for i in range(len(numbers)):
        group = len(numbers) - 1 - i if backwards else i
        low, high = 64 * group, min(64 * group + 64, n)
        products_of_64(numbers, group, rounded, sums)
        top = highest(sums, scale[low:high], unit, bias[low:high], scores[: high - low])
        off = SAFE * (length * error[group] + per_norm * norm[group] + slack[group])
        tops[group] = top + off
        surely = max(surely, top - off)
    surely -= LEAST_GAP
    best, first, second, doubt = -1, np.float32(-np.inf), np.float32(-np.inf), ZERO
    for group in range(len(numbers)):
        if tops[group] < surely:
            continue
        low, high = 64 * group, min(64 * group + 64, n)
        products_of_64(numbers, group, rounded, sums)
        off = tops[group] - highest(sums, scale[low:high], unit, bias[low:high], scores[: high - low])
        doubt = max(doubt, summed * norm[group] + slack[group])
        for r in range(low, high):
            if scores[r - low] + SAFE * off < surely:
                continue
            score = dot(weight[r], x) + bias[r]
            if score > first:
                best, first, second = r, score, first
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
    embedding, w_x, w_fed, table, made = inputs
    w_together, b_h = recurrence  # W_h, the queries' and the readout's part for h, one below the other
    energy, scale, covered, readout_bias = attention
    n_gates, n_queries = len(w_x), len(w_together) - len(w_x) - len(features)
    gates, fed, looked = np.empty(n_gates, np.float32), np.empty(len(w_fed), np.float32), np.empty((1, len(keys)), np.float32)
    borders, source, readouts = np.array([0, len(keys)]), np.array([0]), features.reshape(1, -1)
    if done == 0:
        product(w_together, h, products)
    for t in range(done, len(ids)):
        if len(table) == 0:
            product(w_x, embedding[token], gates)
        else:
            if not made[token]:
                product(w_x, embedding[token], table[token])
                made[token] = True
            gates[:] = table[token]
        if len(w_fed) > 0:
            product(w_fed, features, fed)
            add_scaled(gates, ONE, fed)
        gru(gates, products[:n_gates], bias, b_h, h)
        product(w_together, h, products)
        features[:] = products[n_gates + n_queries :]
        queries = products[n_gates : n_gates + n_queries] if n_queries > 0 else h
        looked[:] = ZERO
        attend_memory(queries.reshape(1, -1), vectors, keys, borders, source, energy, scale, covered, coverage, readouts,
                      looked)
        tanh_of(features, readout_bias)
        token = likeliest(features, t % 2 == 1, *output)
        if token < 0:
            return t, token
        ids[t] = token
        if token == eos_id:
            return t + 1, token
    return len(ids), token
