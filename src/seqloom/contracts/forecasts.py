"""What a forecaster returns: future values with their intervals, and unusual steps; and what it keeps
of its data: how values are scaled, and how large errors usually are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from seqloom.arrays import Spec
from seqloom.data.forecasting import Series
from seqloom.data.times import Clock
from seqloom.errors import ConfigError, DataError
from seqloom.frames import as_frame, html_table
from seqloom.metrics import forecasting
from seqloom.metrics.tables import aligned

if TYPE_CHECKING:
    pass


MAX_ROWS_SHOWN = 40  # rows that are printed of a value
Band = tuple[np.ndarray, np.ndarray]  # lower and upper ends, (H, C)


class Backtest(NamedTuple):
    """Forecasts from many origins, scaled, beside what came."""

    truth: np.ndarray  # (n, H, C); NaN is missing
    point: np.ndarray  # (n, H, C)
    bands: np.ndarray  # (L, n, H, C), at metrics.forecasting.LEVELS
    origins: np.ndarray  # (n,): step numbers; those of different series are far apart


class Answers(NamedTuple):
    """Forecasts from some origins, scaled."""

    point: np.ndarray  # (n, H, C)
    spread: np.ndarray  # (n, H, C): how large errors are expected to be, by the model
    # From the typical errors (C,) to how large they were lately, (n, C).
    recent: Callable[[np.ndarray], np.ndarray]


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
        """Return the values of the first series, (H,) or (H, C)."""
        first = self.tracks[0].values
        return first[:, 0] if len(self.columns) == 1 else first

    def band(self, per_cent: int = 80) -> Band:
        """Return the ends of an interval of the first series."""
        low, high = self.tracks[0].bands[per_cent]
        return (low[:, 0], high[:, 0]) if len(self.columns) == 1 else (low, high)

    def rows(self) -> list[dict[str, Any]]:
        """Return one row for each time and column, as in tables and JSON."""
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

    def to_frame(self) -> Any:
        """Return a frame of pandas or polars, where one is installed."""
        return as_frame(self.rows())

    frame = to_frame  # its former name

    def to_dict(self) -> dict[str, Any]:
        return {"forecast": self.rows()}

    def __str__(self) -> str:
        return table_of(self.rows())

    def __repr__(self) -> str:
        return _first_lines(str(self))

    def _repr_html_(self) -> str:
        rows = self.rows()
        return html_table(
            list(rows[0]), [list(map(cell, row.values())) for row in rows[:MAX_ROWS_SHOWN]]
        )


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
    """Steps whose score is above the threshold, in units of the usual error; `scores` of every
    step, by series.
    """

    found: tuple[Unusual, ...]  # in the order of time; with `top`, by score
    threshold: float
    scores: dict[str, tuple[np.ndarray, np.ndarray]]  # times and scores, (T,)
    clock: Clock
    values: dict[str, np.ndarray]  # (T, C), NaN where missing
    columns: tuple[str, ...]
    marked: int  # steps above the threshold, found or left out by `top`

    def __len__(self) -> int:
        return len(self.found)

    @property
    def steps(self) -> int:
        """Return the number of steps that were looked at."""
        return sum(len(scores) for _, scores in self.scores.values())

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

    def to_frame(self) -> Any:
        """Return a frame of pandas or polars, where one is installed."""
        return as_frame(self.rows())

    frame = to_frame  # its former name

    def to_dict(self) -> dict[str, Any]:
        return {
            "threshold": self.threshold,
            "steps": self.steps,
            "marked": self.marked,
            "anomalies": self.rows(),
        }

    def __str__(self) -> str:
        line = f"{self.marked:,} of {self.steps:,} steps are above the threshold of {self.threshold:.2f}"
        if len(self.found) < self.marked:
            line += (
                f"; these are the {len(self.found):,} with the highest scores"
                if len(self.found) > 1
                else "; this is the one with the highest score"
            )
        return f"{table_of(self.rows())}\n{line}" if self.found else line

    def __repr__(self) -> str:
        return _first_lines(str(self))


def table_of(rows: list[dict[str, Any]]) -> str:
    """Return aligned columns with all rows, however many, since they are a result."""
    return (
        "\n".join(aligned([list(rows[0]), *(list(map(cell, row.values())) for row in rows)]))
        if rows
        else ""
    )


def _first_lines(table: str) -> str:
    """Return what a notebook shows of a table: its first rows, and its last line where some are left out."""
    lines = table.split("\n")
    if len(lines) <= MAX_ROWS_SHOWN + 2:
        return table
    return "\n".join(
        [*lines[: MAX_ROWS_SHOWN + 1], f"... {len(lines):,} lines; print shows all", lines[-1]]
    )


def cell(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


# ---- series scale

RATES = 10 ** -np.linspace(0, 4, 81)  # of false alarms; a threshold is kept for each
TYPICAL_ERROR_STEPS = 10  # steps for which the typical error counts beside the recent ones
MIN_DEVIATION = 1e-9  # of a standard deviation; a column that never changes is divided by 1
MAX_VALUE = 1e300
SCALED_BY = (
    "mean",
    "std",
    "known_mean",
    "known_std",
    "course",
)  # what the inputs of a model are scaled by


def seasons_of(seasons: tuple[int, ...], season: int | None, series: Series) -> list[int]:
    """Return the seasons as given, ascending; where none are, that of `season_of`."""
    if seasons and season is not None:
        raise ConfigError("give season or seasons, not both; the shortest of seasons is the season")
    ordered = sorted(set(seasons)) or [season_of(season, series)]
    season_of(ordered[-1], series)
    return ordered


def season_of(period: int | None, series: Series) -> int:
    """Return the steps of the cycle that the data repeats: as given, or as usual for its step, if
    there are three of them; 1: none.
    """
    longest = max(map(len, series.tracks))
    if period is not None and 2 * period > longest:
        raise ConfigError(
            f"season {period} needs {2 * period} steps of data; {series.name} has {longest}"
        )
    usual = series.step.season
    return period or (usual if 3 * usual <= longest else 1)


def judged_season(series: Series, otherwise: int) -> int:
    """Return the season whose repetition MASE compares with: that of the data, so that models of other
    seasons are judged alike; `otherwise` where the data says nothing of one.
    """
    season = season_of(None, series)
    return season if season > 1 else otherwise


def scaling(series: Series, season: int) -> dict[str, np.ndarray]:
    """Compute the mean and standard deviation of each column, and the mean error of repeating the
    last season, in original units.
    """
    values_seen = np.concatenate([track.values[track.begin :] for track in series.tracks])
    finite = np.isfinite(values_seen)
    if empty := [name for name, any_ in zip(series.columns, finite.any(axis=0)) if not any_]:
        raise DataError(f"{series.name} has no values in column {empty[0]!r}; leave it out")
    mean, std = np.nanmean(values_seen, axis=0), np.nanstd(values_seen, axis=0)
    steps = [
        np.abs(track.values[season:] - track.values[:-season])
        for track in series.tracks
        if len(track) > season
    ]
    seasonal = positive_means(np.concatenate(steps)[None]) if steps else std
    known = np.concatenate([track.known[: len(track)] for track in series.tracks])
    return {
        "mean": mean,
        "std": divisors(std),
        "naive": divisors(seasonal),
        "known_mean": known.mean(axis=0),
        "known_std": divisors(known.std(axis=0)),
    }


def positive_means(values: np.ndarray) -> np.ndarray:
    """Return the mean of each column of (n, H, C), without NaN; 1 where nothing is left."""
    finite = np.isfinite(values)
    return divisors(
        np.where(finite, values, 0.0).sum(axis=(0, 1)) / np.maximum(finite.sum(axis=(0, 1)), 1)
    )


def divisors(values: np.ndarray) -> np.ndarray:
    """Return the values, with 1 in place of those that nothing should be divided by."""
    return np.where(np.isfinite(values) & (values > MIN_DEVIATION), values, 1.0)


def specs(columns: int, known: int, horizon: int, course: int) -> dict[str, Spec]:
    """Return what these arrays must be in a file."""

    def of(*shape: int, low: float = -MAX_VALUE) -> Spec:
        return Spec("float64", shape, low, MAX_VALUE)

    return {
        "mean": of(columns),
        "std": of(columns, low=MIN_DEVIATION),
        "naive": of(columns, low=MIN_DEVIATION),
        "known_mean": of(known),
        "known_std": of(known, low=MIN_DEVIATION),
        "typical": of(columns, low=MIN_DEVIATION),
        "residuals": of(len(forecasting.LEVELS), horizon, columns),
        **({"course": of(course, columns)} if course else {}),
        **score_specs(columns),
    }


def score_specs(columns: int) -> dict[str, Spec]:
    """Return the specs of the arrays of scores; models of earlier versions have `usual`, `level`
    and `alarms` instead, which are no longer used.
    """
    by_column = Spec("float64", (columns,), MIN_DEVIATION, MAX_VALUE, optional=True)
    by_rate = Spec("float64", (len(RATES),), 0.0, MAX_VALUE, optional=True)
    return {
        "step_error": by_column,
        "thresholds": by_rate,
        "usual": by_column,
        "level": by_column,
        "alarms": by_rate,
    }
