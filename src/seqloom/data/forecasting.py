"""Series of numbers over time: one or several, with one or several columns, on a regular grid of steps.

`read_series` takes tables (CSV, TSV, JSON Lines, Parquet) with a column of times; `Series.of` takes
arrays, columns and frames. Irregular times are corrected here, once, and reported: unsorted rows are
sorted, rows of equal times averaged, steps without a row become missing values (NaN), times off the
grid go to the nearest step. A key column separates several series. Columns that are known in advance
(a holiday, a price) may continue after the last value.

    >>> series = Series.of([3.0, None, 5.0], ["2024-01-01", "2024-01-02", "2024-01-03"])
    >>> len(series), str(series.step), series.tracks[0].values[:, 0].tolist()
    (3, '1 day', [3.0, nan, 5.0])
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from seqloom import progress
from seqloom.arrays import MAX_NUMBER
from seqloom.data.classification import Source, dataset_name
from seqloom.data.examples import is_frame, refuse_name, values
from seqloom.data.forecasting_forms import (
    Columns,
    SeriesForm,
    Table,
    beyond_measure,
    columns_in_memory,
    numbers,
    read_table,
    value_names,
    with_index,
)
from seqloom.data.forecasting_grid import Notes, Track, check_unit, common_step, forward, on_grid
from seqloom.data.showing import series_line
from seqloom.data.sources import find_documents, paths_of
from seqloom.data.times import Clock, Step, read_times
from seqloom.errors import ConfigError, DataError

UTC = Clock()


@dataclass(frozen=True)
class Series:
    """One or several series with the same columns and the same step."""

    tracks: tuple[Track, ...]
    columns: tuple[str, ...]
    step: Step
    clock: Clock = UTC
    known_columns: tuple[str, ...] = ()
    name: str = "series"
    key_column: str | None = None  # the column of a table that separated them

    @classmethod
    def of(
        cls,
        data: Any,
        times: Any = None,
        *,
        columns: Sequence[str] | None = None,
        time_column: str | None = None,
        key_column: str | None = None,
        known_columns: Sequence[str] = (),
        step: str | None = None,
        frequency: str | None = None,
        time_zone: str | None = None,
        name: str = "series",
    ) -> Series:
        """Build from numbers (T,) or (T, C) as a list or array, with or without times; or from a frame
        or dict of columns, with times in the index or in a named or recognised column. `columns`: the
        value columns to take, or the names of an array's columns. `frequency`: how far apart the steps of
        a series without times are, such as 1h; its season follows.
        """
        if times is None and time_column is None:
            data = with_index(data)
        if is_frame(data) or isinstance(data, Mapping):
            if times is not None:
                data = {**{str(c): data[c] for c in getattr(data, "columns", data)}, "time": times}
                time_column = "time"
            table = columns_in_memory(
                data,
                Columns(time_column, tuple(columns or ()), key_column, tuple(known_columns)),
                name,
            )
            return assemble([table], step=step, frequency=frequency, time_zone=time_zone, name=name)
        if key_column is not None or known_columns:
            raise DataError(
                f"{name}: key_column and known_columns name columns of a frame; an array has none"
            )
        array = _array(data, name)
        names = tuple(map(str, columns)) if columns else value_names(array.shape[1])
        if len(names) != array.shape[1] or len(set(names)) < len(names):
            raise DataError(
                f"{name} has {array.shape[1]} columns; give each a name of its own, got {', '.join(names)}"
            )
        moments = (
            list(range(len(array))) if times is None else values(times, f"the times of {name}")
        )
        if len(moments) != len(array):
            raise DataError(f"{name} has {len(array)} values and {len(moments)} times")
        table = Table(
            name,
            moments,
            None,
            array,
            np.empty((len(array), 0)),
            names,
            (),
            lambda k: f"row {k + 1} of {name}",
        )
        return assemble([table], step=step, frequency=frequency, time_zone=time_zone, name=name)

    __repr__ = series_line

    def __len__(self) -> int:
        """Return the number of steps of all series, without history."""
        return sum(len(track) - track.begin for track in self.tracks)

    @cached_property
    def fingerprint(self) -> str:
        """Return the SHA-256 of times, values and names."""
        hasher = hashlib.sha256(
            repr((self.columns, self.known_columns, self.step, self.clock)).encode()
        )
        for track in self.tracks:
            hasher.update(
                repr(
                    (track.key, track.first, track.begin, track.values.shape, track.known.shape)
                ).encode()
            )
            hasher.update(
                np.ascontiguousarray(track.values).tobytes()
                + np.ascontiguousarray(track.known).tobytes()
            )
        return hasher.hexdigest()

    def like(self, columns: tuple[str, ...], known_columns: tuple[str, ...]) -> Series:
        """Return the series with these columns, in this order; columns without names stay as they are."""
        if (self.columns, self.known_columns) == (columns, known_columns):
            return self
        if (
            not known_columns
            and len(self.columns) == len(columns)
            and (self.columns[0].startswith("value") or columns[0].startswith("value"))
        ):
            return replace(self, columns=columns)
        if missing := [
            c for c in (*columns, *known_columns) if c not in self.columns + self.known_columns
        ]:
            raise DataError(
                f"{self.name} has no column {missing[0]!r}, which the model learned from; it has "
                f"{', '.join(self.columns + self.known_columns)}"
            )
        tracks = []
        for track in self.tracks:
            padding = np.full((len(track.known) - len(track), len(self.columns)), np.nan)
            table = np.concatenate([np.concatenate([track.values, padding]), track.known], axis=1)
            order = [
                (self.columns + self.known_columns).index(c) for c in (*columns, *known_columns)
            ]
            rows, known = table[:, order[: len(columns)]], forward(table[:, order[len(columns) :]])
            filled_steps = np.flatnonzero(np.isfinite(rows).any(axis=1))
            end = int(filled_steps[-1]) + 1 if known_columns and len(filled_steps) else len(track)
            tracks.append(
                replace(track, values=rows[:end], known=known, begin=min(track.begin, end))
            )
        return replace(self, tracks=tuple(tracks), columns=columns, known_columns=known_columns)

    def times(self, track: Track, begin: int = 0, end: int | None = None) -> np.ndarray:
        """Return the times of a track's steps in UTC seconds, including steps after its end."""
        return self.clock.grid(track.first, self.step, len(track) if end is None else end, begin)

    @property
    def last_time(self) -> int:
        return max(int(self.times(track, len(track) - 1)[0]) for track in self.tracks)

    def between(self, low: float | int, high: float | int) -> Series:
        """Return a part of each series, with the steps before it as history; whole numbers are steps,
        others shares of the steps. Values known in advance stay, also after the end.
        """

        def position(at: float | int, track: Track) -> int:
            span = len(track) - track.begin
            return track.begin + (min(at, span) if isinstance(at, int) else round(at * span))

        cut = [
            replace(track, values=track.values[: position(high, track)], begin=position(low, track))
            for track in self.tracks
        ]
        return replace(self, tracks=tuple(track for track in cut if len(track) > track.begin))

    def alone(self) -> Series:
        """Return the series without history."""
        tracks = [
            replace(
                t,
                first=int(self.times(t, t.begin, t.begin + 1)[0]),
                values=t.values[t.begin :],
                known=t.known[t.begin :],
                begin=0,
            )
            for t in self.tracks
        ]
        return replace(self, tracks=tuple(tracks))

    def before(self, second: int) -> Series:
        """Return the steps before a time; values known in advance stay."""
        ends = [int(np.searchsorted(self.times(track), second)) for track in self.tracks]
        if all(second > self.times(track, len(track), len(track) + 1)[0] for track in self.tracks):
            raise DataError(
                f"{self.name} ends at {self.clock.show(self.last_time)}, more than a step before "
                f"{self.clock.show(second)}; give an earlier start"
            )
        tracks = [
            replace(track, values=track.values[:end]) for track, end in zip(self.tracks, ends)
        ]
        if not (left := tuple(track for track in tracks if len(track) > track.begin)):
            raise DataError(
                f"{self.name} has nothing before {self.clock.show(second)}; give a later start"
            )
        return replace(self, tracks=left)

    def starting(self, second: int) -> Series:
        """Return the series with everything before a time as history."""

        def begin(track: Track) -> int:
            return max(int(np.searchsorted(self.times(track), second)), track.begin)

        tracks = [replace(track, begin=begin(track)) for track in self.tracks]
        return replace(self, tracks=tuple(track for track in tracks if len(track) > track.begin))

    def following(self, other: Series) -> Series:
        """Return the series with `other` as history where keys are equal and this one continues it."""
        before = {track.key: track for track in other.tracks}
        if (self.columns, self.known_columns, self.step) != (
            other.columns,
            other.known_columns,
            other.step,
        ):
            return self
        tracks = []
        for track in self.tracks:
            past = before.get(track.key)
            if (
                past is None
                or track.begin
                or track.first <= int(other.times(past, len(past) - 1)[0])
            ):
                tracks.append(track)
                continue
            offset = int(self.clock.slots(np.array([past.first, track.first]), self.step)[0][1])
            gap = np.full((offset - len(past), len(self.columns)), np.nan)
            unknown = np.full((max(offset - len(past.known), 0), len(self.known_columns)), np.nan)
            known = np.concatenate([past.known[:offset], unknown, track.known])
            values_ = np.concatenate([past.values, gap, track.values])
            tracks.append(Track(track.key, past.first, values_, forward(known), offset))
        return replace(self, tracks=tuple(tracks))


