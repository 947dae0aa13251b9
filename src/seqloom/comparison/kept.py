"""What is kept of a comparison beside its rungs, for whoever opens it later: `seqloom studio`."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqloom import directories
from seqloom.errors import SeqloomError

if TYPE_CHECKING:
    from seqloom.comparison.result import Comparison

NAME = "comparison.json"  # as in a report


def keep(comparison: Comparison, directory: Path) -> None:
    """Write the comparison beside its rungs, with where they are and some lines of held-out text."""
    if not comparison.results or not directory.is_dir():
        return
    assert comparison.bench is not None
    values: dict[str, Any] = comparison.to_dict() | {
        "measure_title": comparison.ladder.measure.title,
        "lower_is_better": comparison.ladder.measure.lower,
        "places": comparison.places,
        "held_out": comparison.ladder.excerpt(comparison.bench.splits),
    }
    text = json.dumps(values, ensure_ascii=False)
    with suppress(SeqloomError), directories.writing_file(directory / NAME) as path:  # a full disk
        path.write_bytes(text.encode("utf-8", "replace"))
