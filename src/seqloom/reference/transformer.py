"""Attention and the block of a Transformer (Vaswani et al. 2017), forward and backward.

Attention (section 3.2), of one head or several:

    s_ij = q_i . k_j / sqrt(d)                  score of key j for query i; -inf where i may not see j
    a_ij = exp(s_ij) / sum_l exp(s_il)          a row sums to one; a query that sees no key has a row of zeros
    o_i  = sum_j a_ij v_j

The scale keeps the softmax where it has a slope: if the entries of q and k are independent with
variance one, q . k has variance d, and s has variance one. Backward, where grad_v is the gradient
of the loss with respect to v:

    grad_v_j  = sum_i a_ij grad_o_i                    grad_a_ij = grad_o_i . v_j
    grad_s_ij = a_ij (grad_a_ij - sum_l a_il grad_a_il)
    grad_q_i  = sum_j grad_s_ij k_j / sqrt(d)          grad_k_j  = sum_i grad_s_ij q_i / sqrt(d)

Time is O(T S d), and memory O(T S) because all weights are stored; the fast layers (`nn/attention`)
store none of them. The equations of the block are those of `TransformerBlock`.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np

from seqloom.reference.sequences import Params, sigmoid


class Attention(NamedTuple):
    """Results of a forward pass. Leading axes, such as batch and heads, may precede these."""

    q: np.ndarray  # (..., T, d)
    k: np.ndarray  # (..., S, d)
    v: np.ndarray  # (..., S, d_v)
    scores: np.ndarray  # (..., T, S)
    weights: np.ndarray  # (..., T, S)
    out: np.ndarray  # (..., T, d_v)


def attend(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, seen: np.ndarray | None = None
) -> Attention:
    """Compute attention; `seen` is True where a query may see a key, and has the shape of the
    weights or one that broadcasts to it.

    >>> q, k, v = np.zeros((1, 2)), np.zeros((2, 2)), np.array([[1.0], [5.0]])
    >>> attend(q, k, v).out  # all keys alike: the mean of the values
    array([[3.]])
    >>> attend(q, k, v, np.array([[False, False]])).out
    array([[0.]])
    """
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    if seen is not None:
        scores = np.where(seen, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    # subtracting `top` leaves the weights equal, and exp cannot overflow
    powers = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = powers.sum(axis=-1, keepdims=True)
    weights = powers / np.where(total > 0, total, 1)
    return Attention(q, k, v, scores, weights, weights @ v)


def attend_backward(
    a: Attention, grad_out: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the gradients of q, k and v, given that of the output, (..., T, d_v)."""
    grad_v = a.weights.swapaxes(-1, -2) @ grad_out
    grad_weights = grad_out @ a.v.swapaxes(-1, -2)
    grad_scores = a.weights * (
        grad_weights - (a.weights * grad_weights).sum(axis=-1, keepdims=True)
    )
    grad_scores = grad_scores / math.sqrt(a.q.shape[-1])
    return grad_scores @ a.k, grad_scores.swapaxes(-1, -2) @ a.q, grad_v


def causal_mask(n_steps: int) -> np.ndarray:
    """Return a mask (T, T), True where a step may attend: itself and earlier steps.

    >>> causal_mask(3).astype(int)
    array([[1, 0, 0],
           [1, 1, 0],
           [1, 1, 1]])
    """
    return np.tri(n_steps, dtype=bool)


class HeadsTrace(NamedTuple):
    x: np.ndarray  # (B, T, D) source of the queries
    memory: np.ndarray  # (B, S, D) source of keys and values; x in self-attention
    heads: Attention  # its arrays begin with (B, heads)
    joined: np.ndarray  # (B, T, D) the heads' outputs, concatenated
    y: np.ndarray  # (B, T, D)


class MultiHeadAttention:
    """`params`: w_q, w_k, w_v, w_o (D, D) and b_q, b_k, b_v, b_o (D); head h has rows h D/n_heads
    to (h + 1) D/n_heads.
    """

    def __init__(self, params: Params, n_heads: int) -> None:
        width = len(params["w_q"])
        if width % n_heads:
            raise ValueError(f"a width of {width} cannot be divided among {n_heads} heads")
        self.params, self.n_heads = params, n_heads

    def forward(
        self, x: np.ndarray, memory: np.ndarray | None = None, seen: np.ndarray | None = None
    ) -> HeadsTrace:
        """Attend from x (B, T, D) to the memory (B, S, D), or to x itself; `seen` is (T, S), or
        (B, T or 1, S).
        """
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
        """Return the gradients of the parameters, of x as the query, and of the memory; in
        self-attention x gets the sum of the two.
        """
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
        """Split (B, T, D) into (B, heads, T, D / heads)."""
        return x.reshape(*x.shape[:2], self.n_heads, -1).swapaxes(1, 2)

    def _join(self, x: np.ndarray) -> np.ndarray:
        return x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1)


