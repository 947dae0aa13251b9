"""The directory of a training run, from which it continues after any interruption.

    run.json          what is trained: model and training options, data, number of steps
    log.jsonl         a line for each report: step, loss, learning rate, gradient norm, tokens/s; evaluations
    last.safetensors  weights, optimiser, carried state, random state, position: all that the next step
                      depends on
    best.safetensors  the weights of the best evaluation
    run.lock          while a process trains: its id; locked by it, so that no second one can train

Files are written under a temporary name and renamed. A run with different options or data is never
continued by mistake. Where several processes train one network (`ranks`), only the first writes files.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, Self

import numpy as np

from seqloom import progress
from seqloom.arrays import read_arrays, write_arrays
from seqloom.describing import differences
from seqloom.directories import locked
from seqloom.errors import ConfigError, ModelError
from seqloom.storage import EVENTS, TRAINING_LOG
from seqloom.training.ranks import is_first

# ---- interrupts


class Interrupts:
    """While open, the first Ctrl-C (or SIGTERM) only sets `asked`, so that a step can be finished and a
    checkpoint written; a second one acts at once.

    At the end the signal goes to the earlier handler: Python raises KeyboardInterrupt, or ends at SIGTERM.
    """

    def __init__(self) -> None:
        self.asked: int | None = None  # the signal
        self.obeyed = False  # by ending early with a result, so that the signal is not passed on
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # elsewhere Python has no signals
            for number in (signal.SIGINT, signal.SIGTERM):
                # ignored under nohup and in a background job
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
        if self.asked is not None and not self.obeyed and not any(exception):
            signal.raise_signal(self.asked)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked is not None:
            self.give_way()
        self.asked = number

    def give_way(self) -> None:
        """Raise the signal that was held back, now that the checkpoint is written."""
        if self.asked is not None:
            self.__exit__()


# ---- checkpoint

RUN, LOG, LAST, BEST, LOCK = (
    "run.json",
    "log.jsonl",
    "last.safetensors",
    "best.safetensors",
    "run.lock",
)
_META = "meta.json"
MAX_SETTINGS_SHOWN = 3  # different settings that an error names


class Run:
    def __init__(self, directory: str | Path) -> None:
        self.directory, self.writes = Path(directory), is_first()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Lock the directory against other runs while open; an empty directory is removed at the end.

        Of several processes that train one network the first has the lock.
        """
        if not self.writes:
            yield
            return
        self.check()
        try:
            with locked(
                self.directory / LOCK,
                lambda who: (
                    f"{self.directory}: {who} is training there; wait until it has "
                    "ended, or choose another output"
                ),
            ):
                yield
        finally:
            with suppress(OSError):
                self.directory.rmdir()

    def clear(self, *keep: str) -> None:
        """Remove the files of a run, except these."""
        if not self.writes:
            return
        for path in self.directory.iterdir():
            if path.name not in (LOCK, *keep):
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def open(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Start or continue a run with these facts; return the values that an earlier start has fixed
        (the number of steps).

        Without a checkpoint there is nothing to continue, so other files (a log, events) are removed.
        """
        path = self.directory / RUN
        plain = json.loads(json.dumps(facts))
        if path.exists():
            try:
                saved = json.loads(path.read_text(encoding="utf-8"))
                different = differences(saved["facts"], plain)
            except (ValueError, KeyError, TypeError, AttributeError):
                raise self._damaged(path) from None
            if different and self.has_checkpoint():
                rest = (
                    [f"and {len(different) - MAX_SETTINGS_SHOWN} more"]
                    if len(different) > MAX_SETTINGS_SHOWN
                    else []
                )
                shown = "; ".join([*different[:MAX_SETTINGS_SHOWN], *rest])
                raise ConfigError(
                    f"{self.directory} holds an unfinished run with other settings ({shown}); "
                    f"give the same settings to resume, or remove {self.directory} to start over",
                    [one.partition(" ")[0] for one in different],
                )
            if not different:
                if not self.has_checkpoint():
                    self.clear(RUN)
                return saved["fixed"]
        self.clear()
        self._write(path, json.dumps({"facts": plain, "fixed": {}}, indent=2).encode())
        return {}

    def check(self) -> None:
        """Refuse a directory that contains something else, since a finished run is removed."""
        if not self.directory.exists():
            return
        names = (
            {p.name.removesuffix(".partial") for p in self.directory.iterdir()}
            if self.directory.is_dir()
            else {""}
        )
        if names - {LOCK} and (RUN not in names or names - {RUN, LOG, LAST, BEST, LOCK, EVENTS}):
            raise ModelError(
                f"{self.directory}: exists and is not a training run; checkpoints would go there: "
                "choose another output or remove it"
            )

    def has_checkpoint(self) -> bool:
        """Return whether there is a checkpoint to continue from."""
        return (self.directory / LAST).exists()

    def fix(self, **values: Any) -> None:
        """Save decisions of the first start, so that every later start has the same."""
        path = self.directory / RUN
        saved = json.loads(path.read_text(encoding="utf-8"))
        saved["fixed"].update(values)
        self._write(path, json.dumps(saved, indent=2).encode())

    def save(self, arrays: dict[str, np.ndarray], meta: dict[str, Any], name: str = LAST) -> None:
        if not self.writes:
            return
        packed = np.frombuffer(json.dumps(meta).encode(), np.uint8)
        beside = self.directory / (name + ".partial")
        try:
            write_arrays(beside, {**arrays, _META: packed})
            self._put(beside, self.directory / name)
        except BaseException:  # a full disk: the incomplete file is of no use
            beside.unlink(missing_ok=True)
            raise

    def load(self, name: str = LAST) -> tuple[dict[str, np.ndarray], dict[str, Any]] | None:
        path = self.directory / name
        if not path.exists():
            return None
        try:
            arrays = read_arrays(path)
            return arrays, json.loads(arrays.pop(_META).tobytes())
        except (ModelError, KeyError, ValueError):
            raise self._damaged(path) from None

    def _damaged(self, path: Path) -> ModelError:
        return ModelError(f"{path}: damaged; remove {self.directory} to start over")

    def keep_log(self, step: int) -> None:
        """Remove the log lines after the last checkpoint of a killed run; those steps are done again."""
        path = self.directory / LOG
        if self.writes and path.exists():
            lines = [
                line
                for line in path.read_text(encoding="utf-8").splitlines()
                if _step_of(line) <= step
            ]
            progress.resume(map(json.loads, lines))
            self._write(path, "".join(line + "\n" for line in lines).encode())

    def log(self, values: dict[str, Any]) -> None:
        if not self.writes:
            return
        with open(self.directory / LOG, "a", encoding="utf-8") as file:
            file.write(json.dumps(values) + "\n")

    def _write(self, path: Path, data: bytes) -> None:
        beside = path.with_name(path.name + ".partial")
        beside.write_bytes(data)
        self._put(beside, path)

    def _put(self, beside: Path, path: Path) -> None:
        with open(beside, "rb") as file:
            os.fsync(file.fileno())
        os.replace(beside, path)


@contextmanager
def opened(directory: Path | None, facts: dict[str, Any]) -> Iterator[Run | None]:
    """Open and lock the run of that directory, new or continued; None without a directory."""
    if directory is None:
        yield None
        return
    run = Run(directory)
    with run.held():
        run.open(facts)
        yield run


def read_log(directory: str | Path) -> list[dict[str, Any]]:
    """Read the log of a run or of the model trained by it, for plots; a line cut off by a crash is left
    out.
    """
    logs = [
        path for path in (Path(directory) / LOG, Path(directory) / TRAINING_LOG) if path.is_file()
    ]
    if not logs:
        raise ModelError(
            f"{directory}: no {LOG} or {TRAINING_LOG} there; give the directory of a training run, or of a "
            "network that was trained by seqloom fit"
        )
    path = logs[0]
    return [
        json.loads(line)
        for line in path.read_text(encoding="utf-8").splitlines()
        if _step_of(line) < 1 << 60
    ]


def _step_of(line: str) -> int:
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return 1 << 60
