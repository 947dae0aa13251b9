"""Which column of a table is read: the one that is named, or the only one that holds text.

A column may lie deeper than the surface: `meta.body` is the field `body` of the object `meta`, and
`messages.0.content` that of the first object of the list `messages`. A name that stands in the table as it
is, dots and all, goes before a path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from seqloom.errors import DataError, suggest

TEXT, NUMBER, FLAG, OBJECT, LIST, NOTHING = "text", "number", "true or false", "object", "list", "null"

_SHOWN = 12


def choose(name: str, columns: Mapping[str, str], column: str | None, *, plain: bool = False) -> str:
    """The column to read of a table whose columns hold these kinds of values; `plain`: numbers are text too."""
    texts = [key for key, kind in columns.items() if kind == TEXT]
    if column is not None:
        kind = columns.get(column)
        if kind is None:
            near = suggest(column, columns)
            raise DataError(f"{name} has no column {column!r}{f'{near} It' if near else '; it'} has {listed(columns)}")
        if kind in (TEXT, NOTHING) or (plain and kind == NUMBER):
            return column
        inside = [key for key in texts if key.startswith(f"{column}.")]
        where = f"; its text is in {listed(inside)}" if inside else f"; text is in {listed(texts)}" if texts else ""
        raise DataError(f"column {column!r} of {name} holds {_several(kind)}, not text{where}")
    if len(texts) == 1:
        return texts[0]
    if not texts and plain and len(columns) == 1:
        return next(iter(columns))
    if not texts:
        raise DataError(f"{name} has no column of text; it has {listed(columns) or 'no columns'}")
    raise DataError(f"{name} has {len(texts)} columns of text: {listed(texts)}; say which with --column (column=...)")


def listed(names: Sequence[str] | Mapping[str, str]) -> str:
    """The names, or the first dozen."""
    return ", ".join(list(names)[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _several(kind: str) -> str:
    return kind if kind == FLAG else f"{kind}s"
