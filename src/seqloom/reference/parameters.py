"""The number of a cell's parameters, initial values, and conversion to and from torch's names.

seqloom has one bias per gate; torch.nn has two that are always added (b_ih and b_hh), which makes its
counts larger, and its forget bias twice as large if both are set to 1. The exception is n of a GRU
with the reset after the product, r * (w_hn h + b_h): there the second bias is inside the gate and is a
separate parameter.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from seqloom.errors import ConfigError
from seqloom.reference.gru import Reset, Update
from seqloom.reference.sequences import Params

Kind = Literal["rnn", "lstm", "gru"]
GATES: dict[str, int] = {"rnn": 1, "lstm": 4, "gru": 3}
BIASES: dict[str, int] = {"none": 0, "one": 1, "two": 2}


def count_parameters(
    kind: Kind, d_input: int, d_hidden: int, *, biases: Literal["none", "one", "two"] = "one"
) -> int:
    """Return gates times H (D + H + biases). With reset="after" a GRU of one bias a gate has H
    more, for b_h.

    >>> count_parameters("lstm", 100, 256), count_parameters("gru", 100, 256)
    (365568, 274176)
    >>> count_parameters("lstm", 100, 256, biases="two")  # torch.nn.LSTM
    366592
    """
    return _gates(kind) * d_hidden * (d_input + d_hidden + BIASES[biases])


def init_params(
    kind: Kind, d_input: int, d_hidden: int, *, reset: Reset = "after", seed: int = 0
) -> Params:
    """Sample weights uniformly within 1 / sqrt(H); biases are zero except the LSTM's forget
    gate, which starts at 1 so that the cell keeps its value.
    """
    rng = np.random.default_rng(seed)
    rows, bound = _gates(kind) * d_hidden, d_hidden**-0.5
    params = {
        "w_x": rng.uniform(-bound, bound, (rows, d_input)),
        "w_h": rng.uniform(-bound, bound, (rows, d_hidden)),
        "b": np.zeros(rows),
    }
    if kind == "lstm":
        params["b"][d_hidden : 2 * d_hidden] = 1  # order i, f, g, o
    if kind == "gru" and reset == "after":
        params["b_h"] = np.zeros(d_hidden)
    return params


def to_torch(
    kind: Kind, params: Params, *, update: Update = "keep", layer: int = 0, reverse: bool = False
) -> Params:
    """Return the arrays under torch.nn's names, for `load_state_dict` once they are tensors.

    A GRU with the reset before the product has no counterpart in torch, and is refused.
    """
    d_hidden = params["w_h"].shape[1]
    if kind == "gru" and "b_h" not in params:
        raise ConfigError(
            "torch's GRU resets after the product; weights of reset='before' do not fit it"
        )
    params = _other_update(params) if kind == "gru" and update == "replace" else params
    second = np.zeros_like(params["b"])
    if kind == "gru":
        second[2 * d_hidden :] = params["b_h"]
    end = _suffix(layer, reverse)
    return {
        f"weight_ih{end}": params["w_x"],
        f"weight_hh{end}": params["w_h"],
        f"bias_ih{end}": params["b"],
        f"bias_hh{end}": second,
    }


def from_torch(
    kind: Kind, arrays: Params, *, update: Update = "keep", layer: int = 0, reverse: bool = False
) -> Params:
    """Copy one layer and direction out of a torch.nn state dict of arrays; where torch has no
    biases, they are zero.
    """
    end = _suffix(layer, reverse)
    if f"weight_hr{end}" in arrays:
        raise ConfigError("the LSTM has a projection (proj_size), which the reference does not")
    if f"weight_hh{end}" not in arrays:
        raise ConfigError(f"there is no weight_hh{end} among {', '.join(sorted(arrays))}")
    w_h = arrays[f"weight_hh{end}"]
    rows, d_hidden = w_h.shape
    if rows != _gates(kind) * d_hidden:
        raise ConfigError(
            f"weight_hh{end} has shape {w_h.shape}, which is not that of a layer of kind {kind!r}"
        )
    first = arrays.get(f"bias_ih{end}", np.zeros(rows, w_h.dtype))
    second = arrays.get(f"bias_hh{end}", np.zeros(rows, w_h.dtype))
    params = {"w_x": arrays[f"weight_ih{end}"].copy(), "w_h": w_h.copy(), "b": first + second}
    if kind == "gru":
        params["b"][2 * d_hidden :] = first[2 * d_hidden :]
        params["b_h"] = second[2 * d_hidden :].copy()
    return _other_update(params) if kind == "gru" and update == "replace" else params


def _other_update(params: Params) -> Params:
    """Return the parameters of the same GRU for the other update: the rows of z negated."""
    d_hidden = params["w_h"].shape[1]
    sign = np.ones_like(params["b"])
    sign[d_hidden : 2 * d_hidden] = -1
    negated = {
        "w_x": params["w_x"] * sign[:, None],
        "w_h": params["w_h"] * sign[:, None],
        "b": params["b"] * sign,
    }
    return {**params, **negated}


def _suffix(layer: int, reverse: bool) -> str:
    return f"_l{layer}{'_reverse' if reverse else ''}"


def _gates(kind: str) -> int:
    if kind not in GATES:
        raise ConfigError(f"kind {kind!r} is not one of {', '.join(GATES)}")
    return GATES[kind]
