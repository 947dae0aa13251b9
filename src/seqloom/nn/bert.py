"""BERT (Devlin et al. 2019) and its relatives, Transformer encoders that see the whole text in both
directions; and such an encoder as reader and encoder of a composed network (`nn.composition`).

They are trained to predict hidden tokens. The relatives differ outside the blocks: RoBERTa (Liu et
al. 2019) counts positions from `position_offset` on; DistilBERT (Sanh et al. 2019) has no types;
ALBERT (Lan et al. 2020) applies one block `n_layers` times, and has narrow token vectors (`d_embed`)
that a projection widens; ELECTRA (Clark et al. 2020) has only the latter. Blocks are those of
`nn.transformer` with norms after each sum.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from seqloom.nn.attention import UNMASKED, Attention, padding_mask
from seqloom.nn.encoders import Encoder, cleared, present
from seqloom.nn.layers import MakeLinear, dropout, own_weights
from seqloom.nn.readers import Arrays
from seqloom.nn.recomputing import run_layer
from seqloom.nn.recording import holds
from seqloom.nn.transformer import ACTIVATIONS, MLP, Activation, Block, make_norm
from seqloom.traces import Trace, within


class MaskedHead(nn.Module):
    """Predicts hidden tokens: a layer, a norm, and the product with the token vectors (V, E), or with
    its own if not `tied`.
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        d_embed: int,
        activation: Activation,
        *,
        norm_epsilon: float = 1e-12,
        tied: bool = True,
        linear: MakeLinear = nn.Linear,
    ) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        self.dense = linear(d_model, d_embed, bias=True)
        self.norm = make_norm("layer", d_embed, epsilon=norm_epsilon)
        self.output = None if tied else nn.Linear(d_embed, vocab_size, bias=False)
        self.bias = nn.Parameter(torch.zeros(vocab_size))

    def forward(self, hidden: Tensor, embedding: Tensor) -> Tensor:
        """Return the logits (..., V) of vectors (..., D)."""
        features = self.norm(self.activation(self.dense(hidden)))
        return features @ (embedding if self.output is None else self.output.weight).T + self.bias


