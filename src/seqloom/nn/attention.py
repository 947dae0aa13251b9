"""Multi-head attention (Vaswani et al. 2017, section 3.2): to a sequence itself or to a memory,
under any mask.

The products and the softmax are torch's fused kernel, which has no dropout on a CPU (torch then runs
separate operations and draws slowly); there they are written out. Around it are masks that are made
once for all layers, a memory whose keys and values are projected once, and a key-value cache that is
a value. Rows of a batch may have read different numbers of tokens; their keys and values are leaves
of the state, padded on the right, beside a `lengths` leaf. A cache has room to grow, so a step
writes its one column and copies nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seqloom.nn.layers import MakeLinear, dropout, linear_rows
from seqloom.nn.position import relative_rows, relative_scores, rotate
from seqloom.nn.recording import holds
from seqloom.traces import Trace

KeysValues = tuple[Tensor, Tensor]  # each (B, heads, S, d_head)
# numbers of a mask that are held at once; 64 MB, so much that malloc gives it back when it is free
MOST_SCORES = 1 << 24


class Past(NamedTuple):
    """The state of a Transformer: the number of tokens of each row, and their keys and values by layer."""

    lengths: Tensor  # (B,) int64; columns beyond are padding
    layers: tuple[KeysValues, ...]


class Mask(NamedTuple):
    """Which keys each query may see. Every query sees at least one, except `blind` ones, whose
    weighted sum is zero.
    """

    # (B or 1, heads or 1, T or 1, S): True where a key is seen, or numbers added to the scores
    scores: Tensor | None = None
    causal: bool = False  # query t sees keys 0 to t; the kernel then skips hidden keys
    # with `causal`: the greatest distance of a key; time and memory are then linear
    window: int | None = None
    # bool (B or 1, heads or 1, T or 1, 1): queries with no visible key
    blind: Tensor | None = None
    tiles: tuple[Callable[[slice], Mask], int] | None = None  # as `tiled` has made them

    def added_to(self, scores: Tensor) -> Tensor:
        """Return scores (B, heads, T, S), -inf where a key is not seen; they are changed in place."""
        if self.causal:
            seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril_()
            return scores.masked_fill_(
                ~(seen if self.window is None else seen.triu_(-self.window)), -math.inf
            )
        if self.scores is None:
            return scores
        return (
            scores.masked_fill_(~self.scores, -math.inf)
            if self.scores.dtype == torch.bool
            else scores.add_(self.scores)
        )

    def with_bias(self, bias: Tensor) -> Mask:
        """Return the mask with numbers (B, heads, T, S) added to the scores; their memory is reused."""
        return Mask(self.added_to(bias), blind=self.blind)


UNMASKED = Mask()


class TokenPositions(NamedTuple):
    """Positions of the tokens of one call in their sequences and in the caches."""

    positions: Tensor  # (B or 1, T)
    first: int | None  # their first column in the caches, if it is the same for all rows
    end: int  # columns from here on are unused in all rows
    rotation: tuple[Tensor, Tensor] | None = None  # of rotary positions, (B or 1, 1, T, d_head / 2)
    distance: Tensor | None = None  # query minus key, of relative positions, (B or 1, T, S)


def make_mask(seen: Tensor, bias: Tensor | None = None) -> Mask:
    """Make a mask. `seen` is True where a query sees a key, `bias` is added to the scores; both have
    the shape of `Mask.scores`.
    """
    blind = ~seen.any(-1, keepdim=True)
    any_blind = not holds(~blind)
    if any_blind:
        seen = seen | blind  # a softmax over nothing is NaN, in the gradient too
    return Mask(
        seen if bias is None else bias if holds(seen) else bias.masked_fill(~seen, -math.inf),
        blind=blind if any_blind else None,
    )


def tiled(make: Callable[[slice], Mask], shape: Sequence[int]) -> Mask:
    """Return the mask that `make` makes of some of the queries: of all of them, or, if its numbers
    (B, heads, T, S) are too many to be held at once, tile by tile whenever it is applied.
    """
    queries = shape[2]
    height = max(MOST_SCORES * queries // max(math.prod(shape), 1), 1)
    return make(slice(None)) if height >= queries else Mask(tiles=(make, height))


def by_tile(q: Tensor, mask: Mask, compute: Callable[[Tensor, Mask], Tensor]) -> Tensor:
    """Return what `compute` makes of the queries (B, heads, T, d_head) and their mask, (B, heads, T, ...),
    a tile of the mask after the other.
    """
    if mask.tiles is None:
        return compute(q, mask)
    make, height = mask.tiles
    rows = (slice(low, low + height) for low in range(0, q.shape[2], height))
    return torch.cat([compute(q[:, :, some], make(some)) for some in rows], 2)


def seen_keys(
    queries: Tensor, keys: Tensor, *, causal: bool = False, window: int | None = None
) -> Tensor:
    """Return which keys at positions (S,) queries at positions (B or 1, T) see, for `make_mask`:
    (B or 1, 1, T, S).

    `causal`: no key after the query; `window`: none further away than that.
    """
    queries = queries[:, None, :, None]
    seen = keys <= queries if causal else torch.ones_like(keys == queries)
    if window is not None:
        seen = seen & (keys >= queries - window) & (keys <= queries + window)
    return seen


def padding_mask(keep: Tensor) -> Mask:
    """Make the mask of padded keys; `keep` (B, S) is True where there is a key."""
    return make_mask(keep[:, None, None, :])


class Attention(nn.Module):
    """With fewer `n_kv_heads` than heads, neighbouring heads share keys and values (Shazeer 2019;
    Ainslie et al. 2023).

    `d_head` is d_model / n_heads unless given. Not `scaled`: scores are the products themselves, as
    in T5. `distances` (query minus key) have a learned vector each, which all heads add to their
    keys (Shaw et al. 2018); distances beyond the range share the vector of its end. The paper found
    no gain from vectors for the values as well.

    A trace gets the `weights` (B, heads, T, S), which are computed only for it.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        n_kv_heads: int | None = None,
        d_head: int | None = None,
        scaled: bool = True,
        dropout: float = 0.0,
        bias: bool = True,
        distances: range | None = None,
        linear: MakeLinear = nn.Linear,
    ) -> None:
        super().__init__()
        self.n_heads, self.n_kv_heads, self.dropout = n_heads, n_kv_heads or n_heads, dropout
        self.d_head = d_head or d_model // n_heads
        self.scale = self.d_head**-0.5 if scaled else 1.0
        if (d_head is None and d_model % n_heads) or n_heads % self.n_kv_heads:
            raise ValueError(
                f"width {d_model} does not divide into {n_heads} heads in {self.n_kv_heads} groups"
            )
        self.d_queries = n_heads * self.d_head
        self.qkv = linear(d_model, self.d_queries + 2 * self.d_head * self.n_kv_heads, bias=bias)
        self.out = linear(self.d_queries, d_model, bias=bias)
        self.distances = distances
        self.relative = None if distances is None else nn.Embedding(len(distances), self.d_head)

    def forward(
        self,
        x: Tensor,
        mask: Mask,
        token_positions: TokenPositions | None = None,
        cache: KeysValues | None = None,
        trace: Trace | None = None,
    ) -> tuple[Tensor, KeysValues]:
        """Apply self-attention to x (B, T, D); return the same shape, and the keys and values, those
        of x after those of the cache.

        Without `token_positions` nothing is rotated; a cache needs them.
        """
        # by the sizes of x: recorded, `unflatten` would fix them
        qkv = self.qkv(x).view(x.shape[0], x.shape[1], -1, self.d_head).transpose(1, 2)
        # each (B, heads, T, d_head)
        q, k, v = qkv.split((self.n_heads, self.n_kv_heads, self.n_kv_heads), 1)
        if token_positions is not None and token_positions.rotation is not None:
            q, k = rotate(q, *token_positions.rotation), rotate(k, *token_positions.rotation)
        keys_values = (k, v)
        if cache is not None:
            assert token_positions is not None, "where do these tokens go in the cache?"
            keys_values = (
                _append(cache[0], k, token_positions),
                _append(cache[1], v, token_positions),
            )
            k, v = (part[:, :, : token_positions.end] for part in keys_values)
        if self.relative is not None and self.distances is not None:
            assert token_positions is not None, "where do these tokens stand?"
            assert token_positions.distance is not None, "how far are they from each other?"
            added = relative_scores(
                q * self.scale,
                self.relative.weight,
                relative_rows(token_positions.distance, self.distances),
            )
            mask = mask.with_bias(added)
        return self._attend(q, k, v, mask, trace), keys_values

    def project(self, memory: Tensor) -> KeysValues:
        """Return the keys and values of a memory (B, S, D), for `cross`."""
        projected = linear_rows(self.qkv, memory, slice(self.d_queries, None))
        k, v = projected.unflatten(2, (2, self.n_kv_heads, self.d_head)).permute(2, 0, 3, 1, 4)
        return k, v

    def cross(
        self, x: Tensor, memory: KeysValues, mask: Mask, trace: Trace | None = None
    ) -> Tensor:
        """Attend to a memory with queries from x (B, T, D); the result has the shape of x."""
        q = linear_rows(self.qkv, x, slice(self.d_queries)).unflatten(
            2, (self.n_heads, self.d_head)
        )
        return self._attend(q.transpose(1, 2), *memory, mask, trace)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask, trace: Trace | None) -> Tensor:
        rate = self.dropout if self.training else 0.0

        def weighted(q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
            if rate and q.device.type == "cpu":
                return dropped_attention(q, k, v, mask, rate, self.scale)
            return F.scaled_dot_product_attention(
                q,
                k,
                v,
                attn_mask=mask.scores,
                is_causal=mask.causal,
                dropout_p=rate,
                scale=self.scale,
            )

        def attend(q: Tensor, mask: Mask) -> Tensor:
            if mask.window is not None:
                return near_attention(q, k, v, mask.window, weighted)
            y = weighted(q, k, v, mask)
            return y if mask.blind is None else y.masked_fill(mask.blind, 0.0)

        k, v = self._shared(k), self._shared(v)
        if trace is not None and trace.wants("weights"):
            weights = by_tile(q, mask, lambda q, mask: attention_weights(q, k, mask, self.scale))
            trace.add("weights", weights)
            y = dropout(weights, rate) @ v
        else:
            y = by_tile(q, mask, attend)
        return self.out(y.transpose(1, 2).flatten(2))  # (B, T, D)

    def _shared(self, x: Tensor) -> Tensor:
        """Return keys or values, one for each head."""
        return (
            x
            if self.n_kv_heads == self.n_heads
            else x.repeat_interleave(self.n_heads // self.n_kv_heads, 1)
        )


def attention_weights(q: Tensor, k: Tensor, mask: Mask, scale: float) -> Tensor:
    """Compute softmax(scale q k') of queries and keys, each (B, heads, T or S, d_head): (B, heads, T, S)."""
    weights = torch.softmax(mask.added_to((q * scale) @ k.transpose(-2, -1)), -1)
    return weights if mask.blind is None else weights.masked_fill(mask.blind, 0.0)


def dropped_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Mask, rate: float, scale: float | None = None
) -> Tensor:
    """Compute softmax(scale q k') v with dropout on the weights, each (B, heads, T or S, d_head);
    the scale is 1 / sqrt(d_head) unless given.
    """
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    return dropout(attention_weights(q, k, mask, scale), rate) @ v


def near_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    window: int,
    weighted: Callable[[Tensor, Tensor, Tensor, Mask], Tensor],
) -> Tensor:
    """Compute causal attention to no key further back than `window`, by `weighted`; each
    (B, heads, T, d_head).

    Blocks of `window` queries see their own block and the one before it, so no T x T matrix is ever
    formed.
    """
    b, heads, t, d = q.shape
    first = weighted(q[:, :, :window], k[:, :, :window], v[:, :, :window], Mask(causal=True))
    if t <= window:
        return first
    padded = F.pad(torch.stack((q, k, v)), (0, 0, 0, -t % window))
    # (3, B, blocks, heads, window, d)
    blocks = padded.view(3, b, heads, -1, window, d).transpose(2, 3)
    queries = blocks[0, :, 1:].flatten(0, 1)
    # (B blocks, heads, 2 window, d)
    keys, values = torch.cat((blocks[1:, :, :-1], blocks[1:, :, 1:]), 4).flatten(1, 2)
    columns = torch.arange(2 * window, device=q.device)
    seen = seen_keys(columns[None, window:], columns, causal=True, window=window)
    y = (
        weighted(queries, keys, values, Mask(seen))
        .view(b, -1, heads, window, d)
        .transpose(1, 2)
        .flatten(2, 3)
    )
    return torch.cat((first, y[:, :, : t - window]), 2)


def _append(cache: Tensor, new: Tensor, token_positions: TokenPositions) -> Tensor:
    """Append (B, heads, T, d_head) to each row of the cache; in place, or in one twice as long when it
    is full.
    """
    if token_positions.end > cache.shape[2]:
        # zeros, not uninitialised memory: 0 x NaN is NaN
        wider = cache.new_zeros(
            *cache.shape[:2], max(token_positions.end, 2 * cache.shape[2]), cache.shape[3]
        )
        wider[:, :, : cache.shape[2]] = cache
        cache = wider
    if token_positions.first is not None:
        cache[:, :, token_positions.first : token_positions.end] = new
    else:
        rows = torch.arange(len(cache), device=cache.device)[:, None]
        cache[rows, :, token_positions.positions] = new.transpose(1, 2)
    return cache
