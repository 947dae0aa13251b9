"""Lemmas: the form of a word that a dictionary lists, which depends on its part of speech.

English comes from lemminflect's dictionary, with its rules for nouns and verbs that the dictionary does not have;
other languages from simplemma's lists, which know no parts of speech. Without one, an English word is read as a
verb, a noun, an adjective and an adverb in turn, and the first reading that has another form for it wins: right
for most running text, and wrong for "left" as an adjective. Give the part of speech where it is known.

    >>> lemma = Lemmatizer("en")
    >>> lemma("mice"), lemma("better", "ADJ"), lemma("better", "NOUN"), lemma("was")
    ('mouse', 'good', 'better', 'be')
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal

from seqloom.errors import ConfigError, MissingExtra, suggest

PartOfSpeech = Literal["NOUN", "PROPN", "VERB", "AUX", "ADJ", "ADV"]  # of Universal Dependencies

_PARTS = ("NOUN", "PROPN", "VERB", "AUX", "ADJ", "ADV")
_OTHER_PARTS = (
    "ADP",
    "CCONJ",
    "DET",
    "INTJ",
    "NUM",
    "PART",
    "PRON",
    "PUNCT",
    "SCONJ",
    "SYM",
    "X",
)  # not inflected
_READINGS = ("AUX", "VERB", "NOUN", "ADJ", "ADV")
_AS_THEY_ARE = {
    "would",
    "could",
    "should",
    "might",
    "more",
    "most",
    "least",
    "number",
    "thanks",
}  # not will, numb
_MOST = 1 << 20  # words remembered


class Lemmatizer:
    """One word to its lemma; English ones come in lower case unless they are names."""

    def __init__(self, language: str = "en") -> None:
        self.language = language
        self._find = _english() if language == "en" else _listed(language)

    def __call__(self, word: str, pos: str | None = None) -> str:
        """`pos`: a tag of Universal Dependencies (NOUN, VERB, ADJ, ADV, AUX, ..); English only."""
        if pos is not None:
            pos = pos.upper()
            if self.language != "en":
                raise ConfigError(
                    f"parts of speech are known for English only; leave pos out for {self.language!r}"
                )
            if pos not in _PARTS + _OTHER_PARTS:
                raise ConfigError(
                    f"{pos!r} is not a part of speech{suggest(pos, _PARTS)}; "
                    f"there are {', '.join(_PARTS + _OTHER_PARTS)}"
                )
        return self._find(word.lower() if self.language == "en" and pos != "PROPN" else word, pos)


@lru_cache(1)
def _english() -> Callable[[str, str | None], str]:
    try:
        import lemminflect
    except ImportError:
        raise MissingExtra(
            "English lemmas need lemminflect; install it: pip install 'seqloom[lang]'"
        ) from None

    @lru_cache(_MOST)
    def find(word: str, pos: str | None) -> str:
        if word in _AS_THEY_ARE or (pos is not None and pos not in _PARTS):
            return word
        readings: dict[str, Any] = lemminflect.getAllLemmas(word, upos=pos)
        for part in _READINGS if pos is None else (pos,):
            if readings.get(part, (word,))[0] != word:
                return readings[part][0]
        if not readings and len(word) > 4 and (rules := _regular(word, pos)):
            return lemminflect.getLemma(word, upos=rules)[0]
        return word

    return find


def _regular(word: str, pos: str | None) -> str | None:
    """The part of speech by whose rules a word that no dictionary has may be changed."""
    if pos in (None, "NOUN") and word.endswith("s") and not word.endswith(("ss", "us", "is", "'s")):
        return "NOUN"
    return "VERB" if pos == "VERB" and word.endswith(("s", "ed", "ing")) else None


@lru_cache(8)
def _listed(language: str) -> Callable[[str, str | None], str]:
    try:
        import simplemma
    except ImportError:
        raise MissingExtra(
            f"lemmas of {language!r} need simplemma; install it: pip install 'seqloom[lang]'"
        ) from None
    try:
        simplemma.lemmatize("a", lang=language)
    except ValueError:
        raise ConfigError(
            f"no lemmas for the language {language!r}; simplemma has lists for about 50, "
            "for example de, es, fr, it, nl, pl, pt, ru, sv"
        ) from None

    @lru_cache(_MOST)
    def find(word: str, pos: str | None) -> str:
        return simplemma.lemmatize(word, lang=language)

    return find
