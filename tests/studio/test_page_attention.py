"""Attention, alignments and runs in a real browser: every number is the library's, and nothing is markup."""

import json
import math
import os
import re
import shutil
from urllib.parse import quote

import numpy as np
import pytest

import seqloom
from tests.saved import NEWEST
from tests.studio.browser import Page
from tests.studio.shelves import EVIL_LINE, HOSTILE
from tests.views.test_run_view import lines, write

TEXT = "the cat sat on the log"
SAVED = ("gpt", "bert", "transformer", "seq2seq")
VIEWS = {
    "attention": "attention?m=gpt&t=the%20cat%20sat%20on%20the%20log&at=3&off=0.1&by=cost",
    "arcs": "attention?m=transformer&t=abc&as=arcs&layer=2&head=1",
    "alignments": "alignments?m=transformer&t=abc&at=1&target=cab",
    "runs": "runs?runs=one.run,two.run",
}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("attention")
    for name in SAVED:
        shutil.copytree(NEWEST / name, folder / name)
    write(folder / "one.run", fixed={"steps": 500}, pid=os.getpid())
    write(folder / "two.run", lines(60), fixed={"steps": 60})
    write(folder / HOSTILE.replace("/", ""), lines(20), fixed={"steps": 20})
    return folder


@pytest.fixture(scope="module")
def server(home):
    from seqloom.studio.server import open_studio

    for name in ("transformer", "seq2seq"):  # kernels are compiled before a page waits for them
        seqloom.inspect.trace(seqloom.load(home / name), "abc")
    seqloom.load(home / "gpt").generate("the", max_tokens=2)
    with open_studio(home) as running:
        yield running


@pytest.fixture
def opened(browser, server):
    made = Page(browser, server.address)
    yield made
    made.close()


@pytest.fixture(scope="module")
def gpt():
    return seqloom.load(NEWEST / "gpt")


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_in_every_look(opened, view):
    opened.check_looks(VIEWS[view], view)


def numbers(locator):
    return [float(text) for text in locator.all_inner_texts()]


def test_all_heads_are_those_of_the_library(opened, gpt):
    opened.open(f"attention?m=gpt&t={quote(TEXT)}")
    opened.quiet()
    rows = seqloom.inspect.heads(gpt, TEXT).data["rows"]
    cells = opened.page.locator(".grid .head")
    assert cells.locator("b").all_inner_texts() == [row["pattern"] for row in rows]
    shown = [float(text.split()[0]) for text in cells.locator("[data-value]").all_inner_texts()]
    assert shown == pytest.approx([row["entropy"] for row in rows], abs=0.0051)
    opened.page.get_by_label("below each head").select_option("distance")
    shown = [float(text.split()[0]) for text in cells.locator("[data-value]").all_inner_texts()]
    assert shown == pytest.approx([row["distance"] for row in rows], abs=0.051)


def test_where_a_token_looks(opened, gpt):
    """By arrow keys, over two heads, as numbers, and as colours of the text."""
    opened.open(f"attention?m=gpt&t={quote(TEXT)}&layer=0&head=1")
    opened.quiet()
    text = opened.page.get_by_role("group", name="the text, coloured by what is looked at")
    text.focus()
    for _ in range(5):
        opened.page.keyboard.press("ArrowRight")
    for layer, head in ((0, 1), (1, 0)):
        data = seqloom.inspect.attention(gpt, TEXT, layer=layer, head=head).data
        row = np.sort(data["weights"][4])[::-1]
        row = row[row >= 0.0005][:5]
        values = opened.page.locator("[data-weight]")
        assert numbers(values) == pytest.approx(row.tolist(), abs=0.0006)
        tints = text.locator("span").evaluate_all(
            "all => all.map(one => Number(getComputedStyle(one).backgroundColor.match(/([\\d.]+)\\)$/)[1]))"
        )
        assert np.argmax(tints[:5]) == np.argmax(data["weights"][4])
        if layer == 0:
            opened.page.locator('.head[data-layer="0"][data-head="1"]').focus()
            opened.page.keyboard.press("ArrowDown")
            opened.page.keyboard.press("ArrowLeft")
            opened.page.locator("h2", has_text="blocks 1 attention, head 0").wait_for()
            opened.page.locator(".stale").wait_for(state="detached")
    opened.page.wait_for_function("() => /at=4/.test(location.hash)")
    assert "layer=1" in opened.page.url


