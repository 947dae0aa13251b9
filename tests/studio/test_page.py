"""The page in a real browser: every number is the library's, and nothing that a model says is markup."""

import json
import math
import shlex
import shutil
import subprocess
import sys
import time
import urllib.request
from urllib.parse import quote

import numpy as np
import pytest

import seqloom
from seqloom import NGram
from seqloom.kernels.sampling import nucleus
from seqloom.studio.following import following
from tests.studio.browser import Page
from tests.studio.shelves import EVIL_LINE, HOSTILE, TEXT, after

VIEWS = {
    "compare": "compare",
    "place": "compare?m=byte-2&t=to%20be%20or%20not&at=6",
    "next": "next?m=byte-2&m=bpe-2&m=hmm&t=to%20be%20o",
    "surprise": "surprise?m=byte-4&t=to%20be%20or%20not",
    "difference": "surprise?m=byte-4&t=to%20be%20or%20not&other=hmm",
}


def text_of(page, selector):
    return page.locator(selector).first.inner_text()


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_in_every_look(opened, view):
    opened.check_looks(VIEWS[view], view)


def test_nobody_is_kept_out(opened):
    """Here the reason is told where axe-core is missing; views are checked in all their looks."""
    opened.open(VIEWS["compare"])
    opened.check_access()


SHADES = """async (scheme) => {
    const {heat, twoSided, share} = await import("/studio/static/parts/shown.js");
    const context = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
    const light = (colours) => {  // relative luminance of colours over each other
        for (const one of colours) {
            context.fillStyle = one;
            context.fillRect(0, 0, 1, 1);
        }
        const parts = [...context.getImageData(0, 0, 1, 1).data].slice(0, 3).map((v) => v / 255);
        const [r, g, b] = parts.map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const text = document.querySelector(".coloured"), piece = text.querySelector("span");
    const ink = getComputedStyle(text).color, ground = getComputedStyle(document.body).backgroundColor;
    const found = {};
    for (const level of [0, 1, 4, 8, 99]) {
        for (const shade of [heat(level), twoSided(level, 8), twoSided(-level, 8), share(level, 8)]) {
            piece.style.backgroundColor = shade;
            const [one, two] = [light([ground, getComputedStyle(piece).backgroundColor]), light([ink])];
            found[shade] = (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
        }
    }
    return found;
}"""


def test_text_can_be_read_on_every_shade(opened):
    """axe-core says nothing of single characters, which tokens often are: WCAG's 4.5 to 1, computed here."""
    opened.open(VIEWS["surprise"])
    opened.quiet()
    for scheme in ("light", "dark"):
        opened.look("wide", scheme)
        found = opened.page.evaluate(SHADES)
        assert len(found) > 10
        assert min(found.values()) >= 4.5, (scheme, found)


def test_the_table_is_there_without_a_script(browser, studio):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(studio.address)
    assert page.get_by_role("row").count() == 6
    assert page.get_by_role("row", name="byte-4").get_by_role("cell").nth(1).inner_text() == "2.500"
    context.close()


def column(page, name):
    return page.locator(f'section.column[data-model="{name}"]')


def bars(page, name):
    """Names, percentages and whether each bar of a column is struck out."""
    found = column(page, name).locator(".bars li")
    found.first.wait_for()
    return [
        (
            item.locator(".name").inner_text(),
            item.locator(".value").inner_text(),
            "cut" in (item.get_attribute("class") or ""),
        )
        for item in found.all()
    ]


def shown(share):
    percent = 100 * share
    digits = 0 if share >= 0.0995 else 1
    return f"{percent:.{digits}f}%" if share >= 0.00095 else None


