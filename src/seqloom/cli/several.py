"""`fit --processes R`: the same command as R processes of this machine that train one network, which are
started again from the last checkpoint when one of them dies.

torchrun could start them too; its own way of starting again is not used, since the new processes often do
not find each other. Here each start has its own meeting place, a file. The processes are in sessions of
their own, so that Ctrl-C reaches them once, from here; when the launcher itself is killed, their standard
input ends, and they with it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click

from seqloom import progress
from seqloom.cli.fitting import SEVERAL
from seqloom.errors import ConfigError, Interrupted, Terminated, TrainingError
from seqloom.registry import config_class
from seqloom.reporters import reporter_for
from seqloom.training import ranks

_TICK = 0.05  # seconds between two looks at the processes
_GRACE, _LAST = 3.0, 2.0  # seconds for the others to end by themselves, and when they are asked to
_MINE = {"MASTER_ADDR", "MASTER_PORT"}  # variables of torchrun that must not reach the processes


def started_several(name: str, paths: Sequence[str], output: str, options: dict[str, Any]) -> bool:
    """Start the processes that the options ask for and wait until the model is saved; return whether this
    was done, and not to be done by this process.
    """
    expected = ranks.expected()
    if "train" not in config_class(name).fit_arguments:
        # whose restarts may be others, as those of hmm
        if expected > 1:
            raise ConfigError(
                f"fit {name} works in one process, and {expected} were started; start it without torchrun"
            )
        return False
    processes, restarts = (options.pop(key, None) for key in SEVERAL)
    if expected > 1:
        if processes not in (None, expected):
            raise ConfigError(
                f"processes is {processes}, but torchrun has started {expected}; leave processes out",
                ["processes"],
            )
        return False
    if processes in (None, 1):
        return False
    if not paths or "-" in paths:
        raise ConfigError(
            f"standard input can be read by one process, not by {processes}; save it to a file and name "
            "that file"
        )
    if options.get("shards") is not None:
        ranks.check_shards(options["shards"], processes)
    from seqloom.storage import check_target

    check_target(output)
    code = launch(sys.argv[1:], processes, restarts, f"{output.rstrip('/')}.run")
    if code:
        raise SystemExit(code)
    return True


@contextmanager
def one_of_several(device: str | None) -> Iterator[None]:
    """Be one of the processes that were started, if there are any; only the first talks."""
    with ranks.joined(device):
        if ranks.is_first():
            yield
        else:
            with progress.reporting(reporter_for(quiet=True)):
                yield


# ---- the launcher


def launch(arguments: Sequence[str], processes: int, restarts: int, kept: str) -> int:
    """Run the command in so many processes, again after one of them has died; return its exit code."""
    for attempt in range(restarts + 1):
        with tempfile.TemporaryDirectory(prefix="seqloom-") as place:
            attempted = _Attempt(arguments, processes, attempt, Path(place))
            code = attempted.run()
            if code is not None:
                return code
        if attempt < restarts:
            progress.say(
                f"{attempted.death}; starting all {processes} processes again from the last checkpoint "
                f"({attempt + 1} of at most {restarts} times)"
            )
    raise TrainingError(
        f"{attempted.death}, and restarts={restarts} allows no further start; what was trained is kept in "
        f"{kept}, and the same command resumes"
    )


class _Attempt:
    """One start of all processes."""

    def __init__(self, arguments: Sequence[str], processes: int, attempt: int, place: Path) -> None:
        self.meeting, self.death = place / "meeting", ""
        self.errors = [place / f"errors-{rank}" for rank in range(processes)]
        self.stopped: set[int] = set()  # ranks that were ended from here
        self.asked: int | None = None  # the signal that ends the whole command
        self.children: list[subprocess.Popen[bytes]] = []
        common = {name: value for name, value in os.environ.items() if name not in _MINE}
        common |= {
            "WORLD_SIZE": str(processes),
            "LOCAL_WORLD_SIZE": str(processes),
            ranks.MEETING: str(self.meeting),
            ranks.ATTEMPT: str(attempt),
        }
        # as this process was started: -m alone would look for modules in the working directory first
        python = [sys.executable, *([] if sys.path[0] in ("", os.getcwd()) else ["-P"])]
        try:
            for rank, errors in enumerate(self.errors):
                with open(errors, "wb") as file:
                    self.children.append(
                        subprocess.Popen(
                            [*python, "-m", "seqloom", *arguments],
                            env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                            stdin=subprocess.PIPE,
                            stdout=None if rank == 0 else subprocess.DEVNULL,
                            stderr=None if rank == 0 else file,
                            start_new_session=True,
                        )
                    )
        except BaseException:
            self._stop()
            raise

    def run(self) -> int | None:
        """Wait until all have ended; return the exit code of the command, None: one has died."""
        try:
            self._wait()
            return self._outcome()
        finally:
            self._stop()

    def _wait(self) -> None:
        """Wait until all have ended, or one has failed and the others had time to."""
        until = float("inf")
        while time.monotonic() < until:
            try:
                codes = [child.poll() for child in self.children]
                if self._saved:
                    codes = codes[:1]  # the others have nothing to do any more
                if None not in codes:
                    return
                if any(codes) and self.asked is None:
                    until = min(until, time.monotonic() + _GRACE)
                time.sleep(_TICK)
            except Interrupted as error:
                error.obey()
                if self.asked is not None:  # twice
                    until = min(until, time.monotonic() + _GRACE)
                self.asked = signal.SIGTERM if isinstance(error, Terminated) else signal.SIGINT
                self._send(self.asked)

    @property
    def _saved(self) -> bool:
        return Path(f"{self.meeting}{ranks.SAVED}").exists()

    def _send(self, number: int) -> None:
        for child in self.children:
            with suppress(OSError):
                child.send_signal(number)

    def _stop(self) -> None:
        """End what is still running."""
        for rank, child in enumerate(self.children):
            if child.poll() is None:
                self.stopped.add(rank)
                child.terminate()
        until = time.monotonic() + _LAST
        for child in self.children:
            try:
                child.wait(max(until - time.monotonic(), 0.0))
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            if child.stdin is not None:
                child.stdin.close()

    def _outcome(self) -> int | None:
        """Return the exit code of the command; None, and note the `death`, where it should begin again."""
        codes = [child.poll() for child in self.children]
        if self._saved:
            return 0
        if self.asked is not None:
            return 128 + self.asked
        killed = [(rank, -code) for rank, code in enumerate(codes) if code is not None and code < 0]
        if killed:
            rank, number = killed[0]
            self.death = f"rank {rank} was ended by {_name(number)}"
            return None
        failed = [
            (rank, code)
            for rank, code in enumerate(codes)
            if code not in (None, 0, ranks.RankLost.exit_code)
        ]
        if failed:
            rank, code = failed[0]
            if rank:
                self._repeat_errors(rank)
            return code
        if any(codes):
            self.death = "the processes of the run have lost each other"
            return None
        return 0

    def _repeat_errors(self, rank: int) -> None:
        for line in self.errors[rank].read_text("utf-8", "replace").splitlines()[-20:]:
            click.echo(f"rank {rank}: {line}", err=True)


def _name(number: int) -> str:
    with suppress(ValueError):
        name = signal.Signals(number).name
        return f"{name}, as systems do when memory runs out" if name == "SIGKILL" else name
    return f"signal {number}"
