"""One column of a CSV or TSV file with a header: each row after it is a document.

CSV is read as RFC 4180 has it, with quotes; where the header has semicolons and no commas, semicolons
separate. In TSV there are no quotes: a field is what stands between tabs. Rows must have as many fields as
the header. Rows without text in the column are left out and counted.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from seqloom.data import columns
from seqloom.data.documents import Document
from seqloom.data.pieces import LONGEST, Piece, Tally
from seqloom.errors import DataError

_BLOCK = 1 << 20
_HEAD_ROWS = 100
_NUMBER = re.compile(r"\s*[-+]?[\d.,:/%eE+-]*\d[\d.,:/%eE+-]*\s*|true|false|nan|null|none|n/?a", re.IGNORECASE)


@dataclass(frozen=True)
class Delimited:
    """A column by its place in the header."""

    document: Document
    column: str
    place: int
    width: int
    separator: str
    quotes: bool

    @classmethod
    def open(cls, document: Document, column: str | None, *, quotes: bool) -> Delimited:
        """Read the header and settle on a column."""
        head = next(document.chunks(), b"").decode("utf-8")
        if not head.strip():
            raise DataError(f"{document.name} is empty; give a file with some text")
        separator = _separator(head) if quotes else "\t"
        header, *rows = _head_rows(head, separator, quotes)
        names = [name.strip() for name in header]
        if column is not None and names.count(column) > 1:
            raise DataError(f"{document.name} has {names.count(column)} columns called {column!r}; rename one")
        kinds = {name: _kind([row[k] for row in rows if k < len(row)]) for k, name in enumerate(names)}
        chosen = columns.choose(document.name, kinds, column, plain=True)
        return cls(document, chosen, names.index(chosen), len(names), separator, quotes)

    def pieces(self, tally: Tally) -> Iterator[Piece]:
        """The texts, block after block; a block goes on until it holds a whole row."""
        waiting: list[bytes] = []
        length, wanted, row, lines = 0, _BLOCK, 0, 0
        for chunk, final in _with_last(self.document.chunks()):
            waiting.append(chunk)
            length += len(chunk)
            if length < wanted and not final:
                continue
            data = b"".join(waiting)
            piece, n_rows, used = self._scan(data, final, row, lines, tally)
            if piece.data:
                yield piece
            lines, row = lines + data.count(b"\n", 0, used), row + n_rows
            waiting, length = [data[used:]], length - used
            wanted = _BLOCK if used else 2 * wanted
            if length > LONGEST:
                raise DataError(f"{self._place(row, lines)}: a row of more than {LONGEST >> 20} MB; "
                                "is a quote opened and never closed?")

    def _scan(self, data: bytes, final: bool, row: int, lines: int, tally: Tally) -> tuple[Piece, int, int]:
        """The whole rows of a block: their texts, how many there are, and where they end."""
        from seqloom.kernels.csv_rows import EMPTY, FINE, read_rows

        most = data.count(b"\n") + data.count(b"\r") + 1
        out, tallies = np.empty(len(data) + 1, np.uint8), np.zeros(2, np.int64)
        ends, rows = np.empty(most, np.int64), np.empty(most, np.int64)
        status, n, size, seen, used, fields = read_rows(
            np.frombuffer(data, np.uint8), len(data), final, ord(self.separator), self.quotes, self.place, self.width,
            1 if row == 0 else 0, out, ends, rows, tallies)
        if status != FINE:
            raise self._refuse(status, fields, row + seen, lines + data.count(b"\n", 0, used))
        tally.empty += int(tallies[EMPTY])
        return Piece(out[:size].tobytes(), ends[:n], rows[:n] + row), seen, used

    def _place(self, row: int, lines: int) -> str:
        return f"{self.document.name}, row {row} (line {lines + 1})"

    def _refuse(self, status: int, fields: int, row: int, lines: int) -> DataError:
        from seqloom.kernels.csv_rows import AFTER_QUOTE, OPEN_QUOTE

        place = self._place(row, lines)
        if status == OPEN_QUOTE:
            return DataError(f"{place}: the quote that opens field {fields + 1} is never closed")
        if status == AFTER_QUOTE:
            return DataError(f"{place}: text after the closing quote of field {fields}; "
                             'inside quotes a quote is written twice: ""')
        return DataError(f"{place}: {fields} fields where the header has {self.width}")


def _separator(head: str) -> str:
    """A comma, unless the first line has none and has semicolons."""
    first = re.sub(r'"[^"]*"', "", re.split(r"[\r\n]", head.lstrip("\r\n"), maxsplit=1)[0])
    return ";" if "," not in first and ";" in first else ","


def _head_rows(head: str, separator: str, quotes: bool) -> list[list[str]]:
    """The fields of the header and of some rows; only the header must be whole and right."""
    if not quotes:
        lines = [line.removesuffix("\r") for line in head.split("\n") if line.strip("\r")]
        return [line.split(separator) for line in lines[:_HEAD_ROWS]]
    rows = []
    try:
        for row in csv.reader(io.StringIO(head, newline=""), delimiter=separator):
            if row:
                rows.append(row)
            if len(rows) > _HEAD_ROWS:
                break
    except csv.Error:  # a field longer than the module allows; the header is enough
        pass
    return rows or [[]]


def _kind(values: list[str]) -> str:
    """Text, unless all that is there are numbers, dates and the like."""
    filled = [value for value in values if value.strip()]
    return columns.NUMBER if filled and all(map(_NUMBER.fullmatch, filled)) else columns.TEXT


def _with_last(chunks: Iterator[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Each chunk and whether it is the last one."""
    before = next(chunks, b"")
    for chunk in chunks:
        yield before, False
        before = chunk
    yield before, True
