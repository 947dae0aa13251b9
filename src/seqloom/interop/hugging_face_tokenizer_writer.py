"""A tokenizer as tokenizer.json and tokenizer_config.json, which transformers opens."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from seqloom.errors import ConfigError
from seqloom.interop.tokenizer_files import SETTINGS, TOKENIZER
from seqloom.text.subword import ALPHABET
from seqloom.text.subword_lists import Spec, added_token, byte_level, byte_level_spec, ids_of, mark
from seqloom.text.tokenizer import Tokenizer

_ENDS = ("</s>", "<|endoftext|>", "<|end|>")  # names for an end that had none
_ROLES = {"[MASK]": "mask_token", "<mask>": "mask_token", "[CLS]": "cls_token", "<cls>": "cls_token",
          "[SEP]": "sep_token", "<sep>": "sep_token", "[PAD]": "pad_token", "<pad>": "pad_token"}


def tokenizer_files(tokenizer: Tokenizer, longest: int | None = None, *, start: int | None = None) -> dict[str, str]:
    """The text of both files by name; ids are the tokenizer's own. `start`: the token that every text begins with."""
    if tokenizer.normalizer is not None:
        raise ConfigError(f"{tokenizer.loses()} before it is cut into tokens; transformers has no such steps")
    if tokenizer.kind == "byte":
        spec = byte_level_spec({character: byte for byte, character in enumerate(ALPHABET)}, [], [byte_level(rule=False)])
    elif tokenizer.subword:
        with TemporaryDirectory() as place:
            tokenizer.write_files(Path(place))
            spec = json.loads((Path(place) / TOKENIZER).read_text("utf-8"))
    else:
        raise ConfigError(f"its tokens are of the kind {tokenizer.kind!r}; byte, bpe, unigram and wordpiece can be written "
                          "for transformers")
    names = {i: token for token, i in ids_of(spec).items()}
    for i in tokenizer.declared_ids:
        _add_mark(spec, names, i, tokenizer.token(i))
    if tokenizer.eos_id not in names:
        names[tokenizer.eos_id] = next(name for name in _ENDS if name not in names.values())
        spec["added_tokens"].append(added_token(tokenizer.eos_id, names[tokenizer.eos_id]))
    mark(spec, [names[i] for i in (tokenizer.eos_id, start) if i is not None])
    settings: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": names[tokenizer.eos_id],
                                "bos_token": names[tokenizer.eos_id if start is None else start],
                                "add_bos_token": start is not None, "clean_up_tokenization_spaces": False}
    if tokenizer.unk_id is not None:
        settings["unk_token"] = names[tokenizer.unk_id]
    settings |= _mark_settings(tokenizer)
    if longest is not None:
        settings["model_max_length"] = longest
    spec["post_processor"] = None if start is None else _begun(names[start], start)
    return {TOKENIZER: json.dumps(spec, indent=2, ensure_ascii=False) + "\n", SETTINGS: json.dumps(settings, indent=2) + "\n"}


def _add_mark(spec: Spec, names: dict[int, str], i: int, name: str) -> None:
    """Add a declared mark; transformers has one id for each name."""
    if name in names.values():
        raise ConfigError(f"its mark {name!r} is spelled like an ordinary token of its vocabulary, and transformers cannot "
                          "tell the two apart; fit the tokenizer with another name for the mark")
    names[i] = name
    spec["added_tokens"].append(added_token(i, name))


def _mark_settings(tokenizer: Tokenizer) -> dict[str, Any]:
    """What transformers calls the declared marks: by their role where the name says it, else further special tokens."""
    settings: dict[str, Any] = {}
    further = []
    for name in tokenizer.config.marks:
        role = _ROLES.get(name)
        if role is None or role in settings:
            further.append(name)
        else:
            settings[role] = name
    return settings | ({"additional_special_tokens": further} if further else {})


def _begun(token: str, i: int) -> Spec:
    """Every text, and both of a pair, after the start token."""
    start = {"SpecialToken": {"id": token, "type_id": 0}}
    texts = [{"Sequence": {"id": name, "type_id": 0}} for name in "AB"]
    return {"type": "TemplateProcessing", "single": [start, texts[0]], "pair": [start, texts[0], start, texts[1]],
            "special_tokens": {token: {"id": token, "ids": [i], "tokens": [token]}}}
