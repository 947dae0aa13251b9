"""What is there to show: the comparisons on the shelf; and where there is no model at all, a small set
that is trained beside the page.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from seqloom.comparison.kept import NAME
from seqloom.data.corpus import bundled
from seqloom.directories import cache_directory
from seqloom.studio.shelf import RESULT, Shelf, read_json

RUNGS = ("uniform", "byte-3", "word-2", "hmm", "bpe-3", "rnn", "lstm")
MINUTES = "0.1"  # of each network
EXCERPT = 600  # characters of the bundled text that are shown where no comparison kept any


def newest_comparison(folder: Path | None = None) -> Path | None:
    """Return the directory of the comparison in the cache that was used last and holds a model."""
    folder = folder or cache_directory() / "compare"
    found = [one.parent.parent for one in folder.glob(f"*/*/{RESULT}")]
    return max(found, key=lambda one: one.stat().st_mtime) if found else None


def comparison(shelf: Shelf) -> dict[str, Any]:
    """Return the newest comparison below the shelf's directories, as `comparison.json` has it, with the
    name of each rung's model here; one that is not finished has the rungs that are.
    """
    files = [
        path
        for directory in shelf.directories
        for path in (directory / NAME, *directory.glob(f"*/{NAME}"))
        if path.is_file()
    ]
    newest = max(files, key=lambda path: path.stat().st_mtime, default=None)
    kept = {} if newest is None else read_json(newest)
    by_path = {str(book.path.resolve()): name for name, book in shelf.books.items()}
    by_rung = {book.result.get("name"): name for name, book in shelf.books.items()}
    rungs = []
    places = kept.get("places") or {}
    for row in kept.get("rungs") or []:
        place = places.get(row.get("name"))
        model = by_path.get(str(Path(place).resolve())) if place else None
        rungs.append(row | {"model": model or by_rung.get(row.get("name"))})
    listed, measure = {row["model"] for row in rungs}, kept.get("measure") or _measure(shelf)
    others = [(name, book) for name, book in shelf.books.items() if book.result]
    for name, book in sorted(
        others, key=lambda one: -_value(one[1].result, measure)
    ):  # trained with others, which the file does not have
        if name not in listed:
            row = {key: value for key, value in book.result.items() if key != "measures"}
            rungs.append(row | book.result.get("measures", {}) | {"model": name})
    return kept | {
        "rungs": rungs,
        "measure": measure,
        "held_out": kept.get("held_out") or excerpt(),
    }


def _measure(shelf: Shelf) -> str | None:
    for book in shelf.books.values():
        for measure in book.result.get("measures", {}):
            return measure
    return None


def _value(result: dict[str, Any], measure: str | None) -> float:
    value = (result.get("measures") or {}).get(measure)
    return value if isinstance(value, float) else 0.0


def excerpt() -> str:
    """Return some lines near the end of the bundled text, which comparisons hold out."""
    data = b"".join(chunk for document in bundled().documents for chunk in document.chunks())
    text = data.decode("utf-8", "replace")
    lines = text[-20 * EXCERPT :][:EXCERPT].split("\n")
    return "\n".join(lines[1:-1]).strip() + "\n"


class Training:
    """`seqloom compare` with a few rungs, in a process of its own."""

    def __init__(self, shelf: Shelf, rungs: tuple[str, ...] = RUNGS) -> None:
        self.rungs, self.shelf = rungs, shelf
        self.said, self.error = "", ""
        command = [sys.executable, "-m", "seqloom", "compare", "--rungs", ",".join(rungs)]
        self.child = subprocess.Popen(
            [*command, "--minutes", MINUTES, "--no-samples"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.child.stderr is not None
        for line in self.child.stderr:
            if line := re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line).strip():
                self.said = line
        if self.child.wait() > 0:
            self.error = self.said or "training ended with an error"

    def described(self) -> dict[str, Any]:
        """Return how far it is; look for models that have come."""
        running = self.child.poll() is None
        newest = newest_comparison()
        if newest is not None and newest not in self.shelf.directories:
            self.shelf.directories.append(newest)
        self.shelf.scan()
        return {
            "running": running,
            "done": len(self.shelf.books),
            "of": len(self.rungs),
            "said": self.said,
            "error": self.error,
        }

    def close(self) -> None:
        """End it; finished rungs stay."""
        if self.child.poll() is None:
            self.child.terminate()
