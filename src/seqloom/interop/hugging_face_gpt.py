"""GPT-2 and Llama from directories of transformers, as `gpt` with the options that make it one and with their own tokenizer.

Values that would change the result and that `gpt` has no option for are refused by name, and so is every tensor that is
missing, surplus or of another shape. What is in a file but not learnt, masks and wavelengths of positions, is left aside.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seqloom import progress
from seqloom.config import MOST_WIDTH
from seqloom.errors import ConfigError, quoted
from seqloom.interop.gpt_layouts import GPT2, LLAMA, Layout, our_shapes, their_shapes
from seqloom.interop.hugging_face import ModelDirectory
from seqloom.interop.hugging_face_tokenizers import begins_with_bos, read_tokenizer, special_tokens
from seqloom.interop.values import Values
from seqloom.models.language.gpt import GPT
from seqloom.text.tokenizer import Tokenizer

MOST_LAYERS, MOST_HEADS, MOST_CONTEXT = 1000, 10_000, 1_000_000
ACTIVATIONS = {"gelu_new": "gelu", "gelu_pytorch_tanh": "gelu", "gelu_fast": "gelu", "relu": "relu"}  # of GPT-2


def read_gpt2(directory: ModelDirectory, task: str | None = None) -> GPT:
    """A GPT-2 with its language-model head."""
    d = directory
    width = d.whole("n_embd", 1, MOST_WIDTH, 768)
    activation = d.text("activation_function", "gelu_new")
    if activation not in ACTIVATIONS:
        d.fail(f"activation_function is {quoted(activation)}; {', '.join(ACTIVATIONS)} can be converted")
    _refuse(d, scale_attn_weights=True, scale_attn_by_inverse_layer_idx=False, add_cross_attention=False)
    inner = None if d.values.get("n_inner") is None else d.whole("n_inner", 1, MOST_WIDTH)
    options = {"context": d.whole("n_positions", 2, MOST_CONTEXT, 1024), "d_model": width,
               "n_layers": d.whole("n_layer", 1, MOST_LAYERS, 12), "n_heads": d.whole("n_head", 1, MOST_HEADS, 12),
               "d_mlp": inner or 4 * width, "positions": "learned", "norm": "pre", "norm_kind": "layer",
               "norm_epsilon": d.real("layer_norm_epsilon", 1e-12, 1.0, 1e-5), "activation": ACTIVATIONS[activation],
               "bias": True, "dropout": d.real("resid_pdrop", 0.0, 0.95, 0.1), "tied": d.flag("tie_word_embeddings", True)}
    return _read(directory, GPT2, options, task)


def read_llama(directory: ModelDirectory, task: str | None = None) -> GPT:
    """A Llama with its language-model head; biases, where only some linear layers have them, are zero in the others."""
    d = directory
    width, n_heads = d.whole("hidden_size", 1, MOST_WIDTH, 4096), d.whole("num_attention_heads", 1, MOST_HEADS, 32)
    n_kv_heads = n_heads if d.values.get("num_key_value_heads") is None else d.whole("num_key_value_heads", 1, MOST_HEADS)
    if d.text("hidden_act", "silu") not in ("silu", "swish"):
        d.fail(f"hidden_act is {quoted(d.text('hidden_act'))}; silu can be converted")
    if d.values.get("head_dim") is not None and d.whole("head_dim", 1, MOST_WIDTH) * n_heads != width:
        d.fail(f"head_dim is {d.values['head_dim']}, not {width // n_heads}, the width of one of {n_heads} heads; "
               "this is not supported")
    in_attention, in_mlp = d.flag("attention_bias", False), d.flag("mlp_bias", False)
    options = {"context": d.whole("max_position_embeddings", 2, MOST_CONTEXT, 2048), "d_model": width,
               "n_layers": d.whole("num_hidden_layers", 1, MOST_LAYERS, 32), "n_heads": n_heads, "n_kv_heads": n_kv_heads,
               "d_mlp": d.whole("intermediate_size", 1, MOST_WIDTH, 11008), "positions": "rope", "rope_base": _rope_base(d),
               "norm": "pre", "norm_kind": "rms", "norm_epsilon": d.real("rms_norm_eps", 1e-12, 1.0, 1e-6),
               "activation": "swiglu", "bias": in_attention or in_mlp, "dropout": 0.0,
               "tied": d.flag("tie_word_embeddings", False)}
    absent = [part for part, has in (("attention", in_attention), ("mlp", in_mlp)) if not has]
    return _read(directory, LLAMA, options, task, absent)


def _rope_base(directory: ModelDirectory) -> float:
    """Of the wavelengths, in the older and in the newer form of config.json; positions that are scaled are refused."""
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


def _refuse(directory: ModelDirectory, **only: bool) -> None:
    for name, value in only.items():
        if directory.flag(name, value) is not value:
            directory.fail(f"{name} is {str(not value).lower()}, which is not supported")


def _read(directory: ModelDirectory, layout: Layout, options: dict[str, Any], task: str | None,
          absent: Sequence[str] = ()) -> GPT:
    if task not in (None, "language"):
        directory.fail(f"a {layout.name} is a language model; it cannot be converted for the task {quoted(task)}")
    try:
        model = GPT(**options, unit="document", carry=False)
    except ConfigError as error:
        directory.fail(str(error))
    names = _names(directory, layout)
    embedding = layout.outside["embedding"] + ".weight"
    if embedding not in names or len(directory.shapes[names[embedding]]) != 2:
        directory.fail(f"it lacks the tensor {quoted(embedding)}")
    tokenizer = read_tokenizer(directory, directory.shapes[names[embedding]][0])
    model.tokenizer = tokenizer
    model.learnt = {"width": options["d_model"], **_start(directory, tokenizer)}
    model.net.restore(_weights(directory, layout, model, names, absent))
    model.fitted = True
    model.fit_info = {"data": Path(directory.name).name, "data_hash": directory.digest(), "source": "transformers"}
    return model


def _names(directory: ModelDirectory, layout: Layout) -> dict[str, str]:
    """Their names, as the layout has them, and as the file has them: without the head's prefix in files of the bare model."""
    prefix = layout.block.split(".")[0] + "."
    learnt = [name for name in directory.shapes if not name.endswith(layout.surplus)]
    bare = not any(name.startswith(prefix) for name in learnt)
    return {prefix + name if bare and name != "lm_head.weight" else name: name for name in learnt}


