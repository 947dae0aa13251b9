"""What is asked of every training inside a `with` block, besides the model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Request:
    """One thing to ask for; true inside `with request.made():`."""

    def __init__(self, name: str) -> None:
        self._made = ContextVar(f"seqloom_{name}", default=False)

    def __bool__(self) -> bool:
        return self._made.get()

    @contextmanager
    def made(self) -> Iterator[None]:
        """Ask for it in this block."""
        token = self._made.set(True)
        try:
            yield
        finally:
            self._made.reset(token)


ESTIMATE = Request("estimate")  # only to be estimated: the training ends in `estimate.Estimated`
NOISE = Request("noise")  # to end with a measurement of the noise of the gradient
