"""One column of a Parquet file, read by polars a row group at a time: each row is a document."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from seqloom.data import columns
from seqloom.data.documents import Document
from seqloom.data.pieces import Piece, Tally
from seqloom.errors import DataError, MissingExtra
from seqloom.forks import needs_threads

if TYPE_CHECKING:
    import polars

_BLOCK = 4 << 20
_TEXT, _ROW = "text", "row"


@dataclass(frozen=True)
class Parquet:
    """A column, or a field inside one."""

    document: Document
    column: str
    steps: tuple[str, ...]

    @classmethod
    def open(cls, document: Document, column: str | None) -> Parquet:
        """Read the schema and settle on a column."""
        schema = _schema(document)
        kinds: dict[str, str] = {}
        for name, kind in schema.items():
            _flatten(kind, name, kinds)
        if column is not None and column not in kinds and (found := _look(schema, tuple(column.split(".")))):
            kinds[column] = found
        chosen = columns.choose(document.name, kinds, column)
        return cls(document, chosen, (chosen,) if chosen in schema else tuple(chosen.split(".")))

    def pieces(self, tally: Tally) -> Iterator[Piece]:
        """The texts, batch after batch; each closed by a newline if it does not end with one."""
        import polars as pl

        text = pl.col(_TEXT)
        closed = pl.when(text.str.ends_with("\n")).then(text).otherwise(text + "\n")
        frame = _scan(self.document).select(self._expression().cast(pl.String).alias(_TEXT)).with_row_index(_ROW, 1)
        batches = frame.collect_batches(maintain_order=True)
        while True:
            try:
                batch = next(batches, None)
                if batch is None:
                    return
                full = batch.filter(text.str.len_bytes() > 0).with_columns(closed)
            except (Exception, pl.exceptions.PanicException) as error:
                raise _unreadable(self.document, error) from None
            tally.empty += len(batch) - len(full)
            yield from _pieces(full)

    def _expression(self) -> polars.Expr:
        import polars as pl

        schema = _schema(self.document)
        value, kind = pl.col(self.steps[0]), schema[self.steps[0]]
        for step in self.steps[1:]:
            if isinstance(kind, pl.Struct):
                value, kind = value.struct.field(step), _fields(kind)[step]
            else:
                place = int(step)
                value = value.list.get(place, null_on_oob=True) if isinstance(kind, pl.List) else value.arr.get(place)
                kind = kind.inner  # type: ignore[attr-defined]
        return value


def _pieces(frame: polars.DataFrame) -> Iterator[Piece]:
    """A batch in pieces of a few megabytes."""
    lengths = frame[_TEXT].str.len_bytes().to_numpy().astype(np.int64)
    ends, low = np.cumsum(lengths), 0
    while low < len(ends):
        start = int(ends[low] - lengths[low])
        high = max(int(np.searchsorted(ends, start + _BLOCK)), low + 1)
        part = frame[low:high]
        data = "".join(part[_TEXT].to_list()).encode("utf-8")
        yield Piece(data, ends[low:high] - start, part[_ROW].to_numpy().astype(np.int64))
        low = high


def _scan(document: Document) -> polars.LazyFrame:
    try:
        import polars as pl
    except ImportError:
        raise MissingExtra(f"{document.name}: reading Parquet needs polars; pip install polars") from None
    needs_threads("polars")
    assert document.path is not None
    return pl.scan_parquet(document.path, glob=False)


def _schema(document: Document) -> polars.Schema:
    frame = _scan(document)
    import polars as pl

    try:
        return frame.collect_schema()
    except (Exception, pl.exceptions.PanicException) as error:  # there are a dozen kinds
        raise _unreadable(document, error) from None


def _unreadable(document: Document, error: BaseException) -> DataError:
    why = (str(error).splitlines() or [type(error).__name__])[0]
    return DataError(f"{document.name}: not a Parquet file that can be read ({why}); get a complete copy of the file")


def _kind(kind: Any) -> str:
    import polars as pl

    if isinstance(kind, (pl.List, pl.Array)):
        return columns.LIST
    if isinstance(kind, pl.Struct):
        return columns.OBJECT
    if kind in (pl.String, pl.Categorical, pl.Enum):
        return columns.TEXT
    return columns.FLAG if kind == pl.Boolean else columns.NOTHING if kind == pl.Null else columns.NUMBER \
        if kind.is_numeric() else "date" if kind.is_temporal() else str(kind).lower()


def _fields(kind: Any) -> dict[str, Any]:
    return {field.name: field.dtype for field in kind.fields}


def _flatten(kind: Any, path: str, kinds: dict[str, str]) -> None:
    """All paths in a type and what they lead to; of lists the first entry alone."""
    kinds[path] = _kind(kind)
    inner = _fields(kind) if kinds[path] == columns.OBJECT else {"0": kind.inner} if kinds[path] == columns.LIST else {}
    for key, value in inner.items():
        _flatten(value, f"{path}.{key}", kinds)


def _look(schema: Any, steps: tuple[str, ...]) -> str:
    """The kind at the end of a path, or an empty string."""
    kind = schema.get(steps[0])
    for step in steps[1:]:
        if kind is not None and _kind(kind) == columns.OBJECT:
            kind = _fields(kind).get(step)
        elif kind is not None and _kind(kind) == columns.LIST and step.isdecimal():
            kind = kind.inner
        else:
            return ""
    return "" if kind is None else _kind(kind)
