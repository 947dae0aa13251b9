"""Marks: tokens that no text produces, such as [MASK], [CLS] or the roles of a chat.

Some are declared when a tokenizer is fitted (`marks` of its config), some are the special tokens of published
vocabularies, and `</s>` is one of every tokenizer. Who trains a model puts them between the tokens of texts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from seqloom.text.tokenizer import Tokenizer


def find_marks(tokenizer: Tokenizer) -> dict[str, int]:
    """Return the ids of all marks by name: tokens without bytes, apart from the unknown one."""
    found = {}
    for token in range(tokenizer.vocab_size):
        if token == tokenizer.unk_id or tokenizer.token_bytes(token):
            continue
        name = tokenizer.token(token)
        if name.strip():  # the ids of a published vocabulary may have gaps
            found[name] = token
    return found


def with_mark_names(tokenizer: Tokenizer, ids: np.ndarray, newline_ends: bool) -> bytes:
    """Decode with the names of marks among the text; with `newline_ends` the ends of units become newlines instead.

    >>> from seqloom.text.tokenizer import Tokenizer
    >>> tokenizer = Tokenizer(kind="whitespace", marks=["[MASK]"]).fit("the cat sat")
    >>> tokenizer.decode([4, 5, 3, 0], marks=True)
    'the [MASK] sat </s>'
    """
    if not newline_ends:
        return _named_unit(tokenizer, ids.tolist())
    units = np.split(ids, np.flatnonzero(ids == tokenizer.eos_id))
    return b"\n".join(
        _named_unit(tokenizer, unit[unit != tokenizer.eos_id].tolist()) for unit in units
    )


def _named_unit(tokenizer: Tokenizer, ids: list[int]) -> bytes:
    """Join what comes before the first mark as ever, and pieces and names from there on."""
    names = {token: name.encode() for name, token in tokenizer.marks.items()}
    first = next((place for place, token in enumerate(ids) if token in names), len(ids))
    parts = [tokenizer.decode_bytes(ids[:first])]
    for token in ids[first:]:
        before = len(parts) > 1 or bool(parts[0])
        joiner = tokenizer.joiner if before else b""
        parts.append(
            joiner + names[token] if token in names else tokenizer.piece(token, before=before)
        )
    return b"".join(parts)
