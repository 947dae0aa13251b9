"""The tokenizer of a directory of transformers, whichever files it lies in, and the tokens that have a role in its texts.

No text produces a token that has a role: what looks like one is encoded as the characters that it consists of.
"""

from __future__ import annotations

from typing import Any

from seqloom.errors import quoted
from seqloom.interop.hugging_face import ModelDirectory
from seqloom.interop.tokenizer_files import SETTINGS, TOKENIZER, content, read_spec, read_values
from seqloom.text.subword_lists import Spec, added_token, coder_of, ids_of, mark
from seqloom.text.tokenizer import Tokenizer

MAP = "special_tokens_map.json"
ROLES = ("bos", "eos", "unk", "pad", "cls", "sep", "mask")
PADDED = ("t5", "mt5", "llama")  # families whose published embeddings may have rows that no token uses
ROUND = 8  # a padded embedding has a multiple of so many rows

_BERT = {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}
_ROBERTA = {"bos": "<s>", "eos": "</s>", "unk": "<unk>", "pad": "<pad>", "cls": "<s>", "sep": "</s>", "mask": "<mask>"}
_LLAMA = {"bos": "<s>", "eos": "</s>", "unk": "<unk>"}
_T5 = {"eos": "</s>", "unk": "<unk>", "pad": "<pad>"}
_GPT2 = {"bos": "<|endoftext|>", "eos": "<|endoftext|>"}
# What the tokenizers of a family have when their files do not say; of several, the first whose end is in the vocabulary.
_DEFAULTS = {"gpt2": (_GPT2, _BERT), "llama": (_LLAMA, _GPT2), "roberta": (_ROBERTA,), "bart": (_ROBERTA,), "t5": (_T5,),
             "mt5": (_T5,), "marian": (_T5,), "albert": ({**_BERT, "unk": "<unk>", "pad": "<pad>"}, _BERT)}


def read_tokenizer(directory: ModelDirectory, rows: int | None = None, side: str = "source") -> Tokenizer:
    """The tokenizer of a directory; `rows` are those of its embedding, one for each token.

    Where a family pads its embedding, tokens that no text produces take the places that are left. `side` is for Marian, whose
    source and target are cut by different models into tokens of one vocabulary.
    """
    spec = read_spec(directory, side)
    roles = _roles(directory, spec)
    end = roles.get("eos") or roles.get("sep")
    if end is None:
        directory.fail(f"its tokenizer names no end token; {SETTINGS} must have eos_token or sep_token")
    if rows is not None:
        _fill(directory, spec, rows)
    mark(spec, roles.values())
    spec["post_processor"] = None  # what stands around a text is up to the model
    return Tokenizer.of_subwords(coder_of(spec, end, directory.name))


def special_tokens(directory: ModelDirectory) -> dict[str, str]:
    """The tokens of these roles that its tokenizer has: bos, eos, unk, pad, cls, sep, mask."""
    return _roles(directory, read_spec(directory))


def begins_with_bos(directory: ModelDirectory) -> bool:
    """Whether its texts begin with the bos token, as its settings, its tokenizer.json or else its family have it."""
    settings = read_values(directory.path / SETTINGS)
    if settings.values.get("add_bos_token") is not None:
        return settings.flag("add_bos_token", False)
    if not (directory.path / TOKENIZER).is_file():
        return directory.text("model_type") == "llama"
    spec = read_spec(directory)
    bos = _roles(directory, spec).get("bos")
    return bos is not None and _first_special(spec.get("post_processor")) == bos


def _first_special(step: Any) -> str | None:
    """What a template of a tokenizer.json puts before a text."""
    if not isinstance(step, dict):
        return None
    if step.get("type") == "Sequence" and isinstance(step.get("processors"), list):
        return next((found for inner in step["processors"] if (found := _first_special(inner))), None)
    single = step.get("single")
    first = single[0] if isinstance(single, list) and single else None
    special = first.get("SpecialToken") if isinstance(first, dict) else None
    return special.get("id") if isinstance(special, dict) else None


def _roles(directory: ModelDirectory, spec: Spec) -> dict[str, str]:
    """From the first file that names a role, or else as the family has it; a name that is no token is refused."""
    ids = ids_of(spec)
    roles: dict[str, str] = {}
    for file in (SETTINGS, MAP):
        values = read_values(directory.path / file)
        for role in ROLES:
            token = content(values.values.get(f"{role}_token"))
            if token is None or role in roles:
                continue
            if not isinstance(token, str) or token not in ids:
                values.fail(f"{role}_token is {quoted(token)}, which is not in the vocabulary of {len(ids):,} tokens")
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
    """Hold the vocabulary against the rows of the embedding; rows that are left get a token of their own."""
    size = max(ids_of(spec).values()) + 1
    if size == rows:
        return
    if size > rows or directory.text("model_type") not in PADDED or rows % ROUND:
        directory.fail(f"its tokenizer has {size:,} tokens, its embedding {rows:,} rows; they do not belong together")
    spec["added_tokens"] += [added_token(i, f"[unused row {i}]") for i in range(size, rows)]
