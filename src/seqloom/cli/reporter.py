"""Progress on stderr: a bar with rate and time left on a terminal, now and then a plain line elsewhere.

Nothing is shown for work that is over in a second.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

from seqloom.progress import Reporter

PATIENCE = 1.0  # seconds before a bar appears
EVERY = 10.0  # seconds between plain lines
ROOM, WIDE = 50, 60  # characters that a bar needs besides its remarks; room for those from which on it may be long


class PlainTask:
    def __init__(self, label: str, total: int | None, unit: str) -> None:
        self.label, self.total, self.unit = label, total, unit
        self.done, self.start, self.shown = 0, time.monotonic(), time.monotonic()
        self.beside = ""

    def advance(self, amount: int = 1) -> None:
        self.done += amount
        now = time.monotonic()
        if now - self.shown >= EVERY:
            self.shown = now
            rate = self.done / (now - self.start)
            share = f"{self.done / self.total:.0%}, " if self.total else ""
            left = f", {(self.total - self.done) / rate:.0f} s left" if self.total and rate else ""
            print(f"{self.label}: {share}{rate:,.4g} {self.unit}/s{left}{self.beside}", file=sys.stderr, flush=True)

    def note(self, text: str) -> None:
        self.beside = f"; {text}"


class PlainReporter:
    """For logs and pipes."""

    def begin(self, label: str, total: int | None, unit: str) -> PlainTask:
        return PlainTask(label, total, unit)

    def end(self, task: Any) -> None:
        pass

    def say(self, message: str) -> None:
        print(message, file=sys.stderr, flush=True)


class BarTask:
    """Its bar appears when it has been at work for a while, also where it has not got anywhere yet."""

    def __init__(self, reporter: BarReporter, label: str, total: int | None, unit: str) -> None:
        self.reporter, self.label, self.total, self.unit = reporter, label, total, unit
        self.done, self.id, self.over, self.beside = 0, None, False, ""
        self.timer = threading.Timer(PATIENCE, self.show)
        self.timer.daemon = True
        self.timer.start()

    def show(self) -> None:
        with self.reporter.lock:
            if not self.over:
                self.id = self.reporter.bars().add_task(self.label, total=self.total, completed=self.done,
                                                        unit=self.unit, beside=self.beside)

    def advance(self, amount: int = 1) -> None:
        self.done += amount
        if self.id is not None:
            self.reporter.bars().update(self.id, completed=self.done)

    def note(self, text: str) -> None:
        self.beside = text
        if self.id is not None:
            self.reporter.bars().update(self.id, beside=text)


class BarReporter:
    """For terminals."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._bars: Any = None

    def bars(self) -> Any:
        if self._bars is None:
            from rich.console import Console

            self._bars = self.make_bars(Console(stderr=True))
            self._bars.start()
        return self._bars

    def make_bars(self, console: Any) -> Any:
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
        from rich.text import Text

        room = max(console.width - ROOM, 0)

        class Beside(TextColumn):
            """As many of the remarks as fit."""

            def render(self, task: Any) -> Text:
                return Text(_whole_parts(task.fields["beside"], room), no_wrap=True)

        return Progress(TextColumn("{task.description}"), BarColumn(10 if room < WIDE else 40),
                        TaskProgressColumn(show_speed=True), TextColumn("{task.fields[unit]}"), TimeRemainingColumn(),
                        Beside(""), console=console, transient=True)

    def begin(self, label: str, total: int | None, unit: str) -> BarTask:
        return BarTask(self, label, total, unit)

    def end(self, task: Any) -> None:
        task.timer.cancel()
        with self.lock:
            task.over = True
            if task.id is not None:
                self._bars.remove_task(task.id)
                if not self._bars.tasks:
                    self._bars.stop()
                    self._bars = None

    def say(self, message: str) -> None:
        with self.lock:
            if self._bars is not None:
                self._bars.console.print(message, highlight=False, markup=False)
            else:
                print(message, file=sys.stderr, flush=True)


class SilentReporter(PlainReporter):
    def begin(self, label: str, total: int | None, unit: str) -> PlainTask:
        task = PlainTask(label, total, unit)
        task.shown = float("inf")
        return task

    def say(self, message: str) -> None:
        pass


def reporter_for(quiet: bool) -> Reporter:
    if quiet:
        return SilentReporter()
    return BarReporter() if sys.stderr.isatty() else PlainReporter()


def _whole_parts(text: str, room: int) -> str:
    """As many of the parts between commas as fit."""
    while len(text) > room and text:
        text = text.rpartition(", ")[0]
    return text
