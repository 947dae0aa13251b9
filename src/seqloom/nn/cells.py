"""Recurrent cells, a step at a time: plain (Elman 1990), LSTM (Hochreiter and Schmidhuber 1997;
Gers et al. 2000) and GRU (Cho et al. 2014). This is the readable form, with every option; `fused` is
the fast one for those that torch or our kernel can run at once, and a test compares them.

A cell is one direction of one layer. The product with the input does not depend on the state, so
`project` computes it for all steps at once; `step` does the rest. The gates are stacked in w_x, w_h
and b: i, f, g, o in the LSTM, r, z, n in the GRU. There is one bias, where torch has two, of which
only the sum matters.

Layer norm (Ba et al. 2016, eq. 20-22): each product is normalised before the gates add them, and c
only where the output reads it. The stored c is not: normalising it at every step would rescale the
memory. `state_norm` does just that, to h and to c, so that it can be looked at.

Other variants: another function than tanh, hard gates, states that are clamped, and three forms of
the plain RNN. They go step by step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from seqloom.nn.layers import MakeLinear, register_matrix
from seqloom.nn.recording import over_steps
from seqloom.traces import Trace

State = tuple[Tensor, ...]  # h, and c in the LSTM; each (B, H), or h (B, P) with a projection
Kind = Literal["rnn", "lstm", "gru"]
Activation = Literal["tanh", "relu", "leaky-relu", "sigmoid"]
GateActivation = Literal["sigmoid", "hard-sigmoid"]
Form = Literal["elman", "pascanu", "continuous"]
RecurrentInit = Literal["orthogonal", "identity", "normal"]
Reset = Literal["after", "before"]
Update = Literal["keep", "replace"]

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "leaky-relu": functional.leaky_relu,  # with a slope of 0.01 below zero
    "sigmoid": torch.sigmoid,
    "hard-sigmoid": functional.hardsigmoid,  # x / 6 + 1/2, at least 0 and at most 1
}
USUAL = ("tanh", "sigmoid")  # activation and gate_activation


class Cell(nn.Module):
    """What the cells share: the parameters, w_x and w_h made by `linear`, and the loop over the steps."""

    gates: int  # blocks of w_x, w_h and b
    leaves: tuple[str, ...] = ("h",)
    gate_names: tuple[str, ...] = ()  # that `step` adds to a trace, as `gates.i`
    reads_state: bool = (
        True  # whether a step multiplies the state by w_h; a linear recurrence does not
    )
    w_x: Tensor
    w_h: Tensor

    def __init__(
        self,
        d_in: int,
        d_hidden: int,
        *,
        d_projection: int | None = None,
        layer_norm: bool = False,
        learned_start: bool = False,
        clamp: float | None = None,
        state_norm: bool = False,
        recurrent_init: RecurrentInit = "orthogonal",
        linear: MakeLinear = nn.Linear,
    ) -> None:
        super().__init__()
        self.clamp, self.recurrent_init = clamp, recurrent_init
        self.d_in, self.d_hidden, self.d_out = d_in, d_hidden, d_projection or d_hidden
        rows = self.gates * d_hidden
        register_matrix(self, "w_x", linear, d_in, rows)
        if self.reads_state:
            register_matrix(self, "w_h", linear, self.d_out, rows)
        else:
            self.register_buffer("w_h", torch.empty(0), persistent=False)
        self.b = nn.Parameter(torch.empty(rows))
        self.w_p = nn.Parameter(torch.empty(d_projection, d_hidden)) if d_projection else None
        self.norm_x = nn.LayerNorm(rows) if layer_norm else None
        self.norm_h = nn.LayerNorm(rows) if layer_norm and self.reads_state else None
        widths = {"h": self.d_out, "c": d_hidden}
        for leaf in self.leaves:
            start = nn.Parameter(torch.zeros(widths[leaf])) if learned_start else None
            self.register_parameter(f"start_{leaf}", start)
            norm = nn.LayerNorm(widths[leaf]) if state_norm else None
            self.register_module(f"state_norm_{leaf}", norm)
        self.widths = tuple(widths[leaf] for leaf in self.leaves)
        self.reverse: Cell | None = None  # of a bidirectional layer

    @property
    def traced(self) -> tuple[str, ...]:
        """Return the names of the values that `walk` adds to a trace."""
        return (*self.leaves, *(f"gates.{name}" for name in self.gate_names))

    @property
    def plain(self) -> bool:
        """Return whether the equations are those without norms, clamping and other functions."""
        return self.norm_h is None and self.clamp is None and self.state_norm_h is None

    def start(self, n: int) -> State:
        """Return the initial state of n sequences."""
        learned = (getattr(self, f"start_{leaf}") for leaf in self.leaves)
        return tuple(
            self.b.new_zeros(n, width) if value is None else value.expand(n, width)
            for value, width in zip(learned, self.widths)
        )

    def project(self, x: Tensor, w_x: Tensor | None = None) -> Tensor:
        """Compute W_x x + b for all steps at once, (T, B, D) to (T, B, G H); w_x is the cell's own
        unless given.
        """
        w_x = self.w_x if w_x is None else w_x
        if self.norm_x is None:
            return functional.linear(x, w_x, self.b)
        projected: Tensor = self.norm_x(functional.linear(x, w_x)) + self.b
        return projected

    def product(self, h: Tensor, w_h: Tensor) -> Tensor:
        """Compute W_h h, (B, H) to (B, G H)."""
        product = functional.linear(h, w_h)
        return product if self.norm_h is None else self.norm_h(product)

    def step(
        self,
        projected: Tensor,
        state: State,
        w_h: Tensor,
        mask: Tensor | None,
        trace: Trace | None = None,
    ) -> State:
        """Return the next state from one step's projection (B, G H). `mask` (B, H) drops entries of h
        before the product; a trace gets the gates (B, H).
        """
        raise NotImplementedError

    def clamped(self, x: Tensor) -> Tensor:
        """Return x within the bounds of states, if there are any."""
        return x if self.clamp is None else x.clamp(-self.clamp, self.clamp)

    def settle(self, *leaves: Tensor) -> State:
        """Return a new state, clamped and normalised as options say."""
        norms = (getattr(self, f"state_norm_{leaf}") for leaf in self.leaves)
        bounded = map(self.clamped, leaves)
        return tuple(x if norm is None else norm(x) for x, norm in zip(bounded, norms))

    def walk(
        self,
        x: Tensor,
        state: State,
        w_h: Tensor,
        *,
        lengths: Tensor | None = None,
        mask: Tensor | None = None,
        trace: Trace | None = None,
    ) -> tuple[Tensor, State]:
        """Run all steps of x (T, B, D); return outputs (T, B, H) and the state after each row's last
        step.

        A trace gets the states and gates of all steps, (T, B, H) each.
        """
        if x.shape[0] == 0:
            return x.new_zeros(0, x.shape[1], self.d_out), state
        traced: dict[str, list[Tensor]] = {}

        def advance(projected: Tensor, inside: Tensor, *before: Tensor) -> tuple[Tensor, State]:
            at = None if trace is None else Trace()
            new = self.step(projected, before, w_h, mask, at)
            if at is not None:
                for name, value in [*at.items(), *zip(self.leaves, new)]:
                    traced.setdefault(name, []).append(value)
            if lengths is None:
                return new[0], new
            new = tuple(torch.where(inside, after, old) for after, old in zip(new, before))
            return torch.where(inside, new[0], torch.zeros_like(new[0])), new

        steps = torch.arange(x.shape[0], device=x.device).unsqueeze(1)  # (T, 1)
        # (T, B, 1): where a row has not ended
        inside = (steps if lengths is None else lengths > steps).unsqueeze(2)
        outputs, state = over_steps(advance, (self.project(x), inside), state)
        if trace is not None:
            for name, values in traced.items():
                trace.add(name, torch.stack(values))
        return outputs, state

    def _trace_gates(self, trace: Trace | None, *gates: Tensor) -> None:
        if trace is not None:
            for name, gate in zip(self.gate_names, gates):
                trace.add(f"gates.{name}", gate)


class RNNCell(Cell):
    """h = f(W_x x + W_h h + b), f being tanh or another `activation`. With layer norm the whole sum
    is normalised (Ba et al. 2016, eq. 4).

    recurrence: where f is. "elman": as above. "pascanu": before the matrix, h = W_h f(h) + W_x x + b
    (Pascanu, Mikolov and Bengio 2013, eq. 2). "continuous": h = f(W_h h + b) + W_x x, a step of
    dh/dt = f(W_h h + b) + W_x x - h. time_step: the share of the way from h to that new h.
    """

    gates = 1

    def __init__(
        self,
        d_in: int,
        d_hidden: int,
        *,
        activation: Activation = "tanh",
        recurrence: Form = "elman",
        time_step: float = 1.0,
        **options: Any,
    ) -> None:
        super().__init__(d_in, d_hidden, **options)
        self.activation, self.recurrence, self.time_step = activation, recurrence, time_step
        self.norm_x = None  # norm_h does it for the sum

    @property
    def plain(self) -> bool:
        usual = self.activation in ("tanh", "relu") and self.recurrence == "elman"
        return super().plain and usual and self.time_step == 1

    def project(self, x: Tensor, w_x: Tensor | None = None) -> Tensor:
        if self.recurrence != "continuous":
            return super().project(x, w_x)
        return functional.linear(x, self.w_x if w_x is None else w_x)  # b is inside the function

    def step(
        self,
        projected: Tensor,
        state: State,
        w_h: Tensor,
        mask: Tensor | None,
        trace: Trace | None = None,
    ) -> State:
        h, function = state[0], ACTIVATIONS[self.activation]
        shown = masked(h, mask)
        product = functional.linear(function(shown) if self.recurrence == "pascanu" else shown, w_h)
        total = product + (self.b if self.recurrence == "continuous" else projected)
        if self.norm_h is not None:
            total = self.norm_h(total)
        new = total if self.recurrence == "pascanu" else function(total)
        if self.recurrence == "continuous":
            new = new + projected
        return self.settle(new if self.time_step == 1 else torch.lerp(h, new, self.time_step))


class LSTMCell(Cell):
    """Gates i, f, o and a candidate g: c = f c + i g, h = o tanh(c). With a projection (Sak et al.
    2014) h = W_p of that.
    """

    gates = 4
    leaves = ("h", "c")
    gate_names = ("i", "f", "g", "o")

    def __init__(
        self,
        d_in: int,
        d_hidden: int,
        *,
        activation: Activation = "tanh",
        gate_activation: GateActivation = "sigmoid",
        layer_norm: bool = False,
        forget_bias: float = 1.0,
        **options: Any,
    ) -> None:
        super().__init__(d_in, d_hidden, layer_norm=layer_norm, **options)
        self.norm_c = nn.LayerNorm(d_hidden) if layer_norm else None
        self.forget_bias = forget_bias
        self.activation, self.gate_activation = activation, gate_activation

    @property
    def plain(self) -> bool:
        return super().plain and (self.activation, self.gate_activation) == USUAL

    def step(
        self,
        projected: Tensor,
        state: State,
        w_h: Tensor,
        mask: Tensor | None,
        trace: Trace | None = None,
    ) -> State:
        h, c = state
        gate, value = ACTIVATIONS[self.gate_activation], ACTIVATIONS[self.activation]
        i, f, g, o = (projected + self.product(masked(h, mask), w_h)).chunk(4, 1)  # each (B, H)
        i, f, g, o = gate(i), gate(f), value(g), gate(o)
        c = self.clamped(f * c + i * g)
        h = o * value(c if self.norm_c is None else self.norm_c(c))
        self._trace_gates(trace, i, f, g, o)
        return self.settle(h if self.w_p is None else functional.linear(h, self.w_p), c)


class GRUCell(Cell):
    """Gates r and z, a candidate n: h is interpolated between its old value and n by z.

    reset: where r is applied. "after" the product, r (W h + b_h), as in torch and cuDNN; "before" it,
    W (r h), as in the paper. update: the meaning of z. "keep": the share of the old h, h = z h + (1 -
    z) n (Cho et al. 2014, torch); "replace": that of the new, h = (1 - z) h + z n (Chung et al.
    2014). They are equivalent with the rows of z negated.
    """

    gates = 3
    gate_names = ("r", "z", "n")

    def __init__(
        self,
        d_in: int,
        d_hidden: int,
        *,
        reset: Reset = "after",
        update: Update = "keep",
        activation: Activation = "tanh",
        gate_activation: GateActivation = "sigmoid",
        **options: Any,
    ) -> None:
        super().__init__(d_in, d_hidden, **options)
        self.reset, self.update = reset, update
        self.activation, self.gate_activation = activation, gate_activation
        self.b_h = nn.Parameter(torch.empty(d_hidden)) if reset == "after" else None

    @property
    def plain(self) -> bool:
        return super().plain and (self.activation, self.gate_activation) == USUAL

    def step(
        self,
        projected: Tensor,
        state: State,
        w_h: Tensor,
        mask: Tensor | None,
        trace: Trace | None = None,
    ) -> State:
        h, d = state[0], self.d_hidden
        shown = masked(h, mask)
        gate, value = ACTIVATIONS[self.gate_activation], ACTIVATIONS[self.activation]
        x_gates, x_candidate = projected[:, : 2 * d], projected[:, 2 * d :]
        if self.b_h is not None:
            product = self.product(shown, w_h)
            r, z = gate(x_gates + product[:, : 2 * d]).chunk(2, 1)
            n = value(x_candidate + r * (product[:, 2 * d :] + self.b_h))
        else:
            r, z = gate(x_gates + self._part(shown, w_h, slice(0, 2 * d))).chunk(2, 1)
            n = value(x_candidate + self._part(r * shown, w_h, slice(2 * d, 3 * d)))
        self._trace_gates(trace, r, z, n)
        return self.settle(torch.lerp(n, h, z) if self.update == "keep" else torch.lerp(h, n, z))

    def _part(self, h: Tensor, w_h: Tensor, rows: slice) -> Tensor:
        """Compute some rows of W_h h; with layer norm each part is normalised separately, since the
        candidate's is computed later.
        """
        product = functional.linear(h, w_h[rows])
        if self.norm_h is None:
            return product
        return functional.layer_norm(
            product, (rows.stop - rows.start,), self.norm_h.weight[rows], self.norm_h.bias[rows]
        )


def masked(h: Tensor, mask: Tensor | None) -> Tensor:
    return h if mask is None else h * mask
