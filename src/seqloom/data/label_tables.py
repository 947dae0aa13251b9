"""Two columns of a table, text and label: which they are, and the rows of CSV and TSV.

Which columns: those that are named, those with usual names (`text`, `review`, ...; `label`, `class`, ...), or, when there
are two and neither is known, the one with fewer different values is the label, and that is said. CSV and TSV may lack a
header; then a column is called by its number, from 1. `data/tables.py` reads one column and skips rows without it; here
a row needs both, so they are read together.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import NamedTuple

from seqloom import progress
from seqloom.data import columns
from seqloom.data.documents import Document
from seqloom.data.json_lines import line_blocks
from seqloom.data.pieces import LONGEST
from seqloom.errors import DataError

Batch = tuple[list[str], list[str]]  # texts and labels of some rows

TEXT_NAMES = ("text", "sentence", "review", "content", "document", "body", "comment", "message", "tweet", "utterance")
LABEL_NAMES = ("label", "class", "category", "target", "sentiment", "topic", "intent")

_ROWS = 10_000  # that are read together
_HEAD_ROWS = 1000  # that are looked at to find out what the columns are
_BREAK = re.compile(r"\r\n|\r|\n")
_NUMBER = re.compile(r"\s*[-+]?\d+(\.\d*)?\s*")


class Choice(NamedTuple):
    """The columns of text and label, as they are called or None."""

    text: str | None = None
    label: str | None = None


def read_delimited(document: Document, choice: Choice, *, quotes: bool) -> Iterator[Batch]:
    """The rows of CSV (with quotes) or TSV (without)."""
    layout: _Layout | None = None
    for before, rows in _quoted_rows(document) if quotes else _plain_rows(document):
        first = 0
        if layout is None:
            first = next((k for k, row in enumerate(rows) if row), len(rows))
            if first == len(rows):
                continue
            layout = _Layout.of(document.name, [row for row in rows[first:first + _HEAD_ROWS] if row], choice)
            first += layout.header
        filled = [row for row in rows[first:] if row]
        texts, labels = [], []
        if set(map(len, filled)) <= {layout.width}:
            texts, labels = [row[layout.text] for row in filled], [row[layout.label].strip() for row in filled]
        if len(texts) < len(filled) or "" in labels:
            layout.refuse(document.name, rows, first, before, quotes)
        if texts:
            yield texts, labels


class _Layout(NamedTuple):
    """How the rows look."""

    width: int
    text: int
    label: int
    header: bool

    @classmethod
    def of(cls, name: str, rows: list[list[str]], choice: Choice) -> _Layout:
        """By the first rows and by what was asked for."""
        names = [cell.strip() for cell in rows[0]]
        width = len(names)
        if width == 1:
            raise DataError(f"{name} has one column, {names[0]!r}; there must be one of text and one of labels")
        named = any(column is not None and not column.isdecimal() for column in choice)
        header = named or _looks_like_header(names, rows[1:])
        names = names if header else [str(k + 1) for k in range(width)]
        numbers = {str(k + 1): called for k, called in enumerate(names)}  # a number stands for a column with a name, too
        asked = Choice(*(numbers.get(column, column) if column is not None and column not in names else column
                         for column in choice))
        data = [row for row in rows[header:] if len(row) == width]
        if width == 2 and asked == (None, None) and (not header or not _known(names)):
            label = _fewer_values(data)
            progress.say(f"{name}: column {names[label]!r} is taken as the label, as it has fewer different values")
            if not header and len(data) > 10 and [row[label] for row in data].count(data[0][label]) == 1:
                progress.say(f"{name}: no other row has the label {data[0][label]!r} of the first row; if that is a "
                             "header, name the columns")
            return cls(width, 1 - label, label, header)
        chosen = choose_columns(name, names, asked)
        return cls(width, names.index(chosen[0]), names.index(chosen[1]), header)

    def refuse(self, name: str, rows: list[list[str]], first: int, before: int, quotes: bool) -> None:
        """Find the row that is wrong, and its line; with quotes rows may go over several."""
        line = before + 1
        for k, row in enumerate(rows):
            if k >= first and row:
                if len(row) != self.width:
                    raise DataError(f"{name}, line {line}: {len(row)} fields where the first row has {self.width}")
                if not row[self.label].strip():
                    raise DataError(f"{name}, line {line}: no label (column {self.label + 1} is empty)")
            line += _height(row) if quotes else 1


def choose_columns(name: str, names: Sequence[str], choice: Choice) -> tuple[str, str]:
    """The columns of text and label among these."""
    found = [_choose(name, names, asked, known) for asked, known in zip(choice, (TEXT_NAMES, LABEL_NAMES))]
    for k, what in enumerate(("text", "label")):
        if found[k] is None and found[1 - k] is not None and len(names) == 2:
            found[k] = next(column for column in names if column != found[1 - k])
        if found[k] is None:
            raise DataError(f"{name} has the columns {columns.listed(names)}; say which holds the {what} with "
                            f"--{what}-column ({what}_column=...)")
    text, label = found
    assert text is not None
    assert label is not None
    if text == label:
        raise DataError(f"{name}: the column {text!r} cannot be both text and label")
    return text, label


def _choose(name: str, names: Sequence[str], asked: str | None, known: Sequence[str]) -> str | None:
    if asked is not None:
        if names.count(asked) > 1:
            raise DataError(f"{name} has {names.count(asked)} columns called {asked!r}; rename one")
        return columns.choose(name, dict.fromkeys(names, columns.TEXT), asked)
    called = {column.lower(): column for column in reversed(names)}
    return next((called[usual] for usual in known if usual in called), None)


def _known(names: Sequence[str]) -> list[int]:
    """Places of columns with usual names."""
    return [k for k, column in enumerate(names) if column.lower() in TEXT_NAMES + LABEL_NAMES]


def _looks_like_header(names: list[str], rows: list[list[str]]) -> bool:
    """Usual names that do not come again below, or a word over a column of numbers."""
    for k in _known(names):
        if all(row[k].strip() != names[k] for row in rows if k < len(row)):
            return True
    return any(not _NUMBER.fullmatch(cell) and len(rows) > 0 and all(_NUMBER.fullmatch("".join(row[k:k + 1])) for row in rows)
               for k, cell in enumerate(names))


def _fewer_values(rows: list[list[str]]) -> int:
    """Of two columns the one with fewer different values; when there are as many, the shorter ones."""
    sizes = [(len({row[k].strip() for row in rows}), sum(len(row[k]) for row in rows)) for k in (0, 1)]
    return 0 if sizes[0] <= sizes[1] else 1


def _separator(document: Document) -> str:
    """A comma, unless the first line has none and has semicolons."""
    head = next(document.chunks(), b"").lstrip(b"\r\n")[:1 << 16].decode("utf-8", "ignore")
    first = re.sub(r'"[^"]*"', "", _BREAK.split(head, maxsplit=1)[0])
    return ";" if "," not in first and ";" in first else ","


def numbered_lines(document: Document) -> Iterator[tuple[int, list[str]]]:
    """Lines some thousands at a time, with the number of the first; cut at newlines only."""
    first = 1
    for block in line_blocks(document):
        text = block.decode("utf-8")
        lines = (text.replace("\r\n", "\n") if "\r" in text else text).removesuffix("\n").removesuffix("\r").split("\n")
        yield first, lines
        first += len(lines)


def _plain_rows(document: Document) -> Iterator[tuple[int, list[list[str]]]]:
    """What stands between tabs, some lines at a time, and how many lines stand before them."""
    for first, lines in numbered_lines(document):
        yield first - 1, [line.split("\t") if line else [] for line in lines]


def _quoted_rows(document: Document) -> Iterator[tuple[int, list[list[str]]]]:
    """Rows of CSV some at a time, and how many lines stand before them."""
    lines = (line.decode("utf-8") for block in line_blocks(document) for line in block.splitlines(keepends=True))
    reader = csv.reader(lines, delimiter=_separator(document), strict=True)
    rows: list[list[str]] = []
    while True:
        before, rows = reader.line_num, []
        try:
            with _long_fields():
                rows.extend(islice(reader, _ROWS))
        except csv.Error as error:
            first = before + 1 + sum(map(_height, rows))
            raise _refuse_quotes(document.name, first, reader.line_num, str(error)) from None
        if not rows:
            return
        yield before, rows


def _height(row: list[str]) -> int:
    """Over how many lines a row goes."""
    return 1 + sum(len(_BREAK.findall(cell)) for cell in row)


@contextmanager
def _long_fields() -> Iterator[None]:
    """The module's limit for a field is one for the whole program, so it is put back."""
    limit = csv.field_size_limit(LONGEST)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def _refuse_quotes(name: str, first: int, line: int, why: str) -> DataError:
    if "expected after" in why:
        return DataError(f'{name}, line {line}: text after a closing quote; inside quotes a quote is written twice: ""')
    return DataError(f"{name}, line {first}: a quote that is opened and never closed ({why})")
