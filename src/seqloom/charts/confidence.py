"""Whether a classifier is as often right as it says: accuracy against the probability of the predicted class.

The bins are those of the calibration error, so the picture shows what that number sums up; `calibration` draws forecasts
of single tokens, whose probabilities need another axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from seqloom.charts import theme

SIZE, SMALL = 300, 70  # pixels of the diagram, and of the bars below it


def reliability_chart(bins: Sequence[Mapping[str, Any]]) -> Any:
    """Bins with `from`, `to`, `count`, `confidence`, `accuracy`; below the diagonal the model is too sure of itself."""
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
        }
        for b in bins
    ]
    data = alt.InlineData(values=rows)
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
    ends = alt.InlineData(values=[{"said": 0, "came": 0}, {"said": 1, "came": 1}])
    ideal = (
        alt.Chart(ends)
        .mark_line(color="#8a8a8a", strokeDash=[5, 4], strokeWidth=1.5)
        .encode(x=across("said", None), y=y)
    )
    bars = (
        alt.Chart(data)
        .mark_bar(color=theme.HUES[0], opacity=0.25)
        .encode(x=across("from", None), x2="to:Q", y=y, y2="zero:Q", tooltip=tips)
    )
    gaps = (
        alt.Chart(data)
        .mark_rule(color=theme.HUES[1], strokeWidth=2)
        .encode(x=across("said", None), y=y, y2="said:Q")
    )
    points = (
        alt.Chart(data)
        .mark_point(color=theme.HUES[0], opacity=1, size=55)
        .encode(x=across("said", None), y=y, tooltip=tips)
    )
    counted = (
        alt.Chart(data)
        .mark_bar(color=theme.HUES[0], stroke="white", strokeWidth=0.5)
        .encode(
            x=across("from", "probability of the predicted class"),
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
        alt.layer(ideal, bars, gaps, points).properties(width=SIZE, height=SIZE),
        counted.properties(width=SIZE, height=SMALL),
        spacing=8,
    )
