"""An encoder as a directory that transformers opens, in the family that its layout is of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from seqloom.errors import ConfigError
from seqloom.interop.bert import their_places
from seqloom.interop.bert_names import ACTIVATIONS, FAMILIES
from seqloom.interop.hugging_face import write_directory
from seqloom.interop.hugging_face_tokenizer_writer import tokenizer_files
from seqloom.interop.tokenizer_files import SETTINGS, TOKENIZER
from seqloom.models.encode.configs import EncoderLayout
from seqloom.models.encode.inputs import Marks
from seqloom.text.tokenizer import Tokenizer


def write_bert(model: Any, target: str | Path) -> None:
    """With what guesses hidden tokens, where the model has it."""
    c = model.config
    head = {"head_activation": c.head_activation, "tied": c.tied} if c.head else None
    values, arrays = encoder_parts(c, head, model.tokenizer, model.marks, dict(model.weights))
    write_directory(target, values, arrays, marked_tokenizer(model.tokenizer, model.marks, c))


def encoder_parts(config: EncoderLayout, head: dict[str, Any] | None, tokenizer: Tokenizer, marks: Marks,
                  weights: dict[str, np.ndarray]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The values of config.json and the tensors by their names; `head` as `Published` has it."""
    c, name = config, family_of(config, head)
    family, theirs = FAMILIES[name], {ours: key for key, ours in reversed(ACTIVATIONS.items())}
    shapes = {key: array.shape for key, array in weights.items()}
    places = their_places(family, shapes, 1 if c.shared_layers else c.n_layers)
    body = family.body if head is not None else ""
    arrays: dict[str, np.ndarray] = {}
    for ours, names in places.items():
        before = "" if ours.startswith("head.") else body
        arrays |= {before + key: part for key, part in zip(names, np.split(weights[ours], len(names)))}
    if "head.output.weight" in weights and family.second_bias:
        arrays[f"{family.output}.bias"] = weights["head.bias"]
    sizes = {"d_model": c.d_model, "n_layers": c.n_layers, "n_heads": c.n_heads, "d_mlp": c.d_mlp or 4 * c.d_model,
             "d_embed": c.d_embed or c.d_model, "dropout": c.dropout, "context": c.context + c.position_offset}
    attention = "attention_dropout" if name == "distilbert" else "attention_probs_dropout_prob"
    values = {"model_type": name, "architectures": [f"{family.model}{'Model' if head is None else 'ForMaskedLM'}"],
              "vocab_size": tokenizer.vocab_size, **{key: sizes[ours] for ours, key in family.keys.items()},
              family.activation: theirs[c.activation], attention: c.dropout,
              "pad_token_id": c.position_offset - 1 if name == "roberta" else marks.pad,  # it counts positions from there
              "bos_token_id": marks.cls, "eos_token_id": marks.sep, "tie_word_embeddings": head is None or head["tied"],
              **({"type_vocab_size": c.n_types} if family.types else {}),
              **({family.epsilon: c.norm_epsilon} if family.epsilon else {}), "dtype": "float32"}
    return values, arrays


def family_of(config: EncoderLayout, head: dict[str, Any] | None = None) -> str:
    """The family that has this layout; what none of them has is refused."""
    c = config
    own_activation = head is not None and head["head_activation"] is not None
    if c.shared_layers:
        name = "albert"
    elif c.position_offset:
        name = "roberta"
    elif c.d_embed or own_activation:
        name = "electra"
    else:
        name = "bert" if c.n_types else "distilbert"
    family = FAMILIES[name]
    fits = {"types": bool(c.n_types) == family.types, "d_embed": bool(c.d_embed) == (name == "albert") or name == "electra",
            "position_offset": not c.position_offset or name == "roberta", "pooler": not c.pooler or family.pooler is not None,
            "norm_epsilon": family.epsilon is not None or c.norm_epsilon == 1e-12}
    if own_activation and head is not None:
        fits["head_activation"] = ACTIVATIONS.get(family.head_activation or "") == head["head_activation"]
    elif head is not None and family.head_activation:
        fits["head_activation"] = ACTIVATIONS[family.head_activation] == c.activation
    if wrong := [option for option, fit in fits.items() if not fit]:
        raise ConfigError(f"transformers has no encoder with this layout: {wrong[0]} does not suit {name}, the nearest family")
    return name


def marked_tokenizer(tokenizer: Tokenizer, marks: Marks, config: EncoderLayout) -> dict[str, str]:
    """The files of a tokenizer that puts the marks around texts and knows their roles."""
    files = tokenizer_files(tokenizer, config.context)
    spec, settings = json.loads(files[TOKENIZER]), json.loads(files[SETTINGS])
    cls, sep = tokenizer.token(marks.cls), tokenizer.token(marks.sep)

    def mark(token: str, kind: int = 0) -> dict[str, Any]:
        return {"SpecialToken": {"id": token, "type_id": kind}}

    def text(name: str, kind: int = 0) -> dict[str, Any]:
        return {"Sequence": {"id": name, "type_id": kind}}

    second = int(config.n_types > 1 and marks.separators == 1)
    single = [mark(cls), text("A"), mark(sep)]
    spec["post_processor"] = {
        "type": "TemplateProcessing", "single": single,
        "pair": [*single, *[mark(sep)] * (marks.separators - 1), text("B", second), mark(sep, second)],
        "special_tokens": {token: {"id": token, "ids": [i], "tokens": [token]} for token, i in
                           ((cls, marks.cls), (sep, marks.sep))}}
    inputs = ["input_ids", *(["token_type_ids"] if config.n_types > 1 else []), "attention_mask"]
    settings |= {"cls_token": cls, "sep_token": sep, "pad_token": tokenizer.token(marks.pad), "bos_token": cls,
                 "eos_token": sep, "model_input_names": inputs}
    if marks.mask is not None:
        settings["mask_token"] = tokenizer.token(marks.mask)
    return {TOKENIZER: json.dumps(spec, ensure_ascii=False, indent=2) + "\n", SETTINGS: json.dumps(settings, indent=2) + "\n"}
