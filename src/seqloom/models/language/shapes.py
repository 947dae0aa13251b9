"""The shapes of the weights of each neural language model, made of those of its parts (`models/network/shapes`).

A test proves them equal to those of the networks themselves (`*_net.py`).
"""

from __future__ import annotations

from seqloom.models.language.neural_configs import NPLM_EMBED, GPTConfig, NPLMConfig, RecurrentConfig
from seqloom.models.network.shapes import (
    Shapes,
    affine,
    layer_norm,
    output_layer,
    recurrent_stack,
    transformer_block,
    within,
)
from seqloom.models.network.sizes import Size


def recurrent_shapes(config: RecurrentConfig, cell: str, vocab_size: int, size: Size) -> Shapes:
    c, width = config, size.width
    d_embed, d_out = size.d_embed or c.d_embed or width, c.d_projection or width
    stack = recurrent_stack(cell, d_embed, width, c.n_layers, d_projection=c.d_projection, norms=c.layer_norm,
                            learned_start=c.learned_start, reset=getattr(c, "reset", ""))
    tied = c.tied and c.softmax != "adaptive"
    bridge = within("bridge", affine(d_embed, d_out)) if tied and d_out != d_embed else {}
    return {"embedding.weight": (vocab_size, d_embed), **within("recurrent", stack), **bridge,
            **output_layer(c.softmax, d_embed if tied else d_out, vocab_size, tied=tied)}


def gpt_shapes(config: GPTConfig, vocab_size: int, size: Size) -> Shapes:
    c, d = config, size.width
    shapes: Shapes = {"embedding.weight": (vocab_size, d)}
    if c.positions == "learned":
        shapes["position.weight"] = (c.context, d)
    norm_bias = c.bias and c.norm_kind == "layer"
    block = transformer_block(d, c.d_mlp or 4 * d, d_kv=d // c.n_heads * (c.n_kv_heads or c.n_heads),
                              gated=c.activation == "swiglu", bias=c.bias, norm_bias=norm_bias)
    if c.positions == "relative":
        block["attention.relative.weight"] = (c.max_distance + 1, d // c.n_heads)
    for i in range(c.n_layers):
        shapes |= within(f"blocks.{i}", block)
    if c.norm == "pre":
        shapes |= within("norm", layer_norm(d, bias=norm_bias))
    return shapes | output_layer(c.softmax, d, vocab_size, tied=c.tied and c.softmax != "adaptive", bias=False)


def nplm_shapes(config: NPLMConfig, vocab_size: int, size: Size) -> Shapes:
    d_embed = size.d_embed or config.d_embed or NPLM_EMBED
    d_window = (config.order - 1) * d_embed
    return {"embedding.weight": (vocab_size, d_embed), **within("hidden", affine(size.width, d_window)),
            **output_layer(config.softmax, size.width + d_window * config.direct, vocab_size)}
