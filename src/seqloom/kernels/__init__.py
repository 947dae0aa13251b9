"""Loops that numba compiles, and keeps compiled in a directory that is named
after the sources of all of them.

numba notices a change of a function's own file only, and kernels call kernels of other files. So the
directory carries a stamp of all sources. It stands beside them, or in the user's cache; where neither can be
written, as for a service account in a container, it is one of this process alone.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

HASH_SEED, HASH_PRIME = 0xCBF29CE484222325, 0x9E3779B97F4A7C15  # of spellings
PAD = 8  # spare bytes after text and spellings, so that kernels can read eight bytes from anywhere
_SOURCES = Path(__file__).parent


def source_stamp(folder: Path = _SOURCES) -> str:
    """Return a name that changes whenever a kernel of this folder does."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        digest.update(path.read_bytes())
    return f"seqloom-{digest.hexdigest()[:12]}"


def _writable(directory: Path) -> bool:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(directory, os.W_OK)


def cache_directory(stamp: str, *directories: Path) -> Path:
    """Return where compiled kernels are kept:
    below $NUMBA_CACHE_DIR, else below the first directory that can be written.
    """
    if given := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(given) if Path(given).name == stamp else Path(given, stamp)
    for directory in directories:
        if _writable(directory / stamp):
            return directory / stamp
    made = tempfile.mkdtemp(prefix="seqloom-numba-")  # nobody else may write there
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made, stamp)


def use_cache(directory: Path) -> None:
    """Let numba keep compiled kernels there; processes that this one starts do the same."""
    os.environ["NUMBA_CACHE_DIR"] = str(directory)
    if "numba" in sys.modules:
        sys.modules["numba"].config.CACHE_DIR = str(directory)
    for older in directory.parent.glob("seqloom-*"):
        if (
            directory.parent.name == "__pycache__" and older != directory
        ):  # of sources that are gone
            shutil.rmtree(older, ignore_errors=True)


# stays as it is for users without a home
_USERS = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
_PLACES = [_SOURCES / "__pycache__", *([] if _USERS.startswith("~") else [Path(_USERS, "numba")])]
use_cache(cache_directory(source_stamp(), *_PLACES))
