"""The parts of a Transformer's block (Vaswani et al. 2017), each in one call:
attention, attention to a memory, perceptron.

Each works on the vectors x (N, D) of tokens, in place; calls of its pieces would take longer than their work
where a network is small, or reads few tokens.
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
    d_keys: int  # of the keys of all heads together; less than that of the queries where heads share them
    scale: np.float32  # of the products of queries and keys
    window: int  # how far back a token sees


class Tokens(NamedTuple):
    """Where tokens are: sequence r has x[starts[r]:][:counts[r]], the last of the lengths[r] in its pages."""

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
    """Add what each token sees of its sequence to x; its keys and values go to its pages.
    `pre`: the norm comes first.
    """
    inner = x.copy()
    if pre:
        norm_rows(inner, norm.weight, norm.bias, norm.epsilon)
    inner = linear(qkv, inner)
    d_queries = heads.n_heads * heads.d_head
    if len(rotation.cos) > 0:  # queries and keys lie side by side
        turned = (d_queries + heads.d_keys) // heads.d_head
        rotate(inner, rotation.positions, turned, rotation.cos, rotation.sin)
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
    seen = attend_heads(
        out.team, inner, heads, layer, tokens, causal, by_distance, relative, weights
    )
    add_rows(x, linear(out, seen))
    if not pre:
        norm_rows(x, norm.weight, norm.bias, norm.epsilon)


@njit(nogil=True, cache=True)
def cross_attention(x, pre, norm, query, out, heads, layer, memory, none, weights):
    """Add what each token sees of its source to x;
    the keys and values of the sources are in the pages of `memory`.

    `none` (heads, 0): nothing is added to the scores.
    """
    inner = x.copy()
    if pre:
        norm_rows(inner, norm.weight, norm.bias, norm.epsilon)
    seen = attend_heads(
        out.team, linear(query, inner), heads, layer, memory, False, none, none[:0], weights
    )
    add_rows(x, linear(out, seen))
    if not pre:
        norm_rows(x, norm.weight, norm.bias, norm.epsilon)


@njit(nogil=True, cache=True)
def perceptron(x, pre, norm, up, down, activation):
    """Add a perceptron's change to x."""
    inner = x.copy()
    if pre:
        norm_rows(inner, norm.weight, norm.bias, norm.epsilon)
    add_rows(x, linear(down, activate(linear(up, inner), activation)))
    if not pre:
        norm_rows(x, norm.weight, norm.bias, norm.epsilon)
