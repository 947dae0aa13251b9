"""The Transformer of Vaswani et al. 2017: an encoder whose steps see each other, and a decoder that also looks at its output.

Both are `nn.transformer.Block`s; this adds what is around them: vectors scaled by the root of the width with sinusoidal
positions, the masks, and decoding with a cache. `norm="pre"` normalises before each part and once more at the end of either
stack; `norm="post"` is the paper's order. The keys and values of the memory are computed once for each source. Weights are
those of torch.nn.Transformer, with which a test compares it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from seqloom.nn.attention import UNMASKED, Attention, KeysValues, Mask, padding_mask
from seqloom.nn.dropout import dropout
from seqloom.nn.encoders import cleared, present
from seqloom.nn.initialisation import xavier
from seqloom.nn.outputs import FullSoftmax
from seqloom.nn.position import sinusoids
from seqloom.nn.readers import Arrays
from seqloom.nn.transformer import ACTIVATIONS, MLP, Activation, Block, Norm, causal_places


class Memory(NamedTuple):
    """Keys and values of the sources for each block of the decoder, and which steps are there."""

    layers: tuple[KeysValues, ...]  # each (B, heads, S, d_head)
    present: Tensor | None  # bool (B, S); None: all

    def rows(self, chosen: Tensor) -> Memory:
        """Of these sources, in this order."""
        return Memory(tuple((k[chosen], v[chosen]) for k, v in self.layers),
                      None if self.present is None else self.present[chosen])

    @property
    def mask(self) -> Mask:
        return UNMASKED if self.present is None else padding_mask(self.present)


class DecoderState(NamedTuple):
    """The keys and values of the target tokens that were read."""

    lengths: Tensor  # (B,) int64
    layers: tuple[KeysValues, ...]


class EncoderDecoder(nn.Module):
    """`reader` None: sources have the targets' vocabulary and vectors. `tied`: the output layer has the targets' vectors."""

    def __init__(self, reader: nn.Module | None, d_source: int, vocab_size: int, d_model: int, n_heads: int, *,
                 n_layers: int = 3, n_decoder_layers: int = 3, d_mlp: int | None = None, norm: Norm = "pre",
                 activation: Activation = "relu", tied: bool = True, dropout: float = 0.0, attention_dropout: float = 0.0,
                 label_smoothing: float = 0.0) -> None:
        super().__init__()
        if d_model % 2:
            raise ValueError(f"sinusoidal positions need an even width, not {d_model}")
        self.d_model, self.n_heads, self.dropout = d_model, n_heads, dropout
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.reader = reader
        self.input = nn.Linear(d_source, d_model) if reader is not None and d_source != d_model else None

        def block(cross: bool) -> Block:
            attention = [Attention(d_model, n_heads, dropout=attention_dropout) for _ in range(1 + cross)]
            return Block(d_model, attention[0], MLP(d_model, d_mlp or 4 * d_model, ACTIVATIONS[activation]),
                         cross=attention[1] if cross else None, norm=norm, dropout=dropout)

        self.encoder = nn.ModuleList(block(False) for _ in range(n_layers))
        self.encoder_norm = nn.LayerNorm(d_model) if norm == "pre" else None
        self.decoder = nn.ModuleList(block(True) for _ in range(n_decoder_layers))
        self.decoder_norm = nn.LayerNorm(d_model) if norm == "pre" else None
        self.output = FullSoftmax(d_model, vocab_size, tied=self.embedding if tied else None, label_smoothing=label_smoothing)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier's, each of the three matrices of an attention by itself; vectors small, since they are scaled up."""
        for name, weight in self.named_parameters():
            if weight.ndim == 2 and not name.startswith(("reader.", "embedding.", "output.")):
                xavier(weight, 3 if name.endswith("qkv.weight") else 1)
            elif name.endswith(".bias"):
                nn.init.zeros_(weight)
        nn.init.normal_(self.embedding.weight, std=self.d_model ** -0.5)

    # ---- reading

    def encode(self, batch: Arrays) -> Memory:
        """`ids` (B, S) or `values` (B, S, C) of the sources, and their `lengths` (B,)."""
        x = self.embedding(batch["ids"]) if self.reader is None else self.reader(batch)
        x = x if self.input is None else self.input(x)
        there = present(x, batch["lengths"])
        assert there is not None
        there = None if bool(there.all()) else there
        x = self._placed(x, torch.arange(x.shape[1], device=x.device))
        mask = UNMASKED if there is None else padding_mask(there)
        for block in self.encoder:
            x, _ = block(x, mask)
        x = cleared(x if self.encoder_norm is None else self.encoder_norm(x), batch["lengths"])
        return Memory(tuple(cross_of(block).project(x) for block in self.decoder), there)

    def _placed(self, x: Tensor, positions: Tensor) -> Tensor:
        x = x * math.sqrt(self.d_model) + sinusoids(positions, self.d_model).to(x.dtype)
        return dropout(x, self.dropout, self.training)

    # ---- writing

    def features(self, memory: Memory, inputs: Tensor, looked: list[Tensor] | None = None) -> Tensor:
        """What the output layer reads after each of the tokens `inputs` (B, T) of a known target, (B, T, D).

        The weights of the source, (B, heads, T, S) of each block, are added to `looked`.
        """
        x = self._placed(self.embedding(inputs), torch.arange(inputs.shape[1], device=inputs.device))
        mask, over = Mask(causal=True), memory.mask
        for block, kept in zip(self.decoder, memory.layers):
            x, _ = block(x, mask, None, None, kept, over, looked)
        return x if self.decoder_norm is None else self.decoder_norm(x)

    def start(self, memory: Memory) -> DecoderState:
        """Before the first token."""
        k = memory.layers[0][0]
        empty = k.new_empty(len(k), self.n_heads, 0, self.d_model // self.n_heads)
        return DecoderState(k.new_zeros(len(k), dtype=torch.int64), tuple((empty, empty) for _ in self.decoder))

    def step(self, memory: Memory, state: DecoderState, ids: Tensor,
             looked: list[Tensor] | None = None) -> tuple[Tensor, DecoderState]:
        """One more token of each row (B,): what predicts the next (B, D), and the state; the old one is spent. `looked` as in
        `features`, with T = 1."""
        positions = state.lengths.unsqueeze(1)
        mask, places = causal_places(positions, state.lengths.tolist())
        x = self._placed(self.embedding(ids).unsqueeze(1), positions)
        over, layers = memory.mask, []
        for block, cache, kept in zip(self.decoder, state.layers, memory.layers):
            x, grown = block(x, mask, places, cache, kept, over, looked)
            layers.append(grown)
        x = x if self.decoder_norm is None else self.decoder_norm(x)
        return x[:, 0], DecoderState(state.lengths + 1, tuple(layers))


def cross_of(block: nn.Module) -> Attention:
    assert isinstance(block, Block)
    assert block.cross is not None
    return block.cross
