"""Text in tables: one column of a CSV, TSV, JSON Lines or Parquet file, row after row, each row a document.

To a corpus a table (`Table`) looks like a text file that holds the column: row after row, each closed by a
newline if it does not end with one, and in addition the offsets where rows end. Only the rows being read
are in memory. `Content` is what is known of a table or text after its first complete reading; `Parquet`
reads that format by polars.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from seqloom import progress
from seqloom.data import columns
from seqloom.data.documents import Document
from seqloom.data.pieces import NONE, Piece
from seqloom.data.rows import KINDS, Block, Rows, open_rows, table_kind
from seqloom.errors import DataError, MissingExtra
from seqloom.forks import needs_threads

if TYPE_CHECKING:
    import polars

    from seqloom.data.sources import Folder


@dataclass(frozen=True)
class Table:
    """Bytes `start` to `stop` of the texts of a column."""

    rows: Rows
    column: str
    start: int = 0
    stop: int | None = None
    # what was reported of it, shared with its parts
    remarks: set[str] = field(default_factory=set, repr=False, compare=False)
    # hash and sizes, once it has been read
    content: Content | None = field(default=None, repr=False, compare=False)

    @property
    def name(self) -> str:
        return self.rows.document.name

    @property
    def folder(self) -> Folder | None:
        """Return the directory that leaves the table out if it is not text."""
        return self.rows.document.folder

    def part(self, start: int, stop: int) -> Table:
        """Return a table over a range of this one's content."""
        return replace(self, start=self.start + start, stop=self.start + stop, content=None)

    def size(self) -> int | None:
        """Return the number of bytes if known without reading."""
        return None if self.stop is None else self.stop - self.start

    def pieces(self) -> Iterator[Piece]:
        """Yield the texts in pieces of some megabytes, with the ends of the rows.

        Skipped rows are reported when the table is read to its end for the first time.
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
        """Return the texts of a block, each closed by a newline if it does not end with one."""
        values = block.values[0]
        if set(map(type, values)) - {str, type(None)}:
            at, wrong = next(
                (k, value)
                for k, value in enumerate(values)
                if not isinstance(value, (str, type(None)))
            )
            raise columns.wrong_value(block.location(at), self.column, wrong, "text")
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
        """Yield the texts alone."""
        return (piece.data for piece in self.pieces())

    def documents(self) -> Iterator[tuple[str, str]]:
        """Yield the name and text of each row."""
        for piece in self.pieces():
            for row, low, high in zip(piece.rows, np.append(0, piece.ends), piece.ends):
                yield f"{self.name}:{row}", piece.data[low:high].decode("utf-8")


def as_table(document: Document, column: str | None) -> Document | Table:
    """Return the table that a document is, or the document itself."""
    kind = form_of_table(document, column)
    if kind is None:
        return document
    rows = open_rows(document, kind, [column])
    if not rows.kinds:
        raise DataError(f"{document.name} is empty; give a file with some text")
    return Table(
        rows, columns.choose(document.name, rows.kinds, rows.requested[0], untyped=rows.untyped)
    )


def form_of_table(document: Document, column: str | None) -> str | None:
    """Return the kind of table a document is by its name; None: it is none, and no column is requested.

    If a column is requested and the name says nothing (standard input, .json), objects are taken for
    JSON Lines.
    """
    kind = table_kind(document.name)
    if kind is not None or column is None:
        return kind
    head = next(document.preview().chunks(), b"").lstrip()
    if head.startswith(b"{"):
        return "jsonl"
    if head.startswith(b"["):
        raise DataError(
            f"{document.name} is one JSON array, which has no columns; write one object per line, "
            "for example with: jq -c '.[]'"
        )
    raise DataError(
        f"{document.name} is plain text and has no column {column!r}; "
        f"columns are in files that end in {', '.join(KINDS)}"
    )


# ---- contents

_MOST_ENDS = 1 << 16  # ends of rows that are stored, as offsets for splitting


class Content(NamedTuple):
    """Hash and sizes of a document, computed by its first complete reading."""

    digest: str
    size: int
    closed: bool  # ends with a newline
    ends: np.ndarray  # of a table's rows, or of some of them when there are very many


class Notes:
    """Computes the `Content` of a document while its pieces are read."""

    def __init__(self) -> None:
        self._text, self._row_ends = hashlib.sha256(), hashlib.sha256()
        self._rows = _Ends()
        self._size = 0
        self._closed = False

    def add(self, piece: Piece) -> None:
        """Include the next piece."""
        self._text.update(piece.data)
        if len(piece.ends):
            ends = piece.ends + self._size
            self._row_ends.update(ends.astype("<i8").tobytes())
            self._rows.add(ends)
        self._size += len(piece.data)
        self._closed = piece.data.endswith(b"\n")

    def content(self, document: Document | Table) -> Content:
        """Return the content record, once all pieces of the document have been read."""
        if isinstance(document, Table):  # the same text in other rows is another corpus
            self._text.update(self._row_ends.digest())
        return Content(self._text.hexdigest(), self._size, self._closed, self._rows.ends)


def read_content(document: Document, bar: progress.Bar) -> Content:
    """Read a document only for its content record."""
    notes = Notes()
    for piece in document.pieces():
        notes.add(piece)
        bar.advance(len(piece.data))
    return notes.content(document)


class _Ends:
    """Ends of rows: all, or every second, fourth, ..., so that there are at most `_MOST_ENDS`."""

    def __init__(self) -> None:
        self.ends, self.stride, self.n_seen = NONE, 1, 0

    def add(self, ends: np.ndarray) -> None:
        first = -self.n_seen % self.stride
        self.n_seen += len(ends)
        self.ends = np.concatenate([self.ends, ends[first :: self.stride]])
        while len(self.ends) > _MOST_ENDS:
            self.ends, self.stride = self.ends[::2], 2 * self.stride


# ---- parquet

_BLOCK = 4 << 20


@dataclass(frozen=True)
class Parquet:
    """A Parquet file, read by polars (the extra `parquet`) by row groups; a nested field is a path."""

    document: Document
    kinds: dict[str, str]
    requested: tuple[str | None, ...]
    schema: dict[str, Any]  # a value of each column's type
    untyped: bool = False

    @classmethod
    def open(cls, document: Document, requested: Sequence[str | None]) -> Parquet:
        """Read the schema."""
        frame = _scan(document)
        import polars as pl

        try:
            schema = {name: _example(kind) for name, kind in frame.collect_schema().items()}
        except (Exception, pl.exceptions.PanicException) as error:  # polars raises a dozen kinds
            raise _unreadable(document, error) from None
        kinds = columns.kinds_in([schema], schema, requested)
        for column in requested:  # all entries of a list have the kind of the first
            if column is not None and column not in kinds:
                first = ".".join("0" if step.isdecimal() else step for step in column.split("."))
                kinds |= {column: kinds[first]} if first in kinds else {}
        return cls(document, kinds, tuple(requested), schema)

    def blocks(self, chosen: Sequence[str]) -> Iterator[Block]:
        """Yield the values of the wanted columns."""
        import polars as pl
        from polars import selectors

        paths = [columns.steps_to(column, self.schema) for column in chosen]
        outer = list(dict.fromkeys(path[0] for path in paths))
        # types that JSON lacks become text: dates, for example, are useful as labels
        not_json = selectors.temporal() | selectors.binary() | selectors.decimal()
        batches = (
            _scan(self.document)
            .select(outer)
            .with_columns(not_json.cast(pl.String))
            .collect_batches(maintain_order=True)
        )
        before = 0
        while True:
            try:
                batch = next(batches, None)
            except (Exception, pl.exceptions.PanicException) as error:
                raise _unreadable(self.document, error) from None
            if batch is None:
                return
            for part in batch.iter_slices(
                max(1, len(batch) * _BLOCK // max(int(batch.estimated_size()), 1))
            ):
                values = [part[path[0]].to_list() for path in paths]
                values = [
                    column
                    if len(path) == 1
                    else [columns.look(value, path[1:]) for value in column]
                    for column, path in zip(values, paths)
                ]
                if len(part):
                    yield Block(
                        values, range(before + 1, before + len(part) + 1), self.document.name, None
                    )
                before += len(part)


def _scan(document: Document) -> polars.LazyFrame:
    try:
        import polars as pl
    except ImportError:
        raise MissingExtra(
            f"{document.name}: reading Parquet needs polars; pip install 'seqloom[parquet]'"
        ) from None
    needs_threads("polars")
    assert document.path is not None
    return pl.scan_parquet(document.path, glob=False)


def _unreadable(document: Document, error: BaseException) -> DataError:
    why = (str(error).splitlines() or [type(error).__name__])[0]
    return DataError(
        f"{document.name}: not a Parquet file that can be read ({why}); get a complete copy of the file"
    )


def _example(kind: Any) -> Any:
    """Return a value of a type, so that types can be inspected like rows of JSON Lines."""
    import polars as pl

    if isinstance(kind, pl.Struct):
        return {field.name: _example(field.dtype) for field in kind.fields}
    if isinstance(kind, (pl.List, pl.Array)):
        return [_example(kind.inner)]
    if kind in (pl.String, pl.Categorical, pl.Enum):
        return ""
    if kind == pl.Null:
        return None
    return (
        False
        if kind == pl.Boolean
        else 0
        if kind.is_numeric()
        else date.min
        if kind.is_temporal()
        else b""
    )
