"""A `gpt` as a directory of transformers: in the layout of GPT-2 or of Llama, whichever has its options, with its tokenizer.

Linear layers and norms without a bias are written with one of zeros where the layout has biases. Options that neither layout
has are refused by name.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from seqloom.errors import ConfigError
from seqloom.interop.gpt_layouts import GPT2, LLAMA, Layout, heights
from seqloom.interop.hugging_face import write_directory
from seqloom.interop.hugging_face_tokenizer_writer import tokenizer_files
from seqloom.models.language.gpt import GPT
from seqloom.models.language.neural_configs import GPTConfig


def write_gpt(model: GPT, target: str | Path) -> None:
    """config.json, model.safetensors, tokenizer.json and tokenizer_config.json, which transformers opens."""
    model.check_fitted()
    config = replace(model.config, d_model=model.learnt["width"])
    layout = _layout(config)
    alone = model.learnt.get("start_alone", False)
    files = tokenizer_files(model.tokenizer, config.context, start=None if alone else model.start_id)
    values = {"model_type": layout.name, "architectures": [layout.architecture], "vocab_size": model.tokenizer.vocab_size,
              "bos_token_id": model.start_id, "eos_token_id": model.tokenizer.eos_id, "torch_dtype": "float32",
              "tie_word_embeddings": config.tied, **(_gpt2_values(config) if layout is GPT2 else _llama_values(config))}
    write_directory(target, values, _tensors(model, config, layout), files)


def _layout(config: GPTConfig) -> Layout:
    """The one that has its options, or an error with those that the nearer of both lacks."""
    if config.softmax == "adaptive":
        raise ConfigError("its softmax is adaptive, which neither the GPT-2 nor the Llama of transformers has")
    lacks = {layout.name: [f"{name} {getattr(config, name)} (there: {' or '.join(able)})" for name, able in layout.asks.items()
                           if getattr(config, name) not in able] for layout in (GPT2, LLAMA)}
    if config.n_kv_heads not in (None, config.n_heads):
        lacks[GPT2.name].append(f"n_kv_heads {config.n_kv_heads} (there: as many as n_heads)")
    for layout in (GPT2, LLAMA):
        if not lacks[layout.name]:
            return layout
    nearest = min(lacks, key=lambda name: len(lacks[name]))
    raise ConfigError(f"transformers has no gpt with these options; what its {nearest} has not: {', '.join(lacks[nearest])}")


def _gpt2_values(c: GPTConfig) -> dict[str, Any]:
    dropout = c.dropout or 0.0
    return {"n_embd": c.d_model, "n_layer": c.n_layers, "n_head": c.n_heads, "n_inner": c.d_mlp or 4 * (c.d_model or 0),
            "n_positions": c.context, "n_ctx": c.context, "layer_norm_epsilon": c.norm_epsilon,
            "activation_function": "gelu_new" if c.activation == "gelu" else c.activation,
            "resid_pdrop": dropout, "embd_pdrop": dropout, "attn_pdrop": dropout}


def _llama_values(c: GPTConfig) -> dict[str, Any]:
    return {"hidden_size": c.d_model, "num_hidden_layers": c.n_layers, "num_attention_heads": c.n_heads,
            "num_key_value_heads": c.n_kv_heads or c.n_heads, "intermediate_size": c.d_mlp or 4 * (c.d_model or 0),
            "max_position_embeddings": c.context, "rms_norm_eps": c.norm_epsilon, "hidden_act": "silu",
            "attention_bias": c.bias, "mlp_bias": c.bias, "rope_theta": c.rope_base,
            "rope_parameters": {"rope_type": "default", "rope_theta": c.rope_base}}


def _tensors(model: GPT, config: GPTConfig, layout: Layout) -> dict[str, np.ndarray]:
    tensors: dict[str, np.ndarray] = {}
    for name, array in model.weights.items():
        theirs = layout.theirs(name)
        cuts: Any = np.cumsum(heights(config, name, len(array)))[:-1] if len(theirs) > 1 else []
        for their_name, part in zip(theirs, np.split(array, cuts), strict=True):
            tensors[their_name] = np.ascontiguousarray(layout.turned(name, part))
            if layout is GPT2 and not config.bias and (name.startswith("blocks.") or name == "norm.weight"):
                tensors[their_name.removesuffix("weight") + "bias"] = np.zeros(len(part), np.float32)
    return tensors
