"""Recurrent cells, one step in float64, as the papers write them; gates in the order in which
kernels have them.
"""

from __future__ import annotations

import numpy as np

from tests.twins.maths import ACTIVATIONS as ACTIVATIONS
from tests.twins.maths import layer_norm, sigmoid

EPSILON = 1e-5


def lstm(gates, from_h, c, norm_weight=None, norm_bias=None):
    """Hochreiter and Schmidhuber 1997, with a forget gate: (n, 4H), (n, 4H), (n, H) to the gates, c and h."""
    i, f, g, o = np.split(gates + from_h, 4, axis=1)
    i, f, g, o = sigmoid(i), sigmoid(f), np.tanh(g), sigmoid(o)
    c = f * c + i * g
    inner = c if norm_weight is None else layer_norm(c, norm_weight, norm_bias, EPSILON)
    return np.concatenate([i, f, g, o], axis=1), c, o * np.tanh(inner)


def gru(from_x, from_h, bias, h, keep):
    """Cho et al. 2014, reset after the product: the gates r, z, n and the new h."""
    (xr, xz, xn), (hr, hz, hn) = np.split(from_x, 3, axis=1), np.split(from_h, 3, axis=1)
    r, z = sigmoid(xr + hr), sigmoid(xz + hz)
    n = np.tanh(xn + r * (hn + bias))
    return np.concatenate([r, z, n], axis=1), mixed(h, n, z, keep)


def gru_reset_before(from_x, from_h, h, w_candidate, keep):
    """The same with the reset before the product with w_candidate (H, H)."""
    xr, xz, xn = np.split(from_x, 3, axis=1)
    hr, hz = np.split(from_h, 2, axis=1)
    r, z = sigmoid(xr + hr), sigmoid(xz + hz)
    n = np.tanh(xn + (r * h) @ w_candidate.T)
    return np.concatenate([r, z], axis=1), n, mixed(h, n, z, keep)


def mixed(h, n, z, keep):
    return z * h + (1 - z) * n if keep else (1 - z) * h + z * n


def rnn(from_x, from_h, relu, norm_weight=None, norm_bias=None):
    """Elman 1990."""
    total = from_x + from_h
    if norm_weight is not None:
        total = layer_norm(total, norm_weight, norm_bias, EPSILON)
    return np.maximum(total, 0) if relu else np.tanh(total)
