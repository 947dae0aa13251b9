"""One more token for the rows of a search over translations: products of a few rows, attention to the sources, and the layers
of a Transformer (Vaswani et al. 2017) in one call.

For a few rows, as in beam search, a matrix library spends more time on packing a matrix than on multiplying, and its threads on
waiting for each other; so `product` is written out. The keys and values of target tokens lie in a pool in which every token of
every row has a slot of its own; a row is a list of slots. When a search drops, copies and reorders rows only these lists move,
and hypotheses share what they have in common. The sources lie one after the other; a row has the number of its own.

`fastmath` and `error_model` as in `kernels/decode`: loops may use vector units; NaN and infinity keep their meaning.
"""

import numpy as np
from numba import njit

from seqloom.kernels.intrinsics import add_scaled, dot, exp, prefetch_row, softmax

FAST = {"reassoc", "contract", "nsz"}
ZERO, ONE = np.float32(0), np.float32(1)
AHEAD = 4  # rows of weights
ACTIVATIONS = ("relu", "gelu", "gelu-erf", "swish", "geglu", "swiglu")  # the last two are gates; kernels have their places


# ---- products


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def fives(weight, x, first, out):
    """Of the five rows of x from `first`, or of the last one again where there are fewer: every weight is loaded once for all,
    and a row of weights further on is asked for, since a matrix that is read once a step comes from far away."""
    last = len(x) - 1
    i0, i1, i2, i3, i4 = first, min(first + 1, last), min(first + 2, last), min(first + 3, last), min(first + 4, last)
    x0, x1, x2, x3, x4 = x[i0], x[i1], x[i2], x[i3], x[i4]
    for r in range(len(weight)):
        if r + AHEAD < len(weight):
            prefetch_row(weight, r + AHEAD)
        w = weight[r]
        a0 = a1 = a2 = a3 = a4 = ZERO
        for j in range(len(w)):
            value = w[j]
            a0 += value * x0[j]
            a1 += value * x1[j]
            a2 += value * x2[j]
            a3 += value * x3[j]
            a4 += value * x4[j]
        out[i0, r], out[i1, r], out[i2, r], out[i3, r], out[i4, r] = a0, a1, a2, a3, a4


@njit(nogil=True, cache=True)
def product(weight, x, out):
    """out (n, R) = x (n, K) times the transpose of weight (R, K)."""
    n, done = len(x), 0
    while n - done > 2:
        fives(weight, x, done, out)
        done += 5
    for i in range(done, n):
        for r in range(len(weight)):
            out[i, r] = dot(weight[r], x[i])


@njit(nogil=True, cache=True)
def add_rows(x, bias):
    """x (n, D) += bias (D,)."""
    for row in range(len(x)):
        add_scaled(x[row], ONE, bias)


# ---- functions


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def norm_rows(x, weight, bias, rms, epsilon, out):
    """Layer norm of every row of x (n, D), or RMSNorm (Zhang and Sennrich 2019), which takes no mean off; `out` may be x."""
    for i in range(len(x)):
        row, size = x[i], np.float32(x.shape[1])
        mean = ZERO
        if not rms:
            for j in range(len(row)):
                mean += row[j]
            mean /= size
        square = ZERO
        for j in range(len(row)):
            square += (row[j] - mean) * (row[j] - mean)
        scale = ONE / np.sqrt(square / size + epsilon)
        for j in range(len(row)):
            out[i, j] = (row[j] - mean) * scale * weight[j] + bias[j]


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def phi(x):
    """The normal distribution function, to 1e-7 (Abramowitz and Stegun 1964, 7.1.26)."""
    z = abs(x) * np.float32(0.7071067811865476)
    t = ONE / (ONE + np.float32(0.3275911) * z)
    p = np.float32(1.061405429)
    p = p * t - np.float32(1.453152027)
    p = p * t + np.float32(1.421413741)
    p = p * t - np.float32(0.284496736)
    p = p * t + np.float32(0.254829592)
    tail = np.float32(0.5) * p * t * exp(-z * z)
    return tail if x < ZERO else ONE - tail


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def add_activated(x, bias, kind, out):
    """out (n, M) = an activation function of x + bias, of which `kind` is a place in ACTIVATIONS; x may be `out`, or, if the
    activations are gates, (n, 2M) with the units after the gates."""
    size = out.shape[1]
    for i in range(len(x)):
        row, new = x[i], out[i]
        if kind == 0:
            for j in range(size):
                new[j] = max(row[j] + bias[j], ZERO)
        elif kind == 2:
            for j in range(size):
                a = row[j] + bias[j]
                new[j] = a * phi(a)
        elif kind == 3 or kind == 5:
            for j in range(size):
                a = row[j] + bias[j]
                new[j] = a / (ONE + exp(-a))
        else:
            for j in range(size):
                a = row[j] + bias[j]
                new[j] = a / (ONE + exp(np.float32(-1.5957691216057308) * (a + np.float32(0.044715) * a * a * a)))
        if kind >= 4:
            for j in range(size):
                new[j] *= row[size + j] + bias[size + j]


# ---- attention


