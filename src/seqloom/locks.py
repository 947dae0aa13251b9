"""One process at a time: a lock that the kernel takes back when its process ends, however it ends.

The lock is held on a small file that names the process. Where the system or the file system has no such locks, nobody is
kept out.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from seqloom.errors import SeqloomError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

_holders: dict[str, tuple[int, int]] = {}  # process and thread, by lock file


class InUse(SeqloomError):
    """Another process is at work there."""


@contextmanager
def locked(path: Path, refusal: Callable[[str], str]) -> Iterator[None]:
    """Hold the lock file while the block runs; its directory is made where it is missing.

    `refusal`: what to say where somebody else, such as "process 123", holds it. The thread that holds it may do so again.
    """
    name, me = os.path.realpath(path), (os.getpid(), threading.get_ident())
    path.parent.mkdir(parents=True, exist_ok=True)
    if fcntl is None or _holders.get(name) == me:
        yield
        return
    handle = _take(path, refusal)
    _holders[name] = me
    try:
        yield
    finally:
        del _holders[name]
        with suppress(
            OSError
        ):  # before others can have it: they would hold what is no longer there
            os.unlink(path)
        os.close(handle)


def _take(path: Path, refusal: Callable[[str], str]) -> int:
    while True:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:  # whoever was here before has just removed the directory
            path.parent.mkdir(parents=True, exist_ok=True)
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.read(handle, 20).decode("ascii", "replace").strip()
            os.close(handle)
            raise InUse(refusal(f"process {pid}" if pid else "another process")) from None
        except OSError:  # a file system without locks
            return handle
        if _is(handle, path):
            os.ftruncate(handle, 0)
            os.write(handle, f"{os.getpid()}\n".encode())
            return handle
        os.close(handle)  # its holder removed it before it let go


def _is(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False
