"""Ctrl-C between two steps, not in the middle of one: the step is finished, the checkpoint written, then it is heard."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any, Self


class Interrupts:
    """While open, the first Ctrl-C (or SIGTERM) only sets `asked`; a second one acts at once.

    At the end it is heard by whoever listened before: Python raises KeyboardInterrupt, and ends at SIGTERM.
    """

    def __init__(self) -> None:
        self.asked: int | None = None
        self.obeyed = False  # by ending early with what there is, so that nobody else need hear it
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # elsewhere Python has no signals
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) not in (
                    signal.SIG_IGN,
                    None,
                ):  # nohup, a job in the background
                    self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
        if self.asked is not None and not self.obeyed and not any(exception):
            signal.raise_signal(self.asked)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked is not None:
            self.give_way()
        self.asked = number

    def give_way(self) -> None:
        """Let what was asked for be heard, now that all is safe."""
        if self.asked is not None:
            self.__exit__()
