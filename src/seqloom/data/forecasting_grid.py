"""Rows with times put on a regular grid of steps; irregular times are corrected and reported."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from seqloom import progress
from seqloom.data.times import Clock, Step, infer_step
from seqloom.errors import ConfigError, DataError

EMPTIEST = 20  # steps per row, above which the times are too irregular for a series
DOUBLED = 0.1  # share of rows with equal times, above which they must belong to several series
MIN_STEPS = 2


@dataclass(frozen=True)
class Track:
    """One series on a regular grid. Steps before `begin` are history: input only, neither learnt nor
    forecast.
    """

    key: str
    first: int  # time of the first step, in seconds of UTC
    values: np.ndarray  # float64 (T, C); NaN is a missing value
    known: np.ndarray  # float64 (T + F, E): known in advance, also F steps after the last value
    begin: int = 0

    def __len__(self) -> int:
        return len(self.values)


@dataclass
class Notes:
    """Counts of irregular times, for one report."""

    name: str
    keyed: bool
    unsorted: int = 0
    doubled: int = 0
    beside: int = 0
    empty: int = 0
    rows: int = 0

    def say(self, step: Step, steps: int) -> None:
        if self.doubled > DOUBLED * self.rows and not self.keyed:
            raise DataError(
                f"{self.name}: {self.doubled:,} of {self.rows:,} rows have the time of another "
                f"row; if there are "
                "several series, say which column tells them apart with key_column=..."
            )
        parts = [
            f"{count:,} {one if count == 1 else several}"
            for count, one, several in (
                (
                    self.unsorted,
                    "row comes before an earlier one and was sorted by time",
                    "rows come before an earlier one and were sorted by time",
                ),
                (
                    self.doubled,
                    "row has the time of another row and was averaged with it",
                    "rows have the time of another row and were averaged",
                ),
                (
                    self.beside,
                    f"time lies beside the steps of {step} and was moved to the nearest",
                    f"times lie beside the steps of {step} and were moved to the nearest",
                ),
                (
                    self.empty,
                    f"of {steps:,} steps of {step} has no row and counts as missing",
                    f"of {steps:,} steps of {step} have no row and count as missing",
                ),
            )
            if count
        ]
        if parts:
            progress.say(f"{self.name}: {'; '.join(parts)}")


def on_grid(
    key: str,
    seconds: np.ndarray,
    rows: np.ndarray,
    known: np.ndarray,
    clock: Clock,
    step: Step,
    notes: Notes,
) -> Track:
    slots, beside = clock.slots(seconds, step)
    n = int(slots[-1]) + 1
    if n > EMPTIEST * len(slots) + EMPTIEST:
        raise DataError(
            f"{notes.name}: {len(slots):,} rows on {n:,} steps of {step}: the times are too "
            f"irregular; give a "
            "longer step (step=...)"
        )
    doubled = len(seconds) - len(np.unique(seconds))
    notes.rows, notes.doubled, notes.beside = (
        notes.rows + len(seconds),
        notes.doubled + doubled,
        notes.beside + beside,
    )
    notes.empty += n - len(np.unique(slots))
    grid, known_grid = _averaged(slots, rows, n), forward(_averaged(slots, known, n))
    end = n
    if known.shape[1]:
        filled_steps = np.flatnonzero(np.isfinite(grid).any(axis=1))
        end = int(filled_steps[-1]) + 1 if len(filled_steps) else n
    return Track(key, int(seconds[0]), grid[:end], known_grid)


def _averaged(slots: np.ndarray, rows: np.ndarray, n: int) -> np.ndarray:
    """Return the mean of the rows of each step; NaN if there are none."""
    out = np.full((n, rows.shape[1]), np.nan)
    for k in range(rows.shape[1]):
        present = np.isfinite(rows[:, k])
        counts = np.bincount(slots[present], minlength=n)
        sums = np.bincount(slots[present], rows[present, k], minlength=n)
        out[counts > 0, k] = sums[counts > 0] / counts[counts > 0]
    return out


def forward(values_: np.ndarray) -> np.ndarray:
    """Replace missing values by the last one before them, or at the beginning by the first."""
    if not len(values_) or not np.isnan(values_).any():
        return values_
    present = ~np.isnan(values_)
    last_present = np.maximum.accumulate(
        np.where(present, np.arange(len(values_))[:, None], -1), axis=0
    )
    last_present = np.where(last_present < 0, present.argmax(axis=0)[None], last_present)
    return np.nan_to_num(np.take_along_axis(values_, last_present, axis=0))


def common_step(clock: Clock, moments: list[np.ndarray], name: str) -> Step:
    longest = max(moments, key=len)
    if len(longest) < MIN_STEPS:
        raise DataError(
            f"{name}: a series needs at least {MIN_STEPS} different times; the longest has {len(longest)}"
        )
    return infer_step(clock, longest)


def check_unit(step: Step, clock: Clock, frequency: str | None, name: str) -> Step:
    """Return the step, with the frequency of steps that are only counted; refuse a step of another unit."""
    if (step.unit == "row") != clock.rows:
        how = "; say how far apart rows are with frequency=..." if clock.rows else ""
        raise ConfigError(
            f"{name}: a step of {step} does not suit times that are "
            f"{'numbers' if clock.rows else 'dates'}{how}"
        )
    if frequency is None:
        return step
    if not clock.rows:
        raise ConfigError(
            f"{name} has times, {step} apart; leave out the frequency, which is for series without times, or "
            "give another step=..."
        )
    return replace(step, each=Step.parse(frequency, "frequency"))
