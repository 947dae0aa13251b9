"""Subword healing: a prompt that ends inside a token is continued as if it had not been cut there.

"The qui" is tokenized so that "qui" is a token of its own, after which a model that has learnt " quick"
as one token almost never sees "ck". Healing takes the last token back and lets the first generated token
be any whose bytes start with those of the token taken back; it may be that token itself. The text that is
then generated begins with the bytes taken back, which the caller leaves out when showing it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class PrefixIndex:
    """Finds the tokens whose bytes start with a given prefix; made once for a tokenizer.

    `token_bytes[i]` is what token i spells; special tokens spell nothing (b"") and are never found.

    >>> index = PrefixIndex([b"", b"qui", b"q", b"quick", b"qu", b"r"])
    >>> index.starting_with(b"qu")
    array([1, 3, 4])
    """

    def __init__(self, token_bytes: Sequence[bytes]) -> None:
        self.token_bytes = token_bytes
        spelling = [i for i in range(len(token_bytes)) if token_bytes[i]]
        spelling.sort(key=token_bytes.__getitem__)
        self._ids = np.array(spelling, np.int64)
        self._sorted = [token_bytes[i] for i in spelling]

    def starting_with(self, prefix: bytes) -> np.ndarray:
        """The ids, ascending, int64 (k,)."""
        low = bisect_left(self._sorted, prefix)
        high = bisect_right(self._sorted, prefix, lo=low, key=lambda token: token[: len(prefix)])
        return np.sort(self._ids[low:high])


class Healed(NamedTuple):
    """A prompt without its last token, what may follow it, and the bytes that the caller must not repeat."""

    ids: np.ndarray
    allowed: np.ndarray | None  # ids for the first generated token; None where nothing was taken back
    dropped: bytes


def heal(index: PrefixIndex, prompt_ids: np.ndarray) -> Healed:
    """Take back the last token where a longer one could stand in its place.

    >>> index = PrefixIndex([b"The ", b"qui", b"quick", b"q"])
    >>> heal(index, np.array([0, 1]))
    Healed(ids=array([0]), allowed=array([1, 2]), dropped=b'qui')

    Where there is no other token to choose (always so for a byte tokenizer), the prompt is left alone.
    """
    ids = np.asarray(prompt_ids, dtype=np.int64)
    dropped = index.token_bytes[int(ids[-1])] if len(ids) else b""
    if not dropped:
        return Healed(ids, None, b"")
    allowed = index.starting_with(dropped)
    if len(allowed) == 1:
        return Healed(ids, None, b"")
    return Healed(ids[:-1], allowed, dropped)


def restrict(log_probs: np.ndarray, allowed: Sequence[np.ndarray | None] | None) -> np.ndarray:
    """Rule out (-inf) all but the allowed ids of each row; None allows everything. Not renormalised.

    Where the model finds all allowed tokens impossible they become equally likely, since another token
    would contradict the prompt.
    """
    if allowed is None:
        return log_probs
    if len(allowed) != len(log_probs):
        raise ValueError(f"first tokens are given for {len(allowed)} rows, but there are {len(log_probs)}")
    restricted = log_probs.copy()
    for row, ids in enumerate(allowed):
        if ids is None:
            continue
        if len(ids) == 0:
            raise ValueError(f"row {row} allows no token at all")
        kept = log_probs[row, ids]
        restricted[row] = -np.inf
        restricted[row, ids] = kept if (kept > -np.inf).any() else -np.log(len(ids))
    return restricted
