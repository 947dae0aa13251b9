"""Axes, mostly logarithmic: how far they reach and where their numbers stand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from seqloom.charts import theme


def log_domain(values: Sequence[float], margin: float) -> list[float]:
    """From below the least to above the most, by a share of the logarithmic range."""
    low, high = math.log(min(values)), math.log(max(values))
    room = margin * max(high - low, 0.5)
    return [math.exp(low - room), math.exp(high + room)]


def log_share(value: float, domain: Sequence[float]) -> float:
    low, high = math.log(domain[0]), math.log(domain[1])
    return (math.log(value) - low) / (high - low)


def log_moved(
    value: float, pixels: float, domain: Sequence[float], height: float = theme.HEIGHT
) -> float:
    """The value that stands so many pixels below on a vertical logarithmic axis."""
    return value * (domain[0] / domain[1]) ** (pixels / height)


def decades(domain: Sequence[float]) -> list[float]:
    """Powers of ten inside the domain, with their threes where there are few."""
    powers = range(math.floor(math.log10(domain[0])), math.ceil(math.log10(domain[1])) + 1)
    ticks = [10.0**p for p in powers]
    if sum(domain[0] <= t <= domain[1] for t in ticks) < 3:
        ticks = sorted(ticks + [3 * t for t in ticks])
    return [t for t in ticks if domain[0] <= t <= domain[1]]


def round_ticks(domain: Sequence[float]) -> list[float]:
    """Round numbers of a range within a decade or so, at most eight."""
    for width in (0.1, 0.2, 0.25, 0.5, 1.0, 2.0, 5.0):
        first = math.ceil(domain[0] / width)
        ticks = [round(i * width, 6) for i in range(first, math.floor(domain[1] / width) + 1)]
        if len(ticks) <= 8:
            return ticks
    return []


class Axis(NamedTuple):
    """A vertical axis, logarithmic or not."""

    domain: list[float]
    log: bool

    @classmethod
    def of(cls, values: Sequence[float], margin: float, log: bool) -> Axis:
        if log:
            return cls(log_domain(values, margin), log)
        low, high = min(values), max(values)
        room = margin * max(high - low, 0.02 * max(abs(high), abs(low)), 1e-6)
        return cls([low - room, high + room], log)

    def share(self, value: float) -> float:
        """How far up it stands, from 0 to 1."""
        low, high = self.domain
        return log_share(value, self.domain) if self.log else (value - low) / (high - low)

    def at(self, share: float) -> float:
        """The inverse."""
        low, high = self.domain
        return low * (high / low) ** share if self.log else low + (high - low) * share

    def moved(self, value: float, pixels: float, height: float = theme.HEIGHT) -> float:
        """The value that stands so many pixels below."""
        low, high = self.domain
        return (
            log_moved(value, pixels, self.domain, height)
            if self.log
            else value - (high - low) * pixels / height
        )

    def ticks(self) -> list[float]:
        """Round numbers, at most eight."""
        if self.log:
            return round_ticks(self.domain)
        low, high = self.domain
        width = next(
            w
            for k in range(-9, 12)
            for w in (10.0**k, 2 * 10.0**k, 5 * 10.0**k)
            if (high - low) / w <= 8
        )
        return [
            round(i * width, 10)
            for i in range(math.ceil(low / width), math.floor(high / width) + 1)
        ]

    def scale(self, alt: Any) -> Any:
        return alt.Scale(type="log" if self.log else "linear", domain=self.domain, nice=False)


def spaced_ticks(domain: Sequence[float], height: float, apart: float = 30) -> list[float]:
    """Round numbers about so many pixels apart on a logarithmic axis of that height, denser where values are small.

    >>> spaced_ticks([3.3, 8.3], 320)
    [3.5, 4.0, 4.5, 5.0, 5.5, 6.0, 7.0, 8.0]
    """
    ratio, least = (domain[1] / domain[0]) ** (apart / height), domain[0]
    ticks: list[float] = []
    while True:
        gap = least * (1 - 1 / ratio)
        width = next(
            w
            for k in range(-9, 12)
            for w in (10.0**k, 2 * 10.0**k, 5 * 10.0**k)
            if w >= gap * 0.999
        )
        tick = float(f"{math.ceil(least / width - (0.1 if ticks else 0.0)) * width:.6g}")
        if tick > domain[1] or (
            ticks and tick <= ticks[-1]
        ):  # the second: a range of hardly any width
            return ticks
        ticks.append(tick)
        least = tick * ratio
