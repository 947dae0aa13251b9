"""Axes, mostly logarithmic: how far they reach and where their numbers stand; and where the names of
points go so that none lies on another, on a point, or outside the plot (`place_labels`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from seqloom.charts import theme


def log_domain(values: Sequence[float], margin: float) -> list[float]:
    """Return a domain from below the least to above the greatest value, by a share of the
    logarithmic range.
    """
    low, high = math.log(min(values)), math.log(max(values))
    room = margin * max(high - low, 0.5)
    return [math.exp(low - room), math.exp(high + room)]


def log_share(value: float, domain: Sequence[float]) -> float:
    low, high = math.log(domain[0]), math.log(domain[1])
    return (math.log(value) - low) / (high - low)


def log_moved(
    value: float, pixels: float, domain: Sequence[float], height: float = theme.HEIGHT
) -> float:
    """Return the value `pixels` below on a vertical logarithmic axis."""
    return value * (domain[0] / domain[1]) ** (pixels / height)


def decades(domain: Sequence[float]) -> list[float]:
    """Return the powers of ten inside the domain, with multiples of each where there are few."""
    powers = range(math.floor(math.log10(domain[0])), math.ceil(math.log10(domain[1])) + 1)
    ticks: list[float] = []
    for multiples in ((1,), (1, 3), (1, 2, 5), range(1, 10)):
        every = sorted(factor * 10.0**p for p in powers for factor in multiples)
        ticks = [t for t in every if domain[0] <= t <= domain[1]]
        if len(ticks) >= 3:
            break
    return ticks


def round_ticks(domain: Sequence[float]) -> list[float]:
    """Return round numbers of a range within a decade or so, at most eight."""
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
        """Return how far up a value stands, from 0 to 1."""
        low, high = self.domain
        return log_share(value, self.domain) if self.log else (value - low) / (high - low)

    def at(self, share: float) -> float:
        """Return the value at a share of the axis, the inverse of `share`."""
        low, high = self.domain
        return low * (high / low) ** share if self.log else low + (high - low) * share

    def moved(self, value: float, pixels: float, height: float = theme.HEIGHT) -> float:
        """Return the value `pixels` below."""
        low, high = self.domain
        return (
            log_moved(value, pixels, self.domain, height)
            if self.log
            else value - (high - low) * pixels / height
        )

    def ticks(self) -> list[float]:
        """Return round numbers, at most eight."""
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
    """Return round numbers about `apart` pixels apart on a logarithmic axis of that height, denser
    where values are small.

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
        if tick > domain[1] or (ticks and tick <= ticks[-1]):
            # At the end, or where a range of hardly any width gives the same tick again.
            return ticks
        ticks.append(tick)
        least = tick * ratio


# ---- labels

# Pixels; wide for a sans-serif.
CHARACTER, LINE, GAP = (0.58 * (theme.FONT_SIZE - 1), 1.2 * (theme.FONT_SIZE - 1), 9)
POINT = 5  # pixels from the middle of a point to its edge
LEADER = 18  # pixels between point and name from which on a line joins them


class Place(NamedTuple):
    """An anchor around a point, in the words of Vega-Lite."""

    align: str
    baseline: str
    dx: int
    dy: int


PLACES = (
    Place("left", "middle", GAP, 0),
    Place("center", "bottom", 0, -GAP),
    Place("center", "top", 0, GAP),
    Place("right", "middle", -GAP, 0),
    Place("left", "bottom", 5, -5),
    Place("left", "top", 5, 5),
    Place("right", "bottom", -5, -5),
    Place("right", "top", -5, 5),
    *(Place("center", *way) for far in (28, 45) for way in (("bottom", 0, -far), ("top", 0, far))),
)


class Box(NamedTuple):
    """Pixels around a point that moves with the width of the plot."""

    x: float  # of the point, as a share of the width
    left: float  # pixels from there
    right: float
    top: float  # pixels from the top of the plot
    bottom: float


Line = tuple[int, int]  # the numbers of the two points that a line joins
Widths = tuple[float, float]  # the narrowest and the widest plot


