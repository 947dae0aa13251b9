"""The rows of JSON Lines: a JSON object a line, or a list in every line.

A column is a key, or a path such as `meta.body`; of two equal keys the last one counts. JSON can write half of a surrogate
pair, which is no character and becomes U+FFFD.
"""

from __future__ import annotations

import json
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
        numbered = list(islice(_parse(document, block, 1), _HEAD_ROWS))
        head = [row for _, row in numbered]
        shape = list if head and isinstance(head[0], list) else dict
        _check_shape(document, numbered, shape)
        names = frozenset(key for row in head if isinstance(row, dict) for key in row)
        return cls(document, columns.kinds_in(head, names, asked), tuple(asked), names, shape)

    def blocks(self, wanted: Sequence[str]) -> Iterator[Block]:
        """The values of some columns."""
        paths = [columns.steps_to(column, self.names) for column in wanted]
        before = 0
        for block in line_blocks(self.document):
            text = block.decode("utf-8")
            numbered = list(_parse(self.document, text, before + 1))
            before += block.count(b"\n")
            if set(map(type, (row for _, row in numbered))) - {self.shape}:
                _check_shape(self.document, numbered, self.shape)
            numbers = [number for number, _ in numbered]
            values = [self._values(numbered, path) for path in paths]
            halves = sum(map(_replace_halves, values)) if "\\u" in text else 0
            if numbers:
                yield Block(values, numbers, self.document.name, numbers, halves)

    def _values(self, numbered: list[tuple[int, Any]], path: tuple[str, ...]) -> list[Any]:
        if len(path) == 1 and self.shape is dict:
            return [row.get(path[0]) for _, row in numbered]
        return [columns.look(row, path) for _, row in numbered]


def _parse(document: Document, text: str, first: int) -> Iterator[tuple[int, Any]]:
    """Numbers and values of the lines that are not blank."""
    name = document.name
    for number, line in enumerate(text.split("\n"), first):
        line = line.strip(_BLANK)
        if not line:
            continue
        try:
            yield number, json.loads(line)
        except RecursionError:
            raise DataError(f"{name}, line {number}: brackets inside each other too deep") from None
        except ValueError as error:
            why = f"{error.msg}, character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else error
            raise DataError(f"{name}, line {number}: not valid JSON ({why}); there must be one object a line") from None


def _check_shape(document: Document, numbered: list[tuple[int, Any]], shape: type) -> None:
    """Every row must be of the same shape."""
    for number, row in numbered:
        if type(row) is not shape:
            raise DataError(f"{document.name}, line {number}: {columns.with_article(columns.kind_of(row))}, not "
                            f'{columns.with_article(columns.kind_of(shape()))}; there must be one a line, such as '
                            '{"text": "..."}')


def _replace_halves(values: list[Any]) -> int:
    """Put U+FFFD in place of halves of surrogate pairs; how many there were."""
    texts = [value for value in values if isinstance(value, str)]
    try:
        "".join(texts).encode("utf-8")
        return 0
    except UnicodeEncodeError:  # rare
        halves = sum("\ud800" <= character <= "\udfff" for text in texts for character in text)
        values[:] = ["".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in value) if isinstance(value, str) else value
                     for value in values]
        return halves
