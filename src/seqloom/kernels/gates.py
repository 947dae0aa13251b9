"""The pointwise part of one GRU step, forward and backward, where the products stay with torch's matrix library; the scores
of additive attention, likewise; and whole recurrent layers over a single sequence.

torch runs a step as a dozen small operations, each over all rows; here a row of gates stays in the first cache.
Each inner loop touches few arrays, because LLVM only uses vector instructions where it can check cheaply that
the arrays do not overlap. "contract" (fused multiply-add) is the only liberty taken with the arithmetic: with full
fast-math a NaN could come out as a number, and a diverged run would go unseen.
"""

import math

import numpy as np
from numba import njit

from seqloom.kernels.intrinsics import LANES, product_piece, tanh32

ONE = np.float32(1)
HALF = np.float32(0.5)
WIDTH = 4 * LANES  # of a panel of weights


@njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")
def sigmoid_sum(a, b, out):
    """out = sigmoid(a + b) = (1 + tanh((a + b) / 2)) / 2."""
    if a.itemsize == 4:
        for j in range(len(out)):
            out[j] = HALF + HALF * tanh32(HALF * (a[j] + b[j]))
    else:
        for j in range(len(out)):
            out[j] = 0.5 + 0.5 * math.tanh(0.5 * (a[j] + b[j]))


@njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")
def tanh_gated(a, r, b, out):
    """out = tanh(a + r b)."""
    if a.itemsize == 4:
        for j in range(len(out)):
            out[j] = tanh32(a[j] + r[j] * b[j])
    else:
        for j in range(len(out)):
            out[j] = math.tanh(a[j] + r[j] * b[j])


@njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")
def gru_step(projected, product, bias, before, keep, gates, inner, after):
    """One step for all rows of a batch.

    projected (B, 3H) is W_x x + b, product (B, 3H) is W_h h, before (B, H) is h; gates r, z, n in this order.
    Writes gates (B, 3H), inner (B, H) = (W_h h + b_h) of the candidate, and after (B, H), the new h.
    keep: z is the share of the old h that stays (Cho et al. 2014), otherwise the share that is replaced.
    """
    rows, d = before.shape
    for i in range(rows):
        g, q, h, new = gates[i], inner[i], before[i], after[i]
        sigmoid_sum(projected[i, : 2 * d], product[i, : 2 * d], g[: 2 * d])
        ours = product[i, 2 * d :]
        for j in range(d):
            q[j] = ours[j] + bias[j]
        tanh_gated(projected[i, 2 * d :], g[:d], q, g[2 * d :])
        z, n = g[d : 2 * d], g[2 * d :]
        if keep:
            for j in range(d):
                new[j] = n[j] + z[j] * (h[j] - n[j])
        else:
            for j in range(d):
                new[j] = h[j] + z[j] * (n[j] - h[j])


@njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")
def gru_step_back(gates, inner, before, above, keep, carried, d_projected, d_product):
    """The same step backwards.

    above (B, H) is the gradient of this step's output, carried (B, H) that of its h from the later steps; on return
    carried holds the part for the earlier h that does not pass through W_h. d_projected and d_product (B, 3H)
    differ only in the candidate, whose product is seen through the reset gate.
    """
    rows, d = before.shape
    one = gates.dtype.type(1)
    for i in range(rows):
        g, h, dh, up = gates[i], before[i], carried[i], above[i]
        r, z, n = g[:d], g[d : 2 * d], g[2 * d :]
        dx, dp = d_projected[i], d_product[i]
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


WALK = {"reassoc", "contract", "nsz"}  # sums may be reordered; NaN and infinity keep their meaning


# ---- additive attention (`nn.memory`): energy . tanh(query + key) of all pairs, which are never in memory together


@njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")
def tanh_sum(a, b, out):
    """out = tanh(a + b)."""
    if a.itemsize == 4:
        for j in range(len(out)):
            out[j] = tanh32(a[j] + b[j])
    else:
        for j in range(len(out)):
            out[j] = math.tanh(a[j] + b[j])


@njit(nogil=True, cache=True, fastmath=WALK)
def additive_scores(queries, keys, energy, scores):
    """Of queries (B, T, D) and keys (B, S, D), scores (B, T, S)."""
    inner = np.empty_like(energy)
    for b in range(len(queries)):
        for t in range(queries.shape[1]):
            for s in range(keys.shape[1]):
                tanh_sum(queries[b, t], keys[b, s], inner)
                total = energy.dtype.type(0)
                for j in range(len(energy)):
                    total += energy[j] * inner[j]
                scores[b, t, s] = total


@njit(nogil=True, cache=True, fastmath=WALK)
def additive_scores_back(queries, keys, energy, above, d_queries, d_keys, d_energy):
    """`above` (B, T, S) is the gradient of the scores; adds those of the three others. What is zero, as at padding, is free."""
    inner, one = np.empty_like(energy), energy.dtype.type(1)
    for b in range(len(queries)):
        for t in range(queries.shape[1]):
            to_query = d_queries[b, t]
            for s in range(keys.shape[1]):
                up = above[b, t, s]
                if up == 0:
                    continue
                tanh_sum(queries[b, t], keys[b, s], inner)
                for j in range(len(energy)):
                    d_energy[j] += up * inner[j]
                for j in range(len(energy)):
                    inner[j] = up * energy[j] * (one - inner[j] * inner[j])
                for j in range(len(energy)):
                    to_query[j] += inner[j]
                to_key = d_keys[b, s]
                for j in range(len(energy)):
                    to_key[j] += inner[j]


