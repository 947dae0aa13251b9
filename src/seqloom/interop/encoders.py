"""Encoders of the families bert, roberta, distilbert, albert and electra, as `bert` and as `sentence-encoder`, and back.

What guesses hidden tokens is kept where it is there; heads of other tasks are left out, by name. How a text gets its vector is
said by a directory of sentence-transformers (`interop/sentence_transformers`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from seqloom import progress
from seqloom.config import MOST_WIDTH
from seqloom.errors import ConfigError, quoted
from seqloom.interop.hugging_face import ModelDirectory, write_directory
from seqloom.interop.hugging_face_tokenizers import Around, read_tokenizer, special_tokens, tokenizer_files
from seqloom.interop.layouts import ENCODERS
from seqloom.interop.sentence_transformers import is_sentence_encoder, pooling_files, read_pooling
from seqloom.interop.tensors import Layout, Parts
from seqloom.interop.values import Keys, shortened
from seqloom.models.encode.bert import Bert
from seqloom.models.encode.configs import EncoderLayout
from seqloom.models.encode.inputs import Marks
from seqloom.models.encode.sentence_encoder import SentenceEncoder
from seqloom.text.tokenizer import Tokenizer

ACTIVATIONS = {"gelu": "gelu-erf", "gelu_python": "gelu-erf", "gelu_new": "gelu", "gelu_pytorch_tanh": "gelu",
               "gelu_fast": "gelu", "relu": "relu"}  # theirs: ours; of two the first is written
KEYS: Keys = {
    "context": ("max_position_embeddings", 1, 1_000_000),
    "d_model": ("hidden_size", 1, MOST_WIDTH),
    "n_layers": ("num_hidden_layers", 1, 1000),
    "n_heads": ("num_attention_heads", 1, 10_000),
    "d_mlp": ("intermediate_size", 1, MOST_WIDTH),
    "dropout": ("hidden_dropout_prob", 0.0, 0.95, 0.1),
}
_TYPES: Keys = {"n_types": ("type_vocab_size", 0, 1000, 2)}
_EPSILON: Keys = {"norm_epsilon": ("layer_norm_eps", 1e-15, 1.0, 1e-12)}
_NARROW: Keys = {"d_embed": ("embedding_size", 1, MOST_WIDTH)}


@dataclass(frozen=True)
class Family:
    model: str  # class names there begin with it
    keys: Keys
    activation: str = "hidden_act"
    head_activation: str | None = None  # theirs, where it is the same for all models


FAMILIES = {
    "bert": Family("Bert", {**KEYS, **_TYPES, **_EPSILON}),
    "roberta": Family("Roberta", {**KEYS, **_TYPES, **_EPSILON}, head_activation="gelu"),
    "distilbert": Family("DistilBert", {
        "context": KEYS["context"],
        "d_model": ("dim", 1, MOST_WIDTH),
        "n_layers": ("n_layers", 1, 1000),
        "n_heads": ("n_heads", 1, 10_000),
        "d_mlp": ("hidden_dim", 1, MOST_WIDTH),
        "dropout": ("dropout", 0.0, 0.95, 0.1),
    }, "activation"),
    "albert": Family("Albert", {**KEYS, **_TYPES, **_EPSILON, **_NARROW}),
    "electra": Family("Electra", {**KEYS, **_TYPES, **_EPSILON, **_NARROW}, head_activation="gelu"),
}


_BODY = ("embeddings.", "embeddings_project.", "encoder.", "transformer.", "pooler.")  # where it was saved alone


# ---- reading


def read_encoder(directory: ModelDirectory, task: str | None) -> Parts:
    """Return the parts of a masked language model, or of one of sentence vectors where the task or the directory says so."""
    name = directory.text("model_type")
    layout, family = ENCODERS[name], FAMILIES[name]
    tied = directory.flag("tie_word_embeddings", True)
    directory = replace(directory, tensors=_renamed(directory.tensors, layout, tied))
    before = layout.prefix_of(directory.shapes)
    options = _options(directory, name, family)
    options["pooler"] = "pooler" in layout.body and f"{before}{layout.body['pooler']}.weight" in directory.shapes
    tokenizer = read_tokenizer(directory, directory.rows(f"{before}{layout.body['embedding']}.weight"))
    sentences = task in ("sentence-encoder", "sentence-vectors") if task else is_sentence_encoder(directory.path)
    guesses = f"{layout.head['head.dense']}.weight" in directory.shapes
    if sentences:
        options |= read_pooling(directory.path, options["context"], tokenizer)
    elif guesses:
        own = family.head_activation and ACTIVATIONS[family.head_activation]
        options |= {"head_activation": None if own == options["activation"] else own, "tied": tied}
    else:
        options["head"] = False
    outside = [tensor for tensor in directory.shapes if not tensor.startswith(before or _BODY)]
    known = {f"{layer}.{kind}" for layer in layout.head.values() for kind in ("weight", "bias")} if guesses else ()
    if others := [tensor for tensor in outside if tensor not in known]:
        progress.say(f"{directory.name}: left out, as they are for other tasks: {shortened(others, 6)}")
    return Parts(directory, SentenceEncoder if sentences else Bert, options, {"text": tokenizer},
                 _marks(directory, tokenizer, name), layout, directory.record("transformers", family=name), left_out=outside)


def _renamed(tensors: dict[str, Any], layout: Layout, tied: bool) -> dict[str, Any]:
    """Return the tensors by the names that newer versions give them."""
    made = {name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias"): tensor
            for name, tensor in tensors.items()}
    bias, second = f"{layout.head['head']}.bias", f"{layout.head['head.output']}.bias"
    if second in made:  # the same array twice, or only there, or an output layer has its own
        made[bias] = made.get(bias, made[second]) if tied else made[second]
    return {name: tensor for name, tensor in made.items() if name != second or second == bias}


def _options(directory: ModelDirectory, name: str, family: Family) -> dict[str, Any]:
    if directory.flag("is_decoder", False) or directory.flag("add_cross_attention", False):
        directory.fail("it is a decoder, or attends to another text, which is not supported")
    positions = directory.text("position_embedding_type", "absolute")
    if positions != "absolute":
        directory.fail(f"its positions are of the kind {quoted(positions)}; absolute ones can be read")
    for key in ("num_hidden_groups", "inner_group_num"):
        if directory.values.get(key, 1) != 1:
            directory.fail(f"{key} is {quoted(directory.values[key])}; 1 is supported, that is one block for all layers")
    options = {"n_types": 0, **directory.options(family.keys)}
    offset = directory.whole("pad_token_id", 0, 999, 1) + 1 if name == "roberta" else 0
    options["context"] -= offset
    if options["context"] < 4:
        directory.fail(f"it reads {options['context']} tokens at most, which is not enough for a text and its marks")
    if name == "electra" and options["d_embed"] == options["d_model"]:
        options["d_embed"] = None
    usual = "gelu_new" if name == "albert" else "gelu"
    return {**options, "position_offset": offset, "shared_layers": name == "albert",
            "activation": directory.choice(family.activation, ACTIVATIONS, usual)}


def _marks(directory: ModelDirectory, tokenizer: Tokenizer, name: str) -> dict[str, int]:
    """Return the tokens around texts as `models.encode.inputs.MARKS` has them."""
    roles = special_tokens(directory)
    ids = {role: tokenizer.id(roles[role]) for role in ("cls", "sep", "pad", "mask") if role in roles}
    for role in ("cls", "sep"):
        if ids.get(role) is None:
            directory.fail(f"its tokenizer has no {role} token, which stands around every text")
    found = {role: token for role, token in ids.items() if token is not None}
    found.setdefault("pad", found["sep"])  # what is padded is never looked at
    return {**found, "separators": 2 if name == "roberta" else 1}


# ---- writing


def write_encoder(model: Bert | SentenceEncoder, target: str | Path) -> None:
    """Write a directory that transformers opens, and sentence-transformers where it is for sentence vectors."""
    c, marks, head = model.config, model.marks, getattr(model.config, "head", False)
    name = family_of(c)
    family, layout = FAMILIES[name], ENCODERS[name]
    theirs = {ours: key for key, ours in reversed(ACTIVATIONS.items())}
    sizes = {**c.to_dict(), "d_mlp": c.d_mlp or 4 * c.d_model, "d_embed": c.d_embed or c.d_model,
             "context": c.context + c.position_offset}
    attention = "attention_dropout" if name == "distilbert" else "attention_probs_dropout_prob"
    values = {"model_type": name, "architectures": [f"{family.model}{'ForMaskedLM' if head else 'Model'}"],
              "vocab_size": model.tokenizer.vocab_size, **{key: sizes[option] for option, (key, *_) in family.keys.items()},
              family.activation: theirs[c.activation], attention: c.dropout,
              "pad_token_id": c.position_offset - 1 if name == "roberta" else marks.pad,  # it counts positions from there
              "bos_token_id": marks.cls, "eos_token_id": marks.sep, "tie_word_embeddings": not head or c.tied,
              "dtype": "float32"}
    weights = dict(model.weights)
    tensors = layout.write(weights, layout.prefix if head else "")
    if "head.output.weight" in weights:
        tensors[f"{layout.head['head.output']}.bias"] = np.asarray(weights["head.bias"])
    files = _tokenizer_files(model.tokenizer, marks, c)
    write_directory(target, values, tensors, files | (pooling_files(c) if isinstance(model, SentenceEncoder) else {}))


def family_of(config: EncoderLayout) -> str:
    """Return the family that has this layout; what none of them has is refused."""
    c, head = config, getattr(config, "head", False)
    head_activation = getattr(config, "head_activation", None) if head else None
    if c.shared_layers:
        name = "albert"
    elif c.position_offset:
        name = "roberta"
    elif c.d_embed or head_activation:
        name = "electra"
    else:
        name = "bert" if c.n_types else "distilbert"
    family = FAMILIES[name]
    own = ACTIVATIONS.get(family.head_activation or "")
    fits = {"types": bool(c.n_types) == ("n_types" in family.keys),
            "d_embed": bool(c.d_embed) == (name == "albert") or name == "electra",
            "position_offset": not c.position_offset or name == "roberta",
            "pooler": not c.pooler or "pooler" in ENCODERS[name].body,
            "norm_epsilon": "norm_epsilon" in family.keys or c.norm_epsilon == 1e-12,
            "head_activation": not head or (head_activation == own if head_activation else own in (None, c.activation))}
    if wrong := [option for option, fit in fits.items() if not fit]:
        raise ConfigError(f"transformers has no encoder with this layout: {wrong[0]} does not suit {name}, the nearest family")
    return name


def _tokenizer_files(tokenizer: Tokenizer, marks: Marks, config: EncoderLayout) -> dict[str, str]:
    """Return the files of a tokenizer that puts the marks around texts and knows their roles."""
    several = config.n_types > 1
    around = Around([marks.cls], [marks.sep], [marks.sep] * (marks.separators - 1), int(several and marks.separators == 1))
    roles = {"cls": marks.cls, "sep": marks.sep, "pad": marks.pad, "bos": marks.cls, "eos": marks.sep, "mask": marks.mask}
    inputs = ["input_ids", *(["token_type_ids"] if several else []), "attention_mask"]
    return tokenizer_files(tokenizer, config.context, around=around, roles=roles, further={"model_input_names": inputs})