def read_series(
    source: Source,
    *,
    form: SeriesForm = "auto",
    time_column: str | None = None,
    value_columns: Sequence[str] = (),
    key_column: str | None = None,
    known_columns: Sequence[str] = (),
    step: str | None = None,
    frequency: str | None = None,
    time_zone: str | None = None,
    encoding: str = "utf-8",
    strict: bool = False,
    usual_key: str | None = None,
) -> Series:
    """Read series from a table, several tables, a directory, a pattern, or `-` for standard input.

    The time column is found by its name (`date`, `time`, `timestamp`, ...) or its values; all other
    columns of numbers are values, unless some are named. Without one, an index column has the numbers of
    the steps, or rows are counted; `frequency` says how far apart they are. Several files without a key
    column are several series, named by their files. `usual_key`: the key column if none is named and the
    table has it.
    """
    sources = paths_of(source, "read_series")
    documents = [
        document for path in sources for document in find_documents(path, encoding, strict=strict)
    ]
    if not documents:
        raise DataError("the list of files is empty; name at least one")
    named = Columns(time_column, tuple(value_columns), key_column, tuple(known_columns), usual_key)
    tables = [read_table(document, form, named) for document in documents]
    if frequency is None and (counted := [table.name for table in tables if table.counted]):
        progress.say(
            f"{counted[0]} has no column of times, so its rows are counted as steps; "
            "frequency=... may say how far apart they are"
        )
    if len(tables) > 1:
        tables = [
            table
            if table.keys is not None
            else replace(table, keys=[Path(table.name).stem] * len(table.times))
            for table in tables
        ]
    return assemble(
        tables,
        step=step,
        frequency=frequency,
        time_zone=time_zone,
        name=dataset_name(source, [document.name for document in documents]),
    )


