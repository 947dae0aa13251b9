"""One process that runs many commands, watched from outside: how each ended, what it said, how long it took.

Starting Python for every command would take longer than the commands. A command that hangs, eats
memory or kills the process costs one restart. The child speaks JSON lines on the two pipes that it
was started with.
"""

from __future__ import annotations

import io
import json
import os
import select
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import IO, Any


@dataclass(frozen=True)
class Ended:
    """How a command ended; `code` is None where it had to be stopped or took the process with it."""

    code: int | None
    out: str
    err: str
    seconds: float

    def fault(self) -> str | None:
        """What is wrong with it, or None: it worked in silence, or was refused by one clear line."""
        if self.code is None:
            return self.err
        if (
            "Traceback" in self.err
            or "Warning" in self.err
            or self.err.startswith("seqloom: unexpected ")
        ):
            return f"raw error: {self.err[:300]!r}"
        if self.code and (self.err.count("\n") != 1 or not self.err.startswith("seqloom: ")):
            return f"not one line: {self.err[:300]!r}"
        return f"a message of {len(self.err):,} characters" if len(self.err) > 1000 else None


class Worker:
    def __init__(self, directory: str, *, seconds: float = 300.0, memory: int = 1500 << 20) -> None:
        self.directory, self.seconds, self.memory = directory, seconds, memory
        self.child: subprocess.Popen[bytes] | None = None
        self.restarts = -1

    def run(self, args: list[str], stdin: str = os.devnull) -> Ended:
        child = self._started()
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(json.dumps({"args": args, "stdin": stdin}).encode() + b"\n")
        child.stdin.flush()
        start, base, peak = time.monotonic(), _resident(child.pid), 0
        while not select.select([child.stdout], [], [], 0.05)[0]:
            spent, peak = time.monotonic() - start, max(peak, _resident(child.pid) - base)
            if spent > self.seconds or peak > self.memory:
                self.stop()
                return Ended(
                    None, "", f"stopped after {spent:.0f} s with {peak >> 20} MB more memory", spent
                )
        line = child.stdout.readline()
        if not line:
            self.stop()
            return Ended(
                None, "", f"the process died ({child.returncode})", time.monotonic() - start
            )
        return Ended(**json.loads(line))

    def stop(self) -> None:
        if self.child is not None:
            self.child.kill()
            self.child.wait()
            self.child = None

    def _started(self) -> subprocess.Popen[bytes]:
        if self.child is None or self.child.poll() is not None:
            self.restarts += 1
            root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
            path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
            self.child = subprocess.Popen(
                [sys.executable, "-m", __name__],
                cwd=self.directory,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": path},
            )
        return self.child


def _resident(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def _run(args: list[str], stdin: str) -> dict[str, Any]:
    from seqloom.cli.main import run

    real, start = (sys.argv, sys.stdin, sys.stdout, sys.stderr), time.monotonic()
    out, err = (
        io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
        for _ in range(2)
    )
    code: object = 0
    with open(stdin, encoding="utf-8", errors="surrogateescape") as source:
        sys.argv, sys.stdin, sys.stdout, sys.stderr = ["seqloom", *args], source, out, err
        try:
            run()
        except SystemExit as end:
            code = end.code or 0
        except BaseException as error:
            err.write(f"Traceback: {type(error).__name__}: {str(error)[:300]}")
        finally:
            sys.argv, sys.stdin, sys.stdout, sys.stderr = real
    said = [_text(stream)[:5000] for stream in (out, err)]
    return {
        "code": code if isinstance(code, int) else 1,
        "out": said[0],
        "err": said[1],
        "seconds": time.monotonic() - start,
    }


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue()[: 1 << 20].decode("utf-8", "replace")


def _serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    for line in requests:
        answers.write(json.dumps(_run(**json.loads(line))).encode() + b"\n")
        answers.flush()


if __name__ == "__main__":
    _serve(sys.stdin.buffer, os.fdopen(os.dup(1), "wb"))
