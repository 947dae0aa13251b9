"""Gates and states of recurrent units along a text: a row for each unit, a column for each step, and the
memories of the units of several layers as curves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from seqloom.charts import theme
from seqloom.charts.belief import windows
from seqloom.charts.heat import blend, ink_on, name_axis, text_width
from seqloom.charts.passage import CELL, columns_of
from seqloom.charts.scales import log_domain, spaced_ticks

STEPS = 60  # columns; of a longer text each is the mean of some steps
CELLS = theme.MOST_ROWS - 200
ROW, MIN_COLUMN, MAX_COLUMN, SPACE = 14, 13, 30, 840  # pixels
POINTS = 150  # of a curve
NAME = 16  # characters of a token below the columns


def state_chart(values: np.ndarray, steps: Sequence[str], units: Sequence[int]) -> Any:
    """Draw values (T, U) between -1 and 1, or larger ones as shares of the largest: blue above zero,
    orange below, the darker the farther from it.
    """
    import altair as alt

    table, names, title = np.asarray(values, np.float64), list(steps), "steps"
    if table.shape != (len(names), len(units)) or not table.size:
        raise ValueError(f"{len(names)} steps, {len(units)} units, values of shape {table.shape}")
    low, high = float(table.min()), float(table.max())
    most = min(STEPS, max(CELLS // len(units), 1))
    if len(names) > most:
        names, table, size = windows(table, most)
        title = f"steps, by number; each column is the mean of {size}"
    largest = max(abs(low), abs(high), 1.0)
    width = min(max(SPACE / len(names), MIN_COLUMN), MAX_COLUMN)
    rows = [
        {
            "row": u,
            "column": t,
            "fill": blend(theme.HUES[int(value < 0)], abs(value) / largest),
            "unit": units[u],
            "step": names[t],
            "value": f"{value:.4g}",
        }
        for t, line in enumerate(table)
        for u, value in enumerate(line)
    ]
    turned: dict[str, Any] = {"labelAngle": 0}
    if max(map(text_width, names)) > width:
        turned = {"labelAngle": -60, "labelAlign": "right", "labelBaseline": "middle"}
    signed = "blue above zero, orange below" if low < 0 else "darker is larger"
    scale = f"from {low:.2f} to {high:.2f}; {signed}"
    drawn = (
        alt.Chart(theme.table(rows))
        .mark_rect(stroke="white", strokeWidth=0.4)
        .encode(
            x=alt.X(
                "column:O",
                title=[title, scale],
                scale=alt.Scale(domain=list(range(len(names))), padding=0),
                axis=name_axis(alt, names, NAME, **turned),
            ),
            y=alt.Y(
                "row:O",
                title="unit",
                scale=alt.Scale(domain=list(range(len(units))), padding=0),
                axis=name_axis(alt, [str(unit) for unit in units], labelFontSize=10),
            ),
            fill=alt.Fill("fill:N", scale=None),
            tooltip=[alt.Tooltip("unit:N"), alt.Tooltip("step:N"), alt.Tooltip("value:N")],
        )
        .properties(width=width * len(names), height=ROW * len(units))
    )
    return alt.hconcat(drawn)  # a concatenation keeps its size in a page


def memory_chart(half_lives: Mapping[str, np.ndarray]) -> Any:
    """Draw the half-lives of the units of several layers, longest first, on a logarithmic axis."""
    import altair as alt

    rows = []
    for name, values in half_lives.items():
        finite = np.sort(values[np.isfinite(values) & (values > 0)])[::-1]
        at = np.unique(np.linspace(0, len(finite) - 1, min(len(finite), POINTS)).astype(int))
        rows += [
            {"name": name, "share": (i + 0.5) / len(finite), "steps": float(finite[i])}
            for i in at.tolist()
        ]
    if not rows:
        raise ValueError("no half-life to draw")
    colours = theme.group_colours(list(half_lives))
    domain = log_domain([row["steps"] for row in rows], 0.04)
    return (
        alt.Chart(theme.table(rows))
        .mark_line(point=len(rows) <= 3 * len(half_lives))
        .encode(
            x=alt.X(
                "share:Q",
                title="units, those with the longest memory first",
                scale=alt.Scale(domain=[0, 1], nice=False),
                axis=alt.Axis(format="%"),
            ),
            y=alt.Y(
                "steps:Q",
                title="half-life in steps (log scale)",
                scale=alt.Scale(type="log", domain=domain, nice=False),
                axis=alt.Axis(values=spaced_ticks(domain, 240), format="~g"),
            ),
            color=alt.Color(
                "name:N",
                title=None,
                scale=alt.Scale(domain=list(colours), range=list(colours.values())),
                legend=alt.Legend(
                    symbolType="stroke", symbolStrokeWidth=3, columns=2, labelLimit=360
                ),
            ),
            tooltip=[alt.Tooltip("name:N"), alt.Tooltip("steps:Q", format=".3~g")],
        )
        .properties(height=240)
    )


def step_chart(units: Sequence[int], parts: Mapping[str, np.ndarray], after: np.ndarray) -> Any:
    """Draw for each unit what its state is the sum of, as bars, and the state itself, as a line."""
    import altair as alt

    colours = theme.group_colours(list(parts))
    place = [
        {"place": i, "unit": units[i], "part": name, "value": float(values[i])}
        for name, values in parts.items()
        for i in range(len(units))
    ]
    marks = [{"place": i, "unit": units[i], "value": float(v)} for i, v in enumerate(after)]
    axis = name_axis(alt, [str(unit) for unit in units], labelAngle=0, labelFontSize=10)
    x = alt.X("place:O", title="unit, those that change most first", axis=axis)
    y = alt.Y("value:Q", title="value", axis=alt.Axis(format="~g"))
    tips = [alt.Tooltip("unit:N"), alt.Tooltip("value:Q", format="+.4f")]
    bars = (
        alt.Chart(theme.table(place))
        .mark_bar()
        .encode(
            x=x,
            y=y,
            xOffset=alt.XOffset("part:N", sort=list(parts)),
            color=alt.Color(
                "part:N",
                title=None,
                sort=None,
                scale=alt.Scale(domain=list(colours), range=list(colours.values())),
                legend=alt.Legend(symbolType="square", symbolOpacity=1),
            ),
            tooltip=[alt.Tooltip("part:N"), *tips],
        )
    )
    ticks = (
        alt.Chart(theme.table(marks))
        .mark_tick(color=theme.INK, opacity=1, thickness=2.5, size=14, orient="horizontal")
        .encode(x=x, y=y, tooltip=tips)
    )
    drawn = alt.layer(bars, ticks).properties(width=max(24 * len(units), 120), height=260)
    return alt.hconcat(drawn)


def context_chart(
    names: Sequence[str],
    contexts: Sequence[Sequence[tuple[str, float]]],
    lasts: Sequence[int],
    gap: int = 0,
) -> Any:
    """Draw a line of tokens for each place, coloured by a value of each: blue above zero, orange below;
    after so many (`lasts`) comes what follows the place. `gap`: characters between two tokens.
    """
    import altair as alt

    largest = max((abs(v) for line in contexts for _, v in line), default=0.0) or 1.0
    cells: list[dict[str, Any]] = []
    for row, (line, last) in enumerate(zip(contexts, lasts)):
        widths = [max(sum(map(columns_of, token)), 1) for token, _ in line]
        at = -float(sum(widths[:last]) + gap * last)  # the place ends at zero in every line
        for k, ((token, value), width) in enumerate(zip(line, widths)):
            at += 1.5 if k == last else 0
            fill = blend(theme.HUES[int(value < 0)], abs(value) / largest)
            cells.append(
                {
                    "row": row,
                    "below": row + 0.9,
                    "left": at,
                    "right": at + width,
                    "middle": at + width / 2,
                    "token": token,
                    "value": f"{value:+.3f}",
                    "fill": fill,
                    "ink": ink_on(fill),
                    "place": names[row],
                }
            )
            at += width + gap
    left, right = min(c["left"] for c in cells), max(c["right"] for c in cells)
    base = alt.Chart(theme.table(cells)).encode(
        x=alt.X("left:Q", axis=None, scale=alt.Scale(domain=[left, right], nice=False)),
        y=alt.Y(
            "row:Q",
            title=None,
            scale=alt.Scale(domain=[len(names), 0], nice=False),
            axis=alt.Axis(
                values=[row + 0.5 for row in range(len(names))],
                labelExpr=f"{json.dumps(list(names))}[floor(datum.value)]",
                ticks=False,
                domain=False,
                grid=False,
                labelLimit=0,
                labelPadding=10,
            ),
        ),
        tooltip=[alt.Tooltip("place:N"), alt.Tooltip("token:N"), alt.Tooltip("value:N")],
    )
    boxes = base.mark_rect(strokeWidth=0).encode(
        x2="right:Q", y2="below:Q", fill=alt.Fill("fill:N", scale=None)
    )
    text = base.mark_text(font="monospace", fontSize=13, baseline="middle", dy=CELL[1] / 2 - 1)
    text = text.encode(x="middle:Q", text="token:N", color=alt.Color("ink:N", scale=None))
    drawn = alt.layer(boxes, text).properties(
        width=round((right - left) * CELL[0]), height=round(len(names) * CELL[1])
    )
    return alt.hconcat(drawn)
