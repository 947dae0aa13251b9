"""Where the names of points go so that none lies on another, on a point, or outside the plot.

Greedy: the best points first, each tries places around it, those that no line crosses before the others. The far
places are joined to their point by a thin line. A page changes its width, so a place must be free in every width of a
range; points move linearly with it, which makes that a comparison of two intervals. A name without a free place is left
out; the tooltip has it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from seqloom.charts import theme

CHARACTER, LINE, GAP = (
    0.58 * (theme.FONT_SIZE - 1),
    1.2 * (theme.FONT_SIZE - 1),
    9,
)  # pixels; wide for a sans-serif
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
    """Pixels around a place that moves with the width of the plot."""

    x: float  # of the place, as a share of the width
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
    """A place for each name; x and y are shares of the plot's width and height, y from the top, low points first."""
    points = [(x, y * height) for x, y in zip(xs, ys)]
    dots = [_around(x, y, GAP) for x, y in points]  # no nearer to another point than to its own
    strokes = [_around(*at, 2) for a, b in lines for at in _between(points[a], points[b])]
    taken: list[Box] = []
    places: list[Place | None] = [None] * len(names)
    for i in sorted(range(len(names)), key=lambda i: -ys[i]):
        others = dots[:i] + dots[i + 1 :] + taken
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
            taken += _boxes(names[i], *points[i], place)
    return places


def label_box(name: str, x: float, y: float, place: Place) -> Box:
    """What a name would cover at a point."""
    width = CHARACTER * len(name)
    left = place.dx - {"left": 0.0, "center": width / 2, "right": width}[place.align]
    top = y + place.dy - {"top": 0.0, "middle": LINE / 2, "bottom": LINE}[place.baseline]
    return Box(x, left, left + width, top, top + LINE)


def overlap(a: Box, b: Box, widths: Widths) -> bool:
    """Whether the boxes meet in any width of the range."""
    apart = [(b.x - a.x) * width for width in widths]
    across = min(apart) < a.right - b.left and max(apart) > a.left - b.right
    return across and a.top < b.bottom and b.top < a.bottom


def _boxes(name: str, x: float, y: float, place: Place) -> list[Box]:
    """What a name covers, with the line that leads to it."""
    near, far = y + math.copysign(POINT + 1, place.dy), y + place.dy
    leader = [Box(x, -1, 1, min(near, far), max(near, far))] if abs(place.dy) >= LEADER else []
    return [label_box(name, x, y, place), *leader]


def _around(x: float, y: float, radius: float) -> Box:
    return Box(x, -radius, radius, y - radius, y + radius)


def _between(a: tuple[float, float], b: tuple[float, float]) -> list[tuple[float, float]]:
    """Places on the line from a to b, about six pixels apart."""
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
    """Positions near the values with at least `gap` between them, in the same order and inside low..high.

    >>> spread([1.0, 1.0, 5.0], 1.0)
    [0.5, 1.5, 5.0]
    """
    runs: list[
        tuple[list[int], float]
    ] = []  # members and the middle of each run of touching labels
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
