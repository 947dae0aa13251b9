"""What stands on a recurrent layer: a linear output and a loss, each with its gradient.

    y_t = w_y h_t + b_y
    squared error    L = sum (y_t - target_t)^2                  grad_y = 2 (y_t - target_t)
    cross-entropy    L = -sum log softmax(y_t)[target_t]         grad_y = softmax(y_t) - onehot(target_t)

A loss here is the plain sum over real steps. Dividing by sequences or by steps are two different objectives as soon as
lengths differ, so the choice is left to the caller: divide loss and gradient by the same number.
"""

from __future__ import annotations

import numpy as np

from seqloom.reference.sequences import Params


class Output:
    """`params`: w_y (V, H), b_y (V)."""

    def __init__(self, params: Params) -> None:
        self.params = params

    def forward(self, h: np.ndarray) -> np.ndarray:
        return h @ self.params["w_y"].T + self.params["b_y"]  # (B, T, V)

    def backward(self, h: np.ndarray, grad_y: np.ndarray) -> tuple[Params, np.ndarray]:
        """Gradients of w_y and b_y, and what the loss asks of h, (B, T, H), for the layer below."""
        params = {"w_y": np.einsum("btv,bth->vh", grad_y, h), "b_y": grad_y.sum(axis=(0, 1))}
        return params, grad_y @ self.params["w_y"]


def squared_error(
    y: np.ndarray, target: np.ndarray, mask: np.ndarray | None = None
) -> tuple[float, np.ndarray]:
    """Loss and its gradient with respect to y, both (B, T, V) in."""
    difference = y - target if mask is None else np.where(mask[..., None], y - target, 0)
    return float((difference**2).sum()), 2 * difference


def cross_entropy(
    y: np.ndarray, ids: np.ndarray, mask: np.ndarray | None = None
) -> tuple[float, np.ndarray]:
    """Loss in nats and its gradient with respect to the logits y (B, T, V); `ids` are the right ones, (B, T).

    >>> cross_entropy(np.zeros((1, 1, 4)), np.array([[2]]))
    (1.386..., array([[[ 0.25,  0.25, -0.75,  0.25]]]))
    """
    real = np.ones(ids.shape, bool) if mask is None else mask
    shifted = y - y.max(axis=-1, keepdims=True)  # the same softmax, and exp cannot overflow
    log_probs = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    at = ids[..., None]
    loss = -np.take_along_axis(log_probs, at, axis=-1)[..., 0][real].sum()
    grad = np.exp(log_probs)
    np.put_along_axis(grad, at, np.take_along_axis(grad, at, axis=-1) - 1, axis=-1)
    return float(loss), np.where(real[..., None], grad, 0)
