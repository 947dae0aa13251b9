"""Series with labels, one a line: a label, then its values between tabs, commas, semicolons or blanks (as in the UCR archive).

A value that is empty, `?` or `nan` is missing. Series may be of any length.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

import numpy as np

from seqloom.data.documents import Document
from seqloom.data.lines import line_blocks, numbered_lines
from seqloom.errors import DataError, quoted

FEWEST = 4  # numbers in every line, from which on a table of numbers is taken for series
_HEAD = 20  # lines that are looked at
_MISSING = ("", "?", "nan", "na", "null")


def cells_of(line: str) -> list[str]:
    """The values of a line: between tabs, commas or semicolons, else between blanks."""
    for mark in ("\t", ",", ";"):
        if mark in line:
            return [cell.strip() for cell in line.strip("\r\n").split(mark)]
    return line.split()


def lines_of_numbers(document: Document) -> Iterator[tuple[int, str]]:
    """The lines to be answered, with their numbers. A blank one has no answer and is refused, except at the end."""
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


def parse_values(cells: list[str], place: str) -> np.ndarray:
    """float32 (T,); what is not a number is refused."""
    try:
        return np.array(
            [np.nan if cell.lower() in _MISSING else float(cell) for cell in cells], np.float32
        )
    except ValueError:
        wrong = next(
            cell for cell in cells if cell.lower() not in _MISSING and not _is_number(cell)
        )
        raise DataError(f"{place}: {quoted(wrong)} is not a number") from None


def looks_numeric(document: Document) -> bool:
    """Whether each of the first lines is a short label and several numbers."""
    block = next(line_blocks(document, 1), b"").decode("utf-8", "replace")
    rows = [cells_of(line) for line in block.split("\n")[:_HEAD] if line.strip()]
    return bool(rows) and all(
        len(row) > FEWEST
        and re.fullmatch(r"[\w.+-]{1,20}", row[0])
        and all(map(_is_number, row[1:]))
        for row in rows
    )


def begin_with_labels(rows: list[list[str]], classes: Collection[str], length: int | None) -> bool:
    """Whether each row has a label before its values: a class that is no number, or, where all series are known to have
    `length` values, a class before exactly as many.

    >>> begin_with_labels([["walk", "1", "2"]], {"walk"}, None), begin_with_labels([["1", "5", "2"]], {"1"}, 2)
    (True, True)
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
    """As names are written: 1.0000000e+00 is 1."""
    try:
        value = float(cell)
    except ValueError:
        return cell
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else cell
