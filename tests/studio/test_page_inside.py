"""Step by step, gates and gradient reach in a real browser, on networks with random weights."""

import json
import math
import shlex
import struct
import subprocess
import sys
from urllib.parse import quote

import pytest

import seqloom
from seqloom import HMM, Mixture, NGram
from seqloom.views import catalogue
from tests.studio.browser import Page
from tests.studio.shelves import EVIL_LINE, HOSTILE
from tests.studio.shelves import TEXT as TRAINED

LINE = "to be or not to be, so it is"
NETWORKS = {"lstm": {"n_layers": 2}, "rnn": {}, "gpt": {}}
VIEWS = {
    "step": f"step?m=lstm&t={quote(LINE)}&number=c",
    "step-gpt": f"step?m=gpt&t={quote(LINE)}&token=9&number=a.2",
    "step-ngram": f"step?m=ngram&t={quote(LINE)}&token=9&number=share.1",
    "gates": f"gates?m=lstm&t={quote(LINE)}&unit=7&like=9&in=text",
    "reach": f"reach?m=lstm&m=rnn&t={quote(LINE)}",
}


@pytest.fixture(scope="module")
def inside(tmp_path_factory):
    """A server of its own shelf."""
    pytest.importorskip("torch")
    from seqloom.studio.server import open_studio
    from tests.runtime.networks import composed, language

    folder = tmp_path_factory.mktemp("inside")
    for name, options in NETWORKS.items():
        language(name, **options).save(folder / name)
    composed("classifier", "tokens", encoder="bigru").save(folder / "classifier")
    long = NGram(order=4, tokenizer="byte").fit(TRAINED)
    long.save(folder / "ngram")
    short = NGram(order=2, tokenizer="byte").fit(TRAINED, tokenizer=long.tokenizer)
    Mixture.of([long, short]).fit("the cat or the mind\n").save(folder / "mixture")
    HMM(states=3, iterations=3, tokenizer="byte").fit(TRAINED).save(folder / HOSTILE)
    with open_studio(folder) as running:
        for name in NETWORKS:  # kernels that were never compiled here take longer than a page waits
            model = running.catalogue.served(name).model
            seqloom.inspect.prediction(model, LINE)
            if name != "gpt":
                seqloom.inspect.similar(model, LINE)
                seqloom.inspect.gradients(model, LINE)
        yield running


@pytest.fixture
def opened(browser, inside):
    made = Page(browser, inside.address)
    yield made
    made.close()


def model_of(inside, name):
    return inside.catalogue.served(name).model


def brief(value):
    """A number as the page writes it."""
    if isinstance(value, int) or value == int(value):
        return f"{int(value):,}"
    if abs(value) >= 100:
        return f"{value:.1f}"
    if abs(value) >= 0.001:
        return f"{value:.4f}"
    head, _, power = f"{value:.1e}".partition("e")
    return f"{head}e{int(power)}"


def numbers_on(page):
    """All numbers of a prediction, by their ids."""
    page.locator("button[data-number]").first.wait_for()
    return dict(
        page.eval_on_selector_all(
            "button[data-number]", "all => all.map((one) => [one.dataset.number, one.textContent])"
        )
    )


def comes(page, selector, text):
    """Wait until a text stands there."""
    there = "([one, text]) => document.querySelector(one)?.textContent === text"
    page.wait_for_function(there, arg=[selector, text])


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_in_every_look(opened, view):
    opened.check_looks(VIEWS[view], view)


@pytest.mark.parametrize("name", ["lstm", "rnn", "gpt", "ngram", "mixture", HOSTILE])
def test_every_number_is_the_librarys(opened, inside, name):
    opened.open(f"step?m={quote(name)}&t={quote(LINE)}&token=9")
    data = seqloom.inspect.prediction(model_of(inside, name), LINE, token=9).data
    wanted = {
        one["id"]: brief(one["value"])
        for part in data["parts"]
        for row in part["rows"]
        for one in row["numbers"]
        if one["value"] is not None
    }
    assert len(wanted) > 3
    assert numbers_on(opened.page) == wanted
    assert opened.page.locator("[data-probability]").inner_text() == brief(data["probability"])
    assert opened.page.locator(".part h2").count() == len(data["parts"]) + 1


def test_a_number_lights_what_it_is_made_of(opened):
    """Without asking the server."""
    opened.open(f"step?m=lstm&t={quote(LINE)}")
    numbers = numbers_on(opened.page)
    opened.quiet()
    asked = []
    opened.page.on("request", lambda request: asked.append(request.url))
    opened.page.locator('[data-number="c"]').click()
    lit = opened.page.locator("button.number.lit")
    assert {lit.nth(i).get_attribute("data-number") for i in range(lit.count())} == {
        "kept",
        "learnt",
    }
    card = opened.page.locator("aside .card")
    assert card.locator("[data-value]").inner_text() == numbers["c"]
    assert "= kept + learnt" in card.inner_text()
    card.get_by_role("button", name="kept").click()
    assert card.locator("[data-value]").inner_text() == numbers["kept"]
    assert "number=kept" in opened.page.url
    assert not [url for url in asked if "/studio/inspect" in url]


