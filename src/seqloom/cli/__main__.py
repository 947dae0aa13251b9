"""`seqloom` and `python -m seqloom.cli`."""

import seqloom.cli.beginning  # noqa: F401  # isort: skip  (before all that takes a while to load)

import atexit
import os
import sys
from contextlib import suppress
from typing import NoReturn

from seqloom.cli.interruptions import CODES
from seqloom.cli.main import run as _command


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
