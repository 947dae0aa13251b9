"""Finished rungs stay in the user's cache, so that a comparison goes on where it stopped; this bounds how many do.

A comparison that was in use longest ago goes first. One that a process is at work on stays, and is that process's alone.
"""

from __future__ import annotations

import os
import shutil
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from seqloom import progress
from seqloom.locks import InUse, locked

MOST = 4 << 30  # bytes of all comparisons but the one that begins


def held(place: Path) -> AbstractContextManager[None]:
    """While open no other process may train the rungs of this comparison."""
    return locked(place.with_name(f"{place.name}.lock"), lambda who: (
        f"{place}: {who} is comparing models on this text there; wait until it has ended, or give another directory (--work)"))


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
                progress.say(f"removed a comparison of {size / 1e6:,.0f} MB that was not used for long from {folder}")
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
