"""What a worker does: one task at a time, whose result is a directory that is there as a whole or not at all.

A task is the name of a function and plain values. Its result has the name of their hash, so a task that is
repeated, after a worker or the scheduler died or the command was interrupted, finds it. The function gets a
directory beside it, which is renamed when all is written. What passes through the scheduler is small.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import sys
import tempfile
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from seqloom import progress
from seqloom._version import __version__
from seqloom.directories import locked
from seqloom.errors import ConfigError, DataError, SeqloomError, lacks_memory
from seqloom.places import is_remote, place_of, shown

RESULT = "result.json"  # written last, with what a task returned
PRESENT = ".seqloom-work"  # a file by which a worker sees that it shares the directory
STOP = ".stop-"  # and the name of the run: tells the tasks of this run to end
PACKAGES = ("numpy", "numba", "tokenizers", "safetensors", "dask", "distributed", "torch")

_LOOK = 0.3  # seconds between two looks whether the run was stopped


@dataclass(frozen=True)
class Task:
    """A function, `module:name`, and the plain values that it takes besides the directory for its files."""

    function: str
    arguments: dict[str, Any]
    label: str  # what messages call it
    weight: int = 1  # for the progress bar
    name: str = field(init=False)

    def __post_init__(self) -> None:
        what = json.dumps([__version__, self.function, self.arguments], sort_keys=True)
        object.__setattr__(self, "name", hashlib.sha256(what.encode()).hexdigest()[:32])


class Stopped(SeqloomError):
    """The run that a task belongs to was interrupted."""


@cache
def versions() -> dict[str, str]:
    """Return the versions on which the bits of a result may depend."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"seqloom": __version__, "Python": ".".join(map(str, sys.version_info[:2]))}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "none"
    return found


def perform(job: dict[str, Any]) -> dict[str, Any]:
    """Do a task, unless its result is there, and return what it returned, or the error; called on workers.

    Errors are returned as text, so that nobody needs to unpickle an exception of another version.
    """
    os.environ.setdefault("SEQLOOM_THREADS", "1")  # a worker has as many tasks as it has cores
    try:
        _check(job)
        return _do(job)
    except Stopped:
        return {"stopped": True}
    except Exception as error:
        return {
            "error": _one_line(error),
            "where": socket.gethostname(),
            "trace": traceback.format_exc(),
        }


def _check(job: dict[str, Any]) -> None:
    own = versions()
    if other := [name for name, value in job["versions"].items() if own.get(name) != value]:
        differences = ", ".join(
            f"{name} {own.get(name)} instead of {job['versions'][name]}" for name in other
        )
        raise SeqloomError(f"the worker has {differences}; install the same versions everywhere")
    if not (Path(job["work"]) / PRESENT).is_file():
        raise SeqloomError(
            f"the worker does not see the directory {job['work']}; name one that all machines share "
            "(work=...)"
        )


def _do(job: dict[str, Any]) -> dict[str, Any]:
    work = Path(job["work"])
    target = work / job["name"]
    if (found := result_of(target)) is not None:
        return found
    listening = _Listening(work / f"{STOP}{job['run']}")
    listening.look()
    partial = work / f".{job['name']}.{uuid.uuid4().hex[:12]}.partial"
    partial.mkdir()
    try:
        with progress.reporting(listening):
            values = function_named(job["function"])(partial, **job["arguments"])
        result = {"values": values, "said": listening.said}
        (partial / RESULT).write_text(json.dumps(result) + "\n", encoding="utf-8")
        try:
            os.replace(partial, target)
        except OSError:  # a worker that was thought dead has just done the same
            if (found := result_of(target)) is None:
                raise
            return found
        return result
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def result_of(target: Path) -> dict[str, Any] | None:
    """Return what a finished task returned."""
    try:
        result: dict[str, Any] = json.loads((target / RESULT).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return result


def function_named(name: str) -> Callable[..., Any]:
    """Return the function that `module:name` means."""
    module, _, attribute = name.partition(":")
    function: Callable[..., Any] = getattr(import_module(module), attribute)
    return function


def _one_line(error: BaseException) -> str:
    if isinstance(error, SeqloomError):
        return " ".join(str(error).splitlines())
    if lacks_memory(error):
        return "not enough memory"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'input or output'}: {error.strerror}"
    return f"unexpected {type(error).__name__}: {' '.join(str(error).split())}"


