"""`seqloom studio`: the server of `seqloom serve`, with a shelf instead of loaded models, and a page."""

from __future__ import annotations

import webbrowser
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from seqloom.errors import ConfigError
from seqloom.progress import say
from seqloom.serving.server import Serving, listen, run_catalogue
from seqloom.studio import configs
from seqloom.studio.comparing import small_set
from seqloom.studio.configs import StudioConfig
from seqloom.studio.routes import Studio
from seqloom.studio.shelf import Shelf
from seqloom.studio.starting import newest_comparison


def make_studio(directories: Sequence[str | Path], config: StudioConfig) -> Studio:
    """Return the shelf of these directories, or of the newest comparison in the cache; with no model at
    all, a small set begins to be trained.
    """
    if not directories and (newest := newest_comparison()) is not None:
        directories = [newest]
    shelf = Shelf(directories, config)
    return Studio(shelf, small_set(shelf) if config.train and not directories else None)


def settled(config: StudioConfig) -> StudioConfig:
    """Return options with the usual port, where none is given and it is free: a page that is open, and links
    to it, outlive the server.
    """
    usual = replace(config, port=configs.USUAL)
    if config.port == 0:
        with suppress(ConfigError):
            listen(usual).close()
            return usual
    return config


def run(
    directories: Sequence[str | Path], config: StudioConfig, started: Callable[[str, Shelf], None]
) -> None:
    """Serve the page until a signal comes; `started` is called with its address."""
    made: list[Studio] = []
    config = settled(config)

    def make() -> Shelf:
        made.append(make_studio(directories, config))
        return made[0].shelf

    def begun(address: str, shelf: Shelf) -> None:
        started(address, shelf)
        if config.browser and not webbrowser.open(address):
            say(f"no browser was found; open {address}")

    try:
        run_catalogue(make, config, begun, lambda shelf: made[0].routes())
    finally:
        for one in made:
            if one.comparing is not None:
                one.comparing.close()


class Studying(Serving):
    """The page in a thread of this process: `address` to open, `close()` to end; a `with` block does."""

    def __init__(self, opened: Studio, config: StudioConfig) -> None:
        self._studio = opened
        super().__init__(opened.shelf, config, opened.routes())

    def __repr__(self) -> str:
        return f"<studio of {len(self._studio.shelf.books)} models on {self.address}>"

    def close(self) -> None:
        """End: what runs is ended."""
        super().close()
        if self._studio.comparing is not None:
            self._studio.comparing.close()


def open_studio(*directories: str | Path, **options: Any) -> Studying:
    """Serve the page from this process, in a thread: of saved models below directories, or of the newest
    comparison. `options` are those of `seqloom studio`; no browser is opened unless asked for.
    """
    config = StudioConfig(**{"browser": False} | options)
    running = Studying(make_studio(directories, config), config)
    if config.browser:
        webbrowser.open(running.address)
    return running
