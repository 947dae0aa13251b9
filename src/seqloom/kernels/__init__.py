"""Loops that numba compiles, and caches in a directory named after the sources of all of them.

numba notices only changes of the file a function is in, and kernels call kernels of other files. So the
directory's name has a stamp of all sources. It is beside them, or in the user's cache; where neither is
writable, as for a service account in a container, it is temporary and of this process alone.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

from seqloom.numba_start import watch_numba

HASH_SEED, HASH_PRIME = 0xCBF29CE484222325, 0x9E3779B97F4A7C15  # for hashing spellings
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
    """Return the directory of compiled kernels: below $NUMBA_CACHE_DIR, else below the first directory
    that is writable, else temporary.
    """
    if configured := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(configured) if Path(configured).name == stamp else Path(configured, stamp)
    for directory in directories:
        if _writable(directory / stamp):
            return directory / stamp
    temporary = tempfile.mkdtemp(prefix="seqloom-numba-")  # nobody else may write there
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    return Path(temporary, stamp)


def use_cache(directory: Path) -> None:
    """Let numba cache compiled kernels there, also in processes that this one starts."""
    os.environ["NUMBA_CACHE_DIR"] = str(directory)
    if "numba" in sys.modules:
        sys.modules["numba"].config.CACHE_DIR = str(directory)
    for older in directory.parent.glob("seqloom-*"):
        if directory.parent.name == "__pycache__" and older != directory:  # of older sources
            shutil.rmtree(older, ignore_errors=True)


# `~` remains for users without a home
_USER_CACHE = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
_DIRECTORIES = [_SOURCES / "__pycache__"]
if not _USER_CACHE.startswith("~"):
    _DIRECTORIES.append(Path(_USER_CACHE, "numba"))
use_cache(cache_directory(source_stamp(), *_DIRECTORIES))
watch_numba()
