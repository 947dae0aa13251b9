"""Tables of series: which columns have the times, the values, and the key that separates several series.

The time column is the named one, one with a usual name, or the first with values that parse as dates;
else an index column, whose whole numbers rise. A table of nothing but numbers, without either, has its
rows counted. Values are all other columns of numbers, unless some are named. An empty cell, `nan`,
`null`, `na` or `none` is a missing value.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from itertools import accumulate, pairwise
from typing import Any, Literal, NamedTuple

import numpy as np

from seqloom import progress
from seqloom.arrays import MAX_NUMBER
from seqloom.data import columns
from seqloom.data.documents import Document
from seqloom.data.examples import is_frame, values
from seqloom.data.rows import KINDS, Block, Rows, open_rows, table_kind
from seqloom.data.times import read_times
from seqloom.errors import DataError, SeqloomError, quoted

SeriesForm = Literal["auto", "csv", "tsv", "jsonl", "parquet"]

TIME_NAMES = (
    "time",
    "date",
    "timestamp",
    "datetime",
    "ds",
    "month",
    "day",
    "week",
    "quarter",
    "year",
    "hour",
    "period",
)
INDEX_NAMES = frozenset(("", "1", "#", "unnamed: 0", "index", "idx", "step", "row", "record"))
INDEX_NAMES |= {"t", "n", "i", "k", "no", "nr", "id", "obs", "observation", "sample"}
MISSING = frozenset({"", "nan", "na", "n/a", "null", "none", "-"})
_HEAD = 50  # values of a column that are inspected
_LONGEST_INDEX = 20  # digits


class Columns(NamedTuple):
    """The columns requested by name."""

    time: str | None = None
    values: tuple[str, ...] = ()
    key: str | None = None
    known: tuple[str, ...] = ()
    usual_key: str | None = None  # the default key, if the table has such a column


@dataclass(frozen=True)
class Table:
    """Rows in the order of the file, before they are put on a grid."""

    name: str
    times: list[Any]
    keys: list[Any] | None
    values: np.ndarray  # float64 (N, C)
    known: np.ndarray  # float64 (N, E)
    columns: tuple[str, ...]
    known_columns: tuple[str, ...]
    location: Callable[[int], str]  # of a row, for messages
    key_column: str | None = None
    counted: bool = False  # it has no times


def read_table(document: Document, form: SeriesForm, requested: Columns) -> Table:
    """Read the rows of a file."""
    rows = _open(document, form, requested)
    if not rows.kinds:
        raise DataError(f"{document.name} is empty; give a table with a column of times")
    requested, heads = _named(requested, rows), _Heads(rows)
    time, names, key, known = choose(document.name, rows.kinds, requested, heads)
    chosen = _listed(time, key, names, known)
    blocks = list(rows.blocks(chosen))
    location = _locator(blocks)
    cells = [[value for block in blocks for value in block.values[k]] for k in range(len(chosen))]
    if not cells[0]:
        raise DataError(f"{document.name} has no rows; give a table with some")
    if time is None:
        # an empty line of a single column is a missing value
        lines = [line for block in blocks for line in block.lines or ()]
        steps = [line - lines[0] for line in lines] if lines and len(rows.kinds) == 1 else None
        cells = [steps or _counted(cells[0] if key else None, len(cells[0])), *cells]
    if all(column.isdecimal() for column in (*rows.kinds, *names)):  # there is no header
        names = value_names(len(names))
    table = _table(document.name, cells, key, names, known, location)
    return replace(table, counted=time is None)


def with_index(data: Any) -> Any:
    """Return pandas data with an index of times as a frame with a time column; other data unchanged."""
    index: Any = getattr(data, "index", None)
    if getattr(getattr(index, "dtype", None), "kind", None) != "M":
        return data
    frame = data if is_frame(data) else data.to_frame("value" if data.name is None else data.name)
    return frame if index.name in frame.columns else frame.reset_index()


def columns_in_memory(data: Any, requested: Columns, name: str) -> Table:
    """Read the rows of a frame or a dict of columns; without a time column rows are counted."""
    cells = {
        str(column): values(data[column], str(column)) for column in getattr(data, "columns", data)
    }
    if not cells:
        raise DataError(f"{name} has no columns; give some")
    sizes = {column: len(rows) for column, rows in cells.items()}
    if len(set(sizes.values())) > 1:
        raise DataError(
            f"the columns of {name} have different lengths: {', '.join(f'{c} {n}' for c, n in sizes.items())}"
        )
    kinds = {column: _kind(rows) for column, rows in cells.items()}
    time, names, key, known = choose(
        name, kinds, requested, lambda column: cells[column][:_HEAD], any_countable=True
    )
    chosen = [cells[column] for column in _listed(time, key, names, known)]
    if not chosen[0]:
        raise DataError(f"{name} has no rows; give some")
    if time is None:
        chosen = [_counted(chosen[0] if key else None, len(chosen[0])), *chosen]
    return _table(name, chosen, key, names, known, lambda k: f"row {k + 1} of {name}")


def choose(
    name: str,
    kinds: Mapping[str, str],
    requested: Columns,
    head: Callable[[str], list[Any]],
    *,
    any_countable: bool = False,
) -> tuple[str | None, tuple[str, ...], str | None, tuple[str, ...]]:
    """Choose the columns of times (None: rows are counted), values, key and values known in advance.

    `any_countable`: rows are counted although there are columns that are not numbers, one of which may
    hold times in an unknown form.
    """
    if requested.key is None and requested.usual_key in kinds:
        requested = requested._replace(key=requested.usual_key)
    for column in (requested.time, requested.key, *requested.values, *requested.known):
        if column is not None:
            columns.check_name(name, kinds, column)
    times = (
        [requested.time]
        if requested.time
        else [c for c in kinds if c not in requested.values and _is_time(c, kinds, head)]
    )
    taken = {requested.key, *requested.known, *requested.values}
    if not times and len(kinds) > 1:
        times = [c for c in kinds if c not in taken and _is_index(c, head)][:1]
        if times:
            progress.say(f"{name}: the column {times[0]!r} has the numbers of the steps")
    countable = (
        any_countable
        or requested.values
        or (all(_holds_numbers(kinds[c], head(c)) for c in kinds if c not in taken))
    )
    if not times and not countable:
        raise DataError(
            f"{name} has no column of times among {columns.listed(kinds)}; name it with "
            "time_column=..."
        )
    time = next(
        (c for c in times if c is not None and c.lower() in TIME_NAMES), times[0] if times else None
    )
    used = {time, requested.key, *requested.known}
    remaining = [c for c in kinds if c not in used]
    names = requested.values or tuple(
        c
        for c in remaining
        if c not in times
        and (kinds[c] == columns.NUMBER or (kinds[c] == columns.TEXT and _mostly_numbers(head(c))))
    )
    if both := [c for c in names if c in used]:
        raise DataError(
            f"{name}: the column {both[0]!r} cannot be a value and something else at once"
        )
    if not names:
        raise DataError(
            f"{name} has no column of numbers{' besides ' * bool(used - {None})}"
            f"{', '.join(sorted(map(str, used - {None})))}; it has {columns.listed(kinds)}"
        )
    if not requested.values and (others := [c for c in remaining if c not in names]):
        progress.say(
            f"{name}: left out {columns.listed(others)}, which "
            f"{'is' if len(others) == 1 else 'are'} not numbers; "
            "if one tells several series apart, name it with key_column=..."
        )
    return time, tuple(names), requested.key, requested.known


def value_names(number: int) -> tuple[str, ...]:
    """Return the names of columns that have none."""
    return ("value",) if number == 1 else tuple(f"value {k + 1}" for k in range(number))


def _listed(
    time: str | None, key: str | None, names: tuple[str, ...], known: tuple[str, ...]
) -> list[str]:
    """Return the chosen columns, in the order of `_table`."""
    return [column for column in (time, key) if column is not None] + [*names, *known]


def _counted(keys: Sequence[Any] | None, number: int) -> list[int]:
    """Return the place of each row in its series."""
    if keys is None:
        return list(range(number))
    counts: dict[Any, int] = {}
    places = []
    for key in keys:
        places.append(counts.get(key, 0))
        counts[key] = places[-1] + 1
    return places


def time_column(rows: Rows) -> str | None:
    """Return the column that a table's times would be read from; None if it has none."""
    times = [column for column in rows.kinds if _is_time(column, rows.kinds, _Heads(rows))]
    return (
        next((column for column in times if column.lower() in TIME_NAMES), times[0])
        if times
        else None
    )


