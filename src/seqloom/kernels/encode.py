"""What an encoder does with the tokens of many texts besides multiplying: attention within each text, and GELU by erf.

The tokens of all texts lie one after the other, (N, D), with `borders` (B + 1,) between the texts: nothing is padded. The
kernels take the texts or rows from `low` to `high`, so that threads can share them.
"""

import numpy as np
from numba import njit

from seqloom.kernels.intrinsics import exp

ZERO, ONE, HALF = np.float32(0), np.float32(1), np.float32(0.5)
ROOT_HALF = np.float32(0.7071067811865476)
FAST = {"reassoc", "contract", "nsz"}  # as in kernels/decode


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def add_gelu_erf(x, bias, low, high):
    """x = gelu(x + bias), (N, D), as it is defined (Hendrycks and Gimpel 2016): x times the normal distribution up to x.

    erf by formula 7.1.26 of Abramowitz and Stegun, which is off by 1.5e-7 at most.
    """
    for row in range(low, high):
        for j in range(len(bias)):
            a = x[row, j] + bias[j]
            z = abs(a) * ROOT_HALF
            t = ONE / (ONE + np.float32(0.3275911) * z)
            p = np.float32(1.061405429)
            p = p * t - np.float32(1.453152027)
            p = p * t + np.float32(1.421413741)
            p = p * t - np.float32(0.284496736)
            p = p * t + np.float32(0.254829592)
            tail = HALF * p * t * exp(-z * z)  # of the distribution, beyond |a|
            x[row, j] = a * (ONE - tail if a > ZERO else tail)


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def attend_texts(qkv, bias, borders, low, high, n_heads, out):
    """Attention of each token to all of its text, by qkv + bias (N, 3D); out (N, D). Changes qkv.

    Keys are turned first, so that the inner loops go over neighbours; four terms at a time, so that a sum is loaded and
    stored once for four of them.
    """
    width = out.shape[1]
    size = width // n_heads
    scale = ONE / np.float32(np.sqrt(size))
    longest = 0
    for text in range(low, high):
        longest = max(longest, borders[text + 1] - borders[text])
    keys, scores = np.empty((size, longest), np.float32), np.empty(longest, np.float32)
    for text in range(low, high):
        start, steps = borders[text], borders[text + 1] - borders[text]
        for i in range(start, start + steps):
            for j in range(3 * width):
                qkv[i, j] += bias[j]
        weights = scores[:steps]
        for head in range(n_heads):
            at = head * size
            for t in range(steps):
                for j in range(size):
                    keys[j, t] = qkv[start + t, width + at + j]
            values = qkv[start : start + steps, 2 * width + at : 2 * width + at + size]
            for i in range(start, start + steps):
                weights[:] = ZERO
                whole = size // 4 * 4
                for j in range(0, whole, 4):
                    a, b, c, d = qkv[i, at + j], qkv[i, at + j + 1], qkv[i, at + j + 2], qkv[i, at + j + 3]
                    k, m, n, o = keys[j], keys[j + 1], keys[j + 2], keys[j + 3]
                    for t in range(steps):
                        weights[t] += a * k[t] + b * m[t] + c * n[t] + d * o[t]
                for j in range(whole, size):
                    a, k = qkv[i, at + j], keys[j]
                    for t in range(steps):
                        weights[t] += a * k[t]
                top = weights[0]
                for t in range(steps):
                    top = max(top, weights[t])
                total = ZERO
                for t in range(steps):
                    weights[t] = exp((weights[t] - top) * scale)
                    total += weights[t]
                mixed = out[i, at : at + size]
                mixed[:] = ZERO
                whole = steps // 4 * 4
                for t in range(0, whole, 4):
                    a, b, c, d = weights[t], weights[t + 1], weights[t + 2], weights[t + 3]
                    k, m, n, o = values[t], values[t + 1], values[t + 2], values[t + 3]
                    for j in range(size):
                        mixed[j] += a * k[j] + b * m[j] + c * n[j] + d * o[j]
                for t in range(whole, steps):
                    a, k = weights[t], values[t]
                    for j in range(size):
                        mixed[j] += a * k[j]
                share = ONE / total
                for j in range(size):
                    mixed[j] *= share
