"""What can be said of a document after reading it once: its hash, its size, how it ends, where its rows end.

It is noted on the way, by whoever reads a document to its end for the first time, so that nobody reads it for this alone.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np

from seqloom import progress
from seqloom.data.documents import Document
from seqloom.data.pieces import NONE, Piece
from seqloom.data.tables import Table

_MOST_ENDS = 1 << 16  # of rows that are remembered, as places to split


class Content(NamedTuple):
    digest: str
    size: int
    closed: bool  # ends with a newline
    ends: np.ndarray  # of a table's rows, or of some of them when there are very many


class Notes:
    """What is noted of a document while its pieces are read."""

    def __init__(self) -> None:
        self._text, self._row_ends = hashlib.sha256(), hashlib.sha256()
        self._rows = _Ends()
        self._size = 0
        self._closed = False

    def add(self, piece: Piece) -> None:
        """Note the next piece."""
        self._text.update(piece.data)
        if len(piece.ends):
            ends = piece.ends + self._size
            self._row_ends.update(ends.astype("<i8").tobytes())
            self._rows.add(ends)
        self._size += len(piece.data)
        self._closed = piece.data.endswith(b"\n")

    def content(self, document: Document | Table) -> Content:
        """Return what is known now that all pieces of the document have been read."""
        if isinstance(
            document, Table
        ):  # rows are documents: the same text in other rows is another corpus
            self._text.update(self._row_ends.digest())
        return Content(self._text.hexdigest(), self._size, self._closed, self._rows.kept)


def read_content(document: Document, bar: progress.Bar) -> Content:
    """Read a document for this alone."""
    notes = Notes()
    for piece in document.pieces():
        notes.add(piece)
        bar.advance(len(piece.data))
    return notes.content(document)


class _Ends:
    """Ends of rows: all of them, or every second, fourth, ... so that there are never more than so many."""

    def __init__(self) -> None:
        self.kept, self.stride, self.seen = NONE, 1, 0

    def add(self, ends: np.ndarray) -> None:
        first = -self.seen % self.stride
        self.seen += len(ends)
        self.kept = np.concatenate([self.kept, ends[first :: self.stride]])
        while len(self.kept) > _MOST_ENDS:
            self.kept, self.stride = self.kept[::2], 2 * self.stride
