"""Words as points of a plane, near where they are alike; names of the important ones, all of them on hover.

A name is drawn where it covers neither another name nor a point; words are asked in their order, so
the first, which are the frequent or the chosen ones, get their names first. A page can be zoomed:
every name has a magnification from which on it has room, and appears there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from seqloom.charts import theme
from seqloom.charts.heat import text_width
from seqloom.charts.scales import LINE

WIDTH, HEIGHT = 860, 600  # pixels of a map in an image
PAGE = (theme.MIDDLE, theme.WIDEST)  # of a page; its window may have any width between
ZOOMS = (1, 2, 4, 8, 16)  # magnifications at which names may appear
DOT = 3.2  # pixels from the middle of a point to its edge
NEVER = 1000  # a magnification that nobody reaches
FADED = 0.8


class Spot(NamedTuple):
    """A word, where it is, and the group that shares its colour."""

    word: str
    x: float
    y: float
    group: str = ""
    about: str = ""  # what a page tells about it


class Name(NamedTuple):
    """Where a name stands beside its point, and from which magnification on."""

    align: str
    baseline: str
    dx: float
    dy: float
    zoom: int


_NEAR, _ASIDE = DOT + 3.5, DOT + 0.5
BESIDE = (
    ("left", "middle", _NEAR, 0.0),
    ("right", "middle", -_NEAR, 0.0),
    ("center", "bottom", 0.0, -_NEAR),
    ("center", "top", 0.0, _NEAR),
    ("left", "bottom", _ASIDE, -_ASIDE),
    ("left", "top", _ASIDE, _ASIDE),
    ("right", "bottom", -_ASIDE, -_ASIDE),
    ("right", "top", -_ASIDE, _ASIDE),
)


def word_map(
    spots: Sequence[Spot], titles: tuple[str, str] = ("", ""), *, page: bool = False
) -> Any:
    """Draw all words in one plane; with `page` the names fit any window width, and the map can be
    zoomed and moved.
    """
    import altair as alt

    if not spots:
        raise ValueError("no words: there is nothing to draw")
    x, y = (scale_of(alt, [getattr(spot, axis) for spot in spots]) for axis in ("x", "y"))
    names = place_names(
        [spot.word for spot in spots],
        *shares_of(spots, x, y),
        widths=PAGE if page else (WIDTH, WIDTH),
        height=HEIGHT,
        zooms=ZOOMS if page else (1,),
    )
    rows = [spot._asdict() | name._asdict() for spot, name in zip(spots, names)]
    across, down = (
        alt.Axis(labels=False, ticks=False, grid=False, domainColor=theme.GRID, title=title or None)
        for title in titles
    )
    base = alt.Chart(theme.table(rows)).encode(
        x=alt.X("x:Q", scale=x, axis=across),
        y=alt.Y("y:Q", scale=y, axis=down),
        color=group_colour(alt, spots),
        tooltip=[
            alt.Tooltip("word:N"),
            *([alt.Tooltip("group:N")] if len({s.group for s in spots}) > 1 else []),
            *([alt.Tooltip("about:N")] if any(s.about for s in spots) else []),
        ],
    )
    points = base.mark_circle(size=math.pi * DOT**2, opacity=FADED, clip=True)
    text = base.mark_text(clip=True, **beside(alt)).encode(text="word:N")
    if not page:
        return alt.layer(points, text.transform_filter("datum.zoom == 1")).properties(
            width=WIDTH, height=HEIGHT
        )
    span = x.domain[1] - x.domain[0]
    seen = f"datum.zoom <= (isArray(zoom.x) ? {span} / abs(zoom.x[1] - zoom.x[0]) : 1) * 1.01"
    text = text.encode(opacity=alt.condition(seen, alt.value(1), alt.value(0)))
    return alt.layer(movable(alt, points, page), text).properties(height=HEIGHT)


def movable(alt: Any, layer: Any, page: bool) -> Any:
    """Make a layer of a page zoom by the wheel, move by dragging and reset by a double click."""
    return layer.add_params(alt.selection_interval(bind="scales", name="zoom")) if page else layer


def beside(alt: Any) -> dict[str, Any]:
    """Return the options that position every name: the fields of `Name`."""
    return {key: alt.ExprRef(expr=f"datum.{key}") for key in ("align", "baseline", "dx", "dy")}


def group_colour(alt: Any, spots: Sequence[Spot]) -> Any:
    """Give each group a hue, with a legend only where there are several."""
    colours = theme.group_colours([spot.group for spot in spots])
    columns = max(1, min(5, 110 // (max(map(len, colours)) + 6)))
    legend = alt.Legend(
        title=None, symbolType="circle", symbolOpacity=1, columns=columns, labelLimit=400
    )
    return alt.Color(
        "group:N",
        scale=alt.Scale(domain=list(colours), range=list(colours.values())),
        legend=legend if len(colours) > 1 else None,
    )


def place_names(
    words: Sequence[str],
    xs: np.ndarray,
    ys: np.ndarray,
    *,
    widths: tuple[float, float],
    height: float,
    zooms: Sequence[int] = (1,),
    avoid: np.ndarray | None = None,
) -> list[Name]:
    """Choose a position for each name; x and y are shares of the plot, y from the top.

    A name must be free in every width of a window between the two. `avoid`: further points (n, 2)
    that no name may cover.
    """
    points = np.c_[xs, ys]
    dots = points if avoid is None else np.concatenate([points, avoid])
    names: dict[int, Name] = {}
    # Boxes of the names that are placed: left, right, top, bottom in pixels from their point.
    boxes = np.empty((len(words), 4))
    for zoom in zooms:
        size = np.array([[width * zoom, height * zoom] for width in widths])  # (2, 2)
        for i, word in enumerate(words):
            if i in names:
                continue
            for align, baseline, dx, dy in BESIDE:
                box = name_box(word, align, baseline, dx, dy)
                placed = list(names)
                if zoom == 1 and not _inside(box, points[i], size):
                    continue
                if _hits(
                    box,
                    points[i],
                    np.delete(dots, i, axis=0),
                    np.array([-DOT, DOT, -DOT, DOT]),
                    size,
                ):
                    continue
                if _hits(box, points[i], points[placed], boxes[placed].T, size):
                    continue
                if _hits(
                    np.array([-DOT, DOT, -DOT, DOT]),
                    points[i],
                    points[placed],
                    boxes[placed].T,
                    size,
                ):
                    break  # a name lies on the point itself
                names[i], boxes[i] = Name(align, baseline, dx, dy, zoom), box
                break
    return [names.get(i, Name(*BESIDE[0], NEVER)) for i in range(len(words))]


def name_box(
    word: str, align: str, baseline: str, dx: float, dy: float, scale: float = 1.0
) -> np.ndarray:
    """Return left, right, top and bottom of a name in pixels from its point; `scale`: of its
    letters.
    """
    width, line = scale * text_width(word), scale * LINE
    left = dx - {"left": 0.0, "center": width / 2, "right": width}[align]
    top = dy - {"top": 0.0, "middle": line / 2, "bottom": line}[baseline]
    return np.array([left, left + width, top, top + line])


def _hits(
    box: np.ndarray, point: np.ndarray, others: np.ndarray, theirs: np.ndarray, size: np.ndarray
) -> bool:
    """Return whether a box around a point meets boxes (4, n) or one box (4,) around other points
    at any width.
    """
    away = others - point  # (n, 2)
    across = [away[:, 0] * width for width in size[:, 0]]
    down = away[:, 1] * size[0, 1]
    left, right, top, bottom = theirs
    beside = (np.minimum(*across) + left < box[1]) & (np.maximum(*across) + right > box[0])
    return bool((beside & (down + top < box[3]) & (down + bottom > box[2])).any())


def _inside(box: np.ndarray, point: np.ndarray, size: np.ndarray) -> bool:
    across, down = point[0] * size[:, 0], point[1] * size[0, 1]
    return bool(
        (across + box[0] >= 0).all()
        and (across + box[1] <= size[:, 0]).all()
        and down + box[2] >= 0
        and down + box[3] <= size[0, 1]
    )


def scale_of(alt: Any, values: Sequence[float], margin: float = 0.06) -> Any:
    """Make a scale that reaches a little further than its values."""
    low, high = min(values), max(values)
    room = margin * (high - low) or 1.0
    return alt.Scale(domain=[low - room, high + room], nice=False, zero=False)


def shares_of(spots: Sequence[Spot], x: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return how far along the plot each word is, and how far down from its top."""
    across = np.array([(spot.x - x.domain[0]) / (x.domain[1] - x.domain[0]) for spot in spots])
    down = np.array([(y.domain[1] - spot.y) / (y.domain[1] - y.domain[0]) for spot in spots])
    return across, down
