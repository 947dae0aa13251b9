"""Sources that are arrays of numbers, without targets: what a translator of features or frames is to describe.

From a file of NumPy; or a line each: a vector as plain numbers, or JSON, where a list is a vector, a list of lists is frames,
and an object has one of them in a column.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seqloom.data.number_rows import cells_of, lines_of_numbers, parse_values
from seqloom.data.parallel_forms import ARRAY_FILES, load_arrays
from seqloom.data.parallel_sides import SOURCE_NAMES, as_frames
from seqloom.data.sources import find_documents
from seqloom.errors import DataError, quoted


def number_sources(
    paths: Sequence[str], *, encoding: str = "utf-8", column: str | None = None
) -> Iterator[np.ndarray]:
    """One float32 (T, C) after the other; none, or `-`, is standard input."""
    for path in paths or ["-"]:
        if Path(path).suffix in ARRAY_FILES:
            for number, array in enumerate(load_arrays(Path(path).expanduser()), 1):
                yield as_frames(array, f"{path}, array {number}")
            continue
        for document in find_documents(path, encoding):
            for number, line in lines_of_numbers(document):
                place = f"{document.name}, line {number}"
                yield as_frames(_value(line.strip(), place, column), place)


def _value(line: str, place: str, column: str | None) -> Any:
    if line[0] not in "[{":
        return parse_values(cells_of(line), place)
    try:
        value = json.loads(line)
    except ValueError:
        raise DataError(f"{place}: not valid JSON; expected a list of numbers") from None
    if isinstance(value, dict):
        named = [column] if column is not None else [name for name in SOURCE_NAMES if name in value]
        if not named or named[0] not in value:
            raise DataError(
                f"{place} has the fields {', '.join(map(quoted, value))}; --column says which one is the source"
            )
        return value[named[0]]
    return value
