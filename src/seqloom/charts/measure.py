"""What the models of a comparison are measured by, and how that is written and drawn."""

from __future__ import annotations

import math
from typing import NamedTuple


class Measure(NamedTuple):
    key: str  # in JSON: bits_per_byte
    title: str  # in a sentence and on an axis: bits per byte
    heading: str  # of a column: bits/byte
    lower: bool  # is better
    form: str = ".3f"  # how a value is written
    log: bool = False  # whether axes are logarithmic
    unit: str = ""  # of a difference: bits

    def show(self, value: float, sign: str = "") -> str:
        return format(value, sign + self.form)

    def better(self, a: float, b: float) -> bool:
        """Whether a is better than b."""
        return a < b if self.lower else a > b

    @property
    def axis(self) -> str:
        return f"{self.title} ({'less' if self.lower else 'more'} is better)"

    @property
    def ticks(self) -> str:
        """The format of axes, in the words of Vega."""
        return "~%" if self.form.endswith("%") else "~g"


BITS = Measure("bits_per_byte", "bits per byte", "bits/byte", lower=True, log=True, unit="bits")


def interval_ends(value: float, low: float, high: float) -> dict[str, float]:
    """The ends of an interval as they are drawn; where there is none, it has no width."""
    known = math.isfinite(low) and math.isfinite(high)
    return {"low": low if known else value, "high": high if known else value}
