"""How long work reports on itself without the library ever printing.

Library code opens a `task`; whoever runs it (the command line, a notebook) may install a reporter that
draws. Without one, nothing is shown. The reporter travels in a context variable, as a logger would.

    with progress.task("counting", total=n_bytes, unit="bytes") as bar:
        bar.advance(4096)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from seqloom.errors import shortened


class Task(Protocol):
    def advance(self, amount: int = 1) -> None: ...

    def note(self, text: str) -> None:
        """What to show beside the bar from now on."""
        ...


class Reporter(Protocol):
    def begin(self, label: str, total: int | None, unit: str) -> Task: ...
    def end(self, task: Task) -> None: ...
    def say(self, message: str) -> None: ...


class _Silent:
    def advance(self, amount: int = 1) -> None:
        pass

    def note(self, text: str) -> None:
        pass


_reporter: ContextVar[Reporter | None] = ContextVar("seqloom_progress", default=None)


@contextmanager
def reporting(reporter: Reporter) -> Iterator[None]:
    """Send the progress of everything inside to this reporter."""
    token = _reporter.set(reporter)
    try:
        yield
    finally:
        _reporter.reset(token)


def reporter() -> Reporter | None:
    """The one that is at work."""
    return _reporter.get()


@contextmanager
def task(label: str, total: int | None = None, unit: str = "") -> Iterator[Task]:
    reporter = _reporter.get()
    if reporter is None:
        yield _Silent()
        return
    bar = reporter.begin(label, total, unit)
    try:
        yield bar
    finally:
        reporter.end(bar)


def say(message: str) -> None:
    """A remark for the person at the terminal (a fall-back taken, an estimate); never a result."""
    reporter = _reporter.get()
    if reporter is not None:
        reporter.say(shortened(message))