def test_tokens_are_walked_through_and_candidates_explained(opened, inside):
    opened.open(f"step?m=ngram&t={quote(LINE)}")
    where = opened.page.locator(".where")
    count = len(LINE) + 1
    assert where.inner_text() == f"token {count} of {count}"
    opened.quiet()
    opened.page.get_by_role("button", name="previous").click()
    opened.page.get_by_text(f"token {count - 1} of {count}").wait_for()
    opened.page.locator(".tokens").press("Home")
    opened.page.get_by_text(f"token 1 of {count}").wait_for()
    opened.page.locator(".bars button").nth(2).click()
    data = seqloom.inspect.prediction(model_of(inside, "ngram"), LINE, token=1, rank=3).data
    comes(opened.page, "[data-probability]", brief(data["probability"]))
    assert "rank=3" in opened.page.url


def test_its_end_is_the_board(opened):
    """The shares of what comes next, of a model whose tokens are bytes."""
    opened.open("step?m=ngram&t=the%20")
    numbers_on(opened.page)
    bars = opened.page.locator(".bars .value").all_inner_texts()
    opened.page.get_by_role("link", name="The same on the board").click()
    opened.page.locator("section.column .bars li").first.wait_for()
    assert opened.page.locator("section.column .bars .value").all_inner_texts()[:5] == bars


def test_layers_heads_and_units_are_in_the_address(opened, inside):
    opened.open(f"step?m=gpt&t={quote(LINE)}&token=9")
    numbers_on(opened.page)
    opened.page.get_by_role("combobox", name="layer").select_option("0")
    opened.page.get_by_role("combobox", name="head").select_option("2")
    opened.page.wait_for_function("() => location.hash.includes('head=2')")
    opened.quiet()
    opened.page.reload()
    data = seqloom.inspect.prediction(model_of(inside, "gpt"), LINE, token=9, layer=0, head=2).data
    one = data["parts"][1]["rows"][0]["numbers"][0]
    comes(opened.page, f'[data-number="{one["id"]}"]', brief(one["value"]))


# ---- gates


def test_a_saved_view_looks_as_the_page_does(opened, browser, tmp_path):
    """Sizes of pictures, letters and grounds in the file, opened offline, are those of the page."""
    opened.open(VIEWS["gates"])
    opened.quiet()
    looks = """() => [".lanes canvas", ".lanes img", "svg", "h2", ".coloured span"]
        .flatMap((one) => [...document.querySelectorAll(`main ${one}`)])
        .map((one) => [getComputedStyle(one), one.getBoundingClientRect()])
        .map(([style, place]) => [style.fontSize, style.backgroundColor, Math.round(place.height)])"""
    with opened.page.expect_download() as waiting:
        opened.page.get_by_role("button", name="Save as HTML").click()
    path = tmp_path / "saved.html"
    waiting.value.save_as(path)
    context = browser.new_context(viewport={"width": 1280, "height": 800}, offline=True)
    saved = context.new_page()
    saved.goto(path.as_uri())
    found = saved.evaluate(looks)
    assert len(found) > 20
    assert found == opened.page.evaluate(looks)
    context.close()
    with opened.page.expect_download() as waiting:
        opened.page.get_by_role("button", name="Save as PNG").click()
    data = waiting.value.path().read_bytes()
    width, height = struct.unpack(">II", data[16:24])
    place = opened.page.locator("main").bounding_box()
    assert width == 2 * round(place["width"])
    assert height <= 2 * place["height"]


@pytest.mark.parametrize("name", ["lstm", "rnn", "classifier"])
def test_units_and_lanes_are_the_librarys(opened, inside, name):
    text = LINE if name != "classifier" else "good fun and long so"
    opened.open(f"gates?m={name}&t={quote(text)}&layer=0")
    model = model_of(inside, name)
    rows = seqloom.inspect.units(model, text, layer=0).data["rows"]
    table = opened.page.locator(".tall tbody tr")
    table.first.wait_for()
    shown = [
        line.split("\t") for line in opened.page.locator(".tall tbody").inner_text().split("\n")
    ]
    assert len(shown) == len(rows)
    for row, line in zip(rows, shown):
        life = row["half_life"]
        assert line[0].strip() == str(row["unit"])
        assert line[1] == (f"{life:.0f}" if life >= 100 else f"{life:.1f}")
        assert float(line[4]) == pytest.approx(row["mean"], abs=0.0051)
    lanes = opened.page.locator(".lanes")
    lanes.focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight"):  # the second unit, the third step
        lanes.press(key)
    unit, arrays = rows[1]["unit"], seqloom.inspect.gates(model, text, layer=0).data
    pairs = opened.page.locator("[data-pointed] .pair").all_inner_texts()
    for pair in pairs:
        name, value = pair.split()
        array = arrays.get(f"gates.{name}", arrays.get(name))
        assert float(value) == pytest.approx(float(array[2, unit]), abs=6e-4)
    assert len(pairs) == sum(key in arrays for key in ("c", "h")) + sum(
        "gates." in key for key in arrays
    )
    lanes.press("Enter")
    opened.page.wait_for_function(f"() => location.hash.includes('unit={unit}')")
    assert f"after {shown[1][1]} steps" in opened.page.locator("[data-about]").inner_text()


