"""The LSTM: Hochreiter and Schmidhuber 1997, with the forget gate of Gers, Schmidhuber and Cummins 2000.

Beside the state h of the simple network it has a cell c, which is changed by gates instead of being
multiplied by a matrix. The four blocks of each matrix are in the order i, f, g, o:

    i_t = sigmoid(w_xi x_t + w_hi h_{t-1} + b_i)        how much of the new is written
    f_t = sigmoid(w_xf x_t + w_hf h_{t-1} + b_f)        how much of the old is kept
    g_t = tanh   (w_xg x_t + w_hg h_{t-1} + b_g)        the new
    o_t = sigmoid(w_xo x_t + w_ho h_{t-1} + b_o)        how much is shown
    c_t = f_t * c_{t-1}  +  i_t * g_t
    h_t = o_t * tanh(c_t)

A trace also shows it as four gates over a long-term memory c and a short-term memory h (`.forget`,
`.learn`, `.remember`, `.use`): forget takes f and c_{t-1}, learn takes i and g, remember adds the two
and has no parameters, use takes o and c_t.

Along the cell the gradient is only scaled by f_t (the constant error carousel when f_t = 1), whatever
i_t is:

    grad_c_t = grad_h_t * o_t * tanh'(c_t)  +  grad_c_{t+1} * f_{t+1}
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from seqloom.reference.sequences import (
    ACTIVATIONS,
    GATE_ACTIVATIONS,
    ActivationName,
    GateName,
    Gradients,
    Params,
    State,
    check_choice,
    check_params,
    prepare,
    stack_steps,
)
from seqloom.reference.states import (
    check_clamp,
    clip,
    clip_slope,
    norm_names,
    settle,
    settle_backward,
)


class Forget(NamedTuple):
    gate: np.ndarray  # f_t
    memory: np.ndarray  # c_{t-1}
    kept: np.ndarray  # f_t * c_{t-1}


class Learn(NamedTuple):
    gate: np.ndarray  # i_t
    candidate: np.ndarray  # g_t
    learnt: np.ndarray  # i_t * g_t


class Remember(NamedTuple):
    kept: np.ndarray  # f_t * c_{t-1}
    learnt: np.ndarray  # i_t * g_t
    long_term: np.ndarray  # c_t, their sum


class Use(NamedTuple):
    gate: np.ndarray  # o_t
    squashed: np.ndarray  # tanh(c_t)
    short_term: np.ndarray  # h_t


class LSTMTrace(NamedTuple):
    """Shapes of a whole sequence; in the trace of a single step the T axis is missing.

    At padded steps c and h are those of the step before, and all else is meaningless.
    """

    x: np.ndarray  # (B, T, D) the event
    mask: np.ndarray  # (B, T)
    h_before: np.ndarray  # (B, T, H) h_{t-1}, and so below
    c_before: np.ndarray
    i: np.ndarray
    f: np.ndarray
    g: np.ndarray
    o: np.ndarray
    kept: np.ndarray
    learnt: np.ndarray
    squashed: np.ndarray
    c: np.ndarray
    h: np.ndarray
    raw_c: np.ndarray  # kept + learnt, before it is clamped and normalised
    raw_h: np.ndarray

    @property
    def state(self) -> State:
        return self.h, self.c

    @property
    def last(self) -> State:
        return self.h[:, -1], self.c[:, -1]

    @property
    def multiplied(self) -> np.ndarray:
        b, t, h = self.h.shape
        return np.broadcast_to(self.h_before[:, :, None], (b, t, 4, h))

    @property
    def forget(self) -> Forget:
        return Forget(self.f, self.c_before, self.kept)

    @property
    def learn(self) -> Learn:
        return Learn(self.i, self.g, self.learnt)

    @property
    def remember(self) -> Remember:
        return Remember(self.kept, self.learnt, self.c)

    @property
    def use(self) -> Use:
        return Use(self.o, self.squashed, self.h)


class LSTM:
    """`params`: w_x (4H, D), w_h (4H, H), b (4H), and those of norms of the states (`states`).

    `activation` replaces both tanh, `gate_activation` the sigmoid; c is clamped before it is read.
    """

    def __init__(
        self,
        params: Params,
        *,
        activation: ActivationName = "tanh",
        gate_activation: GateName = "sigmoid",
        clamp: float | None = None,
    ) -> None:
        check_params(params, n_gates=4, extra=norm_names(params, ["h", "c"]))
        check_choice("activation", activation, ACTIVATIONS)
        check_choice("gate_activation", gate_activation, GATE_ACTIVATIONS)
        check_clamp(clamp)
        self.params = params
        self.activation, self.gate_activation, self.clamp = activation, gate_activation, clamp

    def step(self, x: np.ndarray, state: State, mask: np.ndarray) -> LSTMTrace:
        """Run one step: x (B, D), state (h, c) of (B, H), mask (B,)."""
        h_before, c_before = state
        p = self.params
        a = x @ p["w_x"].T + h_before @ p["w_h"].T + p["b"]  # (B, 4H)
        a_i, a_f, a_g, a_o = np.split(a, 4, axis=1)  # (B, H) each
        gate = GATE_ACTIVATIONS[self.gate_activation].function  # sigmoid
        value = ACTIVATIONS[self.activation].function  # tanh
        i = gate(a_i)
        f = gate(a_f)
        g = value(a_g)
        o = gate(a_o)
        kept = f * c_before  # forget
        learnt = i * g  # learn
        raw_c = kept + learnt  # remember
        squashed = value(clip(raw_c, self.clamp))
        raw_h = o * squashed  # use
        c = settle(p, "c", raw_c, self.clamp)
        h = settle(p, "h", raw_h, self.clamp)
        real = mask[:, None]
        c = np.where(real, c, c_before)  # padding does not change the state
        h = np.where(real, h, h_before)
        gates = (i, f, g, o)
        return LSTMTrace(
            x, mask, h_before, c_before, *gates, kept, learnt, squashed, c, h, raw_c, raw_h
        )

    def forward(
        self, x: np.ndarray, state: State | None = None, mask: np.ndarray | None = None
    ) -> LSTMTrace:
        """Run every step of x (B, T, D), from `state` (zeros) on.

        >>> b = np.array([-50.0, 50.0, 0.0, 50.0])  # forget open, input closed: the cell keeps its value
        >>> lstm = LSTM({"w_x": np.zeros((4, 1)), "w_h": np.zeros((4, 1)), "b": b})
        >>> start = np.zeros((1, 1)), np.full((1, 1), 3.0)
        >>> lstm.forward(np.ones((1, 3, 1)), start).c.ravel()
        array([3., 3., 3.])
        """
        x, state, mask = prepare(self.params, x, state, mask, n_states=2)
        steps: list[LSTMTrace] = []
        for t in range(x.shape[1]):
            steps.append(self.step(x[:, t], state, mask[:, t]))
            state = steps[-1].state
        return LSTMTrace(*stack_steps(steps))

    def backward(
        self, trace: LSTMTrace, grad_h: np.ndarray, grad_last: State | None = None
    ) -> Gradients:
        """Return all gradients, given those of each h_t, (B, T, H), and of the last (h, c)."""
        p, of_norms = self.params, Params()
        gate = GATE_ACTIVATIONS[self.gate_activation].slope
        value = ACTIVATIONS[self.activation].slope
        b, n_steps, d_hidden = trace.h.shape
        grad_a = np.zeros((b, n_steps, 4 * d_hidden), trace.h.dtype)  # stays zero at padding
        grad_hs, grad_cs = np.zeros_like(trace.h), np.zeros_like(trace.c)
        zeros = np.zeros_like(trace.h[:, 0])
        # (B, H), from the steps after
        grad, grad_c = (zeros, zeros) if grad_last is None else grad_last
        for t in reversed(range(n_steps)):
            real = trace.mask[:, t, None]
            i, f, g, o = trace.i[:, t], trace.f[:, t], trace.g[:, t], trace.o[:, t]
            squashed = trace.squashed[:, t]
            grad = grad + grad_h[:, t]
            raw_h, raw_c = trace.raw_h[:, t], trace.raw_c[:, t]
            kept_h, kept_c = np.where(real, grad, 0), np.where(real, grad_c, 0)
            grad_raw = settle_backward(p, "h", raw_h, self.clamp, kept_h, of_norms)
            grad_o = grad_raw * squashed  # h = o * tanh(c)
            read = grad_raw * o * value(squashed) * clip_slope(raw_c, self.clamp)
            stored = settle_backward(p, "c", raw_c, self.clamp, kept_c, of_norms)
            grad_c = np.where(real, stored + read, grad_c)
            grad_i = grad_c * g  # c = f * c_before + i * g
            grad_g = grad_c * i
            grad_f = grad_c * trace.c_before[:, t]
            grad_hs[:, t], grad_cs[:, t] = grad, grad_c
            through_gates = [
                grad_i * gate(i),
                grad_f * gate(f),
                grad_g * value(g),
                grad_o * gate(o),
            ]
            grad_a[:, t] = np.where(real, np.concatenate(through_gates, axis=1), 0)
            # w_h^T grad_a; at padding h_t is h_{t-1}
            grad = np.where(real, grad_a[:, t] @ p["w_h"], grad)
            grad_c = np.where(real, grad_c * f, grad_c)
        params = {
            "w_x": np.einsum("bta,btd->ad", grad_a, trace.x),
            "w_h": np.einsum("bta,bth->ah", grad_a, trace.h_before),
            "b": grad_a.sum(axis=(0, 1)),
            **of_norms,
        }
        return Gradients(
            params,
            x=grad_a @ p["w_x"],
            start=(grad, grad_c),
            states=(grad_hs, grad_cs),
            product=grad_a,
        )
