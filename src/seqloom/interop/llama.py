"""Models of the Llama family from GGUF files, as `gpt` with the options that make it one, and with their own tokenizer.

ggml turns neighbouring elements of a query or key, we turn those half a head apart (as Hugging Face does), so the rows of both
projections change places. Every tensor of the file must be one that is known, of the shape that the file's own values ask
for; what would change the result and is not understood is refused by name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from seqloom import progress
from seqloom.config import MOST_WIDTH
from seqloom.errors import ConfigError, quoted
from seqloom.interop.gguf import GGUFFile, read_gguf
from seqloom.interop.gguf_tokenizers import read_gguf_tokenizer
from seqloom.models.language.gpt import GPT
from seqloom.models.language.neural_configs import GPTConfig
from seqloom.models.network.quantised import Blocks, QuantisedWeights, bits_of
from seqloom.models.network.shapes import Shapes
from seqloom.text.tokenizer import Tokenizer

Weight = np.ndarray | Blocks
W = TypeVar("W", np.ndarray, Blocks, Weight)
ARCHITECTURE = "llama"


def read_llama(path: str | Path, bits: int | None = None) -> GPT:
    """The model in a GGUF file; with `bits` its matrices are quantised, and blocks of the file that fit stay as they are."""
    file = read_gguf(path)
    architecture = file.text("general.architecture")
    if architecture != ARCHITECTURE:
        file.fail(f"a model of the architecture {quoted(architecture)}; {ARCHITECTURE} can be converted")
    tokenizer = read_gguf_tokenizer(file)
    try:
        model = GPT(**_options(file))
    except ConfigError as error:
        file.fail(str(error))
    model.tokenizer = tokenizer
    model.learnt = {"width": model.config.d_model, **_start(file, tokenizer)}
    model.net.restore(_weights(file, model, bits))
    if bits:
        model.learnt["bits"] = bits
    model.fitted = True
    with open(path, "rb") as raw:
        digest = hashlib.file_digest(raw, "sha256").hexdigest()
    named = {key: value for key in ("name", "license") if isinstance(value := file.values.get(f"general.{key}"), str)}
    model.fit_info = {"data": Path(path).name, "data_hash": digest[:16], "source": "GGUF", **named}
    return model


def _options(file: GGUFFile) -> dict[str, Any]:
    """Those of the model, from the values of the file."""
    def whole(name: str, most: int, default: int | None = None) -> int:
        return file.whole(f"llama.{name}", 1, most, default)

    d_model, n_heads = whole("embedding_length", MOST_WIDTH), whole("attention.head_count", 10_000)
    d_head = d_model // n_heads
    for name in ("rope.dimension_count", "attention.key_length", "attention.value_length"):
        if whole(name, MOST_WIDTH, d_head) != d_head:
            file.fail(f"llama.{name} is not {d_head}, the width of one of {n_heads} heads; this is not supported")
    scaling = file.text("llama.rope.scaling.type", "none")
    if scaling != "none":
        file.fail(f"its rotary positions are scaled ({quoted(scaling)}), which is not supported")
    epsilon = file.real("llama.attention.layer_norm_rms_epsilon", 1e-12, 1.0)
    return {"context": whole("context_length", 1_000_000), "d_model": d_model, "n_layers": whole("block_count", 1000),
            "n_heads": n_heads, "n_kv_heads": whole("attention.head_count_kv", 10_000, n_heads),
            "d_mlp": whole("feed_forward_length", MOST_WIDTH), "positions": "rope",
            "rope_base": file.real("llama.rope.freq_base", 1.0, 1e12, 10000.0), "norm": "pre", "norm_kind": "rms",
            "norm_epsilon": float(f"{epsilon:.7g}"), "activation": "swiglu", "bias": False, "dropout": 0.0,
            "tied": "output.weight" not in file.tensors, "unit": "document", "carry": False}


# ---- weights

def _weights(file: GGUFFile, model: GPT, bits: int | None) -> Mapping[str, np.ndarray]:
    """By the names of `gpt`, queries, keys and values in one matrix, gates and units in another."""
    c = model.config
    width, d_kv = c.d_model, c.d_model // c.n_heads * c.n_kv_heads
    shapes: Shapes = {"token_embd.weight": (model.tokenizer.vocab_size, width), "output_norm.weight": (width,)}
    if not c.tied:
        shapes["output.weight"] = (model.tokenizer.vocab_size, width)
    for i in range(c.n_layers):
        shapes |= {f"blk.{i}.{name}.weight": shape for name, shape in {
            "attn_norm": (width,), "attn_q": (width, width), "attn_k": (d_kv, width), "attn_v": (d_kv, width),
            "attn_output": (width, width), "ffn_norm": (width,), "ffn_gate": (c.d_mlp, width), "ffn_up": (c.d_mlp, width),
            "ffn_down": (width, c.d_mlp)}.items()}
    file.check_tensors(file.shapes, shapes, "llama")
    def read(name: str, ours: str) -> Weight:
        own = bits_of(ours, file.shapes[name], bits) if bits else None
        return file.blocks(name, own) if own else file.array(name)

    arrays: dict[str, Weight] = {"embedding.weight": read("token_embd.weight", "embedding.weight"),
                                 "norm.weight": file.array("output_norm.weight")}
    if not c.tied:
        arrays["output.weight"] = read("output.weight", "output.weight")
    with progress.task("reading weights", c.n_layers, "layers") as bar:
        for i in range(c.n_layers):
            arrays |= {f"blocks.{i}.{name}.weight": array for name, array in _block(read, f"blk.{i}.", c).items()}
            bar.advance(1)
    if bits is None:
        return {name: array for name, array in arrays.items() if isinstance(array, np.ndarray)}
    return QuantisedWeights({name: blocks.tiles() for name, blocks in arrays.items() if isinstance(blocks, Blocks)},
                            {name: array for name, array in arrays.items() if isinstance(array, np.ndarray)})


def _block(tensor: Callable[[str, str], Weight], place: str, c: GPTConfig) -> dict[str, Weight]:
    def read(name: str) -> Weight:
        return tensor(f"{place}{name}.weight", "")

    q, k = halves_apart(read("attn_q"), c.n_heads), halves_apart(read("attn_k"), c.n_kv_heads or c.n_heads)
    return {"norm1": read("attn_norm"), "attention.qkv": stacked([q, k, read("attn_v")]),
            "attention.out": read("attn_output"), "norm2": read("ffn_norm"),
            "mlp.up": stacked([read("ffn_gate"), read("ffn_up")]), "mlp.down": read("ffn_down")}


def stacked(parts: Sequence[Weight]) -> Weight:
    """Matrices one above the other."""
    blocks = [part for part in parts if isinstance(part, Blocks)]
    return Blocks.stacked(blocks) if blocks else np.concatenate([part for part in parts if isinstance(part, np.ndarray)])


def halves_apart(weight: W, n_heads: int) -> W:
    """Rows (heads x d_head, D) whose pairs are neighbours, with those pairs half a head apart.

    >>> halves_apart(np.arange(8).reshape(8, 1), 2).ravel().tolist()
    [0, 2, 1, 3, 4, 6, 5, 7]
    """
    order = np.arange(weight.shape[0]).reshape(n_heads, -1, 2).swapaxes(1, 2).ravel()
    return weight[order]


def _start(file: GGUFFile, tokenizer: Tokenizer) -> dict[str, Any]:
    """What texts began with when the model was trained: a token of that use, or nothing."""
    if file.flag("tokenizer.ggml.add_bos_token", False):
        return {"start": file.whole("tokenizer.ggml.bos_token_id", 0, tokenizer.vocab_size - 1)}
    return {"start_alone": True}
