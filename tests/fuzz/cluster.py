"""Jobs on a cluster whose workers, scheduler or command are killed at random moments, and which must end with
the bytes of one process.

A scheduler and two workers are processes of their own, as on several machines; whoever looks after them
starts a scheduler that is gone again, with its workers. Where the command itself was ended, the same command
goes on.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from seqloom.data.corpus import bundled

from .counts import Counts

PATIENCE = 300  # seconds that a job may take on a busy machine
VICTIMS = ("worker", "worker", "worker", "worker", "scheduler", "command")


class Machines:
    """A scheduler and workers, started again when they are gone."""

    def __init__(self, place: Path, workers: int = 2) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.place, self.n_workers = place, workers
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.scheduler: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []
        self.ended = threading.Event()
        self.keeper = threading.Thread(target=self._keep, daemon=True)

    def __enter__(self) -> Machines:
        self._keep_once()
        self.keeper.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.ended.set()
        self.keeper.join()
        for process in [*self.workers, self.scheduler]:
            if process is not None:
                process.kill()
                process.wait()

    def _start(self, *command: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=self.place,
            env={**os.environ, "SEQLOOM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _keep(self) -> None:
        while not self.ended.wait(0.1):
            self._keep_once()

    def _keep_once(self) -> None:
        if self.scheduler is None or self.scheduler.poll() is not None:
            self.scheduler = self._start(
                "distributed.cli.dask_scheduler",
                *("--host", "127.0.0.1", "--port", str(self.port)),
                *("--no-dashboard", "--dashboard-address", "127.0.0.1:0"),
            )
        self.workers = [one for one in self.workers if one.poll() is None]
        while len(self.workers) < self.n_workers:
            self.workers.append(
                self._start(
                    "distributed.cli.dask_worker",
                    self.address,
                    *("--nthreads", "1", "--no-nanny", "--no-dashboard", "--memory-limit", "0"),
                )
            )

    def kill(self, what: str, draw: random.Random) -> None:
        """Kill a worker or the scheduler."""
        one = draw.choice(self.workers) if what == "worker" else self.scheduler
        if one is not None:
            one.send_signal(signal.SIGKILL)
            one.wait()


def digest(path: Path) -> str:
    """Return a hash of a file, or of all files of a directory."""
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    return hashlib.sha256(
        b"".join(file.name.encode() + file.read_bytes() for file in files if file.is_file())
    ).hexdigest()


def run(count: int, seed: int) -> Counts:
    counts, draw = Counts(), random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="seqloom-cluster-") as folder:
        place = Path(folder)
        text = bundled().text()
        (place / "text").write_text(text * 6)
        lines = [line for line in text.splitlines() if line.strip()]
        (place / "labelled.tsv").write_text(
            "".join(f"{'long' if len(x) > 40 else 'short'}\t{x}\n" for x in lines)
        )
        (place / "lines").write_text("".join(f"{line}\n" for line in lines * 6))
        _whole(place, "fit", "naive-bayes", "labelled.tsv", "-o", "model")
        jobs = {
            "fit": ("fit", "ngram", "text", "-o", "out", "--order", "4"),
            "predict": ("predict", "model", "lines", "--proba", "-o", "out"),
        }
        expected = {}
        for name, job in jobs.items():
            _whole(place, *job)
            expected[name] = digest(place / "out")
            _remove(place / "out")
        with Machines(place) as machines:
            while counts.tried < count:
                name = draw.choice(sorted(jobs))
                how = ("--parts", "24") if name == "fit" else ()
                _attack(
                    (*jobs[name], "--cluster", machines.address, *how),
                    expected[name],
                    place,
                    machines,
                    draw,
                    counts,
                    count,
                )
    return counts


def _attack(
    job: tuple[str, ...],
    expected: str,
    place: Path,
    machines: Machines,
    draw: random.Random,
    counts: Counts,
    most: int,
) -> None:
    """Run a job to its end while something is killed every second or two."""
    deadline, killed = time.monotonic() + PATIENCE, list[str]()
    command = _begin(place, job)
    while True:
        try:
            said = command.communicate(timeout=draw.uniform(0.5, 2.5))[1].decode()
        except subprocess.TimeoutExpired:
            if time.monotonic() > deadline:
                command.kill()
                counts.wrong.append(f"{job[0]}: not done {PATIENCE} s after {killed}")
                break
            if counts.tried >= most:
                continue
            what = draw.choice(VICTIMS)
            killed.append(what)
            counts.worked += 1
            if what == "command":
                command.kill()
                command.communicate()
                if (place / "out").exists():
                    break
                command = _begin(place, job)
            else:
                machines.kill(what, draw)
            continue
        if command.returncode:
            counts.wrong.append(f"{job[0]}: {said.strip()[-300:]} after {killed}")
        break
    if not (place / "out").exists() or digest(place / "out") != expected:
        counts.wrong.append(f"{job[0]}: another result after {killed}")
    for left in (place / "out", place / "out.work"):
        _remove(left)


def _begin(place: Path, job: tuple[str, ...]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "seqloom", *job],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def _whole(place: Path, *job: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "seqloom", *job], cwd=place, check=True, capture_output=True
    )


def _remove(path: Path) -> None:
    import shutil

    shutil.rmtree(path, ignore_errors=True)
    path.unlink(missing_ok=True)
