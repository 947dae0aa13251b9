"""Measuring ours and a peer in turns: only ratios of neighbours mean anything on a machine that
others use too.
"""

from __future__ import annotations

import importlib
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

SMOKE = (
    "SEQLOOM_SMOKE" in os.environ
)  # set by `--smoke`, before anything of this folder is imported


def sized(whole: Any, tiny: Any) -> Any:
    """What a benchmark takes: the whole, or in a smoke run the tiny one."""
    return tiny if SMOKE else whole


def training(whole: dict[str, Any], quick: bool) -> dict[str, Any]:
    """Options of training: all of it, twelve seconds of a quick run, two steps of a smoke run."""
    return {"steps": 2} if SMOKE else {"minutes": 0.2} if quick else whole


def peer(name: str) -> Any:
    """Import a module of another program; None with a remark where there is none, and in a smoke run."""
    try:
        return None if SMOKE else importlib.import_module(name)
    except ImportError:
        print(f"(skipped: {name} is not installed)")
        return None


@dataclass(frozen=True)
class Ratio:
    """How many times faster ours is: median of the pairs, and their range; NaN without a peer."""

    median: float
    low: float
    high: float
    ours: float  # median seconds
    peer: float

    def __str__(self) -> str:
        return f"{self.median:.1f}x ({self.low:.1f}-{self.high:.1f})"


def alternate(ours: Callable[[], float], peer: Callable[[], float] | None, times: int) -> Ratio:
    """Run both in turns, or ours alone; each returns the seconds it took."""
    return ratio_of([(ours(), peer() if peer else math.nan) for _ in range(sized(times, 1))])


def alternate_calls(
    ours: Callable[[Any], object],
    peer: Callable[[Any], object] | None,
    asked: Sequence[Any],
    times: int,
) -> Ratio:
    """Seconds of one call of each, one after the other for each argument, so that both find the
    machine in the same state (threads of BLAS, for one, stay awake in a loop of products, and sleep
    between single ones).
    """
    sides = [ours, peer] if peer else [ours]
    for call in sides:
        call(asked[0])
    pairs = []
    for _ in range(sized(times, 1)):
        spent = [0.0, 0.0 if peer else math.nan]
        for argument in asked:
            for side, call in enumerate(sides):
                start = time.perf_counter()
                call(argument)
                spent[side] += time.perf_counter() - start
        pairs.append((spent[0] / len(asked), spent[1] / len(asked)))
    return ratio_of(pairs)


def ratio_of(pairs: Sequence[tuple[float, float]]) -> Ratio:
    """Of pairs of seconds, ours and the peer's."""
    ratios = [p / o for o, p in pairs]
    return Ratio(
        statistics.median(ratios),
        min(ratios),
        max(ratios),
        statistics.median(o for o, _ in pairs),
        statistics.median(p for _, p in pairs),
    )


@dataclass(frozen=True)
class Finished:
    seconds: float
    peak: int  # bytes


# A child inherits the peak of the process that it was forked from, so a small process stands in between.
LAUNCHER = """
import resource, subprocess, sys, time
start = time.perf_counter()
none = subprocess.DEVNULL
done = subprocess.run(sys.argv[1:], stdin=none, stdout=none, stderr=subprocess.PIPE)
spent = time.perf_counter() - start
sys.stderr.buffer.write(done.stderr[-500:])
print(spent, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
sys.exit(done.returncode)
"""


def environment(**more: str) -> dict[str, str]:
    """The environment of a program that is measured: sources are compiled once, as after any installation."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, **more}


def run(command: Sequence[str], *, env: dict[str, str] | None = None) -> Finished:
    """Run a program to its end; wall time and its own peak memory."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", LAUNCHER, *command],
        capture_output=True,
        text=True,
        env=environment(**(env or {})),
    )
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed: {done.stderr}")
    seconds, peak = done.stdout.split()
    return Finished(float(seconds), int(peak))


def data(*parts: str) -> Path | None:
    """A file below $SEQLOOM_DATA, or None with a remark."""
    root = os.environ.get("SEQLOOM_DATA")
    path = Path(root, *parts) if root else None
    if path is None or not path.exists():
        print(f"(skipped: {'/'.join(parts)} is not below $SEQLOOM_DATA)")
        return None
    return path


def machine() -> str:
    """One line for the table: what this was measured on."""
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    packages = []
    for name in ("numba", "numpy", "torch", "kenlm", "nltk", "transformers"):
        try:
            packages.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}, {', '.join(packages)}"


def collect(
    suites: Mapping[str, Callable[[], Iterable[tuple[str, ...]]]], only: str
) -> list[tuple[str, ...]]:
    """The rows of the suites whose name contains `only`, each shown as soon as it is measured."""
    rows = []
    for name, suite in suites.items():
        if only in name:
            before = len(rows)
            for row in suite():
                print("...", *row, file=sys.stderr, flush=True)
                rows.append(row)
            assert not SMOKE or len(rows) > before, f"{name} measures nothing"
    return rows


def bundled_text() -> str:
    """Return the text that comes with seqloom, or its beginning."""
    from seqloom import bundled

    return bundled().text()[: sized(None, 30_000)]


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def table(title: str, rows: list[tuple[str, ...]], header: tuple[str, ...]) -> None:
    assert rows or not SMOKE, f"{title}: no rows"
    print(f"\n## {title}\n\n{machine()}\n")
    print("| " + " | ".join(header) + " |\n" + "|---" * len(header) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)
