"""Heat maps of classes, beliefs and transitions, forgetting and reliability: every number in its
place, names that fit.
"""

import itertools
import json
import math

import numpy as np
import pytest

from seqloom.charts import theme
from seqloom.charts.belief import belief_chart, forgetting_chart
from seqloom.charts.calibration import Forecasts, reliability, reliability_chart
from seqloom.charts.heat import (
    EITHER,
    NAME,
    RIGHT,
    WRONG,
    blend,
    confusion_chart,
    gathered,
    ink_on,
    room,
    shares,
    short_name,
    short_number,
    text_width,
    transition_chart,
)
from seqloom.charts.theme import specification
from tests.charts.test_theme import contrast


def parts(chart, responsive=False):
    """The drawing of a heat map, its cells, and that it is plain JSON."""
    spec = specification(chart, responsive=responsive)
    json.dumps(spec, allow_nan=False)
    (drawing,) = spec["hconcat"]
    return drawing, rows_of(spec, drawing)


def rows_of(spec, drawing):
    return spec["datasets"][(drawing.get("data") or spec["data"])["name"]]


def axis_names(drawing, channel):
    expression = drawing["layer"][0]["encoding"][channel]["axis"]["labelExpr"]
    return json.loads(expression.removesuffix("[datum.value]"))


def test_counts_stand_in_the_cells_and_colours_are_shares_of_the_row():
    drawing, cells = parts(confusion_chart(["no", "yes"], [[75, 25], [0, 4000]]))
    assert [(c["row name"], c["column name"], c["text"], c["fill"]) for c in cells] == [
        ("no", "no", "75", blend(RIGHT, math.sqrt(0.75))),
        ("no", "yes", "25", blend(WRONG, 0.5)),
        ("yes", "no", "", "#ffffff"),
        ("yes", "yes", "4,000", RIGHT.lower()),
    ]
    assert cells[1]["value"] == "25 (25.0% of the row)"
    assert axis_names(drawing, "x") == axis_names(drawing, "y") == ["no", "yes"]


@pytest.mark.parametrize("n", [1, 2, 10, 45, 200])
def test_cells_keep_a_legible_size_and_their_text_fits(n):
    rng = np.random.default_rng(n)
    counts = 10 ** rng.integers(0, 7, (n, n))
    for responsive in (False, True):
        drawing, cells = parts(
            confusion_chart([f"class {i}" for i in range(n)], counts), responsive
        )
        rows = min(n, 45)
        assert len(cells) == rows * rows
        assert drawing["width"] == drawing["height"]
        cell = drawing["width"] / rows
        assert 26 <= cell <= 76
        size = drawing["layer"][1]["mark"]["fontSize"]
        assert size >= 9
        assert max(len(c["text"]) for c in cells) * 0.58 * size <= cell


def test_many_classes_stand_together_and_no_count_is_lost():
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 50, (100, 100))
    counts[3] += 1000
    names = [f"c{i}" for i in range(100)]
    kept, table = gathered(names, counts)
    assert kept[-1] == "56 others"
    assert "c3" in kept
    assert table.sum() == counts.sum()
    row = kept.index("c3")
    inside = [names.index(name) for name in kept[:-1]]
    assert table[row].tolist() == [*counts[3][inside], counts[3].sum() - counts[3][inside].sum()]
    _, cells = parts(confusion_chart(names, counts))
    assert cells[-1]["fill"] == blend(
        EITHER, math.sqrt(table[-1, -1] / table[-1].sum())
    )  # right or wrong


@pytest.mark.parametrize("digits", [4, 5, 8])
def test_numbers_fit_and_are_near(digits):
    for number in (
        0,
        9,
        999,
        1000,
        9_999,
        10_000,
        99_999,
        999_499,
        999_500,
        1_234_567,
        98_765_432,
        999_999_999,
    ):
        shown = short_number(number, digits)
        assert len(shown) <= digits
        factor = {"k": 1e3, "M": 1e6, "G": 1e9}.get(shown[-1], 1)
        assert float(shown.rstrip("kMG").replace(",", "")) * factor == pytest.approx(
            number, rel=0.06
        )


