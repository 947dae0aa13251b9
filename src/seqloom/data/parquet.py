"""The rows of Parquet, read by polars (the extra `parquet`) a row group at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from seqloom.data import columns
from seqloom.data.documents import Document
from seqloom.data.rows import Block
from seqloom.errors import DataError, MissingExtra
from seqloom.forks import needs_threads

if TYPE_CHECKING:
    import polars

_BLOCK = 4 << 20


@dataclass(frozen=True)
class Parquet:
    """A file and its columns; a field inside one is a path."""

    document: Document
    kinds: dict[str, str]
    asked: tuple[str | None, ...]
    schema: dict[str, Any]  # a value of each column's type
    untyped: bool = False

    @classmethod
    def open(cls, document: Document, asked: Sequence[str | None]) -> Parquet:
        """Read the schema."""
        frame = _scan(document)
        import polars as pl

        try:
            schema = {name: _example(kind) for name, kind in frame.collect_schema().items()}
        except (Exception, pl.exceptions.PanicException) as error:  # there are a dozen kinds
            raise _unreadable(document, error) from None
        kinds = columns.kinds_in([schema], schema, asked)
        for column in asked:  # any entry of a list is of the kind of the first
            if column is not None and column not in kinds:
                first = ".".join("0" if step.isdecimal() else step for step in column.split("."))
                kinds |= {column: kinds[first]} if first in kinds else {}
        return cls(document, kinds, tuple(asked), schema)

    def blocks(self, wanted: Sequence[str]) -> Iterator[Block]:
        """The values of some columns."""
        import polars as pl
        from polars import selectors

        paths = [columns.steps_to(column, self.schema) for column in wanted]
        outer = list(dict.fromkeys(path[0] for path in paths))
        strange = (
            selectors.temporal() | selectors.binary() | selectors.decimal()
        )  # such as dates, which make good labels
        batches = (
            _scan(self.document)
            .select(outer)
            .with_columns(strange.cast(pl.String))
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
    """A value of a type, so that types are looked at as the rows of JSON Lines are."""
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
