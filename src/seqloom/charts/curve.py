"""Learning curves: the measure against the amount of training data, one line a rung, named at its end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from seqloom.charts import theme
from seqloom.charts.labels import LINE, spread
from seqloom.charts.measure import BITS, Measure
from seqloom.charts.scales import Axis


class Point(NamedTuple):
    name: str
    group: str
    size: int  # of the training data
    value: float


def learning_curves(points: Sequence[Point], measure: Measure = BITS, unit: str = "bytes") -> Any:
    """Amounts on a logarithmic axis. Rungs of a group share a hue and grow darker along the ladder."""
    import altair as alt

    points = [point for point in points if math.isfinite(point.value)]
    colours = theme.member_colours({p.name: p.group for p in points})
    sizes = sorted({p.size for p in points})
    across, down = _across(sizes), Axis.of([p.value for p in points], 0.05, measure.log)
    x = alt.X(
        "size:Q",
        title=f"training data ({unit}, log scale)",
        scale=alt.Scale(type="log", domain=across, nice=False),
        axis=alt.Axis(values=sizes, format=".2~s"),
    )
    y = alt.Y(
        "value:Q",
        title=measure.axis,
        scale=down.scale(alt),
        axis=alt.Axis(values=down.ticks(), format=measure.ticks),
    )
    colour = alt.Color(
        "name:N", legend=None, scale=alt.Scale(domain=list(colours), range=list(colours.values()))
    )
    base = alt.Chart(alt.InlineData(values=[p._asdict() for p in points])).encode(
        x=x, y=y, color=colour
    )
    tips = [
        alt.Tooltip("name:N", title="rung"),
        alt.Tooltip("size:Q", title=f"training {unit}", format=","),
        alt.Tooltip("value:Q", title=measure.title, format=measure.form),
    ]
    ends = alt.Chart(alt.InlineData(values=_ends(points, across, down))).encode(color=colour)
    leaders = ends.mark_rule(strokeWidth=1, opacity=0.6).encode(
        x="size:Q", y="value:Q", x2="beside:Q", y2="at:Q"
    )
    names = ends.mark_text(align="left", dx=3).encode(x="beside:Q", y="at:Q", text="name:N")
    layers = [
        base.mark_line(),
        leaders,
        base.mark_point(size=45, opacity=1).encode(tooltip=tips),
        names,
    ]
    return alt.layer(*layers).properties(height=_height(len(colours)))


def _across(sizes: Sequence[int]) -> list[float]:
    """A little before the first point, and room behind the last for the lines that lead to the names."""
    ratio = max(sizes[-1] / sizes[0], 2.0)
    return [sizes[0] * ratio**-0.02, sizes[-1] * ratio**0.06]


def _height(lines: int) -> int:
    return max(theme.HEIGHT, math.ceil(LINE * lines * 1.1))


def _ends(points: Sequence[Point], across: Sequence[float], down: Axis) -> list[dict[str, Any]]:
    """The last point of each line, with a place for its name that leaves the others free."""
    last = list({p.name: p for p in sorted(points, key=lambda p: p.size)}.values())
    shares = spread([down.share(p.value) for p in last], LINE / _height(len(last)), 0.02, 0.98)
    return [
        p._asdict() | {"beside": across[1], "at": down.at(share)} for p, share in zip(last, shares)
    ]
