"""What can be said of a document after reading it once: its hash, its size, how it ends, where its rows end."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np

from seqloom import progress
from seqloom.data.documents import Document
from seqloom.data.pieces import NONE
from seqloom.data.tables import Table

_MOST_ENDS = 1 << 16  # of rows that are remembered, as places to split


class Content(NamedTuple):
    digest: str
    size: int
    closed: bool  # ends with a newline
    ends: np.ndarray  # of a table's rows, or of some of them when there are very many


def read_content(document: Document | Table, bar: progress.Task) -> Content:
    """One pass over a document, unless there was one."""
    if isinstance(document, Document) and document.content is not None:
        return document.content
    digest, borders, size, rows, data = hashlib.sha256(), hashlib.sha256(), 0, _Ends(), b""
    for piece in document.pieces():
        data = piece.data
        digest.update(data)
        bar.advance(len(data))
        if len(piece.ends):
            borders.update((piece.ends + size).astype("<i8").tobytes())
            rows.add(piece.ends + size)
        size += len(data)
    if isinstance(document, Table):
        digest.update(borders.digest())  # rows are documents: the same text in other rows is another corpus
    return Content(digest.hexdigest(), size, data.endswith(b"\n"), rows.kept)


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
