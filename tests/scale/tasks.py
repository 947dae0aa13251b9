"""Functions that workers call in tests."""

import os
import signal
import time
from pathlib import Path

from seqloom import progress
from seqloom.errors import DataError


def write(folder, text, log):
    """Write a text, and note in a log that it was done."""
    (folder / "text").write_text(text)
    with open(log, "a") as file:
        file.write(f"{text}\n")
    progress.say("said once")
    return {"length": len(text)}


def fail(folder, why, log):
    """Fail, and note it."""
    with open(log, "a") as file:
        file.write(f"{why}\n")
    raise DataError(why)


def die_once(folder, mark):
    """End the worker, but only the first time."""
    if not Path(mark).exists():
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return {"alive": True}


def wait(folder, mark):
    """Work until somebody stops the run; say when it began."""
    Path(mark).touch()
    (folder / "half").write_text("half")
    with progress.task("waiting") as bar:
        while True:
            time.sleep(0.05)
            bar.advance()