def is_counted(rows: Rows) -> bool:
    """Return whether a table without times is a series: one column of numbers, or with an index column."""
    head = _Heads(rows)
    numeric = all(_holds_numbers(kind, head(column)) for column, kind in rows.kinds.items())
    return numeric and (
        len(rows.kinds) == 1 or any(_is_index(column, head) for column in rows.kinds)
    )


def numbers(cells: Sequence[Any], column: str, location: Callable[[int], str]) -> np.ndarray:
    """Convert a column to float64, with NaN for missing values."""
    try:
        array = np.array(cells, np.float64)  # text too, where every cell is a number
    except (ValueError, TypeError, OverflowError):
        array = np.array(
            [_number(cell, column, location, k) for k, cell in enumerate(cells)], np.float64
        )
    if (beyond := np.abs(array) > MAX_NUMBER).any():
        at = int(beyond.argmax())
        raise beyond_measure(f"{location(at)}, column {column!r}", cells[at])
    return array


def beyond_measure(location: str, number: Any) -> DataError:
    """Return the error for a number that is infinite, or so large that its square might be."""
    return DataError(
        f"{location}: {quoted(number)} is not a number that can be learnt from: it is beyond "
        f"{MAX_NUMBER:g}; leave it out if it is a mistake, or give another unit"
    )


