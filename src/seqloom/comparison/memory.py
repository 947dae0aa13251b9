"""How much memory a piece of work took at its peak."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass
class Peak:
    peak: int | None = None  # bytes above what was held before; None where the system does not tell


@contextmanager
def peak_memory() -> Iterator[Peak]:
    """The highest resident memory inside the block, less that before it (Linux resets the mark on request)."""
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
