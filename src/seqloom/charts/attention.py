"""Weights of attention as pictures: one head as a map, with tokens or, of a long text, with tiles; the same
as arcs between tokens; and all heads of a network beside each other.

A map of some thousand tokens is an image inside of the chart, not a mark for each cell, so it stays small.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from seqloom.charts import theme
from seqloom.charts.heat import Cell, Side, blend, heat_map, short_name, text_width, token_font
from seqloom.charts.translation import alignment_chart

NAMED = 60  # tokens of a side up to which a map shows them
TILES = 512  # of a side of a map without tokens
MAP = 620  # pixels of its longer side
HUE = theme.HUES[0]
SIDES = ("looks", "is looked at")


def weights_chart(weights: np.ndarray, keys: Sequence[str], steps: Sequence[str]) -> Any:
    """Draw weights (T, S): the steps that look from top to bottom, what they look at from left to right."""
    if max(len(keys), len(steps)) <= NAMED:
        return alignment_chart(weights, keys, steps, SIDES)
    return _tile_chart(weights)


def tiles(weights: np.ndarray, most: int = TILES) -> tuple[np.ndarray, int]:
    """Return the largest weight of each square tile, at most so many of a side, and the size of a tile.

    >>> tiles(np.eye(4), most=2)
    (array([[1., 0.],
           [0., 1.]]), 2)
    """
    size = -(-max(weights.shape) // most)
    for axis in (0, 1):
        if size > 1:
            starts = np.arange(0, weights.shape[axis], size)
            weights = np.maximum.reduceat(weights, starts, axis=axis)
    return weights, size


def image_of(weights: np.ndarray) -> str:
    """Return weights as an image in a URL; darker is larger, by the root, so that small ones show."""
    shades = np.rint(255 * np.sqrt(np.clip(weights, 0, 1))).astype(np.uint8)
    colours = [blend(HUE, shade / 255) for shade in range(256)]
    data = base64.b64encode(theme.indexed_png(shades, colours)).decode("ascii")
    return f"data:image/png;base64,{data}"


def darkest(weights: np.ndarray) -> float:
    """Return the weight from which on a map is darkest: but for a thousandth, all are below."""
    return max(float(np.quantile(weights, 0.999)), 1e-6)


def _tile_chart(weights: np.ndarray) -> Any:
    import altair as alt

    rows, columns = weights.shape
    shown, size = tiles(np.asarray(weights))
    top = darkest(shown)
    dot = max(MAP // max(shown.shape), 1)  # whole pixels, so that all are of one size
    height, width = dot * shown.shape[0], dot * shown.shape[1]
    # The last tiles may reach beyond the last token.
    down, across = shown.shape[0] * size, shown.shape[1] * size
    remark = f"darkest: {top:.2g} and more"
    if size > 1:
        remark = f"a dot is the largest weight of {size} × {size} tokens; {remark}"
    values = [{"url": image_of(shown / top), "x": 0, "y": 0}]
    chart = (
        alt.Chart(theme.table(values))
        .mark_image(width=width, height=height, align="left", baseline="top", aspect=False)
        .encode(
            url=alt.Url("url:N"),
            x=alt.X(
                "x:Q",
                title=[f"{SIDES[1]} (number of the token of {columns:,})", remark],
                scale=alt.Scale(domain=[0, across], nice=False),
                axis=alt.Axis(grid=False, format=",d", tickCount=6),
            ),
            y=alt.Y(
                "y:Q",
                title=f"{SIDES[0]} (number of the token of {rows:,})",
                scale=alt.Scale(domain=[down, 0], nice=False),
                axis=alt.Axis(grid=False, format=",d", tickCount=6),
            ),
        )
        .properties(width=width, height=height)
    )
    return alt.hconcat(chart)  # a concatenation keeps its size in a page


# ---- arcs

LINE = 19  # pixels between tokens
OF_A_TOKEN, LEAST = (
    2,
    0.05,
)  # arcs that begin at a token at most, and the weight from which on one is drawn
CURVE = 32  # pieces of an arc
WIDEST_ARC = 260  # pixels
BACK, AHEAD = theme.HUES[0], theme.HUES[1]


def arcs_chart(weights: np.ndarray, keys: Sequence[str], steps: Sequence[str]) -> Any:
    """Draw an arc from each token to those that it looks at most; of a sequence to itself at
    the right of the tokens where it looks back, at the left where it looks ahead.
    """
    weights, keys, steps = np.asarray(weights, np.float64), list(keys), list(steps)
    itself = keys == steps
    arcs = strongest(weights, itself)
    shown = [short_name(name) for name in (steps if itself else [*steps, *keys])]
    column = max(map(text_width, shown)) / 2 + 8
    return (_around if itself else _across)(arcs, keys, steps, column)


def strongest(weights: np.ndarray, itself: bool) -> list[tuple[int, int, float]]:
    """Return step, key and weight of what each step looks at most; not a token at itself.

    >>> strongest(np.array([[1.0, 0.0], [0.7, 0.3]]), itself=True)
    [(1, 0, 0.7)]
    """
    found = []
    for step, row in enumerate(weights):
        best = [int(i) for i in np.argsort(-row, kind="stable") if not (itself and i == step)]
        found += [(step, key, float(row[key])) for key in best[:OF_A_TOKEN] if row[key] >= LEAST]
    return found


def _around(
    arcs: list[tuple[int, int, float]], keys: list[str], steps: list[str], column: float
) -> Any:
    """Draw the arcs of a sequence to itself, half ellipses."""
    longest = max((abs(step - key) for step, key, _ in arcs), default=1)
    unit = min(WIDEST_ARC / longest, LINE * 0.75)
    rows = []
    for n, (step, key, weight) in enumerate(arcs):
        side = 1 if key < step else -1
        middle, half = (step + key) / 2, (key - step) / 2
        for piece in range(CURVE + 1):
            angle = math.pi * piece / CURVE
            rows.append(
                {
                    **_arc(n, piece, steps[step], keys[key], weight),
                    "x": side * (column + abs(step - key) * unit * math.sin(angle)),
                    "y": middle - half * math.cos(angle),
                    "colour": BACK if side > 0 else AHEAD,
                }
            )
    back, ahead = (
        max([longest_of * unit for longest_of in distances], default=0.0)
        for distances in (
            [step - key for step, key, _ in arcs if key < step],
            [key - step for step, key, _ in arcs if key > step],
        )
    )
    names = [{"x": 0.0, "y": float(i), "name": short_name(name)} for i, name in enumerate(steps)]
    return _drawn(rows, names, (-column - ahead - 8, column + back + 8), "center")


def _across(
    arcs: list[tuple[int, int, float]], keys: list[str], steps: list[str], column: float
) -> Any:
    """Draw lines from the steps of a target, at the left, to those of a source."""
    apart = 160
    rows = [
        {
            **_arc(n, piece, steps[step], keys[key], weight),
            "x": apart * piece - apart / 2,
            "y": float(key if piece else step),
            "colour": BACK,
        }
        for n, (step, key, weight) in enumerate(arcs)
        for piece in (0, 1)
    ]
    names = [
        {"x": side * (apart / 2 + 8), "y": float(i), "name": short_name(name)}
        for side, all_names in ((-1, steps), (1, keys))
        for i, name in enumerate(all_names)
    ]
    reach = apart / 2 + 2 * column + 8
    return _drawn(rows, names, (-reach, reach), "sides")


def _arc(number: int, piece: int, step: str, key: str, weight: float) -> dict[str, Any]:
    tip = f"{step} looks at {key}: {weight:.3f}"
    return {"arc": number, "piece": piece, "weight": weight, "tip": tip}


def _drawn(
    rows: list[dict[str, Any]],
    names: list[dict[str, Any]],
    bounds: tuple[float, float],
    where: str,
) -> Any:
    import altair as alt

    last = max(name["y"] for name in names)
    x = alt.X("x:Q", title=None, axis=None, scale=alt.Scale(domain=list(bounds), nice=False))
    y = alt.Y(
        "y:Q", title=None, axis=None, scale=alt.Scale(domain=[-0.6, last + 0.6], reverse=True)
    )
    layers = []
    if rows:
        strength = alt.Scale(domain=[0, 1], range=[0.12, 1])
        layers.append(
            alt.Chart(theme.table(rows))
            .mark_line(strokeCap="round")
            .encode(
                x=x,
                y=y,
                detail="arc:N",
                order="piece:Q",
                color=alt.Color("colour:N", scale=None),
                opacity=alt.Opacity("weight:Q", scale=strength, legend=None),
                strokeWidth=alt.StrokeWidth(
                    "weight:Q", scale=alt.Scale(domain=[0, 1], range=[0.8, 4]), legend=None
                ),
                tooltip=alt.Tooltip("tip:N", title="arc"),
            )
        )
    font: dict[str, Any] = token_font(name["name"] for name in names)
    sides: Any = (("center", 0),) if where == "center" else (("right", -1), ("left", 1))
    for align, side in sides:
        some = [name for name in names if not side or name["x"] * side > 0]
        layers.append(
            alt.Chart(theme.table(some))
            .mark_text(align=align, baseline="middle", fontSize=theme.FONT_SIZE - 1, **font)
            .encode(x=x, y=y, text="name:N")
        )
    return alt.hconcat(
        alt.layer(*layers).properties(width=bounds[1] - bounds[0], height=(last + 1.2) * LINE)
    )


# ---- heads

HEAD, GAP, ABOVE = 72, 12, 15  # pixels of a small map, between two, and of the words above it
ACROSS = 16  # maps in a row
SMALL = 72  # tiles of a small map
MOST_HEADS = 400  # that are drawn


class HeadMap(NamedTuple):
    """One head: its layer, its number, what it is called, and its weights as tiles."""

    layer: str
    head: int
    pattern: str
    shown: np.ndarray


def heads_chart(maps: Sequence[HeadMap]) -> Any:
    """Draw a small map for each head, a row for each layer, with the pattern above it."""
    import altair as alt

    layers = list(dict.fromkeys(each.layer for each in maps[:MOST_HEADS]))
    rows: list[dict[str, Any]] = []
    down, names = 0.0, []
    for layer in layers:
        heads = [each for each in maps if each.layer == layer]
        names.append({"y": down + ABOVE + HEAD / 2, "layer": layer})
        for n, each in enumerate(heads):
            row, column = divmod(n, ACROSS)
            rows.append(
                {
                    "url": image_of(each.shown),
                    "x": column * (HEAD + GAP),
                    "y": down + row * (HEAD + GAP + ABOVE) + ABOVE,
                    "label": f"{each.head} {each.pattern}",
                    "tip": f"{layer}, head {each.head}: {each.pattern}",
                }
            )
        down += -(-len(heads) // ACROSS) * (HEAD + GAP + ABOVE)
    width = max(row["x"] for row in rows) + HEAD
    x = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[0, width], nice=False))
    y = alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[down, 0], nice=False))
    base = alt.Chart(theme.table(rows)).encode(x=x, y=y, tooltip=alt.Tooltip("tip:N"))
    at: dict[str, Any] = {"align": "left", "baseline": "top"}
    images = base.mark_image(width=HEAD, height=HEAD, aspect=False, **at).encode(url="url:N")
    frames = (
        base.mark_rect(fillOpacity=0, stroke=theme.GRID)
        .encode(x2=alt.X2("right:Q"), y2=alt.Y2("low:Q"))
        .transform_calculate(right=f"datum.x + {HEAD}", low=f"datum.y + {HEAD}")
    )
    labels = base.mark_text(align="left", baseline="bottom", dy=-1, fontSize=10).encode(
        text="label:N"
    )
    beside = (
        alt.Chart(theme.table(names))
        .mark_text(align="right", dx=-10, fontSize=theme.FONT_SIZE - 2)
        .encode(x=alt.value(0), y=y, text="layer:N")
    )
    return alt.hconcat(
        alt.layer(images, frames, labels, beside).properties(width=width, height=down)
    )


def by_layer_chart(rows: Sequence[Mapping[str, Any]], of: str, title: str) -> Any:
    """Draw a value of each head by its layer, and their mean as a line."""
    import altair as alt

    layers = list(dict.fromkeys(row["layer"] for row in rows))
    values = [
        {
            "at": layers.index(row["layer"]),
            "value": row[of],
            "tip": f"{row['layer']}, head {row['head']}: {row[of]:.3g}",
        }
        for row in rows
    ]
    base = alt.Chart(theme.table(values)).encode(
        x=alt.X(
            "at:O",
            title="layer",
            axis=alt.Axis(labelAngle=0, labelExpr=_labels(layers), labelOverlap="greedy"),
        )
    )
    y = alt.Y("value:Q", title=title, scale=alt.Scale(zero=True, nice=True))
    points = base.mark_point(size=45, opacity=0.6, color=HUE).encode(
        y=y, tooltip=alt.Tooltip("tip:N")
    )
    line = base.mark_line(color=theme.INK, strokeWidth=1.5).encode(
        y=alt.Y("mean(value):Q", title=title)
    )
    return alt.layer(line, points).properties(height=200)


def relations_chart(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Draw how often the best head finds each relation, beside the best fixed distance."""
    import altair as alt

    names = [f"{row['relation']}, from {row['from']}" for row in rows]
    kinds = {"accuracy": "best head", "offset_accuracy": "best fixed distance"}
    values = [
        {
            "name": name,
            "kind": kind,
            "value": row[key],
            "tip": f"{row['layer']}, head {row['head']}"
            if key == "accuracy"
            else f"{row['offset']:+d} words",
            "arcs": row["arcs"],
        }
        for name, row in zip(names, rows)
        for key, kind in kinds.items()
    ]
    base = alt.Chart(theme.table(values)).encode(
        x=alt.X(
            "value:Q",
            title="share of arcs found, on sentences that chose neither",
            scale=alt.Scale(domain=[0, 1]),
            axis=alt.Axis(format=".0%", tickCount=5),
        ),
        y=alt.Y("name:N", title=None, sort=names, axis=alt.Axis(labelLimit=0, grid=True)),
    )
    colours = dict(zip(kinds.values(), (theme.HUES[0], theme.FAINT)))
    return (
        base.mark_point(size=70, opacity=1)
        .encode(
            color=alt.Color(
                "kind:N",
                title=None,
                scale=alt.Scale(domain=list(colours), range=list(colours.values())),
            ),
            tooltip=[
                alt.Tooltip("name:N"),
                alt.Tooltip("kind:N"),
                alt.Tooltip("tip:N", title="which"),
                alt.Tooltip("value:Q", format=".1%"),
                alt.Tooltip("arcs:Q", format=","),
            ],
        )
        .properties(height=max(22 * len(names), 60))
    )


