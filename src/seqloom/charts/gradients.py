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

    rows: list[dict[str, Any]] = [
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
        alt.Chart(theme.table(rows))
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
    ticks = decades(domain) or list(domain)
    return alt.Y(
        f"{name}:Q",
        title=title,
        scale=alt.Scale(type="log", domain=domain, nice=False),
        axis=alt.Axis(
            values=ticks[:: -(-len(ticks) // 10)],
            labelExpr="format(datum.value, datum.value < 0.001 || datum.value > 9999 ? '.0e' : '~g')",
        ),
    )


def position_chart(
    rows: Sequence[Mapping[str, Any]], tokens: Sequence[str], losses: Mapping[str, str]
) -> Any:
    """Draw the norm of the gradient of a loss at each position: a line for each layer, and a dash for each
    of the `losses`, by their keys in the rows.
    """
    import altair as alt

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
        alt.Chart(theme.table(values))
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
                scale=alt.Scale(
                    domain=list(losses.values()), range=[[1, 0], [5, 3]][: len(losses)]
                ),
                legend=stroke if len(losses) > 1 else None,
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
    base = alt.Chart(theme.table(values)).encode(
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
    one = alt.Chart(theme.table([{"at": 0}])).mark_rule(strokeDash=[4, 3]).encode(x="at:Q")
    return alt.layer(one, spans, points, text).properties(height=44 * len(values))


# ---- how far back

CLIPS = {True: "clipped by norm", False: "not clipped"}
BAR, ROW = 9, 34  # pixels of a bar, and of the bars of one name


def reach_chart(rows: Sequence[Mapping[str, Any]], lags: Sequence[int]) -> Any:
    """Draw the largest lag that each encoder learned: a bar to the median of the seeds, a point for each;
    an arrow where the time was over.
    """
    import altair as alt

    steps = [0, *sorted(set(lags))]
    names = list(dict.fromkeys(row["encoder"] for row in rows))
    clips = [clip for clip in CLIPS if any(row["clip"] == clip for row in rows)]
    values, points = [], []
    for name in names:
        for clip in clips:
            mine = [r for r in rows if (r["encoder"], r["clip"]) == (name, clip)]
            places = sorted(steps.index(row["reach"]) for row in mine)
            if not places:
                continue
            cut = any(row["ended"] == "time" for row in mine)
            at = (places[(len(places) - 1) // 2] + places[len(places) // 2]) / 2
            values.append({
                "name": name, "clip": CLIPS[clip], "at": at, "end": at + 0.12,
                "text": "▸" if cut else "", "seeds": len(mine),
                "reach": ", ".join(str(row["reach"] or "none") for row in mine),
            })  # fmt: skip
            points += [
                {"name": name, "clip": CLIPS[clip], "at": place}
                for place in (places if len(places) > 1 else ())
            ]
    shown = [CLIPS[clip] for clip in clips]
    colours = [theme.HUES[0], theme.HUES[5]][: len(clips)] if True in clips else [theme.HUES[5]]
    labels = ["none", *map(str, steps[1:])]
    x = alt.X(
        "at:Q",
        title="largest lag that was learned",
        scale=alt.Scale(domain=[0, len(steps) - 0.7], nice=False),
        axis=alt.Axis(
            values=list(range(len(steps))),
            labelExpr=f"{labels}[datum.value]",
            grid=True,
        ),
    )
    base = alt.Chart().encode(
        y=alt.Y("name:N", title=None, sort=names, axis=alt.Axis(labelLimit=0)),
        yOffset=alt.YOffset("clip:N", sort=shown),
        color=alt.Color(
            "clip:N",
            sort=shown,
            scale=alt.Scale(domain=shown, range=colours),
            legend=alt.Legend(title=None) if len(shown) > 1 else None,
        ),
    )
    bars = (
        base.mark_bar(size=BAR)
        .encode(
            x=x,
            tooltip=[
                alt.Tooltip("name:N"),
                alt.Tooltip("clip:N"),
                alt.Tooltip("reach:N", title="largest lag, by seed"),
            ],
        )
        .properties(data=theme.table(values))
    )
    starts = base.mark_tick(size=BAR, thickness=2).encode(x=x).properties(data=theme.table(values))
    arrows = (
        base.mark_text(align="left", fontSize=theme.FONT_SIZE + 3)
        .encode(x=alt.X("end:Q"), text="text:N")
        .properties(data=theme.table(values))
    )
    layers = [bars, starts, arrows]
    if points:
        layers.append(
            base.mark_point(size=24, filled=True, opacity=1, color=theme.INK)
            .encode(x=x, color=alt.value(theme.INK))
            .properties(data=theme.table(points))
        )
    return alt.layer(*layers).properties(height=ROW * len(names) * (0.6 if len(clips) == 1 else 1))


# ---- one neuron

PLOT = 250  # pixels of the height of each plot of a neuron
CLASS_COLOURS = ("#cfe3f2", "#fed282", "#d9a3c4")
STABLE = {True: "stable fixed point", False: "unstable fixed point"}


def walk_chart(walks: Any, points: Sequence[tuple[float, bool]]) -> Any:
    """Draw h over steps from several starts (S, T + 1), and its fixed points as lines."""
    import altair as alt

    values = [
        {"walk": i, "step": t, "h": float(h)}
        for i, row in enumerate(walks)
        for t, h in enumerate(row)
    ]
    lines = (
        alt.Chart(theme.table(values))
        .mark_line(strokeWidth=1.4, color=theme.HUES[0], opacity=0.8)
        .encode(
            x=alt.X(
                "step:Q", title="steps", scale=alt.Scale(nice=False), axis=alt.Axis(format="d")
            ),
            y=alt.Y("h:Q", title="h"),
            detail="walk:N",
        )
    )
    rules = (
        alt.Chart(theme.table([{"at": h, "kind": STABLE[stable]} for h, stable in points]))
        .mark_rule(color=theme.HUES[1], strokeWidth=1.6)
        .encode(y="at:Q", strokeDash=_stability(alt))
    )
    return alt.layer(lines, rules).properties(height=PLOT)


def curve_chart(branches: Sequence[Sequence[tuple[float, float, bool]]], b: float) -> Any:
    """Draw fixed points (b, h, stable) over the bias; a rule stands at the bias of the neuron."""
    import altair as alt

    values = [
        {"branch": i, "b": x, "h": h, "kind": STABLE[stable], "order": order}
        for i, branch in enumerate(branches)
        for order, (x, h, stable) in enumerate(branch)
    ]
    lines = (
        alt.Chart(theme.table(values))
        .mark_line(color=theme.HUES[1])
        .encode(
            x=alt.X("b:Q", title="b", scale=alt.Scale(zero=False, nice=False)),
            y=alt.Y("h:Q", title="h"),
            order="order:Q",
            detail="branch:N",
            strokeDash=_stability(alt),
        )
    )
    here = (
        alt.Chart(theme.table([{"at": b}]))
        .mark_rule(color=theme.INK, strokeDash=[2, 3])
        .encode(x="at:Q")
    )
    return alt.layer(lines, here).properties(height=PLOT)


def _stability(alt: Any) -> Any:
    return alt.StrokeDash(
        "kind:N",
        scale=alt.Scale(domain=list(STABLE.values()), range=[[1, 0], [5, 4]]),
        legend=alt.Legend(title=None, symbolType="stroke", symbolSize=300),
    )


def surface_chart(
    w: Any,
    b: Any,
    table: Any,
    place: tuple[float, float],
    *,
    title: str,
    classes: Sequence[str] = (),
    log: bool = False,
) -> Any:
    """Draw a table (W, B) over weight and bias: numbers by shade, or classes by colour; a cross stands at
    the neuron.
    """
    import altair as alt

    # each cell goes on a little under the next one, or there would be light between them
    half_w, half_b = (w[1] - w[0]) / 2, (b[1] - b[0]) / 2
    values = [
        {"w": float(x - half_w), "w2": float(x + 1.2 * half_w), "b": float(y - half_b),
         "b2": float(y + 1.2 * half_b), "v": classes[table[i, j]] if classes else float(table[i, j])}
        for i, x in enumerate(w)
        for j, y in enumerate(b)
    ]  # fmt: skip
    if classes:
        present = [name for i, name in enumerate(classes) if (table == i).any()]
        colours = [CLASS_COLOURS[classes.index(name)] for name in present]
        colour = alt.Color(
            "v:N", scale=alt.Scale(domain=present, range=colours), legend=alt.Legend(title=None)
        )
    else:
        expression = "'1e' + datum.value" if log else "datum.label"
        colour = alt.Color(
            "v:Q",
            scale=alt.Scale(scheme="yelloworangered"),
            legend=alt.Legend(
                title=f"{title} (log scale)" if log else title,
                gradientLength=200,
                orient="right",
                labelExpr=expression,
            ),
        )
    domain_w = [float(w[0] - half_w), float(w[-1] + half_w)]
    domain_b = [float(b[0] - half_b), float(b[-1] + half_b)]
    cells = (
        alt.Chart(theme.table(values))
        .mark_rect(clip=True)
        .encode(
            x=alt.X("w:Q", title="w", scale=alt.Scale(domain=domain_w, nice=False)),
            x2="w2:Q",
            y=alt.Y("b:Q", title="b", scale=alt.Scale(domain=domain_b, nice=False)),
            y2="b2:Q",
            color=colour,
        )
    )
    cross = (
        alt.Chart(theme.table([{"w": place[0], "b": place[1]}]))
        .mark_point(
            shape="cross", size=110, color=theme.INK, filled=True, stroke="white", opacity=1
        )
        .encode(x="w:Q", y="b:Q")
    )
    return alt.layer(cells, cross).properties(height=PLOT)
