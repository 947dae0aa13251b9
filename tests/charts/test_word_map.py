"""Maps of words: no name on another or on a point, in any width and zoom; arrows, stars and
leanings hold their numbers.
"""

import itertools
import json
import math

import numpy as np
import pytest

from seqloom.charts.heat import text_width
from seqloom.charts.scales import LINE
from seqloom.charts.theme import png, specification, svg
from seqloom.charts.word_graph import (
    MAX_WORDS,
    STAR,
    Arrow,
    Branch,
    analogy_chart,
    leaning,
    star_chart,
)
from seqloom.charts.word_map import DOT, NEVER, PAGE, ZOOMS, Name, Spot, place_names, word_map


def rectangle(word, name, x, y, scale=1.0):
    """What a name covers when its point is at pixel (x, y), by the meaning of Vega's words."""
    width, line = scale * text_width(word), scale * LINE
    left = {"left": x + name.dx, "center": x + name.dx - width / 2, "right": x + name.dx - width}[
        name.align
    ]
    top = {"top": y + name.dy, "middle": y + name.dy - line / 2, "bottom": y + name.dy - line}[
        name.baseline
    ]
    return left, top, left + width, top + line


def meet(a, b):
    return a[0] < b[2] - 1e-6 and b[0] < a[2] - 1e-6 and a[1] < b[3] - 1e-6 and b[1] < a[3] - 1e-6


@pytest.mark.parametrize(("widths", "zooms"), [((600, 600), (1,)), (PAGE, ZOOMS[:3])])
@pytest.mark.parametrize("seed", range(4))
def test_names_lie_on_nothing(seed, widths, zooms):
    rng = np.random.default_rng(seed)
    words = ["n" * int(k) for k in rng.integers(2, 12, 60)]
    xs, ys = rng.beta(2, 2, 60), rng.beta(2, 2, 60)
    names = place_names(words, xs, ys, widths=widths, height=400, zooms=zooms)
    for zoom, width in itertools.product(zooms, np.linspace(*widths, 7)):
        drawn = [i for i in range(60) if names[i].zoom <= zoom]
        boxes = {
            i: rectangle(words[i], names[i], xs[i] * width * zoom, ys[i] * 400 * zoom)
            for i in drawn
        }
        for i, j in itertools.combinations(drawn, 2):
            assert not meet(boxes[i], boxes[j])
        for i, j in itertools.product(drawn, range(60)):
            x, y = xs[j] * width * zoom, ys[j] * 400 * zoom
            assert i == j or not meet(boxes[i], (x - DOT, y - DOT, x + DOT, y + DOT))
        if zoom == 1:
            assert all(
                b[0] >= 0 and b[1] >= 0 and b[2] <= width and b[3] <= 400 for b in boxes.values()
            )
    assert sum(name.zoom == 1 for name in names) > 15
    assert (
        sum(name.zoom < NEVER for name in names) > sum(name.zoom == 1 for name in names)
        or len(zooms) == 1
    )


def test_the_first_words_are_named_first():
    names = place_names(
        ["first", "second"],
        np.array([0.5, 0.5005]),
        np.array([0.5, 0.5005]),
        widths=(300, 300),
        height=300,
    )
    assert names[0].zoom == 1
    alone = place_names(
        ["middle"], np.array([0.5]), np.array([0.5]), widths=(300, 300), height=300
    )[0]
    assert alone[:4] == ("left", "middle", alone.dx, 0.0)
    blocked = place_names(
        ["middle"],
        np.array([0.5]),
        np.array([0.5]),
        widths=(300, 300),
        height=300,
        avoid=np.array([[0.5 + 15 / 300, 0.5]]),
    )[0]  # a line goes where the name would be
    assert blocked.align == "right"


def test_a_map_draws_every_word_and_names_by_group():
    rng = np.random.default_rng(1)
    spots = [
        Spot(f"w{i}", *rng.normal(size=2).tolist(), "even" if i % 2 == 0 else "odd")
        for i in range(40)
    ]
    chart = word_map(spots, ("along", "up"))
    drawn = svg(chart)
    assert "along" in drawn
    assert ">even<" in drawn
    spec = specification(chart)
    rows = (
        next(
            layer["data"]["values"] for layer in spec["layer"] if "values" in layer.get("data", {})
        )
        if "datasets" not in spec
        else next(iter(spec["datasets"].values()))
    )
    assert {row["word"]: (row["x"], row["y"]) for row in rows} == {
        s.word: (s.x, s.y) for s in spots
    }
    for row in rows:
        assert (f">{row['word']}<" in drawn) == (row["zoom"] == 1)
    assert ">even<" not in svg(
        word_map([s._replace(group="even") for s in spots])
    )  # one group needs no legend


