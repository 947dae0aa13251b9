"""A series for the page: what came, what a forecaster expects, and which steps are not as expected."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from seqloom.errors import ConfigError, SeqloomError
from seqloom.serving.catalogue import Served
from seqloom.serving.fields import Fields, Refused

MOST_STEPS = 2000  # of each series that are drawn, the last ones
MOST_COLUMNS = 8
EXAMPLE_SEASONS = 4  # of a series that stands for one where none is given


def look_ahead(served: Served, asked: Fields) -> dict[str, Any]:
    """Return the steps of a series, the forecast after it or from the time `since` on, and its unusual steps;
    `text`: a table as `seqloom forecast` reads it, or empty for a wave of the season that the model learned.
    """
    task, model = served.task, served.model
    if "forecast" not in served.verbs:
        raise Refused(f"{served.name} is {task.phrase}, not a forecaster", field="model")
    text = asked.text("text", "") or ""
    given = bool(text.strip())
    text = text if given else example(model)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"series.{_form(text)}"
        path.write_text(text, encoding="utf-8")
        try:
            series = task.read((str(path),), task.reading(), model)  # type: ignore[call-arg]
        except SeqloomError as error:  # about a file that nobody has seen
            raise type(error)(str(error).replace(str(path), "the series")) from None
    series = model.read_like(series)
    since, horizon = asked.text("since"), asked.integer("horizon", None, 1, 10_000)
    found = model.forecast(series, horizon, since=since)
    answer: dict[str, Any] = {
        "example": None if given else text,
        "columns": list(series.columns),
        "horizon": model.horizon,
        "season": model.season,
        "step": str(model.step),
        "history": _history(series),
        "steps": len(series),
        "forecast": found.rows(),
    }
    try:
        unusual = model.anomalies(series, rate=_rate(asked))
    except ConfigError as error:  # such as a series that is too short to have any
        return answer | {"anomalies": None, "said": str(error)}
    return answer | {"anomalies": unusual.to_dict(), "said": ""}


def _rate(asked: Fields) -> float:
    rate = asked.raw("rate", 0.001)
    if isinstance(rate, bool) or not isinstance(rate, (int, float)):
        asked.refuse("rate", "a number")
    return float(rate)


def _form(text: str) -> str:
    first = text.lstrip().partition("\n")[0]
    return "jsonl" if first.startswith("{") else "tsv" if "\t" in first else "csv"


def _history(series: Any) -> list[dict[str, Any]]:
    """Return the last steps of each series with the columns that are drawn."""
    several = len(series.tracks) > 1 or bool(series.tracks[0].key)
    rows = []
    for track in series.tracks[:MOST_COLUMNS]:
        low = max(0, len(track) - MOST_STEPS)
        times = series.times(track, low, len(track)).tolist()
        for second, values in zip(times, track.values[low:].tolist()):
            shown = {name: _number(value) for name, value in zip(series.columns, values)}
            key = {"key": track.key} if several else {}
            rows.append(key | {"time": series.clock.show(second), "values": shown})
    return rows


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def example(model: Any) -> str:
    """Return a table with a wave of the season, the mean and the spread that the model learned, with one step
    that does not belong there.
    """
    season = max(model.season, 2)
    judged = model.horizon + season  # of these, which follow the steps that the model reads first
    steps = max(EXAMPLE_SEASONS * season, 3 * model.horizon, model.window + judged, 24)
    steps = min(steps, MOST_STEPS)
    mean, std = (np.ravel(np.asarray(model.scale[name], float)) for name in ("mean", "std"))
    at = np.arange(steps)
    noise = np.random.default_rng(0).normal(0.0, 0.1, (steps, len(mean)))
    wave = np.sin(2 * np.pi * at / season)[:, None] + noise
    wave[-max(season // 2, model.horizon) - 2] += 3.0
    values = mean + std * wave
    counted = model.step.unit == "row"
    lines = [",".join([*([] if counted else ["time"]), *model.columns])]
    for second, row in zip(_times(model, steps), values.tolist()):
        lines.append(",".join([*([] if counted else [second]), *(f"{value:.6g}" for value in row)]))
    return "\n".join(lines) + "\n"


def _times(model: Any, steps: int) -> list[str]:
    """Return times on the model's grid, from where its training data ended."""
    from seqloom.data.times import Clock

    clock = Clock()
    first = int(model.learnt["until"])
    grid = clock.grid(first, model.step, steps + 1)
    return [clock.show(int(second)) for second in grid[1:]]
