"""T5 (Raffel et al. 2020), BART (Lewis et al. 2020) and Marian (Junczys-Dowmunt et al. 2018), and back.

All are `transformer`. T5 is version 1.0 (relu, tied output), or 1.1 and Flan (gated gelu, untied output).
BART and Marian are post-norm Transformers: BART with learned positions, a norm of the token vectors and
sources that begin with `<s>`; Marian with sinusoids.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from seqloom import progress
from seqloom.config import MOST_WIDTH
from seqloom.errors import ConfigError
from seqloom.interop.hugging_face import CONFIG, ModelDirectory, write_directory
from seqloom.interop.hugging_face_tokenizers import Around, read_tokenizer, tokenizer_files
from seqloom.interop.layouts import BART, MARIAN, MARIAN_OF_TWO, T5, T5_GATED
from seqloom.interop.tensors import Layout, Parts
from seqloom.interop.tokenizer_files import TARGET_TOKENIZER, TOKENIZER, read_values
from seqloom.interop.values import MAX_ROWS, Keys, Values, written
from seqloom.models.sequence.configs import Sizes
from seqloom.models.translation.configs import GATED
from seqloom.models.translation.transformer import Transformer
from seqloom.text.tokenizer import Tokenizer

GENERATION = "generation_config.json"
ACTIVATIONS = {  # theirs: ours; the first of each is written
    "relu": "relu",
    "gelu": "gelu-erf",
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "swish": "swish",
    "silu": "swish",
}
GATES = {"gated-gelu": "geglu", "gated-gelu_new": "geglu", "gated-silu": "swiglu"}  # of T5
NAMES = {ours: theirs for theirs, ours in reversed([*ACTIVATIONS.items(), *GATES.items()])}

# What makes a `transformer` a model of a family.
_PLAIN = {
    "norm": "post",
    "norm_kind": "layer",
    "norm_epsilon": 1e-5,
    "bias": True,
    "scaled_attention": True,
    "scaled_output": False,
    "d_head": None,
}
KINDS: dict[str, dict[str, Any]] = {
    "T5": {
        "positions": "t5",
        "norm": "pre",
        "norm_kind": "rms",
        "embedding_norm": False,
        "bias": False,
        "scaled_attention": False,
        "scaled_embedding": False,
        "shared_vocabulary": True,
    },
    "BART": {**_PLAIN, "positions": "learned", "embedding_norm": True, "shared_vocabulary": True},
    "Marian": {**_PLAIN, "positions": "sinusoidal", "embedding_norm": False},
}
T5_KEYS: Keys = {
    "d_model": ("d_model", 2, MOST_WIDTH),
    "n_layers": ("num_layers", 1, 100),
    "n_heads": ("num_heads", 1, 1000),
    "d_head": ("d_kv", 1, MOST_WIDTH),
    "d_mlp": ("d_ff", 1, MOST_WIDTH),
    "buckets": ("relative_attention_num_buckets", 4, 10_000, 32),
    "max_distance": ("relative_attention_max_distance", 2, 10_000, 128),
    "norm_epsilon": ("layer_norm_epsilon", 1e-12, 1.0, 1e-6),
    "dropout": ("dropout_rate", 0.0, 0.95, 0.1),
}
BART_KEYS: Keys = {
    "d_model": ("d_model", 2, MOST_WIDTH),
    "n_layers": ("encoder_layers", 1, 100),
    "n_decoder_layers": ("decoder_layers", 1, 100),
    "d_mlp": ("encoder_ffn_dim", 1, MOST_WIDTH),
    "n_heads": ("encoder_attention_heads", 1, 1000),
    "scaled_embedding": ("scale_embedding", False),
    "dropout": ("dropout", 0.0, 0.95, 0.1),
    "attention_dropout": ("attention_dropout", 0.0, 0.95, 0.0),
    "tied": ("tie_word_embeddings", True),
}


# ---- reading


def read_t5(directory: ModelDirectory, task: str | None = None) -> Parts:
    options = directory.options(T5_KEYS)
    options |= directory.options(
        {"n_decoder_layers": ("num_decoder_layers", 1, 100, options["n_layers"])}
    )
    options["activation"] = directory.choice("feed_forward_proj", {**ACTIVATIONS, **GATES}, "relu")
    # Files of version 1.1 say that the output is not tied; newer ones what follows from it.
    scaled = directory.flag("scale_decoder_outputs", directory.flag("tie_word_embeddings", True))
    options |= KINDS["T5"] | {"scaled_output": scaled, "tied": not _own_output(directory)}
    longest = directory.integer("n_positions", 1, MAX_ROWS, 512)
    learnt = _learnt(directory, longest, directory.integer("pad_token_id", 0, MAX_ROWS, 0))
    return _parts(directory, _t5_layout(options["activation"]), options, learnt)


def _t5_layout(activation: str) -> Layout:
    return T5_GATED if activation in GATED else T5


def _own_output(directory: ModelDirectory) -> bool:
    """Tell whether the output layer is another matrix than the token vectors; files may have those twice."""
    if not {"lm_head.weight", "shared.weight"} <= directory.shapes.keys():
        return False
    return not np.array_equal(directory.array("lm_head.weight"), directory.array("shared.weight"))


def read_bart(directory: ModelDirectory, task: str | None = None) -> Parts:
    context = directory.integer("max_position_embeddings", 2, 1_000_000)
    options = (
        _bart_options(directory)
        | KINDS["BART"]
        | {"context": context, "max_length": min(context, 250)}
    )
    learnt = _learnt(directory, context, directory.integer("eos_token_id", 0, MAX_ROWS))
    size = directory.integer("vocab_size", 2, MAX_ROWS)
    learnt["source_start"] = directory.integer("bos_token_id", 0, size - 1)
    return _parts(directory, BART, options, learnt)


def read_marian(directory: ModelDirectory, task: str | None = None) -> Parts:
    shared = directory.flag("share_encoder_decoder_embeddings", True)
    options = _bart_options(directory) | KINDS["Marian"] | {"shared_vocabulary": shared}
    if options["d_model"] % 2:
        directory.fail(
            f"d_model is {options['d_model']}; its sinusoidal positions need an even width"
        )
    longest = directory.integer("max_position_embeddings", 1, 1_000_000)
    learnt = _learnt(directory, longest, directory.integer("pad_token_id", 0, MAX_ROWS))
    return _parts(directory, MARIAN if shared else MARIAN_OF_TWO, options, learnt)


def _bart_options(directory: ModelDirectory) -> dict[str, Any]:
    for name in ("attention_heads", "ffn_dim"):
        encoder, decoder = (
            directory.integer(f"{side}_{name}", 1, MOST_WIDTH) for side in ("encoder", "decoder")
        )
        if encoder != decoder:
            directory.fail(
                f"encoder_{name} is {encoder} and decoder_{name} {decoder}; both must be one number"
            )
    activation = directory.choice("activation_function", ACTIVATIONS, "gelu")
    return {**directory.options(BART_KEYS), "activation": activation}


def _learnt(directory: ModelDirectory, longest: int, start: int) -> dict[str, Any]:
    """Return the lengths and special tokens of training; `start`: first target token if no file names one."""
    generation = read_values(directory.path / GENERATION).values
    defined = {key: value for key, value in generation.items() if value is not None}
    values = Values(directory.name, directory.values | defined)
    target_size = values.values.get("decoder_vocab_size")
    size = directory.integer("decoder_vocab_size" if target_size else "vocab_size", 2, MAX_ROWS)
    first = [values.integer("decoder_start_token_id", 0, size - 1, start)]
    if values.values.get("forced_bos_token_id") is not None:
        first.append(values.integer("forced_bos_token_id", 0, size - 1))
    learnt: dict[str, Any] = {"longest_source": longest, "longest_target": longest, "start": first}
    never = values.values.get("bad_words_ids") or []
    if not isinstance(never, list) or not all(_are_tokens(ids, size) for ids in never):
        values.lacks("bad_words_ids", never, "a list of lists of tokens")
    if any(len(ids) != 1 for ids in never):
        progress.say(
            f"{directory.name}: of bad_words_ids only single tokens are kept out of translations"
        )
    alone = sorted({ids[0] for ids in never if len(ids) == 1})
    return learnt | ({"never": alone} if alone else {})


def _are_tokens(ids: Any, size: int) -> bool:
    return isinstance(ids, list) and all(type(i) is int and 0 <= i < size for i in ids)


def _parts(
    directory: ModelDirectory, layout: Layout, options: dict[str, Any], learnt: dict[str, Any]
) -> Parts:
    shapes, shared = directory.shapes, options["shared_vocabulary"]
    key = "vocab_size" if shared else "decoder_vocab_size"
    target_rows = directory.rows(layout.weight("embedding", shapes), key)
    rows = target_rows if shared else directory.rows(layout.weight("reader.embedding", shapes))
    learnt["sizes"] = Sizes(rows, options["d_model"]).to_dict()
    tokenizers = _tokenizers(directory, rows, target_rows)
    absent = ("output.bias",) if "final_logits_bias" not in shapes else ()
    return Parts(
        directory,
        Transformer,
        options,
        tokenizers,
        learnt,
        layout,
        directory.record("source", target="target"),
        absent,
    )


def _tokenizers(directory: ModelDirectory, rows: int, target_rows: int) -> dict[str, Tokenizer]:
    """Return the tokenizers of both sides; their embeddings have `rows` and `target_rows` rows."""
    source = read_tokenizer(directory, rows, "source")
    target = read_tokenizer(directory, target_rows, "target")
    end = directory.integer("eos_token_id", 0, target_rows - 1)
    if {source.eos_id, target.eos_id} != {end}:
        directory.fail(
            f"the end token of {CONFIG} is {end}, that of its tokenizer {target.eos_id}; they do "
            "not belong together"
        )
    return {"source": source, "target": source if target == source else target}


# ---- writing


def write_transformer(model: Transformer, target: str | Path) -> None:
    """Write a directory of the family that has the model's kind of positions."""
    c = model.config
    family = {"t5": "T5", "learned": "BART", "sinusoidal": "Marian"}[c.positions]
    for name, value in KINDS[family].items():
        if (actual := getattr(c, name)) != value:
            raise ConfigError(
                f"this transformer model has {name} {actual}, and {family} of transformers has "
                f"{value}; it cannot be written for it"
            )
    values, layout = _t5_values(model) if family == "T5" else _bart_values(model, family)
    source, target_tokenizer = model.tokenizers["source"], model.target_tokenizer
    first = [] if model.source_start is None else [model.source_start]
    files = tokenizer_files(
        source,
        start=model.source_start,
        around=Around(first, [source.eos_id], first),
        roles={"pad": values["pad_token_id"]},
    )
    if source != target_tokenizer:
        files[TARGET_TOKENIZER] = tokenizer_files(target_tokenizer)[TOKENIZER]
        progress.say(
            "sources and targets are cut into tokens in two ways, and transformers reads one "
            f"{TOKENIZER}: that of sources; {TARGET_TOKENIZER} is that of targets"
        )
    generation = {
        key: values[key] for key in ("decoder_start_token_id", "eos_token_id", "pad_token_id")
    }
    if len(model.start_ids) > 1:
        generation["forced_bos_token_id"] = model.start_ids[1]
    if never := model.learnt.get("never"):
        generation["bad_words_ids"] = [[i] for i in never]
    files[GENERATION] = json.dumps(generation, indent=2) + "\n"
    write_directory(target, values, layout.write(model.weights), files)


