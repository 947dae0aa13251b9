"""Functions of float32 that networks are made of: exponential, tanh, softmax, norms, activation
functions, rotations.

Each formula is here once, for training and for inference. They are written out because the library's
are calls, which keep loops from using vector units. NaN and infinity keep their meaning, so a broken model
is still noticed. Division follows NumPy's rules (`error_model`), because a check of each divisor would keep
a loop from using vector units too.

Rows are independent: the result of a row does not depend on the rows beside it, to the bit. So it must be
the same in whatever kernel a function is compiled into, and sums are made in a fixed order (`sum_row`,
`dot_rows`). Only functions that no other kernel calls are `FAST`, which lets LLVM reorder sums.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numba.extending import overload

from seqloom.kernels.intrinsics import dot_rows, sum_row
from seqloom.kernels.team import do_parts, share

FUSED, FAST = {"contract", "nsz"}, {"reassoc", "contract", "nsz"}
ZERO, HALF, ONE, TWO = np.float32(0), np.float32(0.5), np.float32(1), np.float32(2)
BLOCK = 1024  # exponentials that are summed at a time: 256 took 1.3 times as long
EXP_WORK = 4  # multiplications and additions that an exponential takes as long as
LARGEST_LOGIT = np.float32(1e5)  # where the next number of float32 is 1 % away in probability
# kernels take the indices of these names
ACTIVATIONS = (
    *("none", "relu", "tanh", "gelu", "gelu-erf", "swish"),
    *("sigmoid", "hard-sigmoid", "leaky-relu"),  # of recurrent cells
    *("geglu", "swiglu"),
)
RELU, TANH, GELU, GELU_ERF, SWISH, SIGMOID, HARD_SIGMOID, LEAKY_RELU, GEGLU, SWIGLU = range(1, 11)
LEAK = np.float32(0.01)  # slope of the leaky relu below zero
BAND = np.float32(6)  # the hard sigmoid rises from 0 to 1 over this width
POOLING = ("last", "max", "mean", "attention")  # kernels take the indices of the first three
LAST, MAX, MEAN = range(3)
GATED = GEGLU  # from here on half of the units are gates


# ---- of one number


@njit(nogil=True, cache=True, fastmath=FUSED)
def exp(x):
    """Return e^x to 1e-7.

    e^x = 2^k e^r with integer k and |r| <= ln 2 / 2: a polynomial (Cephes) for e^r, and k is put into the
    exponent bits.
    """
    x = min(max(x, np.float32(-87.0)), np.float32(88.0))
    k = np.floor(x * np.float32(1.4426950408889634) + HALF)
    r = x - k * np.float32(0.693359375) + k * np.float32(2.12194440e-4)  # ln 2 in two parts
    p = np.float32(1.9875691500e-4)
    p = p * r + np.float32(1.3981999507e-3)
    p = p * r + np.float32(8.3334519073e-3)
    p = p * r + np.float32(4.1665795894e-2)
    p = p * r + np.float32(1.6666665459e-1)
    p = p * r + np.float32(5.0000001201e-1)
    p = p * r * r + r + ONE
    return p * np.int32((np.int32(k) + np.int32(127)) << np.int32(23)).view(np.float32)


# x P(x^2) / Q(x^2), the minimax fit to tanh on |x| <= 9.1 by relative error (2.3e-8; 3e-7 after rounding to
# float32). Beyond 9.1 tanh is 1 in float32. numba has no vector form of math.tanh.
EDGE = np.float32(9.1)
P0 = np.float32(0.9999999772199577)
P1 = np.float32(0.1337446318136119)
P2 = np.float32(0.0034877967696970457)
P3 = np.float32(2.0480954582865103e-05)
P4 = np.float32(1.3177212634831404e-08)
Q1 = np.float32(0.46707776968776)
Q2 = np.float32(0.02584733426414527)
Q3 = np.float32(0.00032728969126553036)
Q4 = np.float32(7.703916507557806e-07)


@njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy", inline="always")
def tanh(x):
    """Return tanh x; a NaN stays one, since comparisons with it are false."""
    x = EDGE if x > EDGE else x
    x = -EDGE if x < -EDGE else x
    s = x * x
    p = (((P4 * s + P3) * s + P2) * s + P1) * s + P0
    q = (((Q4 * s + Q3) * s + Q2) * s + Q1) * s + ONE
    y = x * p / q
    y = ONE if y > ONE else y
    return -ONE if y < -ONE else y


@njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy", inline="always")
def sigmoid(x):
    """Return 1 / (1 + e^-x) = (1 + tanh(x / 2)) / 2."""
    return HALF + HALF * tanh(HALF * x)


@njit(nogil=True, cache=True, fastmath=FUSED, error_model="numpy", inline="always")
def gelu(x):
    """Return x times the normal distribution function, approximated by tanh (Hendrycks and Gimpel
    2016): 1 + tanh(u) = 2 sigmoid(2u).
    """
    return x * sigmoid(np.float32(1.5957691216057308) * (x + np.float32(0.044715) * x * x * x))


@njit(nogil=True, cache=True, fastmath=FUSED, error_model="numpy", inline="always")
def gelu_erf(x):
    """Return x times the normal distribution function, as gelu is defined (Hendrycks and Gimpel 2016).

    erf by formula 7.1.26 of Abramowitz and Stegun, which is off by 1.5e-7 at most.
    """
    z = abs(x) * np.float32(0.7071067811865476)
    t = ONE / (ONE + np.float32(0.3275911) * z)
    p = np.float32(1.061405429)
    p = p * t - np.float32(1.453152027)
    p = p * t + np.float32(1.421413741)
    p = p * t - np.float32(0.284496736)
    p = p * t + np.float32(0.254829592)
    tail = HALF * p * t * exp(-z * z)  # of the distribution, beyond |x|
    return x * (ONE - tail if x > ZERO else tail)


@njit(nogil=True, cache=True, inline="always")
def in_order(bits):
    """Map the bits of a float32 to an integer of the same order, and back.

    numba's loops compute the maximum of integers, but not of floats, with vector units.
    """
    return np.int32(bits ^ ((bits >> np.int32(31)) & np.int32(0x7FFFFFFF)))


@njit(nogil=True, cache=True)
def row_max(x):
    """Return the largest of float32 x (D,), or NaN if one is, unless that has a sign; with vector units, as
    `x.max()` is not.
    """
    top = np.int32(-(2**31))
    for j in range(len(x)):
        top = max(top, in_order(np.float32(x[j]).view(np.int32)))
    return in_order(top).view(np.float32)


# ---- of rows of float32 or float64, as training has them


@njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")
def sigmoid_sum(a, b, out):
    """Write sigmoid(a + b) to out."""
    if a.itemsize == 4:
        for j in range(len(out)):
            out[j] = sigmoid(a[j] + b[j])
    else:
        for j in range(len(out)):
            out[j] = 0.5 + 0.5 * math.tanh(0.5 * (a[j] + b[j]))


@njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")
def tanh_sum(a, b, out):
    """Write tanh(a + b) to out."""
    if a.itemsize == 4:
        for j in range(len(out)):
            out[j] = tanh(a[j] + b[j])
    else:
        for j in range(len(out)):
            out[j] = math.tanh(a[j] + b[j])


# ---- of rows of float32


@njit(nogil=True, cache=True, fastmath=FUSED, error_model="numpy")
def dot(a, b):
    """Return the product of two vectors."""
    return dot_rows(a, b, ZERO)


@njit(nogil=True, cache=True, fastmath=FUSED, error_model="numpy")
def add_scaled(out, share, x):
    """Add `share` times x to out."""
    for j in range(len(out)):
        out[j] += share * x[j]


@njit(nogil=True, cache=True, fastmath=FUSED, error_model="numpy")
def add_rows(x, change):
    """Add a change (n, D) to x (n, D)."""
    for row in range(len(x)):
        for j in range(x.shape[1]):
            x[row, j] += change[row, j]


@njit(nogil=True, cache=True, fastmath=FUSED, error_model="numpy")
def exp_row(x):
    """Replace x by exp(x - max), and return one over its sum."""
    largest = row_max(x)
    for t in range(len(x)):
        x[t] = exp(x[t] - largest)
    return ONE / sum_row(x)


@njit(nogil=True, cache=True, fastmath=FUSED, error_model="numpy")
def softmax(x):
    """Replace scores (S,) by probabilities."""
    share = exp_row(x)
    for t in range(len(x)):
        x[t] *= share


@njit(nogil=True, cache=True, fastmath=FUSED, error_model="numpy")
def exp_block(x, shift, scale, out):
    """Write exp((x - shift) scale) to out, 0 below e^-87, and return the sum."""
    for j in range(len(x)):
        power = (np.float32(x[j]) - shift) * scale
        out[j] = exp(power) if power > np.float32(-87.0) else ZERO
    return sum_row(out)


class LogSoftmaxJob(NamedTuple):
    """Rows whose log-probabilities threads compute, row by row."""

    logits: np.ndarray
    bias: np.ndarray


@overload(do_parts)
def _do_log_softmax(job, low, high):
    def run(job, low, high):
        log_softmax_rows(job.logits, job.bias, low, high)

    return run if job.instance_class is LogSoftmaxJob else None


@njit(nogil=True, cache=True, fastmath=FUSED, error_model="numpy")
def log_softmax_rows(logits, bias, low, high):
    """Replace the rows of logits from `low` to `high` by log-probabilities, as `log_softmax` does."""
    powers = np.empty(BLOCK, np.float32)
    for row in range(low, high):
        x = logits[row]
        if len(bias) > 0:
            for j in range(len(x)):
                x[j] += bias[j]
        largest, total = row_max(x), ZERO
        for start in range(0, len(x), BLOCK):
            part = x[start : start + BLOCK]
            total += exp_block(part, largest, ONE, powers[: len(part)])
        shift = (
            largest + np.float32(np.log(total))
            if abs(largest) < LARGEST_LOGIT
            else np.float32(np.nan)
        )
        for j in range(len(x)):
            x[j] -= shift


@njit(nogil=True, cache=True)
def log_softmax(logits, bias, team):
    """Replace logits (n, V), plus a bias (V,) if it is not empty, by log-probabilities.

    A row becomes NaN, which is refused later, if its largest logit is too large for float32 to
    distinguish it from its neighbours.
    """
    job = LogSoftmaxJob(logits, bias)
    share(team, job, len(logits), logits.size * EXP_WORK)


@njit(nogil=True, cache=True, fastmath=FUSED, error_model="numpy")
def norm_row(x, weight, bias, epsilon):
    """Replace x (D,) by its layer norm (Ba et al. 2016),
    or without a bias by RMSNorm (Zhang and Sennrich 2019).

    In place, without an argument for the result: since that might overlap x, LLVM would not use vectors.
    """
    size = np.float32(len(x))
    mean = sum_row(x) / size if len(bias) > 0 else ZERO
    scale = ONE / np.sqrt(dot_rows(x, x, mean) / size + epsilon)
    if len(bias) > 0:
        for j in range(len(x)):
            x[j] = (x[j] - mean) * scale * weight[j] + bias[j]
    else:
        for j in range(len(x)):
            x[j] = x[j] * scale * weight[j]


@njit(nogil=True, cache=True)
def pool_rows(x, offsets, kind, half):
    """Return one vector for the steps x[offsets[r]:offsets[r + 1]] of each row, (R, D); zeros if it has none.

    `LAST` is the last step; from the column `half` on the first step, which is the last one of a reverse
    direction. `MAX` and `MEAN` are over all steps.
    """
    n, width = len(offsets) - 1, x.shape[1]
    out = np.zeros((n, width), np.float32)
    for r in range(n):
        low, high, row = offsets[r], offsets[r + 1], out[r]
        if low == high:
            continue
        if kind == LAST:
            row[:half] = x[high - 1, :half]
            row[half:] = x[low, half:]
            continue
        row[:] = x[low]
        for t in range(low + 1, high):
            step = x[t]
            if kind == MAX:
                for j in range(width):  # NaN stays
                    row[j] = row[j] if row[j] >= step[j] or row[j] != row[j] else step[j]
            else:
                for j in range(width):
                    row[j] += step[j]
        if kind == MEAN:
            share = ONE / np.float32(high - low)
            for j in range(width):
                row[j] *= share
    return out


@njit(nogil=True, cache=True)
def norm_rows(x, weight, bias, epsilon):
    """Normalise every row of x (n, D) in place."""
    for i in range(len(x)):
        norm_row(x[i], weight, bias, epsilon)


@njit(nogil=True, cache=True, fastmath=FUSED, error_model="numpy")
def activate_row(x, kind):
    """Apply one of ACTIVATIONS to x (M,) in place; with gates, x (2M,) has them before the units, and the
    result is in its first half.
    """
    size = len(x) // 2 if kind >= GATED else len(x)
    if kind == RELU:
        for j in range(size):
            x[j] = max(x[j], ZERO)
    elif kind == TANH:
        for j in range(size):
            x[j] = tanh(x[j])
    elif kind in (GELU, GEGLU):
        for j in range(size):
            x[j] = gelu(x[j])
    elif kind == GELU_ERF:
        for j in range(size):
            x[j] = gelu_erf(x[j])
    elif kind in (SWISH, SWIGLU):
        for j in range(size):
            x[j] = x[j] * sigmoid(x[j])
    elif kind == SIGMOID:
        for j in range(size):
            x[j] = sigmoid(x[j])
    elif kind == HARD_SIGMOID:
        for j in range(size):
            y = x[j] / BAND + HALF
            x[j] = ZERO if y < ZERO else ONE if y > ONE else y  # NaN stays NaN
    elif kind == LEAKY_RELU:
        for j in range(size):
            x[j] = LEAK * x[j] if x[j] < ZERO else x[j]
    if kind >= GATED:
        units = x[size:]
        for j in range(size):
            x[j] *= units[j]


@njit(nogil=True, cache=True)
def activate(x, kind):
    """Apply one of ACTIVATIONS to x (n, M) in place and return it; with gates (Shazeer 2020), x is (n, 2M)
    and the result a new array (n, M).
    """
    for row in range(len(x)):
        activate_row(x[row], kind)
    if kind < GATED:
        return x
    return x[:, : x.shape[1] // 2].copy()


@njit(nogil=True, cache=True, fastmath=FUSED, error_model="numpy")
def rotate(x, positions, n_heads, cos, sin):
    """Rotate the first heads of x (n, D) by their rotary positions (Su et al. 2021), in place.

    Element j of a head is rotated with element j + d/2; the tables are (context, d/2).
    """
    half = cos.shape[1]
    for row in range(len(x)):
        c, s = cos[positions[row]], sin[positions[row]]
        for head in range(n_heads):
            first = x[row, 2 * half * head : 2 * half * head + half]
            second = x[row, 2 * half * head + half : 2 * half * head + 2 * half]
            for j in range(half):
                a, b = first[j], second[j]
                first[j] = a * c[j] - b * s[j]
                second[j] = b * c[j] + a * s[j]


# ---- convolutions


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"}, error_model="numpy")
def character_maxima(ids, lengths, taps, bias, out):
    """Write the maxima of filters over three characters, over the positions of each word, to out (U, F).

    ids (U, L) beyond lengths (U,) are not read; taps (3, C, F) are the products of the character vectors
    with the parts of the filters for the previous, the current and the next character, so the value at a
    position is a sum of three rows.
    """
    values = np.empty(len(bias), np.float32)
    for word in range(len(lengths)):
        best, length = out[word], lengths[word]
        best[:] = np.float32(-np.inf if length else 0.0)
        for i in range(length):
            values[:] = taps[1, ids[word, i]]
            if i > 0:
                before = taps[0, ids[word, i - 1]]
                for j in range(len(values)):
                    values[j] += before[j]
            if i + 1 < length:
                after = taps[2, ids[word, i + 1]]
                for j in range(len(values)):
                    values[j] += after[j]
            for j in range(len(values)):
                value = values[j]  # `max` would ignore a NaN
                best[j] = value if value > best[j] or value != value else best[j]
        if length:
            for j in range(len(values)):
                best[j] += bias[j]
