"""One more token for each row of a Transformer that attends to sources (Vaswani et al. 2017): attention, and the whole step.

The keys and values of target tokens lie in a pool in which every token of every row has a slot of its own; a row is a list of
slots. When a search drops, copies and reorders rows only these lists move, and hypotheses share what they have in common. Those
of the sources lie one source after the other; a row has the number of its source.

For a few rows `decode` does the whole step in one call. For many, products are better left to a matrix library, and the rest is
done by the same kernels.
"""

import numpy as np
from numba import njit

from seqloom.kernels.decode import ONE, add_gelu, add_relu, add_row, exp, log_softmax, norm_rows
from seqloom.kernels.few_rows import FAST, ZERO, affine, product


@njit(nogil=True, cache=True, fastmath=FAST)
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


@njit(nogil=True, cache=True, fastmath=FAST)
def dot(a, b):
    total = ZERO
    for j in range(len(a)):
        total += a[j] * b[j]
    return total


@njit(nogil=True, cache=True, fastmath=FAST)
def add_scaled(out, share, x):
    for j in range(len(out)):
        out[j] += share * x[j]


@njit(nogil=True, cache=True)
def attend_slots(qkv, pool, layer, slots, lengths, first, n_heads, out):
    """Of one new token a row, qkv (n, 3D), to the lengths[row] earlier ones in slots (n, C) of the pool (P, L, 2D) and to
    itself, which gets the slot first + row; out (n, D)."""
    width = out.shape[1]
    size = width // n_heads
    scale = ONE / np.float32(np.sqrt(size))
    most = lengths.max() + 1
    scores = np.empty(most, np.float32)
    for row in range(len(out)):
        steps = lengths[row] + 1
        slots[row, steps - 1] = first + row
        pool[first + row, layer] = qkv[row, width:]
        for head in range(n_heads):
            lo, hi = head * size, head * size + size
            for t in range(steps):
                scores[t] = scale * dot(qkv[row, lo:hi], pool[slots[row, t], layer, lo:hi])
            softmax(scores[:steps])
            mixed = out[row, lo:hi]
            mixed[:] = ZERO
            for t in range(steps):
                add_scaled(mixed, scores[t], pool[slots[row, t], layer, width + lo : width + hi])


@njit(nogil=True, cache=True)
def attend_sources(queries, memory, borders, source, n_heads, share, out, looked):
    """Of queries (n, D) to the keys and values, memory (N, 2D), of each row's source s, steps borders[s] to borders[s + 1];
    out (n, D). `share` of the weights of each head is added to looked (n, S)."""
    width = out.shape[1]
    size = width // n_heads
    scale = ONE / np.float32(np.sqrt(size))
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


@njit(nogil=True, cache=True)
def decode(x, pool, slots, lengths, first, memory, borders, source, weights, output, n_heads, pre, relu, looked, log_probs):
    """All layers, for vectors x (n, D) of tokens in their places, which become what predicts the next; and log_probs (n, V).

    pool (P, L, 2D) and memory (L, N, 2D) as above. weights: arrays whose first axis is the layer, in the order of
    `transformer_steps.PARTS`; output: scale and shift of the last norm, matrix (V, D) and bias.
    """
    (norm1, shift1, qkv_w, qkv_b, out_w, out_b, norm2, shift2, q_w, q_b, cross_w, cross_b, norm3, shift3, up_w, up_b, down_w,
     down_b) = weights
    n, width = x.shape
    y, z = np.empty((n, width), np.float32), np.empty((n, width), np.float32)
    qkv, inner = np.empty((n, 3 * width), np.float32), np.empty((n, up_b.shape[1]), np.float32)
    share = ONE / np.float32(len(norm1) * n_heads)
    for layer in range(len(norm1)):
        if pre:
            norm_rows(x, norm1[layer], shift1[layer], y)
        affine(qkv_w[layer], qkv_b[layer], y if pre else x, qkv)
        attend_slots(qkv, pool, layer, slots, lengths, first, n_heads, y)
        product(out_w[layer], y, z)
        add_row(x, z, out_b[layer])
        norm_rows(x, norm2[layer] if pre else norm1[layer], shift2[layer] if pre else shift1[layer], y if pre else x)
        affine(q_w[layer], q_b[layer], y if pre else x, z)
        attend_sources(z, memory[layer], borders, source, n_heads, share, y, looked)
        product(cross_w[layer], y, z)
        add_row(x, z, cross_b[layer])
        norm_rows(x, norm3[layer] if pre else norm2[layer], shift3[layer] if pre else shift2[layer], y if pre else x)
        product(up_w[layer], y if pre else x, inner)
        if relu:
            add_relu(inner, up_b[layer])
        else:
            add_gelu(inner, up_b[layer])
        product(down_w[layer], inner, z)
        add_row(x, z, down_b[layer])
        if not pre:
            norm_rows(x, norm3[layer], shift3[layer], x)
    norm, shift, matrix, bias = output
    if pre:
        norm_rows(x, norm, shift, x)
    product(matrix, x, log_probs)
    log_softmax(log_probs, bias)
