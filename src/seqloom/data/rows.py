"""The one reader of tables: CSV, TSV, JSON Lines and Parquet, as values of the requested columns.

`open_rows` inspects the first rows and says which columns there are and what they hold; `blocks` then
streams the values of some of them, about a megabyte of the file at a time, with the numbers and lines
of the rows. Corpora read one column of text (`data/tables.py`), labelled data a text and a label
(`data/classification_forms.py`). A value is text in CSV and TSV, where a cell may be empty but is never
missing; in JSON Lines and Parquet it is what the file holds, and None for null or a missing column.

    >>> rows = open_rows(Document("a.csv", data=b"n,text\\n1,one\\n2,two\\n"), "csv")
    >>> rows.kinds
    {'n': 'number', 'text': 'text'}
    >>> [(block.values, block.location(1)) for block in rows.blocks(["text", "n"])]
    [([['one', 'two'], ['1', '2']], 'a.csv, line 3')]
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from seqloom import progress
from seqloom.data import columns
from seqloom.data.documents import Document, line_blocks, numbered_lines
from seqloom.data.pieces import COMPRESSED
from seqloom.errors import DataError, quoted

KINDS = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}


class Block(NamedTuple):
    """Some consecutive rows."""

    values: list[list[Any]]  # of each requested column
    rows: Sequence[int]  # their numbers: lines of JSON Lines, else rows of data, from 1
    name: str  # of the file
    lines: Sequence[int] | None  # where they begin; a Parquet file has none
    halves: int = 0  # lone surrogates that were replaced by U+FFFD

    def location(self, k: int) -> str:
        """Return the file and line, or row, of the k-th row, for messages."""
        return (
            f"{self.name}, row {self.rows[k]}"
            if self.lines is None
            else f"{self.name}, line {self.lines[k]}"
        )


class Rows(Protocol):
    """An open table."""

    @property
    def document(self) -> Document: ...
    @property
    def kinds(self) -> dict[str, str]:
        """Return the columns and their kinds in the first rows (`data/columns.py`); none in an empty file."""

    @property
    def requested(self) -> tuple[str | None, ...]:
        """Return the requested columns, with numbers replaced by names."""

    @property
    def untyped(self) -> bool:
        """Return whether every value is text, numbers among them."""

    def blocks(self, columns: Sequence[str]) -> Iterator[Block]:
        """Yield the values of these columns, row after row."""


def table_kind(path: Path | str) -> str | None:
    """Return the kind of table a file is by its extension; compressed Parquet is none."""
    file = Path(path)
    packed = file.suffix in COMPRESSED
    kind = KINDS.get(Path(file.stem if packed else file.name).suffix.lower())
    return None if packed and kind == "parquet" else kind


def open_rows(
    document: Document, kind: str, requested: Sequence[str | None] = (), *, doubtful: bool = True
) -> Rows:
    """Open a table of a kind with the requested columns, by name, number or path; None: any column.

    `doubtful`: whether to take an ambiguous first row of CSV and TSV as a header, as for text, or as data,
    as for labels; either is reported.
    """
    if kind == "jsonl":
        return JsonLines.open(document, requested)
    if kind == "parquet":
        from seqloom.data.tables import Parquet

        return Parquet.open(document, requested)

    return Delimited.open(document, requested, quotes=kind == "csv", doubtful=doubtful)


# ---- delimited

# characters of a cell (the csv module takes four bytes for each); a longer one is a quote never closed
MAX_FIELD_BYTES = 1 << 28

_DELIMITED_HEAD_ROWS = 1000
_LONGEST_NUMBER = 50  # characters; the time of the pattern is quadratic in the length of a cell
_NUMBER = re.compile(
    r"\s*[-+]?[\d.,:/%eE+-]*\d[\d.,:/%eE+-]*\s*|true|false|nan|null|none|n/?a", re.IGNORECASE
)

Batch = tuple[list[list[str]], list[int]]  # rows that are not blank, and the lines where they begin


@dataclass(frozen=True)
class Delimited:
    """CSV as in RFC 4180, with quotes, or TSV, which has none: a cell is the text between two tabs.

    CSV is separated by semicolons if the first line has some and no commas. All rows must have as many
    cells as the first. Without a header, columns are named by number, from 1.
    """

    document: Document
    kinds: dict[str, str]
    requested: tuple[str | None, ...]
    names: list[str]
    header: bool
    separator: str
    quotes: bool
    untyped: bool = True

    @classmethod
    def open(
        cls,
        document: Document,
        requested: Sequence[str | None],
        *,
        quotes: bool,
        doubtful: bool = True,
    ) -> Delimited:
        """Read the first rows; `doubtful` says whether to take an ambiguous first row as a header."""
        separator = _separator(document) if quotes else "\t"
        batches = (rows for rows, _ in _batches(document, separator, quotes) if rows)
        head = next(batches, [])[:_DELIMITED_HEAD_ROWS]
        if len(head) == 1:  # it may fill the block
            head += next(batches, [])[:_DELIMITED_HEAD_ROWS]
        if not head:
            return cls(document, {}, tuple(requested), [], False, separator, quotes)
        names = [cell.strip() for cell in head[0]]
        below = [[row[k].strip() for row in head[1:] if k < len(row)] for k in range(len(names))]
        header = _is_header(names, below, requested)
        if header is None:
            header = doubtful
            shown = columns.listed(list(map(quoted, names)))
            progress.say(
                f"{document.name}: the first row is taken as the header: {shown}; if it is not, "
                f"give columns by "
                "number"
                if doubtful
                else f"{document.name}: the first row is taken as data; if it is a header, give "
                f"columns by name"
            )
        if not header:
            below = [[name, *cells] for name, cells in zip(names, below)]
            names = [str(k + 1) for k in range(len(names))]
        resolved = tuple(
            names[columns.number(column) - 1]
            if column is not None
            and column not in names
            and 0 < columns.number(column) <= len(names)
            else column
            for column in requested
        )
        for column in resolved:
            if column is not None and names.count(column) > 1:
                raise DataError(
                    f"{document.name} has {names.count(column)} columns called {column!r}; rename one"
                )
        return cls(
            document,
            dict(zip(names, map(_kind, below))),
            resolved,
            names,
            header,
            separator,
            quotes,
        )

    def blocks(self, chosen: Sequence[str]) -> Iterator[Block]:
        """Yield the values of the wanted columns."""
        indices = [self.names.index(column) for column in chosen]
        name, width, before = self.document.name, len(self.names), 0
        skip = self.header
        for rows, lines in _batches(self.document, self.separator, self.quotes):
            if skip and rows:
                rows, lines, skip = rows[1:], lines[1:], False
            if set(map(len, rows)) - {width}:
                at, row = next((at, row) for at, row in zip(lines, rows) if len(row) != width)
                raise DataError(
                    f"{name}, line {at}: {len(row)} fields where the first row has {width}"
                )
            if rows:
                yield Block(
                    [[row[k] for row in rows] for k in indices],
                    range(before + 1, before + len(rows) + 1),
                    name,
                    lines,
                )
            before += len(rows)


def _is_header(
    names: list[str], below: list[list[str]], requested: Sequence[str | None]
) -> bool | None:
    """Return whether the first row holds column names; None if that cannot be known.

    It does if a column is requested by name, if it has a usual name (`text`, `label`, ...) that is not
    repeated in its column, or a word above numbers. It does not if no rows follow, if one of its cells is
    repeated in its column, is a number above numbers or has no letter, or if columns are requested by
    number.
    """
    if any(column is not None and not column.isdecimal() for column in requested):
        return True
    usual = columns.TEXT_NAMES + columns.LABEL_NAMES
    numbers = [_kind(cells) == columns.NUMBER for cells in below]
    for name, cells, numeric in zip(names, below, numbers):
        if (name.lower() in usual and name not in cells) or (numeric and not _is_number(name)):
            return True
    if not any(below):
        return False
    if any(
        name in cells or numeric or not any(map(str.isalpha, name))
        for name, cells, numeric in zip(names, below, numbers)
    ):
        return False
    return False if any(column is not None for column in requested) else None


def _kind(cells: Sequence[str]) -> str:
    """Return the kind of the cells: text, unless all non-empty ones are numbers, dates and the like."""
    filled = [cell for cell in cells if cell]
    return columns.NUMBER if filled and all(map(_is_number, filled)) else columns.TEXT


def _is_number(cell: str) -> bool:
    return len(cell) <= _LONGEST_NUMBER and _NUMBER.fullmatch(cell) is not None


def _separator(document: Document) -> str:
    """Return the separator: a comma, unless the first line has none but has semicolons."""
    head = next(document.chunks(), b"").lstrip(b"\r\n")[: 1 << 16].decode("utf-8", "ignore")
    first = re.sub(r'"[^"]*"', "", re.split(r"[\r\n]", head, maxsplit=1)[0])
    return ";" if "," not in first and ";" in first else ","


def _batches(document: Document, separator: str, quotes: bool) -> Iterator[Batch]:
    if quotes:
        yield from _quoted(document, separator)
        return
    for first, lines in numbered_lines(document):
        filled = [(number, line) for number, line in enumerate(lines, first) if line]
        for number, line in filled:
            if len(line) >= columns.MAX_COLUMNS and line.count(separator) >= columns.MAX_COLUMNS:
                raise _too_wide(document.name, number, line.count(separator) + 1)
        yield [line.split(separator) for _, line in filled], [number for number, _ in filled]


def _quoted(document: Document, separator: str) -> Iterator[Batch]:
    """Yield rows of CSV, those of one block of the file together."""
    n_blocks = 0

    def texts() -> Iterator[io.StringIO]:
        nonlocal n_blocks
        for block in line_blocks(document, returns=True):
            n_blocks += 1
            # lines end with \n, \r\n or \r, and keep it
            yield io.StringIO(block.decode("utf-8"), newline="")

    # the limit is global: restoring it afterwards would affect other threads
    if csv.field_size_limit() < MAX_FIELD_BYTES:
        csv.field_size_limit(MAX_FIELD_BYTES)
    reader = csv.reader(chain.from_iterable(texts()), delimiter=separator, strict=True)
    first, more = 1, True
    while more:
        rows: list[list[str]] = []
        lines: list[int] = []
        block, more = max(n_blocks, 1), False
        try:
            for row in reader:
                if row:
                    if len(row) > columns.MAX_COLUMNS:
                        raise _too_wide(document.name, first, len(row))
                    rows.append(row)
                    lines.append(first)
                first = reader.line_num + 1
                if n_blocks > block:
                    more = True
                    break
        except csv.Error as error:
            raise _csv_error(document.name, first, reader.line_num, str(error)) from None
        yield rows, lines


def _too_wide(name: str, line: int, cells: int) -> DataError:
    return DataError(
        f"{name}, line {line}: {cells:,} fields; a row can have {columns.MAX_COLUMNS:,}"
    )


def _csv_error(name: str, first: int, line: int, why: str) -> DataError:
    if "expected after" in why:
        return DataError(
            f'{name}, line {line}: text after a closing quote; inside quotes a quote is written twice: ""'
        )
    return DataError(f"{name}, line {first}: an opening quote is never closed ({why})")


# ---- json lines

_JSON_HEAD_ROWS = 100
_BLANK = " \t\r"
_SURROGATE = re.compile(rb"\\u[dD]")


@dataclass(frozen=True)
class JsonLines:
    """JSON Lines: an object in each line, or a list in each line.

    A column is a key, or a path such as `meta.body`; of two equal keys the last one counts. JSON can write
    half of a surrogate pair, which is no character and becomes U+FFFD.
    """

    document: Document
    kinds: dict[str, str]
    requested: tuple[str | None, ...]
    names: frozenset[str]
    shape: type
    untyped: bool = False

    @classmethod
    def open(cls, document: Document, requested: Sequence[str | None]) -> JsonLines:
        """Read the first rows."""
        block = next(line_blocks(document, 1), b"").decode("utf-8")
        shape: type = list if block.lstrip().startswith("[") else dict
        filled = (
            (number, line) for number, line in enumerate(block.split("\n"), 1) if line.strip(_BLANK)
        )
        head = [
            _parse(document, number, line, shape)
            for number, line in islice(filled, _JSON_HEAD_ROWS)
        ]
        names = frozenset(key for row in head if isinstance(row, dict) for key in row)
        return cls(
            document, columns.kinds_in(head, names, requested), tuple(requested), names, shape
        )

    def blocks(self, chosen: Sequence[str]) -> Iterator[Block]:
        """Yield the values of the wanted columns."""
        document, shape = self.document, self.shape
        # Half of what `json.loads` costs for a short line.
        scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
        paths = [columns.steps_to(column, self.names) for column in chosen]
        # one key alone, the usual case, is faster without a path
        only = paths[0][0] if len(paths) == len(paths[0]) == 1 and shape is dict else None
        first = 1
        for block in line_blocks(document):
            values: list[list[Any]] = [[] for _ in paths]
            numbers: list[int] = []
            text = block.decode("utf-8")
            lines = (text.replace("\r\n", "\n") if "\r" in text else text).split("\n")
            for number, line in enumerate(lines, first):
                try:
                    row, end = scan(line, 0)
                except (StopIteration, ValueError, RecursionError):
                    end = -1
                if end != len(line) or type(row) is not shape:
                    if not line.strip(_BLANK):
                        continue
                    row = _parse(document, number, line, shape)
                numbers.append(number)
                if only is not None:
                    values[0].append(row.get(only))
                    continue
                for column, path in zip(values, paths):
                    column.append(columns.look(row, path))
            first += len(lines) - 1
            if numbers:
                halves = sum(map(_replace_halves, values)) if _SURROGATE.search(block) else 0
                yield Block(values, numbers, document.name, numbers, halves)


def _parse(document: Document, number: int, line: str, shape: type) -> Any:
    """Return the value of a line, which must be of type `shape`; raise an error that says what is wrong."""
    location = f"{document.name}, line {number}"
    try:
        row = json.loads(line)
    except RecursionError:
        raise DataError(f"{location}: nested too deeply") from None
    except ValueError as error:
        why = (
            f"{error.msg}, character {error.pos + 1}"
            if isinstance(error, json.JSONDecodeError)
            else error
        )
        raise DataError(
            f"{location}: not valid JSON ({why}); there must be one object per line"
        ) from None
    if type(row) is not shape:
        actual, expected = (
            columns.with_article(columns.kind_of(value)) for value in (row, shape())
        )
        raise DataError(
            f'{location}: {actual}, not {expected}; there must be one per line, such as {{"text": "..."}}'
        )
    return row


def _replace_halves(values: list[Any]) -> int:
    """Replace lone surrogates by U+FFFD; return how many there were."""
    texts = [value for value in values if isinstance(value, str)]
    try:
        "".join(texts).encode("utf-8")
        return 0
    except UnicodeEncodeError:  # rare
        halves = sum("\ud800" <= character <= "\udfff" for text in texts for character in text)
        values[:] = [
            "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in value)
            if isinstance(value, str)
            else value
            for value in values
        ]
        return halves
