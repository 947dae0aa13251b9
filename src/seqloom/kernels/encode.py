"""What an encoder does with the tokens of many texts besides products with weights: attention within each text, GELU by erf.

The tokens of all texts lie one after the other, (N, D), with `borders` (B + 1,) between the texts: nothing is padded. For
attention the queries, keys and values of a head are copied to where whole vectors of 16 numbers can be read; its two products
are then too small for BLAS, whose calls would take longer than the work.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from seqloom.kernels.intrinsics import LANES, exp, in_order, product_piece

ROWS = 8  # of a piece of a product that is computed at a time
QUERIES = 64  # tokens whose scores are there at a time, so that they stay small for a long text
ZERO, ONE, HALF = np.float32(0), np.float32(1), np.float32(0.5)
LOWEST = np.float32(-1e30)
ROOT_HALF = np.float32(0.7071067811865476)
FAST = {"reassoc", "contract", "nsz"}  # as in kernels/decode


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def add_gelu_erf(x, bias):
    """x = gelu(x + bias), (N, D), as it is defined (Hendrycks and Gimpel 2016): x times the normal distribution up to x.

    erf by formula 7.1.26 of Abramowitz and Stegun, which is off by 1.5e-7 at most. Gives x back.
    """
    for row in range(len(x)):
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
    return x


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def add_and_norm(x, change, bias, weight, shift, epsilon):
    """x = layer norm of x + change + bias, (N, D). In place by one name: were the result another argument that may be x itself,
    the compiler would do without vectors."""
    size = np.float32(x.shape[1])
    for row in range(len(x)):
        total = ZERO
        for j in range(len(bias)):
            value = x[row, j] + change[row, j] + bias[j]
            x[row, j] = value
            total += value
        mean = total / size
        square = ZERO
        for j in range(len(bias)):
            square += (x[row, j] - mean) * (x[row, j] - mean)
        scale = ONE / np.sqrt(square / size + epsilon)
        for j in range(len(bias)):
            x[row, j] = (x[row, j] - mean) * scale * weight[j] + shift[j]


_piece = product_piece(ROWS)


@njit(nogil=True, cache=True)
def multiply_pieces(a, b, out, rows, columns, steps):
    """out (rows, columns) = a (rows, steps) times b (steps, columns), corners of larger arrays with room for whole pieces."""
    for column in range(0, columns, LANES):
        for row in range(0, rows, ROWS):
            _piece(a, row, b, column, b.shape[1], steps, out, column, 0)


@njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
def softmax_rows(scores, rows, steps, shares):
    """exp(x - max) of the first `steps` of each row in place, and the inverse of its sum to shares[row]. What is behind them,
    up to a whole number of vectors, becomes as good as zero: working on it is faster than on a remainder."""
    whole = (steps + LANES - 1) // LANES * LANES
    for row in range(rows):
        for t in range(steps, whole):
            scores[row, t] = LOWEST
    for row in range(rows):
        top = np.int32(-(2**31))
        for t in range(whole):
            top = max(top, in_order(np.float32(scores[row, t]).view(np.int32)))
        shares[row] = in_order(top).view(np.float32)
    for row in range(rows):
        top, total = shares[row], ZERO
        for t in range(whole):
            value = exp(scores[row, t] - top)
            scores[row, t] = value
            total += value
        shares[row] = ONE / total


@njit(nogil=True, cache=True, error_model="numpy")
def attend_texts(qkv, bias, borders, n_heads, out):
    """Attention of each token to all of its text, by queries, keys and values side by side, qkv + bias (N, 3D); out (N, D)."""
    width = out.shape[1]
    size = width // n_heads
    scale = ONE / np.float32(np.sqrt(size))
    longest = 0
    for text in range(len(borders) - 1):
        longest = max(longest, borders[text + 1] - borders[text])
    room, wide = (longest + LANES - 1) // LANES * LANES, (size + LANES - 1) // LANES * LANES
    keys, values = np.zeros((size, room), np.float32), np.zeros((room, wide), np.float32)
    queries, scores = np.zeros((QUERIES, size), np.float32), np.zeros((QUERIES, room), np.float32)
    mixed, shares = np.empty((QUERIES, wide), np.float32), np.empty(QUERIES, np.float32)
    for text in range(len(borders) - 1):
        start, steps = borders[text], borders[text + 1] - borders[text]
        for head in range(n_heads):
            at = head * size
            for t in range(steps):
                for j in range(size):
                    values[t, j] = qkv[start + t, 2 * width + at + j] + bias[2 * width + at + j]
                for j in range(size):
                    keys[j, t] = qkv[start + t, width + at + j] + bias[width + at + j]
            for low in range(start, start + steps, QUERIES):
                rows = min(QUERIES, start + steps - low)
                for i in range(rows):
                    for j in range(size):
                        queries[i, j] = (qkv[low + i, at + j] + bias[at + j]) * scale
                multiply_pieces(queries, keys, scores, rows, steps, size)
                softmax_rows(scores, rows, steps, shares)
                multiply_pieces(scores, values, mixed, rows, size, steps)
                for i in range(rows):
                    for j in range(size):
                        out[low + i, at + j] = mixed[i, j] * shares[i]
