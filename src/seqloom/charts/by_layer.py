"""A number of each layer of a network, with its interval, one line for each series: what a probe reads
from the layers, how alike the senses of a word are in them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from seqloom.charts import theme

HEIGHT = 300
LETTER = 7.5  # pixels of a letter of a layer's name, which is turned where it has no room
APART = 0.09  # of a layer's column, between series, so that their intervals do not cover each other


class LayerPoint(NamedTuple):
    """A number of a layer and its interval, which may be unknown (NaN)."""

    layer: str
    value: float
    low: float = math.nan
    high: float = math.nan


def layers_chart(
    series: Mapping[str, Sequence[LayerPoint]],
    title: str,
    form: str,
    *,
    dashed: Sequence[str] = (),
    reference: tuple[float, str] | None = None,
) -> Any:
    """Draw the series over the layers in their order; those in `dashed` are lines of dashes with hollow
    points. `reference`: a value and its name, drawn as a level line.
    """
    import altair as alt

    if not any(series.values()):
        raise ValueError("no layer: there is nothing to draw")
    layers = list(dict.fromkeys(point.layer for points in series.values() for point in points))
    middle = (len(series) - 1) / 2
    values = [
        {
            "series": name,
            "layer": point.layer,
            "at": layers.index(point.layer) + APART * (rank - middle),
            "value": point.value,
            "low": point.value if math.isnan(point.low) else point.low,
            "high": point.value if math.isnan(point.high) else point.high,
            "dashed": name in dashed,
        }
        for rank, (name, points) in enumerate(series.items())
        for point in points
    ]
    # A series and the one of dashes that belongs to it (which begins like it) have one colour.
    own = {
        name: next(n for n in series if name == n or name.startswith(f"{n}, ")) for name in series
    }
    hues = theme.group_colours(list(own.values()))
    names = [short_layer(layer) for layer in layers]
    turned = max(map(len, names)) * LETTER > max(theme.WIDTH / len(layers), 1) - 6
    base = alt.Chart(theme.table(values)).encode(
        x=alt.X(
            "at:Q",
            title="layer",
            scale=alt.Scale(domain=[-0.5, len(layers) - 0.5], nice=False),
            axis=alt.Axis(
                values=list(range(len(layers))),
                labelExpr=f"{json.dumps(names)}[datum.value]",
                grid=False,
                labelAngle=-45 if turned else 0,
                labelAlign="right" if turned else "center",
                labelOverlap=False,
            ),
        ),
        color=alt.Color(
            "series:N",
            title=None,
            scale=alt.Scale(domain=list(series), range=[hues[own[name]] for name in series]),
            legend=None if len(series) == 1 else alt.Legend(symbolOpacity=1, columns=2),
        ),
        tooltip=[
            alt.Tooltip("series:N"),
            alt.Tooltip("layer:N"),
            alt.Tooltip("value:Q", title=title, format=form),
            alt.Tooltip("low:Q", title="from", format=form),
            alt.Tooltip("high:Q", title="to", format=form),
        ],
    )
    drawn = [
        end for points in series.values() for point in points for end in (point.low, point.high)
    ]
    drawn += [point.value for points in series.values() for point in points]
    drawn += [] if reference is None else [reference[0]]
    numbers = [number for number in drawn if not math.isnan(number)]
    y = alt.Y(
        "value:Q",
        title=title,
        scale=alt.Scale(zero=False, nice=True),
        axis=alt.Axis(format=finer(form, max(numbers) - min(numbers))),
    )
    parts = [
        base.mark_rule(opacity=0.6, strokeWidth=2).encode(
            y=alt.Y("low:Q", title=title), y2="high:Q"
        )
    ]
    for wanted in (False, True):
        if not any(value["dashed"] == wanted for value in values):
            continue
        chosen = base.transform_filter(f"datum.dashed == {str(wanted).lower()}")
        dashes = [6, 4] if wanted else alt.Undefined
        look: dict[str, Any] = theme.HOLLOW if wanted else {"filled": True}
        parts += [
            chosen.mark_line(strokeWidth=2, strokeDash=dashes).encode(y=y),
            chosen.mark_point(size=50, opacity=1, **look).encode(y=y),
        ]
    if reference is not None:
        level = alt.Chart(theme.table([{"value": reference[0], "name": reference[1]}]))
        parts += [
            level.mark_rule(color="#8a8a8a", strokeDash=[2, 3]).encode(y="value:Q"),
            level.mark_text(align="right", dy=-7, color=theme.FAINT).encode(
                y="value:Q", text="name:N", x=alt.value(theme.WIDTH - 2)
            ),
        ]
    return alt.layer(*parts).properties(height=HEIGHT)


def finer(form: str, span: float) -> str:
    """Return a format with as many digits as tell the ticks of an axis from each other, at least its own.

    >>> finer(".2f", 0.8), finer(".2f", 0.003), finer(".0%", 0.3), finer(".0%", 0.004)
    ('.2f', '.4f', '.0%', '.2%')
    """
    digits, kind = int(form[1:-1]), form[-1]
    if not span > 0:
        return form
    needed = math.ceil(-math.log10(span)) + 1 - (2 if kind == "%" else 0)
    return f".{max(digits, min(needed, 9))}{kind}"


def short_layer(layer: str) -> str:
    """Return the end of a layer's name that tells it from the others.

    >>> short_layer("encoder.stack.layers.0"), short_layer("embedding")
    ('layers.0', 'embedding')
    """
    return ".".join(layer.split(".")[-2:])
