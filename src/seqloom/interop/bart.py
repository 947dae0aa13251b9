"""BART (Lewis et al. 2020) and Marian (Junczys-Dowmunt et al. 2018) of transformers: the post-norm Transformer in two dresses.

BART has learned positions, of which the first two rows are not used, and a norm of the vectors; its sources begin with `<s>`.
Marian has sinusoids, all sines before all cosines, where ours take turns: so the elements of its vectors change places,
everywhere, which changes nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from seqloom.config import MOST_WIDTH
from seqloom.errors import ConfigError
from seqloom.interop.encoder_decoders import (
    ACTIVATION_NAMES,
    MOST_ROWS,
    Place,
    activation,
    common_values,
    linear,
    read_learnt,
    read_translator,
    refuse_other,
    write_translator,
)
from seqloom.interop.hugging_face import ModelDirectory
from seqloom.interop.t5 import write_t5
from seqloom.models.translate.configs import GATED
from seqloom.models.translate.transformer import Transformer

BOTH = {"norm": "post", "norm_kind": "layer", "norm_epsilon": 1e-5, "bias": True, "scaled_attention": True,
        "scaled_output": False, "d_head": None}  # what both are
BART = {**BOTH, "positions": "learned", "embedding_norm": True, "shared_vocabulary": True}
MARIAN = {**BOTH, "positions": "sinusoidal", "embedding_norm": False}
OFFSET = 2  # rows of BART's table of positions before the first one
_ROWS = (".out.weight", ".out.bias", ".down.weight", ".down.bias", "norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias",
         "norm_cross.weight", "norm_cross.bias")  # arrays whose first axis is the width of the network
_COLUMNS = ("embedding.weight", "output.weight", ".qkv.weight", ".up.weight")  # those whose second one is


def read_bart(directory: ModelDirectory, task: str | None = None) -> Transformer:
    prefix = "" if "shared.weight" in directory.shapes else "model."  # as the network alone was saved, or with its output layer
    context = directory.whole("max_position_embeddings", 2, 1_000_000)
    tied = directory.flag("tie_word_embeddings", True)
    options = {**_sizes(directory), **BART, "context": context, "tied": tied, "max_length": min(context, 250)}
    learnt = read_learnt(directory, context, start=directory.whole("eos_token_id", 0, MOST_ROWS),
                         source_start=directory.whole("bos_token_id", 0, directory.whole("vocab_size", 2, MOST_ROWS) - 1))
    return read_translator(directory, "BART", options, learnt, _layout(options, prefix, "shared"),
                           surplus=_copies(prefix, tied=tied), missing=_no_bias(directory.whole("vocab_size", 2, MOST_ROWS)))


def read_marian(directory: ModelDirectory, task: str | None = None) -> Transformer:
    shared, tied = directory.flag("share_encoder_decoder_embeddings", True), directory.flag("tie_word_embeddings", True)
    options = {**_sizes(directory), **MARIAN, "shared_vocabulary": shared, "tied": tied}
    if options["d_model"] % 2:
        directory.fail(f"d_model is {options['d_model']}; its sinusoidal positions need an even width")
    start = directory.whole("pad_token_id", 0, MOST_ROWS)
    learnt = read_learnt(directory, directory.whole("max_position_embeddings", 1, 1_000_000), start=start)
    surplus = [*(f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder")),
               *(_copies("model.", tied=tied) if shared else ["lm_head.weight"] if tied else [])]
    rows = directory.whole("vocab_size" if shared else "decoder_vocab_size", 2, MOST_ROWS)
    return read_translator(directory, "Marian", options, learnt, _layout(options, "model.", "shared" if shared else None),
                           surplus=surplus, missing=_no_bias(rows), arranged=_arranged(take_turns(options["d_model"])))


def _sizes(directory: ModelDirectory) -> dict[str, Any]:
    for name in ("attention_heads", "ffn_dim"):
        encoder, decoder = (directory.whole(f"{side}_{name}", 1, MOST_WIDTH) for side in ("encoder", "decoder"))
        if encoder != decoder:
            directory.fail(f"encoder_{name} is {encoder} and decoder_{name} {decoder}; both must be one number")
    return {"d_model": directory.whole("d_model", 2, MOST_WIDTH), "n_layers": directory.whole("encoder_layers", 1, 100),
            "n_decoder_layers": directory.whole("decoder_layers", 1, 100),
            "d_mlp": directory.whole("encoder_ffn_dim", 1, MOST_WIDTH),
            "n_heads": directory.whole("encoder_attention_heads", 1, 1000),
            "activation": activation(directory, "activation_function", "gelu"),
            "scaled_embedding": directory.flag("scale_embedding", False), "dropout": directory.real("dropout", 0.0, 0.95, 0.1),
            "attention_dropout": directory.real("attention_dropout", 0.0, 0.95, 0.0)}


def _no_bias(rows: int) -> dict[str, np.ndarray]:
    return {"output.bias": np.zeros(rows, np.float32)}


def _copies(prefix: str, *, tied: bool) -> list[str]:
    """Tensors that are the vectors of tokens once more."""
    return [*(f"{prefix}{side}.embed_tokens.weight" for side in ("encoder", "decoder")), *(["lm_head.weight"] if tied else [])]


def _layout(c: dict[str, Any], prefix: str, shared: str | None) -> dict[str, Place]:
    """`shared`: the name of the vectors of both sides; None: each side has its own."""
    places = {"embedding.weight": Place((f"{prefix}{shared or 'decoder.embed_tokens'}.weight",)),
              "output.bias": Place(("final_logits_bias",), one_row=True)}
    if shared is None:
        places["reader.embedding.weight"] = Place((f"{prefix}encoder.embed_tokens.weight",))
    if not c["tied"]:
        places["output.weight"] = Place(("lm_head.weight",))
    for stack, many in (("encoder", c["n_layers"]), ("decoder", c["n_decoder_layers"])):
        if c["positions"] == "learned":
            position = Place((f"{prefix}{stack}.embed_positions.weight",), unused=OFFSET)
            places |= {f"{stack}_entrance.position.weight": position,
                       **linear(f"{stack}_entrance.norm", f"{prefix}{stack}.layernorm_embedding")}
        for i in range(many):
            ours, theirs = f"{stack}.{i}", f"{prefix}{stack}.layers.{i}"
            for attention, norm, name in (("attention", "norm1", "self_attn"), ("cross", "norm_cross", "encoder_attn")):
                if attention == "attention" or stack == "decoder":
                    places |= {**linear(f"{ours}.{attention}.qkv", *(f"{theirs}.{name}.{part}_proj" for part in "qkv")),
                               **linear(f"{ours}.{attention}.out", f"{theirs}.{name}.out_proj"),
                               **linear(f"{ours}.{norm}", f"{theirs}.{name}_layer_norm")}
            places |= {**linear(f"{ours}.mlp.up", f"{theirs}.fc1"), **linear(f"{ours}.mlp.down", f"{theirs}.fc2"),
                       **linear(f"{ours}.norm2", f"{theirs}.final_layer_norm")}
    return places


def take_turns(width: int) -> np.ndarray:
    """Where, in vectors of all sines and then all cosines, the elements lie of those in which they take turns.

    >>> take_turns(6).tolist()
    [0, 3, 1, 4, 2, 5]
    """
    return np.arange(width).reshape(2, -1).T.ravel()


def _arranged(order: np.ndarray) -> Callable[[str, np.ndarray], np.ndarray]:
    """A function of the name and the values of an array that puts the elements of the network's vectors in this order."""
    def arranged(name: str, array: np.ndarray) -> np.ndarray:
        return array[order] if name.endswith(_ROWS) else array[:, order] if name.endswith(_COLUMNS) else array

    return arranged


