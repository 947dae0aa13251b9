"""Encoder-decoder Transformers (Vaswani et al. 2017 and after; `nn.encoder_decoder`) without torch,
for translating on a CPU.

The sources are read once, and their keys and values for each block of the decoder stay in one array;
those of target tokens are in pages, so that a search may reorder rows without copying them
(`runtime/attention`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from seqloom.errors import DataError
from seqloom.kernels.attention import store_tokens
from seqloom.kernels.transformer import Norm, Tokens
from seqloom.runtime.attention import Attention, Cache, Pages, Scratch
from seqloom.runtime.declarations import Examples
from seqloom.runtime.encoders import read_all
from seqloom.runtime.outputs import FullSoftmax
from seqloom.runtime.position import bucket_biases, positions_in, sinusoids
from seqloom.runtime.readers import read_sources
from seqloom.runtime.transformer import Block, BlockOptions, normed
from seqloom.runtime.weights import Linear, Weights
from seqloom.traces import Trace, within

INITIAL_POSITIONS = 64  # sinusoids computed at first; doubled whenever a target is longer


class DecoderState(NamedTuple):
    """State after some target tokens; its rows are what a search reorders."""

    source: np.ndarray  # (n,) int64: which of the sources a row belongs to
    cache: Cache
    # (n, S): weights of the source steps behind the last log-probabilities
    attention_weights: np.ndarray


class Memory(NamedTuple):
    """Keys and values of the sources for each block of the decoder."""

    scratch: Scratch
    longest: int


class InputEmbedding:
    """Applied to the token vectors of source or target before the first block: scale, positions, norm."""

    def __init__(
        self,
        weights: Weights,
        options: BlockOptions,
        n_heads: int,
        *,
        positions: str,
        context: int,
        buckets: int,
        max_distance: int,
        scale: float,
        norm: bool,
        causal: bool,
    ) -> None:
        self.positions, self.scale, self.context = positions, np.float32(scale), context
        d_model = options.d_model
        self.position = (
            weights.take("position.weight", context, d_model) if positions == "learned" else None
        )
        self.bias = weights.take("bias.weight", buckets, n_heads) if positions == "t5" else None
        self.max_distance, self.causal = max_distance, causal
        self.norm: Norm | None = options.take_norm(weights, "norm") if norm else None
        self.room = np.empty((0, d_model), np.float32)  # sinusoids of the first positions

    @cached_property
    def by_distance(self) -> np.ndarray:
        """Return the biases added to the attention scores by distance."""
        if self.bias is None:
            return np.empty((0, 0), np.float32)
        return bucket_biases(self.bias, self.max_distance, causal=self.causal)

    def __call__(self, x: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Return x (N, D) at these positions, a new array."""
        x = x * self.scale
        if self.position is not None:
            if int(positions.max(initial=0)) >= self.context:
                raise DataError(
                    f"a target is longer than the {self.context:,} positions of this model"
                )
            x += self.position[positions]
        elif self.positions == "sinusoidal":
            longest = int(positions.max(initial=0))
            room = self.room  # another thread may replace it meanwhile, even by a shorter one
            if longest >= len(room):
                self.room = room = sinusoids(
                    np.arange(max(2 * longest, INITIAL_POSITIONS)), x.shape[1]
                )
            x += room[positions]
        return normed(x, self.norm)