def test_the_text_is_coloured_by_a_unit_and_the_like_is_found(opened, inside):
    opened.open(f"gates?m=lstm&t={quote(LINE)}&unit=7&in=text")
    model = model_of(inside, "lstm")
    state = seqloom.inspect.gates(model, LINE, unit=7).data["values"]
    text = opened.page.locator(".coloured")
    text.focus()
    for i in range(4):
        text.press("ArrowRight")
        value = opened.page.locator("[data-value-at] .pair").last.inner_text().split()[-1]
        assert float(value) == pytest.approx(float(state[i]), abs=6e-4)
    text.press("Enter")
    places = opened.page.locator(".places li")
    places.first.wait_for()
    rows = seqloom.inspect.similar(model, LINE, unit=7, at=3, count=8).data["rows"]
    values = [float(line.split()[0]) for line in places.all_inner_texts()]
    assert values == pytest.approx([row["value"] for row in rows], abs=0.0051)
    assert "like=3" in opened.page.url


def test_order_and_units_need_no_request(opened):
    opened.open(f"gates?m=lstm&t={quote(LINE)}")
    opened.page.locator("canvas.lane").first.wait_for()
    opened.quiet()
    asked = []
    opened.page.on("request", lambda request: asked.append(request.url))
    opened.page.get_by_label("order").select_option("open")
    opened.page.locator("[data-unit]").nth(4).click()
    opened.page.locator(".traces").wait_for()
    assert opened.page.locator(".trace").count() == 6
    assert not [url for url in asked if not url.endswith("/studio/models")]


def test_a_held_gate_costs_what_the_library_says(opened, inside):
    """At once: all gates and values are in the first answer."""
    if "clamp" not in catalogue.VIEWS:
        pytest.skip("no view clamp")
    opened.open(f"gates?m=lstm&t={quote(LINE)}&hold=f%3D1")
    rows = seqloom.inspect.clamp(model_of(inside, "lstm"), LINE).data["rows"]
    more = {f"{row['gate']}={row['value']}": f"{row['more']:+.3f}" for row in rows}
    comes(opened.page, "[data-more]", more["f=1"])
    opened.quiet()
    asked = []
    opened.page.on("request", lambda request: asked.append(request.url))
    opened.page.get_by_role("button", name="held at its mean").click()
    comes(opened.page, "[data-more]", more["f=mean"])
    assert not [url for url in asked if not url.endswith("/studio/models")]


# ---- gradients


def test_reach_is_the_librarys(opened, inside):
    opened.open(f"reach?m=lstm&m=rnn&t={quote(LINE)}")
    opened.page.locator(".said li").nth(1).wait_for()  # both have answered
    figure = opened.page.locator("figure").first
    figure.locator("summary").click()
    lines = figure.locator("details tbody").inner_text().split("\n")
    for at, name in ((1, "lstm"), (2, "rnn")):
        data = seqloom.inspect.gradients(model_of(inside, name), LINE).data
        layers = list(dict.fromkeys(row["layer"] for row in data["positions"]))
        layer = "input" if "input" in layers else layers[-1]
        norms = [row["last"] for row in data["positions"] if row["layer"] == layer][::-1]
        for i in (0, 1, 5, 20):
            assert float(lines[i].split("\t")[at]) == pytest.approx(norms[i], rel=0.06)


# ---- all


def test_text_is_never_markup(opened):
    for view in ("step", "gates", "reach"):
        opened.open(
            f"{view}?m={quote(HOSTILE if view == 'step' else 'lstm')}&t={quote(EVIL_LINE)}&number=<b>"
        )
        opened.quiet()
        assert opened.page.locator("main img, main script").count() == 0


def test_the_lines_below_give_the_same_numbers(opened, inside):
    opened.open(f"step?m=ngram&t={quote(LINE)}&token=9")
    shown = numbers_on(opened.page)
    command = shlex.split(opened.page.locator("[data-terminal]").inner_text())
    done = subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, check=True
    )
    printed = json.loads(done.stdout)
    for row in printed["parts"][0]["rows"]:
        assert shown[row["numbers"][-1]["id"]] == brief(row["numbers"][-1]["value"])
    for view, model in (("step", "gpt"), ("gates", "lstm")):
        opened.open(f"{view}?m={model}&t={quote(LINE)}&unit=3&hold=f%3D0&over=unit&layer=0")
        opened.quiet()
        *before, last = opened.page.locator("[data-python]").inner_text().strip().split("\n")
        names = {}
        exec("\n".join(before), names)
        data = eval(last, names)
        if view == "step":
            assert opened.page.locator("[data-probability]").inner_text() == brief(
                data["probability"]
            )
        else:
            (held,) = [row for row in data["rows"] if (row["gate"], row["value"]) == ("f", "0")]
            bits = float(opened.page.locator("[data-held]").inner_text())
            assert held["bits"] == pytest.approx(bits, abs=6e-4)
            data = eval(before[-1], names)
            assert data["unit"] == 3
            assert math.isfinite(data["values"][0])
