"""The rows of JSON Lines: a JSON object a line, or a list in every line.

A column is a key, or a path such as `meta.body`; of two equal keys the last one counts. JSON can write half of a surrogate
pair, which is no character and becomes U+FFFD.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from seqloom.data import columns
from seqloom.data.documents import Document
from seqloom.data.lines import line_blocks
from seqloom.data.rows import Block
from seqloom.errors import DataError

_HEAD_ROWS = 100
_BLANK = " \t\r"
_SURROGATE = re.compile(rb"\\u[dD]")


@dataclass(frozen=True)
class JsonLines:
    """A file, its columns, and whether its rows are objects or lists."""

    document: Document
    kinds: dict[str, str]
    asked: tuple[str | None, ...]
    names: frozenset[str]
    shape: type
    untyped: bool = False

    @classmethod
    def open(cls, document: Document, asked: Sequence[str | None]) -> JsonLines:
        """Look at the first rows."""
        block = next(line_blocks(document, 1), b"").decode("utf-8")
        shape: type = list if block.lstrip().startswith("[") else dict
        filled = (
            (number, line) for number, line in enumerate(block.split("\n"), 1) if line.strip(_BLANK)
        )
        head = [
            _parse(document, number, line, shape) for number, line in islice(filled, _HEAD_ROWS)
        ]
        names = frozenset(key for row in head if isinstance(row, dict) for key in row)
        return cls(document, columns.kinds_in(head, names, asked), tuple(asked), names, shape)

    def blocks(self, wanted: Sequence[str]) -> Iterator[Block]:
        """The values of some columns."""
        document, shape = self.document, self.shape
        scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]  # half of what `json.loads` costs for a short line
        paths = [columns.steps_to(column, self.names) for column in wanted]
        only = (
            paths[0][0] if len(paths) == len(paths[0]) == 1 and shape is dict else None
        )  # the usual case, and faster
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
    """The value of a line, which must be an object or list; what is wrong with it is said."""
    place = f"{document.name}, line {number}"
    try:
        row = json.loads(line)
    except RecursionError:
        raise DataError(f"{place}: nested too deeply") from None
    except ValueError as error:
        why = (
            f"{error.msg}, character {error.pos + 1}"
            if isinstance(error, json.JSONDecodeError)
            else error
        )
        raise DataError(
            f"{place}: not valid JSON ({why}); there must be one object per line"
        ) from None
    if type(row) is not shape:
        actual, wanted = (columns.with_article(columns.kind_of(value)) for value in (row, shape()))
        raise DataError(
            f'{place}: {actual}, not {wanted}; there must be one per line, such as {{"text": "..."}}'
        )
    return row


def _replace_halves(values: list[Any]) -> int:
    """Put U+FFFD in place of halves of surrogate pairs; how many there were."""
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
