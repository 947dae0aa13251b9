"""Lemmas: the form of a word that a dictionary lists, which depends on its part of speech.

English comes from lemminflect (a dictionary of 190,000 base forms, and rules for new words), other languages from
simplemma's lists, which know no parts of speech. Without one, an English word is read as a verb, a noun, an
adjective and an adverb in turn, and the first reading that has another form for it wins: right for most running
text, and wrong for "left" as an adjective. Give the part of speech where it is known.

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
_OTHER_PARTS = ("ADP", "CCONJ", "DET", "INTJ", "NUM", "PART", "PRON", "PUNCT", "SCONJ", "SYM", "X")  # not inflected
_READINGS = ("AUX", "VERB", "NOUN", "ADJ", "ADV")
_MOST = 1 << 20  # words remembered


class Lemmatizer:
    """One word to its lemma, in lower case unless it is a name."""

    def __init__(self, language: str = "en") -> None:
        self.language = language
        self._find = _english() if language == "en" else _listed(language)

    def __call__(self, word: str, pos: str | None = None) -> str:
        """`pos`: a tag of Universal Dependencies (NOUN, VERB, ADJ, ADV, AUX, ..); English only."""
        if pos is not None:
            pos = pos.upper()
            if self.language != "en":
                raise ConfigError(f"parts of speech are known for English only; leave pos out for {self.language!r}")
            if pos not in _PARTS + _OTHER_PARTS:
                raise ConfigError(f"{pos!r} is not a part of speech{suggest(pos, _PARTS)}; "
                                  f"there are {', '.join(_PARTS + _OTHER_PARTS)}")
        return self._find(word if pos == "PROPN" else word.lower(), pos)


@lru_cache(1)
def _english() -> Callable[[str, str | None], str]:
    try:
        import lemminflect
    except ImportError:
        raise MissingExtra("English lemmas need lemminflect; install it: pip install 'seqloom[lang]'") from None

    @lru_cache(_MOST)
    def find(word: str, pos: str | None) -> str:
        if pos is not None and pos not in _PARTS:
            return word
        if pos is not None:
            lemmas = lemminflect.getLemma(word, upos=pos)
            return lemmas[0] if lemmas else word
        readings: dict[str, Any] = lemminflect.getAllLemmas(word)
        return next((readings[part][0] for part in _READINGS if readings.get(part, (word,))[0] != word), word)

    return find


@lru_cache(8)
def _listed(language: str) -> Callable[[str, str | None], str]:
    try:
        import simplemma
    except ImportError:
        raise MissingExtra(f"lemmas of {language!r} need simplemma; "
                           "install it: pip install 'seqloom[lang]'") from None
    try:
        simplemma.lemmatize("a", lang=language)
    except ValueError:
        raise ConfigError(f"no lemmas for the language {language!r}; simplemma has lists for about 50, "
                          "for example de, es, fr, it, nl, pl, pt, ru, sv") from None

    @lru_cache(_MOST)
    def find(word: str, pos: str | None) -> str:
        return simplemma.lemmatize(word, lang=language)

    return find
