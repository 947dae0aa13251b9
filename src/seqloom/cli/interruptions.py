"""Ctrl-C and SIGTERM: both end the command where it stands, by an exception, and it ends with 130 or 143.

Python runs the handler between any two instructions, also inside callbacks of libraries in C (numba's, llvmlite's), which
can do nothing with an exception but drop it. Then the signal is sent once more.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from types import FrameType
from typing import Any, Self

from seqloom.errors import Terminated

CODES: dict[int, int] = {signal.SIGINT: 130, signal.SIGTERM: 143}
_SOON = 0.02  # seconds until a dropped signal is sent again


class Interruptions:
    """While open, signals are heard; `heard` is the last one, also where what it raised became another error."""

    def __init__(self) -> None:
        self.heard: int | None = None
        self._before: dict[int, Any] = {}
        self._hook = sys.unraisablehook

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in CODES:
                if signal.getsignal(number) not in (signal.SIG_IGN, None):  # nohup, a job in the background
                    self._before[number] = signal.signal(number, self._raise)
            self._hook, sys.unraisablehook = sys.unraisablehook, self._dropped
            atexit.register(_finished)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        sys.unraisablehook = self._hook

    def _raise(self, number: int, frame: FrameType | None) -> None:
        self.heard = number
        raise Terminated if number == signal.SIGTERM else KeyboardInterrupt

    def _dropped(self, what: Any) -> None:
        if self.heard is None or not issubclass(what.exc_type, KeyboardInterrupt):
            self._hook(what)
            return
        again = threading.Timer(_SOON, os.kill, (os.getpid(), self.heard))
        again.daemon = True
        again.start()


def _finished() -> None:
    """What is done cannot be interrupted any more; Python would print a trace."""
    for number in CODES:
        signal.signal(number, signal.SIG_IGN)
