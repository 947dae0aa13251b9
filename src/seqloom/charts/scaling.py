"""The picture of a scaling law: runs by the text that they read, a line for each size of the network with
what the law says of it, and a larger run that it has not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from seqloom.charts import theme
from seqloom.charts.comparison import Measure
from seqloom.charts.scales import Axis, decades, log_domain


class Measured(NamedTuple):
    """A run."""

    name: str  # of its line
    text: float
    value: float


class Predicted(NamedTuple):
    """What the law says of a line at one length: the value, and where a run is in 95 of 100 cases."""

    name: str
    text: float
    value: float
    low: float
    high: float


def law_chart(
    runs: Sequence[Measured],
    lines: Sequence[Predicted],
    larger: Sequence[Measured],
    measure: Measure,
) -> Any:
    """Draw runs as points, the law as lines with bands, and larger runs, which the law has not seen, as
    hollow diamonds.
    """
    import altair as alt

    colours = theme.group_colours(list(dict.fromkeys(line.name for line in lines)))
    lengths = [line.text for line in lines] + [run.text for run in (*runs, *larger)]
    across = log_domain(lengths, 0.03)
    down = Axis.of(
        [value for line in lines for value in (line.low, line.high)]
        + [run.value for run in (*runs, *larger)],
        0.03,
        measure.log,
    )
    x = alt.X(
        "text:Q",
        title="text that was read (bytes, log scale)",
        scale=alt.Scale(type="log", domain=across, nice=False),
        axis=alt.Axis(values=decades(across), format="~s"),
    )
    axis = alt.Axis(values=down.ticks(), format=measure.ticks)
    y = alt.Y("value:Q", title=measure.axis, scale=down.scale(alt), axis=axis)
    colour = alt.Color(
        "name:N",
        title=None,
        scale=alt.Scale(domain=list(colours), range=list(colours.values())),
        legend=alt.Legend(symbolOpacity=1, symbolType="circle") if len(colours) > 1 else None,
    )
    tips = [
        alt.Tooltip("name:N", title="run"),
        alt.Tooltip("text:Q", title="bytes read", format=",.0f"),
        alt.Tooltip("value:Q", title=measure.title, format=measure.form),
    ]
    law = alt.Chart(theme.table([line._asdict() for line in lines])).encode(x=x, color=colour)
    bands = law.mark_area(opacity=0.15).encode(
        y=alt.Y("low:Q", scale=down.scale(alt), title=measure.axis, axis=axis), y2="high:Q"
    )
    points = alt.Chart(theme.table([run._asdict() for run in runs])).encode(
        x=x, y=y, color=colour, tooltip=tips
    )
    layers = [
        bands,
        law.mark_line(strokeWidth=1.5).encode(y=y),
        points.mark_point(size=50, opacity=1, filled=True),
    ]
    if larger:
        marks = alt.Chart(theme.table([run._asdict() for run in larger])).encode(
            x=x, y=y, color=colour, tooltip=tips
        )
        layers += [
            marks.mark_point(size=130, opacity=1, shape="diamond", **theme.HOLLOW),
            marks.mark_text(align="right", dx=-10, dy=-12).encode(text=alt.value("held-out run")),
        ]
    return alt.layer(*layers)
