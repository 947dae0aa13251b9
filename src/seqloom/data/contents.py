"""What can be said of a document after reading it once: its hash, its size, how it ends, where its rows end.

It is noted on the way, by whoever reads a document to its end for the first time, so that nobody reads it for this alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
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


class Noting:
    """Hands on the pieces of a document; `content` is there once it has been read to its end."""

    def __init__(self, document: Document | Table) -> None:
        self.document = document
        self.content: Content | None = None

    def __iter__(self) -> Iterator[Piece]:
        digest, row_ends = hashlib.sha256(), hashlib.sha256()
        size, rows, last = 0, _Ends(), b""
        for piece in self.document.pieces():
            last = piece.data
            digest.update(last)
            if len(piece.ends):
                row_ends.update((piece.ends + size).astype("<i8").tobytes())
                rows.add(piece.ends + size)
            size += len(last)
            yield piece
        if isinstance(self.document, Table):
            digest.update(row_ends.digest())  # rows are documents: the same text in other rows is another corpus
        self.content = Content(digest.hexdigest(), size, last.endswith(b"\n"), rows.kept)


def read_content(document: Document, bar: progress.Task) -> Content:
    """Read a document for this alone."""
    noting = Noting(document)
    for piece in noting:
        bar.advance(len(piece.data))
    assert noting.content is not None
    return noting.content


class _Ends:
    """Ends of rows: all of them, or every second, fourth, ... so that there are never more than so many."""

    def __init__(self) -> None:
        self.kept, self.stride, self.seen = NONE, 1, 0

    def add(self, ends: np.ndarray) -> None:
        first = -self.seen % self.stride
        self.seen += len(ends)
        self.kept = np.concatenate([self.kept, ends[first::self.stride]])
        while len(self.kept) > _MOST_ENDS:
            self.kept, self.stride = self.kept[::2], 2 * self.stride