def as_series(data: Any, usual_key: str | None = None) -> Series:
    """Convert what `fit` and `evaluate` of a forecaster accept: a Series, a Path, numbers, a
    frame. `usual_key`: see `read_series`.
    """
    if isinstance(data, str):
        refuse_name(data, "seqloom.read_series")
        raise DataError(
            "cannot read a series from text; give numbers, a frame, a Path, or what read_series returns"
        )
    if isinstance(data, Series):
        return data
    if isinstance(data, Path):
        return read_series(data, usual_key=usual_key)
    if isinstance(data, bytes) or not (hasattr(data, "__iter__") or hasattr(data, "__array__")):
        raise DataError(
            f"cannot read a series from a {type(data).__name__}; give numbers, a frame, a Path, or what "
            "read_series returns"
        )
    named = (
        list(map(str, getattr(data, "columns", data)))
        if is_frame(data) or isinstance(data, Mapping)
        else []
    )
    return Series.of(data, key_column=usual_key if usual_key in named else None)


def second_of(start: Any, series: Series) -> int:
    """Convert a given time to UTC seconds."""
    clock, seconds = read_times([start], zone=series.clock.zone)
    if clock.rows != series.clock.rows:
        raise ConfigError(
            f"start {start!s:.40} does not suit {series.name}, whose times are "
            f"{'numbers' if series.clock.rows else 'dates'}"
        )
    return int(seconds[0])


