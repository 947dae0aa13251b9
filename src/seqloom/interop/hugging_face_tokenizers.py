"""The tokenizer of a directory of transformers: tokens that have a role in its texts, its chat
template, writing.

No text produces a token that has a role: what looks like one is encoded as the characters it consists of.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from seqloom.errors import ConfigError, DataError, quoted
from seqloom.interop.hugging_face import ModelDirectory, read_text
from seqloom.interop.tokenizer_files import SETTINGS, TOKENIZER, content, read_spec, read_values
from seqloom.text.chat import MOST_CHARACTERS
from seqloom.text.subword import ALPHABET
from seqloom.text.subword_lists import (
    Spec,
    added_token,
    byte_level,
    byte_level_spec,
    coder_of,
    ids_of,
    mark,
)
from seqloom.text.tokenizer import Tokenizer

MAP, TEMPLATE = "special_tokens_map.json", "chat_template.jinja"
ROLES = ("bos", "eos", "unk", "pad", "cls", "sep", "mask")
PADDED = (
    "t5",
    "mt5",
    "llama",
)  # families whose published embeddings may have rows that no token uses
ROUND, MOST_UNUSED = (
    8,
    4096,
)  # a padded embedding has a multiple of so many rows, and at most so many unused ones

_ROLES = {
    "[MASK]": "mask_token",
    "<mask>": "mask_token",
    "[CLS]": "cls_token",
    "<cls>": "cls_token",
    "[SEP]": "sep_token",
    "<sep>": "sep_token",
    "[PAD]": "pad_token",
    "<pad>": "pad_token",
}
_ENDS = ("</s>", "<|endoftext|>", "<|end|>")  # names for an end that had none
_BERT = {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}
_ROBERTA = {
    "bos": "<s>",
    "eos": "</s>",
    "unk": "<unk>",
    "pad": "<pad>",
    "cls": "<s>",
    "sep": "</s>",
    "mask": "<mask>",
}
_LLAMA = {"bos": "<s>", "eos": "</s>", "unk": "<unk>"}
_T5 = {"eos": "</s>", "unk": "<unk>", "pad": "<pad>"}
_GPT2 = {"bos": "<|endoftext|>", "eos": "<|endoftext|>"}
# What the tokenizers of a family have when their files do not say; of several, the first whose end
# is in the vocabulary.
_DEFAULTS = {
    "gpt2": (_GPT2, _BERT),
    "llama": (_LLAMA, _GPT2),
    "roberta": (_ROBERTA,),
    "xlm-roberta": (_ROBERTA,),
    "bart": (_ROBERTA,),
    "t5": (_T5,),
    "mt5": (_T5,),
    "marian": (_T5,),
    "albert": ({**_BERT, "unk": "<unk>", "pad": "<pad>"}, _BERT),
}


def read_tokenizer(
    directory: ModelDirectory, rows: int | None = None, side: str = "source"
) -> Tokenizer:
    """Read the tokenizer of a directory; `rows` are those of its embedding, one for each token.

    Where a family pads its embedding, tokens that no text produces take the places that are left.
    `side` is for Marian, whose source and target are cut by different models into tokens of one
    vocabulary.
    """
    spec = read_spec(directory, side)
    roles = _roles(directory, spec)
    end = roles.get("eos") or roles.get("sep")
    if end is None:
        directory.fail(
            f"its tokenizer names no end token; {SETTINGS} must have eos_token or sep_token"
        )
    if rows is not None:
        _fill(directory, spec, rows)
    mark(spec, roles.values())
    spec["post_processor"] = None  # what stands around a text is up to the model
    return Tokenizer.of_subwords(coder_of(spec, end, directory.name))


def special_tokens(directory: ModelDirectory) -> dict[str, str]:
    """Return the tokens of these roles that the tokenizer has: bos, eos, unk, pad, cls, sep, mask."""
    return _roles(directory, read_spec(directory))


def begins_with_bos(directory: ModelDirectory) -> bool:
    """Return whether texts begin with the bos token, as the settings, the tokenizer.json or else
    the family have it.
    """
    settings = read_values(directory.path / SETTINGS)
    if settings.values.get("add_bos_token") is not None:
        return settings.flag("add_bos_token", False)
    if not (directory.path / TOKENIZER).is_file():
        return directory.text("model_type") == "llama"
    spec = read_spec(directory)
    bos = _roles(directory, spec).get("bos")
    return bos is not None and _first_special(spec.get("post_processor")) == bos


def _first_special(step: Any) -> str | None:
    """Return what a template of a tokenizer.json puts before a text."""
    if not isinstance(step, dict):
        return None
    if step.get("type") == "Sequence" and isinstance(step.get("processors"), list):
        return next(
            (found for inner in step["processors"] if (found := _first_special(inner))), None
        )
    single = step.get("single")
    first = single[0] if isinstance(single, list) and single else None
    special = first.get("SpecialToken") if isinstance(first, dict) else None
    return special.get("id") if isinstance(special, dict) else None


def _roles(directory: ModelDirectory, spec: Spec) -> dict[str, str]:
    """Return the roles from the first file that names each, or else as the family has it; refuse a
    name that is not a token.
    """
    ids = ids_of(spec)
    roles: dict[str, str] = {}
    for file in (SETTINGS, MAP):
        values = read_values(directory.path / file)
        for role in ROLES:
            token = content(values.values.get(f"{role}_token"))
            if token is None or role in roles:
                continue
            if not isinstance(token, str) or token not in ids:
                values.fail(
                    f"{role}_token is {quoted(token)}, which is not in the vocabulary of {len(ids):,} tokens"
                )
            roles[role] = token
    for defaults in _DEFAULTS.get(directory.text("model_type"), (_BERT,)):
        usual = {role: token for role, token in defaults.items() if token in ids}
        if {"eos", "sep"} & {*usual, *roles}:
            return {**usual, **roles}
    by_id = {i: token for token, i in ids.items()}
    for role in ROLES:
        i = directory.values.get(f"{role}_token_id")
        if role not in roles and type(i) is int and i in by_id:
            roles[role] = by_id[i]
    return roles


def _fill(directory: ModelDirectory, spec: Spec, rows: int) -> None:
    """Check the vocabulary against the rows of the embedding; remaining rows get a token of their
    own.
    """
    size = max(ids_of(spec).values()) + 1
    if size == rows:
        return
    padded = (
        directory.text("model_type") in PADDED and rows % ROUND == 0 and rows - size <= MOST_UNUSED
    )
    if size > rows or not padded:
        directory.fail(
            f"its tokenizer has {size:,} tokens, its embedding {rows:,} rows; they do not belong together"
        )
    spec["added_tokens"] += [added_token(i, f"[unused row {i}]") for i in range(size, rows)]


# ---- chat templates


def read_template(directory: Path) -> str | None:
    """Return the chat template of a directory, if it has one; of several, that named default."""
    if (directory / TEMPLATE).is_file():
        where = directory / TEMPLATE
        template: Any = read_text(where)
    else:
        where = directory / SETTINGS
        template = read_values(where).values.get("chat_template")
        if isinstance(template, list):
            named = {
                one.get("name"): one.get("template") for one in template if isinstance(one, dict)
            }
            template = named.get("default")
    if template is not None:
        check_template(template, str(where))
    return template


def check_template(template: Any, where: str) -> None:
    if not isinstance(template, str) or not template.strip():
        raise DataError(f"{where}: its chat template is not a text")
    if len(template) > MOST_CHARACTERS:
        raise DataError(f"{where}: its chat template has more than {MOST_CHARACTERS:,} characters")


# ---- writing


class Around(NamedTuple):
    """The tokens around a text, and between the texts of a pair, of which the second may be of
    another type.
    """

    before: list[int]
    after: list[int]
    between: list[int]
    second_type: int = 0

    def template(self, names: Mapping[int, str]) -> Spec | None:
        """Return the step of a tokenizer.json that puts them there."""

        def marks(ids: list[int], kind: int = 0) -> list[Spec]:
            return [{"SpecialToken": {"id": names[i], "type_id": kind}} for i in ids]

        def text(name: str, kind: int = 0) -> Spec:
            return {"Sequence": {"id": name, "type_id": kind}}

        if not self.before and not self.after:
            return None
        single = [*marks(self.before), text("A"), *marks(self.after)]
        second = [
            *marks(self.between),
            text("B", self.second_type),
            *marks(self.after, self.second_type),
        ]
        return {
            "type": "TemplateProcessing",
            "single": single,
            "pair": [*single, *second],
            "special_tokens": {
                names[i]: {"id": names[i], "ids": [i], "tokens": [names[i]]}
                for i in (*self.before, *self.after)
            },
        }


def tokenizer_files(
    tokenizer: Tokenizer,
    longest: int | None = None,
    *,
    start: int | None = None,
    around: Around | None = None,
    roles: Mapping[str, int | None] = {},
    further: Mapping[str, Any] = {},
) -> dict[str, str]:
    """Return the texts of tokenizer.json and tokenizer_config.json; ids are the tokenizer's own.

    `start`: the token that every text begins with; `around`: all that stands around texts, if not that alone;
    `roles`: tokens by what they are called, such as pad; `further` settings.
    """
    spec = _spec(tokenizer)
    names = {i: token for token, i in ids_of(spec).items()}
    for i in tokenizer.declared_ids:
        _add_mark(spec, names, i, tokenizer.token(i))
    if tokenizer.eos_id not in names:
        names[tokenizer.eos_id] = next(name for name in _ENDS if name not in names.values())
        spec["added_tokens"].append(added_token(tokenizer.eos_id, names[tokenizer.eos_id]))
    mark(spec, [names[i] for i in (tokenizer.eos_id, start) if i is not None])
    settings: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": names[tokenizer.eos_id],
        "bos_token": names[tokenizer.eos_id if start is None else start],
        "add_bos_token": start is not None,
        "clean_up_tokenization_spaces": False,
    }
    if tokenizer.unk_id is not None:
        settings["unk_token"] = names[tokenizer.unk_id]
    settings |= _mark_settings(tokenizer)
    if longest is not None:
        settings["model_max_length"] = longest
    settings |= {f"{role}_token": names[i] for role, i in roles.items() if i is not None} | dict(
        further
    )
    first = [] if start is None else [start]
    spec["post_processor"] = (around or Around(first, [], first)).template(names)
    return {
        TOKENIZER: json.dumps(spec, indent=2, ensure_ascii=False) + "\n",
        SETTINGS: json.dumps(settings, indent=2) + "\n",
    }


def _add_mark(spec: Spec, names: dict[int, str], i: int, name: str) -> None:
    """Add a declared mark; transformers has one id for each name."""
    if name in names.values():
        raise ConfigError(
            f"its mark {name!r} is spelled like an ordinary token of its vocabulary, and transformers cannot "
            "tell the two apart; fit the tokenizer with another name for the mark"
        )
    names[i] = name
    spec["added_tokens"].append(added_token(i, name))


def _mark_settings(tokenizer: Tokenizer) -> dict[str, Any]:
    """Return what transformers calls the declared marks: by role if the name says it, else further
    special tokens.
    """
    settings: dict[str, Any] = {}
    further = []
    for name in tokenizer.config.marks:
        role = _ROLES.get(name)
        if role is None or role in settings:
            further.append(name)
        else:
            settings[role] = name
    return settings | ({"additional_special_tokens": further} if further else {})


def _spec(tokenizer: Tokenizer) -> Spec:
    if tokenizer.normalizer is not None:
        raise ConfigError(
            f"{tokenizer.loses()} before it is cut into tokens; transformers has no such steps"
        )
    if tokenizer.kind == "byte":
        ids = {character: byte for byte, character in enumerate(ALPHABET)}
        return byte_level_spec(ids, [], [byte_level(rule=False)])
    if not tokenizer.subword:
        raise ConfigError(
            f"its tokens are of the kind {tokenizer.kind!r}; byte, bpe, unigram and wordpiece can "
            "be written for transformers"
        )
    with TemporaryDirectory() as folder:
        tokenizer.write_files(Path(folder))
        return json.loads((Path(folder) / TOKENIZER).read_text("utf-8"))