@pytest.mark.parametrize(
    ("temperature", "k", "p"), [(1, 0, 1), (0.5, 0, 1), (2, 4, 1), (1.5, 0, 0.6)]
)
def test_bars_are_what_the_library_draws_from(opened, studio, temperature, k, p):
    opened.open(f"next?m=byte-4&t=the%20&temp={temperature}&k={k}&p={p}&top=6")
    model = studio.catalogue.served("byte-4").model
    log_probs = np.float32(after(model, model.tokenizer.encode("the ")))
    weights = nucleus(log_probs, np.float64(temperature), k, np.float64(p))
    shares, own = weights / weights.sum(), np.exp(np.float64(log_probs))
    for name, value, is_cut in bars(opened.page, "byte-4"):
        token = int(model.tokenizer.encode(name.replace("␣", " "))[0])
        assert is_cut == (weights[token] == 0), name
        if (wanted := shown(own[token] if is_cut else shares[token])) is not None:
            assert value == wanted, name
    kept = shares[shares > 0]
    bits = float(column(opened.page, "byte-4").locator("[data-entropy]").inner_text())
    assert bits == pytest.approx(-(kept * np.log2(kept)).sum(), abs=0.006)


def test_a_click_pushes_a_piece_into_every_model(opened):
    opened.open("next?m=byte-2&m=byte-4&t=the")
    name = bars(opened.page, "byte-2")[0][0]
    before = bars(opened.page, "byte-4")
    column(opened.page, "byte-2").locator(".bars button").first.click()
    opened.page.wait_for_function(
        "name => document.querySelector('textarea').value === 'the' + name",
        arg=name.replace("␣", " "),
    )
    opened.quiet()
    assert bars(opened.page, "byte-4") != before
    opened.page.go_back()
    opened.page.wait_for_function("() => document.querySelector('textarea').value === 'the'")


def test_a_slider_is_felt_at_once(opened):
    """Seen with five models; here only that it needs no request."""
    opened.open("next?m=byte-2&m=byte-4&m=bpe-2&m=hmm&t=the")
    opened.quiet()
    asked = []
    opened.page.on("request", lambda request: asked.append(request.url))
    before = bars(opened.page, "hmm")
    slider = opened.page.get_by_label("temperature")
    slider.focus()
    for _ in range(10):
        slider.press("ArrowRight")
    assert bars(opened.page, "hmm") != before
    assert not [url for url in asked if not url.endswith("/studio/models")]
    assert "temp=1.5" in opened.page.url


def test_the_address_is_the_whole_state(opened):
    opened.open("next?m=bpe-2&t=sa&temp=0.5&top=7")
    opened.quiet()
    before = bars(opened.page, "bpe-2")
    opened.page.get_by_label("Prompt").fill("the c")
    opened.page.wait_for_function("() => location.hash.includes('t=the+c')")
    opened.page.reload()
    assert bars(opened.page, "bpe-2") != before
    assert len(bars(opened.page, "bpe-2")) == 7
    assert opened.page.get_by_label("Prompt").input_value() == "the c"


def test_the_colours_are_the_costs(opened, studio):
    opened.open("surprise?m=byte-4&t=to%20be%20or")
    model = studio.catalogue.served("byte-4").model
    n_bytes = len("to be or") + (model.unit == "line")  # the end of the line is one
    wanted = -model.score("to be or") / math.log(2) / n_bytes
    assert float(text_of(opened.page, "[data-bits]")) == pytest.approx(wanted, abs=6e-4)
    opened.page.locator(".coloured").focus()
    rows = seqloom.inspect.surprisal(model, "to be or", top=5).data["rows"]
    for row in rows[:3]:
        opened.page.keyboard.press("ArrowRight")
        detail = text_of(opened.page, ".detail")
        assert f"costs {row['bits']:.2f} bits" in detail
        assert f"rank {row['rank']}" in detail
    assert opened.page.locator(".coloured span.at").count() == 1


def test_the_slider_cools_the_text(opened):
    opened.open(f"surprise?m={quote(HOSTILE)}&t=to%20be%20or%20not")
    opened.quiet()
    slider = opened.page.get_by_role("slider", name="model")
    first = float(text_of(opened.page, "[data-bits]"))
    slider.focus()
    slider.press("End")
    opened.page.wait_for_function("() => !location.hash.includes('img')")
    opened.page.locator("main", has_text="with bpe-2").wait_for()
    assert float(text_of(opened.page, "[data-bits]")) != first