def test_a_page_can_be_zoomed():
    spots = [Spot(f"word{i}", 0.001 * i, 0.0) for i in range(30)] + [Spot("far", 1.0, 1.0)]
    spec = specification(word_map(spots, page=True), responsive=True)
    assert spec["width"] == "container"
    assert '"bind": "scales"' in json.dumps(spec)
    assert "zoom.x[1]" in json.dumps(spec)
    word_map([Spot("a", 0.0, 0.0), Spot("b", 0.0, 0.0)])  # one place for all is no error
    with pytest.raises(ValueError, match="no words"):
        word_map([])


def test_an_analogy_is_closed_and_has_its_aim():
    arrows = [Arrow("man", "king", 0.0, 0.0, 2.0, 0.5), Arrow("woman", "queen", 0.0, 1.0, 2.5, 1.0)]
    drawn = svg(analogy_chart(arrows))
    for word in ("man", "king", "woman", "queen", "king - man + woman"):
        assert f">{word}<" in drawn
    flat = json.dumps(specification(analogy_chart(arrows)))
    assert '"x": 2.0, "y": 1.5' in flat  # woman + (king - man)
    many = svg(analogy_chart([*arrows, Arrow("boy", "prince", 1.0, 0.2, 2.2, 0.1)], page=True))
    assert ">prince<" in many
    assert " + " not in many


def test_a_star_holds_both_rings_near_ones_nearer():
    branches = [
        Branch("drum", 0.9, [("snare", 0.8)]),
        Branch("flute", 0.5, []),
        Branch("harp", 0.7, [("lyre", 0.9), ("lute", 0.6)]),
    ]
    drawn = svg(star_chart("music", branches))
    for word in ("music", "drum", "snare", "flute", "harp", "lyre", "lute"):
        assert f">{word}<" in drawn
    rows = {
        row["word"]: math.hypot(row["x"], row["y"])
        for values in _data(star_chart("music", branches))
        for row in values
        if "word" in row
    }
    assert (
        0
        == rows["music"]
        < rows["drum"]
        < rows["harp"]
        < rows["flute"]
        < rows["lyre"]
        < rows["lute"]
    )
    assert png(star_chart("a", [Branch("b", 1.0)], page=True)).startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="no neighbours"):
        star_chart("a", [])


@pytest.mark.parametrize("seed", range(6))
def test_no_name_of_a_star_lies_on_another_or_on_a_point(seed):
    rng = np.random.default_rng(seed)
    words = ["n" * int(k) for k in rng.integers(3, 12, 48)]
    branches = [
        Branch(words[4 * i], rng.uniform(0.5, 0.9), [(w, rng.uniform(0.5, 0.9)) for w in further])
        for i, further in enumerate(words[4 * i + 1 : 4 * i + 4] for i in range(12))
    ]
    (rows,) = (its for its in _data(star_chart("music", branches)) if "align" in its[0])
    places = [(STAR * row["x"] / 2.48, -STAR * row["y"] / 2.48) for row in rows]
    further = [i for i, row in enumerate(rows) if row["group"] == "further"]
    boxes = {
        i: rectangle(rows[i]["word"], Name(*(rows[i][k] for k in PLACE), 1), *places[i], 0.92)
        for i in further
    }
    assert not [(i, j) for i, j in itertools.combinations(further, 2) if meet(boxes[i], boxes[j])]
    dots = [(x - DOT, y - DOT, x + DOT, y + DOT) for x, y in places]
    assert not [(i, j) for i in further for j in range(len(rows)) if meet(boxes[i], dots[j])]


PLACE = ("align", "baseline", "dx", "dy")


def test_leanings_before_and_after():
    leans = {f"w{i}": [i / 100 - 0.3, 0.0] for i in range(60)}
    (rows,) = (values for values in _data(leaning(leans, ("she", "he"))) if "word" in values[0])
    assert len(rows) == MAX_WORDS
    assert [row["word"] for row in rows][:2] == ["w59", "w58"]
    assert rows[0]["side"] == "nearer to she"
    assert rows[-1]["side"] == "nearer to he"
    drawn = svg(leaning(leans, ("she", "he")))
    assert "hollow: after" in drawn
    assert "hollow" not in svg(leaning({"a": [0.1], "b": [-0.2]}, ("she", "he")))


def _data(chart):
    spec = specification(chart)
    inline = [
        layer["data"]["values"]
        for layer in spec.get("layer", ())
        if "values" in layer.get("data", {})
    ]
    return [*spec.get("datasets", {}).values(), *inline]
