"""Pictures at their real size: titles, dates, legends, marks of few examples, nothing on top of
another. Words are read from the SVG; the kinds of charts that test_pictures draws are held to the
same there.
"""

import json
import re
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

import seqloom
from seqloom import Copy, Dictionary, inspect
from seqloom.charts import theme
from seqloom.charts.by_layer import LayerPoint, layers_chart
from seqloom.charts.calibration import Forecasts, reliability, reliability_chart
from seqloom.charts.comparison import SlicePoint, points_with_intervals
from seqloom.charts.forecasting import time_ticks
from seqloom.charts.training import Curves, losses
from seqloom.charts.translation import alignment_chart, beam_chart
from seqloom.comparison.pictures import upper_first
from seqloom.views.forecasting import LOW
from seqloom.views.tracing import SCREEN, folded
from tests.legible import lying_on_each_other, words_around, written
from tests.views.test_exposure import SOURCES, TARGETS
from tests.views.test_tracing import Attentive

WIDEST = 1200  # pixels of a picture that a screen shows whole


def drawn(sheet):
    """Return the sheet as SVG, once it is known that it has its titles and can be read."""
    svg = theme.svg(sheet.picture())
    for text in (sheet.title, *sheet.summary, *sheet.charts):
        assert text in written(svg), text
    assert lying_on_each_other(svg) == []
    assert float(re.search(r'<svg[^>]* width="([\d.]+)', svg)[1]) <= WIDEST
    return svg


def series(path, step, n=120):
    rng = np.random.default_rng(4)
    rows = [
        f"{datetime(2023, 1, 29, 3) + i * step},{3000 + 9 * np.sin(i / 4) + rng.normal():.3f},{np.cos(i):.2f}"
        for i in range(n)
    ]
    path.write_text("\n".join(["time,load,temperature", *rows, ""]))
    return seqloom.read_series(path)


@pytest.mark.parametrize(
    ("step", "labels"),
    [
        (timedelta(minutes=10), ["16:00", "2023-01-29", "00:00", "2023-01-30"]),
        (timedelta(hours=1), ["12:00", "00:00", "2023-02-02", "2023-02-03"]),
        (timedelta(days=1), ["2023-04-13", "2023-05-25"]),
        (timedelta(days=31), ["2030", "2032", "2034"]),
    ],
)
def test_a_time_axis_has_dates_and_the_legend_the_bands(tmp_path, step, labels):
    data = series(tmp_path / "s.csv", step)
    model = seqloom.Naive(horizon=12).fit(data)
    found = [word.text for word in words_around(drawn(inspect.forecast(model, data)))]
    assert set(labels) <= set(found)
    legend = ["what came", "forecast", "80 % interval", "95 % interval"]
    assert [found.count(name) for name in legend] == [2] * 4  # of each column
    marks = words_around(drawn(inspect.anomalies(model.anomalies(data, rate=0.4), "naive")))
    assert any(re.fullmatch(r"\d{4}(-\d\d){0,2}", word.text) for word in marks)


def test_of_many_columns_those_with_marks_are_drawn_and_the_sheet_says_so():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(300, 12))
    model = seqloom.Naive(horizon=3, season=1).fit({f"c{i}": values[:, i] for i in range(12)})
    values[250, 10] = 90.0
    data = {f"c{i}": values[:, i] for i in range(12)}
    sheet = inspect.anomalies(model.anomalies(data, rate=0.001, since=200), "naive")
    assert "c10" in sheet.charts
    assert list(sheet.charts) == sorted(sheet.charts, key=lambda name: int(name[1:]))
    assert sheet.summary == ["8 of 12 columns are drawn, those with most marks."]
    drawn(sheet)
    ahead = inspect.forecast(model, data)
    assert ahead.summary == ["8 of 12 columns are drawn, the first."]
    assert list(ahead.charts) == [f"c{i}" for i in range(8)]


def test_bands_have_the_colours_of_the_legend(tmp_path):
    data = series(tmp_path / "s.csv", timedelta(hours=1))
    svg = drawn(inspect.forecast(seqloom.Naive(horizon=12).fit(data), data))
    areas = re.findall(r'aria-roledescription="area mark"[^>]*fill="([^"]+)"', svg)
    legend = re.findall(r'legend-symbol.*?fill="([^"]+)"', svg)
    assert len(set(areas)) == 2
    assert set(areas) <= set(legend)


