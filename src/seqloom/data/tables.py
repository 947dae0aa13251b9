"""Text in tables: one column of a CSV, TSV, JSON Lines or Parquet file, row after row, each row a document.

To a corpus a table looks like a text file that holds the column: rows one after the other, each closed by a
newline if it does not end with one. What a text file does not have is kept beside it: where the rows end.
Nothing is in memory but the rows that are being read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from seqloom import progress
from seqloom.data.documents import Document
from seqloom.data.pieces import Piece, Tally
from seqloom.data.unpacking import COMPRESSED
from seqloom.errors import DataError

KINDS = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}


class Reader(Protocol):
    """What reads one kind of table."""

    @property
    def document(self) -> Document: ...
    @property
    def column(self) -> str: ...

    def pieces(self, tally: Tally) -> Iterator[Piece]: ...


@dataclass(frozen=True)
class Table:
    """Bytes `start` to `stop` of the texts of a column."""

    reader: Reader
    start: int = 0
    stop: int | None = None
    told: set[str] = field(default_factory=set, repr=False, compare=False)  # what was said of it; shared with its parts

    @property
    def name(self) -> str:
        return self.reader.document.name

    @property
    def column(self) -> str:
        return self.reader.column

    def part(self, start: int, stop: int) -> Table:
        """A table over a range of this one's content."""
        return replace(self, start=self.start + start, stop=self.start + stop)

    def size(self) -> int | None:
        """Number of bytes when it is known without reading."""
        return None if self.stop is None else self.stop - self.start

    def pieces(self) -> Iterator[Piece]:
        """The texts in stretches of some megabytes, with the ends of the rows.

        What was left out is said when the table is read to its end for the first time.
        """
        base, tally = 0, Tally()
        for piece in self.reader.pieces(tally):
            low = max(self.start - base, 0)
            high = len(piece.data) if self.stop is None else min(self.stop - base, len(piece.data))
            if low < high:
                inside = (piece.ends > low) & (piece.ends <= high)
                yield Piece(piece.data[low:high], piece.ends[inside] - low, piece.rows[inside])
            base += len(piece.data)
            if self.stop is not None and base >= self.stop:
                return
        for remark in tally.remarks(self.column):
            if remark not in self.told:
                self.told.add(remark)
                progress.say(f"{self.name}: {remark}")

    def chunks(self) -> Iterator[bytes]:
        """The texts alone."""
        return (piece.data for piece in self.pieces())

    def documents(self) -> Iterator[tuple[str, str]]:
        """Name and text of each row."""
        for piece in self.pieces():
            for row, low, high in zip(piece.rows, np.append(0, piece.ends), piece.ends):
                yield f"{self.name}:{row}", piece.data[low:high].decode("utf-8")


def table_kind(path: Path | str) -> str | None:
    """What kind of table a file is by the end of its name; packed Parquet is none."""
    place = Path(path)
    packed = place.suffix in COMPRESSED
    kind = KINDS.get(Path(place.stem if packed else place.name).suffix.lower())
    return None if packed and kind == "parquet" else kind


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
        raise DataError(f"{document.name} is one JSON array, of which no column can be read; write one object a line, "
                        "for example with: jq -c '.[]'")
    if kind is None:
        raise DataError(f"{document.name} is plain text and has no column {column!r}; "
                        f"columns are in files that end in {', '.join(KINDS)}")
    return Table(_open(document, kind, column))


def _open(document: Document, kind: str, column: str | None) -> Reader:
    if kind == "jsonl":
        from seqloom.data.json_lines import JsonLines

        return JsonLines.open(document, column)
    if kind == "parquet":
        from seqloom.data.parquet import Parquet

        return Parquet.open(document, column)
    from seqloom.data.delimited import Delimited

    return Delimited.open(document, column, quotes=kind == "csv")
