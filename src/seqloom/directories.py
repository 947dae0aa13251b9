"""A directory, or a file, written beside its place and renamed, so that it is there whole or not at all.

What a killed process leaves behind is called `.name.PID-N.partial` and is swept by the next one
that writes there.

Where seqloom keeps files of its own.

One process at a time: a lock that the kernel takes back when its process ends, however it ends.

The lock is held on a small file that names the process. Where the system or the file system has no
such locks, nobody is kept out.
"""

from __future__ import annotations

import ctypes
import glob
import itertools
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from seqloom.errors import ModelError, SeqloomError


def cache_directory() -> Path:
    """Return the directory for what can be made or fetched again: $SEQLOOM_CACHE, or the user's
    cache directory.
    """
    base = os.environ.get("SEQLOOM_CACHE")
    return (
        Path(base)
        if base
        else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "seqloom"
    )


# ---- directories

Replaceable = Callable[[Path], bool]

_numbers = itertools.count()
_ours: set[str] = set()  # directories that this process is writing


def check_target(directory: str | Path, what: str, replaceable: Replaceable) -> None:
    """Refuse, before a long job, a place where its result could not be written at the end.

    `what` names the thing that may be replaced, and `replaceable` says whether a place holds such a
    thing alone.
    """
    target = Path(os.path.realpath(directory))
    if target.exists() and not replaceable(target):
        raise ModelError(
            f"{directory}: exists and is not {what}, or not only; choose another name or remove it"
        )
    parent = next(p for p in target.parents if p.exists())
    try:
        os.rmdir(tempfile.mkdtemp(prefix=".seqloom-", dir=parent))  # permissions alone do not tell
    except OSError as error:
        raise ModelError(
            f"{directory}: cannot be written: no permission to create files in {parent} "
            f"({error.strerror}); choose another place"
        ) from None


@contextmanager
def writing(directory: str | Path, what: str, replaceable: Replaceable) -> Iterator[Path]:
    """Make a new directory beside the wanted one, which replaces it when the block succeeds."""
    check_target(directory, what, replaceable)
    target = Path(os.path.realpath(directory))
    place = _beside(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _sweep(target)
        place.mkdir()
        yield place
        for file in place.rglob("*"):
            if file.is_file():
                _sync(file)
        _sync(place)
        _replace(place, target)
        _sync(target.parent)
    except OSError as error:
        raise ModelError(
            f"{directory}: cannot be written ({error.strerror or error}); nothing was changed there"
        ) from error
    finally:
        shutil.rmtree(place, ignore_errors=True)
        _ours.discard(place.name)


@contextmanager
def writing_file(path: str | Path, error: type[SeqloomError] = SeqloomError) -> Iterator[Path]:
    """Give a name beside that of the wanted file; what is written there replaces it when the block
    succeeds.

    `error`: what is raised where that cannot be done.
    """
    target = Path(path)
    place = _beside(target)
    try:
        _sweep(target)
        yield place
        os.replace(place, target)
    except OSError as reason:
        raise error(
            f"{path}: cannot be written ({reason.strerror or reason}); nothing was changed there"
        ) from reason
    finally:
        with suppress(OSError):
            place.unlink()
        _ours.discard(place.name)


def _beside(target: Path) -> Path:
    place = target.with_name(f".{target.name}.{os.getpid()}-{next(_numbers)}.partial")
    _ours.add(place.name)
    return place


def _sweep(target: Path) -> None:
    """Put right what a killed process left beside the target; what another one is writing stays."""
    for stale in target.parent.glob(f".{glob.escape(target.name)}.*.partial*"):
        match = re.fullmatch(rf"\.{re.escape(target.name)}\.(\d+)-\d+\.partial(\.old)?", stale.name)
        if (
            not match
            or stale.name in _ours
            or (int(match[1]) != os.getpid() and _alive(int(match[1])))
        ):
            continue
        if (
            match[2] and not target.exists()
        ):  # it died between two renames, and this is what was there before
            os.replace(stale, target)
        elif stale.is_dir():
            shutil.rmtree(stale, ignore_errors=True)
        else:
            stale.unlink(missing_ok=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _sync(path: Path) -> None:
    if os.name != "posix" and path.is_dir():
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _replace(place: Path, target: Path) -> None:
    """Rename over the target; an existing directory is exchanged in one system call where there is one."""
    try:
        os.replace(
            place, target
        )  # onto nothing or an empty directory; asking first would leave time for another writer
        return
    except OSError:
        if not target.is_dir():
            raise
    if not _exchange(place, target):
        old = place.with_name(place.name + ".old")
        os.replace(target, old)
        try:
            os.replace(place, target)
        except BaseException:
            os.replace(old, target)
            raise
        shutil.rmtree(old, ignore_errors=True)


def _exchange(a: Path, b: Path) -> bool:
    """Call Linux renameat2 with RENAME_EXCHANGE; return False if it is not available."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):
        return False
    here = -100  # AT_FDCWD
    return rename(here, os.fsencode(a), here, os.fsencode(b), 2) == 0


# ---- locks

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

    `refusal`: what to say where somebody else, such as "process 123", holds it. The thread that
    holds it may do so again.
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
