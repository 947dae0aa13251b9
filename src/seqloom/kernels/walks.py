"""A recurrent layer over one sequence in one call: for a single text, a call at every step would take longer than the step.

The input's part of the gates is one product for all steps, made before; here is the walk. W_h comes transposed, so a step adds
up rows of it, four at a time, into the gates, which stay in the first cache. States begin at zero; `reverse` walks from
the end.
"""

import numpy as np
from numba import njit

from seqloom.kernels.decode import ONE, sigmoid, tanh

FAST = {"reassoc", "contract", "nsz"}


@njit(nogil=True, cache=True, fastmath=FAST)
def add_products(h, turned, gates):
    """gates (G,) += h (H,) times turned (H, G)."""
    whole = len(h) // 4 * 4
    for k in range(0, whole, 4):
        a, b, c, d = h[k], h[k + 1], h[k + 2], h[k + 3]
        for j in range(len(gates)):
            gates[j] += a * turned[k, j] + b * turned[k + 1, j] + c * turned[k + 2, j] + d * turned[k + 3, j]
    for k in range(whole, len(h)):
        for j in range(len(gates)):
            gates[j] += h[k] * turned[k, j]


@njit(nogil=True, cache=True, fastmath=FAST)
def lstm_walk(projected, turned, reverse, out):
    """Gates i, f, g, o from the input (T, 4H), bias included, and W_h transposed (H, 4H): all h, out (T, H)."""
    steps, size = out.shape
    h, c, gates = np.zeros(size, np.float32), np.zeros(size, np.float32), np.empty(4 * size, np.float32)
    for t in range(steps):
        at = steps - 1 - t if reverse else t
        gates[:] = projected[at]
        add_products(h, turned, gates)
        for j in range(size):
            c[j] = sigmoid(gates[size + j]) * c[j] + sigmoid(gates[j]) * tanh(gates[2 * size + j])
            h[j] = sigmoid(gates[3 * size + j]) * tanh(c[j])
        out[at] = h


@njit(nogil=True, cache=True, fastmath=FAST)
def gru_walk(projected, turned, bias_h, reverse, out):
    """Gates r, z, n from the input (T, 3H), bias included, W_h transposed (H, 3H) and the candidate's own bias (H,)."""
    steps, size = out.shape
    h, gates = np.zeros(size, np.float32), np.empty(3 * size, np.float32)
    for t in range(steps):
        at = steps - 1 - t if reverse else t
        gates[:] = np.float32(0.0)
        add_products(h, turned, gates)
        x = projected[at]
        for j in range(size):
            r = sigmoid(x[j] + gates[j])
            z = sigmoid(x[size + j] + gates[size + j])
            n = tanh(x[2 * size + j] + r * (gates[2 * size + j] + bias_h[j]))
            h[j] = z * h[j] + (ONE - z) * n
        out[at] = h


@njit(nogil=True, cache=True, fastmath=FAST)
def rnn_walk(projected, turned, reverse, out):
    """tanh of the input's part (T, H), bias included, and of h times W_h transposed (H, H)."""
    steps, size = out.shape
    h, sums = np.zeros(size, np.float32), np.empty(size, np.float32)
    for t in range(steps):
        at = steps - 1 - t if reverse else t
        sums[:] = projected[at]
        add_products(h, turned, sums)
        for j in range(size):
            h[j] = tanh(sums[j])
        out[at] = h
