"""What an answer rests on: a text whose words are coloured by what they add, or by the attention
that they get; and bars.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from seqloom.charts import theme
from seqloom.charts.heat import blend, ink_on, short_name
from seqloom.charts.passage import CELL, SIGNS, columns_of

COLUMNS = 76  # characters of a line
ROW = 22  # pixels of a bar
MAX_TOKENS = 1000  # tokens that are drawn
Values = Sequence[tuple[str, float]]


def coloured_tokens(
    values: Values, sides: tuple[str, str], *, joiner: str = " ", unit: str = "nats"
) -> Any:
    """Draw a text in lines, values above zero in the colour of the first side, below zero in that
    of the second, the darker the larger. Only the beginning of a long text is drawn.
    """
    import altair as alt

    cells, rows = placed(values[:MAX_TOKENS], joiner)
    wide = max((cell["right"] for cell in cells), default=1.0)
    base = alt.Chart(theme.table(cells)).encode(
        x=alt.X("left:Q", axis=None, scale=alt.Scale(domain=[0, wide], nice=False)),
        y=alt.Y("row:Q", axis=None, scale=alt.Scale(domain=[rows, 0], nice=False)),
        tooltip=[alt.Tooltip("token:N"), alt.Tooltip("value:Q", title=unit, format="+.3f")],
    )
    boxes = base.mark_rect(strokeWidth=0).encode(
        x2="right:Q", y2="below:Q", fill=alt.Fill("fill:N", scale=None)
    )
    text = base.mark_text(font="monospace", fontSize=13, baseline="middle", dy=CELL[1] / 2).encode(
        x="middle:Q", text="shown:N", color=alt.Color("ink:N", scale=None)
    )
    named = [side for side in sides if side]
    legend = (
        alt.Chart(theme.table([{"side": side} for side in named]))
        .mark_square(opacity=0)
        .encode(
            color=alt.Color(
                "side:N",
                title=None,
                sort=None,
                scale=alt.Scale(domain=named, range=list(theme.HUES[:2])),
                legend=alt.Legend(symbolType="square", symbolOpacity=1, symbolSize=160),
            )
        )
    )
    drawn = alt.layer(boxes, text, *([legend] if named else [])).properties(
        width=round(wide * CELL[0]), height=max(round(rows * CELL[1]), 1)
    )
    return alt.hconcat(drawn)  # a concatenation keeps its size in a page


def placed(values: Values, joiner: str = " ") -> tuple[list[dict[str, Any]], int]:
    """Return where each token stands on a grid, with its colour, and the number of rows; lines
    break between tokens.

    >>> cells, rows = placed([("so", 0.5), ("dull", -1.0)])
    >>> rows, [(cell["left"], cell["right"], cell["fill"]) for cell in cells]
    (1, [(0, 2, '#80b8d8'), (3, 7, '#d55e00')])
    """
    largest = max((abs(value) for _, value in values), default=0.0) or 1.0
    cells: list[dict[str, Any]] = []
    row = column = 0
    for token, value in values:
        shown = "".join(SIGNS.get(sign, sign) for sign in token)
        size = min(max(sum(map(columns_of, shown)), 1), COLUMNS)
        if column and column + size > COLUMNS:
            row, column = row + 1, 0
        fill = blend(theme.HUES[value < 0], abs(value) / largest)
        cells.append(
            {
                "token": token,
                "shown": shown,
                "value": value,
                "fill": fill,
                "ink": ink_on(fill),
                "row": row,
                "below": row + 0.92,
                "left": column,
                "right": column + size,
                "middle": column + size / 2,
            }
        )
        column += size + len(joiner)
    return cells, row + bool(cells)


def bars_of_shares(rows: Values, sides: tuple[str, str], unit: str = "nats") -> Any:
    """Draw a bar for each feature in the given order, to the right where it is for the first side."""
    import altair as alt

    values = [
        {
            "place": i,
            "name": short_name(name),
            "value": value,
            "side": sides[value < 0],
            "shown": f"{round(value, 3) + 0.0:+.3f}",
        }
        for i, (name, value) in enumerate(rows)
    ]
    far = 1.25 * max((abs(value) for _, value in rows), default=0.0) or 1.0
    listed = json.dumps([row["name"] for row in values], ensure_ascii=False)
    base = alt.Chart(theme.table(values)).encode(
        y=alt.Y(
            "place:O",
            title=None,
            axis=alt.Axis(
                ticks=False,
                domain=False,
                labelPadding=8,
                grid=False,
                labelExpr=f"{listed}[datum.value]",
            ),
        ),
        x=alt.X(
            "value:Q",
            title=unit,
            scale=alt.Scale(domain=[-far, far], nice=False),
            axis=alt.Axis(tickCount=7),
        ),
        tooltip=[
            alt.Tooltip("name:N", title="feature"),
            alt.Tooltip("value:Q", title=unit, format="+.3f"),
        ],
    )
    bars = base.mark_bar().encode(
        color=alt.Color(
            "side:N",
            title=None,
            sort=None,
            scale=alt.Scale(domain=list(sides), range=list(theme.HUES[:2])),
            legend=alt.Legend(symbolType="square", symbolOpacity=1),
        )
    )
    right = (
        base.transform_filter("datum.value >= 0")
        .mark_text(align="left", dx=4)
        .encode(text="shown:N")
    )
    left = (
        base.transform_filter("datum.value < 0")
        .mark_text(align="right", dx=-4)
        .encode(text="shown:N")
    )
    return alt.layer(bars, right, left).properties(height=max(ROW * len(values), 60))
