"""Pairs of words as arrows (an analogy is a parallelogram), a word among its neighbours as a star of
two rings, and how far words lean along a direction, before and after debiasing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from seqloom.charts import theme
from seqloom.charts.scales import LINE
from seqloom.charts.word_map import (
    DOT,
    PAGE,
    Name,
    Spot,
    beside,
    movable,
    name_box,
    place_names,
    scale_of,
    shares_of,
)

WIDTH, HEIGHT = 720, 480  # pixels of a picture of arrows
STAR = 680  # pixels of a star, both ways
# How far out the rings lie; words that are more alike lie nearer.
FIRST, SECOND = ((0.30, 0.62), (0.88, 1.0))
EDGE = 1.24  # of the plot, so that names outside the rings have room
# Sizes of names, of the letters of a map; the bold ones are wider too.
NAME_SCALES = {"word": 1.5, "near": 1.18, "further": 0.92}


class Arrow(NamedTuple):
    """A pair of words, and where both are."""

    start: str
    end: str
    x: float
    y: float
    x2: float
    y2: float


class Branch(NamedTuple):
    """A neighbour, its cosine with the word in the middle, and neighbours of its own with their cosines."""

    word: str
    cosine: float
    further: Sequence[tuple[str, float]] = ()


def analogy_chart(
    arrows: Sequence[Arrow], titles: tuple[str, str] = ("", ""), *, page: bool = False
) -> Any:
    """Draw each pair as an arrow; two pairs are closed to a four-sided figure, with the point that
    the analogy asks for.
    """
    import altair as alt

    if not arrows:
        raise ValueError("no pairs: there is nothing to draw")
    spots = [
        spot
        for a in arrows
        for spot in (Spot(a.start, a.x, a.y, "from"), Spot(a.end, a.x2, a.y2, "to"))
    ]
    two = len(arrows) == 2
    first, second = arrows[0], arrows[-1]
    wanted = (second.x + first.x2 - first.x, second.y + first.y2 - first.y)
    aim = Spot(f"{first.end} - {first.start} + {second.start}", *wanted, "aim")
    everywhere = [*spots, *([aim] if two else [])]
    x, y = (scale_of(alt, [getattr(s, axis) for s in everywhere], 0.16) for axis in ("x", "y"))
    widths = PAGE if page else (WIDTH, WIDTH)
    sides = (
        [(first.x, first.y, second.x, second.y), (first.x2, first.y2, second.x2, second.y2)]
        if two
        else []
    )
    avoid = np.concatenate([_stroke(line, x, y) for line in ([a[2:] for a in arrows] + sides)])
    unique = list({spot.word: spot for spot in everywhere}.values())
    names = place_names(
        [s.word for s in unique],
        *shares_of(unique, x, y),
        widths=widths,
        height=HEIGHT,
        avoid=avoid,
    )
    starts = {a.start for a in arrows}
    rows = [
        spot._asdict() | _moved(name, 0 if spot.word in starts else 3)._asdict()
        for spot, name in zip(unique, names)
    ]
    across, down = (
        alt.Axis(labels=False, ticks=False, grid=False, domainColor=theme.GRID, title=title or None)
        for title in titles
    )
    position: dict[str, Any] = {
        "x": alt.X("x:Q", scale=x, axis=across),
        "y": alt.Y("y:Q", scale=y, axis=down),
    }
    lines = alt.Chart(
        theme.table([a._asdict() | {"pair": f"{a.start} to {a.end}"} for a in arrows])
    )
    shafts = lines.mark_rule(strokeWidth=1.8, color=theme.HUES[0], opacity=0.75).encode(
        **position, x2="x2:Q", y2="y2:Q", tooltip=[alt.Tooltip("pair:N")]
    )
    heads = lines.mark_point(
        shape="triangle",
        size=130,
        filled=True,
        opacity=1,
        color=theme.HUES[0],
        angle=alt.ExprRef(expr=_angle(x, y)),
    ).encode(x=alt.X("x2:Q", scale=x), y=alt.Y("y2:Q", scale=y))
    dots = (
        alt.Chart(theme.table([row for row in rows if row["word"] in starts]))
        .mark_circle(size=math.pi * DOT**2 * 1.6, opacity=1, color=theme.INK)
        .encode(**position, tooltip=[alt.Tooltip("word:N")])
    )
    colour = alt.condition("datum.group == 'aim'", alt.value(theme.HUES[1]), alt.value(theme.INK))
    text = (
        alt.Chart(theme.table(rows))
        .mark_text(**beside(alt))
        .encode(**position, text="word:N", color=colour)
    )
    closing = _closing(alt, sides, aim, position) if two else []
    return alt.layer(*closing, shafts, movable(alt, dots, page), heads, text).properties(
        height=HEIGHT, **({} if page else {"width": WIDTH})
    )


def _stroke(line: Sequence[float], x: Any, y: Any) -> np.ndarray:
    """Return points along a line, a few pixels apart, as shares of the plot (n, 2); its ends
    belong to the names there.
    """
    (left, right), (top, bottom) = shares_of(
        [Spot("", line[0], line[1]), Spot("", line[2], line[3])], x, y
    )
    length = math.hypot((right - left) * WIDTH, (bottom - top) * HEIGHT)
    away = np.arange(10, max(length - 10, 0), 4) / max(length, 1)
    return np.c_[left + (right - left) * away, top + (bottom - top) * away]


def _moved(name: Name, pixels: float) -> Name:
    """Move a name a little further from its point: the head of an arrow is larger than a dot."""
    return name._replace(
        dx=name.dx + math.copysign(pixels, name.dx) * (name.dx != 0),
        dy=name.dy + math.copysign(pixels, name.dy) * (name.dy != 0),
    )


def _angle(x: Any, y: Any) -> str:
    """Return the expression for an arrow's angle as drawn in a plot of any width, in degrees
    clockwise from the top.
    """
    wide, high = (scale.domain[1] - scale.domain[0] for scale in (x, y))
    return (
        f"90 - atan2((datum.y2 - datum.y) * {HEIGHT / high}, "
        f"(datum.x2 - datum.x) * width / {wide}) * 180 / PI"
    )


def _closing(
    alt: Any, sides: Sequence[Sequence[float]], aim: Spot, position: dict[str, Any]
) -> list[Any]:
    """Draw the two other sides, and the point where the first step leads from the second start."""
    rows = [dict(zip(("x", "y", "x2", "y2"), side)) for side in sides]
    return [
        alt.Chart(theme.table(rows))
        .mark_rule(strokeDash=[5, 4], color="#8a8a8a")
        .encode(**position, x2="x2:Q", y2="y2:Q"),
        alt.Chart(theme.table([aim._asdict()]))
        .mark_point(shape="cross", size=90, angle=45, color=theme.HUES[1], opacity=1, filled=True)
        .encode(**position, tooltip=[alt.Tooltip("word:N")]),
    ]


def star_chart(word: str, branches: Sequence[Branch], *, page: bool = False) -> Any:
    """Draw the word in the middle, its neighbours around it, theirs outside; a shorter line is a
    larger cosine.
    """
    import altair as alt

    if not branches:
        raise ValueError("no neighbours: there is nothing to draw")
    spots, links = _rings(word, branches)
    x, y = (alt.Scale(domain=[-EDGE, EDGE], nice=False, zero=False) for _ in range(2))
    rows = [spot._asdict() | name for spot, name in zip(spots, _outward(spots))]
    position: dict[str, Any] = {
        "x": alt.X("x:Q", scale=x, axis=None),
        "y": alt.Y("y:Q", scale=y, axis=None),
    }
    colours = alt.Color(
        "group:N",
        legend=None,
        scale=alt.Scale(
            domain=["word", "near", "further"], range=[theme.HUES[1], theme.HUES[0], theme.FAINT]
        ),
    )
    lines = (
        alt.Chart(theme.table(links))
        .mark_rule(color="#b0b0b0")
        .encode(
            **position,
            x2="x2:Q",
            y2="y2:Q",
            strokeWidth=alt.StrokeWidth(
                "cosine:Q",
                legend=None,
                scale=alt.Scale(domain=[0.3, 1.0], range=[0.5, 2.5], clamp=True),
            ),
        )
    )
    base = alt.Chart(theme.table(rows)).encode(
        **position,
        color=colours,
        tooltip=[alt.Tooltip("word:N"), alt.Tooltip("about:N", title="cosine")],
    )
    sizes = alt.Size(
        "group:N",
        legend=None,
        scale=alt.Scale(domain=["word", "near", "further"], range=[150, 70, 22]),
    )
    weight = alt.ExprRef(expr="datum.group == 'further' ? 'normal' : 'bold'")
    size = alt.ExprRef(
        expr=f"datum.group == 'word' ? {theme.FONT_SIZE + 4} : datum.group == 'near' ? {theme.FONT_SIZE} : "
        f"{theme.FONT_SIZE - 2}"
    )
    halo = base.mark_text(
        fontWeight=weight,
        fontSize=size,
        stroke="white",
        strokeWidth=4,
        strokeJoin="round",
        color="white",
        **beside(alt),
    ).encode(text="word:N", color=alt.value("white"))
    text = base.mark_text(fontWeight=weight, fontSize=size, **beside(alt)).encode(text="word:N")
    return alt.layer(
        lines, movable(alt, base.mark_circle(opacity=1).encode(size=sizes), page), halo, text
    ).properties(height=STAR, **({} if page else {"width": STAR}))


def _rings(word: str, branches: Sequence[Branch]) -> tuple[list[Spot], list[dict[str, float]]]:
    """Put the words on rings, where every branch has a sector as wide as it has leaves."""
    spots, links = [Spot(word, 0.0, 0.0, "word", "1.000")], []
    inner = _depths([b.cosine for b in branches], FIRST)
    outer = _depths([c for b in branches for _, c in b.further] or [1.0], SECOND)
    weights = np.array([max(len(b.further), 1.2) for b in branches])
    ends = np.cumsum(weights) / weights.sum() * 2 * math.pi
    leaf = 0
    for branch, begin, end, out in zip(branches, np.r_[0.0, ends[:-1]], ends, inner):
        turn = (begin + end) / 2
        at = out * math.cos(turn), out * math.sin(turn)
        spots.append(Spot(branch.word, *at, "near", f"{branch.cosine:.3f}"))
        links.append({"x": 0.0, "y": 0.0, "x2": at[0], "y2": at[1], "cosine": branch.cosine})
        for i, (name, cosine) in enumerate(branch.further):
            its = begin + (end - begin) * (i + 0.5) / len(branch.further)
            tip = outer[leaf] * math.cos(its), outer[leaf] * math.sin(its)
            leaf += 1
            spots.append(Spot(name, *tip, "further", f"{cosine:.3f} with {branch.word}"))
            links.append({"x": at[0], "y": at[1], "x2": tip[0], "y2": tip[1], "cosine": cosine})
    return spots, links


def _depths(cosines: Sequence[float], ring: tuple[float, float]) -> list[float]:
    low, high = min(cosines), max(cosines)
    return [
        ring[1] - (ring[1] - ring[0]) * ((c - low) / (high - low) if high > low else 0.5)
        for c in cosines
    ]


def _outward(spots: Sequence[Spot]) -> list[dict[str, Any]]:
    """Put the names of the ring outside their points, away from the middle, and where another name
    or point is in the way, at another side.
    """
    pixels = np.array([[spot.x, -spot.y] for spot in spots]) * STAR / (2 * EDGE)
    dots = [_around(at, np.array([-1, 1, -1, 1]) * (DOT + 1)) for at in pixels]
    placements: list[dict[str, Any]] = []
    taken: list[np.ndarray] = []
    for i, spot in enumerate(spots):
        scale = NAME_SCALES[spot.group]
        boxes = [
            (place, _around(pixels[i], name_box(spot.word, **place, scale=scale)))
            for place in _sides(spot)
        ]
        others = [*taken, *dots[:i], *dots[i + 1 :]]
        free = [pair for pair in boxes if not any(_meet(pair[1], other) for other in others)]
        place, box = (free or boxes)[0]
        placements.append(place)
        taken.append(box)
    return placements


def _sides(spot: Spot) -> list[dict[str, Any]]:
    """List the places of a name, the best one first; the name in the middle has only one."""
    gap = 7 if spot.group == "further" else 10
    if spot.group == "word":
        return [{"align": "center", "baseline": "bottom", "dx": 0, "dy": -10}]
    side, end = ("left" if spot.x > 0 else "right"), ("bottom" if spot.y > 0 else "top")
    dx, dy = math.copysign(gap, spot.x), -math.copysign(gap, spot.y)
    beside = {"align": side, "baseline": "middle", "dx": dx, "dy": 0}
    above = {"align": "center", "baseline": end, "dx": 0, "dy": dy}
    corner = {"align": side, "baseline": end, "dx": dx / 2, "dy": dy / 2}
    flat = abs(math.cos(math.atan2(spot.y, spot.x))) > 0.35
    further = [above | {"dy": dy + math.copysign(k * LINE, dy)} for k in (1, 2)]
    return [*([beside, corner, above] if flat else [above, corner, beside]), *further]


def _around(at: np.ndarray, box: np.ndarray) -> np.ndarray:
    return box + np.repeat(at, 2)


def _meet(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3])


# ---- leaning

ROW = 15  # pixels of a word
MAX_WORDS = 40  # words; of more, those that lean furthest to either side


def leaning(leans: Mapping[str, Sequence[float]], ends: tuple[str, str]) -> Any:
    """Draw words below each other by cosine, those nearest to ends[0] first; a second number of a
    word is the cosine after.
    """
    import altair as alt

    if not leans:
        raise ValueError("no words: there is nothing to draw")
    words = sorted(leans, key=lambda word: -leans[word][0])
    if len(words) > MAX_WORDS:
        words = words[: MAX_WORDS // 2] + words[-(MAX_WORDS - MAX_WORDS // 2) :]
    both = len(leans[words[0]]) > 1
    rows = [
        {
            "word": word,
            "before": leans[word][0],
            "after": leans[word][-1],
            "zero": 0.0,
            "side": f"nearer to {ends[0] if leans[word][0] > 0 else ends[1]}",
        }
        for word in words
    ]
    far = 1.08 * max(abs(lean) for word in words for lean in leans[word]) or 1.0
    sides = [f"nearer to {end}" for end in ends]
    title = f"cosine with the direction from {ends[1]} to {ends[0]}" + (
        "; filled: before, hollow: after" if both else ""
    )
    x = alt.X(
        "before:Q",
        title=title,
        axis=alt.Axis(tickCount=7),
        scale=alt.Scale(domain=[-far, far], nice=False),
    )
    base = alt.Chart(theme.table(rows)).encode(
        y=alt.Y(
            "word:N",
            sort=words,
            title=None,
            axis=alt.Axis(ticks=False, domain=False, labelPadding=8, grid=False),
        ),
        color=alt.Color(
            "side:N",
            title=None,
            scale=alt.Scale(domain=sides, range=list(theme.HUES[:2])),
            legend=alt.Legend(symbolType="circle", symbolOpacity=1),
        ),
        tooltip=[
            alt.Tooltip("word:N"),
            alt.Tooltip("before:Q", format="+.3f", title="before" if both else "cosine"),
            *([alt.Tooltip("after:Q", format="+.3f")] if both else []),
        ],
    )
    zero = alt.Chart(theme.table([{"before": 0}])).mark_rule(color="#8a8a8a").encode(x=x)
    stems = base.mark_rule(strokeWidth=1.5, opacity=0.45).encode(
        x=x, x2="after:Q" if both else "zero:Q"
    )
    dots = base.mark_point(size=50, opacity=1).encode(x=x)
    after = base.mark_point(size=42, opacity=1, filled=False, fill="white", strokeWidth=1.5).encode(
        x=alt.X("after:Q", scale=alt.Scale(domain=[-far, far], nice=False))
    )
    return alt.layer(zero, stems, dots, *([after] if both else [])).properties(
        height=max(ROW * len(rows), 60)
    )
