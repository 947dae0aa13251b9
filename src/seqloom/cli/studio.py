"""`seqloom studio [DIR...]`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from seqloom.cli.options import common, config_options, emit, given
from seqloom.progress import say
from seqloom.studio.configs import StudioConfig

if TYPE_CHECKING:
    from seqloom.studio.shelf import Shelf


@click.command(
    name="studio",
    epilog="""\b
Examples:
  seqloom studio                 # the newest comparison
  seqloom studio models report   # all models below these directories
  seqloom studio --no-browser --port 8000
""",
)
@click.argument("directories", nargs=-1, metavar="[DIR]...")
@config_options(StudioConfig, skip=("key",))
@common
def command(directories: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Open a page on which models think about the same text, side by side.

    DIR has saved models, itself or below it; without one, those of the newest comparison. With none at
    all, a small set is trained on the bundled text. Nothing leaves this machine.
    """
    from seqloom.studio.server import run

    config = StudioConfig(**given(StudioConfig, options))

    def started(address: str, shelf: Shelf) -> None:
        if as_json:
            emit({"address": address, "models": list(shelf.books)})
        say(f"{len(shelf.books):,} models; the page is at {address} (Ctrl-C ends)")

    run(directories, config, started)
