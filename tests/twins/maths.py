"""What `kernels/maths` computes, in float64 and as the formulas say it."""

from __future__ import annotations

import math

import numpy as np


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu_erf(x: np.ndarray) -> np.ndarray:
    return x * 0.5 * (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2)))


def swish(x: np.ndarray) -> np.ndarray:
    return x * sigmoid(x)


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


def identity(x: np.ndarray) -> np.ndarray:
    return x


ACTIVATIONS = {
    "none": identity,
    "relu": relu,
    "tanh": np.tanh,
    "gelu": gelu,
    "gelu-erf": gelu_erf,
    "swish": swish,
    "sigmoid": sigmoid,
    "hard-sigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "leaky-relu": lambda x: np.where(x > 0, x, 0.01 * x),
}
GATED = {"geglu": gelu, "swiglu": swish}


def activate(x: np.ndarray, name: str) -> np.ndarray:
    """Of rows (n, M); with gates (n, 2M) these come before the units."""
    if name in ACTIVATIONS:
        return ACTIVATIONS[name](x)
    gates, units = np.split(x, 2, axis=1)
    return GATED[name](gates) * units


def softmax(x: np.ndarray) -> np.ndarray:
    """Over the last axis; of nothing there are no shares."""
    if not x.shape[-1]:
        return x
    shares = np.exp(x - x.max(axis=-1, keepdims=True))
    return shares / shares.sum(axis=-1, keepdims=True)


def layer_norm(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, epsilon: float) -> np.ndarray:
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + epsilon) * weight + bias


def rms_norm(x: np.ndarray, weight: np.ndarray, epsilon: float) -> np.ndarray:
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + epsilon) * weight


def rotate(x: np.ndarray, positions: np.ndarray, n_heads: int, angles: np.ndarray) -> np.ndarray:
    """Elements j and j + d/2 of a head as one complex number, turned by angles[position, j]."""
    out, half = x.copy(), angles.shape[1]
    for row, position in enumerate(positions):
        for head in range(n_heads):
            first = slice(2 * half * head, 2 * half * head + half)
            second = slice(first.stop, first.stop + half)
            turned = (x[row, first] + 1j * x[row, second]) * np.exp(1j * angles[position])
            out[row, first], out[row, second] = turned.real, turned.imag
    return out
