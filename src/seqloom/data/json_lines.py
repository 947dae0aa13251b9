"""One field of a JSON Lines file: a JSON object a line, each of them a document.

Blocks of whole lines go through a kernel in several threads (`kernels/json_rows.py`), which checks all of a
line and copies nothing but the field. A line that it refuses is given to Python's own parser for the words
of the message. Rows where the field is null, empty or not there are left out and counted.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from seqloom.data import columns
from seqloom.data.documents import Document
from seqloom.data.pieces import LONGEST, Piece, Tally
from seqloom.errors import DataError

_BLOCK = 1 << 20
_HEAD_ROWS = 100
_KINDS = {"{": columns.OBJECT, "[": columns.LIST, "t": columns.FLAG, "f": columns.FLAG}

_scratch = threading.local()


class _Scan(NamedTuple):
    """What the kernel made of a block."""

    block: bytes
    status: int
    data: bytes
    ends: np.ndarray
    rows: np.ndarray
    lines: int
    wrong: int
    tallies: np.ndarray


@dataclass(frozen=True)
class JsonLines:
    """The field of every line that the path leads to."""

    document: Document
    column: str
    steps: tuple[str, ...]

    @classmethod
    def open(cls, document: Document, column: str | None) -> JsonLines:
        """Look at the first rows and settle on a column."""
        rows = list(_head(document))
        if not rows:
            raise DataError(f"{document.name} is empty; give a file with some text")
        kinds: dict[str, str] = {}
        for row in rows:
            _flatten(row, "", kinds)
        if column is not None and (found := {kind for row in rows if (kind := _look(row, _steps(column, rows)))}):
            others = found - {columns.NOTHING}
            kinds[column] = columns.TEXT if columns.TEXT in found else min(others, default=columns.NOTHING)
        chosen = columns.choose(document.name, kinds, column)
        return cls(document, chosen, _steps(chosen, rows))

    def pieces(self, tally: Tally) -> Iterator[Piece]:
        """The texts, block after block."""
        from seqloom.kernels.json_rows import ABSENT, EMPTY, FINE, HALVES
        from seqloom.kernels.parallel import parallel_map

        keys = [step.encode() for step in self.steps]
        arena = np.frombuffer(b"".join(keys) + b"\0", np.uint8)
        ends = np.cumsum([0, *map(len, keys)])
        numbers = np.array([int(step) if step.isdecimal() and step.isascii() else -1 for step in self.steps])
        before = 0
        for scan in parallel_map(lambda block: _scan(block, arena, ends, numbers), line_blocks(self.document)):
            if scan.status != FINE:
                raise self._refuse(scan, before)
            tally.empty += int(scan.tallies[EMPTY])
            tally.absent += int(scan.tallies[ABSENT])
            tally.halves += int(scan.tallies[HALVES])
            if scan.data:
                yield Piece(scan.data, scan.ends, scan.rows + (before + 1))
            before += scan.lines

    def _refuse(self, scan: _Scan, before: int) -> DataError:
        from seqloom.kernels.json_rows import MOST_DEEP, NOT_TEXT, SYNTAX

        place = f"{self.document.name}, line {before + scan.lines + 1}"
        if scan.status == NOT_TEXT:
            kind = _KINDS.get(chr(scan.block[scan.wrong]), columns.NUMBER)
            return DataError(f"{place}, column {self.column!r}: {_article(kind)}, not text")
        if scan.status != SYNTAX:
            return DataError(f"{place}: brackets inside each other more than {MOST_DEEP} deep")
        start = scan.block.rfind(b"\n", 0, scan.wrong) + 1
        stop = scan.block.find(b"\n", scan.wrong)
        line = scan.block[start:] if stop < 0 else scan.block[start:stop]
        return not_json(place, line, scan.wrong - start)


def not_json(place: str, line: bytes, index: int = 0) -> DataError:
    """Python's parser says what is wrong with a line."""
    try:
        json.loads(line)
        why = f"character {len(line[:index].decode('utf-8', 'replace')) + 1}"
    except json.JSONDecodeError as error:
        why = f"{error.msg}, character {error.pos + 1}"
    except (ValueError, RecursionError) as error:
        why = str(error)
    return DataError(f"{place}: not valid JSON ({why}); there must be one object a line")


def line_blocks(document: Document, size: int = _BLOCK) -> Iterator[bytes]:
    """The content in blocks of about `size` bytes that end with a line."""
    waiting: list[bytes] = []
    length = 0
    for chunk in document.chunks():
        at = chunk.rfind(b"\n") + 1
        if at and length + at >= size:
            yield b"".join([*waiting, chunk[:at]])
            waiting, length, chunk = [], 0, chunk[at:]
        waiting.append(chunk)
        length += len(chunk)
        if length > LONGEST:
            raise DataError(f"{document.name} has a line of more than {LONGEST >> 20} MB; is it one object a line?")
    if length:
        yield b"".join(waiting)


def _scan(block: bytes, keys: np.ndarray, key_ends: np.ndarray, numbers: np.ndarray) -> _Scan:
    from seqloom.kernels.json_rows import PAD, read_rows

    out = getattr(_scratch, "out", None)
    if out is None or len(out) < len(block) + PAD:
        out = _scratch.out = np.empty(len(block) + PAD, np.uint8)
    most = block.count(b"\n") + 1
    ends, rows, tallies = np.empty(most, np.int64), np.empty(most, np.int64), np.zeros(4, np.int64)
    status, n, size, lines, wrong = read_rows(np.frombuffer(block, np.uint8), len(block), keys, key_ends, numbers,
                                              out, ends, rows, tallies)
    return _Scan(block if status else b"", status, out[:size].tobytes(), ends[:n], rows[:n], lines, wrong, tallies)


def _head(document: Document) -> Iterator[Any]:
    """The values of the first lines."""
    block = next(line_blocks(document, 1), b"")
    lines = (line for line in enumerate(block.split(b"\n"), 1) if line[1].strip())
    for number, line in islice(lines, _HEAD_ROWS):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise not_json(f"{document.name}, line {number}", line) from None
        if not isinstance(row, (dict, list)):
            raise DataError(f"{document.name}, line {number}: {_article(_kind(row))}, not an object; "
                            'there must be one object a line, such as {"text": "..."}')
        yield row


def _steps(column: str, rows: list[Any]) -> tuple[str, ...]:
    """The path that a name stands for; a key that is written with dots goes first."""
    literal = any(isinstance(row, dict) and column in row for row in rows)
    return (column,) if literal else tuple(column.split("."))


def _look(value: Any, steps: tuple[str, ...]) -> str:
    """The kind of value at the end of a path, or an empty string."""
    for step in steps:
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return ""
    return _kind(value)


def _flatten(value: Any, path: str, kinds: dict[str, str]) -> None:
    """All paths in a value and the kinds they lead to; of lists the first entry alone."""
    if path and kinds.get(path, columns.NOTHING) == columns.NOTHING:
        kinds[path] = _kind(value)
    entries = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, inner in entries:
        _flatten(inner, f"{path}.{key}" if path else str(key), kinds)


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return columns.FLAG
    kinds = {str: columns.TEXT, int: columns.NUMBER, float: columns.NUMBER, dict: columns.OBJECT, list: columns.LIST}
    return kinds.get(type(value), columns.NOTHING)


def _article(kind: str) -> str:
    return kind if kind in (columns.FLAG, columns.NOTHING) else f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"
