"""The gated recurrent unit of Cho et al. 2014 (arXiv:1406.1078), in all its common forms.

One state, two gates; the three blocks of each matrix are in the order r, z, n:

    r_t = sigmoid(w_xr x_t + w_hr h_{t-1} + b_r)            reset: share of the old state in n_t
    z_t = sigmoid(w_xz x_t + w_hz h_{t-1} + b_z)            update

    n_t = tanh(w_xn x_t + b_n + r_t * (w_hn h_{t-1} + b_h)) reset="after" the product (torch, cuDNN)
    n_t = tanh(w_xn x_t + b_n + w_hn (r_t * h_{t-1}))       reset="before" it (Cho et al.; no b_h)

    h_t = z_t * h_{t-1} + (1 - z_t) * n_t                   update="keep": z keeps the old (Cho, torch)
    h_t = (1 - z_t) * h_{t-1} + z_t * n_t                   update="replace": z lets in the new (Chung
                                                            et al. 2014, arXiv:1412.3555)

The two updates are one model: sigmoid(-a) = 1 - sigmoid(a), so negating the z rows of w_x, w_h and
b turns one into the other. The two resets are different models; weights of one do not fit the other.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from seqloom.errors import ConfigError
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
from seqloom.reference.states import check_clamp, norm_names, settle, settle_backward

Update = Literal["keep", "replace"]
Reset = Literal["after", "before"]


class GRUTrace(NamedTuple):
    """Shapes of a whole sequence; in the trace of a single step the T axis is missing."""

    x: np.ndarray  # (B, T, D)
    mask: np.ndarray  # (B, T)
    h_before: np.ndarray  # (B, T, H) h_{t-1}, and so below
    r: np.ndarray
    z: np.ndarray
    n: np.ndarray
    gated: np.ndarray  # multiplied by r: w_hn h_{t-1} + b_h (reset after) or h_{t-1} (before)
    candidate_input: np.ndarray  # multiplied by w_hn: h_{t-1} (reset after) or r * h_{t-1} (before)
    h: np.ndarray
    raw_h: np.ndarray  # h_t before it is clamped and normalised

    @property
    def state(self) -> State:
        return (self.h,)

    @property
    def last(self) -> State:
        return (self.h[:, -1],)

    @property
    def multiplied(self) -> np.ndarray:
        inputs = [self.h_before, self.h_before, self.candidate_input]
        return np.stack(inputs, axis=2)  # (B, T, 3, H)


class GRU:
    """`params`: w_x (3H, D), w_h (3H, H), b (3H), with reset="after" b_h (H), and those of a norm of
    the state (`states`). `activation` replaces tanh, `gate_activation` the sigmoid.
    """

    def __init__(
        self,
        params: Params,
        *,
        update: Update = "keep",
        reset: Reset = "after",
        activation: ActivationName = "tanh",
        gate_activation: GateName = "sigmoid",
        clamp: float | None = None,
    ) -> None:
        if update not in ("keep", "replace"):
            raise ConfigError(f"update {update!r} is neither 'keep' nor 'replace'")
        if reset not in ("after", "before"):
            raise ConfigError(f"reset {reset!r} is neither 'after' nor 'before'")
        extra = ["b_h"] if reset == "after" else []
        check_params(params, n_gates=3, extra=extra + norm_names(params, ["h"]))
        check_choice("activation", activation, ACTIVATIONS)
        check_choice("gate_activation", gate_activation, GATE_ACTIVATIONS)
        check_clamp(clamp)
        self.params = params
        self.activation, self.gate_activation, self.clamp = activation, gate_activation, clamp
        self.update = update
        self.reset = reset

    def step(self, x: np.ndarray, state: State, mask: np.ndarray) -> GRUTrace:
        """Run one step: x (B, D), state ((B, H),), mask (B,)."""
        (h_before,) = state
        p = self.params
        gate = GATE_ACTIVATIONS[self.gate_activation].function  # sigmoid
        value = ACTIVATIONS[self.activation].function  # tanh
        from_x = x @ p["w_x"].T + p["b"]  # (B, 3H)
        x_r, x_z, x_n = np.split(from_x, 3, axis=1)
        w_r, w_z, w_n = np.split(p["w_h"], 3)  # (H, H) each
        r = gate(x_r + h_before @ w_r.T)
        z = gate(x_z + h_before @ w_z.T)
        if self.reset == "after":
            candidate_input = h_before
            gated = h_before @ w_n.T + p["b_h"]
            n = value(x_n + r * gated)
        else:
            gated = h_before
            candidate_input = r * gated
            n = value(x_n + candidate_input @ w_n.T)
        keep = z if self.update == "keep" else 1 - z
        raw_h = keep * h_before + (1 - keep) * n
        h = settle(p, "h", raw_h, self.clamp)
        h = np.where(mask[:, None], h, h_before)  # padding does not change the state
        return GRUTrace(x, mask, h_before, r, z, n, gated, candidate_input, h, raw_h)

    def forward(
        self, x: np.ndarray, state: State | None = None, mask: np.ndarray | None = None
    ) -> GRUTrace:
        """Run every step of x (B, T, D), from `state` (zeros) on.

        >>> open_z = {"w_x": np.zeros((3, 1)), "w_h": np.zeros((3, 1)), "b": np.array([0.0, 50.0, 0.5])}
        >>> start = (np.full((1, 1), 0.25),)
        >>> for update in ("keep", "replace"):
        ...     gru = GRU(open_z, update=update, reset="before")
        ...     gru.forward(np.ones((1, 2, 1)), start).h.ravel().round(4)
        array([0.25, 0.25])
        array([0.4621, 0.4621])
        """
        x, state, mask = prepare(self.params, x, state, mask, n_states=1)
        steps: list[GRUTrace] = []
        for t in range(x.shape[1]):
            steps.append(self.step(x[:, t], state, mask[:, t]))
            state = steps[-1].state
        return GRUTrace(*stack_steps(steps))

    def backward(
        self, trace: GRUTrace, grad_h: np.ndarray, grad_last: State | None = None
    ) -> Gradients:
        """Return all gradients, given those of each h_t, (B, T, H), and of the last state."""
        p, of_norms = self.params, Params()
        gate = GATE_ACTIVATIONS[self.gate_activation].slope
        value = ACTIVATIONS[self.activation].slope
        b, n_steps, d_hidden = trace.h.shape
        w_rz, w_n = p["w_h"][: 2 * d_hidden], p["w_h"][2 * d_hidden :]
        # of the three functions' arguments; zero at padding
        grad_a = np.zeros((b, n_steps, 3 * d_hidden), trace.h.dtype)
        product = np.zeros_like(grad_a)  # of w_h's products; differs from grad_a if reset is after
        grad_states = np.zeros_like(trace.h)
        # (B, H), from the steps after
        grad = np.zeros_like(trace.h[:, 0]) if grad_last is None else grad_last[0]
        for t in reversed(range(n_steps)):
            real = trace.mask[:, t, None]
            h_before, r, z, n = trace.h_before[:, t], trace.r[:, t], trace.z[:, t], trace.n[:, t]
            keep = z if self.update == "keep" else 1 - z
            grad = grad + grad_h[:, t]
            grad_states[:, t] = grad
            kept = np.where(real, grad, 0)
            grad_raw = settle_backward(p, "h", trace.raw_h[:, t], self.clamp, kept, of_norms)
            grad_keep = grad_raw * (h_before - n)  # h = keep * h_before + (1 - keep) * n
            grad_z = grad_keep if self.update == "keep" else -grad_keep
            grad_a_n = grad_raw * (1 - keep) * value(n)
            if self.reset == "after":  # n = tanh(.. + r * gated),  gated = w_n h_before + b_h
                grad_r = grad_a_n * trace.gated[:, t]
                product_n = grad_a_n * r
                to_before = product_n @ w_n
            else:  # n = tanh(.. + w_n (r * gated)),  gated = h_before
                product_n = grad_a_n
                grad_r = (grad_a_n @ w_n) * trace.gated[:, t]
                to_before = (grad_a_n @ w_n) * r
            grad_rz = np.concatenate([grad_r * gate(r), grad_z * gate(z)], axis=1)
            grad_a[:, t] = np.where(real, np.concatenate([grad_rz, grad_a_n], axis=1), 0)
            product[:, t] = np.where(real, np.concatenate([grad_rz, product_n], axis=1), 0)
            # at padding h_t is h_{t-1}
            grad = np.where(real, grad_raw * keep + grad_rz @ w_rz + to_before, grad)
        blocks = product.reshape(b, n_steps, 3, d_hidden)
        params = {
            "w_x": np.einsum("bta,btd->ad", grad_a, trace.x),
            "w_h": np.einsum("btgh,btgk->ghk", blocks, trace.multiplied).reshape(
                3 * d_hidden, d_hidden
            ),
            "b": grad_a.sum(axis=(0, 1)),
            **of_norms,
        }
        if self.reset == "after":
            params["b_h"] = blocks[:, :, 2].sum(axis=(0, 1))
        return Gradients(
            params, x=grad_a @ p["w_x"], start=(grad,), states=(grad_states,), product=product
        )
