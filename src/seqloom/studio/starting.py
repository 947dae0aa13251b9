"""What is there to show: the comparisons on the shelf, and some held-out text."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from seqloom.comparison.kept import NAME
from seqloom.data.corpus import bundled
from seqloom.directories import cache_directory
from seqloom.serving.fields import Refused
from seqloom.studio.shelf import RESULT, Shelf, read_json

EXCERPT = 600  # characters of the bundled text that are shown where no comparison kept any
LINES = 6  # of held-out text that the first view shows
ROOTS = (
    "compare/*/*",
    "studio/*/*/*",
)  # rungs below the cache: of `compare`, of files given to the page


def newest_comparison() -> Path | None:
    """Return the directory of the comparison in the cache that was used last and holds a model."""
    root = cache_directory()
    found = [one.parent.parent for rungs in ROOTS for one in root.glob(f"{rungs}/{RESULT}")]
    return max(found, key=lambda one: one.stat().st_mtime, default=None)


def comparisons(shelf: Shelf) -> dict[str, Path]:
    """Return the files of all comparisons below the shelf's directories by name, the newest first."""
    files = {
        path.resolve(): path.stat().st_mtime_ns
        for directory in shelf.directories
        for path in (directory / NAME, *directory.glob(f"*/{NAME}"))
        if path.is_file()
    }
    named: dict[str, Path] = {}
    for path in sorted(files, key=lambda one: -files[one]):
        name = path.parent.name
        named[name if name not in named else f"{name}-{len(named)}"] = path
    return named


def listed(shelf: Shelf) -> list[dict[str, Any]]:
    """Return a line about each comparison, the newest first."""
    lines = []
    for name, path in comparisons(shelf).items():
        try:
            stamp = path.stat().st_mtime_ns
        except OSError:
            continue
        lines.append({"name": name, "stamp": str(stamp)} | _head(path, stamp))
    return lines


@cache
def _head(path: Path, stamp: int) -> dict[str, Any]:
    kept = read_json(path)
    return {key: kept.get(key) for key in ("corpus", "models", "best", "running")}


def comparison(shelf: Shelf, name: str = "") -> dict[str, Any]:
    """Return a comparison, the newest unless one is named, as `comparison.json` has it, with the name of
    each rung's model here; one that is not finished has the rungs that are.
    """
    files = comparisons(shelf)
    if name and name not in files:
        raise Refused(f"there is no comparison {name!r} here; it may have been removed", status=404)
    path = files[name] if name else next(iter(files.values()), None)
    kept = {} if path is None else read_json(path)
    by_path = {str(book.path.resolve()): name for name, book in shelf.books.items()}
    by_rung = {book.result.get("name"): name for name, book in shelf.books.items()}
    rungs = []
    places = kept.get("places") or {}
    for row in kept.get("rungs") or []:
        place = places.get(row.get("name"))
        model = by_path.get(str(Path(place).resolve())) if place else None
        if model is None and path is not None:  # a report, whose models are elsewhere
            model = by_rung.get(row.get("name"))
        rungs.append(row | {"model": model})
    listed, measure = {row["model"] for row in rungs}, kept.get("measure") or _measure(shelf)
    # Without a file all that was measured. Beside a file there may be rungs of another comparison of the same
    # text, such as one with other minutes.
    others = [(name, book) for name, book in shelf.books.items() if book.result and path is None]
    for name, book in sorted(others, key=lambda one: -_value(one[1].result, measure)):
        if name not in listed:
            row = {key: value for key, value in book.result.items() if key != "measures"}
            rungs.append(row | book.result.get("measures", {}) | {"model": name})
    held_out = kept.get("held_out") or excerpt()
    return kept | {
        "rungs": rungs,
        "measure": measure,
        "directory": None if path is None else str(path.parent),
        "held_out": held_out,
        "lines": some_lines(held_out),
        "is_text": kept.get("task") in (None, "text"),
    }


def some_lines(text: str) -> str:
    """Return the lines next to each other that hold most text; empty ones are left out."""
    lines = [line for line in text.split("\n") if line.strip()]
    starts = range(max(1, len(lines) - LINES + 1))
    best = max(starts, key=lambda i: (sum(map(len, lines[i : i + LINES])), -i))
    return "\n".join(lines[best : best + LINES])


def _measure(shelf: Shelf) -> str | None:
    for book in shelf.books.values():
        for measure in book.result.get("measures", {}):
            return measure
    return None


def _value(result: dict[str, Any], measure: str | None) -> float:
    value = (result.get("measures") or {}).get(measure)
    return value if isinstance(value, float) else 0.0


@cache
def excerpt() -> str:
    """Return some lines near the end of the bundled text, which comparisons hold out."""
    data = b"".join(chunk for document in bundled().documents for chunk in document.chunks())
    text = data.decode("utf-8", "replace")
    lines = text[-20 * EXCERPT :][:EXCERPT].split("\n")
    return "\n".join(lines[1:-1]).strip() + "\n"
