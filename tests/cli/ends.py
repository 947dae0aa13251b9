"""A command that is ended in the middle of its work."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager

from tests.timed_lines import without_timed_lines

PATIENCE = 300  # seconds after which a child hangs, however busy the machine is

# The command, with a checkpoint as often as there can be one; it waits for us after every line of
# its log.
SLOW = """
import sys
import seqloom.models.{module} as learning
from seqloom.training.checkpoint import Run

learning.CHECKPOINT_SECONDS, learning.SHARE_OF_TIME = 0.0, 1e9
log = Run.log

def slowly(self, values):
    log(self, values)
    print("now", flush=True)
    sys.stdin.readline()

Run.log = slowly
from seqloom.cli.main import run
run()
"""


def _hears_ctrl_c():
    """Where the tests run in the background, a child would inherit that SIGINT is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def started(code, args, place, *, lines=1, begins=b"now", path=None):
    """The command inside `code` as a process, when it has printed so many lines that say where it
    is; ended with us.

    Code that reads a line of stdin after such a line waits there until we go on, or for ever once
    it has printed all of them; without stdin it goes on to its end. `path` is where it finds
    further modules.
    """
    found = os.pathsep.join(str(part) for part in (path, os.environ.get("PYTHONPATH")) if part)
    child = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, args)],
        cwd=place,
        env={**os.environ, "PYTHONPATH": found},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=_hears_ctrl_c,
    )
    try:
        for line in range(lines):
            if line:
                child.stdin.write(b"\n")
                child.stdin.flush()
            assert child.stdout.readline().startswith(begins), child.stderr.read().decode()
        yield child
    finally:
        child.kill()
        child.communicate()


def end(code, args, how, place, *, lines=1, begins=b"now", path=None):
    """Start it, send the signal; gives its code and what it said, but for what clocks make it say."""
    with started(code, args, place, lines=lines, begins=begins, path=path) as child:
        child.send_signal(how)
        _, err = child.communicate(timeout=PATIENCE)  # which closes its stdin
    return child.returncode, without_timed_lines(err.decode())


def ended_with_checkpoint(found, how):
    """It ended as the signal says, and where it could say something it says how to go on."""
    code, err = found
    assert code == {signal.SIGINT: 130, signal.SIGTERM: 143}.get(how, -how)
    if how != signal.SIGKILL:
        assert (
            err.strip() == "interrupted; progress is kept in m.run; run the same command to resume"
        )
