"""Tables as pictures: a cell for each number, dark where it is large, with the number written where it fits.

Confusion matrices (blue where the model is right, orange where not) and transition probabilities are
drawn this way. The size is fixed by the cells, also in a page, so that names and numbers stay legible;
a wide one is scrolled.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from seqloom.charts import theme
from seqloom.charts.passage import columns_of
from seqloom.charts.scales import CHARACTER

SMALL_TEXT = 0.75  # of a character's width and size in a cell that is small
TIGHT = 34  # pixels of a cell below which its text is small
NAME = 26  # columns of a name; a letter takes one
CAPITAL = 1.25  # of a letter's width
# Few fonts have it: a word with it would be drawn in whichever one does, its neighbour in another.
SPACE_MARK = "␣"


class Cell(NamedTuple):
    """One number: where it stands, how dark it is (0 to 1), what is written on it, and what a page
    tells about it.
    """

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
    """Draw a heat map with rows `down` and columns `across`; column names that do not fit are
    turned.
    """
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
            axis=name_axis(alt, across.names, **turned),
        ),
        y=alt.Y(
            "row:O",
            title=down.title,
            scale=alt.Scale(domain=list(range(len(down.names))), padding=0),
            axis=name_axis(alt, down.names),
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
    size = (theme.FONT_SIZE - 1) * (SMALL_TEXT if small else 1)
    text = base.mark_text(fontSize=size, baseline="middle").encode(
        text="text:N", color=alt.Color("ink:N", scale=None)
    )
    drawn = alt.layer(boxes, text, data=theme.table(values)).properties(
        width=across.cell * len(across.names), height=down.cell * len(down.names)
    )
    return alt.hconcat(drawn)  # a concatenation keeps its size in a page


def room(across: float) -> int:
    """Return how many digits fit into a cell `across` pixels wide."""
    return int((across - 3) / (CHARACTER * (SMALL_TEXT if across < TIGHT else 1)))


def text_width(name: str) -> float:
    """Return about how many pixels a name takes as written; an East Asian character is as wide as
    two others.
    """
    shown = short_name(name)
    return CHARACTER * (_columns(shown) + (CAPITAL - 1) * sum(map(str.isupper, shown)))


def token_font(names: Iterable[str]) -> dict[str, Any]:
    """Choose one font for tokens that show their spaces; none for other names."""
    return {"font": "monospace"} if any(SPACE_MARK in name for name in names) else {}


def short_name(name: str, most: int = NAME) -> str:
    """Cut the middle out of a long name, since names that begin alike often differ at their ends.

    >>> short_name("international organisation 17")
    'international…anisation 17'
    """
    if _columns(name) <= most:
        return name or "(empty)"
    start, end = name, name
    while _columns(start) > most // 2:
        start = start[:-1]
    while _columns(end) > most // 2 - 1:
        end = end[1:]
    return f"{start}…{end}"


def blend(hue: str, shade: float) -> str:
    """Return the colour at `shade` of the way from white to the hue.

    >>> blend("#0072B2", 0.0), blend("#0072B2", 0.5), blend("#0072B2", 1.0)
    ('#ffffff', '#80b8d8', '#0072b2')
    """
    parts = (int(hue[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(
        f"{round(255 + (part - 255) * min(max(shade, 0.0), 1.0)):02x}" for part in parts
    )


def ink_on(colour: str) -> str:
    """Choose black or white text, whichever has the larger contrast (WCAG 2).

    >>> ink_on("#ffffff") == theme.INK, ink_on("#0072b2")
    (True, '#ffffff')
    """
    back = _luminance(colour)
    return theme.INK if (back + 0.05) ** 2 > 1.05 * (_luminance(theme.INK) + 0.05) else "#ffffff"


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear))


def name_axis(alt: Any, names: Sequence[str], most: int = NAME, **more: Any) -> Any:
    """Make an axis with numbers as positions, since a word may come twice, labelled with names of
    at most so many columns.
    """
    if font := token_font(names):
        more["labelFont"] = font["font"]
    listed = json.dumps([short_name(name, most) for name in names], ensure_ascii=False)
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


# ---- confusion

MAX_CLASSES = 45  # classes; of more, the commonest are drawn and the rest stand together
# Pixels of a cell, and of all where cells need not be smaller.
MIN_CELL, MAX_CELL, SPACE = 26, 76, 660
RIGHT, WRONG, EITHER = theme.HUES[0], theme.HUES[1], "#8a8a8a"


def confusion_chart(classes: Sequence[str], counts: Sequence[Sequence[int]] | np.ndarray) -> Any:
    """Draw counts (C, C), rows gold and columns predicted; the shade is the root of the share of
    the row, so that rare errors show.
    """
    table = np.asarray(counts, dtype=np.int64)
    if table.shape != (len(classes), len(classes)) or not table.size:
        raise ValueError(f"{len(classes)} classes, but counts of shape {table.shape}")
    names, table = gathered(classes, table)
    size = min(max(SPACE / len(names), MIN_CELL), MAX_CELL)
    shares = table / np.maximum(table.sum(axis=1, keepdims=True), 1)  # (C, C)
    cells = [
        Cell(
            i,
            j,
            math.sqrt(shares[i, j]),
            short_number(int(table[i, j]), room(size)) if table[i, j] else "",
            f"{table[i, j]:,} ({shares[i, j]:.1%} of the row)",
            _hue(i, j, len(classes)),
        )
        for i in range(len(names))
        for j in range(len(names))
    ]
    return heat_map(
        cells, Side("gold", names, size), Side("predicted", names, size, "darker: more of the row")
    )


def _hue(row: int, column: int, classes: int) -> str:
    """Return the hue of a cell: right, wrong, or either, where the rarest classes are grouped."""
    if row != column:
        return WRONG
    return EITHER if classes > MAX_CLASSES and row == MAX_CLASSES - 1 else RIGHT


def gathered(
    classes: Sequence[str], counts: np.ndarray, most: int = MAX_CLASSES
) -> tuple[list[str], np.ndarray]:
    """Return the table as it is, or with the rarest classes merged into a last row and column.

    >>> names, table = gathered(["a", "b", "c"], np.array([[5, 0, 1], [0, 1, 1], [2, 0, 3]]), most=2)
    >>> names, table.tolist()
    (['a', '2 others'], [[5, 1], [2, 5]])
    """
    if len(classes) <= most:
        return list(classes), counts
    often = counts.sum(axis=1) + counts.sum(axis=0)
    commonest = np.sort(np.argsort(-often, kind="stable")[: most - 1])
    group = np.full(len(classes), most - 1)
    group[commonest] = np.arange(most - 1)
    table = np.zeros((most, most), dtype=np.int64)
    np.add.at(table, (group[:, None], group[None, :]), counts)
    return [*(classes[i] for i in commonest), f"{len(classes) - most + 1} others"], table


def short_number(number: int, digits: int) -> str:
    """Write a count in at most `digits` characters, where possible; the page shows it in full.

    >>> [short_number(n, 4) for n in (7, 1234, 12345, 999_999, 2_500_000)]
    ['7', '1234', '12k', '1M', '2.5M']
    """
    if len(f"{number:,}") <= digits:
        return f"{number:,}"
    if len(str(number)) <= digits:
        return str(number)
    unit, sign = next(
        (u, s)
        for u, s in ((1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T"))
        if round(number / u) < 1000
    )
    tenths = f"{number / unit:.1f}".removesuffix(".0")
    return (tenths if len(tenths) < digits else f"{number / unit:.0f}") + sign


# ---- transitions

MAX_STATES = 45  # states; of more, those where the chain is most often
STEPS = 500  # of the chain, after which its shares hardly change


def transition_chart(transitions: np.ndarray, names: Sequence[str]) -> Any:
    """Draw probabilities (S, S), from the state of the row to that of the column; what rounds to
    zero is not written.
    """
    table = np.asarray(transitions, dtype=np.float64)
    if table.shape != (len(names), len(names)) or not table.size:
        raise ValueError(f"{len(names)} states, but transitions of shape {table.shape}")
    rows = list(range(len(names)))
    columns = list(names)
    if len(names) > MAX_STATES:
        rows = sorted(np.argsort(-shares(table), kind="stable")[: MAX_STATES - 1].tolist())
        rest = 1 - table[np.ix_(rows, rows)].sum(axis=1, keepdims=True)
        table = np.concatenate([table[np.ix_(rows, rows)], rest], axis=1)
        columns = [*(names[i] for i in rows), f"{len(names) - len(rows)} others"]
    size = min(max(SPACE / len(columns), MIN_CELL), MAX_CELL)
    cells = [
        Cell(i, j, float(p), written(float(p), room(size)), f"{p:.4g}")
        for i, row in enumerate(table)
        for j, p in enumerate(row)
    ]
    return heat_map(cells, Side("from", [names[i] for i in rows], size), Side("to", columns, size))


def shares(transitions: np.ndarray) -> np.ndarray:
    """Compute how often the chain is in each state from a uniform start; staying half of the time
    makes cycles settle too.

    >>> shares(np.array([[0.9, 0.1], [0.3, 0.7]])).round(6).tolist()
    [0.75, 0.25]
    """
    often = np.full(len(transitions), 1 / len(transitions))
    for _ in range(STEPS):
        often = (often + often @ transitions) / 2
    return often  # (S,)


def written(probability: float, digits: int) -> str:
    """Write two digits after the point, without a leading zero where there is no room for it, and
    nothing for what is almost zero.

    >>> written(0.256, 4), written(0.256, 3), written(0.004, 4), written(1.0, 3)
    ('0.26', '.26', '', '1')
    """
    shown = f"{probability:.2f}"
    if shown == "0.00" or digits < 3:
        return ""
    return shown if digits >= 4 else "1" if shown == "1.00" else shown[1:]
