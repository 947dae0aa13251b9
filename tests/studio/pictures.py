"""Draw the pictures of docs/studio.md again: `python -m tests.studio.pictures [NAME...]`, with the models of
the newest comparison in the cache (`make compare`). Of each picture the colours are reduced to 256.
"""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import quote

IMAGES = Path(__file__).parents[2] / "docs" / "images"
LINE = quote("The queen was old and grey. Long live the ")
# name: address and height in pixels
PICTURES = {
    "compare": ("compare", 690),
    "place": ("compare?m=bpe-mixture&at=24", 870),
    "next": ("next?m=byte-3&m=bpe-3&m=lstm&m=gpt&t=" + quote("O Romeo, wher"), 640),
    "surprise": ("surprise?m=lstm&other=byte-3", 640),
    "tour": (f"next?tour=4&m=byte-3&m=lstm&by=characters&t={LINE}", 700),
    "game": ("game?from=60&g=1.1.2.1.1.1.4.1.1.1.1.1.2.1.1.1.2.1.1.1&show=1", 930),
}


def main(names: list[str]) -> None:
    """Photograph these views, or all."""
    from PIL import Image

    from seqloom.studio.server import open_studio
    from tests.studio.browser import Page, launched

    with open_studio() as studio:
        for browser in launched():
            for name in names or PICTURES:
                place, height = PICTURES[name]
                page = Page(browser, studio.address)
                page.page.set_default_timeout(300_000)
                page.page.set_viewport_size({"width": 1200, "height": height})
                page.open(place)
                page.quiet()
                page.page.wait_for_timeout(500)
                path = IMAGES / f"studio-{name}.png"
                page.page.screenshot(path=path)
                Image.open(path).convert("RGB").quantize(256).save(path, optimize=True)
                print(f"{path}: {path.stat().st_size:,} bytes")
                page.close()


if __name__ == "__main__":
    main(sys.argv[1:])
