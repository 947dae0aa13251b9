"""Recurrent language models whose gates are held at a value, and what a text costs them then.

A gate that is held is one that neither reads nor listens: the rows of its units in W_x and W_h are zero, and
its bias is the number of which the activation is the value. So the held network is an ordinary one on other
weights, and every path of the runtime is as it was. Where products are normalised, scale and shift of the
norm are zero instead, since the rows count in the mean and the deviation of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from seqloom import batching
from seqloom.errors import ConfigError
from seqloom.kernels.maths import ACTIVATIONS, BAND, LEAK
from seqloom.models.network.recurrence import Layer
from seqloom.runtime.weights import Weights
from seqloom.traces import Trace

CANDIDATES = "gn"  # gates that are no share of something: what an LSTM and a GRU may write
FAR = 100.0  # where sigmoid and tanh are 0, 1 and -1 to the last bit
TOKENS = 512  # of which all log-probabilities are in memory


def gates_of(layers: Sequence[Layer]) -> str:
    """Return a letter for each gate of these layers, or say why none can be held."""
    cell = layers[0].cell
    if not layers[0].known or not cell.gate_names:
        raise ConfigError(
            f"{layers[0].kind} has no gates whose equations are known; an LSTM and a GRU have"
        )
    return str(cell.gate_names)


def mean_gates(
    model: Any, layers: Sequence[Layer], ids: np.ndarray, lengths: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the mean of each gate's units over a text, (H,), by layer and gate: `recurrent.layers.0.f`."""
    trace = Trace(*(f"{layer.name}.gates.*" for layer in layers))
    model.runtime().read(ids, batching.offsets(lengths), trace)
    return {
        name.replace(".gates.", "."): gate.mean(0, dtype=np.float64) for name, gate in trace.items()
    }


def held(
    model: Any, layers: Sequence[Layer], gate: str, value: Any, unit: int | None = None
) -> Any:
    """Return the network of a model with a gate of these layers at a value, a number or one for each unit by
    layer and gate; `unit`: of one unit alone.
    """
    weights = dict(model.weights)
    for layer in layers:
        cell, width = layer.cell, layer.cell.d_hidden
        given = value if isinstance(value, (int, float)) else value[f"{layer.name}.{gate}"]
        units = slice(None) if unit is None else slice(unit, unit + 1)
        first = cell.gate_names.index(gate) * width
        rows = np.arange(first, first + width)[units]
        kind = cell.formula.values if gate in CANDIDATES else cell.formula.gates
        bias = inverse(ACTIVATIONS[kind], np.broadcast_to(given, width)[units])
        normed = bool(len(cell.norm_h.weight))
        silent = ("norm_x.weight", "norm_x.bias", "norm_h.weight", "norm_h.bias")
        changes = {name: 0.0 for name in (silent if normed else ("w_x", "w_h"))} | {"b": bias}
        for name, numbers in changes.items():
            array = np.array(weights[f"{layer.name}.{name}"])
            array[rows] = numbers
            weights[f"{layer.name}.{name}"] = array
        if gate == "n" and len(cell.b_h):
            array = np.array(weights[f"{layer.name}.b_h"])
            array[units] = 0.0
            weights[f"{layer.name}.b_h"] = array
    return model.take_runtime(Weights(weights))


def inverse(activation: str, value: np.ndarray) -> np.ndarray:
    """Return numbers of which the activation is the value, or the nearest that it has.

    >>> inverse("sigmoid", np.array([0.0, 0.5, 1.0])).tolist()
    [-100.0, 0.0, 100.0]
    """
    value = np.asarray(value, np.float64)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        if activation == "sigmoid":
            found = np.log(value) - np.log1p(-value)
        elif activation == "tanh":
            found = np.arctanh(value)
        elif activation == "hard-sigmoid":
            found = (value - 0.5) * BAND
        elif activation == "leaky-relu":
            found = np.where(value < 0, value / LEAK, value)
        else:  # relu
            found = value
    limits: np.ndarray = np.clip(found, -FAR, FAR)
    return limits


def costs(network: Any, read: np.ndarray, ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the bits that each token of ids costs a network that reads the tokens `read` before it, (N,)."""
    features = network.read(read, batching.offsets(lengths))
    bits = np.empty(len(ids))
    for low in range(0, len(ids), TOKENS):
        part = slice(low, low + TOKENS)
        log_probs = network.output.log_probs(features[part])
        bits[part] = -log_probs[np.arange(len(log_probs)), ids[part]] / np.log(2)
    return bits
