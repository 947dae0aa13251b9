"""The times of a series: read from text or numbers, stored as UTC seconds, put on a regular grid of steps.

A time without an offset is UTC, unless a time zone is given; then it is local time there, and the order
of rows decides between the two readings of the hour that is repeated in autumn. Days and months are
counted by the calendar, so a day of 23 hours is one step. Numbers below 100 million are not times but
counts of steps.

    >>> clock, seconds = read_times(["2024-03-30", "2024-03-31", "2024-04-01"], zone="Europe/Berlin")
    >>> np.diff(seconds).tolist(), str(infer_step(clock, seconds))
    ([86400, 82800], '1 day')
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal
from zoneinfo import ZoneInfo

import numpy as np

from seqloom import progress
from seqloom.errors import ConfigError, DataError, quoted

Unit = Literal["second", "day", "month", "row"]
DAY = 86_400
ROWS = 10**8  # smaller numbers count steps; larger ones are seconds since 1970, or parts of them:
_EPOCHS = ((10**11, 1), (10**14, 10**3), (10**17, 10**6), (10**20, 10**9))  # below, per second
_UNITS = {
    "s": (1, "second"),
    "sec": (1, "second"),
    "min": (60, "second"),
    "h": (3600, "second"),
    "d": (1, "day"),
    "w": (7, "day"),
    "mo": (1, "month"),
    "q": (3, "month"),
    "y": (12, "month"),
    "row": (1, "row"),
}
_NAMES = (
    ("day", 7, "week"),
    ("month", 12, "year"),
    ("month", 3, "quarter"),
    ("second", 3600, "hour"),
    ("second", 60, "minute"),
)


@dataclass(frozen=True)
class Step:
    """The distance between neighbouring times."""

    count: int
    unit: Unit
    # of steps that are only counted: how far apart rows are, if that is known
    each: Step | None = field(default=None, compare=False, repr=False)

    @classmethod
    def parse(cls, text: str, option: str = "step") -> Step:
        """Parse a step such as 15min, 1h, 1d, 1w, 1mo, 1q, 1y."""
        match = re.fullmatch(r"(\d{0,9})\s*([a-z]+)", text.strip().lower())
        if match is None or match[2] not in _UNITS or match[1] == "0":
            raise ConfigError(
                f"{option} must be a number and a unit such as 15min, 1h, 1d, 1w, 1mo, 1q or 1y; got "
                f"{quoted(text)}"
            )
        count, unit = _UNITS[match[2]]
        return cls(count * int(match[1] or 1), unit)  # type: ignore[arg-type]

    def __str__(self) -> str:
        count, name = self.count, str(self.unit)
        for unit, size, larger in _NAMES:
            if unit == self.unit and self.count % size == 0:
                count, name = self.count // size, larger
                break
        return f"{count:,} {name}{'s' * (count != 1)}"

    @property
    def season(self) -> int:
        """Return the number of steps in the usual cycle: a day of hours, a week of days, a year of months
        or weeks; 1 if there is none.
        """
        if self.each is not None:
            return self.each.season if self.count == 1 else 1
        if self.unit == "second":
            return DAY // self.count if self.count < DAY and DAY % self.count == 0 else 1
        if self.unit == "day":
            return 7 if self.count == 1 else 52 if self.count == 7 else 1
        return 12 // self.count if self.unit == "month" and 12 % self.count == 0 else 1


@dataclass(frozen=True)
class Clock:
    """How UTC seconds are shown and counted: in a time zone, or as plain numbers of steps (`rows`)."""

    zone: str | None = None
    rows: bool = False

    def __post_init__(self) -> None:
        _zone(self.zone)

    def local(self, seconds: np.ndarray) -> np.ndarray:
        """Convert UTC seconds to local wall-clock seconds since 1970."""
        zone = _zone(self.zone)
        if zone is None:
            return seconds
        quarters, back = np.unique(seconds // 900, return_inverse=True)
        offsets = [
            datetime.fromtimestamp(int(q) * 900, zone).utcoffset() or timedelta() for q in quarters
        ]
        return (
            seconds
            + np.array([round(offset.total_seconds()) for offset in offsets], np.int64)[back]
        )

    def utc(self, local: np.ndarray) -> np.ndarray:
        """Convert local wall-clock seconds to UTC; a repeated hour is taken as the first one."""
        zone = _zone(self.zone)
        if zone is None:
            return local
        start = datetime(1970, 1, 1)
        return np.array(
            [
                round((start + timedelta(seconds=int(s))).replace(tzinfo=zone).timestamp())
                for s in local
            ],
            np.int64,
        )

    def show(self, second: int) -> str:
        """Show one time for people and files: ISO 8601, in the zone with its offset."""
        if self.rows:
            return str(second)
        zone = _zone(self.zone)
        at = datetime.fromtimestamp(int(second), zone or UTC)
        text = at.isoformat(sep=" ") if zone else at.replace(tzinfo=None).isoformat(sep=" ")
        return text.removesuffix(" 00:00:00")

    def slots(self, seconds: np.ndarray, step: Step) -> tuple[np.ndarray, int]:
        """Return the position of each time on a grid from the first one on, and how many are off the grid."""
        if step.unit in ("second", "row"):
            past = seconds - seconds[0]
        else:
            days = self.local(seconds) // DAY
            units = (
                days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
                if step.unit == "month"
                else days
            )
            past = units - units[0]
        return np.rint(past / step.count).astype(np.int64), int(np.count_nonzero(past % step.count))

    def grid(self, first: int, step: Step, n: int, begin: int = 0) -> np.ndarray:
        """Return the times of the grid positions `begin` to `n`."""
        offsets = np.arange(begin, n, dtype=np.int64) * step.count
        if step.unit in ("second", "row"):
            return first + offsets
        local = self.local(np.array([first]))
        if step.unit == "day":
            return self.utc(local + offsets * DAY)
        day = (local // DAY).astype("datetime64[D]")
        month = day.astype("datetime64[M]")
        months, inside = month + offsets, (day - month.astype("datetime64[D]")).astype(np.int64)
        length = ((months + 1).astype("datetime64[D]") - months.astype("datetime64[D]")).astype(
            np.int64
        )
        days = months.astype("datetime64[D]").astype(np.int64) + np.minimum(inside, length - 1)
        return self.utc(days * DAY + local % DAY)

    def number(self, second: int, step: Step) -> int:
        """Return the number of the step at a time, counted from 1970 on, or from 0."""
        if step.unit in ("second", "row"):
            return second // step.count
        day = self.local(np.array([second])) // DAY
        months = day.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
        return int((months if step.unit == "month" else day)[0]) // step.count

    def calendar(self, seconds: np.ndarray) -> np.ndarray:
        """Return sine and cosine of the hour of the day, the day of the week and the day of the year,
        float64 (T, 6).
        """
        if self.rows:
            return np.zeros((*seconds.shape, 0))
        local = self.local(seconds.ravel())
        days = (local // DAY).astype("datetime64[D]")
        year = (days - days.astype("datetime64[Y]").astype("datetime64[D]")).astype(np.float64)
        shares = np.stack([(local % DAY) / DAY, (local // DAY + 3) % 7 / 7, year / 365.25], axis=-1)
        angles = 2 * np.pi * shares
        return np.concatenate([np.sin(angles), np.cos(angles)], axis=-1).reshape(*seconds.shape, 6)


def read_times(
    values: Sequence[Any],
    *,
    zone: str | None = None,
    location: Callable[[int], str] | None = None,
    keys: Sequence[Any] | None = None,
) -> tuple[Clock, np.ndarray]:
    """Return the clock, and UTC seconds, int64 (N,); `keys`: the series of each time, if several."""
    clock, locate = Clock(zone), location or (lambda k: f"row {k + 1}")
    parsed = [_parse(value, locate, k) for k, value in enumerate(values)]
    kinds = [
        "a number"
        if isinstance(value, float)
        else "a time with an offset from UTC"
        if value.tzinfo
        else "a time without an offset from UTC"
        for value in parsed
    ]
    if len(set(kinds)) > 1:
        other = next(k for k, kind in enumerate(kinds) if kind != kinds[0])
        raise DataError(
            f"{locate(other)}: {quoted(values[other])} is {kinds[other]}, {quoted(values[0])} is "
            f"{kinds[0]}; all "
            "must be of one kind"
        )
    if kinds and kinds[0] == "a number":
        return _numbers(np.array(parsed, np.float64), clock)
    moments = [value for value in parsed if isinstance(value, datetime)]
    if zone is None or not moments or moments[0].tzinfo:
        return clock, np.array([_seconds(value) for value in moments], np.int64)
    return clock, _from_local(moments, clock, keys or [None] * len(moments))


def infer_step(clock: Clock, seconds: np.ndarray) -> Step:
    """Return the commonest step between sorted distinct times; by the calendar if all have the same time
    of day.
    """
    if len(seconds) < 2:
        raise DataError("a series needs at least two different times")
    if clock.rows:
        return Step(_commonest(np.diff(seconds)), "row")
    local = clock.local(seconds)
    if len(np.unique(local % DAY)) > 1:
        return Step(_commonest(np.diff(seconds)), "second")
    days = (local // DAY).astype("datetime64[D]")
    months = days.astype("datetime64[M]")
    first = (days - months.astype("datetime64[D]")).astype(np.int64)
    last = ((months + 1).astype("datetime64[D]") - days).astype(np.int64)
    if len(np.unique(first)) == 1 or (last == 1).all():
        return Step(_commonest(np.diff(months.astype(np.int64))), "month")
    return Step(_commonest(np.diff(local // DAY)), "day")


def _commonest(steps: np.ndarray) -> int:
    sizes, counts = np.unique(steps, return_counts=True)
    return int(sizes[counts.argmax()])


def _zone(name: str | None) -> ZoneInfo | None:
    if name is None:
        return None
    try:
        return ZoneInfo(name)
    except (LookupError, OSError, ValueError):  # unknown, or no name of a file
        raise ConfigError(
            f"unknown time zone {quoted(name)}; give a name such as Europe/Berlin or UTC"
        ) from None


def _parse(value: Any, location: Callable[[int], str], k: int) -> datetime | float:
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    if isinstance(value, str):
        text = value.strip()
        try:
            # a number, unless it is a date such as 20240131
            plain = text.isdecimal() and not (len(text) == 8 and text[:2] in ("19", "20"))
            return datetime.fromisoformat("" if plain or len(text) < 8 else text)
        except ValueError:
            pass
        if match := re.fullmatch(
            r"(\d{4})[-/](\d\d?)(?:[-/](\d\d?)(?:[ T](\d\d?):(\d\d)(?::(\d\d))?)?)?", text
        ):
            try:
                year, month, day, hour, minute, second = (int(part or 0) for part in match.groups())
                return datetime(year, month, day or 1, hour, minute, second)
            except ValueError:
                pass
        value = text
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if not np.isfinite(number) or isinstance(value, bool):
        raise DataError(
            f"{location(k)}: {quoted(value)} is not a time; write it as 2024-01-31 13:00:00, "
            f"2024-01-31, 2024-01, or "
            "as a number"
        )
    return number


def _numbers(numbers: np.ndarray, clock: Clock) -> tuple[Clock, np.ndarray]:
    """Read numbers as counts of steps, or as parts of seconds since 1970."""
    largest = np.abs(numbers).max(initial=0)
    if largest < ROWS:
        if (numbers != np.rint(numbers)).any():
            raise DataError(
                f"{numbers[numbers != np.rint(numbers)][0]:g} is not a time: numbers must be whole"
            )
        return Clock(rows=True), numbers.astype(np.int64)
    divisor = next((size for limit, size in _EPOCHS if largest < limit), None)
    if divisor is None:
        raise DataError(f"{largest:g} is not a time: too large for nanoseconds since 1970")
    return clock, np.floor(numbers / divisor).astype(np.int64)


def _seconds(at: Any) -> int:
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() // 1)


def _from_local(times: Sequence[datetime], clock: Clock, keys: Sequence[Any]) -> np.ndarray:
    """Convert local times to UTC; when clocks are put back, the second of equal times is an hour later."""
    zone, ambiguous, missing = _zone(clock.zone), set(), 0
    seconds = np.empty(len(times), np.int64)
    for k, (key, at) in enumerate(zip(keys, times)):
        early, late = at.replace(tzinfo=zone), at.replace(tzinfo=zone, fold=1)
        repeated = (key, at) in ambiguous
        if early.utcoffset() != late.utcoffset():
            exists = early.astimezone(UTC).astimezone(zone).replace(tzinfo=None) == at
            missing += not exists
            ambiguous.add((key, at))
            early = late if repeated and exists else early
        seconds[k] = int(early.timestamp() // 1)
    if missing:
        progress.say(
            f"{missing:,} time{'s' * (missing > 1)} did not exist in {clock.zone}, where clocks "
            f"were put forward; "
            f"{'it is' if missing == 1 else 'they are'} taken as an hour later"
        )
    return seconds
