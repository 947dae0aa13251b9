"""Parts of the data, groups or perturbations one below the other: a number of each with its interval, beside a reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from seqloom.charts import theme
from seqloom.charts.measure import interval_ends

ROW = 22  # pixels


class Point(NamedTuple):
    """A number of a part."""

    name: str
    group: str  # points of a group share a colour
    value: float
    low: float
    high: float
    size: int

    def values(self) -> dict[str, Any]:
        """Plain values; where there is no interval, it has no width."""
        return self._asdict() | interval_ends(self.value, self.low, self.high)


def points_with_intervals(points: Sequence[Point], title: str, reference: float) -> Any:
    """In the order that is given; the vertical line is the reference: the whole data, or no difference."""
    import altair as alt

    if not points:
        raise ValueError("no points: there is nothing to draw")
    names = [point.name for point in points]
    colours = theme.group_colours([point.group for point in points])
    base = alt.Chart(alt.InlineData(values=[point.values() for point in points])).encode(
        y=alt.Y(
            "name:N",
            sort=names,
            title=None,
            axis=alt.Axis(grid=True, ticks=False, domain=False, labelPadding=6, labelLimit=300),
        ),
        color=alt.Color(
            "group:N",
            title=None,
            legend=None if len(colours) == 1 else alt.Legend(symbolOpacity=1),
            scale=alt.Scale(domain=list(colours), range=list(colours.values())),
        ),
        tooltip=[
            alt.Tooltip("name:N", title="part"),
            alt.Tooltip("value:Q", title=title, format=".2%"),
            alt.Tooltip("low:Q", title="from", format=".2%"),
            alt.Tooltip("high:Q", title="to", format=".2%"),
            alt.Tooltip("size:Q", title="examples", format=","),
        ],
    )
    x = alt.X(
        "value:Q",
        title=title,
        axis=alt.Axis(format="%", tickCount=8),
        scale=alt.Scale(zero=False, nice=True),
    )
    line = (
        alt.Chart(alt.InlineData(values=[{"at": reference}]))
        .mark_rule(color="#8a8a8a", strokeDash=[5, 4])
        .encode(x="at:Q")
    )
    bars = base.mark_rule(strokeWidth=3, opacity=0.55).encode(x="low:Q", x2="high:Q")
    dots = base.mark_point(size=40, opacity=1).encode(x=x)
    return alt.layer(line, bars, dots).properties(height=max(ROW * len(points), 60))
