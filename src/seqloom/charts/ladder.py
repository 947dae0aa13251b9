"""The rungs of a comparison, one below the other: their measure with intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from seqloom.charts import theme
from seqloom.charts.measure import BITS, Measure, interval_ends

SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")


class Row(NamedTuple):
    """What is drawn of a rung."""

    name: str
    group: str  # rungs of a group share a colour and a shape
    value: float  # of the measure
    low: float
    high: float
    seconds: float
    disk: float

    def values(self) -> dict[str, Any]:
        """Plain values; where there is no interval, it has no width."""
        plain = {
            name: None if isinstance(one, float) and math.isnan(one) else one
            for name, one in self._asdict().items()
        }
        return plain | interval_ends(self.value, self.low, self.high)


def ladder(rows: Sequence[Row], measure: Measure = BITS) -> Any:
    """The measure with 95 % intervals, in the order of the ladder."""
    import altair as alt

    names = [row.name for row in rows]
    base = alt.Chart(
        alt.InlineData(values=[row.values() | {"shown": measure.show(row.value)} for row in rows])
    ).encode(
        y=alt.Y(
            "name:N",
            sort=names,
            title=None,
            axis=alt.Axis(grid=True, ticks=False, domain=False, labelPadding=6),
        ),
        color=colour(alt, rows),
        tooltip=tooltip(alt, measure),
    )
    x = alt.X(
        "value:Q",
        title=f"{measure.title} of the held-out data ({'less' if measure.lower else 'more'} is better)",
        axis=alt.Axis(tickCount=8, format=measure.ticks),
        scale=alt.Scale(zero=False, nice=True, padding=30),
    )
    bars = base.mark_rule(strokeWidth=3, opacity=0.55).encode(x="low:Q", x2="high:Q")
    ticks = [base.mark_tick(thickness=2, size=10).encode(x=end) for end in ("low:Q", "high:Q")]
    points = base.mark_point(size=40, opacity=1).encode(x=x, shape=shape(alt, rows))
    text = base.mark_text(align="left", dx=10).encode(
        x="high:Q", text="shown:N", color=alt.value(theme.INK)
    )
    return alt.layer(bars, *ticks, points, text).properties(height=max(22 * len(rows), 60))


def groups(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row.group for row in rows))


def colour(alt: Any, rows: Sequence[Row]) -> Any:
    colours = theme.group_colours(groups(rows))
    return alt.Color(
        "group:N",
        title=None,
        scale=alt.Scale(domain=list(colours), range=list(colours.values())),
        legend=alt.Legend(symbolOpacity=1, symbolStrokeWidth=0),
    )


def shape(alt: Any, rows: Sequence[Row]) -> Any:
    names = groups(rows)
    shapes = [SHAPES[i % len(SHAPES)] for i in range(len(names))]
    return alt.Shape("group:N", title=None, scale=alt.Scale(domain=names, range=shapes))


def tooltip(alt: Any, measure: Measure) -> list[Any]:
    form = measure.form
    return [
        alt.Tooltip("name:N", title="rung"),
        alt.Tooltip("value:Q", title=measure.title, format=form),
        alt.Tooltip("low:Q", title="from", format=form),
        alt.Tooltip("high:Q", title="to", format=form),
        alt.Tooltip("seconds:Q", title="training, s", format=".3~g"),
        alt.Tooltip("disk:Q", title="bytes on disk", format=".3~s"),
    ]