def test_names_that_do_not_fit_are_turned_and_keep_both_ends():
    names = [f"an international organisation number {i}" for i in range(3)]
    drawing, _ = parts(confusion_chart(names, np.eye(3, dtype=int)))
    assert drawing["layer"][0]["encoding"]["x"]["axis"]["labelAngle"] == -45
    assert len(set(axis_names(drawing, "x"))) == 3
    assert all(len(name) <= NAME for name in axis_names(drawing, "x"))
    drawing, _ = parts(confusion_chart(["a", "b", "c"], np.eye(3, dtype=int)))
    assert drawing["layer"][0]["encoding"]["x"]["axis"]["labelAngle"] == 0
    assert short_name("") == "(empty)"
    assert len(short_name("新" * 40)) == NAME // 2
    assert text_width("新闻") == text_width("news")


def test_text_can_be_read_on_every_shade():
    for hue, shade in itertools.product((RIGHT, WRONG, EITHER), np.linspace(0, 1, 21)):
        fill = blend(hue, shade)
        best = max(contrast(fill, theme.INK), contrast(fill, "#ffffff"))
        assert contrast(fill, ink_on(fill)) == best > 3.5


def test_tables_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"3 classes, but counts of shape \(2, 2\)"):
        confusion_chart(["a", "b", "c"], [[1, 2], [3, 4]])
    with pytest.raises(ValueError, match="2 states"):
        transition_chart(np.eye(3), ["a", "b"])
    with pytest.raises(ValueError, match=r"1 words and 2 states, but beliefs of shape \(2, 1\)"):
        belief_chart(np.ones((2, 1)), ["a"], ["x", "y"])


def test_words_that_come_twice_have_a_column_each():
    words = ["the", "cat", "saw", "the", '"cat"']
    beliefs = np.array([[1.0, 0.0], [0.25, 0.75], [0.004, 0.996], [0.5, 0.5], [0.0, 1.0]])
    drawing, cells = parts(belief_chart(beliefs, words, ["s0", "s1"]))
    assert axis_names(drawing, "x") == words
    assert axis_names(drawing, "y") == ["s0", "s1"]
    found = {(c["column"], c["row"]): (c["text"], c["fill"]) for c in cells}
    assert found[1, 0] == ("0.25", blend(theme.HUES[0], 0.25))
    assert found[2, 0][0] == found[4, 0][0] == ""
    assert found[2, 1][0] == "1.00"
    assert len(cells) == 10


def test_long_texts_and_many_states_are_gathered():
    rng = np.random.default_rng(0)
    beliefs = rng.dirichlet(np.full(50, 0.1), 1000)
    drawing, cells = parts(belief_chart(beliefs, ["w"] * 1000, [f"s{i}" for i in range(50)]))
    assert axis_names(drawing, "x")[:2] == ["1", "18"]
    assert "mean of 17" in drawing["layer"][0]["encoding"]["x"]["title"]
    names = axis_names(drawing, "y")
    assert (len(names), names[-1]) == (20, "31 others")
    column = {c["row name"]: float(c["value"]) for c in cells if c["column"] == 1}
    assert sum(column.values()) == pytest.approx(1, abs=1e-3)
    assert column[names[0]] == pytest.approx(beliefs[17:34, int(names[0][1:])].mean(), rel=1e-3)


def test_transitions_go_from_rows_to_columns():
    drawing, cells = parts(transition_chart(np.array([[0.9, 0.1], [0.35, 0.65]]), ["hot", "cold"]))
    assert [(c["row name"], c["column name"], c["text"]) for c in cells] == [
        ("hot", "hot", "0.90"),
        ("hot", "cold", "0.10"),
        ("cold", "hot", "0.35"),
        ("cold", "cold", "0.65"),
    ]
    assert [drawing["layer"][0]["encoding"][channel]["title"] for channel in "yx"] == ["from", "to"]


def test_of_many_states_those_are_drawn_where_the_chain_is():
    rng = np.random.default_rng(0)
    table = rng.dirichlet(
        np.full(80, 0.2) + 3.0 * (np.arange(80) % 2), 80
    )  # the odd ones are likely
    often = shares(table)
    values, vectors = np.linalg.eig(table.T)
    fixed = vectors[:, values.real.argmax()].real
    assert often == pytest.approx(fixed / fixed.sum(), abs=1e-9)
    drawing, cells = parts(transition_chart(table, [f"s{i}" for i in range(80)]))
    rows = axis_names(drawing, "y")
    assert len(rows) == 44
    assert sum(int(name[1:]) % 2 for name in rows) == 40
    first = [float(c["value"]) for c in cells if c["row"] == 0]
    assert len(first) == 45
    assert sum(first) == pytest.approx(1, abs=1e-2)
    assert shares(np.array([[0.0, 1.0], [1.0, 0.0]])).tolist() == [0.5, 0.5]  # a cycle