class BertNet(nn.Module):
    """At most `context` tokens. `n_types`: number of token types, which tell the texts of a pair apart,
    or 0; `d_embed`: width of the token vectors if a projection follows them; `head`: with a head that
    predicts hidden tokens; `pooler`: with a layer on the first token's vector.
    """

    def __init__(
        self,
        vocab_size: int,
        context: int,
        d_model: int,
        n_layers: int,
        n_heads: int,
        *,
        d_mlp: int | None = None,
        d_embed: int | None = None,
        n_types: int = 2,
        position_offset: int = 0,
        shared_layers: bool = False,
        activation: Activation = "gelu-erf",
        head_activation: Activation | None = None,
        norm_epsilon: float = 1e-12,
        dropout: float = 0.0,
        head: bool = True,
        tied: bool = True,
        pooler: bool = False,
        linear: MakeLinear = nn.Linear,
    ) -> None:
        super().__init__()
        width = d_embed or d_model
        self.context, self.position_offset, self.n_layers, self.dropout = (
            context,
            position_offset,
            n_layers,
            dropout,
        )
        self.embedding = nn.Embedding(vocab_size, width)
        self.position = nn.Embedding(context + position_offset, width)
        self.types = nn.Embedding(n_types, width) if n_types else None
        new_norm = partial(make_norm, "layer", epsilon=norm_epsilon)
        self.norm = new_norm(width)
        self.projection = linear(d_embed, d_model, bias=True) if d_embed else None

        def block() -> Block:
            attention = Attention(d_model, n_heads, dropout=dropout, linear=linear)
            mlp = MLP(d_model, d_mlp or 4 * d_model, ACTIVATIONS[activation], linear=linear)
            return Block(d_model, attention, mlp, norm="post", make_norm=new_norm, dropout=dropout)

        self.blocks = nn.ModuleList(block() for _ in range(1 if shared_layers else n_layers))
        self.pooler = linear(d_model, d_model, bias=True) if pooler else None
        self.head = (
            MaskedHead(
                vocab_size,
                d_model,
                width,
                head_activation or activation,
                norm_epsilon=norm_epsilon,
                tied=tied,
                linear=linear,
            )
            if head
            else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise as BERT does: normal 0.02, biases zero."""
        for name, parameter in own_weights(self):
            if parameter.ndim == 2:
                nn.init.normal_(parameter, std=0.02)
            elif "norm" not in name:
                nn.init.zeros_(parameter)

    def forward(
        self,
        ids: Tensor,
        types: Tensor | None = None,
        keep: Tensor | None = None,
        trace: Trace | None = None,
    ) -> Tensor:
        """Return the vectors (B, T, D) of the last layer. `types` (B, T) are all 0 if not given;
        `keep` (B, T) is False where a row was padded on the right. A trace gets what each layer
        adds, as `blocks.0...`, shared or not.
        """
        if ids.shape[1] > self.context:
            raise ValueError(
                f"a text of {ids.shape[1]} tokens is longer than the position table of {self.context}"
            )
        positions = torch.arange(
            self.position_offset, self.position_offset + ids.shape[1], device=ids.device
        )
        x = self.embedding(ids) + self.position(positions)  # (B, T, E)
        if self.types is not None:
            x = x + (self.types.weight[0] if types is None else self.types(types))
        x = dropout(self.norm(x), self.dropout, self.training)
        if self.projection is not None:
            x = self.projection(x)  # (B, T, D)
        mask = UNMASKED if keep is None else padding_mask(keep)
        for i in range(self.n_layers):
            x, _ = self.blocks[i % len(self.blocks)](x, mask, trace=within(trace, f"blocks.{i}"))
        return x

    def pooled(self, hidden: Tensor) -> Tensor:
        """Return the vector of a text (B, D), computed from that of its first token; the pooler was
        trained to compare two texts.
        """
        assert self.pooler is not None, "this network has no pooler"
        return torch.tanh(self.pooler(hidden[:, 0]))

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the logits (..., V) of the tokens at the positions of these vectors (..., D)."""
        assert self.head is not None, "this network has no head that guesses tokens"
        return self.head(hidden, self.embedding.weight)


# ---- published


class PublishedReader(nn.Module):
    """The first layer: `ids` (B, T), marks included, and for pairs `types`, to vectors of tokens and
    positions (B, T, D).
    """

    def __init__(self, first: BertNet) -> None:
        super().__init__()
        self.first = first  # without blocks

    def forward(self, batch: Arrays) -> Tensor:
        vectors: Tensor = self.first(batch["ids"], batch.get("types"))
        return vectors


class PublishedEncoder(Encoder):
    streams = False

    def __init__(self, blocks: nn.ModuleList, n_layers: int, d_model: int) -> None:
        super().__init__()
        self.blocks, self.n_layers, self.d_out = blocks, n_layers, d_model
        self.checkpoint = False

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, trace: Trace | None = None
    ) -> Tensor:
        keep = present(x, lengths)
        mask = UNMASKED if keep is None or holds(keep) else padding_mask(keep)
        for i in range(self.n_layers):
            block = self.blocks[i % len(self.blocks)]
            x, _ = run_layer(self, block, x, mask, trace=within(trace, f"blocks.{i}"))
        return cleared(x, lengths)


def split_reader_and_encoder(
    network: BertNet, d_model: int
) -> tuple[PublishedReader, PublishedEncoder]:
    """Split a network into its first layer and its blocks, the reader and the encoder of a composed
    network, which applies dropout between them itself.
    """
    encoder = PublishedEncoder(network.blocks, network.n_layers, d_model)
    network.blocks, network.n_layers, network.dropout = nn.ModuleList(), 0, 0.0
    return PublishedReader(network), encoder


class PrecomputedFeatures(nn.Module):
    """A reader of `values` (B, T, D) that a frozen encoder computed once."""

    def __init__(self, d_out: int) -> None:
        super().__init__()
        self.d_out = d_out

    def forward(self, batch: Arrays) -> Tensor:
        return batch["values"]


def of_words(x: Tensor, batch: Arrays) -> Tensor:
    """Return the vectors of words (B, W, D) from those of rows (R, T, D): for each word that of its
    first step, at `positions` (B, W) of row `rows` (B, W) of its example; `counts` (B,): rows of the
    examples.
    """
    first = torch.cumsum(batch["counts"], 0) - batch["counts"]
    return x[first.unsqueeze(1) + batch["rows"], batch["positions"]]
