"""Charts of a comparison: the measure of each rung with its interval, quality against training time or
size on disk, learning curves, and parts of the data beside a reference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from seqloom.charts import theme
from seqloom.charts.heat import name_axis
from seqloom.charts.scales import (
    LEADER,
    LINE,
    PLACES,
    Axis,
    decades,
    log_domain,
    log_share,
    place_labels,
    spread,
)


class Measure(NamedTuple):
    key: str  # in JSON: bits_per_byte
    title: str  # in a sentence and on an axis: bits per byte
    heading: str  # of a column: bits/byte
    lower: bool  # is better
    form: str = ".3f"  # how a value is written
    log: bool = False  # whether axes are logarithmic
    unit: str = ""  # of a difference: bits

    def show(self, value: float, sign: str = "") -> str:
        return format(value, sign + self.form)

    def better(self, a: float, b: float) -> bool:
        """Return whether a is better than b."""
        return a < b if self.lower else a > b

    @property
    def axis(self) -> str:
        return f"{self.title} ({'less' if self.lower else 'more'} is better)"

    @property
    def ticks(self) -> str:
        """Return the axis format in Vega's notation."""
        return "~%" if self.form.endswith("%") else "~g"


BITS = Measure("bits_per_byte", "bits per byte", "bits/byte", lower=True, log=True, unit="bits")


def interval_ends(value: float, low: float, high: float) -> dict[str, float]:
    """Return the ends of an interval as drawn; where there is none, it has no width."""
    finite = math.isfinite(low) and math.isfinite(high)
    return {"low": low if finite else value, "high": high if finite else value}


# ---- ladder

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
        """Return plain values; where there is no interval, it has no width."""
        plain = {
            name: None if isinstance(one, float) and math.isnan(one) else one
            for name, one in self._asdict().items()
        }
        return plain | interval_ends(self.value, self.low, self.high)


def ladder(rows: Sequence[Row], measure: Measure = BITS) -> Any:
    """Draw the measure with 95 % intervals, in the order of the ladder."""
    import altair as alt

    names = [row.name for row in rows]
    base = alt.Chart(
        theme.table([row.values() | {"shown": measure.show(row.value)} for row in rows])
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
        axis=alt.Axis(tickCount=5, format=measure.ticks),
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


# ---- quality

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
    """Draw quality against price on a logarithmic axis; rungs of a group are joined in their
    order, every point named where there is room.
    """
    import altair as alt

    across = log_domain([max(getattr(r, price), 1e-9) for r in rows], 0.12)
    down = Axis.of([r.value for r in rows], 0.1, measure.log)
    values = _labelled(rows, price, across, down)
    x = alt.X(
        f"{price}:Q",
        title=TITLES[price],
        scale=alt.Scale(type="log", domain=across, nice=False),
        axis=alt.Axis(
            format=FORMATS[price], values=decades(across), grid=True, labelOverlap="greedy"
        ),
    )
    y = alt.Y(
        "value:Q",
        title=measure.axis,
        scale=down.scale(alt),
        axis=alt.Axis(values=down.ticks(), format=measure.ticks),
    )
    base = alt.Chart(theme.table(values)).encode(x=x, y=y, color=colour(alt, rows))
    line = base.mark_line(strokeWidth=0.8).encode(order="index:Q", detail="group:N")
    points = base.mark_point(size=75, opacity=1).encode(
        shape=shape(alt, rows), tooltip=tooltip(alt, measure)
    )
    return alt.layer(line, *_leaders(base), points, *_names(base, values))


def _labelled(
    rows: Sequence[Row], price: Price, across: Sequence[float], down: Axis
) -> list[dict[str, Any]]:
    """Return the rows with the index of the place of their name, -1 for none, and where its leader
    line would end.
    """
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
    """Make a layer for each place in use, since Vega-Lite moves a whole layer at once."""
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


# ---- curve


class CurvePoint(NamedTuple):
    name: str
    group: str
    size: int  # of the training data
    value: float


def learning_curves(
    points: Sequence[CurvePoint], measure: Measure = BITS, unit: str = "bytes"
) -> Any:
    """Draw learning curves, amounts on a logarithmic axis. Rungs of a group share a hue and grow
    darker along the ladder.
    """
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
    base = alt.Chart(theme.table([p._asdict() for p in points])).encode(x=x, y=y, color=colour)
    tips = [
        alt.Tooltip("name:N", title="rung"),
        alt.Tooltip("size:Q", title=f"training {unit}", format=","),
        alt.Tooltip("value:Q", title=measure.title, format=measure.form),
    ]
    ends = alt.Chart(theme.table(_ends(points, across, down))).encode(color=colour)
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
    """Return the domain from a little before the first point to beyond the last, with room for the
    lines that lead to the names.
    """
    ratio = max(sizes[-1] / sizes[0], 2.0)
    return [sizes[0] * ratio**-0.02, sizes[-1] * ratio**0.06]


def _height(lines: int) -> int:
    return max(theme.HEIGHT, math.ceil(LINE * lines * 1.1))


def _ends(
    points: Sequence[CurvePoint], across: Sequence[float], down: Axis
) -> list[dict[str, Any]]:
    """Return the last point of each line, with a position for its name that leaves the others
    free.
    """
    last = list({p.name: p for p in sorted(points, key=lambda p: p.size)}.values())
    shares = spread([down.share(p.value) for p in last], LINE / _height(len(last)), 0.02, 0.98)
    return [
        p._asdict() | {"beside": across[1], "at": down.at(share)} for p, share in zip(last, shares)
    ]


# ---- slices

ROW = 22  # pixels
SLICE_NAME = 48  # columns of a name


class SlicePoint(NamedTuple):
    """A number of a part."""

    name: str
    group: str  # points of a group share a colour
    value: float
    low: float
    high: float
    size: int

    def values(self) -> dict[str, Any]:
        """Return plain values; where there is no interval, it has no width."""
        return self._asdict() | interval_ends(self.value, self.low, self.high)


def points_with_intervals(points: Sequence[SlicePoint], title: str, reference: float) -> Any:
    """Draw points with intervals in the given order; the vertical line is the reference: the whole
    data, or no difference. Parts with few examples are hollow.
    """
    import altair as alt

    if not points:
        raise ValueError("no points: there is nothing to draw")
    colours = theme.group_colours([point.group for point in points])
    few = any(point.size < theme.FEW for point in points)
    values = [point.values() | {"place": i} for i, point in enumerate(points)]
    base = alt.Chart(theme.table(values)).encode(
        y=alt.Y(
            "place:O",
            title=None,
            axis=name_axis(alt, [point.name for point in points], SLICE_NAME, grid=True),
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
        title=theme.with_few(title, "examples") if few else title,
        axis=alt.Axis(format="%", tickCount=6),
        scale=alt.Scale(zero=False, nice=True),
    )
    line = (
        alt.Chart(theme.table([{"at": reference}]))
        .mark_rule(color="#8a8a8a", strokeDash=[5, 4])
        .encode(x="at:Q")
    )
    bars = base.mark_rule(strokeWidth=3, opacity=0.55).encode(x="low:Q", x2="high:Q")
    dots = [
        base.transform_filter(f"datum.size {test} {theme.FEW}")
        .mark_point(size=40, opacity=1, **look)
        .encode(x=x)
        for test, look in ((">=", {}), ("<", theme.HOLLOW))
    ]
    return alt.layer(line, bars, *dots).properties(height=max(ROW * len(points), 60))
