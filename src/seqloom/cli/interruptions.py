"""Ctrl-C and SIGTERM: both end the command where it stands, by an exception, and it ends with 130 or 143.

Python runs the handler between any two instructions, also inside callbacks of libraries in C, which
can do nothing with an exception but drop it. So an exception that has vanished is raised once more,
unless it was obeyed; and inside LLVM, which may crash when a callback ends early, nothing is raised
until it has returned.
"""

from __future__ import annotations

import atexit
import signal
import sys
import threading
import weakref
from types import FrameType
from typing import Any, Self

from seqloom.errors import Interrupted, Terminated

CODES: dict[int, int] = {signal.SIGINT: 130, signal.SIGTERM: 143}
_ALARM = getattr(signal, "SIGALRM", None)  # not on Windows
_TICK = 0.03  # seconds between two looks at an exception that is under way


class Interruptions:
    """While open, signals are heard; `heard` is the last one, also where what it raised became
    another error.
    """

    def __init__(self) -> None:
        self.heard: int | None = None
        self._under_way: weakref.ref[Interrupted] | None = None
        self._before: dict[int, Any] = {}
        self._hook = sys.unraisablehook

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in CODES:
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    # Ignored signals stay ignored: nohup, a job in the background.
                    self._before[number] = signal.signal(number, self._raise)
            if _ALARM is not None:
                self._before[_ALARM] = signal.signal(_ALARM, self._look)
            self._hook, sys.unraisablehook = sys.unraisablehook, self._unraisable
            atexit.register(_finished)
        return self

    def __exit__(self, *exception: object) -> None:
        self._settle()
        for number, handler in self._before.items():
            signal.signal(number, handler)
        sys.unraisablehook = self._hook

    def _raise(self, number: int, frame: FrameType | None) -> None:
        exception = (Terminated if number == signal.SIGTERM else Interrupted)("", self._settle)
        self.heard, self._under_way = number, weakref.ref(exception)
        if _ALARM is not None:
            signal.setitimer(signal.ITIMER_REAL, _TICK, _TICK)
        try:
            if not _inside_llvm(frame):
                raise exception
        finally:
            del exception  # which its own trace would keep

    def _look(self, number: int, frame: FrameType | None) -> None:
        if self._under_way is not None and self._under_way() is None:
            # Nobody handles it, and the command goes on.
            assert self.heard is not None
            self._settle()
            signal.raise_signal(self.heard)  # to whoever listens now

    def _settle(self) -> None:
        self._under_way = None
        if _ALARM is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _unraisable(self, what: Any) -> None:
        if not issubclass(what.exc_type, Interrupted):  # a trace would say nothing
            self._hook(what)


def _inside_llvm(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("llvmlite."):
            return True
        frame = frame.f_back
    return False


def _finished() -> None:
    """Ignore signals once all is done: Python would print a traceback."""
    for number in CODES:
        signal.signal(number, signal.SIG_IGN)