def test_switching_heads_off_and_its_cost(opened, gpt):
    opened.open(f"attention?m=gpt&t={quote(TEXT)}&mode=off")
    opened.quiet()
    opened.page.locator('.head[data-layer="0"][data-head="1"]').click()
    opened.page.locator("[data-cost]").wait_for()
    opened.page.get_by_role("button", name="layer off").nth(1).click()
    opened.page.wait_for_function("() => /off=0.1%2C1$|off=0.1%2C1&/.test(location.hash)")
    opened.page.locator(".stale").wait_for(state="detached")
    data = seqloom.inspect.without(gpt, TEXT, off=["0.1", "1"]).data
    assert float(opened.page.locator("[data-cost]").inner_text()) == pytest.approx(
        data["cost"], abs=0.0051
    )
    assert opened.page.locator(".head.off").count() == 3
    cells = opened.page.get_by_label("cost of each token")
    opened.page.locator(".cost summary").click()
    costs = [
        float(row.get_by_role("cell").last.inner_text())
        for row in cells.get_by_role("row").all()[1:]
    ]
    assert costs == pytest.approx([row["cost"] for row in data["rows"]], abs=6e-4)
    opened.page.reload()
    opened.page.locator("[data-cost]").wait_for()
    opened.page.get_by_role("button", name="All on again").click()
    opened.page.wait_for_function("() => !/off=0/.test(location.hash)")
    opened.page.locator('.head[data-layer="1"][data-head="0"]').focus()
    opened.page.keyboard.press("x")
    opened.page.wait_for_function("() => /off=1.0/.test(location.hash)")


def test_the_lines_below_give_the_same_numbers(opened, gpt):
    opened.open(f"attention?m=gpt&t={quote(TEXT)}&off=0.1&layer=1&head=1&by=cost")
    opened.quiet()
    *commands, last = opened.page.locator("[data-python]").inner_text().strip().split("\n")
    names = {}
    exec(commands[0], names)
    rows, head, clamped, removed = (eval(line, names) for line in (*commands[1:], last))
    assert float(opened.page.locator("[data-cost]").inner_text()) == pytest.approx(
        clamped["cost"], abs=0.0051
    )
    assert (head["layer"], head["head"]) == (rows[3]["layer"], 1)
    shown = [float(t) for t in opened.page.locator(".head [data-value]").all_inner_texts()]
    heads = [row["bits_cost"] for row in removed["rows"] if row["part"].isdecimal()]
    assert shown == pytest.approx(heads, abs=6e-4)
    for line in opened.page.locator("[data-terminal]").inner_text().strip().split("\n"):
        assert re.search("seqloom inspect (heads|attention|without|ablation) ", line)


def test_a_translation_and_its_search(opened):
    model = seqloom.load(NEWEST / "transformer")
    opened.open("alignments?m=transformer&t=abc&beams=3&at=1")
    opened.quiet()
    data = seqloom.inspect.trace(model, "abc", beams=3, top=5).data
    page = opened.page
    assert page.locator("[data-translation]").inner_text() == data["translation"]
    assert float(page.locator("[data-score]").inner_text()) == pytest.approx(
        data["score"], abs=6e-5
    )
    going = [
        candidate["probability"]
        for step in data["steps"]
        for one in step["hypotheses"]
        for candidate in one["candidates"]
        if candidate["becomes"] != "dropped"
    ]
    drawn = [float(text.split()[0]) for text in page.locator("svg.tree .p").all_text_contents()]
    assert drawn == pytest.approx(going, abs=6e-4)
    marked = [step for step in data["steps"] if any(one["best"] for one in step["hypotheses"])]
    assert page.locator("svg.tree .node.best").count() == len(marked)
    for one in data["steps"][1]["hypotheses"]:
        bars = page.locator(f'[data-hypothesis="{one["number"]}"] .bars .value')
        assert numbers(bars) == pytest.approx(
            [candidate["probability"] for candidate in one["candidates"]], abs=6e-4
        )
    weights = seqloom.inspect.alignment(model, "abc", data["translation"]).data["weights"]
    row = np.sort(weights[1])[::-1][:5]
    assert numbers(page.locator("[data-weight]")) == pytest.approx(
        row[row >= 0.0005].tolist(), abs=6e-4
    )


