"""Runs for the page: the logs of networks below the shelf's directories, also while they are written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from seqloom.errors import SeqloomError
from seqloom.serving.fields import Fields
from seqloom.studio.looking import listed
from seqloom.studio.shelf import Shelf, saved_below
from seqloom.views.advice import advice_of
from seqloom.views.run_logs import RunLog, place_of, read_run
from seqloom.views.training_logs import run

RECORD = "run.json"  # what a directory of a run has
MOST = 12  # runs that are shown together


def runs(shelf: Shelf) -> dict[str, Any]:
    """Return the runs that can be shown, those that are being trained first, then the newest."""
    found: list[dict[str, Any]] = []
    for name, path in _places(shelf).items():
        if (place := place_of(path)) is not None:
            written = place.stamp[1] / 1e9
            about = {"model": name if name in shelf.books else None, "state": place.state}
            found.append({"name": name, "path": str(path), "written": written} | about)
    found.sort(key=lambda one: (one["state"] != "training", -one["written"]))
    return {"runs": found}


def look(shelf: Shelf, asked: Fields) -> dict[str, Any]:
    """Return what `seqloom inspect run` has of some runs, with the advice for each; nothing but the stamp
    where it is the one that the page has already.
    """
    places = _places(shelf)
    names = asked.texts("runs", MOST)
    stamp = [[name, *_stamp(places[name])] for name in names if name in places]
    if stamp and stamp == asked.raw("stamp"):
        return {"stamp": stamp}
    problems: dict[str, str] = {}
    sound: dict[str, RunLog] = {}
    for name in names:
        try:
            if name in places:
                sound[name] = read_run(places[name])
            else:
                problems[name] = f"{name} is not here; it may have been removed"
        except (SeqloomError, OSError) as error:  # it was removed just now, or has not begun
            problems[name] = " ".join(str(error).split())
    answer: dict[str, Any] = {
        "stamp": stamp,
        "problems": problems,
        "advice": {name: advice_of(log).to_dict() for name, log in sound.items()},
        "data": None,
    }
    if sound:
        by_path = {str(places[name]): name for name in sound}
        sheet = run(list(by_path), by=asked.text("by", "steps"))
        answer |= {"data": listed(sheet.data), "summary": list(sheet.summary)}
        for row in (*answer["data"]["rows"], *answer["data"]["runs"]):
            row["run"] = by_path[row["run"]]
    return answer


def _places(shelf: Shelf) -> dict[str, Path]:
    """Return where runs may be, by name: saved models, and directories of runs."""
    shelf.scan()
    found = {name: book.path for name, book in shelf.books.items()}
    for directory in shelf.directories:
        for path in saved_below(directory, mark=RECORD):
            name = path.name if path.name not in found else f"{path.parent.name}/{path.name}"
            found.setdefault(name, path)
    return found


def _stamp(path: Path) -> list[Any]:
    place = place_of(path)
    return [] if place is None else [place.state, place.stamp[0], str(place.stamp[1])]
