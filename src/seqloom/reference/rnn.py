"""The simple recurrent network of Elman 1990, "Finding Structure in Time".

    a_t = w_x x_t + w_h h_{t-1} + b
    h_t = f(a_t)                               f is tanh, relu or sigmoid

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

from typing import NamedTuple

import numpy as np

from seqloom.errors import ConfigError, suggest
from seqloom.reference.sequences import (
    ACTIVATIONS,
    ActivationName,
    Gradients,
    Params,
    State,
    check_params,
    prepare,
    stack_steps,
)


class RNNTrace(NamedTuple):
    """Shapes of a whole sequence; in the trace of a single step the T axis is missing."""

    x: np.ndarray  # (B, T, D)
    mask: np.ndarray  # (B, T)
    h_before: np.ndarray  # (B, T, H) h_{t-1}
    a: np.ndarray  # (B, T, H)
    h: np.ndarray  # (B, T, H)

    @property
    def state(self) -> State:
        return (self.h,)

    @property
    def last(self) -> State:
        return (self.h[:, -1],)

    @property
    def multiplied(self) -> np.ndarray:
        return self.h_before[:, :, None]  # (B, T, 1, H)


class RNN:
    """`params`: w_x (H, D), w_h (H, H), b (H)."""

    def __init__(self, params: Params, *, activation: ActivationName = "tanh") -> None:
        check_params(params, n_gates=1)
        if activation not in ACTIVATIONS:
            raise ConfigError(
                f"activation {activation!r} is not one of {', '.join(ACTIVATIONS)}"
                f"{suggest(activation, ACTIVATIONS)}"
            )
        self.params = params
        self.activation = activation

    def step(self, x: np.ndarray, state: State, mask: np.ndarray) -> RNNTrace:
        """Run one step: x (B, D), state ((B, H),), mask (B,)."""
        (h_before,) = state
        p = self.params
        # (B, H): rows are sequences, hence x w^T for w x
        a = x @ p["w_x"].T + h_before @ p["w_h"].T + p["b"]
        h = ACTIVATIONS[self.activation].function(a)
        h = np.where(mask[:, None], h, h_before)  # padding does not change the state
        return RNNTrace(x, mask, h_before, a, h)

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
        grad_states = np.zeros_like(trace.h)
        # (B, H), from the steps after
        grad = np.zeros_like(trace.h[:, 0]) if grad_last is None else grad_last[0]
        for t in reversed(range(trace.h.shape[1])):
            real = trace.mask[:, t, None]
            grad = grad + grad_h[:, t]
            grad_states[:, t] = grad
            grad_a[:, t] = np.where(real, grad * slope(trace.h[:, t]), 0)
            # w_h^T grad_a; at padding h_t is h_{t-1}
            grad = np.where(real, grad_a[:, t] @ p["w_h"], grad)
        params = {
            "w_x": np.einsum("bth,btd->hd", grad_a, trace.x),
            "w_h": np.einsum("bth,btk->hk", grad_a, trace.h_before),
            "b": grad_a.sum(axis=(0, 1)),
        }
        return Gradients(
            params, x=grad_a @ p["w_x"], start=(grad,), states=(grad_states,), product=grad_a
        )
