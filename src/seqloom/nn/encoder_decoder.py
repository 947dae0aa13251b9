"""The Transformer of Vaswani et al. 2017: an encoder in which all steps see each other, and a causal
decoder that also attends to the encoder's output.

Both are stacks of `nn.transformer.Block`; this module adds token vectors, positions, masks, and
decoding with a cache. `norm="pre"` normalises before each part and once more at the end of either
stack; `norm="post"` is the paper's order. The keys and values of the memory are computed once for
each source. Weights are those of torch.nn.Transformer, with which a test compares it.

Later models differ in a few options: BART (Lewis et al. 2020) has learned positions and a norm of
the vectors; T5 (Raffel et al. 2020) has biases by distance that are added to the scores, RMSNorm,
neither biases nor scaling, heads of any width, and in version 1.1 gates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from seqloom.nn.attention import (
    UNMASKED,
    Attention,
    KeysValues,
    Mask,
    TokenPositions,
    make_mask,
    padding_mask,
    seen_keys,
    tiled,
)
from seqloom.nn.encoders import cleared, present
from seqloom.nn.initialisation import xavier
from seqloom.nn.layers import MakeLinear, dropout, own_weights
from seqloom.nn.outputs import FullSoftmax
from seqloom.nn.position import distance_buckets, sinusoids
from seqloom.nn.readers import Arrays
from seqloom.nn.recomputing import run_layer
from seqloom.nn.recording import holds, recorded
from seqloom.nn.transformer import (
    ACTIVATIONS,
    GATES,
    MLP,
    Activation,
    Block,
    Norm,
    NormKind,
    SwiGLU,
    causal_positions,
    make_norm,
)
from seqloom.traces import Trace, within

Positions = Literal["sinusoidal", "learned", "t5"]


class Memory(NamedTuple):
    """Keys and values of the sources for each block of the decoder, and which steps are not padding."""

    layers: tuple[KeysValues, ...]  # each (B, heads, S, d_head)
    present: Tensor | None  # bool (B, S); None: all

    def rows(self, chosen: Tensor) -> Memory:
        """Return the memory of these sources, in this order."""
        return Memory(
            tuple((k[chosen], v[chosen]) for k, v in self.layers),
            None if self.present is None else self.present[chosen],
        )

    @property
    def mask(self) -> Mask:
        return UNMASKED if self.present is None else padding_mask(self.present)


class DecoderState(NamedTuple):
    """The keys and values of the target tokens read so far."""

    lengths: Tensor  # (B,) int64
    layers: tuple[KeysValues, ...]


class DistanceBias(nn.Module):
    """A learned number for each head and bucket of distances, which all layers add to their scores."""

    def __init__(self, n_heads: int, buckets: int, max_distance: int, *, causal: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(buckets, n_heads))
        self.max_distance = max_distance
        self.bucket = partial(
            distance_buckets, buckets=buckets, max_distance=max_distance, causal=causal
        )

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return the bias for positions (B or 1, T) of queries and (S,) of keys, each one after the
        other, as (B or 1, heads, T, S).
        """
        if recorded():
            # all pairs from a table that is computed now: the logarithm of another program may round
            # otherwise, and a window of variable size cannot be recorded
            far = self.max_distance
            known = torch.tensor(self.bucket(torch.arange(-far, far + 1)).tolist())
            rows = known[(keys - queries[:, :, None]).clamp(-far, far) + far]
            return self.weight[rows].permute(0, 3, 1, 2)
        distances = torch.arange(queries.shape[1] + len(keys) - 1, device=keys.device)
        distances = distances + (keys[0] - queries[:, -1:])  # from the last query's first one on
        by_distance = self.weight[self.bucket(distances)].transpose(1, 2)
        return by_distance.unfold(2, len(keys), 1).flip(2)


class InputEmbedding(nn.Module):
    """The layer before the first block of one side: scales token vectors, adds positions, normalises."""

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        positions: Positions,
        context: int,
        buckets: int,
        max_distance: int,
        scale: float,
        norm: nn.Module | None,
        dropout: float,
        causal: bool,
    ) -> None:
        super().__init__()
        self.positions, self.scale, self.dropout = positions, scale, dropout
        self.position = nn.Embedding(context, d_model) if positions == "learned" else None
        self.bias = (
            DistanceBias(n_heads, buckets, max_distance, causal=causal)
            if positions == "t5"
            else None
        )
        self.norm = norm

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """Add the positions (B or 1, T) to x (B, T, D)."""
        x = x if self.scale == 1.0 else x * self.scale
        if self.position is not None:
            x = x + self.position(positions)
        elif self.positions == "sinusoidal":
            x = x + sinusoids(positions, x.shape[-1]).to(x.dtype)
        x = x if self.norm is None else self.norm(x)
        return dropout(x, self.dropout, self.training)


