"""Which columns of a table are read: those that are named, those with usual names, or the only possible ones.

A column may be nested: `meta.body` is the field `body` of the object `meta`, and `messages.0.content` that
of the first object of the list `messages`. A column whose own name has such dots takes precedence.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from datetime import date
from typing import Any

from seqloom.errors import DataError, quoted, suggest

TEXT, NUMBER, FLAG, OBJECT, LIST, NOTHING, BYTES = (
    "text",
    "number",
    "true or false",
    "object",
    "list",
    "null",
    "bytes",
)
TEXT_NAMES = (
    "text",
    "sentence",
    "review",
    "content",
    "document",
    "body",
    "comment",
    "message",
    "tweet",
    "utterance",
)
LABEL_NAMES = ("label", "class", "category", "target", "sentiment", "topic", "intent")
MAX_COLUMNS = (
    100_000  # names and first values of all columns are held; millions would fill the memory
)

_KINDS = {
    str: TEXT,
    bool: FLAG,
    int: NUMBER,
    float: NUMBER,
    dict: OBJECT,
    list: LIST,
    type(None): NOTHING,
    date: "date",
}
_ABSENT = object()
_DEEPEST = 20  # steps of a path that is found; longer ones can still be requested
_LONGEST_NUMBER = 19  # digits; no list has so many entries
_MAX_NAMES_SHOWN = 12


def choose(
    name: str, columns: Mapping[str, str], column: str | None, *, untyped: bool = False
) -> str:
    """Choose the text column among columns with these kinds of values; `untyped`: numbers are text too."""
    texts = [key for key, kind in columns.items() if kind == TEXT]
    if column is not None:
        kind = columns[check_name(name, columns, column)]
        if kind in (TEXT, NOTHING) or (untyped and kind == NUMBER):
            return column
        inside = [key for key in texts if key.startswith(f"{column}.")]
        hint = (
            f"; its text is in {listed(inside)}"
            if inside
            else f"; text is in {listed(texts)}"
            if texts
            else ""
        )
        raise DataError(
            f"column {column!r} of {name} holds {kind if kind in (FLAG, BYTES) else f'{kind}s'}, "
            f"not text{hint}"
        )
    if len(texts) == 1:
        return texts[0]
    if not texts and untyped and len(columns) == 1:
        return next(iter(columns))
    if not texts:
        raise DataError(f"{name} has no column of text; it has {listed(columns)}")
    raise DataError(
        f"{name} has {len(texts)} columns of text: {listed(texts)}; say which with column=..."
    )


def choose_pair(
    name: str, columns: Mapping[str, str], requested: Sequence[str | None]
) -> list[str] | None:
    """Choose the columns of text and label; None if there are two and neither name says which is which."""
    by_lower_name = {column.lower(): column for column in reversed(list(columns))}
    chosen = [
        next((by_lower_name[usual] for usual in usuals if usual in by_lower_name), None)
        if column is None
        else check_name(name, columns, column)
        for column, usuals in zip(requested, (TEXT_NAMES, LABEL_NAMES))
    ]
    plain = [column for column, kind in columns.items() if kind not in (OBJECT, LIST)]
    if len(columns) == 1:
        raise DataError(
            f"{name} has one column, {next(iter(columns))!r}; there must be one of text and one of labels"
        )
    if chosen == [None, None] and len(plain) == 2:
        return None
    for k, what in enumerate(("text", "label")):
        if chosen[k] is None and len(plain) == 2:
            chosen[k] = next((column for column in plain if column != chosen[1 - k]), None)
        if chosen[k] is None:
            raise DataError(
                f"{name} has the columns {listed(columns)}; say which holds the {what} with "
                f"--{what}-column ({what}_column=...)"
            )
    if chosen[0] == chosen[1]:
        raise DataError(f"{name}: the column {chosen[0]!r} cannot be both text and label")
    return [column for column in chosen if column is not None]


def without(
    name: str, columns: Mapping[str, str], pair: str, others: Sequence[str | None]
) -> dict[str, str]:
    """Return the columns without that of the second texts of pairs, which must differ from the `others`."""
    check_name(name, columns, pair)
    if pair in others:
        what = "both texts of a pair" if others[0] == pair else "text and label"
        raise DataError(f"{name}: the column {pair!r} cannot be {what}")
    return {column: kind for column, kind in columns.items() if column != pair}


def check_name(name: str, columns: Mapping[str, str], column: str) -> str:
    """Check that a column exists and return it."""
    if column not in columns:
        near = suggest(column, columns)
        raise DataError(
            f"{name} has no column {quoted(column)}{f'{near} It' if near else '; it'} has {listed(columns)}"
        )
    return column


def wrong_value(location: str, column: str, value: Any, expected: str) -> DataError:
    """Return the error for a value that is not what a column must hold."""
    if value is None or value == "":
        return DataError(f"{location}: no {expected} in column {column!r}")
    several = "; one label a row" if isinstance(value, list) and expected == "label" else ""
    expected_kind = "text" if expected == "text" else with_article(expected)
    return DataError(
        f"{location}, column {column!r}: {with_article(kind_of(value))}, not {expected_kind}{several}"
    )


def listed(names: Sequence[str] | Mapping[str, str]) -> str:
    """Join the names, or the first dozen."""
    return ", ".join(list(names)[:_MAX_NAMES_SHOWN]) + (
        f" and {len(names) - _MAX_NAMES_SHOWN} more" if len(names) > _MAX_NAMES_SHOWN else ""
    )


def kind_of(value: Any) -> str:
    """Return the kind of a value."""
    return _KINDS.get(type(value), type(value).__name__)


def with_article(kind: str) -> str:
    """Return a kind as written in a sentence, with its article."""
    return (
        kind
        if kind in (FLAG, NOTHING, BYTES)
        else f"an {kind}"
        if kind[0] in "aeiou"
        else f"a {kind}"
    )


def steps_to(column: str, names: Container[str]) -> tuple[str, ...]:
    """Return the path that a column stands for; an existing name with dots takes precedence."""
    return (column,) if column in names else tuple(column.split("."))


def number(step: str) -> int:
    """Return a step as a number, -1 if it is none; Python refuses to parse thousands of digits."""
    return int(step) if step.isdecimal() and len(step) < _LONGEST_NUMBER else -1


def look(value: Any, steps: Sequence[str], absent: Any = None) -> Any:
    """Return the value at the end of a path."""
    for step in steps:
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and 0 <= (index := number(step)) < len(value):
            value = value[index]
        else:
            return absent
    return value


def kinds_in(
    rows: Sequence[Any], names: Container[str], requested: Sequence[str | None]
) -> dict[str, str]:
    """Return all paths in some rows, and the requested ones, with the kinds of their values."""
    kinds: dict[str, str] = {}
    for row in rows:
        _flatten(row, "", kinds)
    for column in requested:
        if column is not None:
            steps = steps_to(column, names)
            present = {
                kind_of(value)
                for row in rows
                if (value := look(row, steps, _ABSENT)) is not _ABSENT
            }
            if present:
                kinds[column] = (
                    TEXT if TEXT in present else min(present - {NOTHING}, default=NOTHING)
                )
    return kinds


def _flatten(value: Any, path: str, kinds: dict[str, str]) -> None:
    """Add all paths in a value to `kinds`; of a list only its first entry, unless it is the row."""
    if path and kinds.get(path, NOTHING) == NOTHING:
        kinds[path] = kind_of(value)
    entries = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value[: 1 if path else MAX_COLUMNS])
        if isinstance(value, list)
        else ()
    )
    for key, inner in entries if path.count(".") < _DEEPEST else ():
        _flatten(inner, f"{path}.{key}" if path else str(key), kinds)
