"""The steps of a normaliser that look at words: stop words out, stems or lemmas in.

A word is a run of letters and marks with apostrophes inside; what touches a digit or an underscore is left alone.
Each different word is worked out once, so running text costs little more than finding its words.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Literal

from seqloom.text.boundaries import beyond_ascii
from seqloom.text.stopwords import stop_words

_MOST = 1 << 20  # words remembered; a text with more begins anew


class WordSteps:
    """Text to text, word by word."""

    def __init__(self, *, stopwords: Literal["keep", "remove", "remove-all"] = "keep",
                 stem: Literal["keep", "porter", "snowball", "lancaster"] = "keep",
                 lemma: Literal["keep", "dictionary"] = "keep", language: str = "en") -> None:
        self._language = language
        self._stopped: frozenset[str] = frozenset()
        self._base: Callable[[str], str] | None = None
        if stopwords != "keep":
            self._stopped = stop_words(language, negation="keep" if stopwords == "remove" else "remove")
        if stem != "keep":
            from seqloom.text.stems import Stemmer

            self._base = Stemmer(stem, language)
        if lemma != "keep":
            from seqloom.text.lemmas import Lemmatizer

            self._base = Lemmatizer(language)
        self._known = _Known(self._replace)

    def __call__(self, text: str) -> str:
        known = self._known
        return _words(beyond_ascii(text, "M")).sub(lambda found: known[found[0]], text)

    def _replace(self, found: str) -> str:
        """What stands for a word and the blank before it; both go where a stop word stood."""
        word = found.lstrip(" ")
        plain = word.lower().replace("\u2019", "'")
        if plain in self._stopped:
            return ""
        if self._base is None:
            return found
        if self._language == "en":
            plain = plain.removesuffix("'s")
        return found[:len(found) - len(word)] + self._base(plain)


class _Known(dict[str, str]):
    def __init__(self, replace: Callable[[str], str]) -> None:
        super().__init__()
        self.replace = replace

    def __missing__(self, found: str) -> str:
        if len(self) >= _MOST:
            self.clear()
        self[found] = made = self.replace(found)
        return made


@lru_cache(256)
def _words(marks: str) -> re.Pattern[str]:
    letters = rf"(?:[^\W\d_]|[{marks}])+" if marks else r"[^\W\d_]+"
    return re.compile(rf" ?(?<!\w){letters}(?:['\u2019]{letters})*(?!\w)")
