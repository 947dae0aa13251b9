"""Finished rungs stay in the user's cache, so that a comparison goes on where it stopped; this reads and bounds them.

A comparison that was in use longest ago goes first. One that a process is at work on stays, and is that process's alone.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from seqloom import progress, storage
from seqloom.arrays import read_arrays, write_arrays
from seqloom.comparison.result import RungResult
from seqloom.directories import InUse, locked
from seqloom.errors import SeqloomError
from seqloom.metrics.result import plain

MOST = 4 << 30  # bytes of all comparisons but the one that begins


class Kept(NamedTuple):
    """A finished rung."""

    result: RungResult
    rows: np.ndarray  # of its score, by segment
    model: Any


def reuse(target: Path) -> Kept | None:
    """A rung that was finished before; anything unreadable is trained again."""
    try:
        values = json.loads((target / "result.json").read_text(encoding="utf-8"))
        rows = read_arrays(target / "segments.safetensors")["rows"]
        result = RungResult(
            **values
            | {
                "interval": tuple(map(float, values["interval"])),
                "measures": {k: _number(v) for k, v in values["measures"].items()},
            }
        )
        return Kept(result, rows, storage.load(target))
    except (OSError, ValueError, TypeError, KeyError, SeqloomError):
        return None


def write_result(partial: Path, result: RungResult, rows: np.ndarray) -> None:
    """Beside the model in its directory."""
    write_arrays(partial / "segments.safetensors", {"rows": rows})
    text = json.dumps(plain(asdict(result)), indent=1, allow_nan=False)
    (partial / "result.json").write_text(text, encoding="utf-8")


def _number(value: Any) -> Any:
    """ "inf" and "nan" are text in JSON."""
    return float(value) if value in ("inf", "-inf", "nan") else value


def held(place: Path) -> AbstractContextManager[None]:
    """While open no other process may train the rungs of this comparison."""
    return locked(
        place.with_name(f"{place.name}.lock"),
        lambda who: (
            f"{place}: {who} is comparing models on this text there; wait until it has ended, or give another directory (--work)"
        ),
    )


def trim(folder: Path, current: Path, most: int | None = None) -> None:
    """Mark the current comparison as used now, and remove old ones until the others have at most that many bytes."""
    with suppress(OSError):
        os.utime(current)
    others = [place for place in folder.glob("*") if place.is_dir() and place != current]
    left = MOST if most is None else most
    for place in sorted(others, key=_used, reverse=True):
        size = sum(_size(path) for path in place.rglob("*"))
        if size > left:
            with suppress(InUse), held(place):
                shutil.rmtree(place, ignore_errors=True)
                progress.say(
                    f"removed a comparison of {size / 1e6:,.0f} MB, unused for long, from {folder}"
                )
        else:
            left -= size


def _used(place: Path) -> float:
    with suppress(OSError):
        return place.stat().st_mtime
    return 0.0


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size if path.is_file() else 0
    return 0