class _Listening:
    """Hears the progress of a task: keeps what is said, and ends the task where its run was stopped."""

    def __init__(self, stop: Path) -> None:
        self.stop, self.said = stop, list[str]()
        self._looked = time.monotonic()

    def look(self) -> None:
        if self.stop.exists():
            raise Stopped()

    def advance(self, amount: int = 1) -> None:
        now = time.monotonic()
        if now - self._looked > _LOOK:
            self._looked = now
            self.look()

    def begin(self, label: str, total: int | None, unit: str) -> _Listening:
        return self

    def end(self, task: Any) -> None:
        pass

    def note(self, text: str) -> None:
        self.advance()

    def say(self, message: str) -> None:
        self.said.append(message)


# ---- what workers share between tasks

_models: dict[tuple[str, str], Any] = {}  # of this process, by path and contents
_loading = threading.Lock()


def model_at(path: str, digest: str) -> Any:
    """Return the saved model in a directory, or the one in a file, loaded once a process; refuse one whose
    contents are others than those of the command.
    """
    with _loading:
        if (path, digest) not in _models:
            if contents(path) != [digest]:
                raise DataError(f"{path} is another model on this worker, or has changed since")
            from seqloom.tasks import open_model

            _models[path, digest] = open_model("", path)  # whatever it is for
        return _models[path, digest]


def contents(*names: str) -> list[str]:
    """Return a hash of the contents of each file, directory or pattern; for others, such as standard
    input, the name.
    """
    import glob

    digests = []
    for name in names:
        hasher, path = hashlib.sha256(), Path(name)
        files = (
            [path]
            if path.is_file()
            else sorted(part for part in path.rglob("*") if part.is_file())
            if path.is_dir()
            else sorted(
                part for part in map(Path, glob.glob(name, recursive=True)) if part.is_file()
            )
        )
        for part in files:
            with part.open("rb") as file:
                hasher.update(hashlib.file_digest(file, "sha256").digest())
        digests.append(hasher.hexdigest()[:16] if files else name)
    return digests


@dataclass(frozen=True)
class Stamp:
    """Which file a task reads, by path, size and time of its last change."""

    path: str
    size: int
    changed: int  # nanoseconds

    @classmethod
    def of(cls, path: Any) -> Stamp:
        if is_remote(path):
            place = place_of(path)
            return cls(place.url, place.stat().st_size, place.version())
        found = os.stat(path)
        return cls(os.path.abspath(path), found.st_size, found.st_mtime_ns)

    def check(self) -> None:
        """Refuse a file that is missing here, or is not the same any more."""
        try:
            now = Stamp.of(self.path)
        except OSError as error:
            raise DataError(f"{shown(self.path)}: {error.strerror}") from None
        if now != self:
            raise DataError(
                f"{shown(self.path)} has changed while it was read; wait until it is complete, then run the "
                "same command"
            )


# ---- directories of jobs


@contextmanager
def working(output: str | Path | None, work: str | None = None) -> Iterator[Path]:
    """Yield the directory of a job's partial results: `work`, or OUTPUT.work beside what is made, or a
    temporary one; it is removed when the job is done, and kept when it is not.
    """
    if work is None and output is None:
        with tempfile.TemporaryDirectory(prefix="seqloom-work-") as temporary:
            (Path(temporary) / PRESENT).touch()
            yield Path(temporary)
        return
    if work is None and is_remote(output):
        raise ConfigError(
            f"partial results need a directory that all workers see; name one (work=...) beside {output}"
        )
    folder = Path(os.path.abspath(work if work is not None else f"{str(output).rstrip('/')}.work"))
    with locked(
        folder.with_name(f".{folder.name}.lock"),
        lambda who: f"{folder} is used by {who}; wait for it, or name another directory (work=...)",
    ):
        _begin(folder)
        yield folder
        shutil.rmtree(folder, ignore_errors=True)


def _begin(folder: Path) -> None:
    """Make the directory; refuse one with other things, and remove what killed tasks left."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / PRESENT).exists() and any(folder.iterdir()):
            raise ConfigError(f"{folder} holds other things; name a new directory (work=...)")
        (folder / PRESENT).touch()
        for left in [*folder.glob(".*.partial"), *folder.glob(f"{STOP}*")]:
            shutil.rmtree(left) if left.is_dir() else left.unlink()
    except OSError as error:
        raise ConfigError(
            f"{folder}: cannot be used for partial results ({error.strerror}); name another directory "
            "(work=...)"
        ) from None
