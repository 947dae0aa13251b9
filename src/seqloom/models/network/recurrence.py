"""The recurrent layers of a fitted network, under the names that their traces have; and one step of a layer
with every number between its inputs and its state.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from seqloom.kernels.maths import RELU, TANH
from seqloom.runtime.cells import Cell, GRUCell, LSTMCell, RNNCell
from seqloom.runtime.recurrent import RecurrentStack

# Where networks have their stacks, by the names of attributes, which are those of a trace.
PLACES = ("recurrent", "encoder.stack", "sentences.encoder.stack", "encoder", "decoder")
GATE_NAMES = "ifgorzn"
KINDS: dict[type, str] = {RNNCell: "rnn", LSTMCell: "lstm", GRUCell: "gru"}


class Layer(NamedTuple):
    """One direction of one layer: its name in a trace, and its cell."""

    name: str
    cell: Any
    reverse: bool

    @property
    def kind(self) -> str:
        """Return rnn, lstm or gru; of a cell from another package the name of its class."""
        return KINDS.get(type(self.cell), type(self.cell).__name__)

    @property
    def known(self) -> bool:
        """Tell whether its equations are those of `seqloom.reference`."""
        return type(self.cell) in KINDS

    def kept(self, arrays: dict[str, np.ndarray]) -> np.ndarray | None:
        """Return the share of its old value that each unit keeps at each step, (T, H), from the layer's
        traced arrays: f of an LSTM; z of a GRU, or 1 - z where z is the share that is replaced.
        """
        if self.kind == "lstm":
            return arrays["gates.f"]
        if self.kind == "gru":
            return arrays["gates.z"] if self.cell.keep else 1 - arrays["gates.z"]
        return None


def stacks_of(model: Any) -> dict[str, RecurrentStack]:
    """Return the recurrent stacks of a network, by the names that they have in a trace."""
    network, found = model.runtime(), {}
    for place in PLACES:
        stack = network
        for part in place.split("."):
            stack = getattr(stack, part, None)
        if place == "encoder" and stack is None:  # one stack reads the source and writes the target
            stack = getattr(network, "decoder", None)
        if isinstance(stack, RecurrentStack):
            found[place] = stack
    return found


def layers_of(model: Any) -> list[Layer]:
    """Return every direction of every recurrent layer, in the order in which they are computed."""
    return [
        Layer(f"{place}.layers.{i}{'.reverse' if reverse else ''}", cell, bool(reverse))
        for place, stack in stacks_of(model).items()
        for i, directions in enumerate(stack.layers)
        for reverse, cell in enumerate(directions)
    ]


# ---- one step


def patterns_of(layer: Layer) -> tuple[str, ...]:
    """Return the names that `numbers_of` needs of a trace."""
    own = tuple(f"{layer.name}.{name}" for name in ("gates.*", "h", "c", "from_x"))
    return (*own, f"{layer.name.removesuffix('.reverse')}.x")  # both directions read the same


def arrays_of(layer: Layer, arrays: Any) -> dict[str, np.ndarray]:
    """Return the arrays of a trace that are this layer's: gates, states, and its input if traced."""
    found = {
        name: arrays[f"{layer.name}.{name}"]
        for name in (*(f"gates.{gate}" for gate in GATE_NAMES), "c", "h", "from_x")
        if f"{layer.name}.{name}" in arrays
    }
    x = f"{layer.name.removesuffix('.reverse')}.x"
    return found | ({"x": arrays[x]} if x in arrays else {})


