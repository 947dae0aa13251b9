"""Recurrent cells: LSTM (Hochreiter and Schmidhuber 1997), GRU (Cho et al. 2014) and plain RNN (Elman 1990),
and walks over whole sequences, for which a call at every step would take longer than the step.

A cell is the pointwise part of a step: the products with W_x and W_h are made before. torch runs it as a
dozen small operations, each over all rows; here a row of gates stays in the first cache. Each inner loop
touches few arrays, because LLVM only uses vector instructions where it can check cheaply that the arrays do
not overlap. "contract" (fused multiply-add) is the only liberty taken with the arithmetic of what training
uses as well: with full fast-math a NaN could come out as a number, and a diverged run would go unseen.
"""

import math

import numpy as np
from numba import njit

from seqloom.kernels.maths import FUSED, ZERO, add_scaled, norm_row, norm_rows, sigmoid, sigmoid_sum, tanh
from seqloom.kernels.matmul import linear

EPSILON = np.float32(1e-5)  # of layer norm, as in torch
ONE = np.float32(1)


@njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")
def tanh_gated(a, r, b, out):
    """Write tanh(a + r b) to out."""
    if a.itemsize == 4:
        for j in range(len(out)):
            out[j] = tanh(a[j] + r[j] * b[j])
    else:
        for j in range(len(out)):
            out[j] = math.tanh(a[j] + r[j] * b[j])


@njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")
def move_towards(start, share, end, out):
    """Write what lies between two vectors, `share` of the way from one to the other."""
    for j in range(len(out)):
        out[j] = start[j] + share[j] * (end[j] - start[j])


@njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")
def gru_cell(from_x, from_h, bias, before, keep, gates, inner, after):
    """One step for all rows of a batch, reset after the product.

    from_x (B, 3H) is W_x x + b, from_h (B, 3H) is W_h h, before (B, H) is h; gates r, z, n in this order.
    Writes gates (B, 3H), inner (B, H) = (W_h h + b_h) of the candidate, and after (B, H), the new h.
    keep: z is the share of the old h that stays (Cho et al. 2014), otherwise the share that is replaced.
    """
    rows, d = before.shape
    for i in range(rows):
        g, q, h = gates[i], inner[i], before[i]
        sigmoid_sum(from_x[i, : 2 * d], from_h[i, : 2 * d], g[: 2 * d])
        ours = from_h[i, 2 * d :]
        for j in range(d):
            q[j] = ours[j] + bias[j]
        r, z, n = g[:d], g[d : 2 * d], g[2 * d :]
        tanh_gated(from_x[i, 2 * d :], r, q, n)
        if keep:
            move_towards(n, z, h, after[i])
        else:
            move_towards(h, z, n, after[i])


@njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")
def gru_cell_back(gates, inner, before, above, keep, carried, d_from_x, d_from_h):
    """The same step backwards.

    above (B, H) is the gradient of this step's output, carried (B, H) that of its h from the later steps; on
    return carried holds the part for the earlier h that does not pass through W_h. d_from_x and d_from_h (B,
    3H) differ only in the candidate, whose product is seen through the reset gate.
    """
    rows, d = before.shape
    one = gates.dtype.type(1)
    for i in range(rows):
        g, h, dh, up = gates[i], before[i], carried[i], above[i]
        r, z, n = g[:d], g[d : 2 * d], g[2 * d :]
        dx, dp = d_from_x[i], d_from_h[i]
        dr, dz, dn = dx[:d], dx[d : 2 * d], dx[2 * d :]
        for j in range(d):
            dh[j] += up[j]
        if keep:
            for j in range(d):
                dz[j] = dh[j] * (h[j] - n[j]) * z[j] * (one - z[j])
            for j in range(d):
                dn[j] = dh[j] * (one - z[j]) * (one - n[j] * n[j])
            for j in range(d):
                dh[j] *= z[j]
        else:
            for j in range(d):
                dz[j] = dh[j] * (n[j] - h[j]) * z[j] * (one - z[j])
            for j in range(d):
                dn[j] = dh[j] * z[j] * (one - n[j] * n[j])
            for j in range(d):
                dh[j] *= one - z[j]
        q = inner[i]
        for j in range(d):
            dr[j] = dn[j] * q[j] * r[j] * (one - r[j])
        dp[: 2 * d] = dx[: 2 * d]
        late = dp[2 * d :]
        for j in range(d):
            late[j] = dn[j] * r[j]


@njit(nogil=True, cache=True, fastmath=FUSED, error_model="numpy")
def lstm_row(gates, c, norm_weight, norm_bias, h):
    """Turn sums (4H,) into the gates i, f, g, o, c (H,) into the new one, and write the new h (H,).

    With a norm (arrays that are not empty) it is the cell inside the last tanh that is normed;
    c itself stays as it is.
    """
    size = len(c)
    i, f, g, o = gates[:size], gates[size : 2 * size], gates[2 * size : 3 * size], gates[3 * size :]
    for j in range(2 * size):
        gates[j] = sigmoid(gates[j])
    for j in range(size):
        g[j] = tanh(g[j])
    for j in range(size):
        o[j] = sigmoid(o[j])
    for j in range(size):
        c[j] = f[j] * c[j] + i[j] * g[j]
    h[:] = c
    if len(norm_weight) > 0:
        norm_row(h, norm_weight, norm_bias, EPSILON)
    for j in range(size):
        h[j] = o[j] * tanh(h[j])


