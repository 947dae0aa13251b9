"""Ctrl-C between two steps, not in the middle of one: the step is finished, the checkpoint written, then it is raised."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any, Self


class Interrupts:
    """While open, the first Ctrl-C (or SIGTERM) only sets `asked`; a second one acts at once."""

    def __init__(self) -> None:
        self.asked: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # elsewhere Python has no signals
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked is not None:
            raise KeyboardInterrupt
        self.asked = number

    def give_way(self) -> None:
        """Raise what was asked for, now that all is safe."""
        if self.asked == signal.SIGTERM:
            raise SystemExit(143)
        if self.asked is not None:
            raise KeyboardInterrupt
