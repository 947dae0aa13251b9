"""Stems: words cut to what their forms share, by rules and without a dictionary.

- `porter`: Porter 1980, "An algorithm for suffix stripping"; English.
- `snowball`: Porter's second thoughts (Porter2) and its relatives for some thirty languages (Porter 2001).
- `lancaster`: Paice 1990, "Another stemmer", which cuts more; English, needs nltk.

The stems are PyStemmer's and NLTK's own; what is added is that words are made lower case and that each different word
is stemmed once.

    >>> [Stemmer(name)("presumably") for name in ("porter", "snowball")]
    ['presum', 'presum']
    >>> Stemmer("snowball", "de")("Häuser")
    'haus'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from threading import Lock
from typing import Literal

from seqloom.errors import ConfigError, MissingExtra, suggest

Algorithm = Literal["porter", "snowball", "lancaster"]

SNOWBALL = {  # by the codes of ISO 639
    "ar": "arabic",
    "ca": "catalan",
    "cs": "czech",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "eo": "esperanto",
    "es": "spanish",
    "et": "estonian",
    "eu": "basque",
    "fa": "persian",
    "fi": "finnish",
    "fr": "french",
    "ga": "irish",
    "hi": "hindi",
    "hu": "hungarian",
    "hy": "armenian",
    "id": "indonesian",
    "it": "italian",
    "lt": "lithuanian",
    "nb": "norwegian",
    "ne": "nepali",
    "nl": "dutch",
    "pl": "polish",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sr": "serbian",
    "st": "sesotho",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
    "yi": "yiddish",
}
_MOST = 1 << 20  # words remembered
_lock = Lock()  # a snowball stemmer works on one word at a time


class Stemmer:
    """One word to its stem."""

    def __init__(self, algorithm: Algorithm = "porter", language: str = "en") -> None:
        self.algorithm, self.language = algorithm, language
        self._stem = _engine(algorithm, language)
        self._known: dict[str, str] = {}

    def __call__(self, word: str) -> str:
        known = self._known.get(word)
        if known is None:
            if len(self._known) >= _MOST:
                self._known.clear()
            with _lock:
                known = self._known[word] = self._stem(word.lower())
        return known

    def all(self, words: Iterable[str]) -> list[str]:
        """The stems of many words."""
        known, stems = self._known, []
        for word in words:
            stem = known.get(word)
            stems.append(self(word) if stem is None else stem)
        return stems


@cache
def _engine(algorithm: str, language: str) -> Callable[[str], str]:
    if algorithm not in ("porter", "snowball", "lancaster"):
        raise ConfigError(f"stem must be one of porter, snowball, lancaster; got {algorithm!r}")
    if algorithm != "snowball" and language != "en":
        raise ConfigError(f"the {algorithm} stemmer is for English; for {language!r} use snowball")
    if algorithm == "lancaster":
        try:
            from nltk.stem.lancaster import LancasterStemmer
        except ImportError:
            raise MissingExtra(
                "the lancaster stemmer needs nltk; install it: pip install 'seqloom[lang]'"
            ) from None
        return LancasterStemmer().stem
    name = "porter" if algorithm == "porter" else SNOWBALL.get(language, "")
    import Stemmer as snowball  # the snowball project's own code in C

    try:
        engine = snowball.Stemmer(name)
    except KeyError:
        raise ConfigError(
            f"no stemmer for the language {language!r}{suggest(language, SNOWBALL)}; "
            f"there is one for {', '.join(SNOWBALL)}"
        ) from None
    engine.maxCacheSize = 0  # ours remembers more
    return engine.stemWord