def _number(cell: Any, column: str, location: Callable[[int], str], k: int) -> float:
    if cell is None or (isinstance(cell, str) and cell.strip().lower() in MISSING):
        return float("nan")
    try:
        return float(cell)
    except OverflowError:  # a whole number of hundreds of digits
        return float("inf")
    except (TypeError, ValueError):
        raise DataError(
            f"{location(k)}, column {column!r}: {quoted(cell)} is not a number; leave the cell empty "
            f"where a value is "
            "missing"
        ) from None


def _table(
    name: str,
    data: list[list[Any]],
    key: str | None,
    names: tuple[str, ...],
    known: tuple[str, ...],
    location: Callable[[int], str],
) -> Table:
    first = 2 if key else 1
    arrays = [
        numbers(cells, column, location) for column, cells in zip((*names, *known), data[first:])
    ]
    size = len(data[0])
    matrix = np.stack(arrays, axis=1)
    keys = None if key is None else data[1]
    if keys is not None and (
        missing := [k for k, value in enumerate(keys) if value is None or value == ""]
    ):
        raise DataError(
            f"{location(missing[0])}: no key in column {key!r}; every row must say to which series it belongs"
        )
    return Table(
        name,
        data[0],
        keys,
        matrix[:, : len(names)],
        matrix[:, len(names) :].reshape(size, len(known)),
        tuple(names),
        tuple(known),
        location,
        key,
    )


def _open(document: Document, form: SeriesForm, requested: Columns) -> Rows:
    kind = table_kind(document.name) if form == "auto" else form
    if kind is None:
        head = next(document.chunks(), b"").lstrip()
        first = head.split(b"\n", 1)[0]
        delimited = "tsv" if b"\t" in first else "csv" if b"," in first or b";" in first else None
        if delimited is None and all(
            map(_is_number, head.decode("utf-8", "replace").split("\n")[1:2])
        ):
            delimited = "csv"  # one column of numbers, perhaps with a name above
        kind = "jsonl" if head.startswith(b"{") else delimited
    if kind is None or kind not in KINDS.values():
        raise DataError(
            f"{document.name} is no table; a series is read from {', '.join(KINDS)}, or say what "
            f"it is with form=..."
        )
    return open_rows(
        document, kind, [requested.time, *requested.values, requested.key, *requested.known]
    )


def _named(requested: Columns, rows: Rows) -> Columns:
    """Replace column numbers by names."""
    names = iter(rows.requested)
    return Columns(
        next(names),
        tuple(str(next(names)) for _ in requested.values),
        next(names),
        tuple(str(next(names)) for _ in requested.known),
        requested.usual_key,
    )


class _Heads:
    """The first values of columns, read when they are needed."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    def __call__(self, column: str) -> list[Any]:
        block = next(iter(self.rows.blocks([column])), None)
        return block.values[0][:_HEAD] if block else []


def _is_time(column: str, kinds: Mapping[str, str], head: Callable[[str], list[Any]]) -> bool:
    """Return whether a column holds times: by a usual name and values that can be times, or by
    values that are dates.
    """
    if kinds[column] in (columns.OBJECT, columns.LIST, columns.FLAG):
        return False
    usual = column.lower() in TIME_NAMES
    cells = head(column)
    plain = not all(
        isinstance(cell, (date, datetime)) or (isinstance(cell, str) and _dated(cell))
        for cell in cells
    )
    if not cells or (plain and not usual):
        return False
    try:  # by a usual name the first value is enough: errors further down are reported with their lines
        read_times(cells[:1] if usual else cells)
    except SeqloomError:
        return False
    return True


def _is_index(column: str, head: Callable[[str], list[Any]]) -> bool:
    """Return whether a column numbers the rows: by a usual name, and whole numbers that rise."""
    if column.strip().lower() not in INDEX_NAMES:
        return False
    cells = head(column)
    places = [int(c) for c in cells if str(c).strip().isdecimal() and len(str(c)) < _LONGEST_INDEX]
    return len(places) == len(cells) > 1 and all(a < b for a, b in pairwise(places))


def _holds_numbers(kind: str, cells: Sequence[Any]) -> bool:
    """Return whether a column is of numbers, by its kind and its first cells."""
    texts = any(isinstance(cell, str) for cell in cells)
    return _mostly_numbers(cells) if texts else kind in (columns.NUMBER, columns.NOTHING)


def _mostly_numbers(cells: Sequence[Any]) -> bool:
    """Return whether at least half of the filled cells are numbers; the others are reported later."""
    filled = [
        cell for cell in cells if isinstance(cell, str) and cell.strip().lower() not in MISSING
    ]
    return 2 * sum(map(_is_number, filled)) >= len(filled) > 0


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _dated(cell: str) -> bool:
    return len(cell) >= 6 and cell[:4].isdecimal() and cell[4] in "-/"


def _kind(rows: Sequence[Any]) -> str:
    first = next((value for value in rows if value is not None), None)
    if isinstance(first, np.generic):
        first = first.item()
    return columns.kind_of(first)


def _locator(blocks: Sequence[Block]) -> Callable[[int], str]:
    ends = list(accumulate(len(block.rows) for block in blocks))

    def location(k: int) -> str:
        at = bisect_right(ends, k)
        return blocks[at].location(k - (ends[at - 1] if at else 0))

    return location
