"""The simple recurrent network of Elman 1990, "Finding Structure in Time".

    a_t = w_x x_t + w_h h_{t-1} + b
    h_t = f(a_t)                               f is tanh, relu, leaky relu or sigmoid

Two other forms, and steps that are shorter:

    recurrence="pascanu"       h_t = w_x x_t + w_h f(h_{t-1}) + b     f before the matrix (Pascanu, Mikolov
                                                                      and Bengio 2013, eq. 2)
    recurrence="continuous"    h_t = f(w_h h_{t-1} + b) + w_x x_t     an Euler step of
                                                                      dh/dt = -h + f(w_h h + b) + w_x x
    time_step < 1              h_t = h_{t-1} + time_step (that - h_{t-1})

The matrices are the same at every step, so the number of parameters does not depend on the length.
Backward through time (Werbos 1990) goes from the last step to the first; grad_v is the gradient of
the loss with respect to v:

    grad_h_t = dL/dh_t, directly  +  w_h^T grad_a_{t+1}        (no second term at the last step)
    grad_a_t = grad_h_t * f'(a_t)
    grad_w_h = sum_t grad_a_t h_{t-1}^T        grad_w_x = sum_t grad_a_t x_t^T        grad_b = sum_t grad_a_t

All three sums take grad_a, which includes the slope f'; with grad_h instead they are wrong by more
than their own size.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import numpy as np

from seqloom.errors import ConfigError
from seqloom.reference.sequences import (
    ACTIVATIONS,
    ActivationName,
    Gradients,
    Params,
    State,
    check_choice,
    check_params,
    prepare,
    stack_steps,
)
from seqloom.reference.states import check_clamp, norm_names, settle, settle_backward

Form = Literal["elman", "pascanu", "continuous"]


class RNNTrace(NamedTuple):
    """Shapes of a whole sequence; in the trace of a single step the T axis is missing."""

    x: np.ndarray  # (B, T, D)
    mask: np.ndarray  # (B, T)
    h_before: np.ndarray  # (B, T, H) h_{t-1}
    a: np.ndarray  # (B, T, H)
    h: np.ndarray  # (B, T, H)
    value: np.ndarray  # (B, T, H) f(a_t), or f(h_{t-1}) in Pascanu's form
    raw_h: np.ndarray  # (B, T, H) h_t before it is clamped and normalised
    multiplied_h: np.ndarray  # (B, T, H) what w_h multiplies

    @property
    def state(self) -> State:
        return (self.h,)

    @property
    def last(self) -> State:
        return (self.h[:, -1],)

    @property
    def multiplied(self) -> np.ndarray:
        return self.multiplied_h[:, :, None]  # (B, T, 1, H)


class RNN:
    """`params`: w_x (H, D), w_h (H, H), b (H), and those of a norm of the state (`states`)."""

    def __init__(
        self,
        params: Params,
        *,
        activation: ActivationName = "tanh",
        recurrence: Form = "elman",
        time_step: float = 1.0,
        clamp: float | None = None,
    ) -> None:
        check_params(params, n_gates=1, extra=norm_names(params, ["h"]))
        check_choice("activation", activation, ACTIVATIONS)
        check_choice("recurrence", recurrence, get_args(Form))
        if not 0 < time_step <= 1:
            raise ConfigError(f"time_step is {time_step}; it must be above 0 and at most 1")
        check_clamp(clamp)
        self.params = params
        self.activation, self.recurrence = activation, recurrence
        self.time_step, self.clamp = time_step, clamp

    def step(self, x: np.ndarray, state: State, mask: np.ndarray) -> RNNTrace:
        """Run one step: x (B, D), state ((B, H),), mask (B,)."""
        (h_before,) = state
        p, f = self.params, ACTIVATIONS[self.activation].function
        multiplied = f(h_before) if self.recurrence == "pascanu" else h_before
        # (B, H): rows are sequences, hence x w^T for w x
        from_x = x @ p["w_x"].T
        a = multiplied @ p["w_h"].T + p["b"]
        if self.recurrence != "continuous":
            a = a + from_x
        value = multiplied if self.recurrence == "pascanu" else f(a)
        new = {"elman": value, "pascanu": a, "continuous": value + from_x}[self.recurrence]
        raw_h = new if self.time_step == 1 else h_before + self.time_step * (new - h_before)
        h = settle(p, "h", raw_h, self.clamp)
        h = np.where(mask[:, None], h, h_before)  # padding does not change the state
        return RNNTrace(x, mask, h_before, a, h, value, raw_h, multiplied)

    def forward(
        self, x: np.ndarray, state: State | None = None, mask: np.ndarray | None = None
    ) -> RNNTrace:
        """Run every step of x (B, T, D), from `state` (zeros) on.

        >>> params = {"w_x": np.zeros((1, 1)), "w_h": np.array([[0.5]]), "b": np.zeros(1)}
        >>> half = RNN(params, activation="relu")
        >>> half.forward(np.zeros((1, 3, 1)), state=(np.ones((1, 1)),)).h.ravel()
        array([0.5  , 0.25 , 0.125])
        """
        x, state, mask = prepare(self.params, x, state, mask, n_states=1)
        steps: list[RNNTrace] = []
        for t in range(x.shape[1]):
            steps.append(self.step(x[:, t], state, mask[:, t]))
            state = steps[-1].state
        return RNNTrace(*stack_steps(steps))

    def backward(
        self, trace: RNNTrace, grad_h: np.ndarray, grad_last: State | None = None
    ) -> Gradients:
        """Return all gradients, given those of each h_t, (B, T, H), and of the last state."""
        p = self.params
        slope = ACTIVATIONS[self.activation].slope
        grad_a = np.zeros_like(trace.a)  # stays zero at padding
        grad_from_x = np.zeros_like(trace.a)  # of w_x x_t
        of_norms: Params = {}
        grad_states = np.zeros_like(trace.h)
        # (B, H), from the steps after
        grad = np.zeros_like(trace.h[:, 0]) if grad_last is None else grad_last[0]
        for t in reversed(range(trace.h.shape[1])):
            real = trace.mask[:, t, None]
            grad = grad + grad_h[:, t]
            grad_states[:, t] = grad
            kept = np.where(real, grad, 0)
            grad_raw = settle_backward(p, "h", trace.raw_h[:, t], self.clamp, kept, of_norms)
            grad_new, f_slope = self.time_step * grad_raw, slope(trace.value[:, t])
            grad_a[:, t] = grad_new if self.recurrence == "pascanu" else grad_new * f_slope
            grad_from_x[:, t] = grad_new if self.recurrence == "continuous" else grad_a[:, t]
            back = grad_a[:, t] @ p["w_h"]  # w_h^T grad_a
            if self.recurrence == "pascanu":
                back = back * f_slope
            # at padding h_t is h_{t-1}
            grad = np.where(real, back + (1 - self.time_step) * grad_raw, grad)
        params = {
            "w_x": np.einsum("bth,btd->hd", grad_from_x, trace.x),
            "w_h": np.einsum("bth,btk->hk", grad_a, trace.multiplied_h),
            "b": grad_a.sum(axis=(0, 1)),
            **of_norms,
        }
        return Gradients(
            params, x=grad_from_x @ p["w_x"], start=(grad,), states=(grad_states,), product=grad_a
        )
