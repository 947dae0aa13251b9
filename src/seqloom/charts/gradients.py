"""Gradients over distance and position, one neuron, and how far back networks learn."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from seqloom.charts import theme
from seqloom.charts.heat import name_axis
from seqloom.charts.scales import decades, log_domain

POINTS = 4000  # of all curves
LOWEST = 1e-30  # of what is drawn: below it a curve leaves the plot
MOST_NAMES = 40  # tokens that are written below a plot; of more, their numbers
DASHES = {"dh/dh": [1, 0], "dc/dc": [7, 3], "forget gates": [2, 3]}
WHAT = {
    "dh/dh": "dh/dh, whole Jacobian",
    "dc/dc": "dc/dc, whole Jacobian",
    "forget gates": "product of forget gates",
}


def distance_chart(curves: Mapping[tuple[str, str], Sequence[tuple[int, float]]]) -> Any:
    """Draw what is left of a change over distance: a colour for each layer or cell, a dash for what."""
    import altair as alt

    rows = [
        {"layer": layer, "what": WHAT.get(what, what), "distance": k, "norm": norm}
        for (layer, what), points in curves.items()
        for k, norm in points
        if norm > LOWEST
    ]
    layers = list(dict.fromkeys(layer for layer, _ in curves))
    whats = list(dict.fromkeys(what for _, what in curves))
    lines = alt.Legend(title=None, symbolType="stroke", symbolStrokeWidth=3, symbolSize=300)
    dash = alt.StrokeDash(
        "what:N",
        scale=alt.Scale(
            domain=[WHAT.get(what, what) for what in whats],
            range=[DASHES.get(what, [1, 0]) for what in whats],
        ),
        legend=lines if len(whats) > 1 else None,
    )
    colour = alt.Color(
        "layer:N",
        scale=alt.Scale(domain=layers, range=[theme.HUES[i % 7] for i in range(len(layers))]),
        legend=lines if len(layers) > 1 else None,
    )
    return (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(point=len(rows) <= 2 * len(curves))
        .encode(
            x=alt.X(
                "distance:Q",
                title="distance in steps",
                scale=alt.Scale(zero=True, nice=False),
                axis=alt.Axis(format=",~r", tickCount=10),
            ),
            y=log_axis(
                alt, "norm", "largest singular value (log scale)", [r["norm"] for r in rows]
            ),
            color=colour,
            strokeDash=dash,
            tooltip=[
                alt.Tooltip("layer:N"),
                alt.Tooltip("what:N"),
                alt.Tooltip("distance:Q", format=",~r"),
                alt.Tooltip("norm:Q", format=".3~g"),
            ],
        )
    )


def log_axis(alt: Any, name: str, title: str, values: Sequence[float]) -> Any:
    """Make a vertical logarithmic axis with at most ten powers of ten."""
    domain = log_domain([v for v in values if v > 0] or [1.0], 0.04)
    ticks = decades(domain)
    return alt.Y(
        f"{name}:Q",
        title=title,
        scale=alt.Scale(type="log", domain=domain, nice=False),
        axis=alt.Axis(
            values=ticks[:: -(-len(ticks) // 10)],
            labelExpr="format(datum.value, datum.value < 0.001 || datum.value > 9999 ? '.0e' : '~g')",
        ),
    )


def position_chart(rows: Sequence[Mapping[str, Any]], tokens: Sequence[str]) -> Any:
    """Draw the norm of the gradient of the loss by the state at each position, of the whole text's loss
    and of the last token's: a line for each layer.
    """
    import altair as alt

    losses = {"whole": "loss of the whole text", "last": "loss of the last token"}
    thin = max(len(rows) * 2 // POINTS, 1)
    values = [
        {
            "layer": row["layer"],
            "loss": title,
            "position": row["position"],
            "token": tokens[row["position"]],
            "norm": row[name],
        }
        for row in rows
        for name, title in losses.items()
        if row[name] > LOWEST and row["position"] % thin == 0
    ]
    layers = list(dict.fromkeys(row["layer"] for row in rows))
    named = len(tokens) <= MOST_NAMES
    axis = (
        name_axis(alt, tokens, labelAngle=-45, labelAlign="right", labelBaseline="top")
        if named
        else alt.Axis(format=",~r", tickCount=10)
    )
    x = (
        alt.X(
            "position:O",
            title="token that was read",
            axis=axis,
            scale=alt.Scale(domain=list(range(len(tokens))), type="point"),
        )
        if named
        else alt.X("position:Q", title="position in tokens", axis=axis, scale=alt.Scale(nice=False))
    )
    stroke = alt.Legend(title=None, symbolType="stroke", symbolStrokeWidth=3, symbolSize=300)
    return (
        alt.Chart(alt.InlineData(values=values))
        .mark_line(point=len(tokens) <= 2)
        .encode(
            x=x,
            y=log_axis(
                alt, "norm", "norm of the gradient (log scale)", [v["norm"] for v in values]
            ),
            color=alt.Color(
                "layer:N",
                scale=alt.Scale(
                    domain=layers, range=[theme.HUES[i % 7] for i in range(len(layers))]
                ),
                legend=stroke if len(layers) > 1 else None,
            ),
            strokeDash=alt.StrokeDash(
                "loss:N",
                scale=alt.Scale(domain=list(losses.values()), range=[[1, 0], [5, 3]]),
                legend=stroke,
            ),
            tooltip=[
                alt.Tooltip("layer:N"),
                alt.Tooltip("loss:N"),
                alt.Tooltip("position:Q", format=",~r"),
                alt.Tooltip("token:N"),
                alt.Tooltip("norm:Q", format=".3~g"),
            ],
        )
    )


def range_chart(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Draw a median and the middle 95 % of each setting on a logarithmic axis; 1 is a line."""
    import altair as alt

    values = [
        {
            **row,
            "name": f"{row['what']}, gain {row['gain']:g}",
            "exponent": math.log10(row["median"]),
            "from": math.log10(row["low"]),
            "to": math.log10(row["high"]),
            "text": f"{row['median']:.0e}",
        }
        for row in rows
    ]
    names = [value["name"] for value in values]
    base = alt.Chart(alt.InlineData(values=values)).encode(
        y=alt.Y("name:N", title=None, sort=names, axis=alt.Axis(labelLimit=0)),
        color=alt.Color(
            "what:N",
            legend=None,
            scale=alt.Scale(
                domain=list(dict.fromkeys(row["what"] for row in rows)), range=list(theme.HUES[:2])
            ),
        ),
    )
    x = alt.X(
        "exponent:Q",
        title="share of the gradient that is left (log scale)",
        axis=alt.Axis(labelExpr="datum.value == 0 ? '1' : '1e' + datum.value"),
        scale=alt.Scale(padding=46),
    )
    spans = base.mark_rule(strokeWidth=3).encode(x=alt.X("from:Q"), x2="to:Q")
    points = base.mark_point(opacity=1).encode(x=x)
    text = base.mark_text(dy=-11).encode(x=x, text="text:N")
    one = (
        alt.Chart(alt.InlineData(values=[{"at": 0}])).mark_rule(strokeDash=[4, 3]).encode(x="at:Q")
    )
    return alt.layer(one, spans, points, text).properties(height=44 * len(values))
