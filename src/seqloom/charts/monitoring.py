"""What happened inside a network while it was trained: clipped steps, gradients by layer, saturated gates,
and how far back gradients reach.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from seqloom.charts import theme
from seqloom.charts.scales import decades, log_domain
from seqloom.charts.training import AXES, Points, across, thinned

FEW_LAYERS = len(theme.HUES)  # that are drawn as lines; more are rows of a heat map
COLUMNS = 60  # of a heat map
ROW, SMALL = 20, 130  # pixels of a row, and of a panel of lines
MAX_POINTS = 4000
_PARTS = {"closed or at an end": theme.HUES[1], "in between": "#d9d9d9", "open": theme.HUES[0]}


class Bar(NamedTuple):
    """A gate, or the candidate or state of a cell: shares of its values near each end of their range."""

    name: str
    low: float  # closed, or saturated on either side
    high: float = 0.0  # open


def shares_over(series: Mapping[str, Points], *, by: str, title: str) -> Any:
    """Draw a line for each run of a share from 0 to 1."""
    import altair as alt

    colours = theme.group_colours(list(series))
    return _lines(
        series,
        COLUMNS * len(series),  # of single steps a share would be all or nothing
        x=across(alt, by),
        y=alt.Y(
            "value:Q",
            title=title,
            scale=alt.Scale(domain=[0, 1]),
            axis=alt.Axis(format="%", tickCount=4),
        ),
        colour=alt.Color(
            "name:N",
            scale=alt.Scale(domain=list(colours), range=list(colours.values())),
            legend=alt.Legend(title=None) if len(colours) > 1 else None,
        ),
        tips=[("at", AXES[by], ","), ("value", title, ".1%")],
        height=SMALL,
    )


def norms_by_layer(layers: Mapping[str, Points], *, by: str) -> Any:
    """Draw the gradient norm of each layer: as lines, or where there are many as a heat map with the layers
    from the input down to the output.
    """
    import altair as alt

    values = [y for points in layers.values() for _, y in points if y > 0]
    if not values:
        raise ValueError("no gradient above zero: there is nothing to draw")
    domain = log_domain(values, 0.04)
    if len(layers) > FEW_LAYERS:
        return _heat(alt, layers, by, domain)
    colours = theme.group_colours(list(layers))
    above = {name: [p for p in points if p[1] > 0] for name, points in layers.items()}
    return _lines(
        above,
        MAX_POINTS,
        x=across(alt, by),
        y=_log_y(alt, domain, "gradient norm (log scale)"),
        colour=alt.Color(
            "name:N",
            scale=alt.Scale(domain=list(colours), range=list(colours.values())),
            legend=alt.Legend(title=None, columns=3, symbolType="stroke", symbolStrokeWidth=3),
        ),
        tips=[("at", AXES[by], ","), ("value", "gradient norm", ".3~g")],
        height=200,
    )


def _heat(alt: Any, layers: Mapping[str, Points], by: str, domain: list[float]) -> Any:
    last = max(x for points in layers.values() for x, _ in points)
    width = last / COLUMNS
    rows = []
    for name, points in layers.items():
        cells: dict[int, list[float]] = {}
        for x, y in points:
            cells.setdefault(min(int(x / width), COLUMNS - 1), []).append(y)
        for column, found in cells.items():
            mean = sum(found) / len(found)
            if mean > 0:
                rows.append(
                    {"name": name, "from": column * width, "to": (column + 1) * width, "norm": mean}
                )
    rows = _closed_gaps(rows, width)
    return (
        alt.Chart(theme.table(rows))
        .mark_rect()
        .encode(
            x=across(alt, by, "from"),
            x2="to:Q",
            y=alt.Y(
                "name:N",
                title=None,
                sort=list(layers),
                axis=alt.Axis(labelLimit=220, labelPadding=6, ticks=False),
            ),
            color=alt.Color(
                "norm:Q",
                scale=alt.Scale(type="log", domain=domain, scheme="viridis"),
                legend=alt.Legend(
                    title="gradient norm (log scale)",
                    orient="top",
                    gradientLength=260,
                    values=decades(domain),
                    format="~g",
                ),
            ),
            tooltip=[
                alt.Tooltip("name:N", title="layer"),
                alt.Tooltip("from:Q", title=AXES[by], format=",.0f"),
                alt.Tooltip("norm:Q", title="gradient norm", format=".3~g"),
            ],
        )
        .properties(height=ROW * len(layers))
    )


def _closed_gaps(rows: list[dict[str, Any]], width: float) -> list[dict[str, Any]]:
    """Widen each cell to where the next of its layer begins, since few reports leave columns empty."""
    for row, after in pairwise(rows):
        if row["name"] == after["name"]:
            row["to"] = after["from"]
    return rows


def gates(bars: Sequence[Bar]) -> Any:
    """Draw for each gate which share of its values is near an end of its range, and which between."""
    import altair as alt

    rows = [
        {"gate": bar.name, "part": part, "order": order, "share": share}
        for bar in bars
        for order, (part, share) in enumerate(
            zip(_PARTS, (bar.low, 1.0 - bar.low - bar.high, bar.high))
        )
    ]
    return (
        alt.Chart(theme.table(rows))
        .mark_bar(height=ROW - 6)
        .encode(
            x=alt.X(
                "share:Q",
                title="share of the values",
                scale=alt.Scale(domain=[0, 1]),
                axis=alt.Axis(format="%", tickCount=5),
            ),
            y=alt.Y(
                "gate:N",
                title=None,
                sort=[bar.name for bar in bars],
                axis=alt.Axis(labelLimit=300, labelPadding=6, ticks=False),
            ),
            color=alt.Color(
                "part:N",
                scale=alt.Scale(domain=list(_PARTS), range=list(_PARTS.values())),
                legend=alt.Legend(title=None),
            ),
            order="order:O",
            tooltip=[
                alt.Tooltip("gate:N"),
                alt.Tooltip("part:N"),
                alt.Tooltip("share:Q", format=".1%"),
            ],
        )
        .properties(height=ROW * len(bars))
    )


def reaches(curves: Mapping[str, Points], mark: float) -> Any:
    """Draw the gradient by distance, compared with one step back, with a line at the share `mark`."""
    import altair as alt

    colours = theme.group_colours(list(curves))
    values = [y for points in curves.values() for _, y in points if y > 0]
    domain = log_domain([*values, mark], 0.04)
    lines = _lines(
        {name: [p for p in points if p[1] > 0] for name, points in curves.items()},
        MAX_POINTS,
        x=alt.X(
            "at:Q",
            title="steps back",
            scale=alt.Scale(zero=True, nice=False),
            axis=alt.Axis(format="d", tickMinStep=1),
        ),
        y=_log_y(alt, domain, "gradient, 1 at one step back"),
        colour=alt.Color(
            "name:N",
            scale=alt.Scale(domain=list(colours), range=list(colours.values())),
            legend=alt.Legend(title=None, columns=2, symbolType="stroke", symbolStrokeWidth=3),
        ),
        tips=[("at", "steps back", ","), ("value", "gradient", ".3~g")],
        height=200,
        points=True,
    )
    rule = (
        alt.Chart(theme.table([{"value": mark}]))
        .mark_rule(strokeDash=[4, 4], color=theme.FAINT)
        .encode(y="value:Q")
    )
    return alt.layer(rule, lines).properties(height=200)


def _lines(
    series: Mapping[str, Points],
    most: int,
    *,
    x: Any,
    y: Any,
    colour: Any,
    tips: Sequence[tuple[str, str, str]],
    height: int,
    points: bool = False,
) -> Any:
    import altair as alt

    rows = [
        {"name": name, "at": at, "value": value}
        for name, found in series.items()
        for at, value in thinned(found, most // max(len(series), 1))
    ]
    alone = any(len(found) == 1 for found in series.values())
    return (
        alt.Chart(theme.table(rows))
        .mark_line(strokeWidth=1.4, point=points or alone)
        .encode(
            x=x,
            y=y,
            color=colour,
            tooltip=[
                alt.Tooltip("name:N"),
                *(alt.Tooltip(f"{key}:Q", title=title, format=form) for key, title, form in tips),
            ],
        )
        .properties(height=height)
    )


def _log_y(alt: Any, domain: list[float], title: str) -> Any:
    return alt.Y(
        "value:Q",
        title=title,
        scale=alt.Scale(type="log", domain=domain, nice=False),
        axis=alt.Axis(
            values=decades(domain),
            labelExpr="format(datum.value, datum.value < 0.001 ? '.0e' : '~g')",
        ),
    )
