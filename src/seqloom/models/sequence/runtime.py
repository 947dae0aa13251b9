"""Reader and encoder of a composed network without torch, from its options and sizes; what `building_net` does with torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqloom.encoder_table import find_encoder
from seqloom.models.encode.running import take_encoder
from seqloom.models.sequence.sizes import Sizes
from seqloom.runtime.bert import PublishedEncoder
from seqloom.runtime.encoders import Encoder
from seqloom.runtime.readers import NumberReader, PublishedReader, TokenReader
from seqloom.runtime.weights import Weights

if TYPE_CHECKING:
    from seqloom.models.sequence.configs import EncoderConfig
    from seqloom.models.sequence.published import Published


def take_reader_and_encoder(
    weights: Weights, c: EncoderConfig, sizes: Sizes, published: Published | None, vocab_size: int
) -> tuple[Any, Encoder]:
    """`vocab_size`: of a published encoder's tokenizer."""
    if published is not None:
        network = take_encoder(
            weights.within("reader.first"),
            published.layout,
            vocab_size,
            blocks=weights.within("encoder"),
        )
        return PublishedReader(network), PublishedEncoder(network)
    reader = take_reader(weights.within("reader"), c, sizes)
    encoder: Encoder = find_encoder(c.encoder).take(
        weights.within("encoder"),
        reader.d_out,
        c.d_hidden,
        c.n_layers,
        {"window": c.window, "n_heads": c.n_heads},
    )
    return reader, encoder


def take_reader(weights: Weights, c: EncoderConfig, sizes: Sizes) -> TokenReader | NumberReader:
    """Take what reads tokens or numbers."""
    if sizes.columns:
        return NumberReader(weights, sizes.columns, missing=sizes.missing)
    return TokenReader(
        weights,
        sizes.vocab_size,
        sizes.d_embed,
        further=sizes.further,
        n_chars=sizes.characters,
        d_characters=c.d_characters,
        characters=c.characters,
    )
