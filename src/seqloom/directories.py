"""Directories and files that are written completely or not at all, the cache directory, and locks.

A directory or file is written beside its target and then renamed. What a killed process leaves behind
is called `.name.PID-N.partial` and is removed by the next process that writes there.
"""

from __future__ import annotations

import ctypes
import errno
import glob
import itertools
import os
import re
import shutil
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from seqloom import progress
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


MOST_BYTES = 1 << 26  # bytes of a file of values; the largest published tokenizers have half of it


def read_small_file(path: Path) -> bytes:
    """Return the content of a file of values or words, such as config.json. One that is too long, a
    device or a pipe, which may have no end, raise an OSError.
    """
    size = os.stat(path).st_size
    if not path.is_file():
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    if size > MOST_BYTES:
        raise OSError(errno.EFBIG, f"has more than {MOST_BYTES >> 20} MiB", str(path))
    return path.read_bytes()


# ---- directories

Replaceable = Callable[[Path], bool]

_numbers = itertools.count()
_ours: set[str] = set()  # directories that this process is writing


def check_target(directory: str | Path, what: str, replaceable: Replaceable) -> None:
    """Refuse, before a long job, a directory to which its result could not be written at the end.

    `what` names what may be replaced, and `replaceable` says whether a directory holds nothing
    else.
    """
    target = Path(os.path.realpath(directory))
    if target.exists() and not replaceable(target):
        raise ModelError(
            f"{directory}: exists and is not {what}, or not only; choose another name or remove it"
        )
    parent = next(p for p in target.parents if p.exists())
    try:
        os.rmdir(
            tempfile.mkdtemp(prefix=".seqloom-", dir=parent)
        )  # permission bits alone do not tell whether it can be written
    except OSError as error:
        raise ModelError(
            f"{directory}: cannot be written: no permission to create files in {parent} "
            f"({error.strerror}); choose another place"
        ) from None


@contextmanager
def writing(directory: str | Path, what: str, replaceable: Replaceable) -> Iterator[Path]:
    """Make a new directory beside the target and replace the target with it when the block succeeds."""
    check_target(directory, what, replaceable)
    target = Path(os.path.realpath(directory))
    partial = _beside(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _sweep(target)
        partial.mkdir()
        yield partial
        for file in partial.rglob("*"):
            if file.is_file():
                _sync(file)
        _sync(partial)
        _replace(partial, target)
        _sync(target.parent)
    except OSError as error:
        raise ModelError(
            f"{directory}: cannot be written ({error.strerror or error}); nothing was changed there"
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        _ours.discard(partial.name)


@contextmanager
def writing_file(path: str | Path, error: type[SeqloomError] = SeqloomError) -> Iterator[Path]:
    """Yield a path beside the target; the file written there replaces it when the block succeeds.

    `error`: the exception raised where that fails.
    """
    target = Path(path)
    partial = _beside(target)
    try:
        _sweep(target)
        yield partial
        os.replace(partial, target)
    except OSError as reason:
        raise error(
            f"{path}: cannot be written ({reason.strerror or reason}); nothing was changed there"
        ) from reason
    finally:
        with suppress(OSError):
            partial.unlink()
        _ours.discard(partial.name)


def _beside(target: Path) -> Path:
    partial = target.with_name(f".{target.name}.{os.getpid()}-{next(_numbers)}.partial")
    _ours.add(partial.name)
    return partial


def _sweep(target: Path) -> None:
    """Clean up what a killed process left beside the target; leave what a living one is writing."""
    for stale in target.parent.glob(f".{glob.escape(target.name)}.*.partial*"):
        match = re.fullmatch(rf"\.{re.escape(target.name)}\.(\d+)-\d+\.partial(\.old)?", stale.name)
        if (
            not match
            or stale.name in _ours
            or (int(match[1]) != os.getpid() and _alive(int(match[1])))
        ):
            continue
        if match[2] and not target.exists():
            # The process died between the two renames of `_replace`: this is the earlier directory.
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


def _replace(partial: Path, target: Path) -> None:
    """Rename over the target; an existing directory is exchanged in one system call where there is one."""
    try:
        # Onto nothing or an empty directory; checking first would leave time for another writer.
        os.replace(partial, target)
        return
    except OSError:
        if not target.is_dir():
            raise
    if not _exchange(partial, target):
        old = partial.with_name(partial.name + ".old")
        os.replace(target, old)
        try:
            os.replace(partial, target)
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
    working_directory = -100  # AT_FDCWD
    exchange = 2  # RENAME_EXCHANGE
    return (
        rename(working_directory, os.fsencode(a), working_directory, os.fsencode(b), exchange) == 0
    )


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

    The file names the process. The kernel releases the lock when the process ends, however it ends;
    where the system or the file system has no such locks, nobody is kept out. The thread that holds it
    may do so again. `refusal`: the message where somebody else, such as "process 123", holds it.
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
        with suppress(OSError):
            # Before others can lock the file: they would hold one that is no longer there.
            os.unlink(path)
        os.close(handle)


def holder(path: Path) -> int | None:
    """Return the process that holds a lock file, as the file says, if it is still there."""
    with suppress(OSError, ValueError):
        pid = int(path.read_text(encoding="ascii"))
        return pid if pid == os.getpid() or _alive(pid) else None
    return None


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


# ---- names

_OF_FILES = {".pkl", ".pickle", ".joblib", ".pt", ".pth", ".bin", ".h5", ".keras", ".safetensors"}
_OF_FILES |= {".onnx", ".npz", ".zip", ".json"}


def remark_file_name(target: str | Path) -> None:
    """Say that a name which looks like that of a file becomes a directory."""
    path = Path(target)
    if path.suffix.lower() not in _OF_FILES:
        return
    message = (
        f"{path} becomes a directory of several files, whatever its name says; seqloom.load reads "
        f"it again, and {path.with_suffix('')} would be plainer"
    )
    if progress.current() is None:  # in a script nobody hears what is said
        warnings.warn(message, stacklevel=4)
    progress.say(message)
