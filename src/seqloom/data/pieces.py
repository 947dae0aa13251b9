"""What readers hand over: stretches of text with the ends of the documents in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

LONGEST = 1 << 30  # bytes that one row may have; more is taken for a quote or bracket that was never closed
NONE = np.zeros(0, np.int64)


class Piece(NamedTuple):
    """UTF-8 bytes, where documents end in them (rising), and the numbers of these rows."""

    data: bytes
    ends: np.ndarray = NONE
    rows: np.ndarray = NONE


@dataclass
class Tally:
    """What was left out or replaced while reading."""

    empty: int = 0
    absent: int = 0
    halves: int = 0  # of surrogate pairs

    def remarks(self, column: str) -> list[str]:
        """One sentence for each kind of loss."""
        found = []
        if self.empty or self.absent:
            found.append(f"left out {_many(self.empty + self.absent, 'row', 'rows')} without text in column {column!r}")
        if self.halves:
            found.append(f"replaced {_many(self.halves, 'half', 'halves')} of surrogate pairs by U+FFFD")
        return found


def _many(n: int, one: str, more: str) -> str:
    return f"{n:,} {one if n == 1 else more}"