def test_the_largest_disagreements(opened, studio):
    opened.open("surprise?m=byte-4&t=to%20be%20or%20not&other=hmm")
    models = [studio.catalogue.served(name).model for name in ("byte-4", "hmm")]
    data = seqloom.inspect.difference(*models, "to be or not").data
    item = opened.page.locator(".lists li").first
    assert f"{data['rows'][0]['difference']:.2f} bits" in item.inner_text()
    item.locator("button").click()
    marked = opened.page.locator(".coloured span.at")
    assert marked.inner_text().strip("↵¶ \n") == data["rows"][0]["text"].strip(" \n")


def test_rows_of_the_table_open_their_model(opened):
    opened.open("compare")
    row = opened.page.locator('tr[data-rung="byte-4"]')
    assert row.get_by_role("cell").nth(1).inner_text() == "2.500"
    assert row.get_by_role("cell").nth(2).inner_text() == "2.400 to 2.600"
    row.get_by_role("button", name="byte-4").click()
    opened.page.locator(".card").get_by_role("link", name="Next token").click()
    opened.page.wait_for_function("() => location.hash.startsWith('#next?m=byte-4')")
    assert bars(opened.page, "byte-4")


def test_held_out_lines_cool_from_the_worst_model_to_the_best(opened, studio):
    text = "to be or not\nthe dog sat"
    opened.open(f"compare?t={quote(text)}")
    slider = opened.page.get_by_role("slider")
    slider.focus()
    seen = []
    for key, name in (("Home", HOSTILE), ("End", "bpe-2")):
        slider.press(key)
        opened.page.locator(".reading", has_text=f"with {name}").wait_for()
        model = studio.catalogue.served(name).model
        wanted = -model.score(text) / math.log(2) / (len(text) + (model.unit == "line"))
        seen.append(float(text_of(opened.page, "[data-bits]")))
        assert seen[-1] == pytest.approx(wanted, abs=6e-4)
        assert opened.page.locator("tr.at th").inner_text().removesuffix("★") == name
    assert seen[0] > seen[1]


def test_a_click_on_a_word_shows_what_four_models_expect_there(opened, studio):
    opened.open("compare?m=byte-4&t=to%20be%20or%20not")
    opened.quiet()
    opened.page.locator(".coloured span").nth(6).click()
    opened.page.locator(".place .column").nth(3).wait_for()
    opened.page.wait_for_function("() => location.hash.includes('at=6')")
    for name in ("byte-4", "hmm"):
        found = following(studio.catalogue.served(name).model, "to be ")["characters"]
        for (text, score), (shown_text, value, _) in zip(found, bars(opened.page, name)):
            assert shown_text == text.replace(" ", "␣").replace("\n", "↵")
            assert value == (shown(math.exp(score)) or value)


def test_views_are_reached_by_keyboard(opened):
    opened.open("compare")
    opened.page.keyboard.press("Alt+2")
    opened.page.locator("h1", has_text="Next token").wait_for()
    opened.page.keyboard.press("Tab")
    assert opened.page.evaluate("document.activeElement !== document.body")


def test_text_is_never_markup(opened):
    """Of a prompt, of a model's name, and of what a model has learnt."""
    query = f"m={quote(HOSTILE)}&t={quote(EVIL_LINE)}"
    for view in ("next", "surprise", "compare"):
        opened.open(f"{view}?{query}")
        opened.quiet()
        assert opened.page.locator("main img, main script").count() == 0
    opened.open(f"{quote(HOSTILE)}?{query}&other={quote(HOSTILE)}&temp=<b>&by=constructor")
    assert opened.page.locator("main img, main script").count() == 0


def test_an_address_that_was_cut_off_opens(opened):
    for place in (
        "next?m=byte-4&t=to%20be%2",
        "%",
        "runs?runs=%25,one",
        "surprise?m=byte-4&t=%E2%82",
    ):
        opened.open(place)
        opened.quiet()
        assert opened.page.locator("h1").count() == 1