# ---- whole sequences, for one text at a time, where a call at every step would take longer than the step. The input's part of
# the gates is one product for all steps, made before. W_h lies in panels, whose sums stay in registers: a step reads each
# weight once, in their order, and nothing else. With numba's own rules for division, a check of each would keep LLVM from using
# vector instructions. States begin at zero.

@njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy", inline="always")
def sigmoid32(x):
    return HALF + HALF * tanh32(HALF * x)


_piece = product_piece(1, WIDTH // LANES)


@njit(nogil=True, cache=True, error_model="numpy")
def multiply_by_panels(h, panels, gates):
    """gates (1, P WIDTH) = h (1, H) times panels (P, H, WIDTH)."""
    size = panels.shape[1]
    for panel in range(len(panels)):
        _piece(h, 0, panels, panel * size * WIDTH, WIDTH, size, gates, panel * WIDTH, 0)


@njit(nogil=True, cache=True, fastmath=WALK, error_model="numpy")
def lstm_cell(gates, c, h):
    """The new c and h (H,) from the gates i, f, g, o (4H,)."""
    size = len(h)
    i, f, g, o = gates[:size], gates[size : 2 * size], gates[2 * size : 3 * size], gates[3 * size :]
    for j in range(size):
        c[j] = sigmoid32(f[j]) * c[j] + sigmoid32(i[j]) * tanh32(g[j])
    for j in range(size):
        h[j] = sigmoid32(o[j]) * tanh32(c[j])


@njit(nogil=True, cache=True, fastmath=WALK, error_model="numpy")
def lstm_walk(projected, panels, direction, out):
    """Gates i, f, g, o from the input, 4H columns of projected (T, ...), bias included, and W_h in panels: all h, H columns of
    out (T, ...). Direction 0 has the first columns of both and begins at the first step, 1 the next ones and the last step."""
    steps, size = len(out), panels.shape[1]
    state, gates = np.zeros((1, size), np.float32), np.empty((1, len(panels) * WIDTH), np.float32)
    h, c, sums = state[0], np.zeros(size, np.float32), gates[0, : 4 * size]
    for t in range(steps):
        at = steps - 1 - t if direction else t
        multiply_by_panels(state, panels, gates)
        x = projected[at, direction * 4 * size : (direction + 1) * 4 * size]
        for j in range(len(sums)):
            sums[j] += x[j]
        lstm_cell(sums, c, h)
        out[at, direction * size : (direction + 1) * size] = h


@njit(nogil=True, cache=True, fastmath=WALK, error_model="numpy")
def gru_walk(projected, panels, bias_h, direction, out):
    """The same with gates r, z, n, 3H columns, and the candidate's own bias (H,)."""
    steps, size = len(out), panels.shape[1]
    state, gates = np.zeros((1, size), np.float32), np.empty((1, len(panels) * WIDTH), np.float32)
    h, sums = state[0], gates[0]
    for t in range(steps):
        at = steps - 1 - t if direction else t
        multiply_by_panels(state, panels, gates)
        x = projected[at, direction * 3 * size : (direction + 1) * 3 * size]
        for j in range(size):
            r = sigmoid32(x[j] + sums[j])
            z = sigmoid32(x[size + j] + sums[size + j])
            n = tanh32(x[2 * size + j] + r * (sums[2 * size + j] + bias_h[j]))
            h[j] = z * h[j] + (ONE - z) * n
        out[at, direction * size : (direction + 1) * size] = h


@njit(nogil=True, cache=True, fastmath=WALK, error_model="numpy")
def rnn_walk(projected, panels, direction, out):
    """The same with one tanh, H columns."""
    steps, size = len(out), panels.shape[1]
    state, gates = np.zeros((1, size), np.float32), np.empty((1, len(panels) * WIDTH), np.float32)
    h, sums = state[0], gates[0]
    for t in range(steps):
        at = steps - 1 - t if direction else t
        multiply_by_panels(state, panels, gates)
        x = projected[at, direction * size : (direction + 1) * size]
        for j in range(size):
            h[j] = tanh32(x[j] + sums[j])
        out[at, direction * size : (direction + 1) * size] = h


@njit(nogil=True, cache=True, fastmath={"contract", "nsz"}, error_model="numpy")
def character_maxima(ids, lengths, taps, bias, out):
    """Filters over three characters of each word, and their maxima over its places: out (U, F).

    ids (U, L) beyond lengths (U,) are not read; taps (3, C, F) are the products of the character vectors with the parts of the
    filters for the character before, the one at the place and the one after, so a place is a sum of three rows.
    """
    places = np.empty(len(bias), np.float32)
    for word in range(len(lengths)):
        best, length = out[word], lengths[word]
        best[:] = np.float32(-np.inf if length else 0.0)
        for i in range(length):
            places[:] = taps[1, ids[word, i]]
            if i > 0:
                before = taps[0, ids[word, i - 1]]
                for j in range(len(places)):
                    places[j] += before[j]
            if i + 1 < length:
                after = taps[2, ids[word, i + 1]]
                for j in range(len(places)):
                    places[j] += after[j]
            for j in range(len(places)):
                best[j] = max(best[j], places[j])
        if length:
            for j in range(len(places)):
                best[j] += bias[j]
