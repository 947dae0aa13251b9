"""What a text is made of: how far the frequent words reach, what tokenizers do not know, how long
things are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from seqloom.charts import theme
from seqloom.charts.scales import decades

BAR = 22  # pixels of a row


class Covered(NamedTuple):
    """Which share of a text the most frequent `types` words are."""

    text: str
    types: int
    share: float


class Bar(NamedTuple):
    """One tokenizer: its name, the group that shares a colour, a value and how that is written."""

    name: str
    group: str
    value: float
    shown: str


def coverage(points: Sequence[Covered]) -> Any:
    """Draw one line per text, over the logarithm of the number of words."""
    import altair as alt

    colours = theme.group_colours([p.text for p in points])
    most = max(p.types for p in points)
    return (
        alt.Chart(theme.table([p._asdict() for p in points]))
        .mark_line(point=alt.OverlayMarkDef(size=25, opacity=1))
        .encode(
            x=alt.X(
                "types:Q",
                title="most frequent words (log scale)",
                scale=alt.Scale(type="log", domain=[1, max(most, 2)], nice=False),
                axis=alt.Axis(values=decades([1, max(most, 2)]), format="~s"),
            ),
            y=alt.Y(
                "share:Q",
                title="share of the running words",
                scale=alt.Scale(domain=[0, 1]),
                axis=alt.Axis(format="%", tickCount=6),
            ),
            color=alt.Color(
                "text:N",
                title=None,
                scale=alt.Scale(domain=list(colours), range=list(colours.values())),
                legend=alt.Legend(symbolOpacity=1),
            ),
            tooltip=[
                alt.Tooltip("text:N"),
                alt.Tooltip("types:Q", title="words", format=","),
                alt.Tooltip("share:Q", title="cover", format=".1%"),
            ],
        )
        .properties(height=240)
    )


def bars(rows: Sequence[Bar], title: str, *, form: str) -> Any:
    """Draw tokenizers below each other in the given order; `form` is the number format of the
    axis.
    """
    import altair as alt

    names = [row.name for row in rows]
    colours = theme.group_colours([row.group for row in rows])
    base = alt.Chart(theme.table([row._asdict() for row in rows])).encode(
        y=alt.Y(
            "name:N",
            sort=names,
            title=None,
            axis=alt.Axis(ticks=False, domain=False, labelPadding=6),
        ),
        x=alt.X(
            "value:Q",
            title=title,
            axis=alt.Axis(format=form, tickCount=6),
            scale=alt.Scale(
                domain=[0, 1.22 * max(max(row.value for row in rows), 1e-9)], nice=False
            ),
        ),
    )  # room for text
    drawn = base.mark_bar(height=13).encode(
        color=alt.Color(
            "group:N",
            legend=None,
            scale=alt.Scale(domain=list(colours), range=list(colours.values())),
        )
    )
    text = base.mark_text(align="left", dx=5).encode(text="shown:N")
    return alt.layer(drawn, text).properties(height=max(BAR * len(rows), 60))


def lengths(histogram: Sequence[tuple[int, int, int]], title: str) -> Any:
    """Draw bars of (from, to, how many), around their whole numbers; the last one may reach much
    further than it is drawn.
    """
    import altair as alt

    total = max(sum(count for _, _, count in histogram), 1)
    width = histogram[0][1] - histogram[0][0] + 1 if len(histogram) > 1 else histogram[0][1] + 1
    values = [
        {
            "from": low - 0.5,
            "to": low + width - 0.5,
            "zero": 0,
            "share": count / total,
            "n": count,
            "range": str(low) if low == high else f"{low:,} to {high:,}",
        }
        for low, high, count in histogram
    ]
    cut = histogram[-1][1] >= histogram[-1][0] + width
    return (
        alt.Chart(theme.table(values))
        .mark_bar(color=theme.HUES[0], stroke="white", strokeWidth=0.5)
        .encode(
            x=alt.X(
                "from:Q",
                title=f"{title}; the last bar holds all that are longer" if cut else title,
                scale=alt.Scale(
                    nice=False, domain=[histogram[0][0] - 0.5, histogram[-1][0] + width - 0.5]
                ),
                axis=alt.Axis(labelExpr="format(datum.value, '~s')", tickCount=8, grid=False),
            ),
            x2="to:Q",
            y2="zero:Q",
            y=alt.Y("share:Q", title="share", axis=alt.Axis(format="%", tickCount=4)),
            tooltip=[
                alt.Tooltip("range:N", title=title),
                alt.Tooltip("share:Q", format=".1%"),
                alt.Tooltip("n:Q", title="how many", format=","),
            ],
        )
        .properties(height=150)
    )
