"""Where seqloom keeps files of its own."""

from __future__ import annotations

import os
from pathlib import Path


def cache_directory() -> Path:
    """For what can be made or fetched again: $SEQLOOM_CACHE, or the user's cache directory."""
    base = os.environ.get("SEQLOOM_CACHE")
    return (
        Path(base)
        if base
        else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "seqloom"
    )
