"""A table that grows as rungs finish, with the bars of what is at work below it.

On a terminal it is drawn again and again, in as many columns as fit; elsewhere it is printed once, whole.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from seqloom import progress
from seqloom.reporters import BarReporter

if TYPE_CHECKING:
    from seqloom.comparison.result import Comparison, RungResult, Skipped


class Table:
    def __init__(self) -> None:
        self.rows: list[RungResult | Skipped] = []
        self.begun: Comparison | None = None
        self.finished = False

    def start(self, comparison: Comparison) -> None:
        self.begun = comparison

    def add(self, row: RungResult | Skipped) -> None:
        from seqloom.comparison.result import Skipped

        self.rows.append(row)
        if isinstance(row, Skipped):
            progress.say(f"{row.name} skipped: {row.reason}")

    def text(self, width: int | None) -> str:
        """In so many characters; None: all columns."""
        from seqloom.comparison.result import RungResult
        from seqloom.comparison.table import chosen, columns, lines

        assert self.begun is not None
        every = columns(
            self.begun.ladder, self.begun if self.finished and self.begun.results else None
        )
        return "\n".join(
            lines(
                chosen(every, [r for r in self.rows if isinstance(r, RungResult)], width), self.rows
            )
        )


class LiveReporter(BarReporter):
    """Bars and remarks that share the terminal with the table."""

    def __init__(self, table: Table, console: Any) -> None:
        super().__init__()
        from rich.live import Live

        self.table = table
        self.live = Live(get_renderable=self.frame, console=console, refresh_per_second=4)

    def frame(self) -> Any:
        from rich.console import Group
        from rich.text import Text

        rows = self.table.text(self.live.console.width) if self.table.rows else ""
        bars = self._bars
        shown = [Text(rows, no_wrap=True, overflow="crop")] if rows else []
        return Group(*shown, *([bars.get_renderable()] if bars is not None else []))

    def bars(self) -> Any:
        if self._bars is None:
            self._bars = self.make_bars(self.live.console)
        return self._bars

    def stop(self, bars: Any) -> None:
        """They are drawn with the table, which goes on."""

    def say(self, message: str) -> None:
        self.live.console.print(message, highlight=False, markup=False)


@contextmanager
def shown(table: Table, console: Any = None) -> Iterator[None]:
    """While open the table is on the terminal; at the end it is printed where there is none."""
    terminal = console is not None or (
        sys.stdout.isatty() and isinstance(progress.current(), BarReporter)
    )
    if not terminal:
        try:
            yield
        finally:  # also what an interrupt left finished
            if table.rows:
                click.echo(table.text(_width()))
        return
    from rich.console import Console

    reporter = LiveReporter(table, console or Console())
    with reporter.live, progress.reporting(reporter):
        yield


def _width() -> int | None:
    """Of a terminal whose other channel is not one; None for pipes and files, which have room."""
    import shutil

    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
