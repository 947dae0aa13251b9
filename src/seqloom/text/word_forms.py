"""Stop words, stems and lemmas, and the steps of a normaliser that apply them to the words of a text.

Stop words are the frequent words that carry the structure of a sentence and little of its topic: articles,
pronouns, prepositions, conjunctions, forms of to be and to have, the commonest adverbs. Removing them helps
models that count words (topics, search), but not parsing, translation and generation, which need them.
Stems are what the forms of a word share, by rules and without a dictionary. Lemmas are the dictionary forms
of words, which depend on the part of speech.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from threading import Lock
from typing import Any, Literal

from seqloom.errors import ConfigError, MissingExtra, suggest
from seqloom.text.boundaries import beyond_ascii
from seqloom.text.bundled import read_tables

LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "nl", "sv", "da", "nb", "ru")


@cache
def stop_words(
    language: str = "en", *, negation: Literal["keep", "remove"] = "keep"
) -> frozenset[str]:
    """Return the stop words of a language (`data/bundled/stopwords.toml`), lower case, apostrophes straight;
    with `negation="remove"` also no, not, never.

    Other lists contain the words of negation, and removing those turns "not good" into "good"; so here they
    are a separate list and stay by default.

    >>> len(stop_words("en")), sorted(stop_words("en") & {"the", "on", "not", "cat"})
    (215, ['on', 'the'])
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
    """Return the words of a language that negate a statement."""
    return stop_words(language, negation="remove") - stop_words(language)


# ---- stems

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
_MAX_WORDS = 1 << 20  # size of a cache
_lock = Lock()  # a snowball stemmer works on one word at a time


class Stemmer:
    """Stems words, in lower case, by PyStemmer or NLTK; each distinct word once.

    - `porter`: Porter 1980, "An algorithm for suffix stripping"; English.
    - `snowball`: its revision Porter2, and relatives for some thirty languages (Porter 2001).
    - `lancaster`: Paice 1990, "Another stemmer", which cuts more; English, needs nltk.

    >>> [Stemmer(name)("presumably") for name in ("porter", "snowball")]
    ['presum', 'presum']
    >>> Stemmer("snowball", "de")("Häuser")
    'haus'
    """

    def __init__(self, algorithm: Algorithm = "porter", language: str = "en") -> None:
        self.algorithm, self.language = algorithm, language
        self._stem = _engine(algorithm, language)
        self._stems: dict[str, str] = {}

    def __call__(self, word: str) -> str:
        stem = self._stems.get(word)
        if stem is None:
            if len(self._stems) >= _MAX_WORDS:
                self._stems.clear()
            with _lock:
                stem = self._stems[word] = self._stem(word.lower())
        return stem

    def all(self, words: Iterable[str]) -> list[str]:
        """Return the stems of many words."""
        known_stems, stems = self._stems, []
        for word in words:
            stem = known_stems.get(word)
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
    engine.maxCacheSize = 0  # the cache of `Stemmer` is larger
    return engine.stemWord


# ---- lemmas

PartOfSpeech = Literal["NOUN", "PROPN", "VERB", "AUX", "ADJ", "ADV"]  # of Universal Dependencies

_PARTS = ("NOUN", "PROPN", "VERB", "AUX", "ADJ", "ADV")
_OTHER_PARTS = (  # returned unchanged
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
)
_READINGS = ("AUX", "VERB", "NOUN", "ADJ", "ADV")
_AS_THEY_ARE = {  # words for which lemminflect gives misleading lemmas, such as will and numb
    "would",
    "could",
    "should",
    "might",
    "more",
    "most",
    "least",
    "number",
    "thanks",
}


class Lemmatizer:
    """Maps a word to its lemma; English lemmas are in lower case unless they are names.

    English comes from lemminflect's dictionary, with its rules for nouns and verbs that the dictionary
    lacks; other languages from simplemma's lists, which know no parts of speech. Without one, an English
    word is read as a verb, a noun, an adjective and an adverb in turn, and the first reading with another
    form wins: right for most running text, and wrong for "left" as an adjective.

    >>> lemma = Lemmatizer("en")
    >>> lemma("mice"), lemma("better", "ADJ"), lemma("better", "NOUN"), lemma("was")
    ('mouse', 'good', 'better', 'be')
    """

    def __init__(self, language: str = "en") -> None:
        self.language = language
        self._find = _english() if language == "en" else _listed(language)

    def __call__(self, word: str, pos: str | None = None) -> str:
        """Return the lemma of a word. `pos`: a tag of Universal Dependencies (NOUN, VERB, ADJ, ADV,
        AUX, ..); English only.
        """
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

    @lru_cache(_MAX_WORDS)
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
    """Return the part of speech that gives the rules for a word not in the dictionary; None: no rules."""
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

    @lru_cache(_MAX_WORDS)
    def find(word: str, pos: str | None) -> str:
        return simplemma.lemmatize(word, lang=language)

    return find


# ---- word steps

_NOT_LETTERS = re.compile(r"[\d_]")


class WordSteps:
    """Removes stop words from a text and replaces words by stems or lemmas.

    A word is a run of letters and marks with apostrophes inside; one with a digit or an underscore is left
    alone. The blanks around a removed word stay, since without them its neighbours would be joined. Each
    distinct word is computed once, so running text costs little more than finding its words.
    """

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
            self._base = Stemmer(stem, language)
        if lemma != "keep":
            self._base = Lemmatizer(language)
        self._replacements = _Memo(self._replace)

    def __call__(self, text: str) -> str:
        parts = _words(beyond_ascii(text, "M")).split(text)
        # faster than a call for each match
        parts[1::2] = map(self._replacements.__getitem__, parts[1::2])
        return "".join(parts)

    def _replace(self, word: str) -> str:
        if _NOT_LETTERS.search(word):
            return word
        plain = word.lower().replace("\u2019", "'")
        if plain in self._stopped:
            return ""
        if self._base is None:
            return word
        # not lower case in other languages: German nouns need capitals
        return self._base(plain.removesuffix("'s") if self._language == "en" else word)


class _Memo(dict[str, str]):
    def __init__(self, replace: Callable[[str], str]) -> None:
        super().__init__()
        self.replace = replace

    def __missing__(self, word: str) -> str:
        if len(self) >= _MAX_WORDS:
            self.clear()
        self[word] = replacement = self.replace(word)
        return replacement


@lru_cache(256)
def _words(marks: str) -> re.Pattern[str]:
    part = rf"(?:\w|[{marks}])++" if marks else r"\w++"
    return re.compile(rf"({part}(?:['\u2019]{part})*+)")