def _values(model: Transformer, keys: Keys) -> dict[str, Any]:
    """Return the values that all families call alike, and those of a table."""
    c, tokenizer, start = model.config, model.target_tokenizer, model.start_ids[0]
    ids = (tokenizer.id(name) for name in ("<pad>", "[PAD]"))
    options = {
        **c.to_dict(),
        "d_mlp": c.d_mlp or 4 * c.d_model,
        "d_head": c.d_head or c.d_model // c.n_heads,
    }
    return {
        "vocab_size": model.sizes.vocab_size,
        "eos_token_id": tokenizer.eos_id,
        "pad_token_id": next((i for i in ids if i is not None), start),
        "decoder_start_token_id": start,
        "is_encoder_decoder": True,
        "dtype": "float32",
        **written(options, keys),
    }


def _t5_values(model: Transformer) -> tuple[dict[str, Any], Layout]:
    c = model.config
    values = _values(model, T5_KEYS) | {
        "model_type": "t5",
        "architectures": ["T5ForConditionalGeneration"],
        "num_decoder_layers": c.n_decoder_layers,
        "feed_forward_proj": NAMES[c.activation],
        "n_positions": model.learnt["longest_source"],
        "scale_decoder_outputs": c.scaled_output,
        "tie_word_embeddings": c.scaled_output,
    }
    return values, _t5_layout(c.activation)


