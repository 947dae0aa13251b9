"""Whether held-out text is of another kind than the training text.

Measured are words that the training text lacks: of the held-out text, and of a random tenth of the training text, each against
the other nine tenths. Text of one kind gives two rates of the same size; another language, or code beside prose, gives a
rate far above. The tenth is drawn in runs of 200 words, the files mixed, so it is what a lucky split would have given. Where
words are not written with blanks between them, characters are counted instead. Of long texts a part is read; of short ones
nothing is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from seqloom.data.corpus import Corpus

_RUN = 200  # words
_SHARE = 10  # one run in so many of the training text is compared with the others
_MOST = 32 << 20  # bytes that are looked at; of longer texts every second, third, ... megabyte
_LONG_WORD = 25  # bytes a word on average: a script without blanks
_FEW = 1000  # words, of which a rate would say little
_FACTOR, _MARGIN = 2.0, 0.15
_WORD = re.compile(r"\w+")


class Shift(NamedTuple):
    """Shares of words that are not in the training text: of the held-out text, and of a part of the training text."""

    unseen: float
    expected: float

    @property
    def far(self) -> bool:
        """More than twice what is expected, and by more than 15 points."""
        return self.unseen > max(_FACTOR * self.expected, self.expected + _MARGIN)

    def warning(self) -> str:
        return (
            f"warning: {self.unseen:.0%} of the test part's words are not in the training part, against "
            f"{self.expected:.0%} of a random tenth of it: the test is of another kind of text"
        )


def shift(train: Corpus, test: Corpus) -> Shift:
    """How far the test is from the training text."""
    rng = np.random.default_rng(0)
    known: set[str] = set()
    drawn: list[str] = []
    by_character = _without_blanks(train)
    for run in _runs(train, by_character):
        if rng.integers(_SHARE):
            known.update(run)
        else:
            drawn += run
    asked = [word for run in _runs(test, by_character) for word in run]
    if min(len(asked), len(drawn)) < _FEW:
        return Shift(0.0, 0.0)
    return Shift(_unseen(asked, known), _unseen(drawn, known))


def _unseen(words: list[str], known: set[str]) -> float:
    return sum(word not in known for word in words) / len(words)


def _without_blanks(corpus: Corpus) -> bool:
    head = next((piece.data for document in corpus.documents for piece in document.pieces()), b"")
    return len(head) > _LONG_WORD * len(head.split())


def _runs(corpus: Corpus, by_character: bool) -> Iterator[list[str]]:
    stride = -(-(corpus.n_bytes or 0) // _MOST) or 1
    number = 0
    for document in corpus.documents:
        for piece in document.pieces():
            number += 1
            if number % stride == 0 or stride == 1:
                text = piece.data.decode("utf-8")
                words = list("".join(text.split())) if by_character else _WORD.findall(text.lower())
                yield from (words[at : at + _RUN] for at in range(0, len(words), _RUN))
