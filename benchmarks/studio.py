"""The page of `seqloom studio` in a real browser: how soon something is painted, how soon a slider is felt
with five models on the board, how many bytes it is; and how long the set of models takes that is trained
where there is none, with and without compiled kernels.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.side_by_side import SMOKE, bundled_text, collect, sized, table

NAMES = (os.environ.get("SEQLOOM_BROWSER"), "chromium-headless-shell", "chromium", "google-chrome")
PAINTS, MOVES = sized(15, 2), sized(30, 3)
BARS = {"paint": 0.3, "slider": 0.05, "bytes": 400_000, "first set": 60.0}
Row = tuple[str, str, str, str]

# The time from an event of a slider until what it changes was painted, in milliseconds.
MOVE = """async ([value, selector]) => {
    const slider = document.querySelector("input[type=range]"), shown = document.querySelector(selector);
    const before = shown.textContent, begun = performance.now();
    slider.value = value;
    slider.dispatchEvent(new Event("input", {bubbles: true}));
    while (document.querySelector(selector).textContent === before && performance.now() - begun < 5000)
        await new Promise((done) => setTimeout(done));
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    return performance.now() - begun;
}"""


def run(quick: bool, only: str) -> None:
    with TemporaryDirectory(prefix="seqloom-studio-") as place:
        suites: dict[str, Any] = {"bytes": size, "page": partial(page, Path(place), quick)}
        if not (SMOKE or quick):
            suites["first-set"] = partial(first_set, Path(place))
        rows = collect(suites, only)
    table("Studio", rows, ("what", "bar", "seqloom", "holds"))


def row(what: str, bar: str, unit: str, value: float, shown: str) -> Row:
    """A figure beside its bar."""
    limit = BARS[bar]
    return what, f"under {limit:,g} {unit}", shown, "yes" if value < limit else "no"


def size() -> list[Row]:
    """Script and style of all views, uncompressed."""
    from seqloom.studio.page import STATIC

    files = [path for path in STATIC.rglob("*") if path.suffix in (".js", ".mjs", ".css")]
    total = sum(path.stat().st_size for path in files)
    return [row("script and style of all views", "bytes", "bytes", total, f"{total:,}")]


def make_shelf(folder: Path) -> None:
    """Save five small models with results."""
    from seqloom import HMM, NGram

    text = bundled_text()[:100_000]
    for number, model in enumerate(
        [NGram(order=n, tokenizer="byte") for n in (2, 3, 5)]
        + [NGram(order=3, tokenizer="bpe", vocab_size=400)]
        + [HMM(states=4, iterations=2, tokenizer="bpe", vocab_size=400)]
    ):
        path = folder / f"rung-{number}"
        model.fit(text).save(path)
        result = {"name": f"rung-{number}", "family": "n-gram", "parameters": 1, "disk": 1000}
        measured = {"measures": {"bits_per_byte": 5.0 - number / 2}, "interval": [2.0, 5.0]}
        (path / "result.json").write_text(json.dumps(result | measured))


def page(place: Path, quick: bool) -> list[Row]:
    """Paint and sliders in a browser; only the server's answer where there is none."""
    from seqloom.studio.server import open_studio

    folder = place / "shelf"
    make_shelf(folder)
    with open_studio(folder) as studio:
        took = []
        for _ in range(PAINTS):
            begun = time.perf_counter()
            urllib.request.urlopen(studio.address).read()
            took.append(time.perf_counter() - begun)
        rows = [
            row("the page from the server", "paint", "s", median(took), f"{median(took):.3f} s")
        ]
        found = next((shutil.which(name) for name in NAMES if name and shutil.which(name)), None)
        if found is None:
            print("(skipped: there is no Chromium)")
            return rows
        try:
            from playwright.sync_api import sync_playwright
        except ImportError:
            print("(skipped: playwright is not installed)")
            return rows
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=found)
            rows += paints(browser, studio.address) + sliders(browser, studio.address)
            browser.close()
    return rows


@contextmanager
def opened(browser: Any, address: str) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    one = context.new_page()
    one.goto(address)
    one.wait_for_selector("footer.signature")
    yield one
    context.close()


def paints(browser: Any, address: str) -> list[Row]:
    """First contentful paint in a browser that has kept nothing; and when the view is whole."""
    first, whole = [], []
    for _ in range(PAINTS):
        with opened(browser, address) as one:
            entries = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
            first.append(one.evaluate(entries) / 1000)
            one.wait_for_selector("[data-bits]")
            whole.append(one.evaluate("performance.now()") / 1000)
    return [
        row("first paint", "paint", "s", median(first), f"{median(first):.3f} s"),
        ("the first view with its numbers", "-", f"{median(whole):.3f} s", "-"),
    ]


def sliders(browser: Any, address: str) -> list[Row]:
    """The temperature of five models on the board, and the held-out lines along the ladder."""
    names = "&".join(f"m=rung-{i}" for i in range(5))
    rows = []
    for what, place, selector, values in (
        ("temperature, five models on the board", f"next?{names}&t=the ", "[data-entropy]", 9),
        ("from model to model, six held-out lines", "compare", "[data-bits]", 5),
    ):
        with opened(browser, f"{address}/#{place}") as one:
            one.wait_for_selector(selector)
            one.wait_for_load_state("networkidle")
            took = []
            for i in range(MOVES):
                value = 0.5 + (i % values) / 10 if values == 9 else i % values
                took.append(one.evaluate(MOVE, [str(value), selector]) / 1000)
        took = [one for one in took if one < 4]  # the first value may be what is shown already
        shown = f"{1000 * median(took):.0f} ms"
        rows.append(row(what, "slider", "s", median(took), shown))
    return rows


def first_set(place: Path) -> list[Row]:
    """From the command to all models of the small set: in a new home, then with compiled kernels."""
    rows = []
    kernels = place / "kernels"
    for what in ("no model and no compiled kernel", "no model"):
        cache = place / f"cache-{len(rows)}"
        environment = os.environ | {"SEQLOOM_CACHE": str(cache), "NUMBA_CACHE_DIR": str(kernels)}
        begun, first = time.perf_counter(), None
        command = [sys.executable, "-m", "seqloom", "studio", "--no-browser", "--json"]
        child = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        try:
            assert child.stdout is not None
            address = json.loads(child.stdout.readline())["address"]
            listening = time.perf_counter() - begun
            while True:
                found = json.load(urllib.request.urlopen(f"{address}/studio/models"))
                if found["models"] and first is None:
                    first = time.perf_counter() - begun
                if not found["training"]["running"]:
                    break
                time.sleep(0.5)
        finally:
            child.terminate()
            child.wait(30)
        took = time.perf_counter() - begun
        shown = (
            f"{took:.0f} s (page after {listening:.1f} s, first model after {first or took:.0f} s)"
        )
        rows.append(row(f"the small set, {what}", "first set", "s", took, shown))
    return rows


if __name__ == "__main__":
    run(False, "")
