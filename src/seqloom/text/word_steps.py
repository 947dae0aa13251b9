"""The steps of a normaliser that look at words: stop words out, stems or lemmas in.

A word is a run of letters and marks with apostrophes inside; what has a digit or an underscore is left alone.
The blanks around a word that goes stay: taken along, they would join what stands at both sides.
Each different word is worked out once, so running text costs little more than finding its words.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Literal

from seqloom.text.boundaries import beyond_ascii
from seqloom.text.stopwords import stop_words

_NOT_LETTERS = re.compile(r"[\d_]")
_MOST = 1 << 20  # words remembered; a text with more begins anew


class WordSteps:
    """Text to text, word by word."""

    def __init__(
        self,
        *,
        stopwords: Literal["keep", "remove", "remove-all"] = "keep",
        stem: Literal["keep", "porter", "snowball", "lancaster"] = "keep",
        lemma: Literal["keep", "dictionary"] = "keep",
        language: str = "en",
    ) -> None:
        self._language = language
        self._stopped: frozenset[str] = frozenset()
        self._base: Callable[[str], str] | None = None
        if stopwords != "keep":
            self._stopped = stop_words(
                language, negation="keep" if stopwords == "remove" else "remove"
            )
        if stem != "keep":
            from seqloom.text.stems import Stemmer

            self._base = Stemmer(stem, language)
        if lemma != "keep":
            from seqloom.text.lemmas import Lemmatizer

            self._base = Lemmatizer(language)
        self._known = _Known(self._replace)

    def __call__(self, text: str) -> str:
        parts = _words(beyond_ascii(text, "M")).split(text)
        parts[1::2] = map(
            self._known.__getitem__, parts[1::2]
        )  # quicker than a call for each match
        return "".join(parts)

    def _replace(self, word: str) -> str:
        if _NOT_LETTERS.search(word):
            return word
        plain = word.lower().replace("\u2019", "'")
        if plain in self._stopped:
            return ""
        if self._base is None:
            return word
        return self._base(
            plain.removesuffix("'s") if self._language == "en" else word
        )  # German nouns need capitals


class _Known(dict[str, str]):
    def __init__(self, replace: Callable[[str], str]) -> None:
        super().__init__()
        self.replace = replace

    def __missing__(self, word: str) -> str:
        if len(self) >= _MOST:
            self.clear()
        self[word] = made = self.replace(word)
        return made


@lru_cache(256)
def _words(marks: str) -> re.Pattern[str]:
    part = rf"(?:\w|[{marks}])++" if marks else r"\w++"
    return re.compile(rf"({part}(?:['\u2019]{part})*+)")
