"""Hidden tokens in a text: a word such as [MASK] stands for a token to be predicted.

If the word is a token of a subword vocabulary, the tokenizers library finds it, since vocabularies differ
in whether it includes the blank before it; otherwise the text is split there.
"""

from __future__ import annotations

import numpy as np

from seqloom.text.subword import Subword
from seqloom.text.tokenizer import Tokenizer

HIDDEN = -1  # the id of a token to be predicted


def encode_masked(tokenizer: Tokenizer, text: str, mask: str) -> np.ndarray:
    """Encode a text as int64 ids, HIDDEN for each of its masks.

    >>> encode_masked(Tokenizer(kind="byte"), "a[MASK]b", "[MASK]").tolist()
    [97, -1, 98]
    """
    if mask not in text:
        return tokenizer.encode(text)
    finder = tokenizer.derived(f"finds {mask}", lambda: _finder(tokenizer, mask))
    if finder is None:
        parts = [tokenizer.encode(part) for part in text.split(mask)]
        return np.concatenate([np.append(part, HIDDEN) for part in parts])[:-1].astype(np.int64)
    ids = finder.encode(text)
    ids[ids == finder.id(mask)] = HIDDEN
    return ids


def write_tokens(tokenizer: Tokenizer, text: str, mask: str, ids: list[int]) -> str:
    """Return the text with these tokens in place of its masks.

    >>> write_tokens(Tokenizer(kind="byte"), "a[MASK]b", "[MASK]", [32])
    'a b'
    """
    finder = tokenizer.derived(f"finds {mask}", lambda: _finder(tokenizer, mask))
    added = None if finder is None else finder._coder.added(mask)  # type: ignore[attr-defined]
    takes_blank = bool((added or {}).get("lstrip"))
    written, *parts = text.split(mask)
    for token, part in zip(ids, parts):
        name = tokenizer.token(token)
        if tokenizer.kind == "wordpiece":
            written = written.rstrip() + name[2:] if name.startswith("##") else written + name
        else:
            spelled = tokenizer.token_bytes(token).decode("utf-8", "replace")
            before = written.rstrip() if takes_blank else written
            written = before + spelled if before else spelled.lstrip(" ")
        written += part
    return written


def _finder(tokenizer: Tokenizer, mask: str) -> Tokenizer | None:
    """Return a copy that finds the mask, and no other special token, in a text; None if the mask is not a
    special token.
    """
    coder = tokenizer._coder
    if not isinstance(coder, Subword) or coder.added(mask) is None:
        return None
    return Tokenizer.of_subwords(coder.finding(mask))
