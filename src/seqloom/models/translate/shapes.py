"""Shapes of the weights of the translators by name, from options alone: a saved one is held to them (`network/shapes`)."""

from __future__ import annotations

from seqloom.models.network.shapes import Shapes, affine, layer_norm, output_layer, recurrent_stack, transformer_block, within
from seqloom.models.sequence import shapes
from seqloom.models.sequence.sizes import Sizes
from seqloom.models.translate.configs import GATED, Seq2SeqConfig, TransformerConfig, TranslatorConfig

BY_WIDTH = ("dot", "scaled")  # attention that needs queries and memory of one width


def reader(c: TranslatorConfig, sizes: Sizes) -> tuple[Shapes, int]:
    """And how many numbers it gives for a step; nothing where sources have the vectors of targets."""
    if sizes.columns:
        return within("reader", {"mean": (sizes.columns,), "scale": (sizes.columns,)}), sizes.columns * (1 + sizes.missing)
    own: Shapes = {} if c.shared_vocabulary else {"reader.embedding.weight": (sizes.vocab_size, sizes.d_embed)}
    return own, sizes.d_embed


def seq2seq_shapes(c: Seq2SeqConfig, sizes: Sizes, vocab_size: int) -> Shapes:
    """Of `nn.seq2seq.Seq2Seq`."""
    made, d_in = reader(c, sizes)
    d_hidden, d_out, d_memory = c.d_hidden, c.d_embed if c.tied else c.d_hidden, c.d_hidden
    made["embedding.weight"] = (vocab_size, c.d_embed)
    if not c.one_network:
        made |= shapes.encoder(c, d_in)
        d_memory = shapes.d_encoded(c, d_in)
        made |= within("initial", affine(c.n_decoder_layers * (2 if c.cell == "lstm" else 1) * d_hidden, d_memory))
    d_first = c.d_embed + (d_out if c.input_feeding else 0) + (d_memory if c.bottleneck == "every-step" else 0)
    made |= within("decoder", recurrent_stack(c.cell, d_first, d_hidden, c.n_decoder_layers))
    if c.attention != "none":
        if c.attention in BY_WIDTH and d_memory != d_hidden:
            made |= within("narrow", affine(d_hidden, d_memory))
            d_memory = d_hidden
        made |= within("attention", attention(c.attention, d_hidden, d_memory, coverage=c.coverage))
        made |= within("readout", affine(d_out, d_hidden + d_memory))
    elif d_out != d_hidden:
        made |= within("readout", affine(d_out, d_hidden))
    return made | output_layer("full", d_out, vocab_size, tied=c.tied)


def attention(score: str, d_query: int, d_memory: int, *, coverage: bool) -> Shapes:
    """Of `nn.memory.MemoryAttention`."""
    made: Shapes = {"covered": (d_query,)} if coverage else {}
    if score not in BY_WIDTH:
        made["key.weight"] = (d_query, d_memory)
    if score in ("additive", "concat"):
        made |= {"query.weight": (d_query, d_query), "energy": (d_query,)}
    return made | ({"key.bias": (d_query,)} if score == "additive" else {})


def transformer_shapes(c: TransformerConfig, sizes: Sizes, vocab_size: int) -> Shapes:
    """Of `nn.encoder_decoder.EncoderDecoder`."""
    made, d_in = reader(c, sizes)
    d_model, d_mlp = c.d_model, c.d_mlp or 4 * c.d_model
    norm_bias = c.bias and c.norm_kind == "layer"
    norm = layer_norm(d_model, bias=norm_bias)
    made["embedding.weight"] = (vocab_size, d_model)
    if d_in != d_model:
        made |= within("input", affine(d_model, d_in))
    for stack, many, cross in (("encoder", c.n_layers, False), ("decoder", c.n_decoder_layers, True)):
        for i in range(many):
            made |= within(f"{stack}.{i}", transformer_block(
                d_model, d_mlp, cross=cross, d_queries=c.d_head and c.d_head * c.n_heads, gated=c.activation in GATED,
                bias=c.bias, norm_bias=norm_bias))
        if c.positions == "learned":
            made[f"{stack}_entrance.position.weight"] = (c.context, d_model)
        if c.positions == "t5":
            made[f"{stack}_entrance.bias.weight"] = (c.buckets, c.n_heads)
        if c.embedding_norm:
            made |= within(f"{stack}_entrance.norm", norm)
        if c.norm == "pre":
            made |= within(f"{stack}_norm", norm)
    return made | output_layer("full", d_model, vocab_size, tied=c.tied, bias=c.bias)
