"""Causal multi-head self-attention (Vaswani et al. 2017, section 3.2) with a key-value cache that is a value.

The products and the softmax are torch's fused kernel, which has no dropout on a CPU (torch then takes its steps one by
one and draws slowly); there they are written out. What this adds is the bookkeeping around it: rows of a batch may
have read different numbers of tokens, and the keys and values that they have seen are leaves of the state, padded on
the right, beside a `lengths` leaf. A cache has room to grow, so a step writes its one column and copies nothing.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seqloom.nn.dropout import dropout
from seqloom.nn.position import alibi_bias, rotate

KeysValues = tuple[Tensor, Tensor]  # each (B, heads, room, d_head)


class Past(NamedTuple):
    """What a Transformer remembers: the tokens read by each row, and for each layer their keys and values."""

    lengths: Tensor  # (B,) int64; what lies further right in the caches is padding
    layers: tuple[KeysValues, ...]


class Sight(NamedTuple):
    """Which keys each query of one call may see, and how it is told their places; the same for all layers."""

    positions: Tensor  # (B or 1, T) of the new tokens
    first: int | None  # where the new tokens go in the caches, if that is one place for all rows
    end: int  # keys beyond are nobody's
    mask: Tensor | None  # (B or 1, heads or 1, T, end), boolean or added to the scores
    causal: bool  # plain causal mask from the first key on; the kernel then skips what it hides
    rotation: tuple[Tensor, Tensor] | None


def look(positions: Tensor, lengths: list[int] | None, slopes: Tensor | None,
         rotation: tuple[Tensor, Tensor] | None) -> Sight:
    """`lengths` is how much each row has read before, or None for nothing; `slopes` are ALiBi's."""
    steps = positions.shape[1]
    longest = max(lengths) if lengths else 0
    first = longest if not lengths or min(lengths) == longest else None
    end = longest + steps
    keys = torch.arange(end, device=positions.device)
    mask = None
    if slopes is not None:
        mask = alibi_bias(slopes, positions, keys)
    elif first is None or (first > 0 and steps > 1):
        mask = (keys <= positions[:, :, None])[:, None]  # (B, 1, T, end)
    return Sight(positions, first, end, mask, mask is None and first == 0, rotation)


class CausalSelfAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int, *, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__()
        if d_model % n_heads:
            raise ValueError(f"width {d_model} does not divide into {n_heads} heads")
        self.n_heads, self.dropout = n_heads, dropout
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=bias)
        self.out = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x: Tensor, sight: Sight, cache: KeysValues | None = None) -> tuple[Tensor, KeysValues]:
        """x (B, T, D) to the same shape, and the keys and values with those of x at their end."""
        b, t, d = x.shape
        qkv = self.qkv(x).view(b, t, 3, self.n_heads, d // self.n_heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # each (B, heads, T, d_head)
        if sight.rotation is not None:
            q, k = rotate(q, *sight.rotation), rotate(k, *sight.rotation)
        kept = (k, v)
        if cache is not None:
            kept = (_append(cache[0], k, sight), _append(cache[1], v, sight))
            k, v = (part[:, :, : sight.end] for part in kept)
        rate = self.dropout if self.training else 0.0
        if rate and x.device.type == "cpu":
            y = dropped_attention(q, k, v, sight, rate)
        else:
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=sight.mask, is_causal=sight.causal, dropout_p=rate)
        return self.out(y.transpose(1, 2).reshape(b, t, d)), kept


def dropped_attention(q: Tensor, k: Tensor, v: Tensor, sight: Sight, rate: float) -> Tensor:
    """softmax(q k' / sqrt(d_head)) v with dropout on the weights, each (B, heads, T, d_head)."""
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)  # (B, heads, T, S)
    mask = sight.mask
    if sight.causal:
        mask = scores.new_full(scores.shape[-2:], -math.inf).triu_(1)
    if mask is not None:
        scores = scores.masked_fill_(~mask, -math.inf) if mask.dtype == torch.bool else scores.add_(mask)
    return dropout(torch.softmax(scores, -1), rate) @ v


def _append(cache: Tensor, new: Tensor, sight: Sight) -> Tensor:
    """Write (B, heads, T, d_head) behind what each row has; in place, or in twice the room when it is full."""
    if sight.end > cache.shape[2]:
        wider = cache.new_zeros(*cache.shape[:2], max(sight.end, 2 * cache.shape[2]), cache.shape[3])  # zeros: 0 x NaN is NaN
        wider[:, :, : cache.shape[2]] = cache
        cache = wider
    if sight.first is not None:
        cache[:, :, sight.first : sight.end] = new
    else:
        rows = torch.arange(len(cache), device=cache.device)[:, None]
        cache[rows, :, sight.positions] = new.transpose(1, 2)
    return cache
