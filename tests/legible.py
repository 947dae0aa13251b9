"""Reads the words of an SVG picture: what they say, where they stand, and which lie on each other."""

import itertools
import re
import xml.etree.ElementTree as ElementTree
from typing import NamedTuple

SVG = "{http://www.w3.org/2000/svg}"
FRAME = ("axis-label", "axis-title", "legend-label", "legend-title", "title-text", "title-subtitle")
WIDE, HIGH = 0.45, 0.7  # of the font's size: a letter, sparingly, and what a line covers


class Word(NamedTuple):
    """One line of text around a plot, and its box in pixels of the picture."""

    text: str
    role: str
    left: float
    right: float
    top: float
    bottom: float

    def meets(self, other: "Word") -> bool:
        beside = self.left < other.right and other.left < self.right
        return beside and self.top < other.bottom and other.top < self.bottom


def words_around(svg: str) -> list[Word]:
    """All that is written around the plots; slanted names are left out."""
    return list(_walk(ElementTree.fromstring(svg), 0.0, 0.0, ""))


def lying_on_each_other(svg: str) -> list[tuple[str, str]]:
    return [(a.text, b.text) for a, b in itertools.combinations(words_around(svg), 2) if a.meets(b)]


def written(svg: str) -> str:
    """All text of the picture, in one line."""
    parts = ElementTree.fromstring(svg).iter(f"{SVG}text")
    return " ".join(
        " ".join(
            "".join(part.itertext())
            if not len(part)
            else " ".join("".join(line.itertext()) for line in part)
            for part in parts
        ).split()
    )


def _walk(element, x, y, role):
    moved = re.search(r"translate\(([-\d.e]+),([-\d.e]+)\)", element.get("transform", ""))
    if moved:
        x, y = x + float(moved[1]), y + float(moved[2])
    role = next(iter(re.findall(r"role-([\w-]+)", element.get("class", ""))), role)
    if element.tag == f"{SVG}text" and role in FRAME and element.get("opacity") != "0":
        yield from _lines(element, x, y, role)
    for child in element:
        yield from _walk(child, x, y, role)


def _lines(element, x, y, role):
    size = float(element.get("font-size", "12px").removesuffix("px"))
    angle = float((re.search(r"rotate\(([-\d.]+)\)", element.get("transform", "")) or [0, "0"])[1])
    lines = [line for line in element if line.tag == f"{SVG}tspan"] or [element]
    for line in lines:
        y += float(line.get("dy", 0)) if line is not element else 0
        text = "".join(line.itertext())
        long = WIDE * size * len(text)
        before = {"middle": long / 2, "end": long}.get(element.get("text-anchor", "start"), 0.0)
        if angle == 0:
            yield Word(text, role, x - before, x - before + long, y - HIGH * size, y)
        elif angle == -90:
            yield Word(text, role, x - HIGH * size, x, y + before - long, y + before)
