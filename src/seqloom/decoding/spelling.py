"""Drawn tokens to text that can be shown at once: whole characters, up to a stop string."""

from __future__ import annotations

import codecs
from collections.abc import Collection, Sequence

from seqloom.errors import ConfigError
from seqloom.text.tokenizer import Tokenizer


class StopStrings:
    r"""Passes text through until the first stop string is complete; the stop string itself is left out.

    The result does not depend on how the text is cut into pieces. Of stop strings that overlap, the one
    that is complete first counts, and of several that end together the longest.

    >>> stops = StopStrings(["\n\n", "END"])
    >>> stops.feed("one E"), stops.feed("Nough, two EN"), stops.feed("D three")
    (('one ', False), ('ENough, two ', False), ('', True))
    """

    def __init__(self, stops: Sequence[str]) -> None:
        if isinstance(stops, str):
            raise ConfigError(f"stop strings are a list; write [{stops!r}]")
        if "" in stops:
            raise ConfigError("a stop string must not be empty")
        self.hit: str | None = None  # the stop string that ended the text
        self._stops = tuple(stops)
        self._held = ""

    def feed(self, piece: str) -> tuple[str, bool]:
        """Return the text that is safe to show now, and whether a stop string was reached (then and
        ever after).
        """
        if self.hit is not None:
            return "", True
        if not self._stops:
            return piece, False
        text = self._held + piece
        matches = [
            (start + len(stop), start, stop)
            for stop in self._stops
            if (start := text.find(stop)) >= 0
        ]
        if matches:
            _, start, self.hit = min(matches)
            self._held = ""
            return text[:start], True
        safe = len(text) - self._undecided(text)
        self._held = text[safe:]
        return text[:safe], False

    def flush(self) -> str:
        """Return what was held back, once it is known that nothing follows."""
        held, self._held = self._held, ""
        return held

    def _undecided(self, text: str) -> int:
        """Return the length of the longest suffix of the text that is a prefix of a stop string."""
        longest = max((len(stop) - 1 for stop in self._stops), default=0)
        for length in range(min(longest, len(text)), 0, -1):
            tail = text[-length:]
            if any(stop.startswith(tail) for stop in self._stops):
                return length
        return 0


class Utf8Decoder:
    """Bytes in, whole characters out; bytes that are not UTF-8 become U+FFFD, as in `bytes.decode`.

    >>> decoder = Utf8Decoder()
    >>> decoder.feed(b"caf\\xc3"), decoder.feed(b"\\xa9")
    ('caf', 'é')
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def feed(self, data: bytes) -> str:
        return self._decoder.decode(data)

    def flush(self) -> str:
        """Return the replacement of a character that was never completed, if there is one."""
        return self._decoder.decode(b"", final=True)


class TextStream:
    """Token bytes in, text out: both of the above, without the bytes that healing removed from the prompt.

    A token may end inside a character, and a stop string may be spread over several tokens; a tail
    that could still become either is held back until the next tokens decide.

    >>> stream = TextStream(["."], skip=len(b"qui"))
    >>> stream.feed(b"quick"), stream.feed(b" fox. The")
    (('ck', False), (' fox', True))
    """

    def __init__(self, stops: Sequence[str] = (), *, skip: int = 0) -> None:
        self._stops = StopStrings(stops)
        self._decoder = Utf8Decoder()
        self._skip = skip

    @property
    def hit(self) -> str | None:
        """Return the stop string that ended the text."""
        return self._stops.hit

    def feed(self, data: bytes) -> tuple[str, bool]:
        """Return the text that is safe to show now, and whether generation should stop."""
        fresh = data[self._skip :]
        self._skip -= len(data) - len(fresh)
        return self._stops.feed(self._decoder.feed(fresh))

    def flush(self, *, cut: bool = False) -> tuple[str, bool]:
        """Return the rest, once no token follows; if it was cut off, without an incomplete character."""
        text, stopped = self._stops.feed("" if cut else self._decoder.flush())
        return (text, True) if stopped else (text + self._stops.flush(), False)


class Speller:
    """Turns drawn tokens into text, up to one of the tokens `ends` or a stop string."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        stop: Sequence[str],
        ends: Collection[int | None],
        *,
        before: bool,
        dropped: bytes = b"",
    ) -> None:
        """Set up the text. `before`: it follows text without white space at its end; `dropped`: bytes
        of the prompt with which the first token begins.
        """
        self.tokenizer, self.ends = tokenizer, ends
        self.ended = False  # by one of the ends or by a stop string
        self._text = TextStream(stop, skip=len(dropped))
        # a server spells the same tokens over and over
        self._pieces: dict[tuple[int, bool], bytes] = tokenizer.derived("pieces", dict)
        self._before = before or bool(dropped)
        self._may_wait = not stop
        self._waiting: list[bytes] = []

    def feed(self, token: int, *, now: bool = True) -> str:
        """Return the text that is safe to show after one more token; with `now` false it may also come
        later, which takes less time.
        """
        if token in self.ends:
            self.ended = True
            return ""
        spelled = self._pieces.get((token, self._before))
        if spelled is None:
            spelled = self.tokenizer.piece(token, before=self._before)
            self._pieces[token, self._before] = spelled
        self._before = True
        if not now and self._may_wait:
            self._waiting.append(spelled)
            return ""
        piece, self.ended = self._text.feed(self._with_waiting(spelled))
        return piece

    def _with_waiting(self, spelled: bytes) -> bytes:
        if not self._waiting:
            return spelled
        waiting, self._waiting = self._waiting, []
        return b"".join([*waiting, spelled])

    def flush(self) -> str:
        """Return the rest, once no token follows."""
        if self._text.hit is not None:
            return ""
        waiting = self._text.feed(self._with_waiting(b""))[0] if self._waiting else ""
        return waiting + self._text.flush(cut=not self.ended)[0]
