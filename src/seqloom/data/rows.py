"""The one reader of tables: CSV, TSV, JSON Lines and Parquet, as values of the columns that are asked for.

`open_rows` looks at the first rows and says which columns there are and what they hold; `blocks` then streams the values
of some of them, about a megabyte of the file at a time, with the numbers and lines of the rows. Corpora read one column of
text (`data/tables.py`), labelled data a text and a label (`data/label_forms.py`).

A value is text in CSV and TSV, where a cell may be empty but is never missing; in JSON Lines and Parquet it is what the file
holds, and None where a row has null or lacks the column.

    >>> rows = open_rows(Document("a.csv", data=b"n,text\\n1,one\\n2,two\\n"), "csv")
    >>> rows.kinds
    {'n': 'number', 'text': 'text'}
    >>> [(block.values, block.place(1)) for block in rows.blocks(["text", "n"])]
    [([['one', 'two'], ['1', '2']], 'a.csv, line 3')]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from seqloom.data.documents import Document
from seqloom.data.unpacking import COMPRESSED

KINDS = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}


class Block(NamedTuple):
    """Some rows, one after the other."""

    values: list[list[Any]]  # of each column that was asked for
    rows: Sequence[int]  # their numbers: lines of JSON Lines, else rows of data, from 1
    name: str  # of the file
    lines: Sequence[int] | None  # where they begin; a Parquet file has none
    halves: int = 0  # of surrogate pairs that were replaced by U+FFFD

    def place(self, k: int) -> str:
        """File and line, or row, of the k-th of them, for messages."""
        return (
            f"{self.name}, row {self.rows[k]}"
            if self.lines is None
            else f"{self.name}, line {self.lines[k]}"
        )


class Rows(Protocol):
    """A table that was opened."""

    @property
    def document(self) -> Document: ...
    @property
    def kinds(self) -> dict[str, str]:
        """The columns, and what they hold by the first rows (`data/columns.py`); none in an empty file."""

    @property
    def asked(self) -> tuple[str | None, ...]:
        """The columns that were asked for, numbers replaced by names."""

    @property
    def untyped(self) -> bool:
        """Whether every value is text, numbers among them."""

    def blocks(self, columns: Sequence[str]) -> Iterator[Block]:
        """The values of these columns, row after row."""


def table_kind(path: Path | str) -> str | None:
    """What kind of table a file is by the end of its name; packed Parquet is none."""
    place = Path(path)
    packed = place.suffix in COMPRESSED
    kind = KINDS.get(Path(place.stem if packed else place.name).suffix.lower())
    return None if packed and kind == "parquet" else kind


def open_rows(
    document: Document, kind: str, asked: Sequence[str | None] = (), *, doubtful: bool = True
) -> Rows:
    """A table of a kind, and the columns that are wanted of it, by name, number or path; None leaves one to be found.

    `doubtful`: whether the first row of CSV and TSV is a header where that cannot be known.
    """
    if kind == "jsonl":
        from seqloom.data.json_lines import JsonLines

        return JsonLines.open(document, asked)
    if kind == "parquet":
        from seqloom.data.parquet import Parquet

        return Parquet.open(document, asked)
    from seqloom.data.delimited import Delimited

    return Delimited.open(document, asked, quotes=kind == "csv", doubtful=doubtful)