def test_forgetting_on_a_logarithmic_axis_without_zeros():
    curves = {
        "mixing": [0.5 * 0.1**t for t in range(12)] + [0.0, 1e-18],
        "cyclic": [0.75] * 14,
        "none": [0.0],
    }
    spec = specification(forgetting_chart(curves))
    json.dumps(spec, allow_nan=False)
    rows = rows_of(spec, spec)
    assert [(r["at"], r["distance"]) for r in rows if r["name"] == "mixing"] == [
        (t + 1, 0.5 * 0.1**t) for t in range(12)
    ]
    y = spec["encoding"]["y"]
    assert y["scale"]["type"] == "log"
    assert y["scale"]["domain"][0] < 5e-12 < 1 <= y["scale"]["domain"][1]
    assert len(y["axis"]["values"]) <= 10
    assert all(r["distance"] > 0 for r in rows)
    with pytest.raises(ValueError, match="no distance above zero"):
        forgetting_chart({"none": [0.0, 0.0]})


def test_reliability_has_every_bin():
    bins = [
        {"from": 0.4, "to": 0.5, "count": 10, "confidence": 0.45, "accuracy": 0.3},
        {"from": 0.9, "to": 1.0, "count": 30, "confidence": 0.96, "accuracy": 1.0},
    ]
    spec = specification(reliability_chart(bins))
    json.dumps(spec, allow_nan=False)
    values = rows_of(spec, spec["vconcat"][1])
    assert [(r["from"], r["to"], r["said"], r["came"], r["share"]) for r in values] == [
        (0.4, 0.5, 0.45, 0.3, 0.25),
        (0.9, 1.0, 0.96, 1.0, 0.75),
    ]
    with pytest.raises(ValueError, match="nothing to draw"):
        reliability_chart([])


def test_names_are_data_and_not_code():
    evil = ['"];alert(1);["', "</script>", "a\\b\n"]
    drawing, _ = parts(confusion_chart(evil, np.eye(3, dtype=int)))
    assert axis_names(drawing, "x") == evil


def test_they_are_drawn():
    """vl-convert takes them, names with quotes and East Asian ones too, and writes the text that
    was given.
    """
    picture = theme.svg(confusion_chart(['say "no"', "新闻"], [[7, 1], [2, 31]]))
    for text in ("say &quot;no&quot;", "新闻", ">31<", ">predicted<", ">gold<"):
        assert text in picture or text.replace("&quot;", '"') in picture
    words = ["我们", "看", "电影", "看"]
    picture = theme.svg(belief_chart(np.full((4, 2), 0.5), words, ["a", "b"]))
    assert picture.count(">看<") == 2
    assert theme.png(transition_chart(np.eye(3), list("abc")))[:4] == b"\x89PNG"


def test_room_for_digits():
    assert room(26) == 4
    assert [room(x) for x in (40, 76)] == [5, 10]


def test_names_in_capitals_are_turned_where_they_would_touch():
    tags = [
        "ADJ",
        "ADP",
        "ADV",
        "AUX",
        "CCONJ",
        "DET",
        "INTJ",
        "NOUN",
        "NUM",
        "PART",
        "PRON",
        "PROPN",
        "PUNCT",
        "SCONJ",
        "SYM",
        "VERB",
        "X",
    ]
    for chart in (confusion_chart(tags, np.eye(17, dtype=int)), transition_chart(np.eye(17), tags)):
        across = chart.to_dict()["hconcat"][0]["layer"][0]["encoding"]["x"]["axis"]
        assert across["labelAngle"] == -45
    assert text_width("PUNCT") > text_width("punct")


def test_a_point_at_the_edge_is_drawn_whole():
    never = Forecasts(1e-4, 0.0, 0.0, 0.001, 100_000)
    points = reliability({"m": [never, Forecasts(0.5, 0.5, 0.4, 0.6, 100)]}).to_dict()["layer"][-1]
    assert points["mark"]["type"] == "point"
    assert not points["mark"].get("clip")
