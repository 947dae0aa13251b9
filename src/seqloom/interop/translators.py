"""T5 (Raffel et al. 2020), BART (Lewis et al. 2020) and Marian (Junczys-Dowmunt et al. 2018) as `transformer`, and back.

T5 is version 1.0 (relu, tied output), or 1.1 and Flan (gated gelu, an output of its own). BART and Marian are post-norm
Transformers. BART has learned positions and a norm of the vectors; its sources begin with `<s>`. Marian has sinusoids.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from seqloom import progress
from seqloom.config import MOST_WIDTH
from seqloom.errors import ConfigError
from seqloom.interop.hugging_face import CONFIG, ModelDirectory, read_json, write_directory
from seqloom.interop.hugging_face_tokenizers import Around, read_tokenizer, tokenizer_files
from seqloom.interop.layouts import BART, MARIAN, MARIAN_OF_TWO, T5, T5_GATED
from seqloom.interop.tensors import Layout, Parts
from seqloom.interop.tokenizer_files import TARGET_TOKENIZER, TOKENIZER
from seqloom.interop.values import MAX_ROWS, Keys, Values
from seqloom.models.sequence.sizes import Sizes
from seqloom.models.translate.configs import GATED
from seqloom.models.translate.transformer import Transformer
from seqloom.text.tokenizer import Tokenizer

GENERATION = "generation_config.json"
ACTIVATIONS = {"relu": "relu", "gelu": "gelu-erf", "gelu_new": "gelu", "gelu_pytorch_tanh": "gelu", "swish": "swish",
               "silu": "swish"}  # theirs: ours; the first of each is written
GATES = {"gated-gelu": "geglu", "gated-gelu_new": "geglu", "gated-silu": "swiglu"}  # of T5
NAMES = {ours: theirs for theirs, ours in reversed([*ACTIVATIONS.items(), *GATES.items()])}

# What makes a `transformer` a model of a family.
_PLAIN = {"norm": "post", "norm_kind": "layer", "norm_epsilon": 1e-5, "bias": True, "scaled_attention": True,
          "scaled_output": False, "d_head": None}
KINDS: dict[str, dict[str, Any]] = {
    "T5": {"positions": "t5", "norm": "pre", "norm_kind": "rms", "embedding_norm": False, "bias": False,
           "scaled_attention": False, "scaled_embedding": False, "shared_vocabulary": True},
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
    options |= directory.options({"n_decoder_layers": ("num_decoder_layers", 1, 100, options["n_layers"])})
    options |= KINDS["T5"] | {
        "activation": directory.choice("feed_forward_proj", {**ACTIVATIONS, **GATES}, "relu"),
        # Files of version 1.1 say that the output is not tied; newer versions of transformers write what follows from it.
        "scaled_output": directory.flag("scale_decoder_outputs", directory.flag("tie_word_embeddings", True)),
        "tied": not _own_output(directory),
    }
    longest = directory.whole("n_positions", 1, MAX_ROWS, 512)
    start = directory.whole("pad_token_id", 0, MAX_ROWS, 0)
    return _parts(directory, _t5_layout(options["activation"]), options, _learnt(directory, longest, start))


def _t5_layout(activation: str) -> Layout:
    return T5_GATED if activation in GATED else T5


def _own_output(directory: ModelDirectory) -> bool:
    """Tell whether the output layer has another matrix than the vectors of tokens; files may have the same one twice."""
    if not {"lm_head.weight", "shared.weight"} <= directory.shapes.keys():
        return False
    return not np.array_equal(directory.array("lm_head.weight"), directory.array("shared.weight"))


def read_bart(directory: ModelDirectory, task: str | None = None) -> Parts:
    context = directory.whole("max_position_embeddings", 2, 1_000_000)
    options = _bart_options(directory) | KINDS["BART"] | {"context": context, "max_length": min(context, 250)}
    learnt = _learnt(directory, context, directory.whole("eos_token_id", 0, MAX_ROWS))
    learnt["source_start"] = directory.whole("bos_token_id", 0, directory.whole("vocab_size", 2, MAX_ROWS) - 1)
    return _parts(directory, BART, options, learnt)


def read_marian(directory: ModelDirectory, task: str | None = None) -> Parts:
    options = _bart_options(directory) | KINDS["Marian"]
    if options["d_model"] % 2:
        directory.fail(f"d_model is {options['d_model']}; its sinusoidal positions need an even width")
    shared = directory.flag("share_encoder_decoder_embeddings", True)
    longest = directory.whole("max_position_embeddings", 1, 1_000_000)
    learnt = _learnt(directory, longest, directory.whole("pad_token_id", 0, MAX_ROWS))
    return _parts(directory, MARIAN if shared else MARIAN_OF_TWO, options | {"shared_vocabulary": shared}, learnt)


def _bart_options(directory: ModelDirectory) -> dict[str, Any]:
    for name in ("attention_heads", "ffn_dim"):
        encoder, decoder = (directory.whole(f"{side}_{name}", 1, MOST_WIDTH) for side in ("encoder", "decoder"))
        if encoder != decoder:
            directory.fail(f"encoder_{name} is {encoder} and decoder_{name} {decoder}; both must be one number")
    return directory.options(BART_KEYS) | {"activation": directory.choice("activation_function", ACTIVATIONS, "gelu")}


def _learnt(directory: ModelDirectory, longest: int, start: int) -> dict[str, Any]:
    """Return how texts were given to the model in training, as `transformer` keeps it; `start` where the files name none."""
    values = dict(directory.values)
    if (directory.path / GENERATION).is_file():
        values |= {key: value for key, value in read_json(directory.path / GENERATION).items() if value is not None}
    here = Values(directory.name, values)
    most = directory.whole("decoder_vocab_size" if values.get("decoder_vocab_size") else "vocab_size", 2, MAX_ROWS) - 1
    first = [here.whole("decoder_start_token_id", 0, most, start)]
    if values.get("forced_bos_token_id") is not None:
        first.append(here.whole("forced_bos_token_id", 0, most))
    never = values.get("bad_words_ids") or []
    if not isinstance(never, list) or not all(isinstance(ids, list) and all(type(i) is int and 0 <= i <= most for i in ids)
                                              for ids in never):
        here.lacks("bad_words_ids", never, "a list of lists of tokens")
    if any(len(ids) != 1 for ids in never):
        progress.say(f"{directory.name}: of bad_words_ids only single tokens are kept out of translations")
    alone = sorted({ids[0] for ids in never if len(ids) == 1})
    return {"longest_source": longest, "longest_target": longest, "start": first, **({"never": alone} if alone else {})}


def _parts(directory: ModelDirectory, layout: Layout, options: dict[str, Any], learnt: dict[str, Any]) -> Parts:
    before, shared = layout.prefix_of(directory.shapes), options["shared_vocabulary"]
    target_rows = directory.rows(f"{before}{layout.body['embedding']}.weight", "vocab_size" if shared else "decoder_vocab_size")
    rows = target_rows if shared else directory.rows(f"{before}{layout.body['reader.embedding']}.weight")
    learnt["sizes"] = Sizes(rows, options["d_model"]).to_dict()
    absent = ("output.bias",) if "final_logits_bias" not in directory.shapes else ()
    info = directory.record("source") | {"target": "target"}
    return Parts(directory, Transformer, options, _tokenizers(directory, rows, target_rows), learnt, layout, info, absent)


def _tokenizers(directory: ModelDirectory, rows: int, target_rows: int) -> dict[str, Tokenizer]:
    """Return those of both sides, whose embeddings have so many rows."""
    source, target = read_tokenizer(directory, rows, "source"), read_tokenizer(directory, target_rows, "target")
    end = directory.whole("eos_token_id", 0, target_rows - 1)
    if {source.eos_id, target.eos_id} != {end}:
        directory.fail(f"the end token of {CONFIG} is {end}, that of its tokenizer {target.eos_id}; they do not belong "
                       "together")
    return {"source": source, "target": source if target == source else target}


# ---- writing


def write_transformer(model: Transformer, target: str | Path) -> None:
    """Write a directory of the family whose positions the model has."""
    c = model.config
    family = {"t5": "T5", "learned": "BART", "sinusoidal": "Marian"}[c.positions]
    for name, value in KINDS[family].items():
        if (actual := getattr(c, name)) != value:
            raise ConfigError(f"this transformer model has {name} {actual}, and {family} of transformers has {value}; it "
                              "cannot be written for it")
    values, layout = _t5_values(model) if family == "T5" else _bart_values(model, family)
    source, wanted = model.tokenizers["source"], model.target_tokenizer
    first = [] if model.source_start is None else [model.source_start]
    files = tokenizer_files(source, start=model.source_start, around=Around(first, [source.eos_id], first),
                            roles={"pad": values["pad_token_id"]})
    if source != wanted:
        files[TARGET_TOKENIZER] = tokenizer_files(wanted)[TOKENIZER]
        progress.say(f"sources and targets are cut into tokens in two ways, and transformers reads one {TOKENIZER}: that of "
                     f"sources; {TARGET_TOKENIZER} is that of targets")
    start, never = model.start_ids, model.learnt.get("never", ())
    generation = {"decoder_start_token_id": start[0], "eos_token_id": values["eos_token_id"],
                  "pad_token_id": values["pad_token_id"], **({"forced_bos_token_id": start[1]} if len(start) > 1 else {}),
                  **({"bad_words_ids": [[i] for i in never]} if never else {})}
    files[GENERATION] = json.dumps(generation, indent=2) + "\n"
    write_directory(target, values, layout.write(model.weights), files)


def _values(model: Transformer, keys: Keys) -> dict[str, Any]:
    """Return the values that all families call alike, and those of a table."""
    c, tokenizer, start = model.config, model.target_tokenizer, model.start_ids
    pad = next((i for name in ("<pad>", "[PAD]") if (i := tokenizer.id(name)) is not None), start[0])
    sizes = {**c.to_dict(), "d_mlp": c.d_mlp or 4 * c.d_model, "d_head": c.d_head or c.d_model // c.n_heads}
    return {"vocab_size": model.sizes.vocab_size, "eos_token_id": tokenizer.eos_id, "pad_token_id": pad,
            "decoder_start_token_id": start[0], "is_encoder_decoder": True, "dtype": "float32",
            **{key: sizes[option] for option, (key, *_) in keys.items()}}


def _t5_values(model: Transformer) -> tuple[dict[str, Any], Layout]:
    c = model.config
    return {**_values(model, T5_KEYS), "model_type": "t5", "architectures": ["T5ForConditionalGeneration"],
            "num_decoder_layers": c.n_decoder_layers, "feed_forward_proj": NAMES[c.activation],
            "n_positions": model.learnt["longest_source"], "scale_decoder_outputs": c.scaled_output,
            "tie_word_embeddings": c.scaled_output}, _t5_layout(c.activation)


def _bart_values(model: Transformer, family: str) -> tuple[dict[str, Any], Layout]:
    c = model.config
    if c.activation in GATED:
        raise ConfigError(f"this transformer model has the activation {c.activation}, which BART and Marian have not")
    values = {**_values(model, BART_KEYS), "activation_function": NAMES[c.activation]}
    values |= {f"decoder_{name}": values[f"encoder_{name}"] for name in ("attention_heads", "ffn_dim")}
    if family == "BART":
        if model.source_start is None:
            raise ConfigError("the sources of this transformer model have no start token, and those of BART have; it cannot "
                              "be written for it")
        return {**values, "model_type": "bart", "architectures": ["BartForConditionalGeneration"],
                "max_position_embeddings": c.context, "bos_token_id": model.source_start}, BART
    if model.reads_numbers or model.source_start is not None:
        raise ConfigError("the sources of this transformer model are not texts alone; it cannot be written for Marian")
    longest = max(512, model.learnt["longest_source"], model.learnt["longest_target"])
    return {**values, "model_type": "marian", "architectures": ["MarianMTModel"], "max_position_embeddings": longest,
            "share_encoder_decoder_embeddings": c.shared_vocabulary,
            "decoder_vocab_size": model.target_tokenizer.vocab_size}, MARIAN if c.shared_vocabulary else MARIAN_OF_TWO