CELL = 54  # pixels of a cost


def costs_chart(rows: Sequence[Mapping[str, Any]], of: str) -> Any:
    """Draw what the removal of each `part` of each `layer` costs, orange; blue where it is better."""
    layers = list(dict.fromkeys(row["layer"] for row in rows))
    parts = list(dict.fromkeys(row["part"] for row in rows))
    parts = [
        *(part for part in parts if part.isdecimal()),
        *(p for p in parts if not p.isdecimal()),
    ]
    top = max(max(abs(row[of]) for row in rows), 1e-9)
    cells = [
        Cell(
            layers.index(row["layer"]),
            parts.index(row["part"]),
            math.sqrt(abs(row[of]) / top),
            signed(row[of]),
            f"{row[of]:+.4g}",
            AHEAD if row[of] > 0 else BACK,
        )
        for row in rows
    ]
    names = [part if not part.isdecimal() else f"head {part}" for part in parts]
    return heat_map(
        cells,
        Side("", layers, 26),
        Side("what is removed", names, CELL, "orange: it is missed; blue: better without it"),
    )


def signed(value: float) -> str:
    """Write a number with its sign in at most six characters.

    >>> signed(0.12345), signed(-3.2), signed(123.4), signed(0.0)
    ('+0.123', '-3.20', '+123', '0')
    """
    if value == 0:
        return "0"
    digits = 3 if abs(value) < 1 else 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    return f"{value:+.{digits}f}"


def _labels(layers: Sequence[str]) -> str:
    """Write layers as Vega's expression; their numbers, where there is one stack only."""
    import json

    stacks = {layer.replace(number_of(layer), "") for layer in layers}
    names = [number_of(layer) or layer for layer in layers] if len(stacks) == 1 else list(layers)
    return f"{json.dumps(names)}[datum.value]"


def number_of(layer: str) -> str:
    """Return the number in the name of a layer.

    >>> number_of("encoder.blocks.3.attention")
    '3'
    """
    return next((part for part in layer.split(".") if part.isdecimal()), "")
