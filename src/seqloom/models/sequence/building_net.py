"""The network of a composed model, from its options and sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from seqloom.models.sequence.configs import EncoderConfig
from seqloom.models.sequence.encoded import Encoded
from seqloom.models.sequence.sizes import Sizes
from seqloom.nn.encoders import Encoder, make_encoder
from seqloom.nn.readers import NumberReader, TokenReader

if TYPE_CHECKING:
    from seqloom.models.network.first_layer import FirstLayer

PREDICT_STEPS = 1 << 13  # steps of a batch where nothing is learnt


def make_reader(c: EncoderConfig, sizes: Sizes, start: Start) -> TokenReader | NumberReader:
    if sizes.columns:
        return NumberReader(sizes.columns, mean=start.mean, scale=start.scale, missing=sizes.missing)
    characters = None
    if c.characters != "none":
        from seqloom.nn.characters import CharacterReader

        characters = CharacterReader(sizes.characters, min(c.d_characters, 50), c.d_characters, kind=c.characters)
    reader = TokenReader(sizes.vocab_size, sizes.d_embed, further=sizes.further, characters=characters,
                         d_characters=c.d_characters if characters is not None else 0, drop=start.drop,
                         untrained=start.untrained, unk_id=start.unk_id)
    if start.first is not None:
        start.first.fill(reader.embedding, frozen=c.pretrained_training == "frozen")
        if sizes.further:
            reader.get_buffer("further").copy_(torch.from_numpy(start.further))
    return reader


def encoder_for(c: EncoderConfig, d_in: int) -> Encoder:
    return make_encoder(c.encoder, d_in, c.d_hidden, c.n_layers, dropout=c.dropout, n_heads=c.n_heads, window=c.window)


class Start:
    """What a network begins with and a restored one has in its weights: vectors, scales, how readily words are dropped."""

    def __init__(self, *, first: FirstLayer | None = None, further: np.ndarray | None = None, counts: np.ndarray | None = None,
                 word_dropout: float = 0.0, unk_id: int | None = None, mean: np.ndarray | None = None,
                 scale: np.ndarray | None = None) -> None:
        self.first, self.further, self.unk_id = first, further, 0 if unk_id is None else unk_id
        self.mean = None if mean is None else torch.from_numpy(mean)
        self.scale = None if scale is None else torch.from_numpy(scale)
        self.drop: Tensor | None = None
        self.untrained = torch.from_numpy(first.pretrained) if first is not None and word_dropout else None
        if counts is not None and word_dropout and unk_id is not None:
            self.drop = torch.from_numpy((word_dropout / (word_dropout + np.maximum(counts, 1))).astype(np.float32))


NOTHING = Start()


def batches_of(network: Any, encoded: Encoded, most_steps: int = PREDICT_STEPS) -> Iterator[tuple[np.ndarray, Any]]:
    """All examples in batches of like length: their numbers, and the batch where the network is."""
    device = next(network.parameters()).device
    for chosen in encoded.buckets(most_steps):
        yield chosen, {name: torch.from_numpy(array).to(device) for name, array in encoded.batch(chosen).items()}
