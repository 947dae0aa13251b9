"""Where the hidden states go: transition probabilities as a heat map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from seqloom.charts.confusion import LARGEST, LEAST, SPACE
from seqloom.charts.heat import Cell, Side, heat_map, room

MOST = 45  # states; of more, those where the chain is most often
STEPS = 500  # of the chain, after which its shares hardly change


def transition_chart(transitions: np.ndarray, names: Sequence[str]) -> Any:
    """Probabilities (S, S), from the state of the row to that of the column; what rounds to zero is not written."""
    table = np.asarray(transitions, dtype=np.float64)
    if table.shape != (len(names), len(names)) or not table.size:
        raise ValueError(f"{len(names)} states, but transitions of shape {table.shape}")
    rows = list(range(len(names)))
    columns = list(names)
    if len(names) > MOST:
        rows = sorted(np.argsort(-shares(table), kind="stable")[: MOST - 1].tolist())
        rest = 1 - table[np.ix_(rows, rows)].sum(axis=1, keepdims=True)
        table = np.concatenate([table[np.ix_(rows, rows)], rest], axis=1)
        columns = [*(names[i] for i in rows), f"{len(names) - len(rows)} others"]
    size = min(max(SPACE / len(columns), LEAST), LARGEST)
    cells = [
        Cell(i, j, float(p), written(float(p), room(size)), f"{p:.4g}")
        for i, row in enumerate(table)
        for j, p in enumerate(row)
    ]
    return heat_map(cells, Side("from", [names[i] for i in rows], size), Side("to", columns, size))


def shares(transitions: np.ndarray) -> np.ndarray:
    """How often the chain is in each state, from a start in all alike; staying half of the time settles cycles too.

    >>> shares(np.array([[0.9, 0.1], [0.3, 0.7]])).round(6).tolist()
    [0.75, 0.25]
    """
    often = np.full(len(transitions), 1 / len(transitions))
    for _ in range(STEPS):
        often = (often + often @ transitions) / 2
    return often  # (S,)


def written(probability: float, digits: int) -> str:
    """Two digits after the point, without a leading zero where there is no room for it; nothing for what is almost zero.

    >>> written(0.256, 4), written(0.256, 3), written(0.004, 4), written(1.0, 3)
    ('0.26', '.26', '', '1')
    """
    shown = f"{probability:.2f}"
    if shown == "0.00" or digits < 3:
        return ""
    return shown if digits >= 4 else "1" if shown == "1.00" else shown[1:]
