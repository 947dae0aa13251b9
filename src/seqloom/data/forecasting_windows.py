"""The inputs of forecasts: for each origin the steps before it, and values known in advance after it.

A window ends right before its origin, so nothing later can leak into it; missing values are filled
from the past alone. Forecasts and backtests get their inputs only from here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from seqloom import progress
from seqloom.data.forecasting import Series, Track, second_of
from seqloom.errors import DataError

CELLS = 1 << 22  # numbers in the windows of one batch


@dataclass(frozen=True)
class Windows:
    """Some windows, in the units of the model: mean 0 and standard deviation 1 in the training data."""

    # float64 (n, W, C): the last steps before each origin; missing values repeat the last one before
    past: np.ndarray
    present: np.ndarray  # bool (n, W, C): where it is not missing
    # float64 (n, W + H, K): of past and future, the calendar and then the columns known in advance
    known: np.ndarray

    def __len__(self) -> int:
        return len(self.past)


@dataclass(frozen=True)
class Prepared:
    """One series, scaled and padded, ready to be cut into windows."""

    track: Track
    values: np.ndarray  # float64 (T, C), scaled; NaN is missing
    window: int
    horizon: int
    course: (
        np.ndarray
    )  # (T + horizon, C): the mean course of longer seasons, which `values` are without
    _filled: np.ndarray  # (window + T, C)
    _known: np.ndarray  # (window + T + horizon, K)

    @classmethod
    def of(
        cls,
        series: Series,
        track: Track,
        scale: dict[str, np.ndarray],
        window: int,
        horizon: int,
        *,
        seasons: tuple[int, ...] = (),
        future: bool = False,
    ) -> Prepared:
        """Prepare a track. `future`: steps after its end will be forecast and need the values known in
        advance. `seasons`: the longer ones, whose mean course is `course` of the scale.
        """
        n = len(track)
        course = np.zeros((n + horizon, track.values.shape[1]))
        for rows in season_rows(series, track, n + horizon, seasons):
            course += scale["course"][rows]
        values = (track.values - scale["mean"]) / scale["std"] - course[:n]
        if future and series.known_columns and len(track.known) < n + horizon:
            raise DataError(
                f"{series.name}: {', '.join(series.known_columns)} must be known {horizon} steps "
                f"after the last "
                f"value, and {'is' if len(series.known_columns) == 1 else 'are'} for "
                f"{len(track.known) - n}; add "
                "rows without values, or give a smaller horizon"
            )
        known = (track.known[: n + horizon] - scale["known_mean"]) / scale["known_std"]
        known = np.pad(known, ((0, n + horizon - len(known)), (0, 0)))
        calendar = series.clock.calendar(series.times(track, 0, n + horizon))
        return cls(
            track,
            values,
            window,
            horizon,
            course,
            _fill(np.pad(values, ((window, 0), (0, 0)), constant_values=np.nan)),
            np.pad(np.concatenate([calendar, known], axis=1), ((window, 0), (0, 0)), mode="edge"),
        )

    def origins(self, ahead: int) -> np.ndarray:
        """Return the origins with at least `ahead` steps after them."""
        return np.arange(self.track.begin, len(self.values) - ahead + 1)

    def windows(self, origins: np.ndarray) -> Iterator[tuple[np.ndarray, Windows]]:
        """Yield the windows before origins, some at a time, each with their origins."""
        rows, mask, known = self.views()
        # (T + 1, C, W): window o ends before step o
        past = sliding_window_view(rows, self.window, axis=0)
        present = sliding_window_view(mask, self.window, axis=0)
        known = sliding_window_view(known, self.window + self.horizon, axis=0)
        width = (self.window + self.horizon) * (self.values.shape[1] + known.shape[1])
        size = max(CELLS // max(width, 1), 1)
        for start in range(0, len(origins), size):
            some = origins[start : start + size]
            yield (
                some,
                Windows(
                    past[some].swapaxes(1, 2),
                    present[some].swapaxes(1, 2),
                    known[some].swapaxes(1, 2),
                ),
            )

    def views(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the arrays that windows are cut from: filled values (window + T, C), whether they are
        present, and values known in advance. For origin o, take `window` rows from o on of the first two,
        and `window` + `horizon` rows from o on of the last.
        """
        present = ~np.isnan(np.pad(self.values, ((self.window, 0), (0, 0)), constant_values=np.nan))
        return self._filled, present, self._known

    def truth(self, origins: np.ndarray, ahead: int) -> np.ndarray:
        """Return the scaled values after origins, (n, ahead, C); NaN if missing or after the end."""
        padded = np.pad(self.values, ((0, ahead), (0, 0)), constant_values=np.nan)
        return sliding_window_view(padded, ahead, axis=0)[origins].swapaxes(1, 2)


