"""A real browser for tests of the page; where there is none, they skip and say why."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

sync_api = pytest.importorskip(
    "playwright.sync_api", reason="no playwright; pip install 'seqloom[browser]'"
)
pytest.importorskip("uvicorn")
pytest.importorskip("starlette")

NAMES = (os.environ.get("SEQLOOM_BROWSER"), "chromium-headless-shell", "chromium", "google-chrome")
FOUND = next((shutil.which(name) for name in NAMES if name and shutil.which(name)), None)
if FOUND is None:
    pytest.skip(
        "no Chromium; apt-get install --no-install-recommends chromium-headless-shell",
        allow_module_level=True,
    )
AXE = os.environ.get("SEQLOOM_AXE")  # axe.min.js of npm's axe-core
PICTURES = os.environ.get("SEQLOOM_PICTURES")  # a directory that keeps what was photographed

SIZES = {"wide": (1280, 800), "phone": (360, 740)}
LOOKS = [(size, scheme) for size in SIZES for scheme in ("light", "dark")]
CHECKED = [("wide", "light"), ("wide", "dark"), ("phone", "light")]  # by axe-core


def launched():
    """Yield the one browser of a test process; a second driver in the same thread fails."""
    with sync_api.sync_playwright() as driver:
        one = driver.chromium.launch(executable_path=FOUND)
        yield one
        one.close()


class Page:
    """A page of the studio in a window of its own, `page` of Playwright; `wrong` is what must not be."""

    def __init__(self, browser, address: str, size: str = "wide", scheme: str = "light") -> None:
        width, height = SIZES[size]
        self.context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            reduced_motion="reduce",
            locale="en-GB",
        )
        self.page, self.address, self.wrong = self.context.new_page(), address, []
        # of a test that fails: what takes long on a slow or busy machine, such as kernels, is waited for
        self.page.set_default_timeout(300_000)
        self.asking: set[object] = set()  # requests without an answer
        self.page.on("request", lambda request: self._asked(request))
        self.page.on("requestfinished", lambda request: self.asking.discard(request))
        self.page.on("requestfailed", lambda request: self.asking.discard(request))
        self.page.on("console", lambda said: self._said(said))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.wrong.append("a dialog"), dialog.dismiss()))
        self.context.route("**/*", self._route)
        self.refused: tuple[str, ...] = ()  # words of console messages that a test expects

    def _said(self, said) -> None:
        if said.type in ("error", "warning") and not any(one in said.text for one in self.refused):
            self.wrong.append(said.text)

    def _asked(self, request) -> None:
        if request.is_navigation_request():  # nobody waits any more for what was asked before
            self.asking.clear()
        self.asking.add(request)

    def _route(self, route) -> None:
        if route.request.url.startswith(self.address):
            route.continue_()
        else:
            self.wrong.append(route.request.url)
            route.abort()

    def open(self, place: str) -> None:
        """Open a view by its address, from the beginning, and wait until it is there."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.address}/#{place}")
        self.page.wait_for_selector("footer.signature")

    def quiet(self) -> None:
        """Wait until nothing is asked for any more and all answers are drawn, and what they ask in turn."""
        while True:
            self.page.wait_for_function("() => !document.querySelector('main .wait, main .stale')")
            self.settle()
            if not self.asking and not self.page.locator("main .wait, main .stale").count():
                return
            self.page.wait_for_timeout(20)

    def settle(self) -> None:
        """Wait for two frames: what the first draws is measured, and what was measured is drawn."""
        frame = "await new Promise(requestAnimationFrame);"
        self.page.evaluate(
            f"async () => {{ {frame} {frame} await new Promise((done) => setTimeout(done)) }}"
        )

    def look(self, size: str, scheme: str) -> None:
        """Change the width and the scheme, and wait until the page has them: a busy machine is late."""
        width, height = SIZES[size]
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.emulate_media(color_scheme=scheme)
        there = "matchMedia(`(prefers-color-scheme: ${scheme})`).matches && innerWidth === width"
        self.page.wait_for_function(f"([width, scheme]) => {there}", arg=[width, scheme])
        self.settle()

    def photograph(self, name: str) -> None:
        """Keep a picture, where pictures are wanted."""
        if PICTURES:
            self.page.screenshot(path=Path(PICTURES) / f"{name}.png", full_page=True)

    def check_access(self) -> None:
        """Let axe-core look for what keeps people out; nothing serious may be found."""
        if AXE is None:
            pytest.skip("no axe-core; SEQLOOM_AXE names its axe.min.js")
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(Path(AXE).read_text(encoding="utf-8"))
        found = self.page.evaluate("axe.run(document)")["violations"]
        serious = [
            (one["id"], [node["html"][:150] for node in one["nodes"][:3]])
            for one in found
            if one["impact"] in ("serious", "critical")
        ]
        assert not serious, serious

    def check_width(self) -> None:
        """Nothing may stand out at the side."""
        width = self.page.viewport_size["width"]
        shown = self.page.evaluate("document.documentElement.scrollWidth")
        assert shown <= width, f"{shown} of {width}"

    def check_looks(self, place: str, name: str) -> None:
        """Open a view once, photograph it at all widths and in both schemes, and check what holds for every
        view; with axe-core, also who would be kept out.
        """
        self.open(place)
        self.quiet()
        assert self.page.locator("h1").count() == 1
        for size, scheme in LOOKS:
            self.look(size, scheme)
            self.photograph(f"{name}-{size}-{scheme}")
            self.check_width()
            if AXE and (size, scheme) in CHECKED:
                self.check_access()

    def close(self) -> None:
        """Close, and fail if anything went wrong or left the server."""
        self.context.close()
        assert not self.wrong, self.wrong
