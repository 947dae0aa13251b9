"""The parts of a Transformer's block (Vaswani et al. 2017), each in one call: self-attention, attention to
a memory, perceptron.

Each updates the vectors x (N, D) of tokens in place; for small networks or few tokens, separate calls of its
steps would take longer than the work.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from seqloom.kernels.attention import attend_heads, store_tokens
from seqloom.kernels.maths import activate, add_rows, norm_rows, rotate
from seqloom.kernels.matmul import linear


class Norm(NamedTuple):
    """Layer norm; RMSNorm where the bias is empty."""

    weight: np.ndarray
    bias: np.ndarray
    epsilon: np.float32


class Heads(NamedTuple):
    """How attention is divided."""

    n_heads: int
    d_head: int
    d_keys: int  # of the keys of all heads; less than that of the queries where heads share them
    scale: np.float32  # of the products of queries and keys
    window: int  # how many tokens back a token attends


class Tokens(NamedTuple):
    """Sequence r has the vectors x[starts[r]:][:counts[r]], the last of the lengths[r] tokens in its
    pages.
    """

    pages: np.ndarray  # (R, P) addresses
    starts: np.ndarray
    counts: np.ndarray
    lengths: np.ndarray


class Rotation(NamedTuple):
    """Tables of rotary positions (context, d / 2), or empty ones, and the row of each token in them."""

    cos: np.ndarray
    sin: np.ndarray
    positions: np.ndarray


@njit(nogil=True, cache=True)
def self_attention(
    x, pre, norm, qkv, out, heads, layer, tokens, causal, rotation, by_distance, relative, weights
):
    """Add self-attention to x, and write the tokens' keys and values to their pages. `pre`: the norm
    comes first.
    """
    inner = x.copy()
    if pre:
        norm_rows(inner, norm.weight, norm.bias, norm.epsilon)
    inner = linear(qkv, inner)
    d_queries = heads.n_heads * heads.d_head
    if len(rotation.cos) > 0:  # queries and keys are adjacent
        n_rotated = (d_queries + heads.d_keys) // heads.d_head
        rotate(inner, rotation.positions, n_rotated, rotation.cos, rotation.sin)
    store_tokens(
        inner,
        d_queries,
        heads.d_keys,
        layer,
        tokens.pages,
        tokens.starts,
        tokens.counts,
        tokens.lengths,
    )
    context = attend_heads(
        out.team, inner, heads, layer, tokens, causal, by_distance, relative, weights
    )
    add_rows(x, linear(out, context))
    if not pre:
        norm_rows(x, norm.weight, norm.bias, norm.epsilon)


@njit(nogil=True, cache=True)
def cross_attention(x, pre, norm, query, out, heads, layer, memory, none, weights):
    """Add the attention of each token to its source to x; the keys and values of the sources are in the
    pages of `memory`.

    `none` (heads, 0): nothing is added to the scores.
    """
    inner = x.copy()
    if pre:
        norm_rows(inner, norm.weight, norm.bias, norm.epsilon)
    context = attend_heads(
        out.team, linear(query, inner), heads, layer, memory, False, none, none[:0], weights
    )
    add_rows(x, linear(out, context))
    if not pre:
        norm_rows(x, norm.weight, norm.bias, norm.epsilon)


@njit(nogil=True, cache=True)
def perceptron(x, pre, norm, up, down, activation):
    """Add a perceptron of x to x."""
    inner = x.copy()
    if pre:
        norm_rows(inner, norm.weight, norm.bias, norm.epsilon)
    add_rows(x, linear(down, activate(linear(up, inner), activation)))
    if not pre:
        norm_rows(x, norm.weight, norm.bias, norm.epsilon)