def numbers_of(layer: Layer, arrays: dict[str, np.ndarray], at: int) -> dict[str, np.ndarray]:
    """Return what the layer computes at step `at`, from its arrays of all steps: the state before, both
    products, the sums z of the gates, the gates, what is kept and what is new, and the state after.

    All are of one step: (H,), `from_x` and `from_h` (G H).
    """
    cell: Cell = layer.cell
    before = at + 1 if layer.reverse else at - 1
    inside = 0 <= before < len(arrays["h"])
    numbers: dict[str, np.ndarray] = {}
    for leaf, first in zip(cell.leaves, cell.first):
        numbers[f"{leaf}_before"] = arrays[leaf][before] if inside else first
    numbers |= {name.removeprefix("gates."): array[at] for name, array in arrays.items()}
    if not layer.known:
        return numbers
    h = numbers["h_before"]
    if layer.kind == "gru" and cell.w_gates is not None and cell.w_reset is not None:  # type: ignore[attr-defined]
        from_h = np.concatenate(
            [
                cell.norm_gates(cell.w_gates(h[None]))[0],  # type: ignore[attr-defined]
                cell.norm_reset(cell.w_reset((numbers["r"] * h)[None]))[0],  # type: ignore[attr-defined]
            ]
        )
    elif layer.kind == "rnn":  # its norm is of the sum
        from_h = cell.w_h(h[None])[0]
    else:
        from_h = cell.norm_h(cell.w_h(h[None]))[0]
    numbers["from_h"] = from_h
    exact = {name: np.asarray(value, np.float64) for name, value in numbers.items()}
    return exact | _between(layer, exact)


def _between(layer: Layer, n: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the sums of the gates, and what lies between the gates and the new state."""
    cell, d = layer.cell, layer.cell.d_hidden
    if layer.kind == "rnn":
        total = n["from_x"] + n["from_h"]
        if len(cell.norm_h.weight):
            total = cell.norm_h(total[None].astype(np.float32))[0].astype(np.float64)
        return {"z_h": total}
    x, h = n["from_x"].reshape(-1, d), n["from_h"].reshape(-1, d)
    if layer.kind == "lstm":
        c = (
            n["c"]
            if not len(cell.norm_c.weight)
            else cell.norm_c(n["c"][None].astype(np.float32))[0]
        )
        shown = np.tanh(np.asarray(c, np.float64))
        return {
            **{f"z_{name}": x[k] + h[k] for k, name in enumerate("ifgo")},
            "kept": n["f"] * n["c_before"],
            "learnt": n["i"] * n["g"],
            "squashed": shown,
            "unprojected": n["o"] * shown,
        }
    inner = h[2] + np.asarray(cell.b_h, np.float64) if len(cell.b_h) else h[2]
    keep = n["z"] if cell.keep else 1 - n["z"]
    return {
        "z_r": x[0] + h[0],
        "z_z": x[1] + h[1],
        "inner": inner,
        "z_n": x[2] + (n["r"] * inner if len(cell.b_h) else inner),
        "kept": keep * n["h_before"],
        "learnt": (1 - keep) * n["n"],
    }


def activation_of(layer: Layer) -> str:
    """Return what a plain recurrent cell applies to its sum: relu, tanh or, of a variant, other."""
    return {RELU: "relu", TANH: "tanh"}.get(layer.cell.formula.values, "other")


def agree(layer: Layer, n: dict[str, np.ndarray], within: float = 1e-4) -> bool:
    """Tell whether what was traced follows from the sums by the cell's plain equations; a cell with
    another function in its place does not.
    """
    if layer.kind == "rnn":
        z = n["z_h"]
        shown = {"relu": np.maximum(z, 0), "tanh": np.tanh(z)}.get(activation_of(layer))
        return shown is not None and _near(n["h"], shown, within)
    gates = {"lstm": "ifo", "gru": "rz"}[layer.kind]
    new = {"lstm": "g", "gru": "n"}[layer.kind]
    with np.errstate(over="ignore"):
        same = [_near(n[name], 1 / (1 + np.exp(-n[f"z_{name}"])), within) for name in gates]
    state = n["c"] if layer.kind == "lstm" else n["h"]
    same += [_near(n[new], np.tanh(n[f"z_{new}"]), within)]
    same += [_near(state, n["kept"] + n["learnt"], within)]
    if layer.kind == "lstm" and layer.cell.w_p is None:
        same.append(_near(n["h"], n["unprojected"], within))
    return all(same)


def _near(found: np.ndarray, expected: np.ndarray, within: float) -> bool:
    return bool(
        np.all(np.abs(found - expected) <= within * max(1.0, float(np.abs(expected).max())))
    )
