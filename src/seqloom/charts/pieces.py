"""Text in the pieces that a model paid for: tokens, joined where a character lies in several of them."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import NamedTuple


class Piece(NamedTuple):
    """Some text and its cost; `weight` is what the cost is divided by for its colour: bytes, or 1 for a word."""

    text: str
    bits: float
    weight: int = 1

    @property
    def level(self) -> float:
        return self.bits / max(self.weight, 1)


def whole_characters(tokens: Sequence[bytes], bits: Sequence[float]) -> list[Piece]:
    """One piece a token, but never a part of a character; tokens without bytes (ends of units) keep their place.

    >>> [tuple(p) for p in whole_characters(["é".encode()[:1], "é".encode()[1:], b"t"], [3.0, 1.0, 2.0])]
    [('é', 4.0, 2), ('t', 2.0, 1)]
    """
    pieces: list[Piece] = []
    waiting, cost = b"", 0.0
    for token, token_bits in zip(tokens, bits, strict=True):
        waiting, cost = waiting + token, cost + float(token_bits)
        try:
            text = waiting.decode("utf-8")
        except UnicodeDecodeError as error:
            if error.end == len(waiting) and error.reason == "unexpected end of data":
                continue  # the rest of the character is in the next token
            text = waiting.decode("utf-8", "replace")
        pieces.append(Piece(text, cost, len(waiting)))
        waiting, cost = b"", 0.0
    if waiting:
        pieces.append(Piece(waiting.decode("utf-8", "replace"), cost, len(waiting)))
    return pieces


def columns_of(sign: str) -> int:
    """How many columns of a grid a character takes: two in East Asian scripts and emoji, none for marks.

    >>> [columns_of(sign) for sign in ("a", "猫", "\u0301")]
    [1, 2, 0]
    """
    if unicodedata.category(sign) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(sign) in "WF" else 1