def place_labels(
    names: Sequence[str],
    xs: Sequence[float],
    ys: Sequence[float],
    *,
    lines: Sequence[Line] = (),
    widths: Widths = (theme.MIDDLE, theme.WIDEST),
    height: float = theme.HEIGHT,
) -> list[Place | None]:
    """Choose an anchor for each name, low points first; x and y are shares of the plot's width and
    height, y from the top.

    Greedy: the best points first, each tries the anchors around it, those that no line crosses
    before the others. The far ones are joined to their point by a thin line. A page changes its
    width, so an anchor must be free in every width of a range; points move linearly with it, which
    makes that a comparison of two intervals. A name without a free anchor is left out; the tooltip
    has it.
    """
    points = [(x, y * height) for x, y in zip(xs, ys)]
    dots = [_around(x, y, GAP) for x, y in points]  # no nearer to another point than to its own
    strokes = [_around(*at, 2) for a, b in lines for at in _between(points[a], points[b])]
    boxes: list[Box] = []
    places: list[Place | None] = [None] * len(names)
    for i in sorted(range(len(names)), key=lambda i: -ys[i]):
        others = dots[:i] + dots[i + 1 :] + boxes
        for avoid in (others + strokes, others):
            places[i] = next(
                (
                    place
                    for place in PLACES
                    if all(
                        _free(box, avoid, widths, height)
                        for box in _boxes(names[i], *points[i], place)
                    )
                ),
                None,
            )
            if places[i] is not None:
                break
        if (place := places[i]) is not None:
            boxes += _boxes(names[i], *points[i], place)
    return places


def label_box(name: str, x: float, y: float, place: Place) -> Box:
    """Return the box that a name would cover at a point."""
    width = CHARACTER * len(name)
    left = place.dx - {"left": 0.0, "center": width / 2, "right": width}[place.align]
    top = y + place.dy - {"top": 0.0, "middle": LINE / 2, "bottom": LINE}[place.baseline]
    return Box(x, left, left + width, top, top + LINE)


def overlap(a: Box, b: Box, widths: Widths) -> bool:
    """Return whether the boxes meet at any width of the range."""
    apart = [(b.x - a.x) * width for width in widths]
    across = min(apart) < a.right - b.left and max(apart) > a.left - b.right
    return across and a.top < b.bottom and b.top < a.bottom


def _boxes(name: str, x: float, y: float, place: Place) -> list[Box]:
    """Return the boxes that a name covers, with the line that leads to it."""
    near, far = y + math.copysign(POINT + 1, place.dy), y + place.dy
    leader = [Box(x, -1, 1, min(near, far), max(near, far))] if abs(place.dy) >= LEADER else []
    return [label_box(name, x, y, place), *leader]


def _around(x: float, y: float, radius: float) -> Box:
    return Box(x, -radius, radius, y - radius, y + radius)


def _between(a: tuple[float, float], b: tuple[float, float]) -> list[tuple[float, float]]:
    """Return points on the line from a to b, about six pixels apart."""
    count = max(int(math.hypot((a[0] - b[0]) * theme.WIDTH, a[1] - b[1]) / 6), 1)
    return [
        (a[0] + (b[0] - a[0]) * k / count, a[1] + (b[1] - a[1]) * k / count)
        for k in range(1, count)
    ]


def _free(box: Box, others: Sequence[Box], widths: Widths, height: float) -> bool:
    inside = all(box.x * w + box.left >= -2 and box.x * w + box.right <= w + 2 for w in widths)
    return (
        inside
        and box.top >= 0
        and box.bottom <= height
        and not any(overlap(box, other, widths) for other in others)
    )


def spread(
    values: Sequence[float], gap: float, low: float = -math.inf, high: float = math.inf
) -> list[float]:
    """Return positions near the values, at least `gap` apart, in the same order and inside
    low..high.

    >>> spread([1.0, 1.0, 5.0], 1.0)
    [0.5, 1.5, 5.0]
    """
    # Members and the middle of each run of touching labels.
    runs: list[tuple[list[int], float]] = []
    for i in sorted(range(len(values)), key=lambda i: values[i]):
        members, middle = [i], values[i]
        while True:
            half = gap * (len(members) - 1) / 2
            middle = min(max(middle, low + half), high - half)
            if (
                not runs
                or middle - runs[-1][1] >= gap * (len(members) + len(runs[-1][0])) / 2 - 1e-9
            ):
                break
            members = runs.pop()[0] + members
            middle = sum(values[j] for j in members) / len(members)
        runs.append((members, middle))
    result = [0.0] * len(values)
    for members, middle in runs:
        for rank, i in enumerate(members):
            result[i] = middle + gap * (rank - (len(members) - 1) / 2)
    return result
