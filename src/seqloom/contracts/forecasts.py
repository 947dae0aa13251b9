"""What a forecaster answers: values to come with their intervals, and steps that came as nobody would have expected."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from seqloom.data.times import Clock
from seqloom.frames import as_frame, html_table
from seqloom.metrics.tables import aligned

SHOWN = 40  # rows that are printed of a value
Band = tuple[np.ndarray, np.ndarray]  # lower and upper ends, (H, C)


class Backtest(NamedTuple):
    """Forecasts from many origins, scaled, beside what came."""

    truth: np.ndarray  # (n, H, C); NaN is missing
    point: np.ndarray  # (n, H, C)
    bands: np.ndarray  # (L, n, H, C), at metrics.forecasting.LEVELS
    origins: np.ndarray  # (n,): their places, those of different series far apart


class Answers(NamedTuple):
    """Forecasts from some origins, scaled."""

    point: np.ndarray  # (n, H, C)
    spread: np.ndarray  # (n, H, C): how large errors are expected to be, by the model
    recent: Callable[
        [np.ndarray], np.ndarray
    ]  # (n, C): how large they were lately, given what is typical


class Ahead(NamedTuple):
    """The forecast of one series."""

    key: str
    times: np.ndarray  # int64 (H,), seconds of UTC
    values: np.ndarray  # float64 (H, C)
    bands: dict[int, Band]  # per cent: the interval


@dataclass(frozen=True)
class Forecast:
    """What is expected of each series, and between which values it lies with a probability of 80 and 95 %."""

    tracks: tuple[Ahead, ...]
    columns: tuple[str, ...]
    clock: Clock
    known_columns: tuple[str, ...] = ()

    @property
    def values(self) -> np.ndarray:
        """Of the first series, (H,) or (H, C)."""
        first = self.tracks[0].values
        return first[:, 0] if len(self.columns) == 1 else first

    def band(self, per_cent: int = 80) -> Band:
        """The ends of an interval of the first series."""
        low, high = self.tracks[0].bands[per_cent]
        return (low[:, 0], high[:, 0]) if len(self.columns) == 1 else (low, high)

    def rows(self) -> list[dict[str, Any]]:
        """One for each time and column, as tables and JSON have it."""
        return list(self._rows())

    def _rows(self) -> Iterator[dict[str, Any]]:
        several = len(self.tracks) > 1 or bool(self.tracks[0].key)
        for track in self.tracks:
            for h, second in enumerate(track.times.tolist()):
                for c, column in enumerate(self.columns):
                    ends = {
                        f"{end}_{share}": float(band[k][h, c])
                        for share, band in track.bands.items()
                        for k, end in enumerate(("low", "high"))
                    }
                    yield {
                        **({"key": track.key} if several else {}),
                        "time": self.clock.show(second),
                        "column": column,
                        "forecast": float(track.values[h, c]),
                        **ends,
                    }

    def frame(self) -> Any:
        """As a frame of pandas or polars, where one is installed."""
        return as_frame(self.rows())

    def to_dict(self) -> dict[str, Any]:
        return {"forecast": self.rows()}

    def __str__(self) -> str:
        return table_of(self.rows())

    def _repr_html_(self) -> str:
        rows = self.rows()
        return html_table(list(rows[0]), [list(map(cell, row.values())) for row in rows[:SHOWN]])


class Unusual(NamedTuple):
    """One step that is not as expected."""

    key: str
    time: int
    column: str  # the one that is furthest off
    value: float
    expected: float
    score: float


@dataclass(frozen=True)
class Anomalies:
    """Steps whose score is above the threshold, in units of the usual error; `scores` of every step, by series."""

    found: tuple[Unusual, ...]
    threshold: float
    scores: dict[str, tuple[np.ndarray, np.ndarray]]  # times and scores, (T,)
    clock: Clock
    values: dict[str, np.ndarray]  # (T, C), NaN where missing
    columns: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.found)

    def rows(self) -> list[dict[str, Any]]:
        several = len(self.scores) > 1 or "" not in self.scores
        return [
            {
                **({"key": one.key} if several else {}),
                "time": self.clock.show(one.time),
                "column": one.column,
                "value": one.value,
                "expected": one.expected,
                "score": one.score,
            }
            for one in self.found
        ]

    def frame(self) -> Any:
        return as_frame(self.rows())

    def to_dict(self) -> dict[str, Any]:
        return {
            "threshold": self.threshold,
            "steps": sum(len(scores) for _, scores in self.scores.values()),
            "anomalies": self.rows(),
        }

    def __str__(self) -> str:
        steps = sum(len(scores) for _, scores in self.scores.values())
        line = f"{len(self.found):,} of {steps:,} steps are above the threshold of {self.threshold:.2f}"
        return f"{table_of(self.rows())}\n{line}" if self.found else line


def table_of(rows: list[dict[str, Any]]) -> str:
    """Aligned columns; of many rows all, since they are a result."""
    return (
        "\n".join(aligned([list(rows[0]), *(list(map(cell, row.values())) for row in rows)]))
        if rows
        else ""
    )


def cell(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
