"""Tables as pictures: a cell for each number, dark where it is large, with the number written where it fits.

The size is fixed by the cells, also in a page, so that names and numbers stay legible; a wide one is scrolled.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from seqloom.charts import theme
from seqloom.charts.labels import CHARACTER
from seqloom.charts.pieces import columns_of

SMALL = 0.75  # of a character's width and size in a cell that is small
TIGHT = 34  # pixels of a cell below which its text is small
NAME = 26  # columns of a name, of which a letter takes one


class Cell(NamedTuple):
    """One number: where it stands, how dark it is (0 to 1), what is written on it, and what a page tells about it."""

    row: int
    column: int
    shade: float
    text: str
    tip: str
    hue: str = theme.HUES[0]


class Side(NamedTuple):
    """An axis: its title, a name for each row or column, pixels of a cell, and a remark below the title."""

    title: str
    names: Sequence[str]
    cell: float
    remark: str = ""


def heat_map(cells: Sequence[Cell], down: Side, across: Side) -> Any:
    """Rows `down` and columns `across`; names that do not fit above each other are turned."""
    import altair as alt

    values = [
        {
            "row": c.row,
            "column": c.column,
            "fill": blend(c.hue, c.shade),
            "ink": ink_on(blend(c.hue, c.shade)),
            "text": c.text,
            "row name": down.names[c.row],
            "column name": across.names[c.column],
            "value": c.tip,
        }
        for c in cells
    ]
    flat = max(map(text_width, across.names), default=0) <= across.cell - 4
    turned = (
        {"labelAngle": 0}
        if flat
        else {"labelAngle": -45, "labelAlign": "right", "labelBaseline": "top"}
    )
    base = alt.Chart().encode(
        x=alt.X(
            "column:O",
            title=[across.title, across.remark] if across.remark else across.title,
            scale=alt.Scale(domain=list(range(len(across.names))), padding=0),
            axis=_axis(alt, across.names, **turned),
        ),
        y=alt.Y(
            "row:O",
            title=down.title,
            scale=alt.Scale(domain=list(range(len(down.names))), padding=0),
            axis=_axis(alt, down.names),
        ),
        tooltip=[
            alt.Tooltip("row name:N", title=down.title),
            alt.Tooltip("column name:N", title=across.title),
            alt.Tooltip("value:N"),
        ],
    )
    boxes = base.mark_rect(stroke=theme.GRID, strokeWidth=0.7).encode(
        fill=alt.Fill("fill:N", scale=None)
    )
    small = min(down.cell, across.cell) < TIGHT
    size = (theme.FONT_SIZE - 1) * (SMALL if small else 1)
    text = base.mark_text(fontSize=size, baseline="middle").encode(
        text="text:N", color=alt.Color("ink:N", scale=None)
    )
    drawn = alt.layer(boxes, text, data=alt.InlineData(values=values)).properties(
        width=across.cell * len(across.names), height=down.cell * len(down.names)
    )
    return alt.hconcat(drawn)  # which keeps its size in a page


def room(across: float) -> int:
    """How many digits can be written into a cell of so many pixels."""
    return int((across - 3) / (CHARACTER * (SMALL if across < TIGHT else 1)))


def text_width(name: str) -> float:
    """About how many pixels a name takes as it is written; an East Asian character is as wide as two others."""
    return CHARACTER * _columns(short_name(name))


def short_name(name: str) -> str:
    """A long name without its middle, since names that begin alike often differ at their ends.

    >>> short_name("international organisation 17")
    'international…anisation 17'
    """
    if _columns(name) <= NAME:
        return name or "(empty)"
    start, end = name, name
    while _columns(start) > NAME // 2:
        start = start[:-1]
    while _columns(end) > NAME // 2 - 1:
        end = end[1:]
    return f"{start}…{end}"


def blend(hue: str, shade: float) -> str:
    """The colour at so much of the way from white to the hue.

    >>> blend("#0072B2", 0.0), blend("#0072B2", 0.5), blend("#0072B2", 1.0)
    ('#ffffff', '#80b8d8', '#0072b2')
    """
    parts = (int(hue[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(
        f"{round(255 + (part - 255) * min(max(shade, 0.0), 1.0)):02x}" for part in parts
    )


def ink_on(colour: str) -> str:
    """Black or white text, whichever has the larger contrast (WCAG 2).

    >>> ink_on("#ffffff") == theme.INK, ink_on("#0072b2")
    (True, '#ffffff')
    """
    back = _luminance(colour)
    return theme.INK if (back + 0.05) ** 2 > 1.05 * (_luminance(theme.INK) + 0.05) else "#ffffff"


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear))


def _axis(alt: Any, names: Sequence[str], **more: Any) -> Any:
    """Places are numbers, since a word may come twice; their names stand on the axis."""
    listed = json.dumps([short_name(name) for name in names], ensure_ascii=False)
    return alt.Axis(
        labelExpr=f"{listed}[datum.value]",
        labelOverlap=False,
        labelLimit=0,
        ticks=False,
        domain=False,
        labelPadding=5,
        **more,
    )


def _columns(text: str) -> int:
    return sum(map(columns_of, text))