@njit(nogil=True, cache=True)
def attend_slots(qkv, pool, layer, slots, lengths, first, n_heads, scale, by_distance, out):
    """Of one new token a row, qkv (n, 3K), to the lengths[row] earlier ones in slots (n, C) of the pool (P, L, 2K) and to
    itself, which gets the slot first + row; out (n, K). Products are multiplied by `scale`; by_distance (heads, F), or (heads,
    0), has what is added by the distance, from F - 1 on the same."""
    width, far = out.shape[1], by_distance.shape[1] - 1
    size = width // n_heads
    scores = np.empty(slots.shape[1], np.float32)
    for row in range(len(out)):
        steps = lengths[row] + 1
        slots[row, steps - 1] = first + row
        pool[first + row, layer] = qkv[row, width:]
        for head in range(n_heads):
            lo, hi = head * size, head * size + size
            for t in range(steps):
                scores[t] = scale * dot(qkv[row, lo:hi], pool[slots[row, t], layer, lo:hi])
            if far >= 0:
                for t in range(steps):
                    scores[t] += by_distance[head, min(steps - 1 - t, far)]
            softmax(scores[:steps])
            mixed = out[row, lo:hi]
            mixed[:] = ZERO
            for t in range(steps):
                add_scaled(mixed, scores[t], pool[slots[row, t], layer, width + lo : width + hi])


@njit(nogil=True, cache=True)
def attend_sources(queries, memory, borders, source, n_heads, scale, share, out, looked):
    """Of queries (n, K) to the keys and values, memory (N, 2K), of each row's source s, steps borders[s] to borders[s + 1];
    out (n, K). `share` of the weights of each head is added to looked (n, S)."""
    width = out.shape[1]
    size = width // n_heads
    scores = np.empty(looked.shape[1], np.float32)
    for row in range(len(out)):
        low = borders[source[row]]
        steps = borders[source[row] + 1] - low
        out[row] = ZERO
        if steps == 0:
            continue
        for head in range(n_heads):
            lo, hi = head * size, head * size + size
            for t in range(steps):
                scores[t] = scale * dot(queries[row, lo:hi], memory[low + t, lo:hi])
            softmax(scores[:steps])
            mixed = out[row, lo:hi]
            for t in range(steps):
                add_scaled(mixed, scores[t], memory[low + t, width + lo : width + hi])
            add_scaled(looked[row, :steps], share, scores[:steps])


# ---- the layers of a Transformer


@njit(nogil=True, cache=True)
def add_product(x, weight, bias, y, z):
    """x (n, D) += y times the transpose of weight (D, K), plus the bias; z (n, D) is written over."""
    product(weight, y, z)
    for row in range(len(x)):
        add_scaled(x[row], ONE, z[row])
    add_rows(x, bias)


@njit(nogil=True, cache=True)
def decode(x, pool, slots, lengths, first, memory, borders, source, weights, style, by_distance, looked):
    """All layers, in place on the vectors x (n, D) of tokens in their places. pool (P, L, 2K) and memory (L, N, 2K) as above;
    `weights`: arrays whose first axis is the layer, in the order of `transformer_steps.TransformerSteps.layers`; `style` as in
    `encoder_steps.Style`."""
    (norm1, shift1, qkv_w, qkv_b, out_w, out_b, norm2, shift2, q_w, q_b, cross_w, cross_b, norm3, shift3, up_w, up_b, down_w,
     down_b) = weights
    n_heads, scale, pre, rms, epsilon, kind = style
    n, width = x.shape
    y, z = np.empty((n, width), np.float32), np.empty((n, width), np.float32)
    queries, mixed = np.empty((n, q_w.shape[1]), np.float32), np.empty((n, q_w.shape[1]), np.float32)
    qkv, inner = np.empty((n, qkv_w.shape[1]), np.float32), np.empty((n, up_w.shape[1]), np.float32)
    units = inner if kind < 4 else np.empty((n, down_w.shape[2]), np.float32)
    share = ONE / np.float32(len(norm1) * n_heads)
    seen = y if pre else x  # what a part reads: with norms after the parts, x itself
    for layer in range(len(norm1)):
        if pre:
            norm_rows(x, norm1[layer], shift1[layer], rms, epsilon, y)
        product(qkv_w[layer], seen, qkv)
        add_rows(qkv, qkv_b[layer])
        attend_slots(qkv, pool, layer, slots, lengths, first, n_heads, scale, by_distance, mixed)
        add_product(x, out_w[layer], out_b[layer], mixed, z)
        norm_rows(x, norm2[layer] if pre else norm1[layer], shift2[layer] if pre else shift1[layer], rms, epsilon, seen)
        product(q_w[layer], seen, queries)
        add_rows(queries, q_b[layer])
        attend_sources(queries, memory[layer], borders, source, n_heads, scale, share, mixed, looked)
        add_product(x, cross_w[layer], cross_b[layer], mixed, z)
        norm_rows(x, norm3[layer] if pre else norm2[layer], shift3[layer] if pre else shift2[layer], rms, epsilon, seen)
        product(up_w[layer], seen, inner)
        add_activated(inner, up_b[layer], kind, units)
        add_product(x, down_w[layer], down_b[layer], units, z)
        if not pre:
            norm_rows(x, norm3[layer], shift3[layer], rms, epsilon, x)
