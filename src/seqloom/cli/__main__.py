"""`seqloom` and `python -m seqloom.cli`. Until the command line listens itself, a signal ends the
process without a trace.
"""

import atexit
import os
import signal
import sys
from contextlib import suppress
from types import FrameType
from typing import NoReturn


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, b"interrupted before anything was begun\n")
    os._exit(128 + number)


for _number in (signal.SIGINT, signal.SIGTERM):
    if signal.getsignal(_number) in (signal.SIG_DFL, signal.default_int_handler):  # not under nohup
        signal.signal(_number, _end)

from seqloom.cli.interruptions import CODES  # noqa: E402

# Loading this takes a while, in which a signal may come.
from seqloom.cli.main import run as _command  # noqa: E402


def run() -> None:
    """Run the command. After a signal, end the process at once: tearing down torch takes Python
    seconds, more on a busy machine.
    """
    try:
        _command()
    except SystemExit as ended:
        if ended.code in CODES.values():
            _leave(int(str(ended.code)))
        raise


def _leave(code: int) -> NoReturn:
    """Run exit handlers, flush, and leave without tearing torch down."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    run()
