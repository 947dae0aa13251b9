"""The Transformer's block, for encoders and decoders, and GPT made of it: `nn.transformer` without torch.

The tokens of all sequences of a call are concatenated, x (N, D), and blocks change x in place. `Tokens`
has the bounds of the sequences and the addresses of their keys and values (`runtime/attention`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from seqloom.kernels.maths import ACTIVATIONS, GATED, norm_rows
from seqloom.kernels.transformer import (
    Norm,
    Rotation,
    Tokens,
    cross_attention,
    perceptron,
    self_attention,
)
from seqloom.runtime.attention import Attention, Cache, Pages
from seqloom.runtime.outputs import take_output
from seqloom.runtime.position import alibi_biases, rotary_tables, sinusoids
from seqloom.runtime.weights import NONE, Linear, Weights
from seqloom.traces import Trace, within

NO_ROTATION = Rotation(
    np.empty((0, 0), np.float32), np.empty((0, 0), np.float32), np.empty(0, np.int64)
)
NO_WEIGHTS = np.empty((0, 0, 0), np.float32)
_NO_DISTANCES = np.empty((0, 0), np.float32)


def take_norm(
    weights: Weights,
    name: str,
    width: int,
    *,
    kind: str = "layer",
    epsilon: float = 1e-5,
    bias: bool = True,
) -> Norm:
    """Take a norm as `nn.transformer.make_norm` makes it."""
    scale = weights.take(f"{name}.weight", width)
    if kind == "rms":
        return Norm(scale, NONE, np.float32(epsilon))
    return Norm(
        scale,
        weights.take(f"{name}.bias", width) if bias else np.zeros(width, np.float32),
        np.float32(epsilon),
    )


def normed(x: np.ndarray, norm: Norm | None) -> np.ndarray:
    """Normalise the rows of x in place, if there is a norm; return it."""
    if norm is not None:
        norm_rows(x, *norm)
    return x


@dataclass(frozen=True)
class BlockOptions:
    """Options that all blocks of a network share."""

    d_model: int
    d_mlp: int
    norm: Literal["pre", "post"] = "pre"
    norm_kind: Literal["layer", "rms"] = "layer"
    norm_epsilon: float = 1e-5
    activation: str = "gelu"
    bias: bool = True

    def take_norm(self, weights: Weights, name: str) -> Norm:
        """Take a norm of the width of the network."""
        return take_norm(
            weights,
            name,
            self.d_model,
            kind=self.norm_kind,
            epsilon=self.norm_epsilon,
            bias=self.bias,
        )


class MLP:
    """`nn.transformer.MLP`, or `SwiGLU` where the activation has gates."""

    def __init__(self, weights: Weights, options: BlockOptions) -> None:
        o = options
        self.activation = ACTIVATIONS.index(o.activation)
        self.up: Linear = weights.linear(
            "up", o.d_mlp * (2 if self.activation >= GATED else 1), o.d_model, bias=o.bias
        )
        self.down: Linear = weights.linear("down", o.d_model, o.d_mlp, bias=o.bias)


class Block:
    """Self-attention, with `cross` also attention to a memory, and a perceptron."""

    def __init__(
        self,
        weights: Weights,
        options: BlockOptions,
        attention: Attention,
        cross: Attention | None = None,
    ) -> None:
        self.pre = options.norm == "pre"
        self.attention, self.cross = attention, cross
        self.norm1 = options.take_norm(weights, "norm1")
        self.norm2 = options.take_norm(weights, "norm2")
        self.norm_cross = None if cross is None else options.take_norm(weights, "norm_cross")
        self.mlp = MLP(weights.within("mlp"), options)

    @cached_property
    def query(self) -> Linear:
        """Return the layer of the queries to a memory."""
        assert self.cross is not None
        return self.cross.query

    def __call__(
        self,
        x: np.ndarray,
        layer: int,
        tokens: Tokens,
        *,
        causal: bool,
        rotation: Rotation = NO_ROTATION,
        by_distance: np.ndarray = _NO_DISTANCES,
        memory: Tokens | None = None,
        attention_weights: np.ndarray = NO_WEIGHTS,
        trace: Trace | None = None,
    ) -> None:
        """Update x (N, D) in place; with a `memory`, write its attention weights (N, heads, S) to
        `attention_weights`.
        """
        attention = self.attention
        by_distance = (
            by_distance if len(by_distance) else np.empty((attention.heads.n_heads, 0), np.float32)
        )
        weights = NO_WEIGHTS
        if trace is not None and trace.wants("attention.weights"):
            weights = np.empty(
                (len(x), attention.heads.n_heads, int(tokens.lengths.max(initial=0))), np.float32
            )
        self_attention(
            x,
            self.pre,
            self.norm1,
            attention.qkv.packed,
            attention.out.packed,
            attention.heads,
            layer,
            tokens,
            causal,
            rotation,
            by_distance,
            attention.relative,
            weights,
        )
        if self.cross is not None and memory is not None:
            cross_attention(
                x,
                self.pre,
                self.norm_cross,
                self.query.packed,
                self.cross.out.packed,
                self.cross.heads,
                layer,
                memory,
                np.empty((self.cross.heads.n_heads, 0), np.float32),
                attention_weights,
            )
        perceptron(
            x, self.pre, self.norm2, self.mlp.up.packed, self.mlp.down.packed, self.mlp.activation
        )
        if trace is not None:
            trace.add("attention.weights", weights)
            if memory is not None:
                trace.add("cross.weights", attention_weights.copy())
            trace.add("out", x.copy())


class GPTNet:
    """`nn.transformer.GPTNet` on saved weights: tokens to the vectors that predict what follows each."""

    def __init__(
        self,
        weights: Weights,
        vocab_size: int,
        context: int,
        d_model: int,
        n_layers: int,
        n_heads: int,
        *,
        n_kv_heads: int | None = None,
        d_mlp: int | None = None,
        positions: str = "learned",
        rope_base: float = 10000.0,
        rope_scale: float = 1.0,
        max_distance: int = 64,
        window: int | None = None,
        norm: Literal["pre", "post"] = "pre",
        norm_kind: Literal["layer", "rms"] = "layer",
        norm_epsilon: float = 1e-5,
        activation: str = "gelu",
        bias: bool = True,
        softmax: str = "full",
        tied: bool = True,
    ) -> None:
        if positions not in ("learned", "sinusoidal", "rope", "alibi", "relative", "none"):
            raise ValueError(
                f"positions are {positions!r}; they must be learned, sinusoidal, rope, "
                "alibi, relative or none"
            )
        self.context, self.d_model, self.n_layers = context, d_model, n_layers
        self.positions, self.rope = positions, (rope_base, rope_scale)
        self.embedding = weights.table("embedding.weight", vocab_size, d_model)
        self.position = (
            weights.take("position.weight", context, d_model) if positions == "learned" else None
        )
        options = BlockOptions(
            d_model, d_mlp or 4 * d_model, norm, norm_kind, norm_epsilon, activation, bias
        )
        self.blocks = []
        for i in range(n_layers):
            part = weights.within(f"blocks.{i}")
            attention = Attention(
                part.within("attention"),
                d_model,
                n_heads,
                n_kv_heads=n_kv_heads,
                bias=bias,
                window=window,
                distances=max_distance + 1 if positions == "relative" else 0,
            )
            self.blocks.append(Block(part, options, attention))
        self.norm = options.take_norm(weights, "norm") if norm == "pre" else None
        tied = tied and softmax != "adaptive"
        self.output = take_output(
            weights.within("output"),
            softmax,
            d_model,
            vocab_size,
            bias=False,
            tied=self.embedding if tied else None,
        )
        heads = self.blocks[0].attention.heads
        self.n_heads, self.d_head = n_heads, heads.d_head
        self.pages = Pages(n_layers, heads.d_keys)

    @cached_property
    def by_distance(self) -> np.ndarray:
        """Return the biases of attention scores by distance, (heads, 2 F - 1), or (heads, 0)."""
        if self.positions == "alibi":
            return alibi_biases(self.n_heads, self.context)
        return np.empty((self.n_heads, 0), np.float32)

    @cached_property
    def sinusoids(self) -> np.ndarray:
        return sinusoids(np.arange(self.context), self.d_model)

    def features(
        self, ids: np.ndarray, cache: Cache, counts: np.ndarray, trace: Trace | None = None
    ) -> np.ndarray:
        """Return the vectors (N, D) that predict the token after each of ids (N,), the last counts[r]
        tokens of each row of a cache that has slots for them.
        """
        ends = np.cumsum(counts)
        starts = ends - counts
        positions = np.arange(len(ids)) - np.repeat(starts - (cache.lengths - counts), counts)
        x = self.embed(ids, positions)
        tokens, rotation = Tokens(cache.addresses, starts, counts, cache.lengths), NO_ROTATION
        if self.positions == "rope":
            rotation = Rotation(*rotary_tables(self.context, self.d_head, *self.rope), positions)
        for layer, block in enumerate(self.blocks):
            block(
                x,
                layer,
                tokens,
                causal=True,
                rotation=rotation,
                by_distance=self.by_distance,
                trace=within(trace, f"blocks.{layer}"),
            )
        return normed(x, self.norm)

    def embed(self, ids: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Return the vectors of tokens at these positions, (N, D)."""
        x = np.asarray(self.embedding[ids], np.float32)
        if self.position is not None:
            return x + self.position[positions]
        if self.positions == "sinusoidal":
            return x * np.float32(math.sqrt(self.d_model)) + self.sinusoids[positions]
        return x if x.flags.owndata else x.copy()