def _bart_values(model: Transformer, family: str) -> tuple[dict[str, Any], Layout]:
    c = model.config
    if c.activation in GATED:
        raise ConfigError(
            f"this transformer model has the activation {c.activation}, which BART and Marian "
            "have not"
        )
    values = {**_values(model, BART_KEYS), "activation_function": NAMES[c.activation]}
    values |= {
        f"decoder_{name}": values[f"encoder_{name}"] for name in ("attention_heads", "ffn_dim")
    }
    if family == "BART":
        if model.source_start is None:
            raise ConfigError(
                "the sources of this transformer model have no start token, and those of BART "
                "have; it cannot be written for it"
            )
        return values | {
            "model_type": "bart",
            "architectures": ["BartForConditionalGeneration"],
            "max_position_embeddings": c.context,
            "bos_token_id": model.source_start,
        }, BART
    if model.reads_numbers or model.source_start is not None:
        raise ConfigError(
            "the sources of this transformer model are not texts alone; it cannot be written "
            "for Marian"
        )
    return values | {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        "max_position_embeddings": max(
            512, model.learnt["longest_source"], model.learnt["longest_target"]
        ),
        "share_encoder_decoder_embeddings": c.shared_vocabulary,
        "decoder_vocab_size": model.target_tokenizer.vocab_size,
    }, MARIAN if c.shared_vocabulary else MARIAN_OF_TWO
