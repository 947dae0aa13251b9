"""Recurrent cells without torch (`nn.cells`): one step of all rows, and walks over whole sequences.

The weights are those of one direction of a layer of `nn.recurrent.RecurrentStack`, by name. A custom
cell is a subclass with `step`; `walk` then goes step by step.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from seqloom.batching import longest_first
from seqloom.kernels.maths import ACTIVATIONS, activate, norm_rows
from seqloom.kernels.recurrent import (
    EPSILON,
    GRU,
    LSTM,
    NOT_KEPT,
    PLAIN,
    RNN,
    Direction,
    Formula,
    gru_reset,
    gru_step,
    gru_update,
    lstm_step,
    rnn_step,
)
from seqloom.runtime.weights import NONE, Linear, Weights
from seqloom.traces import Trace

Activation = Literal["tanh", "relu", "leaky-relu", "sigmoid"]
GateActivation = Literal["sigmoid", "hard-sigmoid"]
NO_ACTIVATION = ACTIVATIONS.index("none")
State = tuple[np.ndarray, ...]  # h (n, H), or (n, P) with a projection; for an LSTM also c (n, H)


class Norm(NamedTuple):
    """Scale and shift of a layer norm, or empty ones for none."""

    weight: np.ndarray = NONE
    bias: np.ndarray = NONE

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Normalise the rows of x in place and return it."""
        if len(self.weight):
            norm_rows(x, self.weight, self.bias, EPSILON)
        return x

    def part(self, rows: slice) -> Norm:
        return Norm(self.weight[rows], self.bias[rows])


class Sequences(NamedTuple):
    """The layout of concatenated sequences: sequence s has the steps offsets[s] to offsets[s + 1]."""

    offsets: np.ndarray  # (B + 1,) int64
    order: np.ndarray  # (B,) int64: the longest first

    @classmethod
    def at(cls, offsets: np.ndarray) -> Sequences:
        offsets = np.ascontiguousarray(offsets, np.int64)
        if len(offsets) == 2:
            return cls(offsets, np.zeros(1, np.int64))
        return cls(offsets, longest_first(np.diff(offsets)))


