"""What the page offers teachers: Shannon's game, guessing first, the tour; and a file dropped on it."""

import json
import math
from urllib.parse import quote

import numpy as np
import pytest

from seqloom.studio import shannon
from seqloom.studio.following import following
from tests.studio.browser import Page
from tests.studio.shelves import HOSTILE

VIEWS = {
    "game": "game?t=the%20cat%20sat%20on%20the%20mat&from=4&g=1.1.2.1.1.9.1.1.1&show=1&m=byte-4",
    "tour": "compare?tour=1",
    "guess": "next?guess=1&m=byte-4&m=hmm&t=the%20",
    "picks": "surprise?guess=1&m=byte-4&t=to%20be%20or%20not",
}


@pytest.mark.parametrize("view", VIEWS)
def test_every_lesson_in_every_look(opened, view):
    opened.check_looks(VIEWS[view], view)


def test_guesses_are_a_code():
    """Whatever came before, the shares of the next number of guesses sum to one; in the end a number costs
    what its frequency says (Shannon's upper bound).
    """
    n = len(shannon.ALPHABET)
    for before in ([], [1, 1, 3, 40]):
        shares = [2.0 ** -shannon.costs([*before, number])[-1] for number in range(1, n + 1)]
        assert sum(shares) == pytest.approx(1)
    assert shannon.costs([1, 2]) == pytest.approx(
        [math.log2((1 - 1 / (n + 1)) * 2), math.log2(3 / (2 * (n + 1) / n / 6))]
    )
    drawn = np.random.default_rng(0).choice([1, 2, 5], 40_000, p=[0.7, 0.2, 0.1])
    entropy = -(0.7 * math.log2(0.7) + 0.2 * math.log2(0.2) + 0.1 * math.log2(0.1))
    assert shannon.costs(drawn.tolist()).mean() == pytest.approx(entropy, abs=0.01)


def test_the_game_is_the_code_and_models_pay_for_the_same_characters(opened, studio):
    opened.open(VIEWS["game"])
    text, guesses = "the cat sat on the mat", [1, 1, 2, 1, 1, 9, 1, 1, 1]
    bits = shannon.costs(guesses).mean()
    assert float(opened.page.locator("[data-you]").inner_text()) == pytest.approx(bits, abs=6e-4)
    own = opened.page.locator("tr.own").last
    assert own.get_by_role("cell").nth(1).inner_text() == f"{bits:.3f}"
    model = studio.catalogue.served("byte-4").model
    expected = [dict(map(tuple, following(model, text[:i])["characters"])) for i in range(4, 13)]
    wanted = -np.mean([found[text[i]] for i, found in enumerate(expected, 4)]) / math.log(2)
    paid = opened.page.locator('[data-same="byte-4"]')
    opened.page.wait_for_function("e => /\\d/.test(e.textContent)", arg=paid.element_handle())
    assert float(paid.inner_text()) == pytest.approx(wanted, abs=6e-4)


def test_a_game_is_played_and_is_in_the_address(opened):
    opened.open("game?t=a%20cat&from=2")
    opened.quiet()  # guesses are taken once the letters of the game are known
    field = opened.page.locator("input.guess")
    field.press("x")
    opened.page.get_by_text("not x").wait_for()
    field.press("c")
    opened.page.get_by_text("at guess 2").wait_for()
    field.press("a")
    opened.page.get_by_text("at once").wait_for()
    opened.page.get_by_role("button", name="Tell me").click()
    opened.page.get_by_text("That was the whole text").wait_for()
    place = shannon.ALPHABET.index("t") + 1
    assert f"g=2.1.{place}" in opened.page.url
    opened.quiet()
    before = opened.page.locator("[data-you]").inner_text()
    opened.page.reload()
    opened.page.locator("[data-you]").wait_for()
    opened.quiet()
    assert opened.page.locator("[data-you]").inner_text() == before


def test_answers_are_hidden_until_one_has_guessed(opened, studio):
    opened.open(VIEWS["guess"])
    opened.quiet()
    assert opened.page.locator(".bars").count() == 0
    assert opened.page.locator("[data-entropy]").count() == 0
    opened.page.get_by_label("what comes next?").fill("c")
    opened.page.get_by_role("button", name="Show").click()
    pieces = following(studio.catalogue.served("byte-4").model, "the ")["pieces"]
    rank = [text for text, *_ in pieces].index("c") + 1
    column = opened.page.locator('[data-model="byte-4"]')
    assert f"rank {rank}" in column.locator("[data-guessed]").inner_text()
    opened.open(VIEWS["picks"])
    opened.quiet()
    coloured = opened.page.locator(".coloured span")
    assert opened.page.locator("[data-bits]").count() == 0
    assert coloured.first.evaluate("e => e.style.backgroundColor") == ""
    coloured.first.click()
    opened.page.get_by_role("button", name="Show").click()
    opened.page.get_by_text("Of the 1 that you picked").wait_for()
    assert coloured.first.evaluate("e => e.style.backgroundColor") != ""


