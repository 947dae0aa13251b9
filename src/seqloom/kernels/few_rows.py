"""Products of a few rows with a matrix, as in beam search: for so few, a matrix library spends more time on packing the matrix
than on multiplying, and its threads on waiting for each other.

Five rows and two rows of weights at a time, or three and three, keep as many sums in vector registers as there are; every
number that is loaded is used for several of them. Sums may be reordered (without that no sum uses vector units); NaN and
infinity keep their meaning.
"""

import numpy as np
from numba import njit

FAST = {"reassoc", "contract", "nsz"}
ZERO = np.float32(0)


@njit(nogil=True, cache=True, fastmath=FAST)
def fives(weight, x, out):
    """out (5, R) = x (5, K) times the transpose of weight (R, K), R even."""
    x0, x1, x2, x3, x4 = x[0], x[1], x[2], x[3], x[4]
    for r in range(0, len(weight), 2):
        v, w = weight[r], weight[r + 1]
        a0 = a1 = a2 = a3 = a4 = b0 = b1 = b2 = b3 = b4 = ZERO
        for j in range(len(v)):
            a, b = v[j], w[j]
            a0 += a * x0[j]
            a1 += a * x1[j]
            a2 += a * x2[j]
            a3 += a * x3[j]
            a4 += a * x4[j]
            b0 += b * x0[j]
            b1 += b * x1[j]
            b2 += b * x2[j]
            b3 += b * x3[j]
            b4 += b * x4[j]
        out[0, r], out[1, r], out[2, r], out[3, r], out[4, r] = a0, a1, a2, a3, a4
        out[0, r + 1], out[1, r + 1], out[2, r + 1], out[3, r + 1], out[4, r + 1] = b0, b1, b2, b3, b4


@njit(nogil=True, cache=True, fastmath=FAST)
def threes(weight, x, out):
    """out (3, R) = x (3, K) times the transpose of weight (R, K), R a multiple of three."""
    x0, x1, x2 = x[0], x[1], x[2]
    for r in range(0, len(weight), 3):
        u, v, w = weight[r], weight[r + 1], weight[r + 2]
        a0 = a1 = a2 = b0 = b1 = b2 = c0 = c1 = c2 = ZERO
        for j in range(len(u)):
            a, b, c = u[j], v[j], w[j]
            a0 += a * x0[j]
            a1 += a * x1[j]
            a2 += a * x2[j]
            b0 += b * x0[j]
            b1 += b * x1[j]
            b2 += b * x2[j]
            c0 += c * x0[j]
            c1 += c * x1[j]
            c2 += c * x2[j]
        out[0, r], out[1, r], out[2, r] = a0, a1, a2
        out[0, r + 1], out[1, r + 1], out[2, r + 1] = b0, b1, b2
        out[0, r + 2], out[1, r + 2], out[2, r + 2] = c0, c1, c2


@njit(nogil=True, cache=True, fastmath=FAST)
def ones(weight, x, out):
    """out (R,) = x (K,) times the transpose of weight (R, K)."""
    for r in range(len(weight)):
        w = weight[r]
        total = ZERO
        for j in range(len(x)):
            total += w[j] * x[j]
        out[r] = total


@njit(nogil=True, cache=True)
def product(weight, x, out):
    """out (n, R) = x (n, K) times the transpose of weight (R, K)."""
    n, done = len(x), 0
    while n - done >= 3:
        rows, step = (5, 2) if n - done >= 5 else (3, 3)
        whole = len(weight) // step * step
        if rows == 5:
            fives(weight[:whole], x[done : done + 5], out[done : done + 5, :whole])
        else:
            threes(weight[:whole], x[done : done + 3], out[done : done + 3, :whole])
        for i in range(done, done + rows):
            ones(weight[whole:], x[i], out[i, whole:])
        done += rows
    for i in range(done, n):
        ones(weight, x[i], out[i])


@njit(nogil=True, cache=True)
def affine(weight, bias, x, out):
    """The same plus a bias (R,)."""
    product(weight, x, out)
    for i in range(len(x)):
        for r in range(len(bias)):
            out[i, r] += bias[r]
