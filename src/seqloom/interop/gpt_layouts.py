"""Where transformers keeps the weights of a `gpt`: as GPT-2 (Radford et al. 2019) or as Llama (Touvron et al. 2023) does.

A layout says which tensors of theirs, one below the other, make one of ours. GPT-2 stores its linear layers transposed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from seqloom.models.language.neural_configs import GPTConfig
from seqloom.models.language.shapes import gpt_shapes
from seqloom.models.network.shapes import Shapes
from seqloom.models.network.sizes import Size


@dataclass(frozen=True)
class Layout:
    name: str  # the model_type of config.json
    architecture: str
    outside: dict[str, str]  # embedding, positions, last norm and output layer: our name, their name
    block: str  # what the names of block number {} begin with
    inside: dict[str, tuple[str, ...]]  # the parts of a block
    transposed: bool  # linear layers are (in, out)
    asks: dict[str, tuple[Any, ...]]  # the options of a `gpt` that it can hold, where only some can be
    surplus: tuple[str, ...]  # ends of names of tensors that are not learnt

    def theirs(self, name: str) -> tuple[str, ...]:
        """The names of their tensors that make ours."""
        kind = name.rpartition(".")[2]
        if name.startswith("blocks."):
            _, number, part = name.removesuffix(f".{kind}").split(".", 2)
            return tuple(f"{self.block.format(number)}{theirs}.{kind}" for theirs in self.inside[part])
        return (f"{self.outside[name.removesuffix(f'.{kind}')]}.{kind}",)

    def turned(self, name: str, array: np.ndarray) -> np.ndarray:
        """One of their linear layers as ours or back; anything else as it is."""
        return array.T if self.transposed and name.startswith("blocks.") and array.ndim == 2 else array


GPT2 = Layout(
    "gpt2", "GPT2LMHeadModel",
    {"embedding": "transformer.wte", "position": "transformer.wpe", "norm": "transformer.ln_f", "output": "lm_head"},
    "transformer.h.{}.",
    {"norm1": ("ln_1",), "attention.qkv": ("attn.c_attn",), "attention.out": ("attn.c_proj",), "norm2": ("ln_2",),
     "mlp.up": ("mlp.c_fc",), "mlp.down": ("mlp.c_proj",)}, True,
    {"positions": ("learned",), "norm": ("pre",), "norm_kind": ("layer",), "activation": ("gelu", "relu")},
    (".attn.bias", ".attn.masked_bias"))

LLAMA = Layout(
    "llama", "LlamaForCausalLM",
    {"embedding": "model.embed_tokens", "norm": "model.norm", "output": "lm_head"}, "model.layers.{}.",
    {"norm1": ("input_layernorm",), "attention.qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
     "attention.out": ("self_attn.o_proj",), "norm2": ("post_attention_layernorm",),
     "mlp.up": ("mlp.gate_proj", "mlp.up_proj"), "mlp.down": ("mlp.down_proj",)}, False,
    {"positions": ("rope",), "norm": ("pre",), "norm_kind": ("rms",), "activation": ("swiglu",)},
    (".rotary_emb.inv_freq",))


def our_shapes(config: GPTConfig, vocab_size: int) -> Shapes:
    assert config.d_model is not None
    return gpt_shapes(config, vocab_size, Size(config.d_model))


def heights(config: GPTConfig, name: str, rows: int) -> list[int]:
    """The rows that each of their tensors has in ours of this name, for layouts that keep these apart."""
    assert config.d_model is not None
    if ".attention.qkv." in name:
        d_kv = config.d_model // config.n_heads * (config.n_kv_heads or config.n_heads)
        return [config.d_model, d_kv, d_kv]
    return [rows // 2, rows // 2] if ".mlp.up." in name and config.activation == "swiglu" else [rows]


def their_shapes(layout: Layout, config: GPTConfig, vocab_size: int, without: Iterable[str] = ()) -> Shapes:
    """What their file must hold; `without` are names of ours that it leaves out."""
    shapes: Shapes = {}
    for name, shape in our_shapes(config, vocab_size).items():
        theirs = layout.theirs(name)
        if name in without:
            continue
        parts = heights(config, name, shape[0]) if len(theirs) > 1 else [shape[0]]
        for their_name, rows in zip(theirs, parts, strict=True):
            whole = (rows, *shape[1:])
            turned = layout.transposed and name.startswith("blocks.") and len(whole) == 2
            shapes[their_name] = whole[::-1] if turned else whole
    return shapes
