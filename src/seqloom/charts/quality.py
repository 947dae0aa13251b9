"""Quality against its price: the measure of a comparison against training time or size on disk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from seqloom.charts import theme
from seqloom.charts.labels import LEADER, PLACES, place_labels
from seqloom.charts.ladder import Row, colour, shape, tooltip
from seqloom.charts.measure import BITS, Measure
from seqloom.charts.scales import Axis, decades, log_domain, log_share

Price = Literal["seconds", "disk"]
TITLES = {
    "seconds": "training time (seconds, log scale)",
    "disk": "size on disk (bytes, log scale)",
}
FORMATS = {"seconds": "~g", "disk": "~s"}
# Names are placed for narrow and for wide plots; `width` is the plot's, known to Vega when it draws.
WINDOWS = {
    "narrow": (f"width < {theme.MIDDLE}", (theme.NARROW, theme.MIDDLE)),
    "wide": (f"width >= {theme.MIDDLE}", (theme.MIDDLE, theme.WIDEST)),
}
FIRST_FAR = next(i for i, place in enumerate(PLACES) if abs(place.dy) >= LEADER)


def quality_against(rows: Sequence[Row], price: Price, measure: Measure = BITS) -> Any:
    """The price on a logarithmic axis; rungs of a group joined in their order, every point named where there is room."""
    import altair as alt

    across = log_domain([max(getattr(r, price), 1e-9) for r in rows], 0.12)
    down = Axis.of([r.value for r in rows], 0.1, measure.log)
    values = _labelled(rows, price, across, down)
    x = alt.X(
        f"{price}:Q",
        title=TITLES[price],
        scale=alt.Scale(type="log", domain=across, nice=False),
        axis=alt.Axis(format=FORMATS[price], values=decades(across), grid=True),
    )
    y = alt.Y(
        "value:Q",
        title=measure.axis,
        scale=down.scale(alt),
        axis=alt.Axis(values=down.ticks(), format=measure.ticks),
    )
    base = alt.Chart(alt.InlineData(values=values)).encode(x=x, y=y, color=colour(alt, rows))
    line = base.mark_line(strokeWidth=1.5, opacity=0.35).encode(order="index:Q", detail="group:N")
    points = base.mark_point(size=75, opacity=1).encode(
        shape=shape(alt, rows), tooltip=tooltip(alt, measure)
    )
    return alt.layer(line, *_leaders(base), points, *_names(base, values))


def _labelled(
    rows: Sequence[Row], price: Price, across: Sequence[float], down: Axis
) -> list[dict[str, Any]]:
    """The rows with the number of the place of their name, -1 for none, and where its leading line would end."""
    joined = [
        (max(earlier), b)
        for b, row in enumerate(rows)
        if (earlier := [a for a in range(b) if rows[a].group == row.group])
    ]
    xs = [log_share(getattr(row, price), across) for row in rows]
    ys = [1 - down.share(row.value) for row in rows]
    values = [row.values() | {"index": i} for i, row in enumerate(rows)]
    for key, (_, widths) in WINDOWS.items():
        for value, place in zip(
            values, place_labels([r.name for r in rows], xs, ys, lines=joined, widths=widths)
        ):
            value[key] = PLACES.index(place) if place else -1
            value[f"{key}_end"] = down.moved(value["value"], place.dy if place else 0)
    return values


def _leaders(base: Any) -> list[Any]:
    return [
        base.transform_filter(f"{test} && datum.{key} >= {FIRST_FAR}")
        .mark_rule(strokeWidth=1, opacity=0.5)
        .encode(y2=f"{key}_end:Q")
        for key, (test, _) in WINDOWS.items()
    ]


def _names(base: Any, values: Sequence[dict[str, Any]]) -> list[Any]:
    """A layer for each place that is used, since Vega-Lite moves a whole layer at once."""
    layers = []
    for i, p in enumerate(PLACES):
        if any(value[key] == i for value in values for key in WINDOWS):
            test = " || ".join(
                f"({test} && datum.{key} == {i})" for key, (test, _) in WINDOWS.items()
            )
            layers.append(
                base.transform_filter(test)
                .mark_text(align=p.align, baseline=p.baseline, dx=p.dx, dy=p.dy)
                .encode(text="name:N")
            )
    return layers