def _start(directory: ModelDirectory, tokenizer: Tokenizer) -> dict[str, Any]:
    """What texts begin with: the bos token, or nothing."""
    bos = special_tokens(directory).get("bos")
    if bos is None or not begins_with_bos(directory):
        return {"start_alone": True}
    start = tokenizer.id(bos)
    assert start is not None
    return {"start": start}


def _weights(directory: ModelDirectory, layout: Layout, model: GPT, names: dict[str, str],
             absent: Sequence[str]) -> dict[str, np.ndarray]:
    """By the names of `gpt`; `absent` are the parts of a block whose linear layers have no biases."""
    config, size = model.config, model.tokenizer.vocab_size
    ours = our_shapes(config, size)
    without = {name for name in ours if name.endswith(".bias") and any(f".{part}." in name for part in absent)}
    wanted = their_shapes(layout, config, size, without)
    found = {name: directory.shapes[own] for name, own in names.items()}
    head, embedding = layout.outside["output"] + ".weight", layout.outside["embedding"] + ".weight"
    if config.tied and head in found:  # a copy; what transformers would do with another one depends on its version
        alike = found.pop(head) == found[embedding]
        if not alike or not np.array_equal(directory.array(names[head]), directory.array(names[embedding])):
            directory.fail(f"tie_word_embeddings is true, and {head} is not {embedding}")
    directory.check_tensors(found, wanted, layout.name)
    arrays: dict[str, np.ndarray] = {}
    with progress.task("reading weights", len(ours), "tensors") as bar:
        for name, shape in ours.items():
            if name in without:
                arrays[name] = np.zeros(shape, np.float32)
            else:
                parts = [layout.turned(name, directory.array(names[theirs])) for theirs in layout.theirs(name)]
                arrays[name] = np.ascontiguousarray(parts[0] if len(parts) == 1 else np.concatenate(parts))
            bar.advance(1)
    return arrays
