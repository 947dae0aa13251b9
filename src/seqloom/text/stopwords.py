"""Stop words: the frequent words of a language that say how a sentence is built and little of what it is about.

Articles, pronouns, prepositions, conjunctions, forms of to be and to have, and the commonest adverbs. Lists in
use elsewhere contain "not", "no" and "nor", and removing those turns "not good" into "good"; so here the words of
negation are a list of their own, and stay unless they are asked for. Removing stop words helps models that count
words (topics, search); it takes away what parsing, translation and generation are made of. The lists are in
`data/bundled/stopwords.toml`.

    >>> sorted(stop_words("en") & {"the", "on", "not", "cat"})
    ['on', 'the']
"""

from __future__ import annotations

from functools import cache
from typing import Literal

from seqloom.errors import ConfigError, suggest
from seqloom.text.bundled import read_tables

LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "nl", "sv", "da", "nb", "ru")


@cache
def stop_words(
    language: str = "en", *, negation: Literal["keep", "remove"] = "keep"
) -> frozenset[str]:
    """The stop words of a language, lower case, apostrophes straight; with `negation="remove"` also no, not, never.

    >>> len(stop_words("en"))
    215
    """
    if language not in LANGUAGES:
        raise ConfigError(
            f"no stop words for the language {language!r}{suggest(language, LANGUAGES)}; "
            f"there are lists for {', '.join(LANGUAGES)}"
        )
    tables = read_tables("stopwords")
    words = set(tables["words"][language].split())
    negations = set(tables["negation"][language].split())
    return frozenset(words | negations if negation == "remove" else words - negations)


def negation_words(language: str = "en") -> frozenset[str]:
    """The words of a language that turn a statement round."""
    return stop_words(language, negation="remove") - stop_words(language)
