"""Text in tables: one column of a CSV, TSV, JSON Lines or Parquet file, row after row, each row a document.

To a corpus a table looks like a text file that holds the column: rows one after the other, each closed by a
newline if it does not end with one. What a text file does not have is kept beside it: where the rows end.
Nothing is in memory but the rows that are being read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from seqloom import progress
from seqloom.data import columns
from seqloom.data.documents import Document
from seqloom.data.pieces import Piece
from seqloom.data.rows import KINDS, Block, Rows, open_rows, table_kind
from seqloom.errors import DataError

if TYPE_CHECKING:
    from seqloom.data.contents import Content
    from seqloom.data.sources import Folder


@dataclass(frozen=True)
class Table:
    """Bytes `start` to `stop` of the texts of a column."""

    rows: Rows
    column: str
    start: int = 0
    stop: int | None = None
    remarks: set[str] = field(
        default_factory=set, repr=False, compare=False
    )  # what was said of it; shared with its parts
    content: Content | None = field(
        default=None, repr=False, compare=False
    )  # where it has been read already

    @property
    def name(self) -> str:
        return self.rows.document.name

    @property
    def folder(self) -> Folder | None:
        """The directory that leaves it out if it is not text."""
        return self.rows.document.folder

    def part(self, start: int, stop: int) -> Table:
        """A table over a range of this one's content."""
        return replace(self, start=self.start + start, stop=self.start + stop, content=None)

    def size(self) -> int | None:
        """Number of bytes when it is known without reading."""
        return None if self.stop is None else self.stop - self.start

    def pieces(self) -> Iterator[Piece]:
        """The texts in stretches of some megabytes, with the ends of the rows.

        What was left out is said when the table is read to its end for the first time.
        """
        base = left_out = halves = 0
        for block in self.rows.blocks([self.column]):
            piece = self._piece(block)
            left_out, halves = left_out + len(block.rows) - len(piece.rows), halves + block.halves
            low = max(self.start - base, 0)
            high = len(piece.data) if self.stop is None else min(self.stop - base, len(piece.data))
            if low < high:
                inside = (piece.ends > low) & (piece.ends <= high)
                yield Piece(piece.data[low:high], piece.ends[inside] - low, piece.rows[inside])
            base += len(piece.data)
            if self.stop is not None and base >= self.stop:
                return
        if left_out:
            self._say(
                f"skipped {left_out:,} row{'s' * (left_out > 1)} without text in column {self.column!r}"
            )
        if halves:
            self._say(f"replaced {halves:,} lone surrogate{'s' * (halves > 1)} by U+FFFD")

    def _piece(self, block: Block) -> Piece:
        """The texts of a block, each closed by a newline if it does not end with one."""
        values = block.values[0]
        if set(map(type, values)) - {str, type(None)}:
            at, wrong = next(
                (k, value)
                for k, value in enumerate(values)
                if not isinstance(value, (str, type(None)))
            )
            raise columns.wrong_value(block.place(at), self.column, wrong, "text")
        texts = [
            (text if text[-1] == "\n" else text + "\n").encode("utf-8") for text in values if text
        ]
        rows = np.array(block.rows, np.int64)
        return Piece(
            b"".join(texts),
            np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts))),
            rows
            if len(texts) == len(values)
            else rows[np.fromiter(map(bool, values), bool, len(values))],
        )

    def _say(self, remark: str) -> None:
        if remark not in self.remarks:
            self.remarks.add(remark)
            progress.say(f"{self.name}: {remark}")

    def chunks(self) -> Iterator[bytes]:
        """The texts alone."""
        return (piece.data for piece in self.pieces())

    def documents(self) -> Iterator[tuple[str, str]]:
        """Name and text of each row."""
        for piece in self.pieces():
            for row, low, high in zip(piece.rows, np.append(0, piece.ends), piece.ends):
                yield f"{self.name}:{row}", piece.data[low:high].decode("utf-8")


def as_table(document: Document, column: str | None) -> Document | Table:
    """The table that a document is by its name, or the document itself.

    Where a column is asked for and the name says nothing (standard input, .json), objects are taken for JSON Lines.
    """
    kind = table_kind(document.name)
    if kind is None and column is None:
        return document
    head = b"" if kind else next(document.chunks(), b"").lstrip()
    if head.startswith(b"{"):
        kind = "jsonl"
    if kind is None and head.startswith(b"["):
        raise DataError(
            f"{document.name} is one JSON array, which has no columns; write one object per line, "
            "for example with: jq -c '.[]'"
        )
    if kind is None:
        raise DataError(
            f"{document.name} is plain text and has no column {column!r}; "
            f"columns are in files that end in {', '.join(KINDS)}"
        )
    rows = open_rows(document, kind, [column])
    if not rows.kinds:
        raise DataError(f"{document.name} is empty; give a file with some text")
    return Table(
        rows, columns.choose(document.name, rows.kinds, rows.asked[0], untyped=rows.untyped)
    )
