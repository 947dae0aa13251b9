"""Playground, n-grams, hidden states, vectors, series in a real browser: their numbers are the library's."""

import json
import time
from urllib.parse import quote

import pytest

import seqloom
from seqloom.data.forecasting import read_series
from seqloom.studio.series import example
from tests.studio.browser import Page
from tests.studio.shelves import EVIL_LINE, HOSTILE, TEXT

EDITS = {"transitions": {"0": {"1": 0.9}}}
VIEWS = {
    "play": "play?m=byte-4&t=to%20be&run=1&max=20",
    "answers": "play?m=labels&t=a%20good%20film%0Aso%20dull&opt=%7B%22proba%22%3Atrue%7D",
    "tags": "play?m=tags&t=the%20dog%20runs&word=2",
    "ngrams": "ngrams?m=byte-4&t=to%20be%20or&d=10",
    "trellis": f"trellis?m=hmm&t=to%20be%20or&edits={quote(json.dumps(EDITS))}",
    "vectors": "vectors?m=vectors&w=be&a=to&b=be&c=the&u=to&v=be&from=to&to=be&lean=the,or",
    "series": "series?m=wave",
}


@pytest.fixture(scope="module")
def window(browser, studio):
    made = Page(browser, studio.address)
    yield made
    made.close()


@pytest.fixture
def opened(window):
    yield window
    wrong, window.wrong[:] = list(window.wrong), []
    assert not wrong


def model_of(studio, name):
    return studio.catalogue.served(name).model


def said(page, selector):
    return page.locator(selector).first.inner_text()


def bars(page, label):
    """Names and values of a list of bars."""
    found = page.get_by_role("list", name=label, exact=True).locator("li")
    found.first.wait_for()
    return [
        (one.locator(".name").inner_text(), one.locator(".value").inner_text())
        for one in found.all()
    ]


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_in_every_look(opened, view):
    opened.check_looks(VIEWS[view], view)
    opened.page.set_viewport_size({"width": 1280, "height": 800})


@pytest.mark.parametrize("view", ["answers", "tags"])
def test_the_lines_below_give_the_same_answers(opened, view):
    opened.open(VIEWS[view])
    opened.quiet()
    *before, line, why = said(opened.page, "[data-python]").strip().split("\n")
    names = {}
    exec("\n".join(before), names)
    with opened.page.expect_download() as waiting:
        opened.page.get_by_role("button", name="Download the answers").click()
    kept = [json.loads(line) for line in waiting.value.path().read_text().splitlines()]
    found = eval(line, names)
    assert [{"row": i, **one} for i, one in enumerate(found, 1)] == kept
    assert eval(why, names)["explanations"]


def test_it_writes_what_generate_writes(opened, studio):
    opened.open("play?m=endless&t=to%20be&temp=0.7&k=5&p=0.9&max=30&seed=3")
    opened.page.get_by_role("button", name="Write", exact=True).click()
    opened.page.get_by_text("30 tokens in").wait_for()
    model = model_of(studio, "endless")
    options = {"temperature": 0.7, "top_k": 5, "top_p": 0.9, "max_tokens": 30, "seed": 3}
    text = model.generate("to be", **options)
    assert opened.page.locator("[data-written]").text_content() == text
    *before, last = said(opened.page, "[data-python]").strip().split("\n")
    names = {}
    exec("\n".join(before), names)
    assert eval(last, names) == text
    assert "run=1" in opened.page.url  # a link that writes it again
    opened.page.reload()
    opened.page.get_by_text("30 tokens in").wait_for()
    assert opened.page.locator("[data-written]").text_content() == text


def test_stop_ends_the_work(opened, studio):
    engine = studio.catalogue.served("endless").engine
    whole = engine.stepper

    class Slow:
        def __getattr__(self, name):
            return getattr(whole, name)

        def step(self, state, ids):
            time.sleep(0.02)
            return whole.step(state, ids)

    engine.stepper = Slow()
    try:
        opened.open("play?m=endless&t=to%20be&max=1000")
        opened.page.get_by_role("button", name="Write", exact=True).click()
        opened.page.wait_for_function(
            "() => document.querySelector('[data-written]')?.textContent.length > 3"
        )
        assert engine.running_rows == 1
        opened.page.get_by_role("button", name="Stop").click()
        opened.page.get_by_text("stopped").wait_for()
        deadline = time.monotonic() + 20
        while engine.running_rows and time.monotonic() < deadline:
            time.sleep(0.02)
        assert engine.running_rows == 0
    finally:
        engine.stepper = whole
    assert 3 < len(opened.page.locator("[data-written]").text_content()) < 1000