def assemble(
    tables: Sequence[Table],
    *,
    step: str | None,
    frequency: str | None,
    time_zone: str | None,
    name: str,
) -> Series:
    """Build series on one grid from the rows of tables."""
    first = tables[0]
    if wrong := [
        t for t in tables if (t.columns, t.known_columns) != (first.columns, first.known_columns)
    ]:
        raise DataError(
            f"{wrong[0].name} has the columns {', '.join(wrong[0].columns)}, {first.name} has "
            f"{', '.join(first.columns)}; all files must have the same"
        )
    parsed = [
        read_times(table.times, zone=time_zone, location=table.location, keys=table.keys)
        for table in tables
    ]
    clock = parsed[0][0]
    if any(other != clock for other, _ in parsed):
        raise DataError(f"{name}: some files have times and others numbers of steps")
    seconds = np.concatenate([s for _, s in parsed])
    numbers_, known = (
        np.concatenate(parts)
        for parts in ([table.values for table in tables], [table.known for table in tables])
    )
    keys = np.array(
        [str(key) for table in tables for key in (table.keys or [""] * len(table.times))]
    )
    if not np.isfinite(numbers_).any():
        raise DataError(f"{name} has no numbers in {', '.join(first.columns)}; give some")
    names, owner = np.unique(keys, return_inverse=True)
    rows = [np.flatnonzero(owner == k) for k in range(len(names))]
    rows = [row[np.argsort(seconds[row], kind="stable")] for row in rows]
    chosen = (
        Step.parse(step)
        if step
        else common_step(clock, [np.unique(seconds[row]) for row in rows], name)
    )
    chosen = check_unit(chosen, clock, frequency, name)
    notes = Notes(name, len(names) > 1)
    notes.unsorted = int(
        sum(np.count_nonzero(np.diff(seconds[owner == k]) < 0) for k in range(len(names)))
    )
    tracks = [
        on_grid(str(key), seconds[row], numbers_[row], known[row], clock, chosen, notes)
        for key, row in zip(names, rows)
    ]
    notes.say(chosen, sum(map(len, tracks)))
    return Series(
        tuple(tracks), first.columns, chosen, clock, first.known_columns, name, first.key_column
    )


def _array(data: Any, name: str) -> np.ndarray:
    rows = data if isinstance(data, np.ndarray) else values(data, name)
    if isinstance(rows, np.ndarray):
        if rows.ndim not in (1, 2) or rows.dtype.kind not in "fiub":
            raise DataError(
                f"{name} must be numbers in one or two dimensions; got {rows.dtype} of the shape {rows.shape}"
            )
        array = rows.astype(np.float64).reshape(len(rows), -1) if rows.size else np.empty((0, 1))
    else:
        wide = [row if isinstance(row, (list, tuple, np.ndarray)) else [row] for row in rows]
        if ragged := [k for k, row in enumerate(wide) if len(row) != len(wide[0])]:
            raise DataError(
                f"row {ragged[0] + 1} of {name} has {len(wide[ragged[0]])} numbers, the first one "
                f"{len(wide[0])}"
            )
        array = (
            np.stack(
                [
                    numbers(
                        [row[k] for row in wide],
                        f"value {k + 1}",
                        lambda i: f"row {i + 1} of {name}",
                    )
                    for k in range(len(wide[0]))
                ],
                axis=1,
            )
            if wide and len(wide[0])
            else np.empty((0, 1))
        )
    if not array.size:
        raise DataError(f"{name} has no values; give some")
    if len(beyond := np.argwhere(np.abs(array) > MAX_NUMBER)):
        raise beyond_measure(
            f"row {int(beyond[0][0]) + 1} of {name}", float(array[tuple(beyond[0])])
        )
    return array
