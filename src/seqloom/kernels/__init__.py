"""Loops that numba compiles, and keeps compiled: beside the source, or in the user's cache. Where neither can be written, as
for a service account in a container, numba would refuse to work; then they are kept in a directory of this process alone."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

HASH_SEED, HASH_PRIME = 0xCBF29CE484222325, 0x9E3779B97F4A7C15  # of spellings
PAD = 8  # spare bytes after text and spellings, so that kernels can read eight bytes from anywhere


def _writable(place: Path) -> bool:
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(place, os.W_OK)


def keep_somewhere(*places: Path) -> None:
    """Unless numba can write to one of its places, or was told another."""
    if "NUMBA_CACHE_DIR" in os.environ or any(map(_writable, places)):
        return
    os.environ["NUMBA_CACHE_DIR"] = made = tempfile.mkdtemp(prefix="seqloom-numba-")  # nobody else may write there
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    if "numba" in sys.modules:
        sys.modules["numba"].config.CACHE_DIR = made


_USERS = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # stays as it is for users without a home
keep_somewhere(Path(__file__).parent / "__pycache__", *([] if _USERS.startswith("~") else [Path(_USERS, "numba")]))
