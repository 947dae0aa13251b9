"""Attention (Vaswani et al. 2017, section 3.2), forward and backward: one head, and several side by side.

    s_ij = q_i . k_j / sqrt(d)                  how well key j answers query i; -inf where i may not see j
    a_ij = exp(s_ij) / sum_l exp(s_il)          a row sums to one; the row of a query that sees no key is zero
    o_i  = sum_j a_ij v_j

The scale keeps the softmax where it has a slope: if the entries of q and k are independent with variance one, q . k has
variance d, and s has variance one. Backward, where grad_v is the gradient of the loss with respect to v:

    grad_v_j  = sum_i a_ij grad_o_i                    grad_a_ij = grad_o_i . v_j
    grad_s_ij = a_ij (grad_a_ij - sum_l a_il grad_a_il)
    grad_q_i  = sum_j grad_s_ij k_j / sqrt(d)          grad_k_j  = sum_i grad_s_ij q_i / sqrt(d)

Time is in O(T S d) and memory, with all weights kept as here, in O(T S); the fast layers (`nn/attention`) keep none of them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from seqloom.reference.sequences import Params


class Attention(NamedTuple):
    """What a forward pass keeps. Leading axes, such as batch and heads, may stand before these."""

    q: np.ndarray  # (..., T, d)
    k: np.ndarray  # (..., S, d)
    v: np.ndarray  # (..., S, d_v)
    scores: np.ndarray  # (..., T, S)
    weights: np.ndarray  # (..., T, S)
    out: np.ndarray  # (..., T, d_v)


def attend(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, seen: np.ndarray | None = None
) -> Attention:
    """`seen` is True where a query may see a key, of the shape of the weights or one that is repeated to it.

    >>> attend(np.zeros((1, 2)), np.zeros((2, 2)), np.array([[1.0], [5.0]])).out  # all keys alike: the mean of the values
    array([[3.]])
    >>> attend(np.zeros((1, 2)), np.zeros((2, 2)), np.array([[1.0], [5.0]]), np.array([[False, False]])).out
    array([[0.]])
    """
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    if seen is not None:
        scores = np.where(seen, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    powers = np.exp(
        scores - np.where(np.isfinite(top), top, 0)
    )  # the same weights, and exp cannot overflow
    total = powers.sum(axis=-1, keepdims=True)
    weights = powers / np.where(total > 0, total, 1)
    return Attention(q, k, v, scores, weights, weights @ v)


def attend_backward(
    a: Attention, grad_out: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gradients of q, k and v, given what the loss asks of the output, (..., T, d_v)."""
    grad_v = a.weights.swapaxes(-1, -2) @ grad_out
    grad_weights = grad_out @ a.v.swapaxes(-1, -2)
    grad_scores = a.weights * (
        grad_weights - (a.weights * grad_weights).sum(axis=-1, keepdims=True)
    )
    grad_scores = grad_scores / math.sqrt(a.q.shape[-1])
    return grad_scores @ a.k, grad_scores.swapaxes(-1, -2) @ a.q, grad_v


def causal_mask(n_steps: int) -> np.ndarray:
    """(T, T) True where a step may look: at itself and at what came before.

    >>> causal_mask(3).astype(int)
    array([[1, 0, 0],
           [1, 1, 0],
           [1, 1, 1]])
    """
    return np.tri(n_steps, dtype=bool)


class HeadsTrace(NamedTuple):
    x: np.ndarray  # (B, T, D) what asks
    memory: np.ndarray  # (B, S, D) what is looked at; x itself in self-attention
    heads: Attention  # its arrays begin with (B, heads)
    joined: np.ndarray  # (B, T, D) the heads' outputs side by side
    y: np.ndarray  # (B, T, D)


class MultiHeadAttention:
    """`params`: w_q, w_k, w_v, w_o (D, D) and b_q, b_k, b_v, b_o (D); head h has rows h D/n_heads to (h + 1) D/n_heads."""

    def __init__(self, params: Params, n_heads: int) -> None:
        width = len(params["w_q"])
        if width % n_heads:
            raise ValueError(f"a width of {width} cannot be divided among {n_heads} heads")
        self.params, self.n_heads = params, n_heads

    def forward(
        self, x: np.ndarray, memory: np.ndarray | None = None, seen: np.ndarray | None = None
    ) -> HeadsTrace:
        """x (B, T, D) looks at the memory (B, S, D), or at itself; `seen` is (T, S), or (B, T or 1, S)."""
        p, memory = self.params, x if memory is None else memory
        q, k, v = (
            self._split(source @ p[f"w_{name}"].T + p[f"b_{name}"])
            for name, source in (("q", x), ("k", memory), ("v", memory))
        )
        heads = attend(q, k, v, seen if seen is None or seen.ndim == 2 else seen[:, None])
        joined = self._join(heads.out)
        return HeadsTrace(x, memory, heads, joined, joined @ p["w_o"].T + p["b_o"])

    def backward(
        self, trace: HeadsTrace, grad_y: np.ndarray
    ) -> tuple[Params, np.ndarray, np.ndarray]:
        """Gradients of the parameters, of x as what asks, and of the memory; in self-attention x gets the sum of the two."""
        p = self.params
        grads = {
            "w_o": np.einsum("btd,bte->de", grad_y, trace.joined),
            "b_o": grad_y.sum(axis=(0, 1)),
        }
        parts = attend_backward(trace.heads, self._split(grad_y @ p["w_o"]))
        grad_x, grad_memory = np.zeros_like(trace.x), np.zeros_like(trace.memory)
        for name, part in zip("qkv", parts):
            grad, source, into = (
                self._join(part),
                *((trace.x, grad_x) if name == "q" else (trace.memory, grad_memory)),
            )
            grads[f"w_{name}"] = np.einsum("btd,bte->de", grad, source)
            grads[f"b_{name}"] = grad.sum(axis=(0, 1))
            into += grad @ p[f"w_{name}"]
        return grads, grad_x, grad_memory

    def _split(self, x: np.ndarray) -> np.ndarray:
        """(B, T, D) to (B, heads, T, D / heads)."""
        return x.reshape(*x.shape[:2], self.n_heads, -1).swapaxes(1, 2)

    def _join(self, x: np.ndarray) -> np.ndarray:
        return x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1)
