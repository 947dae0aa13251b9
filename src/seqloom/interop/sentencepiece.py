"""SentencePiece models (Kudo and Richardson 2018): spiece.model, tokenizer.model and the .spm files
of Marian.

The file is a protocol buffer; few of its many fields decide the ids, and these are read by a small
parser that checks every length against the bytes that are left. Texts are normalised by a table in the
file, white space becomes `▁`, and the pieces are found by unigram probabilities (Kudo 2018) or, in BPE,
by merging the two neighbours that form the piece with the highest score.
"""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from seqloom.directories import read_small_file
from seqloom.errors import DataError
from seqloom.text.subword_lists import Spec, added_token, numbered, pair_model, spec_of

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
MAX_PIECE_LENGTH = 1000  # characters of a piece
NEVER = -1e6  # the score of a piece that has an id and is not to be found in a text

_UNIGRAM, _BPE = 1, 2
_METHODS = {3: "whole words", 4: "characters"}
_BLANK = "▁"


class Piece(NamedTuple):
    text: str
    score: float
    kind: int = NORMAL


@dataclass(frozen=True)
class SentencePieces:
    pieces: list[Piece]
    unigram: bool = True
    unknown: int = 0
    byte_fallback: bool = False
    charsmap: bytes = b""  # how characters are normalised; empty: not at all
    blank_first: bool = True
    blanks_joined: bool = True  # white space at both ends goes, and several blanks become one


def read_sentencepiece(path: Path) -> SentencePieces:
    """Read a SentencePiece model, or say in one line why the file is not one."""
    try:
        return _parse(read_small_file(path))
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, struct.error) as error:
        raise DataError(f"{path}: not a SentencePiece model that can be read ({error})") from None


def _parse(data: bytes) -> SentencePieces:
    pieces: list[Piece] = []
    trainer: dict[int, Any] = {}
    normalizer: dict[int, Any] = {}
    for number, value in _fields(data):
        if number == 1:
            piece = dict(_fields(_bytes(value)))
            score = struct.unpack("<f", _bytes(piece.get(2, bytes(4))))[0]
            kind = piece.get(3, NORMAL)
            if not math.isfinite(score) or type(kind) is not int or not NORMAL <= kind <= BYTE:
                raise ValueError(f"piece {len(pieces)} is damaged")
            pieces.append(Piece(_bytes(piece.get(1, b"")).decode("utf-8"), score, kind))
            if len(pieces[-1].text) > MAX_PIECE_LENGTH:
                raise ValueError(
                    f"a piece has {len(pieces[-1].text):,} characters; at most "
                    f"{MAX_PIECE_LENGTH:,} can be read"
                )
        elif number == 2:
            trainer = dict(_fields(_bytes(value)))
        elif number == 3:
            normalizer = dict(_fields(_bytes(value)))
    method, unknown = trainer.get(3, _UNIGRAM), trainer.get(40, 0)
    if method not in (_UNIGRAM, _BPE):
        raise ValueError(
            f"its tokens are {_METHODS.get(method, f'of the kind {method}')}; unigram and BPE can be read"
        )
    if trainer.get(24, 0):
        raise ValueError("it puts white space at the end of words, which is not supported")
    if len(pieces) < 2 or type(unknown) is not int or not 0 <= unknown < len(pieces):
        raise ValueError("it has no pieces, or none for what is unknown")
    return SentencePieces(
        pieces,
        method == _UNIGRAM,
        unknown,
        bool(trainer.get(35, 0)),
        _bytes(normalizer.get(2, b"")),
        bool(normalizer.get(3, 1)),
        bool(normalizer.get(4, 1)),
    )


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield (number, value) of the fields of a message: whole numbers, or bytes."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        if kind not in (1, 2, 5):
            raise ValueError(f"byte {at} begins no field")
        size = 8 if kind == 1 else 4
        if kind == 2:
            size, at = _varint(data, at)
        if size > len(data) - at:
            raise ValueError(f"it is cut off: {size:,} bytes from {at:,} on, of {len(data):,}")
        yield key >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 64, 7):
        if at >= len(data):
            raise ValueError("it is cut off")
        byte = data[at]
        value, at = value | (byte & 0x7F) << shift, at + 1
        if byte < 0x80:
            return value, at
    raise ValueError(f"byte {at} begins no number")


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("a number stands where a text should be")
    return value


# ---- as tokenizer.json


def sentencepiece_spec(model: SentencePieces, where: str, before: Sequence[Spec] = ()) -> Spec:
    """Return the values of a tokenizer.json; `before` are further normalisation steps, which come
    first.
    """
    pieces = model.pieces
    ids = numbered([piece.text for piece in pieces], where)
    normalizer = [*before]
    if model.charsmap:
        normalizer.append(
            {
                "type": "Precompiled",
                "precompiled_charsmap": base64.b64encode(model.charsmap).decode(),
            }
        )
    if model.blanks_joined:
        normalizer += [_replaced({"Regex": r"\A +| +\z"}, ""), _replaced({"Regex": " {2,}"}, " ")]
    if model.blank_first:
        normalizer.append({"type": "Prepend", "prepend": _BLANK})
    normalizer.append(_replaced({"String": " "}, _BLANK))
    if model.unigram:
        spelling_model: Spec = {
            "type": "Unigram",
            "unk_id": model.unknown,
            "byte_fallback": model.byte_fallback,
            "vocab": [
                [piece.text, NEVER if piece.kind == UNUSED else piece.score] for piece in pieces
            ],
        }
    else:
        spelling_model = pair_model(
            ids,
            _merges(pieces, ids),
            unk_token=pieces[model.unknown].text,
            fuse_unk=True,
            byte_fallback=model.byte_fallback,
        )
    added = [
        added_token(i, piece.text, special=piece.kind != USER_DEFINED)
        for i, piece in enumerate(pieces)
        if piece.kind in (UNKNOWN, CONTROL, USER_DEFINED)
    ]
    decoder = [_replaced({"String": _BLANK}, " "), {"type": "ByteFallback"}, {"type": "Fuse"}]
    if model.blank_first:
        decoder.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    return spec_of(
        spelling_model,
        normalizer=normalizer,
        decoder={"type": "Sequence", "decoders": decoder},
        added=added,
    )


def _replaced(pattern: Spec, content: str) -> Spec:
    return {"type": "Replace", "pattern": pattern, "content": content}


def _merges(pieces: Sequence[Piece], ids: dict[str, int]) -> list[list[str]]:
    """Return all pairs of pieces that make a third, highest scores first."""
    mergeable = {piece.text for piece in pieces if piece.kind in (NORMAL, USER_DEFINED)}
    merges: list[tuple[float, int, str, str]] = []
    for piece in pieces:
        if piece.kind != NORMAL:
            continue
        for cut in range(1, len(piece.text)):
            first, second = piece.text[:cut], piece.text[cut:]
            if first in mergeable and second in mergeable:
                merges.append((-piece.score, ids[piece.text], first, second))
    merges.sort(key=lambda merge: merge[:2])
    return [[first, second] for _, _, first, second in merges]