def test_answers_of_a_file_with_what_spoke_for_them(opened, studio, tmp_path):
    model, lines = model_of(studio, "labels"), ["so long", "good fun", "a dull film"]
    (tmp_path / "texts.txt").write_text("\n".join(lines) + "\n")
    opened.open("play?m=labels&t=good&row=2")
    opened.page.get_by_label("Open a file").set_input_files(tmp_path / "texts.txt")
    opened.page.get_by_role("cell", name="a dull film", exact=True).wait_for()
    rows = opened.page.locator("table.answers tbody tr").all()
    assert [row.locator("td").nth(1).inner_text() for row in rows] == model.predict(lines)
    data = seqloom.inspect.explanation(model, lines[1]).data["explanations"][0]
    opened.page.wait_for_function(
        f"() => document.querySelector('[data-odds]')?.textContent === '{data['log_odds']:.3f}'"
    )
    terms = bars(opened.page, "largest terms")
    assert terms == [(share["feature"], f"{share['nats']:+.3f}") for share in data["shares"]]
    with opened.page.expect_download() as waiting:
        opened.page.get_by_role("button", name="Download").click()
    waiting.value.save_as(tmp_path / "answers")
    kept = [json.loads(line) for line in (tmp_path / "answers").read_text().splitlines()]
    assert [one["label"] for one in kept] == model.predict(lines)


def test_tags_and_options_made_of_the_schema(opened, studio):
    opened.open("play?m=tags&t=the%20cat%20runs%2C%20a%20dog")
    opened.page.get_by_text("Options of tag").click()
    opened.page.get_by_label("split").select_option("words")
    found = opened.page.locator("table.answers .words > span")
    opened.page.wait_for_function(
        "() => document.querySelectorAll('table.answers .words > span').length === 6"
    )
    words = ["the", "cat", "runs", ",", "a", "dog"]
    tags = model_of(studio, "tags").predict(words)
    assert [one.inner_text().split("\n") for one in found.all()] == [*map(list, zip(words, tags))]


def test_shares_and_discounts_are_the_librarys(opened, studio):
    model, text = model_of(studio, "byte-4"), "to be or"
    opened.open("ngrams?m=byte-4&t=to%20be%20or&token=5")
    data = seqloom.inspect.backoff(model, text, token=5, continuations=8).data
    opened.page.locator("[data-held]").wait_for()
    assert said(opened.page, "[data-p-model]") == f"{data['probability']:.5f}"
    rows = opened.page.get_by_role("region", name="parts of the probability").locator("tbody tr")
    for row, wanted in zip(rows.all(), data["rows"]):
        cells = row.locator("td").all_inner_texts()
        assert cells[0] == wanted["ngram"]
        assert cells[1] == ("–" if wanted["count"] is None else f"{wanted['count']:,}")
        assert cells[7] == f"{wanted['share']:.5f}"
    first = data["continuations"][0]
    shown = bars(opened.page, f"after {first['context']}")
    assert [name for name, _ in shown] == [one["token"] for one in first["tokens"]]
    grid = seqloom.inspect.discounts(model, text).data
    asked = []
    opened.page.on("request", lambda request: asked.append(request.url))
    slider = opened.page.get_by_role("slider", name="discount")
    slider.focus()
    for step in range(1, 4):
        slider.press("ArrowRight")
        assert said(opened.page, "[data-held]") == f"{grid['rows'][step - 1]['bits']:.4f}"
        assert said(opened.page, "[data-p]") == f"{sum(grid['shares'][step - 1][4]):.5f}"
    assert not [url for url in asked if not url.endswith("/studio/models")]
    opened.page.get_by_role("region", name=f"order {first['order']}", exact=True).locator(
        "button"
    ).first.click()
    wanted = text[:4] + first["tokens"][0]["text"]
    opened.page.wait_for_function(
        "text => document.querySelector('textarea').value === text", arg=wanted
    )


def test_lines_of_a_text_of_ones_own(opened, tmp_path):
    (tmp_path / "own.txt").write_text(TEXT * 3)
    opened.open("ngrams?m=byte-4&t=nobler")
    opened.page.get_by_label("Look in a text of your own").set_input_files(tmp_path / "own.txt")
    opened.page.get_by_text("occurs 24 times in own.txt").wait_for()
    assert opened.page.locator(".behind mark").first.inner_text() == "bler"
    opened.page.get_by_text("Counted anew in eight tenths of own.txt").wait_for()


