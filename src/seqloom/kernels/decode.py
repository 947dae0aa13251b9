"""What a network does for one token besides multiplying: gates, norms, attention, softmax.

Text is drawn one token after another, so a step is short and every call counts. A layer is one or two products,
which run at the speed of memory, and one kernel here that does all the rest in one pass.
Rows are sequences; all kernels work in place on arrays of shape (n, ...), so one sequence and many take the same way.

`fastmath` only lets sums be reordered (without
that no sum uses vector units); NaN and infinity keep their meaning, so a broken model is still noticed. NumPy's rules for
division, because a check of each divisor keeps a loop from using vector units too.
"""

import numpy as np
from numba import njit

from seqloom.kernels.intrinsics import exp

EPSILON = np.float32(1e-5)  # of layer norm, as in torch
ONE = np.float32(1.0)
TWO = np.float32(2.0)
LARGEST_LOGIT = np.float32(1e5)  # where the next number of float32 is 1 % away in probability


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")
def sigmoid(x):
    return ONE / (ONE + exp(-x))


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")
def tanh(x):
    return ONE - TWO / (ONE + exp(TWO * x))


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")
def norm_row(x, weight, bias, out, epsilon):
    mean = np.float32(0.0)
    for j in range(len(x)):
        mean += x[j]
    mean /= np.float32(len(x))
    square = np.float32(0.0)
    for j in range(len(x)):
        square += (x[j] - mean) * (x[j] - mean)
    scale = ONE / np.sqrt(square / np.float32(len(x)) + epsilon)
    for j in range(len(x)):
        out[j] = (x[j] - mean) * scale * weight[j] + bias[j]


