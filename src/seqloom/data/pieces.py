"""What readers hand over: stretches of text with the ends of the documents in them; and the lines and blocks made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

NONE = np.zeros(0, np.int64)


class Piece(NamedTuple):
    """UTF-8 bytes, where documents end in them (rising), and the numbers of these rows."""

    data: bytes
    ends: np.ndarray = NONE
    rows: np.ndarray = NONE


class Block(NamedTuple):
    """A stretch of text that the tokenizer may see alone, and where documents end in it."""

    data: bytes
    ends_document: bool  # the last document of a file
    ends: tuple[int, ...]


def lines_of(pieces: Iterator[Piece]) -> Iterator[bytes]:
    """Yield the lines of a document, without their newlines."""
    waiting: list[bytes] = []  # of a line that goes on: joined once, however long it is
    for piece in pieces:
        first, *lines = piece.data.split(b"\n")
        waiting.append(first)
        if lines:
            yield b"".join(waiting)
            yield from lines[:-1]
            waiting = [lines[-1]]
    if rest := b"".join(waiting):
        yield rest


def blocks_of(
    pieces: Iterator[Piece], cut: Callable[[bytes, bool], int], size: int
) -> Iterator[Block]:
    """Yield a document in blocks of about `size` bytes, cut where `cut(data, final)` allows it."""
    waiting, start, wanted, ends = bytearray(), 0, size, NONE
    for piece in pieces:
        del waiting[:start]
        ends = np.concatenate([ends - start, piece.ends + len(waiting)])
        waiting += piece.data
        start = 0
        while len(waiting) - start > wanted:  # more follows, so this is not the end
            at = cut(bytes(waiting[start : start + wanted]), False)
            if at:
                inside = int(np.searchsorted(ends, start + at, side="right"))
                yield Block(
                    bytes(waiting[start : start + at]),
                    False,
                    tuple((ends[:inside] - start).tolist()),
                )
                ends = ends[inside:]
            start, wanted = start + at, size if at else 2 * wanted
    if waiting:
        yield Block(
            bytes(waiting[start:]), True, tuple((np.union1d(ends, [len(waiting)]) - start).tolist())
        )
