"""Charts of translations: a beam search as a tree (steps from left to right, open hypotheses from top to
bottom, best first), which source tokens each target token comes from, and quality by length or position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from seqloom.charts import theme
from seqloom.charts.heat import Cell, Side, heat_map, room, text_width, token_font, written

# Pixels of a step, and of a hypothesis.
MIN_STEP_WIDTH, MAX_STEP_WIDTH, HYPOTHESIS_HEIGHT = 44, 120, 34
MAX_STEPS = 60  # steps that are drawn
MAX_WIDTH = 1056  # pixels of a row of steps; more go on in a row below, as lines of a text do
START = "•"


def beam_chart(steps: Sequence[dict[str, Any]]) -> Any:
    """Draw steps from `inspect.trace`: each token stands where its hypothesis stands in the next
    step, with a line from the one that it continues; those that end are below all of them. The
    best translation is in colour.
    """
    import altair as alt

    nodes, edges = _tree(steps[:MAX_STEPS])
    width = min(
        max(max(text_width(node["token"]) for node in nodes) + 16, MIN_STEP_WIDTH), MAX_STEP_WIDTH
    )
    last = max(node["step"] for node in nodes)
    many = int(MAX_WIDTH // width) - 1  # steps of a row, beside the one that it begins with
    parts = [
        _beam_row(
            alt,
            [
                node
                for node in nodes
                if first <= node["step"] <= first + many
                # What ended where a row begins stands in the row above, with its line.
                and (node["step"] != first or node["becomes"] == "open")
            ],
            [edge for edge in edges if first <= edge["step"] < first + many],
            first,
            min(first + many, last),
            width,
        )
        for first in range(0, max(last, 1), many)
    ]
    return parts[0] if len(parts) == 1 else alt.vconcat(*parts, spacing=20)


def _beam_row(
    alt: Any,
    nodes: list[dict[str, Any]],
    edges: list[dict[str, Any]],
    first: int,
    last: int,
    width: float,
) -> Any:
    """Draw the steps from the first to the last."""
    rows = max(node["row"] for node in nodes)
    font = token_font(node["token"] for node in nodes)
    x = alt.X(
        "step:Q",
        title="tokens written",
        scale=alt.Scale(domain=[first - 0.3, last + 0.5], nice=False),
        axis=alt.Axis(grid=False, tickMinStep=1, format="d"),
    )
    y = alt.Y(
        "row:Q", title=None, axis=None, scale=alt.Scale(domain=[rows + 0.5, -0.5], nice=False)
    )
    colour = alt.Color("colour:N", scale=None)
    lines = (
        alt.Chart(theme.table(edges))
        .mark_rule(strokeWidth=1.4)
        .encode(x=x, y=y, x2="step2:Q", y2="row2:Q", color=colour)
    )
    base = alt.Chart(theme.table(nodes)).encode(
        x=x,
        y=y,
        tooltip=[
            alt.Tooltip("text:N"),
            alt.Tooltip("token:N"),
            alt.Tooltip("probability:Q", format=".4f"),
            alt.Tooltip("becomes:N"),
        ],
    )
    halo = base.mark_text(
        fontSize=theme.FONT_SIZE, stroke="white", strokeWidth=6, strokeJoin="round", **font
    ).encode(text="token:N")
    words = base.mark_text(fontSize=theme.FONT_SIZE, **font).encode(text="token:N", color=colour)
    return alt.layer(lines, halo, words).properties(
        width=(last - first + 1) * width, height=(rows + 1) * HYPOTHESIS_HEIGHT
    )


def _tree(
    steps: Sequence[dict[str, Any]],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return nodes and edges; hypotheses that end are below the open ones."""
    bottom = max(len(step["hypotheses"]) for step in steps)
    nodes: list[dict[str, Any]] = [
        {
            "step": 0,
            "row": 0,
            "token": START,
            "text": "",
            "probability": 1.0,
            "becomes": "open",
            "colour": theme.HUES[0],
        }
    ]
    edges: list[dict[str, Any]] = []
    for t, step in enumerate(steps):
        after = steps[t + 1]["hypotheses"] if t + 1 < len(steps) else []
        beside = 0
        for row, one in enumerate(step["hypotheses"]):
            for candidate in one["candidates"]:
                becomes, goes_on = candidate["becomes"], candidate["becomes"] == "open"
                if becomes in ("dropped", "given up") or (goes_on and not after):
                    continue
                point = {
                    "step": t + 1,
                    "row": candidate["number"] - 1 if goes_on else bottom + beside,
                }
                beside += not goes_on
                look = {"colour": theme.HUES[0] if candidate["best"] else theme.FAINT}
                nodes.append(
                    {
                        **point,
                        "token": candidate["token"],
                        "text": one["text"],
                        "becomes": becomes,
                        "probability": candidate["probability"],
                        **look,
                    }
                )
                edges.append(
                    {"step": t, "row": row, "step2": point["step"], "row2": point["row"], **look}
                )
    return nodes, edges