def test_what_begins_with_a_minus_is_no_flag(opened):
    opened.open(f"surprise?m=byte-4&t={quote('--help me')}")
    opened.quiet()
    program, *command = shlex.split(text_of(opened.page, "[data-terminal]"))
    done = subprocess.run(
        [sys.executable, "-m", program, *command], capture_output=True, text=True, check=True
    )
    n_bytes = len("--help me") + 1  # of the end of the line
    bits = float(text_of(opened.page, "[data-bits]"))
    assert json.loads(done.stdout)["bits"] / n_bytes == pytest.approx(bits, abs=6e-4)


def test_the_lines_below_give_the_same_numbers(opened, studio):
    opened.open("surprise?m=byte-4&t=to%20be%20or%20not%20%27to%27")
    line = text_of(opened.page, "[data-terminal]")
    command = shlex.split(line)
    assert command[0] == "seqloom"
    done = subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, check=True
    )
    printed = json.loads(done.stdout)
    bits = float(text_of(opened.page, "[data-bits]"))
    n_bytes = len("to be or not 'to'") + (studio.catalogue.served("byte-4").model.unit == "line")
    assert printed["bits"] / n_bytes == pytest.approx(bits, abs=6e-4)
    *before, last = text_of(opened.page, "[data-python]").strip().split("\n")
    names = {}
    exec("\n".join(before), names)
    assert eval(last, names) == printed
    opened.open("next?m=byte-4&t=the%20c%C3%A9")
    *before, last = text_of(opened.page, "[data-python]").strip().split("\n")
    exec("\n".join(before), names)
    found = eval(last, names)
    bits = float(column(opened.page, "byte-4").locator("[data-entropy]").inner_text())
    assert found["entropy"] == pytest.approx(bits, abs=0.006)
    program, *arguments = shlex.split(text_of(opened.page, "[data-terminal]"))
    assert (program, arguments[0], arguments[2]) == ("curl", "-s", "-d")
    with urllib.request.urlopen(arguments[1], arguments[3].encode(), timeout=60) as answer:
        assert json.load(answer)["entropy"] == found["entropy"]
    opened.open("compare?m=byte-4&t=to%20be%0Aor%20not")
    opened.quiet()
    *before, last = text_of(opened.page, "[data-python]").strip().split("\n")
    exec("\n".join(before), names)
    found = eval(last, names)
    bits = float(text_of(opened.page, "[data-bits]"))
    assert found["bits"] / found["bytes"] == pytest.approx(bits, abs=6e-4)
    _, *arguments = shlex.split(text_of(opened.page, "[data-terminal]"))
    with urllib.request.urlopen(arguments[1], arguments[3].encode(), timeout=60) as answer:
        assert json.load(answer)["bits"] == found["bits"]


def test_a_view_is_saved(opened, tmp_path):
    opened.open("surprise?m=byte-4&t=to%20be")
    opened.quiet()
    for button, ending, start in (("PNG", ".png", b"\x89PNG"), ("HTML", ".html", b"<!DOCTYPE")):
        with opened.page.expect_download() as waiting:
            opened.page.get_by_role("button", name=f"Save as {button}").click()
        path = tmp_path / waiting.value.suggested_filename
        waiting.value.save_as(path)
        data = path.read_bytes()
        assert path.suffix == ending
        assert data.startswith(start)
    text = data.decode()
    assert "byte-4" in text
    assert "text of 5 characters" in text
    assert "<script" not in text


def test_a_very_long_text_is_cut_and_the_page_goes_on(opened):
    opened.open("surprise?m=byte-4&t=to%20be")
    box = opened.page.get_by_role("textbox", name="Text")
    box.evaluate(
        """box => {
            box.value = "to be ".repeat(1_700_000);
            box.dispatchEvent(new Event("input", {bubbles: true}));
        }"""
    )
    opened.page.get_by_text("Of 10,200,000 characters").wait_for()
    box.fill("to be")
    opened.page.get_by_text("text of 5 characters").wait_for()
    assert opened.page.get_by_text("Of 10,200,000 characters").count() == 0


