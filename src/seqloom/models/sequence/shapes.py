"""Shapes of the weights of a composed network by name, from options alone: a saved one is held to them (`network/shapes`)."""

from __future__ import annotations

from typing import Any

from seqloom.models.network.shapes import (
    Shapes,
    affine,
    character_reader,
    layer_norm,
    recurrent_stack,
    transformer_block,
    within,
)
from seqloom.models.sequence.configs import EncoderConfig
from seqloom.models.sequence.published import Published
from seqloom.models.sequence.sizes import Sizes


def reader_and_encoder(c: EncoderConfig, sizes: Sizes, published: Published | None, vocab_size: int) -> tuple[Shapes, int]:
    """And how many numbers the encoder gives for a step. `vocab_size`: of a published encoder's tokenizer."""
    if published is not None:
        return published.shapes(vocab_size), published.layout.d_model
    made, d_in = reader(c, sizes)
    return {**made, **encoder(c, d_in)}, d_encoded(c, d_in)


def reader(c: EncoderConfig, sizes: Sizes) -> tuple[Shapes, int]:
    """And how many numbers it gives for a step."""
    if sizes.columns:
        return within("reader", {"mean": (sizes.columns,), "scale": (sizes.columns,)}), sizes.columns * (1 + sizes.missing)
    shapes: Shapes = {"embedding.weight": (sizes.vocab_size, sizes.d_embed)}
    if sizes.further:
        shapes["further"] = (sizes.further, sizes.d_embed)
    if c.characters == "none":
        return within("reader", shapes), sizes.d_embed
    shapes |= within("characters", character_reader(c.characters, sizes.characters, min(c.d_characters, 50), c.d_characters))
    return within("reader", shapes), sizes.d_embed + c.d_characters


def encoder(c: Any, d_in: int, name: str = "encoder", reach: int | None = None) -> Shapes:
    """`c`: options with encoder, d_hidden and n_layers; `reach`: what takes the place of its window."""
    kind, width = c.encoder, c.d_hidden
    if kind == "bag":
        return {}
    shapes: Shapes = {}
    if kind in ("window", "cnn"):
        for i in range(c.n_layers):
            near = (c.window if reach is None else reach) if kind == "cnn" or not i else 0
            shapes |= within(f"layers.{i}", affine(width, (2 * near + 1) * (width if i else d_in)))
    elif kind == "transformer":
        shapes = {**within("input", affine(width, d_in)), **within("norm", layer_norm(width))}
        for i in range(c.n_layers):
            shapes |= within(f"blocks.{i}", transformer_block(width, 4 * width))
    else:
        shapes = within("stack", recurrent_stack(kind.removeprefix("bi"), d_in, width, c.n_layers,
                                                 bidirectional=kind.startswith("bi")))
    return within(name, shapes)


def pooling(kind: str, d_in: int, name: str) -> Shapes:
    if kind != "attention":
        return {}
    return {**within(f"{name}.project", affine(d_in, d_in)), f"{name}.score.weight": (1, d_in)}


def sentences(c: Any, d_in: int) -> Shapes:
    """Of the second level of documents."""
    layers = recurrent_stack("gru", d_in, c.d_hidden, c.n_sentence_layers, bidirectional=True)
    return within("sentences", {**pooling(c.pools, d_in, "pooling"), **within("encoder.stack", layers)})


def d_encoded(c: Any, d_in: int) -> int:
    """How many numbers the encoder gives for a step."""
    if c.encoder == "bag":
        return d_in
    return c.d_hidden * (2 if c.encoder.startswith("bi") else 1)
