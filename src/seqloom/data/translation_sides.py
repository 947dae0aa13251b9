"""Lines of numbers, and the two sides of pairs: which columns are source and target, and what they may hold.

A line of numbers is a series, perhaps after its label, separated by tabs, commas, semicolons or blanks (as
in the UCR archive). A value that is empty, `?` or `nan` is missing. Series may be of any length.

The columns of source and target are the named ones, or those with usual names (`source`, `src`, ..;
`target`, `tgt`, ..); of `{"translation": {"en": .., "de": ..}}` the first language is the source. Of two
columns with other names the first is the source, which is reported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from seqloom import progress
from seqloom.data import columns
from seqloom.data.documents import Document, line_blocks, numbered_lines
from seqloom.data.examples import as_float32, refuse_beyond, values
from seqloom.errors import DataError, quoted, suggest
from seqloom.text.coding import to_bytes

MIN_NUMBERS = 4  # numbers in every line, from which on a table of numbers is taken for series
_HEAD = 20  # lines that are inspected
_MISSING = ("", "?", "nan", "na", "null")


def cells_of(line: str) -> list[str]:
    """Split a line into its values: at tabs, commas or semicolons, else at blanks."""
    for mark in ("\t", ",", ";"):
        if mark in line:
            return [cell.strip() for cell in line.strip("\r\n").split(mark)]
    return line.split()


def lines_of_numbers(document: Document) -> Iterator[tuple[int, str]]:
    """Yield the lines with their numbers. A blank line would have no prediction and is refused, except at
    the end.
    """
    blank = 0
    for first, lines in numbered_lines(document):
        for number, line in enumerate(lines, first):
            if not line.strip():
                blank = blank or number
            elif blank:
                raise DataError(
                    f"{document.name}, line {blank} is blank; each line must have numbers"
                )
            else:
                yield number, line


def parse_values(cells: list[str], location: str) -> np.ndarray:
    """Convert cells to float32 (T,); refuse what is not a number."""
    try:
        numbers = as_float32(
            [np.nan if cell.lower() in _MISSING else float(cell) for cell in cells]
        )
    except ValueError:
        wrong = next(
            cell for cell in cells if cell.lower() not in _MISSING and not _is_number(cell)
        )
        raise DataError(f"{location}: {quoted(wrong)} is not a number") from None
    refuse_beyond(numbers, f"{location}: the series")
    return numbers


def looks_numeric(document: Document) -> bool:
    """Return whether each of the first lines is a short label followed by several numbers."""
    block = next(line_blocks(document, 1), b"").decode("utf-8", "replace")
    rows = [cells_of(line) for line in block.split("\n")[:_HEAD] if line.strip()]
    return bool(rows) and all(
        len(row) > MIN_NUMBERS
        and re.fullmatch(r"[\w.+-]{1,20}", row[0])
        and all(map(_is_number, row[1:]))
        for row in rows
    )


def begin_with_labels(rows: list[list[str]], classes: Collection[str], length: int | None) -> bool:
    """Return whether each row has a label before its values: a class that is not a number or, if
    all series are known to have `length` values, a class before exactly that many.

    >>> begin_with_labels([["walk", "1", "2"]], {"walk"}, None)
    True
    >>> begin_with_labels([["1", "5", "2"]], {"1"}, 2)
    True
    >>> begin_with_labels([["1", "5", "2"]], {"1"}, 3), begin_with_labels([["7", "5", "2"]], {"1"}, 2)
    (False, False)
    """
    return all(
        row and label_of(row[0]) in classes and (not _is_number(row[0]) or len(row) - 1 == length)
        for row in rows
    )


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return cell.lower() in _MISSING
    return True


def label_of(cell: str) -> str:
    """Return a label as text, whole numbers in short form: 1.0000000e+00 is 1."""
    try:
        value = float(cell)
    except ValueError:
        return cell
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else cell


# ---- parallel sides

SOURCE_NAMES = ("source", "src", "input", "article", "document", "question", "prompt", "original")
TARGET_NAMES = (
    "target",
    "tgt",
    "trg",
    "output",
    "summary",
    "answer",
    "completion",
    "response",
    "corrected",
    "translation",
)
NESTED = "translation"  # a column of objects with both sides


class Sides(NamedTuple):
    """Unchecked values of both sides, and the names of the sides."""

    sources: Any  # lists; of many texts `data.kept.KeptTexts`
    targets: Any
    source_name: str = "source"
    target_name: str = "target"


def choose_sides(
    name: str, kinds: Mapping[str, str], requested: Sequence[str | None]
) -> tuple[str, str]:
    """Choose the source and target columns among columns that hold these kinds of values."""
    plain = [
        key
        for key, kind in kinds.items()
        if kind != columns.OBJECT and not _inside_list(key, kinds)
    ]
    if len(plain) == 1:
        raise DataError(
            f"{name} has one column, {plain[0]!r}; there must be one of sources and one of targets "
            f"(in TSV with "
            "a tab between them)"
        )
    chosen = [
        None if column is None else _named(name, kinds, plain, column) for column in requested
    ]
    nested = [key for key in plain if key.startswith(f"{NESTED}.")]
    if chosen == [None, None] and len(nested) == 2:
        return nested[0], nested[1]
    for k, usuals in enumerate((SOURCE_NAMES, TARGET_NAMES)):
        if requested[k] is None:
            leaves = {
                key.rsplit(".", 1)[-1].lower(): key
                for key in reversed(plain)
                if key != chosen[1 - k]
            }
            chosen[k] = next((leaves[usual] for usual in usuals if usual in leaves), None)
    if None in chosen:
        chosen = _by_position(name, kinds, plain, chosen)
    if chosen[0] == chosen[1]:
        raise DataError(f"{name}: the column {chosen[0]!r} cannot be both source and target")
    assert chosen[0] is not None
    assert chosen[1] is not None
    return chosen[0], chosen[1]


def from_rows(rows: list[Any], name: str, source: str | None, target: str | None) -> Sides:
    """Build the sides from pairs, or from dicts with the same keys."""
    if rows and isinstance(rows[0], Mapping):
        keys = dict.fromkeys(chain.from_iterable(rows[:100]))
        for number, row in enumerate(rows, 1):
            if not isinstance(row, Mapping):
                raise DataError(
                    f"row {number} of {name} must be a dict, as the first is; got {row!r:.60}"
                )
        return from_columns(
            {key: [row.get(key) for row in rows] for key in keys}, name, source, target
        )
    for number, pair in enumerate(rows, 1):
        if not isinstance(pair, (tuple, list, np.ndarray)) or len(pair) != 2:
            raise DataError(
                f"row {number} of {name} must be a pair of source and target; got {pair!r:.60}"
            )
    return Sides(
        [pair[0] for pair in rows],
        [pair[1] for pair in rows],
        source or "source",
        target or "target",
    )


def from_columns(
    table: Mapping[str, Any], name: str, source: str | None, target: str | None
) -> Sides:
    """Build the sides from two columns of a table in memory; one may hold dicts with both sides."""
    lists = {key: values(column, f"column {key}") for key, column in table.items()}
    first = {
        key: _plain(next((value for value in column if value is not None), None))
        for key, column in lists.items()
    }
    chosen = choose_sides(
        name, columns.kinds_in([first], first, (source, target)), (source, target)
    )
    sides = []
    for column in chosen:
        key, *steps = columns.steps_to(column, first)
        sides.append([columns.look(value, steps) for value in lists[key]] if steps else lists[key])
    return Sides(sides[0], sides[1], side_name(chosen[0], "source"), side_name(chosen[1], "target"))


def side_name(column: str, otherwise: str) -> str:
    """Return the name of a side: that of its column without the path; a number is not a name."""
    last = column.rsplit(".", 1)[-1] if column.startswith(f"{NESTED}.") else column
    return otherwise if last.isdecimal() else last


def as_sources(sources: list[Any], name: str) -> list[str] | list[np.ndarray]:
    """Return the sources as texts, or as arrays of numbers of equal width."""
    if not isinstance(sources[0], (np.ndarray, list, tuple)):
        return [
            as_text(value, f"row {row} of {name}", "source") for row, value in enumerate(sources, 1)
        ]
    arrays = [as_frames(value, f"row {row} of {name}") for row, value in enumerate(sources, 1)]
    for row, array in enumerate(arrays, 1):
        if array.shape[1] != arrays[0].shape[1]:
            raise DataError(
                f"row {row} of {name} has a source of the width {array.shape[1]}, the first one "
                f"{arrays[0].shape[1]}; all must have the same (a series of single values is a list of lists)"
            )
    return arrays


def as_targets(targets: list[Any], name: str) -> list[str]:
    """Return the targets as texts."""
    return [
        as_text(value, f"row {row} of {name}", "target") for row, value in enumerate(targets, 1)
    ]


def as_text(value: Any, location: str, side: str) -> str:
    """Return a value as text; whole numbers and decimals are written out."""
    if isinstance(value, str):
        if not value.isascii():
            to_bytes(value)  # refuses lone surrogates
        return str(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value == value:
        return json.dumps(value)
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], str):
        raise DataError(
            f"{location}: the {side} is a list of words; join them with ' '.join(words)"
        )
    what = "missing" if value is None or value != value else f"{value!r:.60}"
    raise DataError(f"{location}: the {side} is {what}; it must be text")


def as_frames(value: Any, location: str) -> np.ndarray:
    """Convert to float32 (T, C): frames, or a feature vector as one frame; NaN marks a missing value."""
    if not isinstance(value, (np.ndarray, list, tuple)):
        raise DataError(
            f"{location}: the source is {value!r:.60}; it must be an array of numbers, as the first one is"
        )
    if len(value) and isinstance(value[0], str):
        raise DataError(
            f"{location}: the source is a list of words; join them with ' '.join(words)"
        )
    try:
        array = as_float32(value)
    except (ValueError, TypeError, OverflowError):
        raise DataError(
            f"{location}: the source is {value!r:.60}, which is not an array of numbers"
        ) from None
    if array.ndim not in (1, 2) or not array.size:
        raise DataError(
            f"{location}: the source has the shape {array.shape}; it must be frames (time, values) or "
            f"a vector of "
            "features, and not empty"
        )
    refuse_beyond(array, f"{location}: the source")
    return array if array.ndim == 2 else array[None]


def _named(name: str, kinds: Mapping[str, str], plain: Sequence[str], column: str) -> str:
    """Find a column by its name, or by the unique end of its path: `de` for `translation.de`."""
    ends = [key for key in plain if key.endswith(f".{column}")]
    if column not in kinds and len(ends) == 1:
        return ends[0]
    if column not in kinds and "1" not in kinds:
        near = suggest(column, kinds)
        raise DataError(
            f"{name} has no column {quoted(column)}{f'{near} It' if near else '; it'} has "
            f"{columns.listed(plain)}; in a table without a header, give columns by number"
        )
    return columns.check_name(name, kinds, column)


def _by_position(
    name: str, kinds: Mapping[str, str], plain: Sequence[str], chosen: list[str | None]
) -> list[str | None]:
    """Choose the sides that are still open among two columns, or two text columns: the source first."""
    texts = [key for key in plain if kinds[key] == columns.TEXT]
    pair = plain if len(plain) == 2 else texts if len(texts) == 2 else []
    remaining = [key for key in pair if key not in chosen]
    if len(remaining) != chosen.count(None):
        k = chosen.index(None)
        side = ("source", "target")[k]
        raise DataError(
            f"{name} has the columns {columns.listed(plain)}; say which is the {side} with "
            f"--{side} ({side}=...)"
        )
    if len(remaining) == 2:
        progress.say(
            f"{name}: column {remaining[0]!r} is taken as the source, {remaining[1]!r} as the target"
        )
    return [remaining.pop(0) if column is None else column for column in chosen]


def _inside_list(key: str, kinds: Mapping[str, str]) -> bool:
    steps = key.split(".")
    return any(kinds.get(".".join(steps[:k])) == columns.LIST for k in range(1, len(steps)))


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value
