"""Who draws progress: a bar with rate and time left on a terminal and in a notebook, now and then a
plain line elsewhere.

Nothing is shown for work that is over in a second. The command line chooses by its stderr; in a
notebook (a kernel of IPython) progress is shown without being asked for, since there is nobody else
to show it (`progress.task`).
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from html import escape
from typing import Any

from seqloom.progress import Reporter

PATIENCE = 1.0  # seconds before a bar appears
EVERY = 10.0  # seconds between plain lines
OFTEN = 0.2  # seconds between two updates of a notebook's bar
RECENT = 30.0  # seconds over which a rate is measured
SECONDS_BEFORE_RATE = 1.0  # seconds of measured work before there is a rate
BAR = 20  # characters of a bar
SECONDS_OF_EARLIER_RUN = (
    0.1  # seconds after the beginning in which what is "done" was done by an earlier run
)


class Pace:
    """How fast work goes on now. The first piece is not measured: it often waits for a compiler or
    a first reading.
    """

    def __init__(self, total: int | None, unit: str) -> None:
        self.total, self.unit, self.done = total, unit, 0
        self.begun = time.monotonic()
        self.marks: deque[tuple[float, int]] = deque()  # when how much was done

    def advance(self, amount: int, now: float | None = None) -> None:
        now = time.monotonic() if now is None else now
        self.done += amount
        if not amount or now - self.begun < SECONDS_OF_EARLIER_RUN:
            return
        if len(self.marks) < 2 or now - self.marks[-2][0] >= RECENT / 100:
            self.marks.append((now, self.done))
        else:
            self.marks[-1] = (now, self.done)
        while len(self.marks) > 3 and now - self.marks[1][0] > RECENT:
            self.marks.popleft()

    def rate(self) -> float | None:
        """Return the recent rate in units a second; None while too little is known."""
        if len(self.marks) < 3 or self.marks[-1][0] - self.marks[0][0] < SECONDS_BEFORE_RATE:
            return None
        (first, before), (last, after) = self.marks[0], self.marks[-1]
        return (after - before) / (last - first)

    def left(self) -> float | None:
        """Return the seconds until all is done; None while too little is known."""
        rate = self.rate()
        return (self.total - self.done) / rate if self.total and rate else None

    def share(self) -> str:
        return f"{self.done / self.total:.0%}" if self.total else f"{self.done:,} {self.unit}"

    def text(self) -> str:
        """Return the rate and the time left, as far as they are known."""
        rate, left = self.rate(), self.left()
        parts = [f"{rate:,.4g} {self.unit}/s"] if rate is not None and self.unit else []
        return ", ".join(parts + ([f"{_time(left)} left"] if left is not None else []))


class PlainBar:
    def __init__(self, label: str, total: int | None, unit: str) -> None:
        self.label, self.pace, self.beside = label, Pace(total, unit), ""
        self.shown = time.monotonic()

    def advance(self, amount: int = 1) -> None:
        self.pace.advance(amount)
        now = time.monotonic()
        if now - self.shown >= EVERY:
            self.shown = now
            _write(
                f"{self.label}: "
                + "".join(
                    [
                        self.pace.share(),
                        *(f", {part}" for part in (self.pace.text(),) if part),
                        self.beside,
                    ]
                )
            )

    def note(self, text: str) -> None:
        self.beside = f"; {text}"


class PlainReporter:
    """For logs and pipes."""

    def begin(self, label: str, total: int | None, unit: str) -> PlainBar:
        return PlainBar(label, total, unit)

    def end(self, task: Any) -> None:
        pass

    def say(self, message: str) -> None:
        _write(message)


class LiveBar:
    """Its bar appears when it has been at work for a while, also where it has not got anywhere yet."""

    def __init__(self, reporter: BarReporter, label: str, total: int | None, unit: str) -> None:
        self.reporter, self.label, self.pace = reporter, label, Pace(total, unit)
        self.id, self.over, self.beside = None, False, ""
        self.timer = threading.Timer(PATIENCE, self.show)
        self.timer.daemon = True
        self.timer.start()

    def show(self) -> None:
        with self.reporter.lock:
            if not self.over:
                self.id = self.reporter.bars().add_task(
                    self.label,
                    total=self.pace.total,
                    completed=self.pace.done,
                    share=self.pace.share(),
                    pace=self.pace.text(),
                    beside=self.beside,
                )

    def advance(self, amount: int = 1) -> None:
        self.pace.advance(amount)
        if self.id is not None:
            self.reporter.bars().update(
                self.id, completed=self.pace.done, share=self.pace.share(), pace=self.pace.text()
            )

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
        from rich.progress import BarColumn, Progress, TextColumn
        from rich.text import Text

        class RemarksColumn(TextColumn):
            """A column with as many remarks between commas as fit into the line; none is squeezed."""

            def render(self, task: Any) -> Text:
                used = (
                    BAR
                    + 4
                    + sum(
                        len(text)
                        for text in (task.description, task.fields["share"], task.fields["pace"])
                    )
                )
                return Text(_whole_parts(task.fields["beside"], console.width - used), no_wrap=True)

        texts = [TextColumn(f"{{task.fields[{name}]}}") for name in ("share", "pace")]
        return Progress(
            TextColumn("{task.description}"),
            BarColumn(BAR),
            *texts,
            RemarksColumn(""),
            console=console,
            transient=True,
            redirect_stdout=False,
        )  # results are no part of the display

    def begin(self, label: str, total: int | None, unit: str) -> LiveBar:
        return LiveBar(self, label, total, unit)

    def end(self, task: Any) -> None:
        task.timer.cancel()
        with self.lock:
            task.over = True
            if task.id is not None:
                self._bars.remove_task(task.id)
                if not self._bars.tasks:
                    self.stop(self._bars)
                    self._bars = None

    def stop(self, bars: Any) -> None:
        """Stop the bars when the last of them has ended."""
        bars.stop()

    def say(self, message: str) -> None:
        with self.lock:
            if self._bars is not None:
                self._bars.console.print(message, highlight=False, markup=False)
            else:
                _write(message)


class NotebookBar:
    """One output of the cell, which is written anew as the work goes on and cleared at its end."""

    def __init__(self, label: str, total: int | None, unit: str) -> None:
        self.label, self.pace, self.beside = label, Pace(total, unit), ""
        self.begun = self.shown = time.monotonic()
        self.output: Any = None  # IPython's handle

    def advance(self, amount: int = 1) -> None:
        self.pace.advance(amount)
        self.show()

    def note(self, text: str) -> None:
        self.beside = text
        self.show()

    def show(self) -> None:
        now = time.monotonic()
        if now - self.begun < PATIENCE or (self.output is not None and now - self.shown < OFTEN):
            return
        self.shown = now
        if self.output is None:
            from IPython.display import display

            self.output = display(self.bundle(), raw=True, display_id=True)
        else:
            self.output.update(self.bundle(), raw=True)

    def bundle(self) -> dict[str, str]:
        """Return the bar by MIME type."""
        text = ", ".join(
            part for part in (self.pace.share(), self.pace.text(), self.beside) if part
        )
        bar = (
            f'<progress value="{self.pace.done}" max="{self.pace.total}"></progress> '
            if self.pace.total
            else ""
        )
        return {
            "text/plain": f"{self.label}: {text}",
            "text/html": f"<div>{escape(self.label)} {bar}{escape(text)}</div>",
        }

    def clear(self) -> None:
        if self.output is not None:
            self.output.update({"text/plain": "", "text/html": ""}, raw=True)


class NotebookReporter(PlainReporter):
    """For kernels of Jupyter; needs nothing that IPython does not bring."""

    def begin(self, label: str, total: int | None, unit: str) -> Any:
        return NotebookBar(label, total, unit)

    def end(self, task: Any) -> None:
        task.clear()


class SilentReporter(PlainReporter):
    def begin(self, label: str, total: int | None, unit: str) -> PlainBar:
        task = PlainBar(label, total, unit)
        task.shown = float("inf")
        return task

    def say(self, message: str) -> None:
        pass


class RemarksOnly(SilentReporter):
    """No bars, where results on the same terminal show how far the work is."""

    def __init__(self, other: Reporter) -> None:
        self.other = other

    def say(self, message: str) -> None:
        self.other.say(message)


def reporter_for(quiet: bool = False) -> Reporter:
    """Return the reporter that fits where the process runs: a notebook, a terminal, or a log."""
    if quiet:
        return SilentReporter()
    if in_kernel():
        return NotebookReporter()
    return BarReporter() if sys.stderr.isatty() else PlainReporter()


def _whole_parts(text: str, room: int) -> str:
    """Return as many of the parts between commas as fit.

    >>> _whole_parts("2.1 bits/byte, 300 tokens/s, norm 0.5", 30)
    '2.1 bits/byte, 300 tokens/s'
    """
    while len(text) > max(room, 0):
        text = text.rpartition(", ")[0]
    return text


def in_kernel() -> bool:
    """Return whether this process is an IPython kernel (Jupyter, VS Code, Colab), not a script or
    a terminal.
    """
    ipython = sys.modules.get("IPython")
    shell = (
        ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    )
    return hasattr(shell, "kernel")


def _write(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _time(seconds: float) -> str:
    """
    >>> _time(8.4), _time(75), _time(7300)
    ('8 s', '1:15', '2:01:40')
    """
    whole = round(seconds)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return (
        f"{hours}:{minutes:02}:{rest:02}"
        if hours
        else f"{minutes}:{rest:02}"
        if minutes
        else f"{whole} s"
    )
