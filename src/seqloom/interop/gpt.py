"""GPT-2 (Radford et al. 2019) and Llama (Touvron et al. 2023) as `gpt`: from directories of transformers and back, and Llama
from GGUF files.

Values that would change the result and that `gpt` has no option for are refused by name.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from seqloom.config import MOST_WIDTH
from seqloom.errors import ConfigError, quoted
from seqloom.interop.gguf import GGUFFile
from seqloom.interop.gguf_tokenizers import begins_with_bos as gguf_begins_with_bos
from seqloom.interop.gguf_tokenizers import read_gguf_tokenizer
from seqloom.interop.hugging_face import ModelDirectory, write_directory
from seqloom.interop.hugging_face_tokenizers import (
    TEMPLATE,
    begins_with_bos,
    check_template,
    read_template,
    read_tokenizer,
    special_tokens,
    tokenizer_files,
)
from seqloom.interop.layouts import GGUF_LLAMA, GPT2, LLAMA
from seqloom.interop.tensors import Layout, Parts
from seqloom.interop.values import Keys, Values
from seqloom.models.language.gpt import GPT
from seqloom.models.language.neural_configs import GPTConfig

MAX_LAYERS, MAX_HEADS, MAX_CONTEXT = 1000, 10_000, 1_000_000
ACTIVATIONS = {"gelu_new": "gelu", "gelu_pytorch_tanh": "gelu", "gelu_fast": "gelu", "relu": "relu"}  # theirs: ours

GPT2_KEYS: Keys = {
    "context": ("n_positions", 2, MAX_CONTEXT, 1024),
    "d_model": ("n_embd", 1, MOST_WIDTH, 768),
    "n_layers": ("n_layer", 1, MAX_LAYERS, 12),
    "n_heads": ("n_head", 1, MAX_HEADS, 12),
    "norm_epsilon": ("layer_norm_epsilon", 1e-12, 1.0, 1e-5),
    "dropout": ("resid_pdrop", 0.0, 0.95, 0.1),
    "tied": ("tie_word_embeddings", True),
}
LLAMA_KEYS: Keys = {
    "context": ("max_position_embeddings", 2, MAX_CONTEXT, 2048),
    "d_model": ("hidden_size", 1, MOST_WIDTH, 4096),
    "n_layers": ("num_hidden_layers", 1, MAX_LAYERS, 32),
    "n_heads": ("num_attention_heads", 1, MAX_HEADS, 32),
    "d_mlp": ("intermediate_size", 1, MOST_WIDTH, 11008),
    "norm_epsilon": ("rms_norm_eps", 1e-12, 1.0, 1e-6),
    "tied": ("tie_word_embeddings", False),
}
GGUF_KEYS: Keys = {
    "context": ("llama.context_length", 1, MAX_CONTEXT),
    "d_model": ("llama.embedding_length", 1, MOST_WIDTH),
    "n_layers": ("llama.block_count", 1, MAX_LAYERS),
    "n_heads": ("llama.attention.head_count", 1, MAX_HEADS),
    "d_mlp": ("llama.feed_forward_length", 1, MOST_WIDTH),
    "norm_epsilon": ("llama.attention.layer_norm_rms_epsilon", 1e-12, 1.0),
    "rope_base": ("llama.rope.freq_base", 1.0, 1e12, 10000.0),
}
# What makes a `gpt` a GPT-2 or a Llama; the first of several is what is meant where a file does not say.
KINDS: dict[str, dict[str, tuple[Any, ...]]] = {
    "gpt2": {"positions": ("learned",), "norm": ("pre",), "norm_kind": ("layer",), "activation": ("gelu", "relu")},
    "llama": {"positions": ("rope",), "norm": ("pre",), "norm_kind": ("rms",), "activation": ("swiglu",)},
}


def _kind(family: str) -> dict[str, Any]:
    usual = {option: able[0] for option, able in KINDS[family].items()}
    return {**usual, "unit": "document", "carry": False}


# ---- reading


def read_gpt2(directory: ModelDirectory, task: str | None = None) -> Parts:
    """Return the parts of a GPT-2 with its language-model head."""
    options = directory.options(GPT2_KEYS)
    only = {"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "add_cross_attention": False}
    for key, value in only.items():
        if directory.flag(key, value) is not value:
            directory.fail(f"{key} is {str(not value).lower()}, which is not supported")
    options |= _kind("gpt2") | {
        "activation": directory.choice("activation_function", ACTIVATIONS, "gelu_new"),
        "bias": True,
        **directory.options({"d_mlp": ("n_inner", 1, MOST_WIDTH, 4 * options["d_model"])}),
    }
    return _parts(directory, GPT2, options)


def read_llama(directory: ModelDirectory, task: str | None = None) -> Parts:
    """Return the parts of a Llama with its language-model head; biases that only some linear layers have are zero in others."""
    options = directory.options(LLAMA_KEYS)
    d_model, n_heads = options["d_model"], options["n_heads"]
    directory.choice("hidden_act", {"silu": "swiglu", "swish": "swiglu"}, "silu")
    if directory.values.get("head_dim") is not None and directory.whole("head_dim", 1, MOST_WIDTH) * n_heads != d_model:
        directory.fail(f"head_dim is {directory.values['head_dim']}, not {d_model // n_heads}, the width of one of {n_heads} "
                       "heads; this is not supported")
    biases = {"attention": directory.flag("attention_bias", False), "mlp": directory.flag("mlp_bias", False)}
    options |= _kind("llama") | {
        "rope_base": _rope_base(directory),
        "bias": any(biases.values()),
        "dropout": 0.0,
        **directory.options({"n_kv_heads": ("num_key_value_heads", 1, MAX_HEADS, n_heads)}),
    }
    ends = {"attention": ("attention.qkv.bias", "attention.out.bias"), "mlp": ("mlp.up.bias", "mlp.down.bias")}
    return _parts(directory, LLAMA, options, tuple(end for part, has in biases.items() if not has for end in ends[part]))


def _rope_base(directory: ModelDirectory) -> float:
    """Return that of the wavelengths, from the older or the newer form of config.json; scaled positions are refused."""
    for name in ("rope_parameters", "rope_scaling"):
        inner = directory.values.get(name) or {}
        if not isinstance(inner, dict):
            directory.lacks(name, inner, "a table of values")
        kind = inner.get("rope_type", inner.get("type", "default"))
        if kind != "default":
            directory.fail(f"its rotary positions are scaled ({quoted(kind)}), which is not supported")
        if "rope_theta" in inner:
            return Values(f"{directory.name}: {name}", inner).real("rope_theta", 1.0, 1e12)
    return directory.real("rope_theta", 1.0, 1e12, 10000.0)


def _parts(directory: ModelDirectory, layout: Layout, options: dict[str, Any], absent: tuple[str, ...] = ()) -> Parts:
    embedding = f"{layout.prefix_of(directory.shapes)}{layout.body['embedding']}.weight"
    tokenizer = read_tokenizer(directory, directory.rows(embedding))
    head = "lm_head.weight"
    copied = options["tied"] and head in directory.shapes
    if copied and not np.array_equal(directory.array(head), directory.array(embedding)):
        # what transformers does with another output layer depends on its version
        directory.fail(f"tie_word_embeddings is true, and {head} is not {embedding}")
    name = special_tokens(directory).get("bos")
    bos = None if name is None else tokenizer.id(name)
    learnt = _learnt(options, bos, begins_with_bos(directory), read_template(directory.path))
    return Parts(directory, GPT, options, {"text": tokenizer}, learnt, layout, directory.record("transformers"), absent,
                 [head] if copied else [])


def _learnt(options: dict[str, Any], bos: int | None, begins: bool, template: str | None) -> dict[str, Any]:
    """Return what texts began with when the model was trained, a token or nothing, and how it takes messages."""
    learnt = {"width": options["d_model"], **({"start": bos} if begins and bos is not None else {"start_alone": True})}
    if template:
        learnt |= {"chat_template": template, **({} if bos is None else {"chat_bos": bos})}
    return learnt


def read_gguf_llama(file: GGUFFile) -> Parts:
    """Return the parts of a Llama in a GGUF file."""
    architecture = file.text("general.architecture")
    if architecture != "llama":
        file.fail(f"a model of the architecture {quoted(architecture)}; llama can be converted")
    tokenizer = read_gguf_tokenizer(file)
    options = file.options(GGUF_KEYS)
    n_heads = options["n_heads"]
    d_head = options["d_model"] // n_heads
    for key in ("llama.rope.dimension_count", "llama.attention.key_length", "llama.attention.value_length"):
        if file.whole(key, 1, MOST_WIDTH, d_head) != d_head:
            file.fail(f"{key} is not {d_head}, the width of one of {n_heads} heads; this is not supported")
    scaling = file.text("llama.rope.scaling.type", "none")
    if scaling != "none":
        file.fail(f"its rotary positions are scaled ({quoted(scaling)}), which is not supported")
    options |= _kind("llama") | {
        "norm_epsilon": float(f"{options['norm_epsilon']:.7g}"),  # the decimal number that the file has as float32
        "bias": False,
        "dropout": 0.0,
        "tied": "output.weight" not in file.tensors,
        **file.options({"n_kv_heads": ("llama.attention.head_count_kv", 1, MAX_HEADS, n_heads)}),
    }
    template, begins = file.text("tokenizer.chat_template", ""), gguf_begins_with_bos(file)
    if template:
        check_template(template, file.name)
    key = "tokenizer.ggml.bos_token_id"
    bos = file.whole(key, 0, tokenizer.vocab_size - 1) if begins or (template and key in file.values) else None
    named = {name: value for name in ("name", "license") if isinstance(value := file.values.get(f"general.{name}"), str)}
    return Parts(file, GPT, options, {"text": tokenizer}, _learnt(options, bos, begins, template), GGUF_LLAMA,
                 file.record("GGUF", **named), d_head=d_head)


# ---- writing


def write_gpt(model: GPT, target: str | Path) -> None:
    """Write config.json, model.safetensors, the tokenizer and its chat template, which transformers opens."""
    model.check_fitted()
    config = replace(model.config, d_model=model.learnt["width"])
    family = _family(config)
    alone = model.learnt.get("start_alone", False)
    files = tokenizer_files(model.tokenizer, config.context, start=None if alone else model.start_id)
    if template := model.learnt.get("chat_template"):
        files[TEMPLATE] = template
    d_mlp, dropout, weights = config.d_mlp or 4 * (config.d_model or 0), config.dropout or 0.0, dict(model.weights)
    values = {"model_type": family, "vocab_size": model.tokenizer.vocab_size, "bos_token_id": model.start_id,
              "eos_token_id": model.tokenizer.eos_id, "torch_dtype": "float32"}
    if family == "gpt2":
        activation = "gelu_new" if config.activation == "gelu" else config.activation
        values |= {**_written(replace(config, dropout=dropout), GPT2_KEYS), "architectures": ["GPT2LMHeadModel"],
                   "n_inner": d_mlp, "n_ctx": config.context, "activation_function": activation, "embd_pdrop": dropout,
                   "attn_pdrop": dropout}
        for name, array in model.weights.items():  # it has biases in any case
            if not config.bias and (name.startswith("blocks.") or name == "norm.weight"):
                weights[name.removesuffix("weight") + "bias"] = np.zeros(len(array), np.float32)
    else:
        values |= {**_written(replace(config, d_mlp=d_mlp), LLAMA_KEYS), "architectures": ["LlamaForCausalLM"],
                   "num_key_value_heads": config.n_kv_heads or config.n_heads, "hidden_act": "silu",
                   "attention_bias": config.bias, "mlp_bias": config.bias, "rope_theta": config.rope_base,
                   "rope_parameters": {"rope_type": "default", "rope_theta": config.rope_base}}
    write_directory(target, values, (GPT2 if family == "gpt2" else LLAMA).write(weights), files)


def _written(config: GPTConfig, keys: Keys) -> dict[str, Any]:
    return {key: getattr(config, option) for option, (key, *_) in keys.items()}


def _family(config: GPTConfig) -> str:
    """Return the family that has these options; an error names those that the nearer one lacks."""
    if config.softmax == "adaptive":
        raise ConfigError("its softmax is adaptive, which neither the GPT-2 nor the Llama of transformers has")
    lacks = {family: [f"{option} {getattr(config, option)} (there: {' or '.join(able)})" for option, able in options.items()
                      if getattr(config, option) not in able] for family, options in KINDS.items()}
    if config.n_kv_heads not in (None, config.n_heads):
        lacks["gpt2"].append(f"n_kv_heads {config.n_kv_heads} (there: as many as n_heads)")
    nearest = min(lacks, key=lambda family: len(lacks[family]))
    if lacks[nearest]:
        raise ConfigError(f"transformers has no gpt with these options; what its {nearest} has not: "
                          f"{', '.join(lacks[nearest])}")
    return nearest
