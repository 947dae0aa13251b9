"""Which source tokens each target token comes from, as a map; and the quality of translations by length of their sources or by
position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from seqloom.charts import theme
from seqloom.charts.heat import Cell, Side, heat_map, room
from seqloom.charts.transitions import written

SPACE, LEAST, LARGEST = 760, 14, 44  # pixels of all columns, and of one
ROW = 24
MOST = 200  # tokens of a side that are drawn


def alignment_chart(weights: np.ndarray, source: Sequence[str], target: Sequence[str]) -> Any:
    """Weights (T, S), target tokens from top to bottom and source tokens from left to right, dark where they are large."""
    table = np.asarray(weights, np.float64)
    if table.shape != (len(target), len(source)) or not table.size:
        raise ValueError(
            f"{len(target)} target and {len(source)} source tokens, but weights of shape {table.shape}"
        )
    table, source, target = table[:MOST, :MOST], list(source[:MOST]), list(target[:MOST])
    width = min(max(SPACE / len(source), LEAST), LARGEST)
    height = min(ROW, max(width, LEAST))
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
    return heat_map(cells, Side("target", target, height), Side("source", source, width))


def length_chart(
    systems: Mapping[str, Sequence[Mapping[str, Any]]], metric: str, title: str, form: str
) -> Any:
    """One line for each system: a metric by bands of length, from short to long."""
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
    """One line for each system: a metric by bands, in their order. A row has the name of its band (`by`), the metric and how
    many there are of what is counted."""
    import altair as alt

    values = [
        {"system": name, by: row[by], "value": row[metric], many: row[many]}
        for name, rows in systems.items()
        for row in rows
    ]
    order = list(dict.fromkeys(value[by] for value in values))
    colours = theme.group_colours(list(systems))
    base = alt.Chart(alt.InlineData(values=values)).encode(
        x=alt.X(f"{by}:N", sort=order, title=axis or by, axis=alt.Axis(labelAngle=0)),
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
    return alt.layer(base.mark_line(), base.mark_point(size=45, opacity=1))
