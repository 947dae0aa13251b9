"""Layouts of published tensors: for each family a table from our layers to its tensors, in both directions.

A line names a layer of ours and the tensors that it is stacked from, row-wise: queries, keys and values;
gates and units. `{i}` is the number of a block. `.weight` and `.bias` are appended to the names of both
sides, unless the line names an array. Other conversions of a tensor are fields of `Line`
(`interop/tensors`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from seqloom.interop.tensors import Layout, Line, Lines, within

# ---- language models

GPT2 = Layout(
    "gpt2",
    {
        "embedding": "wte",
        "position": "wpe",
        "norm": "ln_f",
        **within(
            "blocks.{i}.",
            "h.{i}.",
            {
                "norm1": "ln_1",
                "attention.qkv": Line("attn.c_attn", transposed=True),
                "attention.out": Line("attn.c_proj", transposed=True),
                "norm2": "ln_2",
                "mlp.up": Line("mlp.c_fc", transposed=True),
                "mlp.down": Line("mlp.c_proj", transposed=True),
            },
        ),
    },
    "transformer.",
    {"output": "lm_head"},
    (".attn.bias", ".attn.masked_bias"),
)

LLAMA = Layout(
    "llama",
    {
        "embedding": "embed_tokens",
        "norm": "norm",
        **within(
            "blocks.{i}.",
            "layers.{i}.",
            {
                "norm1": "input_layernorm",
                "attention.qkv": "self_attn.q_proj self_attn.k_proj self_attn.v_proj",
                "attention.out": "self_attn.o_proj",
                "norm2": "post_attention_layernorm",
                "mlp.up": "mlp.gate_proj mlp.up_proj",
                "mlp.down": "mlp.down_proj",
            },
        ),
    },
    "model.",
    {"output": "lm_head"},
    (".rotary_emb.inv_freq",),
)

GGUF_LLAMA = Layout(
    "llama",
    {
        "embedding": "token_embd",
        "norm": "output_norm",
        "output": "output",
        **within(
            "blocks.{i}.",
            "blk.{i}.",
            {
                "norm1": "attn_norm",
                "attention.qkv": Line("attn_q attn_k attn_v", rotary=2),
                "attention.out": "attn_output",
                "norm2": "ffn_norm",
                "mlp.up": "ffn_gate ffn_up",
                "mlp.down": "ffn_down",
            },
        ),
    },
)

# ---- encoders

_EMBEDDINGS = {
    "embedding": "embeddings.word_embeddings",
    "position": "embeddings.position_embeddings",
    "types": "embeddings.token_type_embeddings",
    "norm": "embeddings.LayerNorm",
}
_BERT_BLOCKS = within(
    "blocks.{i}.",
    "encoder.layer.{i}.",
    {
        "attention.qkv": "attention.self.query attention.self.key attention.self.value",
        "attention.out": "attention.output.dense",
        "norm1": "attention.output.LayerNorm",
        "mlp.up": "intermediate.dense",
        "mlp.down": "output.dense",
        "norm2": "output.LayerNorm",
    },
)
_DISTILBERT_BLOCKS = within(
    "blocks.{i}.",
    "transformer.layer.{i}.",
    {
        "attention.qkv": "attention.q_lin attention.k_lin attention.v_lin",
        "attention.out": "attention.out_lin",
        "norm1": "sa_layer_norm",
        "mlp.up": "ffn.lin1",
        "mlp.down": "ffn.lin2",
        "norm2": "output_layer_norm",
    },
)
_ALBERT_BLOCKS = within(
    "blocks.{i}.",
    "encoder.albert_layer_groups.0.albert_layers.0.",
    {
        "attention.qkv": "attention.query attention.key attention.value",
        "attention.out": "attention.dense",
        "norm1": "attention.LayerNorm",
        "mlp.up": "ffn",
        "mlp.down": "ffn_output",
        "norm2": "full_layer_layer_norm",
    },
)


def _encoder(
    family: str, blocks: Lines, further: Lines, head: str, prefix: str | None = None
) -> Layout:
    """Return the layout of an encoder; `head` names the dense layer, norm, bias and output layer,
    `prefix` what its tensors begin with, if not with the name of the family.
    """
    lines = dict(zip(("head.dense", "head.norm", "head", "head.output"), head.split(), strict=True))
    buffers = ("position_ids", "token_type_ids")
    body = {**_EMBEDDINGS, **blocks, **further}
    return Layout(family, body, f"{prefix or family}.", lines, buffers)


ENCODERS = {
    layout.family: layout
    for layout in (
        _encoder(
            "bert",
            _BERT_BLOCKS,
            {"pooler": "pooler.dense"},
            "cls.predictions.transform.dense cls.predictions.transform.LayerNorm "
            "cls.predictions cls.predictions.decoder",
        ),
        *(
            _encoder(
                family,
                _BERT_BLOCKS,
                {"pooler": "pooler.dense"},
                "lm_head.dense lm_head.layer_norm lm_head lm_head.decoder",
                "roberta",
            )
            for family in ("roberta", "xlm-roberta")
        ),
        _encoder(
            "distilbert",
            _DISTILBERT_BLOCKS,
            {},
            "vocab_transform vocab_layer_norm vocab_projector vocab_projector",
        ),
        _encoder(
            "albert",
            _ALBERT_BLOCKS,
            {"pooler": "pooler", "projection": "encoder.embedding_hidden_mapping_in"},
            "predictions.dense predictions.LayerNorm predictions predictions.decoder",
        ),
        _encoder(
            "electra",
            _BERT_BLOCKS,
            {"projection": "embeddings_project"},
            "generator_predictions.dense generator_predictions.LayerNorm "
            "generator_lm_head generator_lm_head",
        ),
    )
}

# ---- heads on encoders


class Head(NamedTuple):
    """A head of a family: its layers, by our names, and the activation of the first of two."""

    lines: dict[str, str]
    activation: str = "none"


def _two(activation: str, dense: str, linear: str = "classifier") -> Head:
    return Head({"output.dense": dense, "output.linear": linear}, activation)


_POOLED = {
    "bert": _two("tanh", "bert.pooler.dense"),
    "albert": _two("tanh", "albert.pooler"),
    "distilbert": _two("relu", "pre_classifier"),
}
_ROBERTA_CLASSES = _two("tanh", "classifier.dense", "classifier.out_proj")
_ROBERTA_CHOICES = _two("tanh", "roberta.pooler.dense")
HEADS: dict[str, dict[str, Head]] = {  # by the end of the name of a class there, and by family
    "ForSequenceClassification": {
        **_POOLED,
        "roberta": _ROBERTA_CLASSES,
        "xlm-roberta": _ROBERTA_CLASSES,
        "electra": _ROBERTA_CLASSES._replace(activation="gelu-erf"),
    },
    "ForMultipleChoice": {
        **_POOLED,
        "roberta": _ROBERTA_CHOICES,
        "xlm-roberta": _ROBERTA_CHOICES,
        "electra": _two("gelu-erf", "sequence_summary.summary"),
    },
    "ForTokenClassification": dict.fromkeys(ENCODERS, Head({"output.linear": "classifier"})),
    "ForQuestionAnswering": dict.fromkeys(ENCODERS, Head({"output.linear": "qa_outputs"})),
}


def with_head(family: str, kind: str, named: Callable[[str], str]) -> Layout:
    """Return the layout of an encoder of a family with a head; `named`: what the layers of the
    encoder are called below such a head.
    """
    layout, head = ENCODERS[family], HEADS[kind][family]
    body = {named(layer): line for layer, line in layout.body.items() if layer != "pooler"}
    return replace(layout, body=body, head=head.lines)


# ---- encoder-decoders


def _t5(up: str) -> Layout:
    lines: dict[str, str | Line] = {"embedding": "shared"}
    for stack, last in (("encoder", 1), ("decoder", 2)):
        block = {
            "norm1": "0.layer_norm",
            "attention.qkv": "0.SelfAttention.q 0.SelfAttention.k 0.SelfAttention.v",
            "attention.out": "0.SelfAttention.o",
            "norm2": f"{last}.layer_norm",
            "mlp.up": up.replace("wi", f"{last}.DenseReluDense.wi"),
            "mlp.down": f"{last}.DenseReluDense.wo",
        }
        if stack == "decoder":
            block |= {
                "norm_cross": "1.layer_norm",
                "cross.qkv": "1.EncDecAttention.q 1.EncDecAttention.k 1.EncDecAttention.v",
                "cross.out": "1.EncDecAttention.o",
            }
        lines |= {
            f"{stack}_entrance.bias": f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias",
            f"{stack}_norm": f"{stack}.final_layer_norm",
            **within(f"{stack}.{{i}}.", f"{stack}.block.{{i}}.layer.", block),
        }
    copies = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight")
    unread = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
    return Layout("T5", lines, head={"output": "lm_head"}, ignored=(*copies, unread))


T5, T5_GATED = _t5("wi"), _t5("wi_0 wi_1")


def _bart(family: str, embeddings: Lines, *, sines_first: bool = False) -> Layout:
    lines = dict(embeddings)
    for stack in ("encoder", "decoder"):
        block = {
            "attention.qkv": "self_attn.q_proj self_attn.k_proj self_attn.v_proj",
            "attention.out": "self_attn.out_proj",
            "norm1": "self_attn_layer_norm",
            "mlp.up": "fc1",
            "mlp.down": "fc2",
            "norm2": "final_layer_norm",
        }
        if stack == "decoder":
            block |= {
                "cross.qkv": "encoder_attn.q_proj encoder_attn.k_proj encoder_attn.v_proj",
                "cross.out": "encoder_attn.out_proj",
                "norm_cross": "encoder_attn_layer_norm",
            }
        lines |= {
            f"{stack}_entrance.position": Line(f"{stack}.embed_positions", skipped=2),
            f"{stack}_entrance.norm": f"{stack}.layernorm_embedding",
            **within(f"{stack}.{{i}}.", f"{stack}.layers.{{i}}.", block),
        }
    head: Lines = {"output.bias": Line("final_logits_bias", one_row=True), "output": "lm_head"}
    ignored = ("embed_tokens.weight", "lm_head.weight", "encoder.version", "decoder.version")
    sinusoids = ("embed_positions.weight",) if sines_first else ()
    return Layout(family, lines, "model.", head, (*ignored, *sinusoids), sines_first)


_TWO_TABLES = {"embedding": "decoder.embed_tokens", "reader.embedding": "encoder.embed_tokens"}
BART = _bart("BART", {"embedding": "shared"})
MARIAN = _bart("Marian", {"embedding": "shared"}, sines_first=True)
MARIAN_OF_TWO = _bart("Marian", _TWO_TABLES, sines_first=True)

# ---- g2p-en
# Rows of sources there: <pad>, <unk>, </s>, letters; here: </s>, <unk>, letters. Rows of targets there:
# <pad>, <unk>, <s>, </s>, phonemes; here: </s>, <unk>, <pad>, <s>, phonemes. Targets begin with <s> there and
# with </s> here.

_WRITTEN = (3, 1, 0, 2, *range(4, 74))
G2P = Layout(
    "g2p-en",
    {
        "reader.embedding.weight": Line("enc_emb", rows=(2, 1, *range(3, 29))),
        "encoder.stack.layers.{i}.w_x": "enc_w_ih",
        "encoder.stack.layers.{i}.w_h": "enc_w_hh",
        "encoder.stack.layers.{i}.b": "enc_b",
        "encoder.stack.layers.{i}.b_h": "enc_b_h",
        "initial.weight": "identity",
        "embedding.weight": Line("dec_emb", rows=(2, *_WRITTEN[1:])),
        "decoder.layers.{i}.w_x": "dec_w_ih",
        "decoder.layers.{i}.w_h": "dec_w_hh",
        "decoder.layers.{i}.b": "dec_b",
        "decoder.layers.{i}.b_h": "dec_b_h",
        "output.weight": Line("fc_w", rows=_WRITTEN),
        "output.bias": Line("fc_b", rows=_WRITTEN),
    },
)
