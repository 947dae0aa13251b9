"""Vocabularies from files of other programs, lists of tokens and merges, as the values of a tokenizer.json.

A tokenizer.json has steps that change the text (`normalizer`), steps that split it into words
(`pre_tokenizer`) and a model that splits words into tokens; here are those that published vocabularies need.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from seqloom.errors import ModelError
from seqloom.text.subword import Subword
from seqloom.text.subword_file import make_engine

Spec = dict[str, Any]

DIGITS_APART: Spec = {"type": "Digits", "individual_digits": True}


def split_by(rule: str) -> Spec:
    """Make the step that splits a text into the matches of a regular expression (Oniguruma's) and the text
    between them.
    """
    return {"type": "Split", "pattern": {"Regex": rule}, "behavior": "Isolated", "invert": False}


def byte_level(*, rule: bool = True, blank_first: bool = False) -> Spec:
    """Make the step that writes bytes in GPT-2's alphabet (Radford et al. 2019); `rule`: split by its
    regular expression first.
    """
    return {
        "type": "ByteLevel",
        "add_prefix_space": blank_first,
        "trim_offsets": True,
        "use_regex": rule,
    }


def added_token(i: int, token: str, special: bool = True, **further: bool) -> Spec:
    """Make a token outside the model: a special one that no text produces, or one that is found in a text."""
    return {
        "id": i,
        "content": token,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": special,
        **further,
    }


def spec_of(
    model: Spec,
    *,
    normalizer: Sequence[Spec] = (),
    steps: Sequence[Spec] = (),
    decoder: Spec | None = None,
    added: Iterable[Spec] = (),
) -> Spec:
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": sorted(added, key=lambda token: token["id"]),
        "normalizer": _one(normalizer, "normalizers"),
        "pre_tokenizer": _one(steps, "pretokenizers"),
        "post_processor": None,
        "decoder": decoder,
        "model": model,
    }


def _one(parts: Sequence[Spec], name: str) -> Spec | None:
    return (
        parts[0] if len(parts) == 1 else {"type": "Sequence", name: list(parts)} if parts else None
    )


def pair_model(ids: Mapping[str, int], merges: Sequence[Sequence[str]], **further: Any) -> Spec:
    """Make the model of byte-pair encoding (Sennrich et al. 2016)."""
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        "vocab": dict(ids),
        "merges": list(merges),
        **further,
    }


def byte_level_spec(
    ids: Mapping[str, int],
    merges: Iterable[str],
    steps: Sequence[Spec],
    added: Iterable[Spec] = (),
    *,
    whole_first: bool = False,
) -> Spec:
    """Make byte-level BPE; a merge is two tokens separated by a blank. `whole_first`: a word that is a token
    is not split.
    """
    pairs = [merge.split(" ") for merge in merges]
    return spec_of(
        pair_model(ids, pairs, ignore_merges=whole_first),
        steps=steps,
        decoder=byte_level(),
        added=added,
    )


def word_piece_spec(
    ids: Mapping[str, int],
    unknown: str,
    *,
    lowercase: bool,
    strip_accents: bool | None = None,
    chinese_apart: bool = True,
    added: Iterable[Spec] = (),
) -> Spec:
    """Make a tokenizer like BERT's (Devlin et al. 2019): split at white space and punctuation, then into
    the longest pieces. By default accents are stripped if `lowercase` is on.
    """
    return spec_of(
        {
            "type": "WordPiece",
            "unk_token": unknown,
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": dict(ids),
        },
        normalizer=[
            {
                "type": "BertNormalizer",
                "clean_text": True,
                "handle_chinese_chars": chinese_apart,
                "strip_accents": strip_accents,
                "lowercase": lowercase,
            }
        ],
        steps=[{"type": "BertPreTokenizer"}],
        decoder={"type": "WordPiece", "prefix": "##", "cleanup": False},
        added=added,
    )


def numbered(tokens: Sequence[str], where: str) -> dict[str, int]:
    """Map tokens to ids, their indices in a list in which every token occurs once; `where` is the
    beginning of an error.
    """
    ids = {token: i for i, token in enumerate(tokens)}
    if len(ids) != len(tokens):
        twice = next(token for i, token in enumerate(tokens) if ids[token] != i)
        raise ModelError(f"{where}: the token {twice!r:.40} appears twice in its vocabulary")
    return ids


def ids_of(spec: Spec) -> dict[str, int]:
    """Return the ids of all tokens, those of the model and the added ones."""
    vocabulary = spec["model"]["vocab"]
    model_ids = (
        {piece: i for i, (piece, _) in enumerate(vocabulary)}
        if isinstance(vocabulary, list)
        else vocabulary
    )
    return {**model_ids, **{token["content"]: token["id"] for token in spec["added_tokens"]}}


def mark(spec: Spec, tokens: Iterable[str]) -> None:
    """Ensure that no text produces these tokens; text that looks like one is encoded as characters."""
    ids, names = ids_of(spec), set(tokens)
    for token in spec["added_tokens"]:
        token["special"] = token.get("special", False) or token["content"] in names
    added = {token["content"] for token in spec["added_tokens"]}
    spec["added_tokens"] += [added_token(ids[token], token) for token in names - added]
    spec["added_tokens"].sort(key=lambda token: token["id"])
    steps, model = _steps(spec), spec["model"]
    merges_only = model.get("type") == "BPE" and not model.get("ignore_merges")
    finds_whole = not merges_only and {"type": "BertPreTokenizer"} not in steps
    model_tokens = (
        {piece for piece, _ in model["vocab"]}
        if isinstance(model["vocab"], list)
        else model["vocab"]
    )
    marks = [
        token["content"]
        for token in spec["added_tokens"]
        if token["special"] and token["content"] in model_tokens
    ]
    rule = _apart(marks, bool(model.get("byte_fallback"))) if finds_whole else ""
    if rule and split_by(rule) not in steps:  # a file written by seqloom has it
        # the steps of other models may include one that puts a blank before every word
        first = model.get("type") == "BPE"
        spec["pre_tokenizer"] = _one(
            [split_by(rule), *steps] if first else [*steps, split_by(rule)], "pretokenizers"
        )


def _steps(spec: Spec) -> list[Spec]:
    pre_tokenizer = spec.get("pre_tokenizer")
    return (
        []
        if pre_tokenizer is None
        else pre_tokenizer["pretokenizers"]
        if pre_tokenizer.get("type") == "Sequence"
        else [pre_tokenizer]
    )


def _apart(marks: Iterable[str], byte_tokens: bool) -> str:
    """Return the rule that splits after the first character of every mark, so that a model that looks up
    whole tokens does not find it in a text.
    """
    rests: dict[str, list[str]] = {}
    for token in marks:
        if len(token) > 1:
            rests.setdefault(token[0], []).append(re.escape(token[1:]))
    if byte_tokens:
        rests.setdefault("<", []).append("0x[0-9A-F]{2}>")
    return "|".join(
        f"(?<={re.escape(first)})(?=(?:{'|'.join(sorted(ends))}))"
        for first, ends in sorted(rests.items())
    )


def coder_of(spec: Spec, eos: str, where: str) -> Subword:
    """Make the coder of a spec; `where` is the beginning of an error."""
    return Subword(make_engine(json.dumps(spec), f"{where}: its vocabulary cannot be used"), eos)
