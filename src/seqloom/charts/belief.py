"""What a model believes about the hidden state, word by word, and how fast it forgets where it began.

The belief after each word is a column of a heat map. The forgetting curve is the total-variation
distance of two filters that begin with unlike beliefs and read the same words; on the logarithmic
axis an exponential fall is a straight line, and a chain that does not mix stays level.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from seqloom.charts import theme
from seqloom.charts.heat import Cell, Side, heat_map, room, text_width, written
from seqloom.charts.scales import decades, log_domain
from seqloom.charts.training import thinned

WORDS = 60  # columns; of a longer text each is the mean of some words
STATES = 20  # rows; of more, the likeliest have their own and the rest one together
# Pixels of a row, of a column, and of all columns.
ROW, MIN_COLUMN, MAX_COLUMN, SPACE = 24, 19, 64, 900
FLOOR = 1e-16  # distances below are the rounding of the arithmetic
POINTS = 4000  # of all curves


def belief_chart(
    beliefs: np.ndarray, words: Sequence[str], state_names: Sequence[str], title: str = "state"
) -> Any:
    """Draw the probabilities (T, S) of the states, or of what `title` says, at each word, words from left
    to right.
    """
    table = np.asarray(beliefs, dtype=np.float64)
    if table.shape != (len(words), len(state_names)) or not table.size:
        raise ValueError(
            f"{len(words)} words and {len(state_names)} states, but beliefs of shape {table.shape}"
        )
    columns, across = list(words), "words"
    if len(words) > WORDS:
        columns, table, size = windows(table)
        across = f"words, by number; each column is the mean of {size}"
    names, table = _likeliest(state_names, table)
    width = min(
        max(SPACE / len(columns), MIN_COLUMN), max(MAX_COLUMN, *map(text_width, columns)) + 6
    )
    cells = [
        Cell(s, t, float(p), written(float(p), room(width)), f"{p:.4g}")
        for t, row in enumerate(table)
        for s, p in enumerate(row)
    ]
    return heat_map(cells, Side(title, names, ROW), Side(across, columns, width))


def forgetting_chart(curves: Mapping[str, Sequence[float]]) -> Any:
    """Draw one line per chain: distances after 1, 2, ... words; zeros are not drawn."""
    import altair as alt

    lines = {
        name: [
            (float(t), float(d))
            for t, d in enumerate(distances, 1)
            if math.isfinite(d) and d > FLOOR
        ]
        for name, distances in curves.items()
    }
    if not any(lines.values()):
        raise ValueError("no distance above zero: there is no curve to draw")
    rows: list[dict[str, Any]] = [
        {"name": name, "at": t, "distance": d}
        for name, points in lines.items()
        for t, d in thinned(points, POINTS // len(lines))
    ]
    colours = theme.group_colours(list(curves))
    low, high = log_domain([row["distance"] for row in rows], 0.04)
    domain = [low, max(high, 1.0)]
    legend = alt.Legend(title=None, symbolType="stroke", symbolStrokeWidth=3)
    y = alt.Y(
        "distance:Q",
        title="distance of the beliefs (log scale)",
        scale=alt.Scale(type="log", domain=domain, nice=False),
        axis=alt.Axis(
            values=_ticks(domain),
            labelExpr="format(datum.value, datum.value < 0.001 ? '.0e' : '~g')",
        ),
    )
    return (
        alt.Chart(theme.table(rows))
        .mark_line(point=len(rows) == len(lines))
        .encode(
            x=alt.X(
                "at:Q",
                title="words read",
                scale=alt.Scale(zero=True, nice=False),
                axis=alt.Axis(format=",~r", tickCount=8, tickMinStep=1),
            ),
            y=y,
            color=alt.Color(
                "name:N",
                scale=alt.Scale(domain=list(colours), range=list(colours.values())),
                legend=legend,
            ),
            tooltip=[
                alt.Tooltip("name:N"),
                alt.Tooltip("at:Q", title="words read", format=",~r"),
                alt.Tooltip("distance:Q", format=".3~g"),
            ],
        )
    )


def windows(table: np.ndarray, most: int = WORDS) -> tuple[list[str], np.ndarray, int]:
    """Return the number of the first word of each window, the means of the windows, and their
    size.
    """
    size = -(-len(table) // most)
    starts = np.arange(0, len(table), size)
    lengths = np.diff(starts, append=len(table))
    names = [f"{start + 1:,}" for start in starts.tolist()]
    return names, np.add.reduceat(table, starts, axis=0) / lengths[:, None], size


def _likeliest(names: Sequence[str], table: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Keep rows for the states that are ever likely, in their order, and add one for all others."""
    if len(names) <= STATES:
        return list(names), table
    likeliest = np.sort(np.argsort(-table.sum(axis=0), kind="stable")[: STATES - 1])
    rest = np.clip(
        table.sum(axis=1, keepdims=True) - table[:, likeliest].sum(axis=1, keepdims=True), 0, None
    )
    return [
        *(names[i] for i in likeliest),
        f"{len(names) - len(likeliest)} others",
    ], np.concatenate([table[:, likeliest], rest], axis=1)


def _ticks(domain: Sequence[float]) -> list[float]:
    """Return powers of ten, at most ten of them."""
    ticks = decades(domain)
    return ticks[:: -(-len(ticks) // 10)]
