"""Which classes are taken for which: a confusion matrix as a heat map, blue where the model is right and orange where not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from seqloom.charts import theme
from seqloom.charts.heat import Cell, Side, heat_map, room

MOST = 45  # classes; of more, the commonest are drawn and the rest stand together
LEAST, LARGEST, SPACE = 26, 76, 660  # pixels of a cell, and of all where cells need not be smaller
RIGHT, WRONG, EITHER = theme.HUES[0], theme.HUES[1], "#8a8a8a"


def confusion_chart(classes: Sequence[str], counts: Sequence[Sequence[int]] | np.ndarray) -> Any:
    """Counts (C, C), rows gold and columns predicted; the shade is the share of the row, its root, so that rare errors show."""
    table = np.asarray(counts, dtype=np.int64)
    if table.shape != (len(classes), len(classes)) or not table.size:
        raise ValueError(f"{len(classes)} classes, but counts of shape {table.shape}")
    names, table = gathered(classes, table)
    size = min(max(SPACE / len(names), LEAST), LARGEST)
    shares = table / np.maximum(table.sum(axis=1, keepdims=True), 1)  # (C, C)
    cells = [
        Cell(
            i,
            j,
            math.sqrt(shares[i, j]),
            short_number(int(table[i, j]), room(size)) if table[i, j] else "",
            f"{table[i, j]:,} ({shares[i, j]:.1%} of the row)",
            _hue(i, j, len(classes)),
        )
        for i in range(len(names))
        for j in range(len(names))
    ]
    return heat_map(
        cells, Side("gold", names, size), Side("predicted", names, size, "darker: more of the row")
    )


def _hue(row: int, column: int, classes: int) -> str:
    """Right, wrong, or either, where the rarest classes stand together."""
    if row != column:
        return WRONG
    return EITHER if classes > MOST and row == MOST - 1 else RIGHT


def gathered(
    classes: Sequence[str], counts: np.ndarray, most: int = MOST
) -> tuple[list[str], np.ndarray]:
    """The table as it is, or with the rarest classes in one row and column at its end.

    >>> names, table = gathered(["a", "b", "c"], np.array([[5, 0, 1], [0, 1, 1], [2, 0, 3]]), most=2)
    >>> names, table.tolist()
    (['a', '2 others'], [[5, 1], [2, 5]])
    """
    if len(classes) <= most:
        return list(classes), counts
    often = counts.sum(axis=1) + counts.sum(axis=0)
    kept = np.sort(np.argsort(-often, kind="stable")[: most - 1])
    group = np.full(len(classes), most - 1)
    group[kept] = np.arange(most - 1)
    table = np.zeros((most, most), dtype=np.int64)
    np.add.at(table, (group[:, None], group[None, :]), counts)
    return [*(classes[i] for i in kept), f"{len(classes) - most + 1} others"], table


def short_number(number: int, digits: int) -> str:
    """A count in at most so many characters, where that can be; the page tells the whole.

    >>> [short_number(n, 4) for n in (7, 1234, 12345, 999_999, 2_500_000)]
    ['7', '1234', '12k', '1M', '2.5M']
    """
    if len(f"{number:,}") <= digits:
        return f"{number:,}"
    if len(str(number)) <= digits:
        return str(number)
    unit, sign = next(
        (u, s)
        for u, s in ((1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T"))
        if round(number / u) < 1000
    )
    tenths = f"{number / unit:.1f}".removesuffix(".0")
    return (tenths if len(tenths) < digits else f"{number / unit:.0f}") + sign
