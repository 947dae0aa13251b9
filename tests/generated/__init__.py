"""Pages of docs/ that are made from the code: `python -m tests.generated` writes them anew."""

from collections.abc import Callable
from pathlib import Path

from tests.generated.commands import commands_page
from tests.generated.names import names_page

DOCS = Path(__file__).parent.parent.parent / "docs"
COMMAND = "python -m tests.generated"
PAGES: dict[str, Callable[[], str]] = {
    "reference-cli.md": commands_page,
    "reference-python.md": names_page,
}


def write() -> None:
    for name, make in PAGES.items():
        (DOCS / name).write_text(make(), encoding="utf-8")
