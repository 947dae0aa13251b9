"""A beam search as a tree: steps from left to right, open hypotheses from top to bottom, best first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from seqloom.charts import theme
from seqloom.charts.heat import text_width

NARROWEST, WIDEST, ROW = 44, 120, 34  # pixels of a step, and of a hypothesis
MOST = 60  # steps that are drawn
START = "•"


def beam_chart(steps: Sequence[dict[str, Any]]) -> Any:
    """Steps as `inspect.trace` has them: each written token stands where its hypothesis stands in the next step, with a line
    from the one that it continues; those that end below all of them. The best translation is in colour."""
    import altair as alt

    nodes, edges, rows = _tree(steps[:MOST])
    width = min(max(max(text_width(node["token"]) for node in nodes) + 16, NARROWEST), WIDEST)
    last = max(node["step"] for node in nodes)
    x = alt.X(
        "step:Q",
        title="tokens written",
        scale=alt.Scale(domain=[-0.3, last + 0.5], nice=False),
        axis=alt.Axis(grid=False, tickMinStep=1, format="d"),
    )
    y = alt.Y(
        "row:Q", title=None, axis=None, scale=alt.Scale(domain=[rows + 0.5, -0.5], nice=False)
    )
    colour = alt.Color("colour:N", scale=None)
    lines = (
        alt.Chart(alt.InlineData(values=edges))
        .mark_rule(strokeWidth=1.4)
        .encode(x=x, y=y, x2="step2:Q", y2="row2:Q", color=colour)
    )
    base = alt.Chart(alt.InlineData(values=nodes)).encode(
        x=x,
        y=y,
        tooltip=[
            alt.Tooltip("text:N"),
            alt.Tooltip("token:N"),
            alt.Tooltip("probability:Q", format=".4f"),
            alt.Tooltip("becomes:N"),
        ],
    )
    halo = base.mark_text(
        fontSize=theme.FONT_SIZE, stroke="white", strokeWidth=6, strokeJoin="round"
    ).encode(text="token:N")
    words = base.mark_text(fontSize=theme.FONT_SIZE).encode(text="token:N", color=colour)
    return alt.layer(lines, halo, words).properties(
        width=(last + 1) * width, height=(rows + 1) * ROW
    )


def _tree(
    steps: Sequence[dict[str, Any]],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], int]:
    """Nodes, edges, and the last row; those that end are below the open hypotheses."""
    bottom = max(len(step["hypotheses"]) for step in steps)
    nodes: list[dict[str, Any]] = [
        {
            "step": 0,
            "row": 0,
            "token": START,
            "text": "",
            "probability": 1.0,
            "becomes": "open",
            "colour": theme.HUES[0],
        }
    ]
    edges: list[dict[str, Any]] = []
    for t, step in enumerate(steps):
        after = steps[t + 1]["hypotheses"] if t + 1 < len(steps) else []
        beside = 0
        for row, one in enumerate(step["hypotheses"]):
            for candidate in one["candidates"]:
                becomes, goes_on = candidate["becomes"], candidate["becomes"] == "open"
                if becomes in ("dropped", "given up") or (goes_on and not after):
                    continue
                place = {
                    "step": t + 1,
                    "row": candidate["number"] - 1 if goes_on else bottom + beside,
                }
                beside += not goes_on
                look = {"colour": theme.HUES[0] if candidate["best"] else theme.FAINT}
                nodes.append(
                    {
                        **place,
                        "token": candidate["token"],
                        "text": one["text"],
                        "becomes": becomes,
                        "probability": candidate["probability"],
                        **look,
                    }
                )
                edges.append(
                    {"step": t, "row": row, "step2": place["step"], "row2": place["row"], **look}
                )
    return nodes, edges, max(node["row"] for node in nodes)