class Cell:
    """One direction of one layer: what all cells have in common."""

    gates: ClassVar[int]  # blocks of w_x, w_h and b
    leaves: ClassVar[tuple[str, ...]] = ("h",)
    gate_names: ClassVar[str] = ""  # a letter each, in the order of the blocks
    reads_state: ClassVar[bool] = True  # whether a step multiplies the state, by w_h
    norms_inputs: ClassVar[bool] = True  # layer norm: the input's product has a separate norm
    kind: ClassVar[int] = -1  # of `kernels.recurrent.walk_layer`, if that supports the cell
    b_h: np.ndarray = NONE
    formula: Formula = PLAIN

    def __init__(
        self,
        weights: Weights,
        d_in: int,
        d_hidden: int,
        *,
        d_projection: int | None = None,
        layer_norm: bool = False,
        learned_start: bool = False,
        clamp: float | None = None,
        state_norm: bool = False,
        bias_apart: bool = False,
    ) -> None:
        """Take the weights; `bias_apart`: b is not a part of `w_x`, also without layer norm."""
        rows = self.gates * d_hidden
        self.d_hidden, self.d_out = d_hidden, d_projection or d_hidden
        apart = layer_norm or bias_apart
        self.w_x: Linear = weights.matrix(
            "w_x", rows, d_in, NONE if apart else weights.take("b", rows)
        )
        self.b = weights.take("b", rows) if apart else NONE  # added after the norm
        if self.reads_state:
            self.w_h: Linear = weights.matrix("w_h", rows, self.d_out)
        self.w_p: Linear | None = (
            weights.matrix("w_p", d_projection, d_hidden) if d_projection else None
        )
        self.norm_x = (
            self.take_norm(weights, "norm_x", rows) if layer_norm and self.norms_inputs else Norm()
        )
        self.norm_h = (
            self.take_norm(weights, "norm_h", rows) if layer_norm and self.reads_state else Norm()
        )
        widths = {"h": self.d_out, "c": d_hidden}
        self.first = tuple(
            weights.take(f"start_{leaf}", widths[leaf])
            if learned_start
            else np.zeros(widths[leaf], np.float32)
            for leaf in self.leaves
        )
        self.clamp, self.settles = clamp, clamp is not None or state_norm
        self.state_norms = tuple(
            self.take_norm(weights, f"state_norm_{leaf}", widths[leaf]) if state_norm else Norm()
            for leaf in self.leaves
        )

    @property
    def plain(self) -> bool:
        """Return whether whole sequences can be run in one call, as without options."""
        normed = len(self.norm_h.weight) or len(self.state_norms[0].weight)
        return self.kind >= 0 and self.w_p is None and self.clamp is None and not normed

    def settle(self, *leaves: np.ndarray) -> State:
        """Return a new state clamped and normalised, in place, as options say."""
        if not self.settles:
            return leaves
        if self.clamp is not None:
            for leaf in leaves:
                np.clip(leaf, -self.clamp, self.clamp, out=leaf)
        return tuple(norm(leaf) for norm, leaf in zip(self.state_norms, leaves))

    @staticmethod
    def take_norm(weights: Weights, name: str, width: int) -> Norm:
        return Norm(weights.take(f"{name}.weight", width), weights.take(f"{name}.bias", width))

    def start(self, n: int) -> State:
        """Return the state of n rows that have read nothing."""
        return tuple(np.repeat(leaf[None], n, axis=0) for leaf in self.first)

    def project(self, x: np.ndarray) -> np.ndarray:
        """Return the input's part of the gates, bias included: (n, G H) from (n, D)."""
        projected = self.norm_x(self.w_x(x))
        return projected + self.b if len(self.b) else projected

    def step(self, projected: np.ndarray, state: State, trace: Trace | None = None) -> State:
        """Return the state after one more step, new arrays; `projected` is the result of `project`
        and may be overwritten.
        """
        raise NotImplementedError

    def direction(self, x: np.ndarray, n: int, trace: Trace | None = None) -> Direction:
        """Return the arguments of `walk_layer` for this direction, with n sequences at their start, and
        with room for the gates and cells that a trace wants.
        """
        first, projected = self.start(n), self.project(x)
        c = first[1] if len(first) > 1 else NOT_KEPT
        gates = cells = NOT_KEPT
        if trace is not None:
            if trace.asks("from_x"):
                trace.add("from_x", projected)
            if trace.wants(*(f"gates.{name}" for name in self.gate_names)):
                gates = np.empty_like(projected)
            if len(first) > 1 and trace.wants("c"):
                cells = np.empty((len(x), self.d_hidden), np.float32)
        return Direction(projected, self.w_h.packed, self.b_h, first[0], c, gates, cells)

    def add_to(self, trace: Trace, direction: Direction, h: np.ndarray) -> None:
        """Add what `walk_layer` wrote in a direction to a trace, under the names that steps give it."""
        if direction.gates.size:
            blocks = np.split(direction.gates, self.gates, axis=1)
            for name, gate in zip(self.gate_names, blocks):
                trace.add(f"gates.{name}", gate)
        for name, leaf in zip(self.leaves, (h, direction.cells)):
            trace.add(name, leaf)

    def walk(
        self,
        projected: np.ndarray,
        sequences: Sequences,
        state: State,
        *,
        reverse: bool = False,
        trace: Trace | None = None,
    ) -> tuple[np.ndarray, State]:
        """Return all h (N, H) of concatenated sequences, and the states after their last steps.

        `projected` (N, G H) is the result of `project` for all steps; `state` has a row for each sequence.
        """
        offsets, order = sequences
        out = np.empty((len(projected), self.d_out), np.float32)
        rows, back = tuple(leaf[order] for leaf in state), np.argsort(order)
        lengths = np.diff(offsets)[order]
        begin = (offsets[1:] - 1)[order] if reverse else offsets[:-1][order]
        if trace is not None and trace.asks("from_x"):
            trace.add("from_x", projected)
        collected = StepTrace(trace, len(projected))
        for t in range(int(lengths.max(initial=0))):
            n = int(np.count_nonzero(lengths > t))
            rows_of_step = begin[:n] - t if reverse else begin[:n] + t
            inner = projected[rows_of_step]
            step = None if trace is None else trace.empty()
            new_state = self.step(inner, tuple(leaf[:n] for leaf in rows), step)
            out[rows_of_step] = new_state[0]
            for leaf, new in zip(rows, new_state):
                leaf[:n] = new
            collected.put(rows_of_step, step, zip(self.leaves, new_state))
        collected.hand_over()
        return out, tuple(leaf[back] for leaf in rows)


