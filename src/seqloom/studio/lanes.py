"""Gates and states of a recurrent network along a text, as `seqloom inspect gates` and `units` have them, in
one answer that is small enough for a page: of many units, those that remember longest.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from seqloom.errors import ConfigError
from seqloom.views import needs
from seqloom.views.configs import LayerOptions
from seqloom.views.reading import remarks
from seqloom.views.recurrence import (
    check_unit,
    choose,
    joiner_of,
    range_rows,
    readings_of,
    title_of,
    unit_rows,
)

MOST_NUMBERS = 250_000  # of all lanes of an answer
DIGITS = 4  # after the point, of what is drawn


def lanes(model: Any, text: str, layer: int | None, unit: int | None = None) -> dict[str, Any]:
    """Return what one layer computes: its steps, a row for each unit, the ranges of its gates, and their
    values, (units, steps), of the units that remember longest and of `unit`.
    """
    if not needs.recurrence(model):
        raise ConfigError(f"{model.label()} has no recurrent layers")
    readings = readings_of(model, text)
    reading = choose(readings, LayerOptions(layer=layer))
    rows, n = unit_rows(reading), len(reading.steps)
    most = max(1, MOST_NUMBERS // (n * (len(reading.arrays) + 1)))
    chosen = [row["unit"] for row in rows][:most]
    if unit is not None and check_unit(unit, reading.state.shape[1]) not in chosen:
        chosen.append(unit)
    arrays = {**reading.arrays, "state": reading.state}
    return {
        "layers": [each.layer.name for each in readings],
        "layer": reading.layer.name,
        "kind": reading.layer.kind,
        "gated": reading.layer.kept(reading.arrays) is not None,
        "followed": "tanh of the cell" if "c" in reading.arrays else "the state",
        "steps": reading.steps,
        "joiner": joiner_of(model) if "text" in model.tokenizers else " ",
        "rows": rows,
        "ranges": range_rows(reading),
        "lanes": {
            name: {"title": title_of(name, reading.layer), "values": _rounded(array, chosen)}
            for name, array in arrays.items()
        },
        "units": chosen,
        "said": remarks(model),
    }


def _rounded(array: np.ndarray, units: list[int]) -> list[list[float]]:
    """Return the values of units, (units, steps); zeros of those that a narrower array does not have."""
    there = [unit if unit < array.shape[1] else 0 for unit in units]
    values = array[:, there].T.astype(np.float64).round(DIGITS)
    values[[unit >= array.shape[1] for unit in units]] = 0.0
    return (values + 0.0).tolist()
