"""Lemmas and stop words: the document's words, parts of speech, what is missing."""

import sys

import pytest

from seqloom.errors import ConfigError, MissingExtra
from seqloom.text import word_forms
from seqloom.text.normalize import Normalizer
from seqloom.text.word_forms import LANGUAGES, Lemmatizer, negation_words, stop_words

EXAMPLES = [
    ("better", "ADJ", "good"),
    ("running", "VERB", "run"),
    ("mice", "NOUN", "mouse"),
    ("worse", "ADJ", "bad"),
    ("studies", "NOUN", "study"),
    ("caring", "VERB", "care"),
    *((form, "VERB", "be") for form in ("was", "were", "am", "is", "are")),
    ("democratization", "NOUN", "democratization"),
]  # E-16: not democratize


def test_document_examples() -> None:
    pytest.importorskip("lemminflect")
    lemma = Lemmatizer()
    for word, pos, expected in EXAMPLES:
        assert lemma(word, pos) == expected
        assert lemma(word) == expected


def test_part_of_speech_decides() -> None:
    pytest.importorskip("lemminflect")
    lemma = Lemmatizer()
    assert (lemma("left", "VERB"), lemma("left", "ADJ")) == ("leave", "left")
    assert (lemma("meeting", "VERB"), lemma("meeting", "NOUN")) == ("meet", "meeting")
    assert (lemma("Better", "NOUN"), lemma("better", "ADV")) == ("better", "well")
    assert lemma("the", "DET") == "the"
    assert (lemma("would"), lemma("number"), lemma("s")) == ("would", "number", "s")
    assert (lemma("blogwikis"), lemma("zorping", "VERB"), lemma("Dickens", "PROPN")) == (
        "blogwikis",
        "zorp",
        "Dickens",
    )
    with pytest.raises(ConfigError, match="did you mean 'NOUN'"):
        lemma("cat", "NUON")


def test_other_languages() -> None:
    pytest.importorskip("simplemma")
    lemma = Lemmatizer("de")
    assert [lemma(word) for word in ("Häuser", "ging", "Mäuse")] == ["Haus", "gehen", "Maus"]
    with pytest.raises(ConfigError, match="English only"):
        lemma("Haus", "NOUN")
    with pytest.raises(ConfigError, match="no lemmas for the language 'xx'"):
        Lemmatizer("xx")
    assert Normalizer("lemma=dictionary,language=de")("Die Häuser") == "der Haus"


def test_in_a_normaliser() -> None:
    pytest.importorskip("lemminflect")
    found = Normalizer("lemma=dictionary,case=lower")(
        "The mice were running; the dog's studies got worse."
    )
    assert found == "the mouse be run; the dog study get bad."


@pytest.mark.parametrize(("package", "language"), [("lemminflect", "en"), ("simplemma", "de")])
def test_missing_package_is_one_line(
    package: str, language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    word_forms._english.cache_clear()
    word_forms._listed.cache_clear()
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        MissingExtra, match=rf"need {package}; install it: pip install 'seqloom\[lang\]'"
    ):
        Normalizer(f"lemma=dictionary,language={language}")


def test_stop_words() -> None:
    for language in LANGUAGES:
        words = stop_words(language)
        assert 100 <= len(words) <= 400  # as lists in use
        assert all(word == word.lower() and word.strip() == word for word in words)
        assert not words & negation_words(language)
    kinds = {
        "a",
        "an",
        "the",
        "in",
        "on",
        "at",
        "with",
        "and",
        "but",
        "or",
        "i",
        "you",
        "he",
        "she",
        "they",
        "am",
        "is",
        "are",
        "was",
        "were",
        "which",
    }
    assert kinds <= stop_words("en")
    assert {"not", "no", "nor", "never", "don't"} <= negation_words("en")
    assert {"not", "no", "nor"} <= stop_words("en", negation="remove")
    with pytest.raises(ConfigError, match="no stop words for the language 'xx'"):
        stop_words("xx")
