"""Colours, fonts and sizes of every picture.

Hues are those of Okabe and Ito, "Color Universal Design" (2008), without their yellow, which is too faint on white,
and with a darker purple, so that it can be read as text. Their order is ours: with the first four, readers of any
colour vision can tell all pairs apart (a test computes it). Costs in bits have their own ramp, whose steps differ in
lightness, so it survives grey printing too.
"""

from __future__ import annotations

import colorsys
import itertools
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

HUES = ("#0072B2", "#D55E00", "#B65A91", "#000000", "#009E73", "#E69F00", "#56B4E9")
INK, FAINT, GRID = "#222222", "#5c5c5c", "#e3e3e3"
SANS = "system-ui, 'Segoe UI', Roboto, 'Liberation Sans', Arial, sans-serif"
MONO = "ui-monospace, Menlo, Consolas, 'Liberation Mono', monospace"
WIDTH, HEIGHT = 640, 360  # pixels of a plot in an image; in a page the width is the window's
NARROW, MIDDLE, WIDEST = (
    300,
    460,
    1100,
)  # pixels of a plot: the least and the most, and from where on there is room
FONT_SIZE = 13

BITS = (0.5, 1.0, 2.0, 4.0, 8.0)  # borders between the steps of the ramp, bits per byte
TOKEN_BITS = (1.0, 3.0, 6.0, 10.0, 14.0)  # the same for words, which cost more
RAMP = ("#ffffff", "#fff1c9", "#fed282", "#fca24d", "#e2632b", "#9c2a1a")
RAMP_INK = (INK, INK, INK, INK, "#ffffff", "#ffffff")
TERMINAL = (
    231,
    230,
    222,
    215,
    166,
    124,
)  # the same among the 256 colours that nearly every terminal has
TERMINAL_INK = (16, 16, 16, 16, 231, 231)


def step(bits: float, borders: Sequence[float] = BITS) -> int:
    """Which colour of the ramp a cost has.

    >>> [step(b) for b in (0.1, 0.5, 3.0, 99.0)]
    [0, 1, 3, 5]
    """
    return bisect_right(borders, bits)


def steps_named(borders: Sequence[float] = BITS) -> list[str]:
    """What each colour of the ramp means.

    >>> steps_named()
    ['under 0.5', '0.5 to 1', '1 to 2', '2 to 4', '4 to 8', '8 and more']
    """
    inner = [f"{a:g} to {b:g}" for a, b in itertools.pairwise(borders)]
    return [f"under {borders[0]:g}", *inner, f"{borders[-1]:g} and more"]


def group_colours(groups: Sequence[str]) -> dict[str, str]:
    """A hue for each group, in the order in which they first come."""
    return {group: HUES[i % len(HUES)] for i, group in enumerate(dict.fromkeys(groups))}


def member_colours(members: Mapping[str, str]) -> dict[str, str]:
    """A colour for each name (name to group): the hue of its group, later members darker.

    >>> member_colours({"a": "x", "b": "y"}) == {"a": HUES[0], "b": HUES[1]}
    True
    """
    hues = group_colours(list(members.values()))
    colours = {}
    for group, hue in hues.items():
        names = [name for name, its in members.items() if its == group]
        for rank, name in enumerate(names):
            colours[name] = (
                hue if len(names) == 1 else _lightness(hue, 0.55 - 0.35 * rank / (len(names) - 1))
            )
    return colours


def _lightness(colour: str, value: float) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    hue, _, saturation = colorsys.rgb_to_hls(red, green, blue)
    return "#" + "".join(
        f"{round(255 * c):02x}" for c in colorsys.hls_to_rgb(hue, value, saturation * 0.9)
    )


def config(font: str = SANS) -> dict[str, Any]:
    """The Vega-Lite config that every chart gets."""
    return {
        "font": font,
        "background": "white",
        "padding": {"left": 8, "top": 8, "right": 16, "bottom": 8},
        "view": {"stroke": None},
        "axis": {
            "labelFontSize": FONT_SIZE - 1,
            "titleFontSize": FONT_SIZE,
            "titleFontWeight": "normal",
            "labelColor": INK,
            "titleColor": INK,
            "gridColor": GRID,
            "domainColor": "#8a8a8a",
            "tickColor": "#8a8a8a",
            "titlePadding": 8,
            "labelFlush": False,
        },
        "legend": {
            "labelFontSize": FONT_SIZE - 1,
            "titleFontSize": FONT_SIZE,
            "titleFontWeight": "normal",
            "orient": "top",
            "labelColor": INK,
            "titleColor": INK,
            "columns": 4,
            "symbolSize": 80,
            "labelLimit": 240,
        },
        "title": {
            "fontSize": FONT_SIZE + 2,
            "color": INK,
            "anchor": "start",
            "fontWeight": "bold",
            "offset": 10,
            "subtitleFontSize": FONT_SIZE - 1,
            "subtitleColor": FAINT,
            "subtitleFontWeight": "normal",
        },
        "text": {"fontSize": FONT_SIZE - 1, "color": INK},
        "point": {"filled": True, "size": 70},
        "line": {"strokeWidth": 2},
    }
