"""How far words lean along a direction, before and after something was done about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from seqloom.charts import theme

ROW = 15  # pixels of a word
MOST = 40  # words; of more, those that lean furthest to either side


def leaning(leans: Mapping[str, Sequence[float]], ends: tuple[str, str]) -> Any:
    """Words below each other by cosine, those nearest to ends[0] first; a second number a word is the cosine after."""
    import altair as alt

    if not leans:
        raise ValueError("no words: there is nothing to draw")
    words = sorted(leans, key=lambda word: -leans[word][0])
    if len(words) > MOST:
        words = words[: MOST // 2] + words[-(MOST - MOST // 2) :]
    both = len(leans[words[0]]) > 1
    rows = [
        {
            "word": word,
            "before": leans[word][0],
            "after": leans[word][-1],
            "zero": 0.0,
            "side": f"nearer to {ends[0] if leans[word][0] > 0 else ends[1]}",
        }
        for word in words
    ]
    far = 1.08 * max(abs(lean) for word in words for lean in leans[word]) or 1.0
    sides = [f"nearer to {end}" for end in ends]
    title = f"cosine with the direction from {ends[1]} to {ends[0]}" + (
        "; filled: before, hollow: after" if both else ""
    )
    x = alt.X(
        "before:Q",
        title=title,
        axis=alt.Axis(tickCount=7),
        scale=alt.Scale(domain=[-far, far], nice=False),
    )
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        y=alt.Y(
            "word:N",
            sort=words,
            title=None,
            axis=alt.Axis(ticks=False, domain=False, labelPadding=8, grid=False),
        ),
        color=alt.Color(
            "side:N",
            title=None,
            scale=alt.Scale(domain=sides, range=list(theme.HUES[:2])),
            legend=alt.Legend(symbolType="circle", symbolOpacity=1),
        ),
        tooltip=[
            alt.Tooltip("word:N"),
            alt.Tooltip("before:Q", format="+.3f", title="before" if both else "cosine"),
            *([alt.Tooltip("after:Q", format="+.3f")] if both else []),
        ],
    )
    zero = alt.Chart(alt.InlineData(values=[{"before": 0}])).mark_rule(color="#8a8a8a").encode(x=x)
    stems = base.mark_rule(strokeWidth=1.5, opacity=0.45).encode(
        x=x, x2="after:Q" if both else "zero:Q"
    )
    dots = base.mark_point(size=50, opacity=1).encode(x=x)
    after = base.mark_point(size=42, opacity=1, filled=False, fill="white", strokeWidth=1.5).encode(
        x=alt.X("after:Q", scale=alt.Scale(domain=[-far, far], nice=False))
    )
    return alt.layer(zero, stems, dots, *([after] if both else [])).properties(
        height=max(ROW * len(rows), 60)
    )
