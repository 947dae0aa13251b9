"""What the rungs of a comparison cost: peak memory, the time that one would take, the plan of all of them."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from seqloom import progress
from seqloom.comparison.bench import Attempt, Bench, NotPossible, Rung
from seqloom.comparison.ladder import Ladder

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass
class Peak:
    peak: int | None = None  # bytes above what was held before; None where the system does not tell


@contextmanager
def peak_memory() -> Iterator[Peak]:
    """Measure the highest resident memory inside the block, less that before it (Linux resets the
    mark on request).
    """
    measured = Peak()
    before: int | None = None
    with suppress(OSError):
        _RESET.write_text("5")
        before = _kilobytes("VmRSS")
    yield measured
    if before is not None:
        measured.peak = max(_kilobytes("VmHWM") - before, 0) * 1024


def _kilobytes(field: str) -> int:
    match = re.search(rf"^{field}:\s+(\d+) kB", _STATUS.read_text(), re.MULTILINE)
    return int(match[1]) if match else 0


# ---- timing

PARTS = (64, 16)  # of the training data; the larger one is asked where the smaller says no
SLOWEST = 1e5  # units a second and pass


def check_time(ladder: Ladder, rung: Rung, bench: Bench, minutes: float) -> None:
    """Refuse a rung that would need more minutes than allowed, measured on a small part of the data.

    Most rungs need no measurement: at SLOWEST, a speed that all of them reach, they would be in time.
    Networks take the time that they are given.
    """
    size, allowed = ladder.size(bench.splits.train), minutes * 60
    if not rung.work or rung.on_others or size * rung.work / SLOWEST <= allowed:
        return
    for part in PARTS:
        data = ladder.smaller(bench.splits.train, part)
        if data is None:
            data = bench.splits.train if part == PARTS[-1] else None
        if data is None:
            continue
        smaller = dataclasses.replace(
            bench, splits=dataclasses.replace(bench.splits, train=data), directory=None
        )
        progress.say(f"timing {rung.name} on 1/{part} of the {ladder.data_word}")
        if rung.tokenizer:
            bench.tokenizer(rung.tokenizer)  # shared by several rungs, so no part of the time
        start = time.perf_counter()
        Attempt(rung, smaller).fit()
        estimate = (time.perf_counter() - start) * size / max(ladder.size(data), 1)
        if estimate <= allowed:
            return
    raise NotPossible(
        f"would need about {duration(estimate)} of the {duration(allowed)} allowed, measured on a part; "
        "limit=... allows more"
    )


def duration(seconds: float) -> str:
    if seconds < 1:
        return "a second"
    return f"{seconds:.0f} seconds" if seconds < 120 else f"{seconds / 60:.0f} minutes"


TYPICAL = (
    2e6  # units a second and pass, of a rung that is no network; corrected while rungs are measured
)


class Plan:
    """How long the rungs of a comparison will take, and how long is left while it runs."""

    def __init__(self, rungs: Sequence[Rung], bench: Bench, size: int, finished: set[str]) -> None:
        """Estimate the time of each rung. `size` of the training data; `finished`: names of rungs whose
        results are kept from before.
        """
        self.networks = [rung.name for rung in rungs if is_network(rung)]
        self.finished = finished | {rung.name for rung in rungs if rung.finished}
        self.minutes = bench.minutes
        self.seconds = {
            rung.name: 60 * bench.minutes if is_network(rung) else rung.work * size / TYPICAL
            for rung in rungs
        }
        self.seconds |= dict.fromkeys(self.finished, 0.0)
        self.total = sum(self.seconds.values())
        self._estimated = self._measured = (
            1.0  # seconds of rungs that are no networks; 1: no rung yet
        )

    def describe(self) -> str:
        """Return the rungs, their minutes and the time of all of them."""
        to_do = [name for name in self.seconds if name not in self.finished]
        others = [name for name in to_do if name not in self.networks]
        networks = [name for name in to_do if name in self.networks]
        parts = [", ".join(others)] if others else []
        if networks:
            parts.append(f"{', '.join(networks)}: {self.minutes:g} minutes each")
        if self.finished:
            done = [name for name in self.seconds if name in self.finished]
            parts.append(f"kept from before: {', '.join(done)}")
        number = f"{len(self.seconds)} rung{'s' * (len(self.seconds) != 1)}"
        return f"plan: {number}, about {duration(self.total)}; {'; '.join(parts)}"

    def announce(self, name: str) -> str:
        """Return the number of a rung, and the time that is left before it."""
        names = list(self.seconds)
        left = names[names.index(name) :]
        ratio = self._measured / self._estimated
        seconds = sum(self.seconds[n] * (1 if n in self.networks else ratio) for n in left)
        return f"{names.index(name) + 1} of {len(names)}, about {duration(seconds)} left"

    def measured(self, name: str, seconds: float | None) -> None:
        """Correct the estimate of what is left by the time that a rung took."""
        if seconds is not None and name not in self.networks and name not in self.finished:
            self._estimated += self.seconds[name]
            self._measured += seconds


def is_network(rung: Rung) -> bool:
    """Return whether a rung takes the minutes that it is given."""
    return not rung.work and not rung.on_others and not rung.finished
