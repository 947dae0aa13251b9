"""The rows of CSV and TSV, with or without a header.

CSV is read as RFC 4180 has it, with quotes; where the first line has semicolons and no commas, semicolons separate. In TSV
there are no quotes: a cell is what stands between tabs. All rows must have as many cells as the first.

The first row is a header if a column is asked for by name, if it holds a usual name (`text`, `label`, ...) that does not
come again below, or a word above numbers. It is none if nothing stands below it, if one of its cells comes again in its
column, is a number above numbers, or has no letter in it, or if columns are asked for by number. If nothing of this holds
it is taken as a header for text and as a row for labelled data, and that is said. Without a header, a column is called by
its number, from 1.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from seqloom import progress
from seqloom.data import columns
from seqloom.data.documents import Document
from seqloom.data.lines import line_blocks, numbered_lines
from seqloom.data.rows import Block
from seqloom.errors import DataError, quoted

LONGEST = (
    1 << 28
)  # characters of a cell, of which the module keeps four bytes each; more is a quote that was never closed

_HEAD_ROWS = 1000
_LONGEST_NUMBER = 50  # the pattern takes the square of a cell's length
_NUMBER = re.compile(
    r"\s*[-+]?[\d.,:/%eE+-]*\d[\d.,:/%eE+-]*\s*|true|false|nan|null|none|n/?a", re.IGNORECASE
)

Batch = tuple[
    list[list[str]], list[int]
]  # rows that are not blank, and the lines in which they begin


@dataclass(frozen=True)
class Delimited:
    """A file and what its columns are called."""

    document: Document
    kinds: dict[str, str]
    asked: tuple[str | None, ...]
    names: list[str]
    header: bool
    separator: str
    quotes: bool
    untyped: bool = True

    @classmethod
    def open(
        cls, document: Document, asked: Sequence[str | None], *, quotes: bool, doubtful: bool = True
    ) -> Delimited:
        """Look at the first rows; `doubtful`: whether a first row that may be a header or not is one."""
        separator = _separator(document) if quotes else "\t"
        batches = (rows for rows, _ in _batches(document, separator, quotes) if rows)
        head = next(batches, [])[:_HEAD_ROWS]
        if len(head) == 1:  # it may fill the block
            head += next(batches, [])[:_HEAD_ROWS]
        if not head:
            return cls(document, {}, tuple(asked), [], False, separator, quotes)
        names = [cell.strip() for cell in head[0]]
        below = [[row[k].strip() for row in head[1:] if k < len(row)] for k in range(len(names))]
        header = _is_header(names, below, asked)
        if header is None:
            header = doubtful
            shown = columns.listed(list(map(quoted, names)))
            progress.say(
                f"{document.name}: the first row is taken as the header: {shown}; if it is not, give columns by "
                "number"
                if doubtful
                else f"{document.name}: the first row is taken as data; if it is a header, give columns by name"
            )
        if not header:
            below = [[name, *cells] for name, cells in zip(names, below)]
            names = [str(k + 1) for k in range(len(names))]
        called = tuple(
            names[columns.number(column) - 1]
            if column is not None
            and column not in names
            and 0 < columns.number(column) <= len(names)
            else column
            for column in asked
        )
        for column in called:
            if column is not None and names.count(column) > 1:
                raise DataError(
                    f"{document.name} has {names.count(column)} columns called {column!r}; rename one"
                )
        return cls(
            document, dict(zip(names, map(_kind, below))), called, names, header, separator, quotes
        )

    def blocks(self, wanted: Sequence[str]) -> Iterator[Block]:
        """The values of some columns."""
        places = [self.names.index(column) for column in wanted]
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
                    [[row[k] for row in rows] for k in places],
                    range(before + 1, before + len(rows) + 1),
                    name,
                    lines,
                )
            before += len(rows)


def _is_header(
    names: list[str], below: list[list[str]], asked: Sequence[str | None]
) -> bool | None:
    """Whether the first row holds names; None where it cannot be known."""
    if any(column is not None and not column.isdecimal() for column in asked):
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
    return False if any(column is not None for column in asked) else None


def _kind(cells: Sequence[str]) -> str:
    """Text, unless all that is there are numbers, dates and the like."""
    filled = [cell for cell in cells if cell]
    return columns.NUMBER if filled and all(map(_is_number, filled)) else columns.TEXT


def _is_number(cell: str) -> bool:
    return len(cell) <= _LONGEST_NUMBER and _NUMBER.fullmatch(cell) is not None


def _separator(document: Document) -> str:
    """A comma, unless the first line has none and has semicolons."""
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
            if len(line) >= columns.MOST and line.count(separator) >= columns.MOST:
                raise _too_wide(document.name, number, line.count(separator) + 1)
        yield [line.split(separator) for _, line in filled], [number for number, _ in filled]


def _quoted(document: Document, separator: str) -> Iterator[Batch]:
    """Rows of CSV, those of a block of the file together."""
    fed = 0

    def texts() -> Iterator[io.StringIO]:
        nonlocal fed
        for block in line_blocks(document, returns=True):
            fed += 1
            yield io.StringIO(
                block.decode("utf-8"), newline=""
            )  # lines end with \n, \r\n or \r, and keep it

    if (
        csv.field_size_limit() < LONGEST
    ):  # one for the whole program; whoever put it back would cut off other threads
        csv.field_size_limit(LONGEST)
    reader = csv.reader(chain.from_iterable(texts()), delimiter=separator, strict=True)
    first, more = 1, True
    while more:
        rows: list[list[str]] = []
        lines: list[int] = []
        block, more = max(fed, 1), False
        try:
            for row in reader:
                if row:
                    if len(row) > columns.MOST:
                        raise _too_wide(document.name, first, len(row))
                    rows.append(row)
                    lines.append(first)
                first = reader.line_num + 1
                if fed > block:
                    more = True
                    break
        except csv.Error as error:
            raise _refuse(document.name, first, reader.line_num, str(error)) from None
        yield rows, lines


def _too_wide(name: str, line: int, cells: int) -> DataError:
    return DataError(f"{name}, line {line}: {cells:,} fields; a row can have {columns.MOST:,}")


def _refuse(name: str, first: int, line: int, why: str) -> DataError:
    if "expected after" in why:
        return DataError(
            f'{name}, line {line}: text after a closing quote; inside quotes a quote is written twice: ""'
        )
    return DataError(f"{name}, line {first}: an opening quote is never closed ({why})")
