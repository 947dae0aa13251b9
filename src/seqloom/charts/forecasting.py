"""A series over time: what came, what was forecast with its intervals, and what was not as expected."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from seqloom.charts import theme
from seqloom.charts.heat import blend

MAX_POINTS = 1500  # points of a line
MANY_POINTS = 600  # from which on a line is thin, since its strokes touch
MAX_TICKS = 8  # times on an axis
HOUR, DAY = 3600, 86_400
# Seconds between two ticks; where they would be too many, months.
ROUND_SECONDS = (
    *(1, 2, 5, 10, 15, 30),
    *(60 * minutes for minutes in (1, 2, 5, 10, 15, 30)),
    *(HOUR * hours for hours in (1, 2, 3, 6, 12)),
    *(DAY * days for days in (1, 2, 7, 14)),
)
ROUND_MONTHS = (1, 2, 3, 6, 12, 24, 60, 120, 600, 1200, 24_000)
CAME, SAID, MARK = theme.INK, theme.HUES[0], "#c0392b"
SHADES = {95: 0.17, 80: 0.4}  # of a band, from white to the colour of the forecast


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

    x = _across(alt, [*came.times, *said.times], rows)
    y: dict[str, Any] = {"title": title, "scale": alt.Scale(zero=False)}
    shares = sorted(bands, reverse=True)  # the wider ones lie below
    names = {share: f"{share} % interval" for share in shares}
    ends = [
        {"t": _at(t, rows), "low": float(a), "high": float(b), "band": names[share]}
        for share in shares
        for t, a, b in zip(said.times, *bands[share])
    ]
    fill = alt.Fill(
        "band:N",
        title=None,
        sort=None,
        scale=alt.Scale(
            domain=[names[share] for share in reversed(shares)],
            range=[blend(SAID, SHADES.get(share, 0.25)) for share in reversed(shares)],
        ),
        legend=alt.Legend(symbolType="square", symbolStrokeWidth=0, symbolSize=160),
    )
    areas = [
        alt.Chart(theme.table([end for end in ends if end["band"] == name]))
        .mark_area()
        .encode(x=x, y=alt.Y("low:Q", **y), y2="high:Q", fill=fill)
        for name in names.values()
    ]
    points = [
        {"t": _at(t, rows), "value": float(v), "what": what}
        for what, line in (("what came", came), ("forecast", said))
        for t, v in zip(*_thinned(line))
        if np.isfinite(v)
    ]
    colour = alt.Color(
        "what:N",
        title=None,
        scale=alt.Scale(domain=["what came", "forecast"], range=[CAME, SAID]),
        legend=alt.Legend(symbolType="stroke", symbolStrokeWidth=3),
    )
    tips = [
        alt.Tooltip("what:N"),
        alt.Tooltip("t:Q" if rows else "t:T", title="time"),
        alt.Tooltip("value:Q", format=".5~g"),
    ]
    lines = (
        alt.Chart(theme.table(points))
        .mark_line(strokeWidth=1.6, point=len(points) < 3)
        .encode(x=x, y=alt.Y("value:Q", **y), color=colour, tooltip=tips)
    )
    return alt.layer(*areas, lines)


def marks_chart(came: Line, marks: Line, *, rows: bool, title: str) -> Any:
    """Draw the series, with a red point where something is unusual."""
    import altair as alt

    x = _across(alt, [*came.times, *marks.times], rows)
    y = alt.Y("value:Q", title=title, scale=alt.Scale(zero=False))
    points = [
        {"t": _at(t, rows), "value": float(v)} for t, v in zip(*_thinned(came)) if np.isfinite(v)
    ]
    unusual = [{"t": _at(t, rows), "value": float(v)} for t, v in zip(*marks)][:MAX_POINTS]
    tips = [
        alt.Tooltip("t:Q" if rows else "t:T", title="time"),
        alt.Tooltip("value:Q", format=".5~g"),
    ]
    line = (
        alt.Chart(theme.table(points))
        .mark_line(strokeWidth=1.2 if len(points) <= MANY_POINTS else 0.6, color=CAME)
        .encode(x=x, y=y)
    )
    dots = (
        alt.Chart(theme.table(unusual))
        .mark_point(size=45, color=MARK, opacity=1)
        .encode(x=x, y=y, tooltip=tips)
    )
    return alt.layer(line, dots)


def _across(alt: Any, times: Sequence[int], rows: bool) -> Any:
    if rows:
        scale = alt.Scale(zero=False, nice=False)
        return alt.X("t:Q", title="step", scale=scale, axis=alt.Axis(tickMinStep=1, format=",~r"))
    labels = {int(tick.timestamp() * 1000): text for tick, text in time_ticks(times)}
    axis = alt.Axis(
        values=list(labels),
        labelExpr=f"({json.dumps(labels)})[time(datum.value)]",
        labelOverlap="greedy",  # where a window is narrow
    )
    return alt.X("t:T", title=None, scale=alt.Scale(type="utc", nice=False), axis=axis)


def time_ticks(times: Sequence[int]) -> list[tuple[datetime, list[str]]]:
    """Return at most MAX_TICKS round times (UTC) between the first and the last, with the lines of
    their labels: a date each, or times of day with the date below the first of each day.

    >>> [label for _, label in time_ticks([0, 90_000])]
    [['00:00', '1970-01-01'], ['06:00'], ['12:00'], ['18:00'], ['00:00', '1970-01-02']]
    """
    first, last = (datetime.fromtimestamp(int(end), UTC) for end in (min(times), max(times)))
    for seconds in ROUND_SECONDS:
        if (last - first).total_seconds() / seconds <= MAX_TICKS - 1:
            start = -(-int(min(times)) // seconds) * seconds
            ticks = [
                datetime.fromtimestamp(at, UTC) for at in range(start, int(max(times)) + 1, seconds)
            ]
            return _labelled(ticks, seconds)
    months = next(
        m
        for m in ROUND_MONTHS
        if (last.year - first.year) * 12 + last.month - first.month < m * MAX_TICKS
    )
    begin = first.year - first.year % max(months // 12, 1)
    ticks = [
        datetime(begin + month // 12, month % 12 + 1, 1, tzinfo=UTC)
        for month in range(0, 12 * (last.year - begin + 1), months)
        if begin + month // 12 > 0
    ]
    return [
        (tick, [f"{tick.year:04}" if months >= 12 else f"{tick.year:04}-{tick.month:02}"])
        for tick in ticks
        if first <= tick <= last
    ]


def _labelled(ticks: Sequence[datetime], seconds: int) -> list[tuple[datetime, list[str]]]:
    if seconds >= DAY:
        return [(tick, [tick.date().isoformat()]) for tick in ticks]
    form = "%H:%M" if seconds >= 60 else "%H:%M:%S"
    labels, day = [], None
    for tick in ticks:
        below = [tick.date().isoformat()] if tick.date() != day else []
        labels.append((tick, [tick.strftime(form), *below]))
        day = tick.date()
    return labels


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