class EncoderDecoder:
    """`nn.encoder_decoder.EncoderDecoder` on saved weights; `reader` None: sources and targets share
    the token vectors.
    """

    def __init__(
        self,
        weights: Weights,
        reader: Any,
        vocab_size: int,
        d_model: int,
        n_heads: int,
        *,
        n_layers: int = 3,
        n_decoder_layers: int = 3,
        d_head: int | None = None,
        d_mlp: int | None = None,
        positions: str = "sinusoidal",
        context: int = 1024,
        buckets: int = 32,
        max_distance: int = 128,
        norm: Literal["pre", "post"] = "pre",
        norm_kind: Literal["layer", "rms"] = "layer",
        norm_epsilon: float = 1e-5,
        embedding_norm: bool = False,
        activation: str = "relu",
        bias: bool = True,
        tied: bool = True,
        scaled_attention: bool = True,
        scaled_embedding: bool = True,
        scaled_output: bool = False,
        never: Sequence[int] = (),
    ) -> None:
        self.reader, self.vocab_size = reader, vocab_size
        self.embedding = weights.table("embedding.weight", vocab_size, d_model)
        d_source = d_model if reader is None else reader.d_out
        self.input: Linear | None = None
        if d_source != d_model:
            self.input = weights.with_16_bit_inputs().linear("input", d_model, d_source)
        self.output_scale = np.float32(d_model**-0.5 if scaled_output else 1.0)
        options = BlockOptions(
            d_model, d_mlp or 4 * d_model, norm, norm_kind, norm_epsilon, activation, bias
        )

        def embed(name: str, causal: bool) -> InputEmbedding:
            return InputEmbedding(
                weights.within(name),
                options,
                n_heads,
                positions=positions,
                context=context,
                buckets=buckets,
                max_distance=max_distance,
                norm=embedding_norm,
                causal=causal,
                scale=math.sqrt(d_model) if scaled_embedding else 1.0,
            )

        def block(part: Weights, cross: bool) -> Block:
            attentions = [
                Attention(
                    part.within(name),
                    d_model,
                    n_heads,
                    d_head=d_head,
                    scaled=scaled_attention,
                    bias=bias,
                )
                for name in (["attention", "cross"] if cross else ["attention"])
            ]
            return Block(part, options, *attentions)

        self.encoder_entrance = embed("encoder_entrance", False)
        self.decoder_entrance = embed("decoder_entrance", True)
        reading = weights.with_16_bit_inputs()
        self.encoder = [block(reading.within(f"encoder.{i}"), False) for i in range(n_layers)]
        self.decoder = [
            block(weights.within(f"decoder.{i}"), True) for i in range(n_decoder_layers)
        ]
        self.encoder_norm = options.take_norm(weights, "encoder_norm") if norm == "pre" else None
        self.decoder_norm = options.take_norm(weights, "decoder_norm") if norm == "pre" else None
        self.output = FullSoftmax(
            weights.within("output"),
            d_model,
            vocab_size,
            tied=self.embedding if tied else None,
            bias=bias,
            never=never,
        )
        self.heads = self.decoder[0].attention.heads
        self.pages = Pages(n_decoder_layers, self.heads.d_keys)

    @cached_property
    def projections(self) -> list[Linear]:
        """Return the layers of the memory's keys and values, one for each block of the decoder."""
        return [block.cross.memory for block in self.decoder if block.cross is not None]

    # ---- reading

    def encode(self, examples: Examples, trace: Trace | None = None) -> Memory:
        """Read sources, a row of steps each."""
        offsets = np.ascontiguousarray(examples.offsets, np.int64)
        x = read_sources(self.reader, self.embedding, examples)
        x = x if self.input is None else self.input(x)
        x = self.encoder_entrance(x, positions_in(offsets))
        read_all(
            self.encoder,
            x,
            offsets,
            by_distance=self.encoder_entrance.by_distance,
            name="encoder",
            trace=trace,
        )
        normed(x, self.encoder_norm)
        scratch = Scratch(offsets, self.heads.d_keys, len(self.decoder))
        for layer, project in enumerate(self.projections):
            store_tokens(project(x), 0, self.heads.d_keys, layer, *scratch.tokens)
        return Memory(scratch, int(np.diff(offsets).max(initial=0)))

    # ---- writing

    def start(self, memory: Memory, n: int) -> DecoderState:
        """Return the states of the first n sources before their first token."""
        return DecoderState(
            np.arange(n), self.pages.start(n), np.zeros((n, memory.longest), np.float32)
        )

    def step(
        self, memory: Memory, state: DecoderState, ids: np.ndarray, trace: Trace | None = None
    ) -> tuple[np.ndarray, DecoderState]:
        """Return the features of each row's next token, (n, D), and the state after the tokens ids (n,)."""
        n, heads, sources = len(ids), self.heads.n_heads, memory.scratch.tokens
        x = self.decoder_entrance(np.asarray(self.embedding[ids], np.float32), state.cache.lengths)
        cache = self.pages.extend(state.cache, np.asarray(ids, np.int64).reshape(n, 1))
        starts, ones = np.arange(n), np.ones(n, np.int64)
        tokens = Tokens(cache.addresses, starts, ones, cache.lengths)
        over = Tokens(sources.pages[state.source], starts, ones, sources.lengths[state.source])
        attention_weights = np.zeros((n, memory.longest), np.float32)
        weights = np.zeros((n, heads, memory.longest), np.float32)
        for layer, block in enumerate(self.decoder):
            block(
                x,
                layer,
                tokens,
                causal=True,
                by_distance=self.decoder_entrance.by_distance,
                memory=over,
                attention_weights=weights,
                trace=within(trace, f"decoder.{layer}"),
            )
            attention_weights += weights.mean(axis=1)
        x = normed(x, self.decoder_norm)
        attention_weights /= np.float32(len(self.decoder))
        return x * self.output_scale, DecoderState(state.source, cache, attention_weights)
