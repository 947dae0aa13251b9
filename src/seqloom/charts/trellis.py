"""A lattice of states over time: discs and rings for what is believed of each state, lines for the moves
between them, and the likeliest path.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from seqloom.charts import theme
from seqloom.charts.heat import NAME, short_name, text_width
from seqloom.charts.scales import CHARACTER

STATES = 14  # rows; of more states, those that are ever likely
COLUMN, WIDEST, ROW, SPACE = 54, 110, 44, 960  # pixels
RADIUS = 17
LIKELY, SEEN = 0.01, 0.02  # probabilities from which a state, or a move, is drawn


def trellis_chart(
    filtered: np.ndarray,
    smoothed: np.ndarray,
    moves: np.ndarray,
    path: np.ndarray,
    words: Sequence[str],
    states: Sequence[str],
) -> Any:
    """Draw beliefs (T, S) given what came before (rings) and given everything (discs), moves
    (T - 1, S, S) as lines, and a path.
    """
    import altair as alt

    rows = _rows(np.maximum(filtered, smoothed), path)
    place = {state: i for i, state in enumerate(rows)}
    nodes = [
        {
            "at": t,
            "row": place[s],
            "state": states[s],
            "word": words[t],
            "given what came before": float(filtered[t, s]),
            "given everything": float(smoothed[t, s]),
            "ring": _area(filtered[t, s]),
            "disc": _area(smoothed[t, s]),
            "fill": theme.HUES[1] if path[t] == s else theme.HUES[0],
        }
        for t in range(len(words))
        for s in rows
        if max(filtered[t, s], smoothed[t, s]) >= LIKELY or path[t] == s
    ]
    lines = [
        {"at": t, "row": place[a], "next": t + 1, "to": place[b], "share": float(moves[t, a, b])}
        for t in range(len(words) - 1)
        for a in rows
        for b in rows
        if moves[t, a, b] >= SEEN
    ]
    way = [
        {"at": t, "row": place[int(a)], "next": t + 1, "to": place[int(b)]}
        for t, (a, b) in enumerate(pairwise(path))
    ]
    width = min(max(COLUMN, *(text_width(word) + 8 for word in words)), WIDEST)
    room = int(width / CHARACTER)
    turned: dict[str, Any] = {"labelAngle": 0}
    if width * len(words) > SPACE:  # names are turned where they have no room beside each other
        width, room = COLUMN, NAME
        turned = {"labelAngle": -45, "labelAlign": "right", "labelBaseline": "top"}
    x = alt.X(
        "at:Q",
        title="words",
        scale=alt.Scale(domain=[-0.5, len(words) - 0.5], nice=False, zero=False),
        axis=_axis(alt, [short_name(word, room) for word in words], **turned),
    )
    y = alt.Y(
        "row:Q",
        title="state",
        scale=alt.Scale(domain=[len(rows) - 0.5, -0.5], nice=False, zero=False),
        axis=_axis(alt, [short_name(states[s]) for s in rows]),
    )
    ends: dict[str, Any] = {"x": x, "y": y, "x2": "next:Q", "y2": "to:Q"}
    layers = []
    if lines:
        layers.append(
            alt.Chart(theme.table(lines))
            .mark_rule(color=theme.HUES[0])
            .encode(
                **ends,
                strokeWidth=alt.StrokeWidth(
                    "share:Q", scale=alt.Scale(domain=[0, 1], range=[0.3, 5]), legend=None
                ),
                opacity=alt.value(0.5),
                tooltip=[alt.Tooltip("share:Q", title="share of all paths", format=".1%")],
            )
        )
    if way:
        layers.append(
            alt.Chart(theme.table(way))
            .mark_rule(color=theme.HUES[1], strokeWidth=2.5)
            .encode(**ends)
        )
    base = alt.Chart(theme.table(nodes)).encode(
        x=x,
        y=y,
        tooltip=[
            alt.Tooltip("word:N"),
            alt.Tooltip("state:N"),
            alt.Tooltip("given what came before:Q", format=".1%"),
            alt.Tooltip("given everything:Q", format=".1%"),
        ],
    )
    layers.append(
        base.mark_point(filled=True, shape="circle", opacity=1).encode(
            size=alt.Size("disc:Q", scale=None, legend=None), color=alt.Color("fill:N", scale=None)
        )
    )
    layers.append(
        base.mark_point(filled=False, shape="circle", opacity=1, strokeWidth=1.6).encode(
            size=alt.Size("ring:Q", scale=None, legend=None), color=alt.value(theme.INK)
        )
    )
    drawn = alt.layer(*layers).properties(width=width * len(words), height=ROW * len(rows))
    return alt.hconcat(drawn)  # a concatenation keeps its size in a page


def _axis(alt: Any, names: Sequence[str], **more: Any) -> Any:
    listed = json.dumps(list(names), ensure_ascii=False)
    return alt.Axis(
        values=list(range(len(names))),
        labelExpr=f"{listed}[datum.value]",
        labelOverlap=False,
        labelLimit=0,
        ticks=False,
        domain=False,
        grid=False,
        labelPadding=5,
        **more,
    )


def _area(probability: float) -> float:
    return float(np.pi * RADIUS**2 * min(max(probability, 0.0), 1.0))


def _rows(beliefs: np.ndarray, path: np.ndarray) -> list[int]:
    """Return the states that are drawn, in their order: those of the path, and the likeliest others."""
    top = beliefs.max(0)
    top[np.unique(path)] += 1.0
    order = np.argsort(-top, kind="stable")[:STATES]
    return sorted(int(s) for s in order if top[s] >= SEEN)
