"""Announces that kernels are being compiled, if that takes seconds: once per process, and once in the
life of a cache.

numba reports every function that it compiles because its cache has none (`numba.core.event`).
"""

from __future__ import annotations

import threading
import time
from functools import cache
from typing import Any

from seqloom import progress

PATIENCE = 1.0  # seconds of compiling, all kernels together, before it is announced
MESSAGE = "compiling kernels, once; from now on they are read from the cache"


class Clock:
    """Measures how long numba has been compiling, also functions inside others and in any thread."""

    def __init__(self) -> None:
        self.spent, self.depth, self.begun, self.announced = 0.0, 0, 0.0, False
        self.timer: threading.Timer | None = None
        self.lock = threading.Lock()

    def start(self) -> None:
        with self.lock:
            self.depth += 1
            if self.depth > 1 or self.announced:
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
        if not self.announced:
            self.announced = progress.say_from_any_thread(MESSAGE)


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
