"""Says that kernels are being compiled, where that takes seconds: once a process, and once in the
life of a cache.

numba tells of every function that it must compile because its cache has none (`numba.core.event`).
"""

from __future__ import annotations

import threading
import time
from functools import cache
from typing import Any

from seqloom import progress

PATIENCE = 1.0  # seconds of compiling, all kernels together, before it is said
MESSAGE = "compiling kernels, once; from now on they are read from the cache"


class Clock:
    """How long numba has been compiling: functions inside others, and in any thread."""

    def __init__(self) -> None:
        self.spent, self.depth, self.begun, self.said = 0.0, 0, 0.0, False
        self.timer: threading.Timer | None = None
        self.lock = threading.Lock()

    def start(self) -> None:
        with self.lock:
            self.depth += 1
            if self.depth > 1 or self.said:
                return
            self.begun = time.monotonic()
            self.timer = threading.Timer(max(PATIENCE - self.spent, 0), self.say)
            self.timer.daemon = True
            self.timer.start()

    def end(self) -> None:
        with self.lock:
            self.depth -= 1
            if self.depth == 0 and self.timer is not None:
                self.timer.cancel()
                self.timer, self.spent = None, self.spent + time.monotonic() - self.begun

    def say(self) -> None:
        if not self.said:
            self.said = progress.say_from_any_thread(MESSAGE)


@cache
def announce_compiling() -> None:
    """Announce compiling from now on, in this process."""
    from numba.core import event

    clock = Clock()

    class Listener(event.Listener):
        def on_start(self, event: Any) -> None:
            clock.start()

        def on_end(self, event: Any) -> None:
            clock.end()

    event.register("numba:compile", Listener())
