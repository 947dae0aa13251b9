"""How long work reports on itself without the library ever printing.

Library code opens a `task`; whoever runs it (the command line) may install a reporter that draws.
Without one, nothing is shown, except in a notebook, where progress is shown unless `reporting(None)`
asks for silence. The reporter travels in a context variable, as a logger would.

    with progress.task("counting", total=n_bytes, unit="bytes") as bar:
        bar.advance(4096)

The training log goes the same way (`recording`), and what is remarked of rows (`remark`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Any, Protocol, TypeVar

from seqloom.errors import FEW, first_few, shortened

Lines = list[dict[str, Any]]

_lines: ContextVar[Lines | None] = ContextVar("seqloom_history", default=None)


@contextmanager
def recording() -> Iterator[Lines]:
    """Collect in a list what is recorded while open: the training log, which becomes `model.history`.

    Whoever trains (the engine of networks, the passes of word vectors, Baum-Welch) records each
    report; `Model.fit` listens.

    >>> with recording() as lines:
    ...     record({"step": 1, "loss": 2.5})
    >>> lines
    [{'step': 1, 'loss': 2.5}]
    """
    lines: Lines = []
    token = _lines.set(lines)
    try:
        yield lines
    finally:
        _lines.reset(token)


def record(values: dict[str, Any]) -> None:
    """Add one report; it is dropped if nobody listens."""
    if (lines := _lines.get()) is not None:
        lines.append(dict(values))


def resume(earlier: Iterable[dict[str, Any]]) -> None:
    """Put back what a resumed run had reported before."""
    if (lines := _lines.get()) is not None:
        lines[:] = [dict(values) for values in earlier]


# ---- progress

T = TypeVar("T")


class Bar(Protocol):
    def advance(self, amount: int = 1) -> None: ...

    def note(self, text: str) -> None:
        """Set what to show beside the bar from now on."""
        ...


class Reporter(Protocol):
    def begin(self, label: str, total: int | None, unit: str) -> Bar: ...
    def end(self, task: Bar) -> None: ...
    def say(self, message: str) -> None: ...


class _Silent:
    def advance(self, amount: int = 1) -> None:
        pass

    def note(self, text: str) -> None:
        pass


_UNSET: Any = object()
_reporter: ContextVar[Reporter | None] = ContextVar("seqloom_progress", default=_UNSET)
_installed: list[Reporter] = []  # by `reporting`, in any context, the last one innermost


@contextmanager
def reporting(reporter: Reporter | None) -> Iterator[None]:
    """Send the progress of everything inside to this reporter; None: to nobody."""
    token = _reporter.set(reporter)
    _installed.extend([reporter] if reporter is not None else [])
    try:
        yield
    finally:
        _reporter.reset(token)
        if reporter is not None:
            _installed.remove(reporter)


def current() -> Reporter | None:
    """Return the reporter of this context."""
    reporter = _reporter.get()
    if reporter is not _UNSET:
        return reporter
    if "IPython" not in sys.modules:
        return None
    from seqloom.reporters import NotebookReporter, in_kernel

    return NotebookReporter() if in_kernel() else None


@contextmanager
def task(label: str, total: int | None = None, unit: str = "") -> Iterator[Bar]:
    reporter = current()
    if reporter is None:
        yield _Silent()
        return
    bar = reporter.begin(label, total, unit)
    try:
        yield bar
    finally:
        reporter.end(bar)


_wording: ContextVar[Callable[[str], str]] = ContextVar("seqloom_wording", default=str)


@contextmanager
def worded(change: Callable[[str], str]) -> Iterator[None]:
    """Change what is said inside: the command line names flags where the library names arguments."""
    token = _wording.set(change)
    try:
        yield
    finally:
        _wording.reset(token)


_held: ContextVar[list[str] | None] = ContextVar("seqloom_held", default=None)


@contextmanager
def said_after() -> Iterator[None]:
    """Say what is said inside when it ends: a result that is written in pieces stays whole."""
    held: list[str] = []
    token = _held.set(held)
    try:
        yield
    finally:
        _held.reset(token)
        for message in held:
            say(message)


@contextmanager
def unsaid() -> Iterator[None]:
    """Say nothing of what is said inside: of many texts, whoever reads them says it once."""
    token = _held.set([])
    try:
        yield
    finally:
        _held.reset(token)


def say(message: str) -> None:
    """Tell the person at the terminal something (a fall-back taken, an estimate); never a result."""
    if (held := _held.get()) is not None:
        held.append(message)
        return
    reporter = current()
    if reporter is not None:
        reporter.say(shortened(_wording.get()(message)))


def say_from_any_thread(message: str) -> bool:
    """Say a message where the context of the work is unknown, as in a thread of a pool; return
    whether anybody was told.
    """
    reporter = current() or (_installed[-1] if _installed else None)
    if reporter is not None:
        reporter.say(shortened(message))
    return reporter is not None


def in_this_context(items: Iterator[T]) -> Iterator[T]:
    """Return the same items, made in the context of this call whichever thread asks for them: what
    is said meanwhile is heard.

    A library in Rust asks from threads of its own.
    """
    context, end = copy_context(), object()
    return iter(lambda: context.run(next, items, end), end)  # type: ignore[arg-type, return-value]


# ---- remarks on rows


class _Tally:
    """The rows of which a remark is true."""

    def __init__(self) -> None:
        self.count, self.total = 0, 0
        self.first: list[int] = []  # numbers of the first ones


class _Collection:
    """What is remarked of the rows of several batches."""

    def __init__(self) -> None:
        self.tallies: dict[tuple[str, str, str], _Tally] = {}
        self.before = 0  # rows before the batch whose numbers were given
        self.numbers: Sequence[int] = ()

    def add(self, remark: tuple[str, str, str], rows: Sequence[int], total: int) -> None:
        tally = self.tallies.setdefault(remark, _Tally())
        for row in rows[: FEW - len(tally.first)]:
            own = tally.total + row - self.before
            tally.first.append(
                self.numbers[own] if own < len(self.numbers) else tally.total + row + 1
            )
        tally.count, tally.total = tally.count + len(rows), tally.total + total

    def say(self) -> None:
        for (noun, lack, so), tally in self.tallies.items():
            said = _said.get()
            if not tally.count or (said is not None and lack in said):
                continue
            have = "has" if tally.count == 1 else "have"
            where = f" ({first_few('row', tally.first, tally.count)})"
            if said is not None:
                said.add(lack)
            say(
                f"{tally.count:,} of {tally.total:,} {noun} {have} {lack}"
                f"{where if said is None and tally.total > 1 else ''}; {so}"
            )


_collection: ContextVar[_Collection | None] = ContextVar("seqloom_remarks", default=None)
_said: ContextVar[set[str] | None] = ContextVar("seqloom_said", default=None)


def remark(rows: Sequence[int], total: int, noun: str, lack: str, so: str) -> None:
    """Say that some rows, from 0, of a batch of `total` lack something, and what follows for them.

    A batch without such rows is told too, since it is counted: "2 of 20,000 texts have no known word
    (rows 3, 10004); there the prior alone decides".
    """
    with collecting():
        collection = _collection.get()
        assert collection is not None
        collection.add((noun, lack, so), rows, total)


@contextmanager
def collecting() -> Iterator[None]:
    """Sum up what is remarked of rows while open, over all batches, and say it at the end; within
    another such context that one does.
    """
    if _collection.get() is not None:
        yield
        return
    token = _collection.set(collection := _Collection())
    try:
        yield
    finally:
        _collection.reset(token)
        collection.say()


def number_rows(numbers: Sequence[int]) -> None:
    """Say which rows the next batch holds, where these do not just go on counting."""
    if (collection := _collection.get()) is not None:
        collection.before += len(collection.numbers)
        collection.numbers = numbers


@contextmanager
def quiet_remarks() -> Iterator[None]:
    """Drop what is remarked of rows while open: of rows that nobody asked about."""
    token = _collection.set(_Collection())
    try:
        yield
    finally:
        _collection.reset(token)


@contextmanager
def remarking_once() -> Iterator[None]:
    """Say a remark only the first time while open, and without the numbers of rows: where several
    models read the same rows, of a part that was cut out of the data.
    """
    token = _said.set(set()) if _said.get() is None else None
    try:
        yield
    finally:
        if token is not None:
            _said.reset(token)
