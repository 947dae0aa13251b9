"""The exceptions that users meet: one line that says what is wrong, where, and what to do.

The command line prints the message alone and exits with `exit_code`; `--debug` shows the trace.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class SeqloomError(Exception):
    """Base of everything that seqloom raises on purpose."""

    exit_code = 1


class ConfigError(SeqloomError, ValueError):
    """An option that does not exist, or a value outside what it allows."""

    exit_code = 2


class DataError(SeqloomError, ValueError):
    """Input text that is missing, empty, not text, or in the wrong encoding."""


class ModelError(SeqloomError):
    """A saved model that is missing, incomplete, foreign, or newer than this program."""


class NotFitted(SeqloomError):
    """A model was asked for something that only a fitted model has."""


class TrainingError(SeqloomError):
    """Training that cannot go on: a loss that is no number, or too little memory."""


class MissingExtra(SeqloomError, ImportError):
    """An optional package is needed and not installed."""


class Terminated(KeyboardInterrupt):
    """SIGTERM on the command line: it asks for what Ctrl-C asks for."""


def suggest(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'order'?` when a known name is near, else an empty string."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""
