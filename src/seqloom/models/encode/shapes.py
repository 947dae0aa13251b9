"""The shapes of an encoder's weights by name, from its options alone; a test proves them equal to those of `nn.bert`."""

from __future__ import annotations

from seqloom.models.encode.configs import EncoderLayout
from seqloom.models.network.shapes import Shapes, affine, layer_norm, transformer_block, within


def encoder_shapes(config: EncoderLayout, vocab_size: int) -> Shapes:
    """Without a head."""
    c, width = config, config.d_embed or config.d_model
    shapes: Shapes = {"embedding.weight": (vocab_size, width), "position.weight": (c.context + c.position_offset, width)}
    if c.n_types:
        shapes["types.weight"] = (c.n_types, width)
    shapes |= within("norm", layer_norm(width))
    if c.d_embed:
        shapes |= within("projection", affine(c.d_model, c.d_embed))
    for i in range(1 if c.shared_layers else c.n_layers):
        shapes |= within(f"blocks.{i}", transformer_block(c.d_model, c.d_mlp or 4 * c.d_model))
    return shapes | (within("pooler", affine(c.d_model, c.d_model)) if c.pooler else {})


def head_shapes(config: EncoderLayout, vocab_size: int, *, tied: bool) -> Shapes:
    """Of `nn.bert.MaskedHead`, under the name `head`."""
    width = config.d_embed or config.d_model
    return {**within("head.dense", affine(width, config.d_model)), **within("head.norm", layer_norm(width)),
            **({} if tied else {"head.output.weight": (vocab_size, width)}), "head.bias": (vocab_size,)}