# ---- transformer block

NormKind = Literal["layer", "rms"]
BEND = math.sqrt(2 / math.pi)  # constants of the GELU's tanh form
CUBE = 0.044715


class Normed(NamedTuple):
    unit: np.ndarray  # (B, T, D) before gamma and beta
    scale: np.ndarray  # (B, T, 1) divisor of x, or of x - mean
    y: np.ndarray  # (B, T, D)


def normalise(
    x: np.ndarray, gamma: np.ndarray, beta: np.ndarray | None, *, epsilon: float = 1e-5
) -> Normed:
    """Apply layer norm (Ba et al. 2016), or with `beta` None RMSNorm (Zhang and Sennrich 2019).

    >>> normalise(np.array([[[1.0, 3.0]]]), np.ones(2), np.zeros(2), epsilon=0).y
    array([[[-1.,  1.]]])
    >>> normalise(np.array([[[1.0, 7.0]]]), np.ones(2), None, epsilon=0).y
    array([[[0.2, 1.4]]])
    """
    centred = x if beta is None else x - x.mean(axis=-1, keepdims=True)
    scale = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + epsilon)
    unit = centred / scale
    return Normed(unit, scale, unit * gamma + (0 if beta is None else beta))


def normalise_backward(
    n: Normed, gamma: np.ndarray, grad_y: np.ndarray, *, centred: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the gradients of x, gamma and beta. A norm undoes shifts (if `centred`) and scaling
    of x, so these have no gradient.
    """
    grad = grad_y * gamma
    grad_x = grad - n.unit * (grad * n.unit).mean(axis=-1, keepdims=True)
    if centred:
        grad_x = grad_x - grad.mean(axis=-1, keepdims=True)
    return grad_x / n.scale, (grad_y * n.unit).sum(axis=(0, 1)), grad_y.sum(axis=(0, 1))


def gelu(a: np.ndarray) -> np.ndarray:
    """Compute GELU (Hendrycks and Gimpel 2016) in the tanh form of GPT-2.

    >>> gelu(np.array([-1.0, 0.0, 1.0])).round(4)
    array([-0.1588,  0.    ,  0.8412])
    """
    return 0.5 * a * (1 + np.tanh(BEND * (a + CUBE * a**3)))


def gelu_slope(a: np.ndarray) -> np.ndarray:
    t = np.tanh(BEND * (a + CUBE * a**3))
    return 0.5 * (1 + t) + 0.5 * a * (1 - t**2) * BEND * (1 + 3 * CUBE * a**2)


def activate(a: np.ndarray, kind: str) -> np.ndarray:
    """Apply the activation to the inner units; swiglu halves their number."""
    if kind == "swiglu":
        gate, unit = np.split(a, 2, axis=-1)
        return gate * sigmoid(gate) * unit
    return gelu(a) if kind == "gelu" else np.maximum(a, 0)


def activate_backward(a: np.ndarray, kind: str, grad: np.ndarray) -> np.ndarray:
    """Return the gradient of a, given that of `activate(a, kind)`."""
    if kind == "swiglu":
        gate, unit = np.split(a, 2, axis=-1)
        s = sigmoid(gate)
        return np.concatenate([grad * unit * s * (1 + gate * (1 - s)), grad * gate * s], axis=-1)
    return grad * (gelu_slope(a) if kind == "gelu" else (a > 0))


class BlockTrace(NamedTuple):
    x: np.ndarray  # (B, T, D)
    norm1: Normed
    attention: HeadsTrace
    x_1: np.ndarray  # (B, T, D) after the attention
    norm2: Normed
    read: np.ndarray  # (B, T, D) input of the perceptron
    a: np.ndarray  # (B, T, inner) its units before f
    inner: np.ndarray  # (B, T, inner) and after
    y: np.ndarray  # (B, T, D)


class TransformerBlock:
    """Attention and a perceptron, each added to its input.

        norm="post"    x_1 = N_1(x + attention(x))      y = N_2(x_1 + mlp(x_1))      the paper's order
        norm="pre"     x_1 = x + attention(N_1(x))      y = x_1 + mlp(N_2(x_1))      GPT-2's

        layer          N(x) = gamma * (x - mean) / sqrt(variance + epsilon) + beta   over a step's entries
        rms            N(x) = gamma * x / sqrt(mean of x^2 + epsilon)
        relu, gelu     mlp(x) = w_2 f(w_1 x + b_1) + b_2
        swiglu         mlp(x) = w_2 (gate * sigmoid(gate) * unit) + b_2, where (gate, unit) = w_1 x + b_1

    Every step goes through the same perceptron. The residual path around both parts carries a gradient
    back unchanged; with "post" it still passes through the norms.

    `params`: those of MultiHeadAttention; w_1 (inner, D), for swiglu (2 inner, D), b_1, w_2 (D,
    inner), b_2; gamma_1 and gamma_2 (D), with beta_1 and beta_2 (D) unless the norms are of the
    kind rms.
    """

    def __init__(
        self,
        params: Params,
        n_heads: int,
        *,
        norm: Literal["pre", "post"] = "pre",
        norm_kind: NormKind = "layer",
        activation: Literal["relu", "gelu", "swiglu"] = "gelu",
        epsilon: float = 1e-5,
    ) -> None:
        self.params, self.pre, self.activation, self.epsilon = (
            params,
            norm == "pre",
            activation,
            epsilon,
        )
        self.centred = norm_kind == "layer"
        self.attention = MultiHeadAttention(params, n_heads)

    def forward(self, x: np.ndarray, seen: np.ndarray | None = None) -> BlockTrace:
        """Run the block on x (B, T, D); `seen` is as in attention."""
        p = self.params
        norm1 = self._norm(1, x) if self.pre else None
        attention = self.attention.forward(x if norm1 is None else norm1.y, seen=seen)
        x_1 = x + attention.y
        if norm1 is None:
            norm1 = self._norm(1, x_1)
            x_1 = norm1.y
        norm2 = self._norm(2, x_1) if self.pre else None
        read = x_1 if norm2 is None else norm2.y
        a = read @ p["w_1"].T + p["b_1"]
        inner = activate(a, self.activation)
        y = x_1 + inner @ p["w_2"].T + p["b_2"]
        if norm2 is None:
            norm2 = self._norm(2, y)
            y = norm2.y
        return BlockTrace(x, norm1, attention, x_1, norm2, read, a, inner, y)

    def backward(self, trace: BlockTrace, grad_y: np.ndarray) -> tuple[Params, np.ndarray]:
        """Return the gradients of the parameters and of x (B, T, D)."""
        p = self.params
        grads: Params = {}
        # of x_1 + mlp
        grad = grad_y if self.pre else self._norm_backward(2, trace.norm2, grad_y, grads)
        grads["w_2"] = np.einsum("btd,bth->dh", grad, trace.inner)
        grads["b_2"] = grad.sum(axis=(0, 1))
        grad_a = activate_backward(trace.a, self.activation, grad @ p["w_2"])
        grads["w_1"] = np.einsum("bth,btd->hd", grad_a, trace.read)
        grads["b_1"] = grad_a.sum(axis=(0, 1))
        through = grad_a @ p["w_1"]
        # of x_1
        grad = grad + (self._norm_backward(2, trace.norm2, through, grads) if self.pre else through)
        if not self.pre:
            grad = self._norm_backward(1, trace.norm1, grad, grads)  # of x + attention
        attention_grads, grad_queries, grad_memory = self.attention.backward(trace.attention, grad)
        through = grad_queries + grad_memory
        grad = grad + (self._norm_backward(1, trace.norm1, through, grads) if self.pre else through)
        return grads | attention_grads, grad

    def _norm(self, i: int, x: np.ndarray) -> Normed:
        p = self.params
        return normalise(
            x, p[f"gamma_{i}"], p[f"beta_{i}"] if self.centred else None, epsilon=self.epsilon
        )

    def _norm_backward(self, i: int, n: Normed, grad_y: np.ndarray, grads: Params) -> np.ndarray:
        grad_x, grads[f"gamma_{i}"], beta = normalise_backward(
            n, self.params[f"gamma_{i}"], grad_y, centred=self.centred
        )
        if self.centred:
            grads[f"beta_{i}"] = beta
        return grad_x
