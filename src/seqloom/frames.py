"""Tables for notebooks: HTML of results, and rows as a frame of pandas or polars where one of them
is installed.

>>> table = Table([{"step": 10, "loss": 2.5}, {"step": 20, "loss": 2.25, "valid": 2.4}])
>>> table.columns, len(table), table["loss"]
(['step', 'loss', 'valid'], 2, [2.5, 2.25])
>>> print(table)
step  loss  valid
10    2.5
20    2.25  2.4
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.util import find_spec
from typing import Any

MAX_ROWS_SHOWN = 40  # rows of a table that a notebook shows


class Table:
    """Rows with named columns, for where neither pandas nor polars is installed."""

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self._rows = [dict(row) for row in rows]
        self.columns = list(dict.fromkeys(name for row in self._rows for name in row))

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, column: str) -> list[Any]:
        if column not in self.columns:
            raise KeyError(f"no column {column!r}; there are: {', '.join(self.columns)}")
        return [row.get(column) for row in self._rows]

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict per row; what a row does not have is None."""
        return [{name: row.get(name) for name in self.columns} for row in self._rows]

    def to_dict(self) -> dict[str, list[Any]]:
        """Return lists by column."""
        return {name: self[name] for name in self.columns}

    def __str__(self) -> str:
        cells = [
            self.columns,
            *([_cell(row[name]) for name in self.columns] for row in self.rows()),
        ]
        widths = [max(map(len, column)) for column in zip(*cells)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
            for row in cells
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [[_cell(row[name]) for name in self.columns] for row in self.rows()]
        half = MAX_ROWS_SHOWN // 2
        shown = (
            rows
            if len(rows) <= MAX_ROWS_SHOWN
            else [*rows[:half], ["…"] * len(self.columns), *rows[-half:]]
        )
        return html_table(
            self.columns, shown, after=[f"{len(rows):,} rows"] if len(shown) < len(rows) else []
        )


def as_frame(rows: Iterable[Mapping[str, Any]]) -> Any:
    """Make a frame of pandas or polars: of the one that the program has imported, else of the one
    that is installed; else a `Table`.
    """
    table = Table(rows)
    every = ("pandas", "polars")
    chosen = next((name for name in every if sys.modules.get(name)), None) or next(
        filter(_installed, every), None
    )
    if chosen == "pandas":
        import pandas

        return pandas.DataFrame(table.to_dict())
    if chosen == "polars":
        import polars

        return polars.DataFrame(table.to_dict(), strict=False)
    return table


def flat_row(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as cells of one row: those of a pair, such as an interval, and of a mapping get
    columns of their own.

    >>> flat_row({"f1": 0.5, "interval": (0.4, 0.6), "versus_best": {"p_value": 0.1}})
    {'f1': 0.5, 'interval_low': 0.4, 'interval_high': 0.6, 'versus_best_p_value': 0.1}
    """
    row: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, (tuple, list)) and len(value) == 2:
            value = dict(zip(("low", "high"), value))
        inner = flat_row(value) if isinstance(value, Mapping) else None
        row |= (
            {name: value}
            if inner is None
            else {f"{name}_{key}": cell for key, cell in inner.items()}
        )
    return row


def html_table(
    heading: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    before: Iterable[str] = (),
    after: Iterable[str] = (),
) -> str:
    """Return an HTML table of text cells, with lines before and after it.

    >>> print(html_table(["a"], [["1 < 2"]], after=["done"]))
    <table><thead><tr><th>a</th></tr></thead><tbody><tr><td>1 &lt; 2</td></tr></tbody></table><div>done</div>
    """

    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    def around(texts: Iterable[str]) -> str:
        return "".join(f"<div>{escape(text)}</div>" for text in texts if text)

    head = f"<thead>{line(heading, 'th')}</thead>" if any(heading) else ""
    body = "".join(line(row, "td") for row in rows)
    return f"{around(before)}<table>{head}<tbody>{body}</tbody></table>{around(after)}"


def _installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ValueError:  # it is in sys.modules as None: not to be imported
        return False


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.5g}" if isinstance(value, float) else str(value)
