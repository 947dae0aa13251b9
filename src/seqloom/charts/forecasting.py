"""A series over time: what came, what was forecast with its intervals, and what was not as expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from seqloom.charts import theme

MAX_POINTS = 1500  # points of a line
CAME, SAID, MARK = theme.INK, theme.HUES[0], "#c0392b"
OPACITY = {95: 0.15, 80: 0.3}


class Line(NamedTuple):
    """Values over time; times are seconds since 1970, or numbers of steps."""

    times: Sequence[int]
    values: Sequence[float]


def forecast_chart(
    came: Line,
    said: Line,
    bands: Mapping[int, tuple[Sequence[float], Sequence[float]]],
    *,
    rows: bool,
    title: str,
) -> Any:
    """Draw what came as a line, the forecast beside it, and its intervals as bands."""
    import altair as alt

    x = _across(alt, rows)
    layers = []
    for share in sorted(bands, reverse=True):
        low, high = bands[share]
        ends = [
            {"t": _at(t, rows), "low": float(a), "high": float(b)}
            for t, a, b in zip(said.times, low, high)
        ]
        layers.append(
            alt.Chart(alt.InlineData(values=ends))
            .mark_area(opacity=OPACITY.get(share, 0.2), color=SAID)
            .encode(x=x, y=alt.Y("low:Q", title=title, scale=alt.Scale(zero=False)), y2="high:Q")
        )
    points = [
        {"t": _at(t, rows), "value": float(v), "what": what}
        for what, line in (("what came", came), ("forecast", said))
        for t, v in zip(*_thinned(line))
        if np.isfinite(v)
    ]
    colour = alt.Color(
        "what:N", title=None, scale=alt.Scale(domain=["what came", "forecast"], range=[CAME, SAID])
    )
    tips = [
        alt.Tooltip("what:N"),
        alt.Tooltip("t:Q" if rows else "t:T", title="time"),
        alt.Tooltip("value:Q", format=".5~g"),
    ]
    lines = (
        alt.Chart(alt.InlineData(values=points))
        .mark_line(strokeWidth=1.6, point=len(points) < 3)
        .encode(
            x=x,
            y=alt.Y("value:Q", title=title, scale=alt.Scale(zero=False)),
            color=colour,
            tooltip=tips,
        )
    )
    return alt.layer(*layers, lines)


def marks_chart(came: Line, marks: Line, *, rows: bool, title: str) -> Any:
    """Draw the series, with a red point where something is unusual."""
    import altair as alt

    x, y = _across(alt, rows), alt.Y("value:Q", title=title, scale=alt.Scale(zero=False))
    points = [
        {"t": _at(t, rows), "value": float(v)} for t, v in zip(*_thinned(came)) if np.isfinite(v)
    ]
    unusual = [{"t": _at(t, rows), "value": float(v)} for t, v in zip(*marks)][:MAX_POINTS]
    tips = [
        alt.Tooltip("t:Q" if rows else "t:T", title="time"),
        alt.Tooltip("value:Q", format=".5~g"),
    ]
    line = (
        alt.Chart(alt.InlineData(values=points))
        .mark_line(strokeWidth=1.2, color=CAME)
        .encode(x=x, y=y)
    )
    dots = (
        alt.Chart(alt.InlineData(values=unusual))
        .mark_point(size=45, color=MARK, opacity=1)
        .encode(x=x, y=y, tooltip=tips)
    )
    return alt.layer(line, dots)


def _across(alt: Any, rows: bool) -> Any:
    return (
        alt.X("t:Q", title="step")
        if rows
        else alt.X("t:T", title=None, scale=alt.Scale(type="utc"))
    )


def _at(time: int, rows: bool) -> int:
    return int(time) if rows else int(time) * 1000


def _thinned(line: Line) -> tuple[list[int], list[float]]:
    """Keep the least and greatest of each stretch of many points, so that no peak is lost."""
    times, values = np.asarray(line.times), np.asarray(line.values, np.float64)
    if len(times) <= MAX_POINTS:
        return times.tolist(), values.tolist()
    size = -(-len(times) // (MAX_POINTS // 2))
    keep: set[int] = set()
    for start in range(0, len(times), size):
        part = values[start : start + size]
        if np.isfinite(part).any():
            keep |= {start + int(np.nanargmin(part)), start + int(np.nanargmax(part))}
    chosen = sorted(keep)
    return times[chosen].tolist(), values[chosen].tolist()
