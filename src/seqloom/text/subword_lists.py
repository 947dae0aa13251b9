"""A byte-level BPE tokenizer (Radford et al. 2019) from its lists of tokens and merges, as other programs' files have them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from seqloom.errors import ModelError
from seqloom.text.subword import Subword
from seqloom.text.subword_file import make_engine


def byte_level_bpe(tokens: Sequence[str], merges: Sequence[str], added: Mapping[int, bool], *, eos_id: int,
                   digits_apart: bool, where: str) -> Subword:
    """Ids are places in `tokens`, which are spelled in GPT-2's alphabet; a merge is two tokens with a blank between them.

    `added` are ids of tokens that no merge makes: True for marks that no text produces, False for those that are found in it.
    `digits_apart`: every digit is a token of its own. `where` is the beginning of an error.
    """
    ids = {token: i for i, token in enumerate(tokens)}
    if len(ids) != len(tokens):
        twice = next(token for i, token in enumerate(tokens) if ids[token] != i)
        raise ModelError(f"{where}: the token {twice!r:.40} appears twice in its vocabulary")
    level: dict[str, Any] = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    steps = [{"type": "Digits", "individual_digits": True}, level]
    spec = {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": i, "content": tokens[i], "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": special} for i, special in sorted(added.items())],
        "normalizer": None, "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps} if digits_apart else level,
        "post_processor": None, "decoder": level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "vocab": ids,
                  "merges": [merge.split(" ") for merge in merges]}}
    return Subword(make_engine(json.dumps(spec), f"{where}: its vocabulary cannot be used"), tokens[eos_id])
