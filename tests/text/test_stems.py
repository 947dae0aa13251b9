"""Stems: the document's words with its errors corrected, and the same as NLTK."""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from seqloom.errors import ConfigError, MissingExtra
from seqloom.text import word_forms
from seqloom.text.word_forms import SNOWBALL, Stemmer

# E-16: caring is care to Porter (car to Lancaster); conditional and easily are condit and easili
EXAMPLES = {
    "porter": {
        "running": "run",
        "argument": "argument",
        "happiness": "happi",
        "studies": "studi",
        "worse": "wors",
        "caring": "care",
        "argue": "argu",
        "argued": "argu",
        "argues": "argu",
        "arguing": "argu",
        "argus": "argu",
        "retrieval": "retriev",
        "retrieved": "retriev",
        "retrieving": "retriev",
        "retrieves": "retriev",
    },
    "snowball": {
        "conditional": "condit",
        "easily": "easili",
        "argus": "argus",
        "running": "run",
        "caring": "care",
    },
    "lancaster": {"maximum": "maxim", "presumably": "presum", "caring": "car"},
}


@pytest.mark.parametrize("algorithm", EXAMPLES)
def test_document_examples(algorithm: str) -> None:
    if algorithm == "lancaster":
        pytest.importorskip("nltk")
    stemmer = Stemmer(algorithm)  # type: ignore[arg-type]
    assert {word: stemmer(word) for word in EXAMPLES[algorithm]} == EXAMPLES[algorithm]
    assert stemmer.all(["Running", "running"]) == [stemmer("running")] * 2


@pytest.fixture(scope="module")
def vocabulary(shakespeare: str) -> list[str]:
    return sorted(set(re.findall("[a-z]+", shakespeare.lower())))


def test_porter_equals_nltk(vocabulary: list[str]) -> None:
    """The algorithm as published; NLTK's default adds changes of its own."""
    porter = pytest.importorskip("nltk.stem.porter").PorterStemmer
    theirs = porter(mode=porter.ORIGINAL_ALGORITHM)
    ours = Stemmer("porter")
    assert [ours(word) for word in vocabulary] == [theirs.stem(word) for word in vocabulary]


def test_lancaster_equals_nltk(vocabulary: list[str]) -> None:
    theirs = pytest.importorskip("nltk.stem.lancaster").LancasterStemmer()
    ours = Stemmer("lancaster")
    some = vocabulary[::5]
    assert [ours(word) for word in some] == [theirs.stem(word) for word in some]


def test_snowball_equals_nltk_but_for_its_later_rules(vocabulary: list[str]) -> None:
    """Snowball's English was changed after NLTK copied it (organ and organise, inter- and -logist
    are apart now).
    """
    theirs = pytest.importorskip("nltk.stem.snowball").SnowballStemmer("english")
    ours, some = Stemmer("snowball"), vocabulary[::3]
    different = [word for word in some if ours(word) != theirs.stem(word)]
    assert len(different) < 0.003 * len(some)


def test_every_language_is_there() -> None:
    for language in SNOWBALL:
        assert Stemmer("snowball", language)("a") is not None
    assert Stemmer("snowball", "de")("Häuser") == "haus"
    assert Stemmer("snowball", "ru")("книги") == Stemmer("snowball", "ru")("книга")


def test_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="for English"):
        Stemmer("porter", "de")
    with pytest.raises(ConfigError, match="no stemmer for the language 'xx'"):
        Stemmer("snowball", "xx")
    with pytest.raises(ConfigError, match="one of porter"):
        Stemmer("poter")  # type: ignore[arg-type]
    word_forms._engine.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "nltk.stem.lancaster", None)
    with pytest.raises(MissingExtra, match=r"pip install 'seqloom\[lang\]'"):
        Stemmer("lancaster")


def test_threads_share_one_stemmer(vocabulary: list[str]) -> None:
    """The engine works on one word at a time, so it is guarded."""
    expected = [Stemmer("snowball")(word) for word in vocabulary[:2000]]
    shared = Stemmer("snowball")
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: [shared(word) for word in vocabulary[:2000]], range(4)):
            assert found == expected


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_forms, "_MAX_WORDS", 10)
    stemmer = Stemmer("porter")
    assert stemmer.all([f"running{i}" for i in range(30)])[0] == "running0"
    assert len(stemmer._stems) <= 10