def test_steps_without_times():
    values = np.sin(np.arange(80.0))
    svg = drawn(inspect.forecast(seqloom.Naive(horizon=8).fit(values), values))
    assert "step" in written(svg)


@pytest.mark.parametrize("seconds", [0, 5, 3000, 90_000, 10**6, 10**7, 10**8, 10**10, 2 * 10**11])
def test_ticks_are_few_and_inside(seconds):
    first = int(datetime(1999, 12, 31, 22, 17, tzinfo=UTC).timestamp())
    ticks = time_ticks([first, first + seconds])
    assert len(ticks) <= 8
    assert len(ticks) >= 3 or seconds == 0
    assert all(first <= tick.timestamp() <= first + seconds for tick, _ in ticks)
    assert len({tuple(label) for _, label in ticks}) == len(ticks) or seconds < 86_400 * 8


PAIRS = [("das Haus", "the house"), ("das Buch", "the book"), ("ein Buch", "a book")]


def test_translators():
    model = Dictionary(iterations=9).fit(PAIRS)
    longer = [(" ".join(["das Haus"] * n), " ".join(["the house"] * n)) for n in range(1, 30)]
    results = {
        "dictionary": model.evaluate(longer, samples=0),
        "copy": Copy().fit(PAIRS).evaluate(longer, samples=0),
    }
    text = written(drawn(inspect.quality_by_length(results)))
    assert "length of the source; hollow: fewer than 10 pairs" in text
    drawn(inspect.alignment(model, "das Haus"))
    drawn(inspect.exposure_bias(Attentive().fit(SOURCES, TARGETS), list(zip(SOURCES, TARGETS))))


def test_a_long_trace_is_no_wider_than_a_screen():
    model = Attentive().fit(SOURCES, TARGETS)
    model.table = model.table.copy()
    model.table[..., model.target_tokenizer.eos_id] = -1e4  # it never ends
    sheet = inspect.trace(model, "abc", beams=3, max_tokens=60)
    assert max(len(line) for step in sheet.data["lines"] for line in step.split("\n")) <= SCREEN
    assert "(+" in sheet.data["lines"][-1]
    assert len(sheet.summary[0]) <= SCREEN
    assert len(sheet.data["steps"][-1]["hypotheses"][0]["tokens"]) == 59  # the numbers are whole
    steps = {word.text for word in words_around(drawn(sheet)) if word.role == "axis-label"}
    assert {"0", "30", "60"} <= steps
    assert folded(["a" * 99], 10) == "(+0) " + "a" * 99  # a token is never cut


def test_parts_with_few_examples_are_hollow_and_names_whole_or_cut_in_the_middle():
    long = "telephone of the customer service centre in the {}-eastern region"
    points = [
        SlicePoint(long.format("north"), "", 0.5, 0.3, 0.7, 9),
        SlicePoint(long.format("south"), "", 0.6, 0.5, 0.7, 10),
        SlicePoint("class: neither good nor bad", "", 0.7, 0.6, 0.8, 400),
    ]
    svg = theme.svg(points_with_intervals(points, "accuracy", 0.6))
    text = written(svg)
    assert "accuracy; hollow: fewer than 10 examples" in text
    assert "class: neither good nor bad" in text
    assert "north-eastern region" in text
    assert "south-eastern region" in text
    assert svg.count('fill="white"') == 2  # the background, and one point
    assert "hollow" not in written(theme.svg(points_with_intervals(points[1:], "accuracy", 0.6)))


def test_bars_of_calibration_with_few_texts_are_marked():
    bins = [
        {"from": 0.8, "to": 0.9, "count": 3, "confidence": 0.85, "accuracy": 1.0},
        {"from": 0.9, "to": 1.0, "count": 90, "confidence": 0.95, "accuracy": 0.9},
    ]
    svg = theme.svg(reliability_chart(bins))
    assert "hollow: fewer than 10 texts" in written(svg)
    assert "hollow" not in written(theme.svg(reliability_chart(bins[1:])))