# ---- writing


def write_transformer(model: Transformer, target: str | Path) -> None:
    """As the family whose positions the model has."""
    {"t5": write_t5, "learned": write_bart, "sinusoidal": write_marian}[model.config.positions](model, target)


def write_bart(model: Transformer, target: str | Path) -> None:
    refuse_other(model, BART, "BART")
    if model.source_start is None:
        raise ConfigError("the sources of this transformer model have no start token, and those of BART have; it cannot be "
                          "written for it")
    values = {**_values(model), "model_type": "bart", "architectures": ["BartForConditionalGeneration"],
              "max_position_embeddings": model.config.context, "bos_token_id": model.source_start}
    write_translator(model, target, values, _layout(model.config.to_dict(), "model.", "shared"))


def write_marian(model: Transformer, target: str | Path) -> None:
    refuse_other(model, MARIAN, "Marian")
    if model.reads_numbers or model.source_start is not None:
        raise ConfigError("the sources of this transformer model are not texts alone; it cannot be written for Marian")
    c = model.config
    values = {**_values(model), "model_type": "marian", "architectures": ["MarianMTModel"],
              "max_position_embeddings": max(512, model.learnt["longest_source"], model.learnt["longest_target"]),
              "share_encoder_decoder_embeddings": c.shared_vocabulary, "decoder_vocab_size": model.target_tokenizer.vocab_size}
    back = np.argsort(take_turns(c.d_model))
    write_translator(model, target, values, _layout(c.to_dict(), "model.", "shared" if c.shared_vocabulary else None),
                     arranged=_arranged(back))


def _values(model: Transformer) -> dict[str, Any]:
    c = model.config
    if c.activation in GATED:
        raise ConfigError(f"this transformer model has the activation {c.activation}, which BART and Marian have not")
    sides = {f"{side}_{name}": value for side, layers in (("encoder", c.n_layers), ("decoder", c.n_decoder_layers))
             for name, value in (("layers", layers), ("attention_heads", c.n_heads), ("ffn_dim", c.d_mlp or 4 * c.d_model))}
    return {**common_values(model), **sides, "activation_function": ACTIVATION_NAMES[c.activation], "dropout": c.dropout,
            "attention_dropout": c.attention_dropout, "scale_embedding": c.scaled_embedding, "tie_word_embeddings": c.tied}
