"""Reliability diagrams: how often something came true against its predicted probability.

`reliability` draws forecasts of single tokens, both axes as odds, so that 1 % and 99 % can be read too.
`reliability_chart` draws the accuracy of a classifier against the probability of the predicted class, in
the bins of the calibration error, so the picture shows what that number sums up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from seqloom.charts import theme

TICKS = (0.0001, 0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999)
FINE_TICKS = tuple(percent / 100 for percent in range(5, 100, 5))  # of a short range
# hits and misses to expect in a bin that is drawn; chosen by the forecasts, not by what came
MIN_EXPECTED = 5.0


class Forecasts(NamedTuple):
    """Forecasts of like probability, and how often they came true, with an interval."""

    predicted: float
    observed: float
    low: float
    high: float
    n: int


def reliability(series: Mapping[str, Sequence[Forecasts]]) -> Any:
    """Draw one line per model; on the diagonal a model is right about how sure it is."""
    import altair as alt

    shown = [
        (name, b)
        for name, its in series.items()
        for b in its
        if b.n * min(b.predicted, 1 - b.predicted) >= MIN_EXPECTED
    ]
    inside = [logit(p) for _, b in shown for p in (b.predicted, b.observed) if 0 < p < 1] or [0.0]
    ends = [min(inside) - 0.6, max(inside) + 0.6]
    rows = [
        b._asdict()
        | {
            "name": name,
            "said": logit(b.predicted),
            "came": min(max(logit(b.observed), ends[0]), ends[1]),
            "from": logit(b.low),
            "to": logit(b.high),
        }
        for name, b in shown
    ]  # never and always: at the edge
    scale = alt.Scale(domain=ends, nice=False)
    some, all_ticks = (
        [logit(t) for t in its if ends[0] <= logit(t) <= ends[1]] for its in (TICKS, FINE_TICKS)
    )
    ticks = some if len(some) > 2 else all_ticks
    axis = alt.Axis(values=ticks, labelExpr="format(1 / (1 + exp(-datum.value)), '.2~%')")
    hues = theme.group_colours(list(series))
    # The legend names what can be seen; without a point, all of them.
    colours = {name: hues[name] for name in hues if name in {row["name"] for row in rows}} or hues
    base = alt.Chart(theme.table(rows)).encode(
        x=alt.X("said:Q", scale=scale, axis=axis, title="probability that the model gave"),
        y=alt.Y("came:Q", scale=scale, axis=axis, title="how often it came"),
        color=alt.Color(
            "name:N",
            title=None,
            scale=alt.Scale(domain=list(colours), range=list(colours.values())),
            legend=alt.Legend(symbolOpacity=1, symbolType="circle", symbolStrokeWidth=0),
        ),
    )
    tips = [
        alt.Tooltip("name:N", title="model"),
        alt.Tooltip("predicted:Q", title="said", format=".3~%"),
        alt.Tooltip("observed:Q", title="came", format=".3~%"),
        alt.Tooltip("n:Q", title="forecasts", format=","),
    ]
    diagonal = alt.Chart(theme.table([{"said": e, "came": e} for e in ends]))
    ideal = diagonal.mark_line(color="#8a8a8a", strokeDash=[5, 4], strokeWidth=1.5).encode(
        x=alt.X("said:Q", scale=scale), y=alt.Y("came:Q", scale=scale)
    )
    bars = base.mark_rule(strokeWidth=1.5, opacity=0.5, clip=True).encode(
        y=alt.Y("from:Q", scale=scale), y2="to:Q"
    )
    line = base.mark_line(strokeWidth=1.2, clip=True)
    return alt.layer(ideal, bars, line, base.mark_point(size=45, opacity=1).encode(tooltip=tips))


def logit(p: float) -> float:
    """Return the log-odds; 0 and 1 are moved to where they can be drawn.

    >>> logit(0.5)
    0.0
    """
    inside = min(max(p, 1e-6), 1 - 1e-6)
    return math.log(inside / (1 - inside))


# ---- confidence

SIZE, BAR_HEIGHT = 300, 70  # pixels of the diagram, and of the bars below it


def reliability_chart(bins: Sequence[Mapping[str, Any]]) -> Any:
    """Draw bins with `from`, `to`, `count`, `confidence` and `accuracy`; below the diagonal the
    model is overconfident.
    """
    import altair as alt

    if not bins:
        raise ValueError("no bins: there is nothing to draw")
    total = sum(b["count"] for b in bins)
    rows = [
        {
            "from": b["from"],
            "to": b["to"],
            "zero": 0,
            "n": b["count"],
            "share": b["count"] / total,
            "said": b["confidence"],
            "came": b["accuracy"],
            "few": b["count"] < theme.FEW,
        }
        for b in bins
    ]
    data = theme.table(rows)
    tips = [
        alt.Tooltip("said:Q", title="said", format=".1%"),
        alt.Tooltip("came:Q", title="right", format=".1%"),
        alt.Tooltip("n:Q", title="texts", format=","),
    ]

    def across(field: str, title: str | None) -> Any:
        return alt.X(
            f"{field}:Q",
            title=title,
            scale=alt.Scale(domain=[0, 1]),
            axis=alt.Axis(format="%", tickCount=6, labels=title is not None),
        )

    y = alt.Y(
        "came:Q",
        title="how often it was right",
        scale=alt.Scale(domain=[0, 1]),
        axis=alt.Axis(format="%", tickCount=6),
    )
    ends = theme.table([{"said": 0, "came": 0}, {"said": 1, "came": 1}])
    ideal = (
        alt.Chart(ends)
        .mark_line(color="#8a8a8a", strokeDash=[5, 4], strokeWidth=1.5)
        .encode(x=across("said", None), y=y)
    )
    bars = (
        alt.Chart(data)
        .mark_bar(color=theme.HUES[0], fillOpacity=0.25)
        .encode(
            x=across("from", None),
            x2="to:Q",
            y=y,
            y2="zero:Q",
            fillOpacity=alt.condition("datum.few", alt.value(0.0), alt.value(0.25)),
            strokeDash=alt.value([3, 3]),
            strokeOpacity=alt.condition("datum.few", alt.value(0.7), alt.value(0.0)),
            stroke=alt.value(theme.HUES[0]),
            tooltip=tips,
        )
    )
    gaps = (
        alt.Chart(data)
        .mark_rule(color=theme.HUES[1], strokeWidth=2)
        .encode(x=across("said", None), y=y, y2="said:Q")
    )
    points = [
        alt.Chart(theme.table([row for row in rows if row["few"] == few]))
        .mark_point(color=theme.HUES[0], opacity=1, size=55, **look)
        .encode(x=across("said", None), y=y, tooltip=tips)
        for few, look in ((False, {}), (True, theme.HOLLOW))
    ]
    title = "probability of the predicted class"
    if any(row["few"] for row in rows):
        title = theme.with_few(title, "texts")
    counted = (
        alt.Chart(data)
        .mark_bar(color=theme.HUES[0], stroke="white", strokeWidth=0.5)
        .encode(
            x=across("from", title),
            x2="to:Q",
            y2="zero:Q",
            tooltip=tips,
            y=alt.Y(
                "share:Q",
                title="texts",
                scale=alt.Scale(zero=True),
                axis=alt.Axis(format="%", tickCount=3),
            ),
        )
    )
    return alt.vconcat(
        alt.layer(ideal, bars, gaps, *points).properties(width=SIZE, height=SIZE),
        counted.properties(width=SIZE, height=BAR_HEIGHT),
        spacing=8,
    )