@njit(nogil=True, cache=True)
def norm_rows(x, weight, bias, out, epsilon=EPSILON):
    """Layer norm (Ba et al. 2016) of every row; `out` may be x itself."""
    for i in range(len(x)):
        norm_row(x[i], weight, bias, out[i], epsilon)


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")
def rms_rows(x, weight, out, epsilon):
    """RMSNorm (Zhang and Sennrich 2019) of every row; `out` may be x itself."""
    for i in range(len(x)):
        square = np.float32(0.0)
        for j in range(x.shape[1]):
            square += x[i, j] * x[i, j]
        scale = ONE / np.sqrt(square / np.float32(x.shape[1]) + epsilon)
        for j in range(x.shape[1]):
            out[i, j] = x[i, j] * scale * weight[j]


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")
def lstm_cell(from_x, from_h, bias, norm_weight, norm_bias, c, out):
    """Gates i, f, g, o from the two products (n, 4H): c (n, H) is moved on in place, h is written to out (n, H).

    With a norm (arrays that are not empty) it is the cell inside the last tanh that is normed; c itself stays as it is.
    """
    size = c.shape[1]
    shown = np.empty(size, np.float32)
    for row in range(len(c)):
        x, y, cell, h = from_x[row], from_h[row], c[row], out[row]
        for j in range(size):
            i = sigmoid(x[j] + y[j] + bias[j])
            f = sigmoid(x[size + j] + y[size + j] + bias[size + j])
            g = tanh(x[2 * size + j] + y[2 * size + j] + bias[2 * size + j])
            cell[j] = f * cell[j] + i * g
        if len(norm_weight) > 0:
            norm_row(cell, norm_weight, norm_bias, shown, EPSILON)
        else:
            shown[:] = cell
        for j in range(size):
            o = sigmoid(x[3 * size + j] + y[3 * size + j] + bias[3 * size + j])
            h[j] = o * tanh(shown[j])


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")
def gru_cell(from_x, from_h, bias, bias_h, replace, h, out):
    """Gates r, z, n from the two products (n, 3H), reset after the product: the new h is written to out (n, H).

    With `replace` z is the share of the candidate, else that of the old state.
    """
    size = h.shape[1]
    for row in range(len(h)):
        x, y, old, new = from_x[row], from_h[row], h[row], out[row]
        for j in range(size):
            r = sigmoid(x[j] + y[j] + bias[j])
            z = sigmoid(x[size + j] + y[size + j] + bias[size + j])
            n = tanh(x[2 * size + j] + bias[2 * size + j] + r * (y[2 * size + j] + bias_h[j]))
            keep = ONE - z if replace else z
            new[j] = keep * old[j] + (ONE - keep) * n


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")
def gru_reset(from_x, from_h, bias, h, out):
    """Reset before the product: out (n, H) = r * h, with r from the first third of from_x (n, 3H) and of from_h (n, 2H)."""
    for row in range(len(h)):
        x, y, old, new = from_x[row], from_h[row], h[row], out[row]
        for j in range(len(old)):
            new[j] = sigmoid(x[j] + y[j] + bias[j]) * old[j]


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")
def gru_update(from_x, from_h, from_reset, bias, replace, h, out):
    """The rest of it: from_reset (n, H) is the candidate's product with r * h; the new h is written to out (n, H)."""
    size = h.shape[1]
    for row in range(len(h)):
        x, y, g, old, new = from_x[row], from_h[row], from_reset[row], h[row], out[row]
        for j in range(size):
            z = sigmoid(x[size + j] + y[size + j] + bias[size + j])
            n = tanh(x[2 * size + j] + bias[2 * size + j] + g[j])
            keep = ONE - z if replace else z
            new[j] = keep * old[j] + (ONE - keep) * n


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")
def rnn_cell(from_x, from_h, bias, relu, out):
    """out (n, H) = tanh or relu of the two products and the bias."""
    for row in range(len(out)):
        x, y, new = from_x[row], from_h[row], out[row]
        if relu:
            for j in range(len(new)):
                new[j] = max(x[j] + y[j] + bias[j], np.float32(0.0))
        else:
            for j in range(len(new)):
                new[j] = tanh(x[j] + y[j] + bias[j])


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")
def add_tanh(x, bias):
    """x = tanh(x + bias), (n, D)."""
    for row in range(len(x)):
        for j in range(len(bias)):
            x[row, j] = tanh(x[row, j] + bias[j])


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")
def add_relu(x, bias):
    """x = max(x + bias, 0), (n, D); gives x back."""
    for row in range(len(x)):
        for j in range(len(bias)):
            x[row, j] = max(x[row, j] + bias[j], np.float32(0.0))
    return x


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")
def add_gelu(x, bias):
    """x = gelu(x + bias), (n, D), in the form with tanh (Hendrycks and Gimpel 2016), where 1 + tanh(u) = 2 sigmoid(2u);
    gives x back."""
    for row in range(len(x)):
        for j in range(len(bias)):
            a = x[row, j] + bias[j]
            x[row, j] = a * sigmoid(np.float32(1.5957691216057308) * (a + np.float32(0.044715) * a * a * a))
    return x


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")
def add_swiglu(x, bias):
    """silu(gates) * units (Shazeer 2020), a new array (n, D), of x + bias (n, 2D), whose first half are the gates."""
    size = x.shape[1] // 2
    out = np.empty((len(x), size), np.float32)
    for row in range(len(x)):
        for j in range(size):
            a = x[row, j] + bias[j]
            out[row, j] = a * sigmoid(a) * (x[row, size + j] + bias[size + j])
    return out


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")
def add_row(x, change, bias):
    """x += change + bias, (n, D)."""
    for row in range(len(x)):
        for j in range(len(bias)):
            x[row, j] += change[row, j] + bias[j]


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")
def log_softmax(logits, bias):
    """Logits (n, V), plus a bias (V,) if it is not empty, become log-probabilities in place.

    A row whose largest logit is so large that float32 does not tell its neighbours apart becomes NaN, which is refused later.
    """
    for row in range(len(logits)):
        x = logits[row]
        if len(bias) > 0:
            for j in range(len(x)):
                x[j] += bias[j]
        top = x[0]
        for j in range(len(x)):
            top = max(top, x[j])
        total = np.float32(0.0)
        for j in range(len(x)):
            total += exp(x[j] - top)
        shift = top + np.float32(np.log(total)) if abs(top) < LARGEST_LOGIT else np.float32(np.nan)
        for j in range(len(x)):
            x[j] -= shift


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")
def draw(log_probs, uniform):
    """One token from log-probabilities (V,) that sum to one, by inverting the cumulative distribution at `uniform`."""
    block = 256
    probs = np.empty(len(log_probs), np.float32)
    blocks = np.empty(len(probs) // block + 1, np.float64)
    total = 0.0
    for b in range(len(blocks)):
        part = np.float32(0.0)
        for j in range(b * block, min(b * block + block, len(probs))):
            probs[j] = exp(log_probs[j]) if log_probs[j] > np.float32(-87.0) else np.float32(0.0)
            part += probs[j]
        blocks[b] = part
        total += part
    left = uniform * total
    b = 0
    while b < len(blocks) - 1 and left >= blocks[b]:
        left -= blocks[b]
        b += 1
    last = -1
    for j in range(b * block, len(probs)):
        if probs[j] > 0:
            last = j
            left -= probs[j]
            if left < 0:
                return j
    if last < 0:  # rounding led past the end
        last = np.argmax(probs)
    return last


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")
def rotate(x, positions, n_heads, cos, sin):
    """Rotary positions (Su et al. 2021) in place: element j of a head turns with element j + d/2; tables (context, d/2)."""
    half = cos.shape[1]
    for row in range(len(x)):
        c, s = cos[positions[row]], sin[positions[row]]
        for head in range(n_heads):
            at = 2 * half * head
            for j in range(half):
                a, b = x[row, at + j], x[row, at + half + j]
                x[row, at + j] = a * c[j] - b * s[j]
                x[row, at + half + j] = b * c[j] + a * s[j]


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")
def attend(qkv, keys, values, layer, lengths, n_heads, slopes, out):
    """Attention of one new token a row, qkv (n, D + 2K), to the lengths[row] cached ones and to itself; out (n, D).

    keys and values (n, n_layers, C, K) take the new token in; where K is a part of D, as many neighbouring heads share
    one. slopes (n_heads,) are ALiBi's, or empty.
    """
    width, narrow = out.shape[1], keys.shape[3]
    size, group = width // n_heads, width // narrow
    scale = ONE / np.float32(np.sqrt(size))
    weights = np.empty(keys.shape[2], np.float32)
    for row in range(len(out)):
        last = lengths[row]
        old_keys, old_values = keys[row, layer], values[row, layer]
        for j in range(narrow):
            old_keys[last, j] = qkv[row, width + j]
            old_values[last, j] = qkv[row, width + narrow + j]
        for head in range(n_heads):
            lo, shared = head * size, head // group * size
            query = qkv[row, lo : lo + size]
            top = np.float32(-np.inf)
            for t in range(last + 1):
                key = old_keys[t, shared : shared + size]
                dot = np.float32(0.0)
                for j in range(size):
                    dot += query[j] * key[j]
                dot *= scale
                if len(slopes) > 0:
                    dot -= slopes[head] * np.float32(last - t)
                weights[t] = dot
                top = max(top, dot)
            total = np.float32(0.0)
            for t in range(last + 1):
                weights[t] = exp(weights[t] - top)
                total += weights[t]
            mixed = out[row, lo : lo + size]
            mixed[:] = np.float32(0.0)
            for t in range(last + 1):
                share = weights[t] / total
                value = old_values[t, shared : shared + size]
                for j in range(size):
                    mixed[j] += share * value[j]


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")
def causal_softmax(scores, scale, slopes):
    """Scores (heads, Q, S) of the last Q of S tokens become shares in place; a token sees itself and those before it.

    slopes (heads,) are ALiBi's, or empty.
    """
    for head in range(len(scores)):
        for row in range(scores.shape[1]):
            x, seen = scores[head, row], scores.shape[2] - scores.shape[1] + row + 1
            for t in range(seen):
                x[t] *= scale
            if len(slopes) > 0:
                for t in range(seen):
                    x[t] -= slopes[head] * np.float32(seen - 1 - t)
            top = x[0]
            for t in range(seen):
                top = max(top, x[t])
            total = np.float32(0.0)
            for t in range(seen):
                x[t] = exp(x[t] - top)
                total += x[t]
            share = ONE / total
            for t in range(seen):
                x[t] *= share
            x[seen:] = np.float32(0.0)