def test_a_server_that_stops_and_a_model_that_goes(browser, tmp_path):
    from seqloom.studio.server import open_studio

    model = NGram(order=2, tokenizer="byte").fit(TEXT)
    for name in ("one", "two"):
        model.save(tmp_path / name)
    running = open_studio(tmp_path)
    port = int(running.address.rpartition(":")[2])
    made = Page(browser, running.address)
    made.refused = ("Failed to load resource", "ERR_CONNECTION")
    made.open("next?m=one&m=two&t=the")
    made.quiet()
    running.close()
    made.page.get_by_label("Prompt").fill("the c")
    made.page.get_by_text("does not answer").first.wait_for()
    shutil.rmtree(tmp_path / "two")
    running = _again(tmp_path, port)
    made.page.get_by_text("two was removed").wait_for()
    made.quiet()
    assert len(bars(made.page, "one")) == 10
    assert made.page.get_by_text("does not answer").count() == 0
    running.close()
    made.close()


def _again(folder, port):
    """The server on the port that it had, once the system gives it back."""
    from seqloom.studio.server import open_studio

    for _ in range(100):
        try:
            return open_studio(folder, port=port)
        except seqloom.errors.ConfigError:
            time.sleep(0.1)
    raise AssertionError("the port is not free")


def test_the_rest_of_a_comparison_is_its_files(browser, shelf_folder, tmp_path):
    """What the home shows besides the table and the text: facts of a rung, all columns, learning curves."""
    from seqloom.studio.server import open_studio

    names = {"byte-2": "rung-0", "byte-4": "rung-1"}
    for name, folder in names.items():
        shutil.copytree(shelf_folder / "rungs" / folder, tmp_path / name)
    rungs = [
        {"name": "byte-2", "bits_per_byte": 3.5, "interval": [3.4, 3.6], "perplexity": 1234.567}
        | {"parameters": 54321, "disk": 20_000, "train_seconds": 0.25, "versus_best": None},
        {"name": "byte-4", "bits_per_byte": 2.5, "interval": [2.4, 2.6], "perplexity": 98.7654}
        | {"parameters": 7, "disk": 3_000_000, "train_seconds": 12.345, "peak_memory": 4_200_000},
    ]
    against = {"difference": 1.0, "low": 0.875, "high": 1.125, "p_value": 0.0004}
    rungs[0]["versus_best"] = against
    curve = {
        name: [{"bytes": n, "bits_per_byte": b / 8} for n, b in ((1000, 31), (9000, 20))]
        for name in names
    }
    kept = {
        "corpus": "here",
        "models": "language models",
        "task": "text",
        "best": "byte-4",
        "rungs": rungs,
        "measure": "bits_per_byte",
        "measure_title": "bits per byte",
        "measure_form": ".3f",
        "measure_log": True,
        "lower_is_better": True,
        "size_unit": "bytes",
        "front": ["byte-2", "byte-4"],
        "curve": curve,
        "columns": [{"heading": "perplexity", "key": "perplexity", "form": ",.2f"}],
        "answer": {"text": "The best is byte-4: 2.500."},
        "held_out": "to be or not\nto be\n",
    }
    (tmp_path / "comparison.json").write_text(json.dumps(kept))
    with open_studio(tmp_path) as running:
        made = Page(browser, running.address)
        made.open("compare?m=byte-2")
        made.quiet()
        assert text_of(made.page, ".answer") == "The best is byte-4: 2.500."
        card = text_of(made.page, ".card")
        for fact in (
            "perplexity 1,234.57",
            "54,321 parameters",
            "20 kB",
            "0.3 s",
            "best +1.000 (0.875 to 1.125, p = 0.000)",
        ):
            assert fact in card, fact
        made.page.get_by_text("All columns").click()
        row = made.page.get_by_role("region", name="all columns").get_by_role("row", name="byte-4")
        assert row.get_by_role("cell").all_inner_texts() == [
            "2.500",
            "2.400 to 2.600",
            "-",
            "98.77",
            "7",
            "3.0 MB",
            "12.3 s",
            "4.2 MB",
        ]
        curves = made.page.get_by_role("group", name="learning curves")
        assert text_of(curves, '[data-curve="byte-4"]') == "2.500"
        curves.locator("summary").click()
        assert curves.get_by_role("row").last.inner_text().split() == ["9000", "2.500", "2.500"]
        made.close()
