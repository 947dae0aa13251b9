"""The rungs of a comparison: bits per byte with intervals, and quality against what it costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from seqloom.charts import theme
from seqloom.charts.labels import LEADER, PLACES, place_labels
from seqloom.charts.scales import decades, log_domain, log_moved, log_share, round_ticks

Price = Literal["seconds", "disk"]
AXES = {"seconds": "training time (seconds, log scale)", "disk": "size on disk (bytes, log scale)"}
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
CHOICES = {"narrow": f"width < {theme.MIDDLE}", "wide": f"width >= {theme.MIDDLE}"}  # `width` is the plot's, in Vega
FIRST_FAR = next(i for i, place in enumerate(PLACES) if abs(place.dy) >= LEADER)
FORMATS = {"seconds": "~g", "disk": "~s"}


class Row(NamedTuple):
    """What is drawn of a rung."""

    name: str
    group: str
    bits: float
    low: float
    high: float
    seconds: float
    disk: float


def ladder(rows: Sequence[Row]) -> Any:
    """Bits per byte with 95 % intervals, one line a rung, in the order of the ladder."""
    import altair as alt

    rows = [row for row in rows if math.isfinite(row.bits)]
    values = [row._asdict() | {"shown": f"{row.bits:.3f}"} | _ends(row) for row in rows]
    base = alt.Chart(alt.Data(values=values)).encode(
        y=alt.Y("name:N", sort=[row.name for row in rows], title=None, axis=alt.Axis(grid=True, ticks=False, domain=False, labelPadding=6)),
        color=_colour(alt, rows), tooltip=_tooltip(alt))
    x = alt.X("bits:Q", title="bits per byte of the held-out text (less is better)", scale=alt.Scale(zero=False, nice=True, padding=24))
    bars = base.mark_rule(strokeWidth=3, opacity=0.55).encode(x=alt.X("low:Q", scale=alt.Scale(zero=False)), x2="high:Q")
    ticks = base.mark_tick(thickness=2, size=10).encode(x="low:Q") + base.mark_tick(thickness=2, size=10).encode(x="high:Q")
    points = base.mark_point(size=60, opacity=1).encode(x=x, shape=_shape(alt, rows))
    text = base.mark_text(align="left", dx=12).encode(x=x, text="shown:N", color=alt.value(theme.INK))
    return alt.layer(bars, ticks, points, text).properties(height=max(22 * len(rows), 120))


def quality_against(rows: Sequence[Row], price: Price) -> Any:
    """Bits per byte against training time or size; both axes logarithmic, every point named where there is room."""
    import altair as alt

    rows = [row for row in rows if math.isfinite(row.bits) and getattr(row, price) > 0]
    across, down = log_domain([getattr(r, price) for r in rows], 0.12), log_domain([r.bits for r in rows], 0.1)
    joined = [(a, b) for b in range(len(rows)) for a in range(b) if rows[a].group == rows[b].group
              and not any(rows[c].group == rows[b].group for c in range(a + 1, b))]
    shares = [log_share(getattr(r, price), across) for r in rows], [1 - log_share(r.bits, down) for r in rows]
    values = [row._asdict() | {"index": i} for i, row in enumerate(rows)]
    for key, width in (("narrow", theme.NARROW), ("wide", theme.MIDDLE)):
        for value, place in zip(values, place_labels([r.name for r in rows], *shares, lines=joined, width=width)):
            value[key] = PLACES.index(place) if place else -1
            value[f"{key}_end"] = log_moved(value["bits"], place.dy if place else 0, down)
    x = alt.X(f"{price}:Q", title=AXES[price], scale=alt.Scale(type="log", domain=across, nice=False),
              axis=alt.Axis(format=FORMATS[price], values=decades(across), grid=True))
    y = alt.Y("bits:Q", title="bits per byte (less is better)", scale=alt.Scale(type="log", domain=down, nice=False),
              axis=alt.Axis(values=round_ticks(down), format="~g"))
    base = alt.Chart(alt.Data(values=values)).encode(x=x, y=y, color=_colour(alt, rows))
    line = base.mark_line(strokeWidth=1.5, opacity=0.35).encode(order="index:Q", detail="group:N")
    points = base.mark_point(size=75, opacity=1).encode(
        shape=_shape(alt, rows), tooltip=_tooltip(alt))
    leaders = [base.transform_filter(f"{choice} && datum.{key} >= {FIRST_FAR}")
               .mark_rule(strokeWidth=1, opacity=0.5).encode(y2=f"{key}_end:Q") for key, choice in CHOICES.items()]
    texts = [base.transform_filter(f"({' || '.join(f'({choice} && datum.{key} == {i})' for key, choice in CHOICES.items())})")
             .mark_text(align=p.align, baseline=p.baseline, dx=p.dx, dy=p.dy).encode(text="name:N")
             for i, p in enumerate(PLACES) if any(i in (value["wide"], value["narrow"]) for value in values)]
    return alt.layer(line, *leaders, points, *texts)


def _ends(row: Row) -> dict[str, float]:
    """The interval, or the value itself where there is none."""
    known = math.isfinite(row.low) and math.isfinite(row.high)
    return {"low": row.low if known else row.bits, "high": row.high if known else row.bits}


def _groups(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row.group for row in rows))


def _colour(alt: Any, rows: Sequence[Row]) -> Any:
    colours = theme.group_colours(_groups(rows))
    return alt.Color("group:N", title=None, scale=alt.Scale(domain=list(colours), range=list(colours.values())),
                     legend=alt.Legend(symbolOpacity=1, symbolStrokeWidth=0))


def _shape(alt: Any, rows: Sequence[Row]) -> Any:
    groups = _groups(rows)
    shapes = [SHAPES[i % len(SHAPES)] for i in range(len(groups))]
    return alt.Shape("group:N", title=None, scale=alt.Scale(domain=groups, range=shapes))


def _tooltip(alt: Any) -> list[Any]:
    return [alt.Tooltip("name:N", title="rung"), alt.Tooltip("bits:Q", title="bits per byte", format=".3f"),
            alt.Tooltip("low:Q", title="from", format=".3f"), alt.Tooltip("high:Q", title="to", format=".3f"),
            alt.Tooltip("seconds:Q", title="training, s", format=".3~g"), alt.Tooltip("disk:Q", title="bytes on disk", format=".3~s")]
