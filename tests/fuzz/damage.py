"""Damaged models: load what is left, and use it if it loads.

Every attempt is made in a worker process, so that a crash is counted and does not end the attack;
one that takes too long is ended too. An attempt depends on its number and the seed alone:

    python -m tests.fuzz.damage SEED NUMBER     # repeat one, with its trace
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import shutil
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.counts import Counts

SECONDS = 300  # of one attempt; the first also loads what was compiled
WORKERS = 2
MEMORY = 12 << 30  # bytes of address space of a worker
CRASH = -1  # the attempt that ends the worker, for a test of this attack itself
ROOT = Path(__file__).parents[2]


def run(count: int, seed: int, workers: int = WORKERS) -> Counts:
    counts, numbers, lock = Counts(), iter(range(count)), threading.Lock()
    with tempfile.TemporaryDirectory() as folder:
        specimens = Path(folder) / "specimens"
        _make(specimens)

        def work() -> None:
            worker = Worker(specimens, seed)
            while True:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    return worker.end()
                kind, what = worker.attempt(number)
                with lock:
                    if kind == "wrong":
                        counts.wrong.append(f"attempt {number}: {what}")
                    else:
                        setattr(counts, kind, getattr(counts, kind) + 1)

        threads = [threading.Thread(target=work) for _ in range(workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return counts


def _make(specimens: Path) -> None:
    from tests.fuzz.specimens import make_all

    specimens.mkdir()
    make_all(specimens)


class Worker:
    """A process that makes attempts; a new one when it dies."""

    def __init__(self, specimens: Path, seed: int) -> None:
        self.specimens, self.seed = specimens, seed
        self.process: subprocess.Popen[bytes] | None = None

    def _start(self) -> subprocess.Popen[bytes]:
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (open as long as the process)
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.fuzz.damage",
                "worker",
                str(self.specimens),
                str(self.seed),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            bufsize=0,
            env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        )

    def attempt(self, number: int) -> tuple[str, str]:
        """(refused, worked or wrong, what was done and what came of it)."""
        if self.process is None:
            self.process = self._start()
        process = self.process
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # then nothing comes back either
            process.stdin.write(b"%d\n" % number)
        lines: list[bytes] = []
        while len(lines) < 2:  # what is done, then what came of it
            ready, _, _ = select.select([process.stdout], [], [], SECONDS)
            line = (
                process.stdout.readline() if ready else b""
            )  # not buffered, or `select` would not see the rest
            if not line:
                return self._gone(lines, "" if not ready else "died")
            lines.append(line)
        done, (kind, what) = json.loads(lines[0]), json.loads(lines[1])
        self.errors.seek(0)
        if "panicked" in self.errors.read():
            kind, what = "wrong", f"a panic of Rust on stderr, {what}"
            self.end()
        return kind, f"{done} -> {what}"

    def _gone(self, lines: list[bytes], why: str) -> tuple[str, str]:
        assert self.process is not None
        if not why:
            self.process.kill()
        code = self.process.wait()
        self.process = None
        done = json.loads(lines[0]) if lines else "?"
        return "wrong", f"{done} -> " + (
            f"the process ended with {code}" if why else f"not over after {SECONDS} s"
        )

    def end(self) -> None:
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()
            self.process.wait()
        self.process = None


# ---- in the worker


def attempt(
    specimens: Path, seed: int, number: int, tell: Any, *, trace: bool = False
) -> tuple[str, str]:
    from seqloom import load
    from seqloom.errors import SeqloomError
    from tests.fuzz.damages import damage, pick
    from tests.fuzz.uses import Nonsense, use

    draw = np.random.default_rng([seed, number])
    chosen = pick(draw, sorted(specimens.iterdir()))
    with tempfile.TemporaryDirectory() as folder:
        place, loaded = Path(folder) / "model", False
        shutil.copytree(chosen, place)
        tell(f"{chosen.name} {damage(draw, place, specimens)}")
        try:
            _inform(place)
            model = load(place)
            loaded = True
            use(model)
            if number % 4 == 0:
                model.save(Path(folder) / "again")
            return "worked", ""
        except SeqloomError as error:
            message = str(error)
            if "\n" in message or not message.strip():
                return "wrong", f"not one line: {message!r}"
            if not loaded and str(place) not in message:
                return "wrong", f"does not name the directory: {message}"
            return "refused", message
        except (Exception, Nonsense) as error:
            if trace:
                traceback.print_exc()
            frame = traceback.extract_tb(error.__traceback__)[-1]
            return (
                "wrong",
                f"{type(error).__name__}: {str(error)[:200]} ({Path(frame.filename).name}:{frame.lineno})",
            )


def _inform(place: Path) -> None:
    """`seqloom info`, which reads config.json alone."""
    import io

    from seqloom.cli.info import command

    with contextlib.redirect_stdout(io.StringIO()):
        command.main([str(place)], standalone_mode=False)


def _serve(specimens: Path, seed: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        if int(line) == CRASH:
            print(json.dumps("a crash"), flush=True)
            os.abort()
        result = attempt(
            specimens, seed, int(line), lambda done: print(json.dumps(done), flush=True)
        )
        print(json.dumps(result), flush=True)


def main() -> None:
    if sys.argv[1] == "worker":
        _serve(Path(sys.argv[2]), int(sys.argv[3]))
        return
    with tempfile.TemporaryDirectory() as folder:
        specimens = Path(folder) / "specimens"
        _make(specimens)
        print(*attempt(specimens, int(sys.argv[1]), int(sys.argv[2]), print, trace=True), sep=": ")


if __name__ == "__main__":
    main()
