"""A published encoder (`nn.bert`) as reader and encoder of a composed network: its first layer reads the ids, its blocks relate
the vectors. So every head stands on it as on any other encoder (`nn.composition`).

For a head on an encoder that learns nothing, `Given` takes the vectors that it gave once.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seqloom.nn.attention import UNMASKED, padding_mask
from seqloom.nn.bert import BertNet
from seqloom.nn.encoders import Encoder, cleared, present
from seqloom.nn.readers import Arrays
from seqloom.trace import Trace, within


class PublishedReader(nn.Module):
    """`ids` (B, T), marks included, to vectors of tokens and positions (B, T, D); of pairs also the `types` of the tokens."""

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

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, trace: Trace | None = None
    ) -> Tensor:
        there = present(x, lengths)
        mask = UNMASKED if there is None or bool(there.all()) else padding_mask(there)
        for i in range(self.n_layers):
            x, _ = self.blocks[i % len(self.blocks)](x, mask, trace=within(trace, f"blocks.{i}"))
        return cleared(x, lengths)


def parted(network: BertNet, d_model: int) -> tuple[PublishedReader, PublishedEncoder]:
    """Its first layer and its blocks, as the two parts of a composed network, which itself drops what is read."""
    encoder = PublishedEncoder(network.blocks, network.n_layers, d_model)
    network.blocks, network.n_layers, network.dropout = nn.ModuleList(), 0, 0.0
    return PublishedReader(network), encoder


class Given(nn.Module):
    """`values` (B, T, D) that an encoder gave, as they are."""

    def __init__(self, d_out: int) -> None:
        super().__init__()
        self.d_out = d_out

    def forward(self, batch: Arrays) -> Tensor:
        return batch["values"]


def of_words(x: Tensor, batch: Arrays) -> Tensor:
    """The vectors of words (B, W, D) from those of rows (R, T, D): of each word that of its first step, which is at `places`
    (B, W) of row `rows` (B, W) of its example; an example has so many rows as `counts` (B,) says."""
    first = torch.cumsum(batch["counts"], 0) - batch["counts"]
    return x[first.unsqueeze(1) + batch["rows"], batch["places"]]