def test_runs_are_those_of_the_library_and_grow(opened, home):
    opened.open("runs?runs=one.run")
    page = opened.page
    page.locator("[data-curve=training]").wait_for()
    data = seqloom.inspect.run(home / "one.run").data
    last = [row for row in data["rows"] if "loss" in row][-1]
    del last["run"]
    assert float(page.locator("[data-curve=training]").inner_text()) == pytest.approx(last["loss"])
    assert float(page.locator("[data-curve=output]").inner_text()) == last["norm.output"]
    row = page.get_by_role("region", name="the runs").get_by_role("row").last
    assert "training, 100 of 500 steps" in row.inner_text()
    assert f"{data['runs'][0]['valid']:.4f}" in row.inner_text()
    with open(home / "one.run" / "log.jsonl", "a") as log:  # it goes on, and is cut off in a line
        log.write(json.dumps(last | {"step": 110, "loss": 1.234}) + '\n{"step": 120, "lo')
    page.locator("[data-curve=training]", has_text="1.234").wait_for()


def test_several_runs_and_one_that_is_removed(opened, home):
    write(home / "three.run", lines(40), fixed={"steps": 40})
    opened.open("runs?runs=two.run,three.run")
    page = opened.page
    page.locator('[data-curve="three.run"]').first.wait_for()
    assert page.locator('[data-curve="two.run, held-out"]').count() == 1
    shutil.rmtree(home / "three.run")
    page.get_by_text("three.run is not here").wait_for()
    rules = page.locator("[data-rule]").evaluate_all("all => all.map(one => one.dataset.rule)")
    findings = seqloom.advise(home / "two.run").findings
    assert rules == [one.rule for one in findings] != []
    assert findings[0].advice in page.locator("[data-rule]").first.inner_text()
    assert page.locator('[data-curve="training"]').count() >= 1  # of the other alone
    page.get_by_role("button", name="one.run").click()
    page.locator('[data-curve="one.run"]').first.wait_for()
    assert "one.run" in page.url


def test_a_saved_model_writes_a_sample_with_its_seed(opened, home):
    shutil.copytree(NEWEST / "gpt", home / "logged", dirs_exist_ok=True)
    text = "".join(json.dumps(line) + "\n" for line in lines(30))
    (home / "logged" / "training.jsonl").write_text(text)
    opened.open("runs?runs=logged")
    opened.page.get_by_role("button", name="Let logged write").click()
    opened.page.locator("[data-written]").wait_for()
    assert "seed=0" in opened.page.url


def test_nothing_is_markup(opened):
    evil = quote(EVIL_LINE)
    for place in (
        f"attention?m=gpt&t={evil}&off={evil}&layer=<b>&at=<b>&head=x",
        f"alignments?m=seq2seq&t={evil}&target={evil}",
        f"runs?runs={quote(quote(HOSTILE))}&by=<b>",
    ):
        opened.open(place)
        opened.quiet()
        assert opened.page.locator("main img, main script, main b b").count() == 0


def test_bits_are_the_score(gpt):
    data = seqloom.inspect.without(gpt, TEXT, off=["0.0"]).data
    assert data["bits"] == pytest.approx(-gpt.score(TEXT) / math.log(2), rel=1e-5)