def season_rows(
    series: Series, track: Track, n: int, seasons: tuple[int, ...]
) -> Iterator[np.ndarray]:
    """Yield for each season the rows of its mean course that the first n steps take; courses of
    several seasons stand below each other.
    """
    steps, above = series.clock.number(track.first, series.step) + np.arange(n), 0
    for season in seasons:
        yield above + steps % season
        above += season


def mean_courses(
    series: Series, scale: dict[str, np.ndarray], seasons: tuple[int, ...]
) -> np.ndarray:
    """Compute the mean course of each season, scaled, (sum of the seasons, C): what values are above
    their level, the moving mean of the longest season, at each place of the season.
    """
    course = np.zeros((sum(seasons), len(series.columns)))
    parts = []
    for track in series.tracks:
        values = (track.values - scale["mean"]) / scale["std"]
        rows = list(season_rows(series, track, len(track), seasons))
        parts.append((values - _moving_mean(values, max(seasons, default=1)), rows))
    for k in range(len(seasons)):
        sums, counts = np.zeros_like(course), np.zeros_like(course)
        for above, rows in parts:
            left = above - sum((course[rows[j]] for j in range(k)), np.zeros_like(above))
            present = np.isfinite(left)
            np.add.at(sums, rows[k], np.where(present, left, 0.0))
            np.add.at(counts, rows[k], present)
        course += sums / np.maximum(counts, 1)
    return course


def _moving_mean(values: np.ndarray, length: int) -> np.ndarray:
    """Return the mean of the `length` steps around each step, (T, C); the nearest ones at the ends."""
    present = np.isfinite(values)
    sums, counts = (
        np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(part, axis=0)])
        for part in (np.where(present, values, 0.0), present)
    )
    begins = np.clip(np.arange(len(values)) - length // 2, 0, max(len(values) - length, 0))
    ends = np.minimum(begins + length, len(values))
    return (sums[ends] - sums[begins]) / np.maximum(counts[ends] - counts[begins], 1)


def begun(series: Series, since: Any, until: int) -> Series:
    """Return the series that begins at `since` or, without it, after `until`, where the training data
    ended; earlier steps become history.
    """
    first = min(track.first for track in series.tracks)
    if since is not None:
        second = second_of(since, series)
    elif (
        first <= until < series.last_time
        and not series.clock.rows
        and not any(track.begin for track in series.tracks)
    ):
        progress.say(
            f"{series.name}: forecasting from {series.clock.show(until)} on, where the "
            f"training data ended"
        )
        second = until + 1
    else:
        return series
    begun = series.starting(second)
    if not begun.tracks:
        raise DataError(
            f"{series.name} ends before {series.clock.show(second)}; give an earlier time"
        )
    return begun


def _fill(values: np.ndarray) -> np.ndarray:
    """Replace missing values by the last one before them, or by 0, the mean, if there is none."""
    present = ~np.isnan(values)
    last_present = np.maximum.accumulate(
        np.where(present, np.arange(len(values))[:, None], -1), axis=0
    )
    return np.where(
        last_present < 0, 0.0, np.take_along_axis(values, np.maximum(last_present, 0), axis=0)
    )
