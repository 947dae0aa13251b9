"""GPT-2 (Radford et al. 2019) and Llama (Touvron et al. 2023) as `gpt`, and back; Llama from GGUF files, too.

Values that would change the result and that `gpt` has no option for are refused by name.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from seqloom.config import MOST_WIDTH
from seqloom.errors import ConfigError, quoted
from seqloom.interop import gguf_tokenizers as gguf
from seqloom.interop import hugging_face_tokenizers as tokenizers
from seqloom.interop.gguf import GGUFFile
from seqloom.interop.hugging_face import ModelDirectory, write_directory
from seqloom.interop.layouts import GGUF_LLAMA, GPT2, LLAMA
from seqloom.interop.tensors import Layout, Parts
from seqloom.interop.values import Keys, Values, written
from seqloom.models.language.configs import GPTConfig
from seqloom.models.language.gpt import GPT

MAX_LAYERS, MAX_HEADS, MAX_CONTEXT = 1000, 10_000, 1_000_000
ACTIVATIONS = {"gelu_new": "gelu", "gelu_pytorch_tanh": "gelu", "gelu_fast": "gelu", "relu": "relu"}

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
GPT2_FLAGS = {  # all that can be converted
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
}
KINDS: dict[str, dict[str, tuple[Any, ...]]] = {  # the options of a `gpt` that is one of them
    "gpt2": {
        "positions": ("learned",),
        "norm": ("pre",),
        "norm_kind": ("layer",),
        "activation": ("gelu", "relu"),
    },
    "llama": {
        "positions": ("rope",),
        "norm": ("pre",),
        "norm_kind": ("rms",),
        "activation": ("swiglu",),
    },
}
BIASES = {  # the ends of our names, by their flags
    "attention_bias": ("attention.qkv.bias", "attention.out.bias"),
    "mlp_bias": ("mlp.up.bias", "mlp.down.bias"),
}


# ---- reading


def read_gpt2(directory: ModelDirectory, task: str | None = None) -> Parts:
    """Return the parts of a GPT-2 with its language-model head."""
    options = directory.options(GPT2_KEYS)
    for key, value in GPT2_FLAGS.items():
        if directory.flag(key, value) is not value:
            directory.fail(f"{key} is {str(not value).lower()}, which is not supported")
    options |= directory.options({"d_mlp": ("n_inner", 1, MOST_WIDTH, 4 * options["d_model"])})
    options["activation"] = directory.choice("activation_function", ACTIVATIONS, "gelu_new")
    return _parts(directory, GPT2, {**_kind("gpt2"), **options, "bias": True})


def read_llama(directory: ModelDirectory, task: str | None = None) -> Parts:
    """Return the parts of a Llama with its head; biases that only some layers have are zero in others."""
    options = directory.options(LLAMA_KEYS)
    d_model, n_heads = options["d_model"], options["n_heads"]
    directory.choice("hidden_act", {"silu": "swiglu", "swish": "swiglu"}, "silu")
    d_head = directory.values.get("head_dim")
    if d_head is not None and directory.integer("head_dim", 1, MOST_WIDTH) * n_heads != d_model:
        directory.fail(
            f"head_dim is {d_head}, not {d_model // n_heads}, the width of one of {n_heads} "
            "heads; this is not supported"
        )
    options |= directory.options({"n_kv_heads": ("num_key_value_heads", 1, MAX_HEADS, n_heads)})
    absent = [ends for flag, ends in BIASES.items() if not directory.flag(flag, False)]
    options |= {
        "rope_base": _rope_base(directory),
        "bias": len(absent) < len(BIASES),
        "dropout": 0.0,
    }
    return _parts(directory, LLAMA, {**_kind("llama"), **options}, sum(absent, ()))


def _kind(family: str) -> dict[str, Any]:
    usual = {option: able[0] for option, able in KINDS[family].items()}
    return {**usual, "unit": "document", "carry": False}


def _rope_base(directory: ModelDirectory) -> float:
    """Return that of the wavelengths, in the older or the newer form; scaled positions are refused."""
    for name in ("rope_parameters", "rope_scaling"):
        inner = directory.values.get(name) or {}
        if not isinstance(inner, dict):
            directory.lacks(name, inner, "a table of values")
        kind = inner.get("rope_type", inner.get("type", "default"))
        if kind != "default":
            directory.fail(
                f"its rotary positions are scaled ({quoted(kind)}), which is not supported"
            )
        if "rope_theta" in inner:
            return Values(f"{directory.name}: {name}", inner).real("rope_theta", 1.0, 1e12)
    return directory.real("rope_theta", 1.0, 1e12, 10000.0)


def _parts(
    directory: ModelDirectory, layout: Layout, options: dict[str, Any], absent: tuple[str, ...] = ()
) -> Parts:
    head, embedding = (layout.weight(layer, directory.shapes) for layer in ("output", "embedding"))
    tokenizer = tokenizers.read_tokenizer(directory, directory.rows(embedding))
    copies = [head] if options["tied"] and head in directory.shapes else []
    if copies and not np.array_equal(directory.array(head), directory.array(embedding)):
        # what transformers does with another output layer depends on its version
        directory.fail(f"tie_word_embeddings is true, and {head} is not {embedding}")
    name = tokenizers.special_tokens(directory).get("bos")
    bos = None if name is None else tokenizer.id(name)
    template = tokenizers.read_template(directory.path)
    learnt = _learnt(options, bos, tokenizers.begins_with_bos(directory), template)
    return Parts(
        directory,
        GPT,
        options,
        {"text": tokenizer},
        learnt,
        layout,
        directory.record("transformers"),
        absent,
        copies,
    )


def _learnt(
    options: dict[str, Any], bos: int | None, begins: bool, template: str | None
) -> dict[str, Any]:
    """Return what texts began with in training, a token or nothing, and how messages are written down."""
    learnt: dict[str, Any] = {"width": options["d_model"]}
    learnt |= {"start": bos} if begins and bos is not None else {"start_alone": True}
    if template:
        learnt |= {"chat_template": template, **({} if bos is None else {"chat_bos": bos})}
    return learnt


def read_gguf_llama(file: GGUFFile) -> Parts:
    """Return the parts of a Llama in a GGUF file."""
    architecture = file.text("general.architecture")
    if architecture != "llama":
        file.fail(f"a model of the architecture {quoted(architecture)}; llama can be converted")
    tokenizer = gguf.read_gguf_tokenizer(file)
    options = file.options(GGUF_KEYS)
    n_heads = options["n_heads"]
    d_head = options["d_model"] // n_heads
    for key in (
        "llama.rope.dimension_count",
        "llama.attention.key_length",
        "llama.attention.value_length",
    ):
        if file.integer(key, 1, MOST_WIDTH, d_head) != d_head:
            file.fail(
                f"{key} is not {d_head}, the width of one of {n_heads} heads; this is not supported"
            )
    scaling = file.text("llama.rope.scaling.type", "none")
    if scaling != "none":
        file.fail(f"its rotary positions are scaled ({quoted(scaling)}), which is not supported")
    options |= file.options(
        {"n_kv_heads": ("llama.attention.head_count_kv", 1, MAX_HEADS, n_heads)}
    )
    options["norm_epsilon"] = float(f"{options['norm_epsilon']:.7g}")  # a float32 in the file
    options |= {"bias": False, "dropout": 0.0, "tied": "output.weight" not in file.tensors}
    template, begins = file.text("tokenizer.chat_template", ""), gguf.begins_with_bos(file)
    if template:
        tokenizers.check_template(template, file.name)
    key = "tokenizer.ggml.bos_token_id"
    needed = begins or (template and key in file.values)
    bos = file.integer(key, 0, tokenizer.vocab_size - 1) if needed else None
    texts = {name: file.values.get(f"general.{name}") for name in ("name", "license")}
    info = file.record(
        "GGUF", **{name: text for name, text in texts.items() if isinstance(text, str)}
    )
    return Parts(
        file,
        GPT,
        {**_kind("llama"), **options},
        {"text": tokenizer},
        _learnt(options, bos, begins, template),
        GGUF_LLAMA,
        info,
        d_head=d_head,
    )


# ---- writing


def write_gpt(model: GPT, target: str | Path) -> None:
    """Write config.json, model.safetensors, the tokenizer and its chat template, which transformers opens."""
    model.check_fitted()
    config = replace(model.config, d_model=model.learnt["width"])
    family, layout, weights = _family(config), LLAMA, dict(model.weights)
    start = None if model.learnt.get("start_alone", False) else model.start_id
    files = tokenizers.tokenizer_files(model.tokenizer, config.context, start=start)
    if template := model.learnt.get("chat_template"):
        files[tokenizers.TEMPLATE] = template
    options = {**config.to_dict(), "dropout": config.dropout or 0.0}
    options["d_mlp"] = config.d_mlp or 4 * options["d_model"]
    values = {
        "model_type": family,
        "vocab_size": model.tokenizer.vocab_size,
        "bos_token_id": model.start_id,
        "eos_token_id": model.tokenizer.eos_id,
        "torch_dtype": "float32",
    }
    if family == "gpt2":
        layout = GPT2
        values |= written(options, GPT2_KEYS) | {
            "architectures": ["GPT2LMHeadModel"],
            "n_inner": options["d_mlp"],
            "n_ctx": config.context,
            "activation_function": "gelu_new" if config.activation == "gelu" else config.activation,
            "embd_pdrop": options["dropout"],
            "attn_pdrop": options["dropout"],
        }
        for name, array in model.weights.items():  # it has biases in any case
            if not config.bias and (name.startswith("blocks.") or name == "norm.weight"):
                weights[name.removesuffix("weight") + "bias"] = np.zeros(len(array), np.float32)
    else:
        values |= (
            written(options, LLAMA_KEYS)
            | dict.fromkeys(BIASES, config.bias)
            | {
                "architectures": ["LlamaForCausalLM"],
                "num_key_value_heads": config.n_kv_heads or config.n_heads,
                "hidden_act": "silu",
                "rope_theta": config.rope_base,
                "rope_parameters": {"rope_type": "default", "rope_theta": config.rope_base},
            }
        )
    write_directory(target, values, layout.write(weights), files)


def _family(config: GPTConfig) -> str:
    """Return the family that has these options; an error names those that the nearer one lacks."""
    if config.softmax == "adaptive":
        raise ConfigError(
            "its softmax is adaptive, which neither GPT-2 nor Llama of transformers has"
        )
    lacks = {
        family: [
            f"{option} {getattr(config, option)} (there: {' or '.join(able)})"
            for option, able in options.items()
            if getattr(config, option) not in able
        ]
        for family, options in KINDS.items()
    }
    if config.n_kv_heads not in (None, config.n_heads):
        lacks["gpt2"].append(f"n_kv_heads {config.n_kv_heads} (there: as many as n_heads)")
    nearest = min(lacks, key=lambda family: len(lacks[family]))
    if lacks[nearest]:
        raise ConfigError(
            f"transformers has no gpt with these options; what its {nearest} has not: "
            f"{', '.join(lacks[nearest])}"
        )
    return nearest