class EncoderDecoder(nn.Module):
    """`reader` None: sources have the targets' vocabulary and vectors. `tied`: the output layer has
    the targets' vectors.

    `scaled_embedding` multiplies token vectors by the root of the width, `scaled_output` divides the
    input of the output layer by it, `scaled_attention` divides scores by the root of a head's width.
    `never`: tokens that get probability zero.
    """

    def __init__(
        self,
        reader: nn.Module | None,
        d_source: int,
        vocab_size: int,
        d_model: int,
        n_heads: int,
        *,
        n_layers: int = 3,
        n_decoder_layers: int = 3,
        d_head: int | None = None,
        d_mlp: int | None = None,
        positions: Positions = "sinusoidal",
        context: int = 1024,
        buckets: int = 32,
        max_distance: int = 128,
        norm: Norm = "pre",
        norm_kind: NormKind = "layer",
        norm_epsilon: float = 1e-5,
        embedding_norm: bool = False,
        activation: Activation | Literal["swiglu", "geglu"] = "relu",
        bias: bool = True,
        tied: bool = True,
        scaled_attention: bool = True,
        scaled_embedding: bool = True,
        scaled_output: bool = False,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        label_smoothing: float = 0.0,
        never: Sequence[int] = (),
        linear: MakeLinear = nn.Linear,
    ) -> None:
        super().__init__()
        if d_model % 2 and positions == "sinusoidal":
            raise ValueError(f"sinusoidal positions need an even width, not {d_model}")
        self.d_model, self.n_heads, self.d_head = d_model, n_heads, d_head or d_model // n_heads
        self.output_scale, self.checkpoint = d_model**-0.5 if scaled_output else 1.0, False
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.reader = reader
        other_width = reader is not None and d_source != d_model
        self.input = linear(d_source, d_model, bias=True) if other_width else None
        new_norm = partial(make_norm, norm_kind, epsilon=norm_epsilon, bias=bias)
        inner = d_mlp or 4 * d_model

        def entrance(causal: bool) -> InputEmbedding:
            return InputEmbedding(
                d_model,
                n_heads,
                positions=positions,
                context=context,
                buckets=buckets,
                max_distance=max_distance,
                scale=math.sqrt(d_model) if scaled_embedding else 1.0,
                dropout=dropout,
                causal=causal,
                norm=new_norm(d_model) if embedding_norm else None,
            )

        def block(cross: bool) -> Block:
            attention = [
                Attention(
                    d_model,
                    n_heads,
                    d_head=d_head,
                    scaled=scaled_attention,
                    dropout=attention_dropout,
                    bias=bias,
                    linear=linear,
                )
                for _ in range(1 + cross)
            ]
            function = ACTIVATIONS[GATES.get(activation, activation)]
            make_mlp = SwiGLU if activation in GATES else MLP
            mlp = make_mlp(d_model, inner, activation=function, bias=bias, linear=linear)
            return Block(
                d_model,
                attention[0],
                mlp,
                cross=attention[1] if cross else None,
                norm=norm,
                make_norm=new_norm,
                dropout=dropout,
            )

        self.encoder_entrance, self.decoder_entrance = entrance(False), entrance(True)
        self.encoder = nn.ModuleList(block(False) for _ in range(n_layers))
        self.encoder_norm = new_norm(d_model) if norm == "pre" else None
        self.decoder = nn.ModuleList(block(True) for _ in range(n_decoder_layers))
        self.decoder_norm = new_norm(d_model) if norm == "pre" else None
        self.output = FullSoftmax(
            d_model,
            vocab_size,
            tied=self.embedding if tied else None,
            bias=bias,
            label_smoothing=label_smoothing,
            never=never,
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise by Xavier, separately for each of the matrices stored in one (qkv); vectors are
        small, since they are scaled up.
        """
        for name, weight in own_weights(self):
            if name.endswith("entrance.position.weight"):
                nn.init.normal_(weight, std=self.d_model**-0.5)
            elif (
                weight.ndim == 2
                and not name.startswith(("reader.", "embedding.", "output."))
                and "entrance." not in name
            ):
                xavier(weight, 3 if name.endswith("qkv.weight") else 1)
            elif name.endswith(".bias"):
                nn.init.zeros_(weight)
        nn.init.normal_(self.embedding.weight, std=self.d_model**-0.5)

    # ---- reading

    def encode(self, batch: Arrays, trace: Trace | None = None) -> Memory:
        """Encode sources given as `ids` (B, S) or `values` (B, S, C), with their `lengths` (B,).

        A trace gets what the blocks add, as `encoder.0...`.
        """
        x = self.embedding(batch["ids"]) if self.reader is None else self.reader(batch)
        x = x if self.input is None else self.input(x)
        keep = present(x, batch["lengths"])
        assert keep is not None
        keep = None if holds(keep) else keep
        positions = torch.arange(x.shape[1], device=x.device)
        x = self.encoder_entrance(x, positions[None])
        mask = UNMASKED if keep is None else padding_mask(keep)
        if (bias := self.encoder_entrance.bias) is not None:
            seen = keep if keep is not None else positions[None] >= 0
            mask = tiled(
                lambda rows: make_mask(
                    seen[:, None, None, :], bias(positions[None, rows], positions)
                ),
                (len(x), self.n_heads, x.shape[1], x.shape[1]),
            )
        for i, block in enumerate(self.encoder):
            x, _ = run_layer(self, block, x, mask, trace=within(trace, f"encoder.{i}"))
        x = cleared(x if self.encoder_norm is None else self.encoder_norm(x), batch["lengths"])
        return Memory(tuple(cross_of(block).project(x) for block in self.decoder), keep)

    # ---- writing

    def features(self, memory: Memory, inputs: Tensor, trace: Trace | None = None) -> Tensor:
        """Return the features for the output layer after each of the tokens `inputs` (B, T) of a given
        target, (B, T, D).

        A trace gets what the blocks add, as `decoder.0...`.
        """
        positions = torch.arange(inputs.shape[1], device=inputs.device)[None]
        x = self.decoder_entrance(self.embedding(inputs), positions)
        (mask, _), memory_mask = self._causal(positions), memory.mask
        for i, (block, keys_values) in enumerate(zip(self.decoder, memory.layers)):
            x, _ = run_layer(
                self,
                block,
                x,
                mask,
                None,
                None,
                keys_values,
                memory_mask,
                trace=within(trace, f"decoder.{i}"),
            )
        return self._finished(x)

    def _causal(
        self, positions: Tensor, before: list[int] | None = None
    ) -> tuple[Mask, TokenPositions]:
        mask, token_positions = causal_positions(positions, before)
        bias = self.decoder_entrance.bias
        if bias is not None:
            keys = torch.arange(token_positions.end, device=positions.device)
            mask = tiled(
                lambda rows: make_mask(
                    seen_keys(positions[:, rows], keys, causal=True), bias(positions[:, rows], keys)
                ),
                (len(positions), self.n_heads, positions.shape[1], len(keys)),
            )
        return mask, token_positions

    def _finished(self, x: Tensor) -> Tensor:
        x = x if self.decoder_norm is None else self.decoder_norm(x)
        return x if self.output_scale == 1.0 else x * self.output_scale

    def start(self, memory: Memory) -> DecoderState:
        """Return the state before the first token."""
        k = memory.layers[0][0]
        empty = k.new_empty(len(k), self.n_heads, 0, self.d_head)
        return DecoderState(
            k.new_zeros(len(k), dtype=torch.int64), tuple((empty, empty) for _ in self.decoder)
        )

    def step(
        self, memory: Memory, state: DecoderState, ids: Tensor, trace: Trace | None = None
    ) -> tuple[Tensor, DecoderState]:
        """Read one more token of each row (B,); return the features for the next one (B, D), and the
        state; the old one must not be used again. `trace` is as in `features`, with T = 1.
        """
        positions = state.lengths.unsqueeze(1)
        mask, token_positions = self._causal(positions, state.lengths.tolist())
        x = self.decoder_entrance(self.embedding(ids).unsqueeze(1), positions)
        memory_mask, layers = memory.mask, []
        for i, (block, cache, keys_values) in enumerate(
            zip(self.decoder, state.layers, memory.layers)
        ):
            x, grown = block(
                x,
                mask,
                token_positions,
                cache,
                keys_values,
                memory_mask,
                within(trace, f"decoder.{i}"),
            )
            layers.append(grown)
        return self._finished(x)[:, 0], DecoderState(state.lengths + 1, tuple(layers))


def cross_of(block: nn.Module) -> Attention:
    assert isinstance(block, Block)
    assert block.cross is not None
    return block.cross
