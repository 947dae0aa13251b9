"""Recurrent cells: LSTM (Hochreiter and Schmidhuber 1997), GRU (Cho et al. 2014) and plain RNN (Elman 1990),
and walks over whole sequences, for which a call at every step would take longer than the step.

A cell is the pointwise part of a step, after the products with W_x and W_h. torch runs it as a dozen small
operations, each over all rows; here a row of gates stays in the first-level cache. Each inner loop uses few
arrays, because LLVM only uses vector instructions where it can check cheaply that the arrays do not
overlap. Functions that training uses have no fast-math flag but "contract" (fused multiply-add): with all
of them a NaN could become a number, and a diverged run would go unnoticed.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.extending import overload

from seqloom.kernels.maths import (
    FUSED,
    SIGMOID,
    TANH,
    activate_row,
    add_scaled,
    norm_row,
    norm_rows,
    sigmoid_sum,
    tanh,
)
from seqloom.kernels.matmul import WIDTH, linear, linear_into
from seqloom.kernels.team import do_parts, share

EPSILON = np.float32(1e-5)  # of layer norm, as in torch
ONE = np.float32(1)


class Formula(NamedTuple):
    """What the variants of a cell have instead of sigmoid and tanh: indices of `maths.ACTIVATIONS`."""

    gates: int = SIGMOID
    values: int = TANH  # of the candidate, and of c where the LSTM's output reads it
    clamp: float = math.inf  # largest size of c


PLAIN = Formula()


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
    """Write start + share (end - start), an interpolation of two vectors, to out."""
    for j in range(len(out)):
        out[j] = start[j] + share[j] * (end[j] - start[j])


@njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")
def gru_cell(from_x, from_h, bias, before, keep, gates, inner, after):
    """Compute one GRU step for all rows of a batch, with the reset after the product.

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
    """Compute the gradients of one GRU step.

    above (B, H) is the gradient of this step's output, carried (B, H) that of its h from the later steps; on
    return carried holds the part for the earlier h that does not pass through W_h. d_from_x and d_from_h (B,
    3H) differ only in the candidate, where the product with W_h is multiplied by the reset gate.
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
def lstm_row(gates, c, norm_weight, norm_bias, formula, h):
    """Replace sums (4H,) by the gates i, f, g, o, c (H,) by the new c, and write the new h (H,).

    With a norm (arrays that are not empty) the cell inside the last tanh is normalised; c itself is not.
    """
    size = len(c)
    i, f, g, o = gates[:size], gates[size : 2 * size], gates[2 * size : 3 * size], gates[3 * size :]
    activate_row(gates[: 2 * size], formula.gates)
    activate_row(g, formula.values)
    activate_row(o, formula.gates)
    for j in range(size):
        c[j] = f[j] * c[j] + i[j] * g[j]
    if formula.clamp < math.inf:
        limit = np.float32(formula.clamp)
        for j in range(size):
            c[j] = -limit if c[j] < -limit else limit if c[j] > limit else c[j]  # NaN stays NaN
    h[:] = c
    if len(norm_weight) > 0:
        norm_row(h, norm_weight, norm_bias, EPSILON)
    activate_row(h, formula.values)
    for j in range(size):
        h[j] *= o[j]


@njit(nogil=True, cache=True)
def lstm_cell(gates, from_h, c, norm_weight, norm_bias, formula, h):
    """Compute one LSTM step for all rows: gates (n, 4H), which hold W_x x + b, become the gates;
    c (n, H) is updated, h (n, H) is written.
    """
    for row in range(len(c)):
        add_scaled(gates[row], ONE, from_h[row])
        lstm_row(gates[row], c[row], norm_weight, norm_bias, formula, h[row])


@njit(nogil=True, cache=True)
def rnn_cell(from_x, from_h, norm_weight, norm_bias, activation, out):
    """Write an activation function of the sum of two products to out (n, H); a norm applies to the
    sum.
    """
    for row in range(len(out)):
        out[row] = from_x[row]
        add_scaled(out[row], ONE, from_h[row])
    if len(norm_weight) > 0:
        norm_rows(out, norm_weight, norm_bias, EPSILON)
    for row in range(len(out)):
        activate_row(out[row], activation)


# ---- the GRU of the paper, with the reset gate before the product; and its variants


@njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")
def gru_reset(from_x, from_h, h, formula, gates, out):
    """Write r and z to gates (n, 2H), and r h to out (n, H);
    from_x and from_h (n, 2H) are their two products. With the reset after the product, h is W_h h + b_h.
    """
    size = h.shape[1]
    for row in range(len(h)):
        gates[row] = from_x[row, : 2 * size]
        add_scaled(gates[row], ONE, from_h[row])
        activate_row(gates[row], formula.gates)
        for j in range(size):
            out[row, j] = gates[row, j] * h[row, j]


@njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")
def gru_update(from_x, from_reset, gates, h, keep, formula, candidate, out):
    """Write the candidate from x, from_x (n, H), and from r h, from_reset (n, H),
    and the new h to out (n, H).
    """
    size = h.shape[1]
    for row in range(len(h)):
        candidate[row] = from_x[row]
        add_scaled(candidate[row], ONE, from_reset[row])
        activate_row(candidate[row], formula.values)
        z = gates[row, size:]
        if keep:
            move_towards(candidate[row], z, h[row], out[row])
        else:
            move_towards(h[row], z, candidate[row], out[row])


# ---- a step of all rows, products included; empty arrays for no layer norm


@njit(nogil=True, cache=True)
def normed_product(w_h, h, norm_weight, norm_bias):
    """Return rows h (n, H) times the transpose of W_h, normalised."""
    out = linear(w_h, h)
    if len(norm_weight) > 0:
        norm_rows(out, norm_weight, norm_bias, EPSILON)
    return out


@njit(nogil=True, cache=True)
def lstm_step(from_x, w_h, norm_h, bias_h, norm_c, bias_c, formula, h, c):
    """Return the new h and c; from_x becomes the gates."""
    after, cell = np.empty_like(c), c.copy()
    product = normed_product(w_h, h, norm_h, bias_h)
    lstm_cell(from_x, product, cell, norm_c, bias_c, formula, after)
    return after, cell


@njit(nogil=True, cache=True)
def gru_step(from_x, w_h, norm_h, bias_h, bias, keep, h):
    """Return the new h and the gates, reset after the product."""
    gates, inner, after = np.empty_like(from_x), np.empty_like(h), np.empty_like(h)
    gru_cell(from_x, normed_product(w_h, h, norm_h, bias_h), bias, h, keep, gates, inner, after)
    return after, gates


@njit(nogil=True, cache=True)
def rnn_step(from_x, w_h, norm_h, bias_h, activation, h):
    """Return the new h."""
    after = np.empty_like(h)
    rnn_cell(from_x, linear(w_h, h), norm_h, bias_h, activation, after)
    return after


# ---- whole sequences

RNN, LSTM, GRU = 0, 1, 2


@njit(nogil=True, cache=True)
def step_rows(offsets, order, t, reverse, rows_of_step):
    """Write the row of step t of each sequence, the longest first, to rows_of_step; return how many
    have one.
    """
    n = 0
    for k in range(len(order)):
        low, high = offsets[order[k]], offsets[order[k] + 1]
        if high - low <= t:
            break
        rows_of_step[n] = high - 1 - t if reverse else low + t
        n += 1
    return n


NOT_KEPT = np.empty((0, 0), np.float32)


class Direction(NamedTuple):
    """One direction of a layer, and the sequences to read."""

    # (N, G H), the input's part of the gates, bias included: one product for all steps
    projected: np.ndarray
    w_h: Any  # Panels or Tiles
    b_h: np.ndarray  # of a GRU
    h: np.ndarray  # (B, H), the states: they begin as given and end after the last steps
    c: np.ndarray  # the same of an LSTM
    gates: np.ndarray = NOT_KEPT  # (N, G H), where those of all steps are written, if wanted
    cells: np.ndarray = NOT_KEPT  # (N, H), the same of an LSTM's c


class WalkJob(NamedTuple):
    """A layer that reads sequences, which two threads share, a direction each."""

    kind: int
    formula: Formula
    offsets: np.ndarray
    order: np.ndarray
    forward: Direction
    backward: Direction
    out: np.ndarray


@njit(nogil=True, cache=True)
def walk(kind, formula, offsets, order, direction, reverse, out):
    """Write all h of a direction to out (N, H), or, if `reverse`, to the right half of (N, 2 H).

    Sequence s has the steps offsets[s] to offsets[s + 1]; all advance together, and `order` has the longest
    first, so those that have not ended are the first rows. Cells have no norms, no projection; a GRU is
    plain: reset after the product, z the share of the old h, sigmoid and tanh.
    """
    projected, w_h = direction.projected, direction.w_h
    rows, size = direction.h.shape
    width, column = projected.shape[1], size if reverse else 0
    h, c = direction.h[order], direction.c[order] if kind == LSTM else direction.c
    rows_of_step, none = np.empty(rows, np.int64), np.empty(0, np.float32)
    from_x, gates = np.empty((rows, width), np.float32), np.empty((rows, width), np.float32)
    from_h = np.empty((rows, width + WIDTH), np.float32)
    inner, after = np.empty((rows, size), np.float32), np.empty((rows, size), np.float32)
    t = 0
    n = step_rows(offsets, order, t, reverse, rows_of_step)
    while n > 0:
        linear_into(w_h, h[:n], from_h[:n])
        for k in range(n):
            from_x[k] = projected[rows_of_step[k]]
        if kind == LSTM:
            lstm_cell(from_x[:n], from_h, c[:n], none, none, formula, h[:n])
        elif kind == GRU:
            gru_cell(
                from_x[:n], from_h, direction.b_h, h[:n], True, gates[:n], inner[:n], after[:n]
            )
            h[:n] = after[:n]
        else:
            rnn_cell(from_x[:n], from_h, none, none, formula.values, h[:n])
        for k in range(n):
            out[rows_of_step[k], column : column + size] = h[k]
        if len(direction.gates) > 0:
            steps = gates if kind == GRU else from_x  # an LSTM's sums have become its gates
            for k in range(n):
                direction.gates[rows_of_step[k]] = steps[k]
        if len(direction.cells) > 0:
            for k in range(n):
                direction.cells[rows_of_step[k]] = c[k]
        t += 1
        n = step_rows(offsets, order, t, reverse, rows_of_step)
    for k in range(rows):
        direction.h[order[k]] = h[k]
        if kind == LSTM:
            direction.c[order[k]] = c[k]


@overload(do_parts)
def _do_directions(job, low, high):
    def run(job, low, high):
        for part in range(low, high):
            if part:
                walk(job.kind, job.formula, job.offsets, job.order, job.backward, True, job.out)
            else:
                walk(job.kind, job.formula, job.offsets, job.order, job.forward, False, job.out)

    return run if job.instance_class is WalkJob else None


@njit(nogil=True, cache=True)
def walk_layer(kind, formula, offsets, order, forward, backward, out):
    """Write all h of a layer to out: (N, H), or (N, 2 H) with a backward direction."""
    directions = out.shape[1] // forward.h.shape[1]
    job = WalkJob(kind, formula, offsets, order, forward, backward, out)
    work = forward.projected.size * forward.h.shape[1]
    share(forward.w_h.team, job, directions, work)
