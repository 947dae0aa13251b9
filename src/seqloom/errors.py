"""The exceptions that users meet: one line that says what is wrong, where, and what to do.

The command line prints the message alone and exits with `exit_code`; `--debug` shows the trace.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence

MAX_MESSAGE_LENGTH = 500  # characters of a message
FEW = 5  # numbers of lines or rows that a message names
_VALUE = 80  # characters of a value that a message quotes


class SeqloomError(Exception):
    """Base of everything that seqloom raises on purpose."""

    exit_code = 1

    def __init__(self, message: str = "") -> None:
        super().__init__(shortened(message))


class ConfigError(SeqloomError, ValueError):
    """An option that does not exist, or a value outside what it allows. `options`: those that the
    message names, which the command line shows as flags.
    """

    exit_code = 2

    def __init__(self, message: str = "", options: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.options = tuple(options)


class DataError(SeqloomError, ValueError):
    """Input text that is missing, empty, not text, or in the wrong encoding."""


class EncodingError(DataError):
    """A file that is not text in the encoding that was asked for."""


class ModelError(SeqloomError):
    """A saved model that is missing, incomplete, foreign, or newer than this program."""


class NotFitted(SeqloomError):
    """A model was asked for something that only a fitted model has."""


class TrainingError(SeqloomError):
    """Training that cannot continue: the loss is not finite, or memory ran out."""


class MissingExtra(SeqloomError, ImportError):
    """An optional package is needed and not installed."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C on the command line, which is repeated where a library has swallowed it. Who catches
    it to go on calls `obey`.
    """

    def __init__(self, message: str = "", obey: Callable[[], None] = lambda: None) -> None:
        super().__init__(message)
        self.obey = obey


class Terminated(Interrupted):
    """SIGTERM on the command line: it asks for what Ctrl-C asks for."""


def shortened(text: str, most: int = MAX_MESSAGE_LENGTH) -> str:
    """Return a text without its middle if it is long: what is wrong stands at the beginning, what
    to do at the end.

    >>> shortened("a" * 40 + "b" * 40, most=20)
    'aaaaaaaaaaa ... bbbb'
    """
    if len(text) <= most:
        return text
    end = most // 4 - 1
    return f"{text[: most - end - 5]} ... {text[len(text) - end :]}"


def quoted(value: object) -> str:
    """Return a value as a message shows it: never long.

    >>> quoted("topic"), quoted(10 ** 5000)
    ("'topic'", 'a number of thousands of digits')
    """
    if isinstance(value, str):
        return shortened(repr(value[: _VALUE + 1]), _VALUE)
    try:
        return shortened(repr(_ends(value)), _VALUE)
    except ValueError:  # Python does not write out such numbers
        return "a number of thousands of digits"


def _ends(value: object) -> object:
    """Return a value without the middle of long lists: it is not shown, and to write it takes long."""
    if not isinstance(value, list):
        return value
    if len(value) > 2 * _VALUE:
        value = value[:_VALUE] + value[-_VALUE:]
    return [_ends(one) for one in value]


def lacks_memory(error: BaseException) -> bool:
    """Return whether an error says that memory ran out, as Python, NumPy or torch say it."""
    message = str(error).lower() if isinstance(error, (RuntimeError, ValueError)) else ""
    return isinstance(error, MemoryError) or any(
        words in message
        for words in (
            "allocate memory",
            "not enough memory",
            "out of memory",
            "tried to allocate",
            "array is too big",
            "maximum allowed dimension exceeded",
            "storage size calculation overflowed",
        )
    )


def suggest(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'order'?` if a known name is near, else an empty string."""
    if len(word) > _VALUE:  # nothing is near, and looking takes long
        return ""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""


def suggest_known(word: str, names: Iterable[str]) -> str:
    """Return what follows an unknown name: the nearest, and all that there are.

    >>> suggest_known("ordr", ["order", "k"]), suggest_known("alpha", ["order"])
    ("; did you mean 'order'? (known: order, k)", '; known: order')
    """
    names = list(names)
    near = suggest(word, names)
    return f"{near} (known: {', '.join(names)})" if near else f"; known: {', '.join(names)}"


def first_few(word: str, numbers: Sequence[int], count: int) -> str:
    """Return where `count` things are, by the numbers of the first ones: of lines or rows, say.

    >>> first_few("line", [5], 1), first_few("line", [5, 1200], 7)
    ('line 5', 'lines 5, 1200, ...')
    """
    shown = [*map(str, numbers)] + ["..."] * (count > len(numbers))
    return f"{word}{'s' * (count > 1)} {', '.join(shown)}"


def either(names: Iterable[str]) -> str:
    """Join alternatives with "or", for a sentence.

    >>> either(["a tagger", "a classifier", "word vectors"])
    'a tagger, a classifier or word vectors'
    """
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last
