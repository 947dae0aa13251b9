"""What is kept of a comparison beside its rungs, for whoever opens it later: `seqloom studio`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqloom import directories
from seqloom.errors import SeqloomError

if TYPE_CHECKING:
    from seqloom.comparison.result import Comparison

NAME = "comparison.json"  # as in a report


def keep(comparison: Comparison, directory: Path, wanted: Sequence[str], *, running: bool) -> None:
    """Write the comparison beside its rungs, with where they are and some lines of held-out text; also
    while it runs, so that who watches sees what there is. `wanted`: all rungs, also those still to come.
    """
    if not comparison.results or not directory.is_dir():
        return
    assert comparison.bench is not None
    ladder, path = comparison.ladder, directory / NAME
    before = _read(path)
    done = {one.get("name") for one in before.get("rungs") or () if not before.get("running")}
    if running and done >= {one.name for one in comparison.results}:
        return  # all is there from an earlier time, with more
    values: dict[str, Any] = comparison.to_dict(paired=not running) | {
        "measure_title": ladder.measure.title,
        "measure_form": ladder.measure.form,
        "measure_log": ladder.measure.log,
        "lower_is_better": ladder.measure.lower,
        "models": ladder.models,
        "size_unit": ladder.size_unit,
        "columns": [one._asdict() for one in ladder.columns],
        "front": front(comparison),
        "places": comparison.places,
        "held_out": ladder.excerpt(comparison.bench.splits),
        "wanted": list(wanted),
        "running": running,
    }
    text = json.dumps(values, ensure_ascii=False)
    if json.loads(text) == before:
        return
    with suppress(SeqloomError), directories.writing_file(path) as partial:  # a full disk
        partial.write_bytes(text.encode("utf-8", "replace"))


def _read(path: Path) -> dict[str, Any]:
    """Return what is there; nothing where it cannot be read."""
    try:
        values = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def front(comparison: Comparison) -> list[str]:
    """Return the rungs than which none is both smaller and better, from the smallest on."""
    measure, names, best = comparison.ladder.measure, list[str](), None
    sized = [one for one in comparison.results if one.disk is not None]
    for one in sorted(sized, key=lambda r: (r.disk or 0, r.value if measure.lower else -r.value)):
        if best is None or measure.better(one.value, best):
            names.append(one.name)
            best = one.value
    return names