def test_changed_tables_are_computed_by_the_library(opened, studio, tmp_path):
    model, text = model_of(studio, "hmm"), "to be or"
    opened.open("trellis?m=hmm&t=to%20be%20or&states=all")
    plain = seqloom.inspect.trellis(model, text).data
    opened.page.locator("[data-log-prob]").wait_for()
    assert said(opened.page, "[data-log-prob]") == f"{plain['log_prob']:.3f}"
    inputs = opened.page.get_by_role("region", name="transitions").locator("input")
    assert float(inputs.first.input_value()) == pytest.approx(
        plain["tables"]["transitions"][0][0], abs=6e-4
    )
    inputs.nth(1).fill("0.95")
    inputs.nth(1).press("Enter")
    (tmp_path / "tables.json").write_text(json.dumps({"transitions": {"0": {"1": 0.95}}}))
    changed = seqloom.inspect.trellis(model, text, tables=str(tmp_path / "tables.json")).data
    wanted = f"{changed['log_prob']:.3f}"
    opened.page.wait_for_function(
        "text => document.querySelector('[data-log-prob]')?.textContent === text", arg=wanted
    )
    assert wanted != f"{plain['log_prob']:.3f}"
    row = [float(one.input_value()) for one in inputs.all()[:3]]
    assert row == pytest.approx(list(changed["tables"]["transitions"][0]), abs=6e-4)
    opened.page.get_by_text("One row is changed").wait_for()
    opened.page.reload()  # the address has the edits
    opened.page.locator("[data-log-prob]").wait_for()
    assert said(opened.page, "[data-log-prob]") == wanted
    discs = opened.page.locator("svg.trellis circle.way").count()
    assert discs == len(changed["tokens"])
    opened.page.get_by_role("button", name="As the model learned them").click()
    opened.page.wait_for_function(
        "text => document.querySelector('[data-log-prob]')?.textContent === text",
        arg=f"{plain['log_prob']:.3f}",
    )


def test_vectors_are_the_librarys(opened, studio):
    model = model_of(studio, "vectors")
    opened.open(VIEWS["vectors"])
    opened.page.locator("[data-cosine]").wait_for()
    near = [(word, f"{max(0, cosine):.3f}") for word, cosine in model.nearest("be", 12)]
    shown = [
        (name, f"{max(0.0, float(value)):.3f}")
        for name, value in bars(opened.page, "nearest to be")
    ]
    assert shown == near
    answers = [word for word, _ in model.analogy("to", "be", "the", 8)]
    assert [name for name, _ in bars(opened.page, "answers")] == answers
    assert said(opened.page, "[data-cosine]") == f"{model.similarity('to', 'be'):.3f}"
    found = dict(bars(opened.page, "leaning towards to or be"))
    from seqloom.models.word_vectors.debias import bias_direction

    cosines = bias_direction(model, [("to", "be")]).cosines(model, ["the", "or"])
    assert found == {word: f"{value:+.3f}" for word, value in zip(("the", "or"), cosines)}
    spots = opened.page.locator("svg.plane circle[data-word]:not(.reach)")
    assert spots.count() == len({*model.vectors.words} - {"</s>"})
    opened.page.get_by_role("list", name="nearest to be").get_by_role("button").first.click()
    opened.page.get_by_role("heading", name=f"Near {near[0][0]}", exact=True).wait_for()


def test_series_and_forecast_are_the_librarys(opened, studio, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = model_of(studio, "wave")
    opened.open("series?m=wave")
    with opened.page.expect_download() as waiting:
        opened.page.get_by_text("The series", exact=True).click()
        opened.page.get_by_role("button", name="Download series.csv").click()
    waiting.value.save_as("series.csv")
    assert (tmp_path / "series.csv").read_text() == example(model)
    series = read_series("series.csv")
    assert int(said(opened.page, "[data-marked]")) == model.anomalies(series).marked > 0
    opened.page.get_by_text("The forecast in numbers").click()
    rows = opened.page.get_by_role("region", name="forecast", exact=True).locator("tbody tr")
    wanted = model.forecast(series).rows()
    assert rows.count() == len(wanted) == 6
    for row, one in zip(rows.all(), wanted):
        cells = [float(text) for text in row.locator("td").all_inner_texts()[1:]]
        ends = [one[f"{end}_{share}"] for share in (80, 95) for end in ("low", "high")]
        assert cells == pytest.approx([one["forecast"], *ends], rel=1e-4)
    *before, ahead, unusual = said(opened.page, "[data-python]").strip().split("\n")
    names = {}
    exec("\n".join(before), names)
    assert eval(ahead, names) == wanted
    assert len(eval(unusual, names)) == model.anomalies(series).marked
    opened.page.get_by_role("textbox", name="A table or numbers").fill("\n".join("123456" * 9))
    opened.page.wait_for_function("() => !document.querySelector('.note')")
    assert "54 steps and a forecast of 6" in opened.page.locator("svg.plot").get_attribute(
        "aria-label"
    )


def test_text_is_never_markup_here(opened):
    """Of a name, a text, an option in the address, and of what a model has learnt."""
    evil = quote(EVIL_LINE)
    for place in (
        f"play?m={quote(HOSTILE)}&t={evil}&run=1&seed=1",
        f"play?m=labels&t={evil}&opt={evil}&row=x&word=-1",
        f"ngrams?m={quote(HOSTILE)}&t={evil}&token=3&d=<b>",
        f"trellis?m=hmm&t={evil}&states=<b>&edits={evil}",
        f"vectors?m=vectors&w={evil}&a={evil}&b=x&c=y",
        f"series?m=wave&rate={evil}&h=2",
    ):
        opened.refused = ("Failed to load resource",)  # unknown words are refused
        opened.open(place)
        opened.page.wait_for_function("() => !document.querySelector('.wait')")
        assert opened.page.locator("main img, main script").count() == 0
    opened.refused = ()