def test_the_tour_goes_through_ten_stops(opened):
    """A stop whose model is not here says so; others show the number that they are about."""
    opened.open("compare?tour=1")
    seen = 0
    for number in range(1, 11):
        tour = opened.page.locator(".tour", has_text=f"stop {number} of 10")
        tour.wait_for()
        if tour.get_by_role("status").count():
            assert (
                "seqloom compare trains one" in tour.inner_text()
                or "no such view" in tour.inner_text()
            )
        else:
            opened.page.wait_for_function(
                "() => /\\d/.test(document.querySelector('[data-watched]')?.textContent ?? '')"
            )
            seen += 1
        if number < 10:
            tour.get_by_role("button", name="Next").click()
    assert seen >= 3
    opened.page.go_back()
    opened.page.locator(".tour", has_text="stop 9 of 10").wait_for()
    opened.page.get_by_role("button", name="End the tour").click()
    assert opened.page.locator(".tour").count() == 0


def test_a_trigram_forgets_and_the_tour_shows_it(opened):
    opened.open("compare?tour=4")
    tour = opened.page.locator(".tour")
    if tour.get_by_role("status").count():  # this shelf has no network
        opened.open(f"next?m=byte-2&t={quote('The queen was old. Long live the ')}")
        opened.quiet()
        first = opened.page.locator("[data-entropy]").inner_text()
        opened.page.get_by_label("Prompt").fill("The sea was cold. Long live the ")
        opened.quiet()
        assert opened.page.locator("[data-entropy]").inner_text() == first


def test_a_file_is_dropped_watched_and_stopped(browser, tmp_path, monkeypatch):
    from seqloom.studio.server import open_studio

    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path / "cache"))
    (tmp_path / "empty").mkdir()
    rows = "".join(f"{word} day {i % 7}\t{word}\n" for i in range(60) for word in ("good", "bad"))
    file = {
        "name": f"{HOSTILE}.tsv",
        "mimeType": "text/plain",
        "buffer": f"text\tlabel\n{rows}".encode(),
    }
    with open_studio(tmp_path / "empty") as studio:
        made = Page(browser, studio.address)
        made.open("compare")
        assert "No comparison is among these models" in made.page.locator("main").inner_text()
        made.page.locator("input[type=file]").set_input_files([file])
        made.page.get_by_label("minutes for each network").fill("0.05")
        made.page.get_by_role("button", name="Compare", exact=True).click()
        made.page.locator("table.rungs tbody tr").first.wait_for()
        made.photograph("watched")
        kept = next((tmp_path / "cache" / "studio").glob("*/*/comparison.json"))
        first = json.loads(kept.read_text())["rungs"][0]
        row = made.page.locator(f'tr[data-rung="{first["name"]}"]')
        assert row.get_by_role("cell").nth(1).inner_text() == f"{first['accuracy']:.1%}"
        made.page.get_by_role("button", name="Stop").click()
        made.page.get_by_text("was stopped").wait_for()
        bad = file | {"name": "short.txt", "buffer": b"too short"}
        made.page.locator("input[type=file]").set_input_files([bad])
        made.page.get_by_role("button", name="Compare", exact=True).click()
        made.page.get_by_text("short.txt: 9 bytes are too few").wait_for()
        assert made.page.locator("main img").count() == 0
        bad = file | {"name": "image.png", "buffer": b"\x89PNG\xff\xfe"}
        made.page.locator("input[type=file]").set_input_files([bad])
        made.page.get_by_role("button", name="Compare", exact=True).click()
        made.page.get_by_text("image.png is not text in UTF-8").wait_for()
        made.close()


def test_a_page_may_be_open_twice(browser, studio):
    pages = [Page(browser, studio.address) for _ in range(2)]
    for made in pages:
        made.open("compare?m=byte-2&t=to%20be")
    for made, name in zip(pages, ("byte-4", "hmm")):
        made.page.get_by_role("button", name=name, exact=True).click()
        made.page.locator(".reading", has_text=f"with {name}").wait_for()
    for made in pages:
        made.close()