class StepTrace:
    """Collects the traces of single steps into arrays over all steps."""

    def __init__(self, trace: Trace | None, steps: int) -> None:
        self.trace, self.steps = trace, steps
        self.arrays: dict[str, np.ndarray] = {}

    def put(
        self, rows: np.ndarray, step: Trace | None, state: Iterable[tuple[str, np.ndarray]] = ()
    ) -> None:
        """Keep what was traced in one step, of the rows in which these steps stand."""
        if self.trace is None or step is None:
            return
        for name, values in (*step.items(), *state):
            array = self.arrays.get(name)
            if array is None or array.shape[-1] < values.shape[-1]:
                grown = np.zeros((self.steps, *values.shape[1:]), np.float32)
                if array is not None:  # attention to the steps so far, of which there are ever more
                    grown[..., : array.shape[-1]] = array
                array = self.arrays[name] = grown
            array[rows, ..., : values.shape[-1]] = values

    def hand_over(self) -> None:
        """Add the arrays to the trace of all steps."""
        for name, values in self.arrays.items():
            assert self.trace is not None
            self.trace.add(name, values)


class RNNCell(Cell):
    """`nn.cells.RNNCell`."""

    gates = 1
    kind = RNN
    norms_inputs = False

    def __init__(
        self,
        weights: Weights,
        d_in: int,
        d_hidden: int,
        *,
        activation: Activation = "tanh",
        recurrence: Literal["elman", "pascanu", "continuous"] = "elman",
        time_step: float = 1.0,
        **options: Any,
    ) -> None:
        super().__init__(weights, d_in, d_hidden, bias_apart=recurrence == "continuous", **options)
        self.formula = Formula(values=ACTIVATIONS.index(activation))
        self.recurrence, self.time_step = recurrence, np.float32(time_step)

    @property
    def plain(self) -> bool:
        return super().plain and self.recurrence == "elman" and self.time_step == 1

    def project(self, x: np.ndarray) -> np.ndarray:
        return self.w_x(x) if self.recurrence == "continuous" else super().project(x)

    def step(self, projected: np.ndarray, state: State, trace: Trace | None = None) -> State:
        h, activation, added = state[0], self.formula.values, projected
        before, after = h, activation
        if self.recurrence == "pascanu":  # the function of h, and none of the sum
            before, after = activate(h.copy(), activation), NO_ACTIVATION
        elif self.recurrence == "continuous":
            added = np.repeat(self.b[None], len(h), axis=0)
        out = rnn_step(added, self.w_h.packed, *self.norm_h, after, before)
        if self.recurrence == "continuous":
            out += projected
        if self.time_step != 1:
            out = h + self.time_step * (out - h)
        return self.settle(out)