# ---- alignment

SPACE, MIN_COLUMN, MAX_COLUMN = 760, 14, 44  # pixels of all columns, and of one
ROW = 24
MAX_TOKENS = 70  # tokens of a side that are drawn: a chart has at most 5,000 cells


def alignment_chart(
    weights: np.ndarray,
    source: Sequence[str],
    target: Sequence[str],
    titles: tuple[str, str] = ("target", "source"),
) -> Any:
    """Draw weights (T, S), target tokens from top to bottom and source tokens from left to right,
    darker where they are larger. `titles` of the sides, if they are something else.
    """
    table = np.asarray(weights, np.float64)
    if table.shape != (len(target), len(source)) or not table.size:
        raise ValueError(
            f"{len(target)} target and {len(source)} source tokens, but weights of shape {table.shape}"
        )
    table, source, target = (
        table[:MAX_TOKENS, :MAX_TOKENS],
        list(source[:MAX_TOKENS]),
        list(target[:MAX_TOKENS]),
    )
    width = min(max(SPACE / len(source), MIN_COLUMN), MAX_COLUMN)
    height = min(ROW, max(width, MIN_COLUMN))
    cells = [
        Cell(
            t,
            s,
            float(weight),
            written(float(weight), room(width)) if height == ROW else "",
            f"{weight:.4g}",
        )
        for t, row in enumerate(table)
        for s, weight in enumerate(row)
    ]
    return heat_map(cells, Side(titles[0], target, height), Side(titles[1], source, width))


def length_chart(
    systems: Mapping[str, Sequence[Mapping[str, Any]]], metric: str, title: str, form: str
) -> Any:
    """Draw a metric by bands of length, from short to long, one line per system."""
    return band_chart(
        systems, metric, title, form, by="length", axis="length of the source", many="pairs"
    )


def band_chart(
    systems: Mapping[str, Sequence[Mapping[str, Any]]],
    metric: str,
    title: str,
    form: str,
    *,
    by: str,
    many: str,
    axis: str | None = None,
) -> Any:
    """Draw a metric by bands, in their order, one line per system. A row has the name of its band
    (`by`), the metric and the count of what is counted (`many`).
    """
    import altair as alt

    values = [
        {"system": name, by: row[by], "value": row[metric], many: row[many]}
        for name, rows in systems.items()
        for row in rows
    ]
    order = list(dict.fromkeys(value[by] for value in values))
    few = any(value[many] < theme.FEW for value in values)
    colours = theme.group_colours(list(systems))
    base = alt.Chart(theme.table(values)).encode(
        x=alt.X(
            f"{by}:N",
            sort=order,
            title=theme.with_few(axis or by, many) if few else axis or by,
            axis=alt.Axis(labelAngle=0, labelOverlap="greedy"),
        ),
        y=alt.Y(
            "value:Q",
            title=title,
            scale=alt.Scale(zero=False, nice=True),
            axis=alt.Axis(format=form),
        ),
        color=alt.Color(
            "system:N",
            title=None,
            legend=None if len(systems) == 1 else alt.Legend(symbolOpacity=1),
            scale=alt.Scale(domain=list(colours), range=list(colours.values())),
        ),
        tooltip=[
            alt.Tooltip("system:N"),
            alt.Tooltip(f"{by}:N"),
            alt.Tooltip("value:Q", title=title, format=form),
            alt.Tooltip(f"{many}:Q", format=","),
        ],
    )
    points = [
        base.transform_filter(f"datum['{many}'] {test} {theme.FEW}").mark_point(
            size=45, opacity=1, **look
        )
        for test, look in ((">=", {}), ("<", theme.HOLLOW))
    ]
    return alt.layer(base.mark_line(), *points)
