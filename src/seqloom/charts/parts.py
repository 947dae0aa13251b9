"""Bars of several numbers side by side for each part of a whole, such as the layers of a network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from seqloom.charts import theme
from seqloom.charts.heat import name_axis

ROW, WIDTH, MOST = 20, 190, 60  # pixels of a part, of a panel; parts that are drawn
NAME = 46  # columns of a part's name
ROOM = 1.45  # of the longest bar, so that a number fits behind it


class PartBar(NamedTuple):
    """A part and one of its numbers, as it is written."""

    part: str
    panel: str
    value: float
    shown: str


def parts_chart(bars: Sequence[PartBar]) -> Any:
    """Draw the panels side by side, the parts below each other in their order."""
    import altair as alt

    names = list(dict.fromkeys(bar.part for bar in bars))[:MOST]
    panels = list(dict.fromkeys(bar.panel for bar in bars))
    if not names:
        raise ValueError("no parts: there is nothing to draw")
    drawn = []
    for at, panel in enumerate(panels):
        values = [
            bar._asdict() | {"place": names.index(bar.part)}
            for bar in bars
            if bar.panel == panel and bar.part in names
        ]
        most = max(max(value["value"] for value in values), 1.0)
        axis = name_axis(alt, names, NAME) if at == 0 else None
        base = alt.Chart(theme.table(values)).encode(
            y=alt.Y("place:O", title=None, axis=axis),
            tooltip=[
                alt.Tooltip("part:N"),
                alt.Tooltip("value:Q", title=panel, format=",.0f"),
            ],
        )
        x = alt.X(
            "value:Q",
            title=None,
            scale=alt.Scale(domain=[0, ROOM * most], nice=False),
            axis=None,
        )
        one = alt.layer(
            base.mark_bar(height=ROW - 7, color=theme.HUES[0]).encode(x=x),
            base.mark_text(align="left", dx=4, fontSize=theme.FONT_SIZE - 2).encode(
                x=x, text="shown:N"
            ),
        )
        drawn.append(
            one.properties(
                width=WIDTH,
                height=ROW * len(names),
                title=alt.TitleParams(
                    panel, fontSize=theme.FONT_SIZE, fontWeight="normal", anchor="start"
                ),
            )
        )
    return alt.hconcat(*drawn, spacing=14)