@njit(nogil=True, cache=True)
def lstm_cell(gates, from_h, c, norm_weight, norm_bias, h):
    """One step for all rows: gates (n, 4H), which hold W_x x + b, become the gates;
    c (n, H) moves on, h (n, H) is written.
    """
    for row in range(len(c)):
        add_scaled(gates[row], ONE, from_h[row])
        lstm_row(gates[row], c[row], norm_weight, norm_bias, h[row])


@njit(nogil=True, cache=True, fastmath=FUSED, error_model="numpy")
def rnn_row(total, relu):
    """Apply tanh, or relu, to a row in place."""
    if relu:
        for j in range(len(total)):
            total[j] = max(total[j], ZERO)
    else:
        for j in range(len(total)):
            total[j] = tanh(total[j])


@njit(nogil=True, cache=True)
def rnn_cell(from_x, from_h, norm_weight, norm_bias, relu, out):
    """Write tanh, or relu, of the sum of two products to out (n, H);
    with a norm it is the sum that is normed.
    """
    for row in range(len(out)):
        out[row] = from_x[row]
        add_scaled(out[row], ONE, from_h[row])
    if len(norm_weight) > 0:
        norm_rows(out, norm_weight, norm_bias, EPSILON)
    for row in range(len(out)):
        rnn_row(out[row], relu)


# ---- the GRU of the paper, whose reset gate works before the product


@njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")
def gru_reset(from_x, from_h, h, gates, out):
    """Write r and z to gates (n, 2H), and r h to out (n, H);
    from_x and from_h (n, 2H) are their two products.
    """
    size = h.shape[1]
    for row in range(len(h)):
        sigmoid_sum(from_x[row, : 2 * size], from_h[row], gates[row])
        for j in range(size):
            out[row, j] = gates[row, j] * h[row, j]


@njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")
def gru_update(from_x, from_reset, gates, h, keep, candidate, out):
    """Write the candidate from x, from_x (n, H), and from r h, from_reset (n, H),
    and the new h to out (n, H).
    """
    size = h.shape[1]
    for row in range(len(h)):
        candidate[row] = from_x[row]
        add_scaled(candidate[row], ONE, from_reset[row])
        rnn_row(candidate[row], False)
        z = gates[row, size:]
        if keep:
            move_towards(candidate[row], z, h[row], out[row])
        else:
            move_towards(h[row], z, candidate[row], out[row])


# ---- whole sequences

RNN, LSTM, GRU = 0, 1, 2


@njit(nogil=True, cache=True)
def step_places(offsets, order, t, reverse, places):
    """Write where step t of each sequence lies, the longest first, to places; return how many go on."""
    n = 0
    for k in range(len(order)):
        low, high = offsets[order[k]], offsets[order[k] + 1]
        if high - low <= t:
            break
        places[n] = high - 1 - t if reverse else low + t
        n += 1
    return n


@njit(nogil=True, cache=True)
def walk(kind, projected, w_h, b_h, relu, offsets, order, reverse, state_h, state_c, out):
    """Write all h of a layer to out (N, H); the states h and, of an LSTM, c (B, H) begin as given and end
    after the last steps.

    Sequence s has the steps offsets[s] to offsets[s + 1]; all go a step further at a time, and `order` has
    the longest first, so those that go on are the first rows. projected (N, G H), the input's part of the
    gates, bias included, is one product for all steps, made before. Cells are plain: no norms, no projection,
    reset after the product, z the share that stays.
    """
    rows, size = state_h.shape
    width = w_h.rows
    h, c = state_h[order], state_c[order] if kind == LSTM else state_c
    places, none = np.empty(rows, np.int64), np.empty(0, np.float32)
    from_x, gates = np.empty((rows, width), np.float32), np.empty((rows, width), np.float32)
    inner, after = np.empty((rows, size), np.float32), np.empty((rows, size), np.float32)
    t = 0
    n = step_places(offsets, order, t, reverse, places)
    while n > 0:
        from_h = linear(w_h, h[:n])
        for k in range(n):
            for j in range(width):
                from_x[k, j] = projected[places[k], j]
        if kind == LSTM:
            lstm_cell(from_x[:n], from_h, c[:n], none, none, h[:n])
        elif kind == GRU:
            gru_cell(from_x[:n], from_h, b_h, h[:n], True, gates[:n], inner[:n], after[:n])
            h[:n] = after[:n]
        else:
            rnn_cell(from_x[:n], from_h, none, none, relu, h[:n])
        for k in range(n):
            for j in range(size):
                out[places[k], j] = h[k, j]
        t += 1
        n = step_places(offsets, order, t, reverse, places)
    for k in range(rows):
        state_h[order[k]] = h[k]
        if kind == LSTM:
            state_c[order[k]] = c[k]