def test_a_legend_names_what_is_drawn_in_the_colours_of_the_lines():
    bins = [Forecasts(0.6, 0.5, 0.3, 0.7, 100), Forecasts(0.7, 0.8, 0.6, 0.9, 100)]
    few = [Forecasts(0.6, 0.5, 0.0, 1.0, 3)]
    svg = theme.svg(reliability({"few": few, "many": bins}))
    found = [word.text for word in words_around(svg)]
    assert "many" in found
    assert "few" not in found
    assert sum(word.endswith("%") for word in found) >= 6  # a short range has ticks too
    assert theme.png(reliability({"few": few}))  # nothing to show
    runs = [
        Curves(name, [(i, level + 1 / i) for i in range(1, 9)], [(4, level), (8, level)], [], [])
        for name, level in (("one", 1.0), ("two", 2.0))
    ]
    lines = losses(runs, by="steps", unit="nats").to_dict()["layer"][:2]
    assert not any("opacity" in layer["encoding"] or "opacity" in layer["mark"] for layer in lines)
    assert lines[0]["mark"]["strokeWidth"] < lines[1]["mark"]["strokeWidth"]


def test_a_run_that_is_not_judged_by_its_loss(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    lines = [
        {"step": s, "words": 9 * s, "words_per_s": 30, "loss": 3 / s, "lr": 0.1, "norm": 1.0}
        for s in range(1, 5)
    ]
    held_out = [
        {"step": s, "words": 9 * s, "valid": 0.7 + s / 100, "criterion": "accuracy"} for s in (2, 4)
    ]
    (tmp_path / "run" / "log.jsonl").write_text(
        "".join(json.dumps(x) + "\n" for x in lines + held_out)
    )
    sheet = inspect.training_curves("run")
    assert sheet.summary[0].endswith("best held-out accuracy 0.7400 at step 4")
    svg = drawn(sheet)
    assert "training" not in [
        word.text for word in words_around(svg) if word.role == "legend-label"
    ]
    accuracies = theme.specification(sheet.charts["Held-out accuracy"])
    assert accuracies["encoding"]["y"]["scale"] == {"zero": False}  # a rise of 2 % is seen


def test_many_columns_have_low_panels():
    values = np.sin(np.arange(320.0)).reshape(80, 4)
    charts = inspect.forecast(seqloom.Naive(horizon=8).fit(values), values).charts
    assert [theme.specification(chart)["height"] for chart in charts.values()] == [LOW] * 4


def test_tokens_with_their_spaces_have_one_font():
    svg = theme.svg(alignment_chart(np.eye(2), ["ein", "␣Haus"], ["a", "␣house"]))
    fonts = dict(re.findall(r'font-family="([^"]*)"[^>]*>(ein|␣Haus|a|␣house)<', svg))
    assert fonts.keys() == {"monospace"}
    assert 'font-family="monospace"' not in theme.svg(alignment_chart(np.eye(1), ["ein"], ["a"]))


def test_what_ended_is_drawn_once():
    def candidate(t, becomes, number=1):
        return {"token": "</s>" if becomes == "ended" else f"t{t}", "becomes": becomes} | {
            "number": number,
            "best": False,
            "probability": 0.5,
        }

    steps = [
        {"hypotheses": [{"text": "", "candidates": [candidate(t, "open"), candidate(t, "ended")]}]}
        for t in range(40)
    ]
    chart = beam_chart(steps)
    assert len(theme.specification(chart)["vconcat"]) > 1
    assert theme.svg(chart).count("></s>"[0] + "&lt;/s&gt;<") == 2 * 40  # with its halo


def test_the_heading_of_a_measure_keeps_its_capitals():
    assert upper_first("BLEU") == "BLEU"
    assert upper_first("bits per byte") == "Bits per byte"


LONG_WORDS = "incomprehensibly notwithstanding " * 20


@pytest.mark.parametrize("view", ["backoff", "trellis", "shares"])
def test_a_picture_of_long_words_is_no_wider_than_a_screen(view):
    words = seqloom.NGram(order=2).fit(LONG_WORDS)
    model = {
        "backoff": words,
        "trellis": seqloom.HMM(states=2, iterations=2).fit(LONG_WORDS),
        "shares": seqloom.Mixture.of(
            [words, seqloom.NGram(order=1).fit(LONG_WORDS, tokenizer=words.tokenizer)]
        ).fit(LONG_WORDS),
    }[view]
    drawn(getattr(inspect, view)(model, LONG_WORDS))


def test_ticks_of_layers_tell_small_differences_apart():
    points = [LayerPoint(f"blocks.{i}", i / 1000, i / 1000 - 1e-4, i / 1000) for i in range(4)]
    chart = layers_chart({"a": points}, "difference", ".2f", reference=(0.0, "none"))
    ticks = [
        word.text
        for word in words_around(theme.svg(chart))
        if word.role == "axis-label" and "block" not in word.text
    ]
    assert len(ticks) > 2
    assert len(ticks) == len(set(ticks))
