"""A command that is ended in the middle of its work."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager

SLOW = """
import time
import seqloom.models.{module} as learning
from seqloom.training.checkpoint import Run

learning.CHECKPOINT_SECONDS, learning.SHARE_OF_TIME = 0.0, 1e9
log = Run.log

def slowly(self, values):
    log(self, values)
    print("now", flush=True)
    time.sleep(0.1)

Run.log = slowly
from seqloom.cli.main import run
run()
"""  # the command, with a checkpoint as often as there can be one and time to end it after every line of its log


def _hears_ctrl_c():
    """Where the tests run in the background, a child would inherit that SIGINT is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def started(code, args, place, *, lines=1, begins=b"now"):
    """The command inside `code` as a process, when it has printed so many lines that say where it is; ended with us."""
    child = subprocess.Popen([sys.executable, "-c", code, *map(str, args)], cwd=place, env=os.environ,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=_hears_ctrl_c)
    try:
        for _ in range(lines):
            assert child.stdout.readline().startswith(begins), child.stderr.read().decode()
        yield child
    finally:
        child.kill()
        child.communicate()


def end(code, args, how, place, *, lines=1, begins=b"now", timeout=60):
    """Start it, send the signal; gives its code and what it said."""
    with started(code, args, place, lines=lines, begins=begins) as child:
        child.send_signal(how)
        _, err = child.communicate(timeout=timeout)
    return child.returncode, err.decode()


def ended_with_checkpoint(found, how):
    """It ended as the signal says, and where it could say something it says how to go on."""
    code, err = found
    assert code == {signal.SIGINT: 130, signal.SIGTERM: 143}.get(how, -how)
    if how != signal.SIGKILL:
        assert err.strip() == "interrupted; progress is kept in m.run; run the same command to resume"
