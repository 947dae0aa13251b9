"""A network unrolled in time: boxes in columns (steps) and rows (layers), and arrows between them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

from seqloom.charts import theme

COLUMN, ROW = 136, 84  # pixels from one box to the next
BOX = (78, 40)  # pixels of a box
FILLS = {"input": "#f3f3f3", "cell": "#d4e6f2", "back": "#f9dcc8", "output": "#e4efe4"}
NAMES = {
    "input": "what is read",
    "cell": "cells that read forwards",
    "back": "cells that read backwards",
    "output": "what is answered",
}
ASIDE = (10, 6)  # pixels beside a box of a way that passes one, and more for each further one
PORT = 26  # pixels from the middle of a box at which such a way leaves and enters


class Box(NamedTuple):
    """A box: its column and row (0 is the lowest), what is written in it, in two lines, and its kind."""

    column: int
    row: int
    name: str
    size: str
    kind: str


class Way(NamedTuple):
    """An arrow from one box to another, each by column and row, and what goes along it."""

    start: tuple[int, int]
    end: tuple[int, int]
    carries: str


def unrolled_chart(boxes: Sequence[Box], ways: Sequence[Way]) -> Any:
    """Draw the boxes, and an arrow for each way."""
    import altair as alt

    columns, rows = max(box.column for box in boxes), max(box.row for box in boxes)
    width, height = (columns + 1) * COLUMN, (rows + 1) * ROW
    x = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[0, width], nice=False))
    y = alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[0, height], nice=False))
    lines, heads, labels = [], [], []
    for number, way in enumerate(ways):
        points = path_of(way)
        lines += [{"way": number, "order": k, "x": a, "y": b} for k, (a, b) in enumerate(points)]
        (before_x, before_y), (end_x, end_y) = points[-2:]
        across = abs(end_x - before_x) > abs(end_y - before_y)
        angle = (90 if end_x > before_x else 270) if across else (0 if end_y > before_y else 180)
        heads.append({"x": end_x, "y": end_y, "angle": angle})
        if way.carries:  # above the longest part that is level
            (left, at), (right, _) = max(
                itertools.pairwise(points), key=lambda ends: abs(ends[1][0] - ends[0][0])
            )
            labels.append({"x": (left + right) / 2, "y": at + 5, "text": way.carries})
    drawn = [
        {
            "x": middle(box.column, COLUMN) - BOX[0] / 2,
            "x2": middle(box.column, COLUMN) + BOX[0] / 2,
            "y": middle(box.row, ROW) - BOX[1] / 2,
            "y2": middle(box.row, ROW) + BOX[1] / 2,
            "kind": NAMES[box.kind],
        }
        for box in boxes
    ]
    words = [
        {
            "x": middle(box.column, COLUMN),
            "y": middle(box.row, ROW) + up,
            "text": text,
            "size": size,
        }
        for box in boxes
        for text, up, size in (
            (box.name, 7 if box.size else 0, theme.FONT_SIZE - 1 - 2 * (len(box.name) > 10)),
            (box.size, -9, theme.FONT_SIZE - 3),
        )
        if text
    ]
    kinds = [kind for kind in FILLS if any(box.kind == kind for box in boxes)]

    def chart(values: list[dict[str, Any]]) -> Any:
        return alt.Chart(theme.table(values))

    layers = [
        chart(lines)
        .mark_line(color=theme.FAINT, strokeWidth=1.3)
        .encode(x=x, y=y, detail="way:N", order="order:Q"),
        chart(heads)
        .mark_point(shape="triangle-up", filled=True, size=46, color=theme.FAINT, opacity=1)
        .encode(x=x, y=y, angle=alt.Angle("angle:Q", scale=None)),
        chart(drawn)
        .mark_rect(stroke="#8a8a8a", cornerRadius=4)
        .encode(
            x=x,
            y=y,
            x2="x2:Q",
            y2="y2:Q",
            fill=alt.Fill(
                "kind:N",
                title=None,
                sort=None,
                scale=alt.Scale(
                    domain=[NAMES[kind] for kind in kinds], range=[FILLS[kind] for kind in kinds]
                ),
                legend=alt.Legend(symbolType="square", symbolSize=160, symbolStrokeColor="#8a8a8a"),
            ),
        ),
        chart(words)
        .mark_text(baseline="middle")
        .encode(x=x, y=y, text="text:N", size=alt.Size("size:Q", scale=None)),
    ]
    if labels:
        layers.append(
            chart(labels)
            .mark_text(fontSize=theme.FONT_SIZE - 2, color=theme.FAINT, baseline="bottom")
            .encode(x=x, y=y, text="text:N")
        )
    return alt.hconcat(alt.layer(*layers).properties(width=width, height=height))


def middle(place: float, size: float) -> float:
    return (place + 0.5) * size


def path_of(way: Way) -> list[tuple[float, float]]:
    """Return the points of an arrow from the edge of one box to the edge of another; one that would cross
    a box goes around it on the left or right.
    """
    (c0, r0), (c1, r1) = way.start, way.end
    x0, x1 = middle(c0, COLUMN), middle(c1, COLUMN)
    y0, y1 = middle(r0, ROW), middle(r1, ROW)
    if r0 == r1:  # along time
        side = BOX[0] / 2 if x1 > x0 else -BOX[0] / 2
        return [(x0 + side, y0), (x1 - side * 1.06, y1)]
    low, high = y0 + BOX[1] / 2, y1 - BOX[1] / 2 - 3
    if r1 < r0:  # from the top of one stack down to another
        gap, side = middle(c1 - 0.5, COLUMN) - 20, x1 - BOX[0] / 2 - 3
        return [(x0, low), (x0, low + 14), (gap, low + 14), (gap, y1), (side, y1)]
    if r1 - r0 == 1:
        turn = high - 9
        return (
            [(x0, low), (x1, high)] if c0 == c1 else [(x0, low), (x0, turn), (x1, turn), (x1, high)]
        )
    # Past boxes: from odd rows on the right, from even ones on the left, so that ways do not meet.
    side = 1 if r0 % 2 else -1
    beside = x0 + side * (BOX[0] / 2 + ASIDE[0] + ASIDE[1] * (r1 - r0 - 2))
    port, bus = x0 + side * PORT, high - 9
    start = [(port, low), (port, low + 9), (beside, low + 9), (beside, bus)]
    end = x1 + side * PORT if c0 == c1 else x1
    return [*start, (end, bus), (end, high)]
