"""T5 (Raffel et al. 2020) of transformers: version 1.0 (relu, tied output), and 1.1 or Flan (gated gelu, its own output)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from seqloom.config import MOST_WIDTH
from seqloom.errors import quoted
from seqloom.interop.encoder_decoders import (
    ACTIVATIONS,
    MOST_ROWS,
    Place,
    common_values,
    linear,
    read_learnt,
    read_translator,
    refuse_other,
    write_translator,
)
from seqloom.interop.hugging_face import ModelDirectory
from seqloom.models.translate.configs import GATED
from seqloom.models.translate.transformer import Transformer

KIND = {"positions": "t5", "norm": "pre", "norm_kind": "rms", "embedding_norm": False, "bias": False, "scaled_attention": False,
        "scaled_embedding": False, "shared_vocabulary": True}  # what makes a T5
GATES = {"gated-gelu": "geglu", "gated-gelu_new": "geglu", "gated-silu": "swiglu"}  # ours by the names of feed_forward_proj
COPIES = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight",  # of shared.weight
          "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight")  # which nothing reads
LENGTH = 512  # tokens of the texts of training, unless n_positions says another number


def read_t5(directory: ModelDirectory, task: str | None = None) -> Transformer:
    layers, d_model = directory.whole("num_layers", 1, 100), directory.whole("d_model", 2, MOST_WIDTH)
    known = {**ACTIVATIONS, **GATES}
    function = directory.text("feed_forward_proj", "relu")
    if function not in known:
        directory.fail(f"feed_forward_proj is {quoted(function)}; {', '.join(known)} can be converted")
    # Files of version 1.1 say that the output is not tied; newer versions of transformers write down what follows from it.
    scaled = directory.flag("scale_decoder_outputs", directory.flag("tie_word_embeddings", True))
    options = {
        **KIND, "d_model": d_model, "n_layers": layers, "n_heads": directory.whole("num_heads", 1, 1000),
        "n_decoder_layers": layers if directory.values.get("num_decoder_layers") is None
        else directory.whole("num_decoder_layers", 1, 100),
        "d_head": directory.whole("d_kv", 1, MOST_WIDTH), "d_mlp": directory.whole("d_ff", 1, MOST_WIDTH),
        "buckets": directory.whole("relative_attention_num_buckets", 4, 10_000, 32),
        "max_distance": directory.whole("relative_attention_max_distance", 2, 10_000, 128),
        "norm_epsilon": directory.real("layer_norm_epsilon", 1e-12, 1.0, 1e-6), "activation": known[function],
        "scaled_output": scaled, "tied": not _own_output(directory),
        "dropout": directory.real("dropout_rate", 0.0, 0.95, 0.1)}
    pad = directory.whole("pad_token_id", 0, MOST_ROWS, 0)
    learnt = read_learnt(directory, directory.whole("n_positions", 1, MOST_ROWS, LENGTH), start=pad)
    return read_translator(directory, "T5", options, learnt, _layout(options),
                           surplus=(*COPIES, *(["lm_head.weight"] if options["tied"] else [])))


def _own_output(directory: ModelDirectory) -> bool:
    """Whether the output layer has another matrix than the vectors of tokens; files may have the same one twice."""
    shapes = directory.shapes
    if "lm_head.weight" not in shapes or "shared.weight" not in shapes:
        return False
    return not np.array_equal(directory.array("lm_head.weight"), directory.array("shared.weight"))


def _layout(c: dict[str, Any]) -> dict[str, Place]:
    places = {"embedding.weight": Place(("shared.weight",))}
    if not c["tied"]:
        places["output.weight"] = Place(("lm_head.weight",))
    for stack, many in (("encoder", c["n_layers"]), ("decoder", c["n_decoder_layers"])):
        bias = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        places |= {f"{stack}_entrance.bias.weight": Place((bias,)),
                   **linear(f"{stack}_norm", f"{stack}.final_layer_norm", bias=False)}
        for i in range(many):
            ours, theirs = f"{stack}.{i}", f"{stack}.block.{i}.layer"
            parts = [("norm1", "attention", "SelfAttention")]
            if stack == "decoder":
                parts.append(("norm_cross", "cross", "EncDecAttention"))
            for number, (norm, attention, name) in enumerate(parts):
                inner = f"{theirs}.{number}.{name}"
                places |= {**linear(f"{ours}.{norm}", f"{theirs}.{number}.layer_norm", bias=False),
                           **linear(f"{ours}.{attention}.qkv", *(f"{inner}.{part}" for part in "qkv"), bias=False),
                           **linear(f"{ours}.{attention}.out", f"{inner}.o", bias=False)}
            last = f"{theirs}.{len(parts)}"
            up = ("wi_0", "wi_1") if c["activation"] in GATED else ("wi",)
            places |= {**linear(f"{ours}.norm2", f"{last}.layer_norm", bias=False),
                       **linear(f"{ours}.mlp.up", *(f"{last}.DenseReluDense.{part}" for part in up), bias=False),
                       **linear(f"{ours}.mlp.down", f"{last}.DenseReluDense.wo", bias=False)}
    return places


def write_t5(model: Transformer, target: str | Path) -> None:
    c = model.config
    refuse_other(model, KIND, "T5")
    names = {ours: theirs for theirs, ours in reversed([*ACTIVATIONS.items(), *GATES.items()])}
    values = {**common_values(model), "model_type": "t5", "architectures": ["T5ForConditionalGeneration"],
              "num_layers": c.n_layers, "num_decoder_layers": c.n_decoder_layers, "num_heads": c.n_heads,
              "d_kv": c.d_head or c.d_model // c.n_heads, "d_ff": c.d_mlp or 4 * c.d_model,
              "relative_attention_num_buckets": c.buckets, "relative_attention_max_distance": c.max_distance,
              "layer_norm_epsilon": c.norm_epsilon, "feed_forward_proj": names[c.activation], "dropout_rate": c.dropout,
              "n_positions": model.learnt["longest_source"], "scale_decoder_outputs": c.scaled_output,
              "tie_word_embeddings": c.scaled_output}
    write_translator(model, target, values, _layout(c.to_dict()))