class LSTMCell(Cell):
    """`nn.cells.LSTMCell`."""

    gates = 4
    gate_names = "ifgo"
    kind = LSTM
    leaves = ("h", "c")

    def __init__(
        self,
        weights: Weights,
        d_in: int,
        d_hidden: int,
        *,
        activation: Activation = "tanh",
        gate_activation: GateActivation = "sigmoid",
        layer_norm: bool = False,
        clamp: float | None = None,
        **options: Any,
    ) -> None:
        super().__init__(weights, d_in, d_hidden, layer_norm=layer_norm, clamp=clamp, **options)
        self.norm_c = self.take_norm(weights, "norm_c", d_hidden) if layer_norm else Norm()
        self.formula = Formula(
            ACTIVATIONS.index(gate_activation),
            ACTIVATIONS.index(activation),
            math.inf if clamp is None else clamp,
        )

    def step(self, projected: np.ndarray, state: State, trace: Trace | None = None) -> State:
        h, c = lstm_step(
            projected, self.w_h.packed, *self.norm_h, *self.norm_c, self.formula, *state
        )
        if trace is not None:
            for name, gate in zip(self.gate_names, np.split(projected, 4, axis=1)):
                trace.add(f"gates.{name}", gate)
        return self.settle(h if self.w_p is None else self.w_p(h), c)


class GRUCell(Cell):
    """`nn.cells.GRUCell`."""

    gates = 3
    gate_names = "rzn"
    kind = GRU

    def __init__(
        self,
        weights: Weights,
        d_in: int,
        d_hidden: int,
        *,
        reset: Literal["after", "before"] = "after",
        update: Literal["keep", "replace"] = "keep",
        activation: Activation = "tanh",
        gate_activation: GateActivation = "sigmoid",
        **options: Any,
    ) -> None:
        super().__init__(weights, d_in, d_hidden, **options)
        self.keep = update == "keep"
        self.formula = Formula(ACTIVATIONS.index(gate_activation), ACTIVATIONS.index(activation))
        self.usual = self.formula == PLAIN
        self.b_h = weights.take("b_h", d_hidden) if reset == "after" else NONE
        self.w_gates = self.w_reset = None
        if reset == "before":  # the candidate's rows of W_h multiply r h, so they come later
            self.w_gates = self.w_h.rows(slice(2 * d_hidden))
            self.w_reset = self.w_h.rows(slice(2 * d_hidden, None))
            self.norm_gates = self.norm_h.part(slice(2 * d_hidden))
            self.norm_reset = self.norm_h.part(slice(2 * d_hidden, None))

    @property
    def plain(self) -> bool:
        return super().plain and self.w_gates is None and self.keep and self.usual

    def step(self, projected: np.ndarray, state: State, trace: Trace | None = None) -> State:
        h, n, d = state[0], len(projected), self.d_hidden
        if self.w_gates is None and self.usual:
            out, gates = gru_step(projected, self.w_h.packed, *self.norm_h, self.b_h, self.keep, h)
            candidate = gates[:, 2 * d :]
        else:
            out, candidate = np.empty((n, d), np.float32), np.empty((n, d), np.float32)
            gates = np.empty((n, 2 * d), np.float32)
            if self.w_gates is None or self.w_reset is None:  # r multiplies the candidate's product
                product = self.norm_h(self.w_h(h))
                inner = product[:, 2 * d :] + self.b_h
                gru_reset(projected, product[:, : 2 * d], inner, self.formula, gates, out)
                from_reset = out
            else:
                product = self.norm_gates(self.w_gates(h))
                gru_reset(projected, product, h, self.formula, gates, out)
                from_reset = self.norm_reset(self.w_reset(out))
            from_x = projected[:, 2 * d :]
            gru_update(from_x, from_reset, gates, h, self.keep, self.formula, candidate, out)
        if trace is not None:
            for name, gate in zip(self.gate_names, (gates[:, :d], gates[:, d : 2 * d], candidate)):
                trace.add(f"gates.{name}", gate)
        return self.settle(out)
