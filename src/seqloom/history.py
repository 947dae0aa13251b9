"""The log of a training, kept in memory while a model is fitted, so that `model.history` has it afterwards.

Whoever trains (the engine of networks, the passes of word vectors, Baum-Welch) records each report; `Model.fit` listens.

    >>> with recording() as lines:
    ...     record({"step": 1, "loss": 2.5})
    >>> lines
    [{'step': 1, 'loss': 2.5}]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

Lines = list[dict[str, Any]]

_lines: ContextVar[Lines | None] = ContextVar("seqloom_history", default=None)


@contextmanager
def recording() -> Iterator[Lines]:
    """While open, what is recorded is added to this list."""
    lines: Lines = []
    token = _lines.set(lines)
    try:
        yield lines
    finally:
        _lines.reset(token)


def record(values: dict[str, Any]) -> None:
    """One report; where nobody listens it is dropped."""
    if (lines := _lines.get()) is not None:
        lines.append(dict(values))


def resume(earlier: Iterable[dict[str, Any]]) -> None:
    """What a run that goes on had reported before."""
    if (lines := _lines.get()) is not None:
        lines[:] = [dict(values) for values in earlier]
