"""Sentences and words."""

import pytest
from hypothesis import given, settings

from seqloom.errors import ConfigError
from seqloom.text.segment import clitics, sentences, words
from tests.text.strategies import texts
from tests.twins import tokens as twin

ENGLISH = [
    ["Hello world.", "How are you today?", "I am fine."],
    ["Dr. Smith met Mr. J. R. R. Tolkien at 3.30 p.m. on Jan. 5.", "It cost $3.14."],
    ["He moved to Washington D.C. He liked it."[:27], "He liked it."],
    ["The U.S. Army came.", "I live in the U.S.", "He does too."],
    ['She said, "Stop!"', "He stopped.", '"Why?" he asked.', "(Really.)", "“Yes.”", "Good."],
    ["Wait... what?", "Well...", "Maybe.", "So… No."[:3], "No."],
    ["We sell apples, pears, etc.", "They are cheap.", "See Fig. 3 and No. 5."],
    ["Yahoo! is a firm.", "Bill and I.", "He left.", "I. Newton wrote it."],
    ["1. First item.", "2. Second item.", "In 1990.", "Version 2.0 came."],
    ["I love it. :)", "Really!!!", "E.g. this, i.e. that."],
    ["No. 5 is alive.", "No.", "I said no.", "Go to No. 7."],
    ["The cat sat.", "Mary saw the sun.", "Peter came on Sat. Morning.", "OK.", "Bob left."],
    ["J.-P. Sartre wrote.", "He lives on Main St.", "The house is old."],
    ["St. Paul is near.", "Smith et al. The end."[:12], "The end."],
    ["Ph.D. students work.", "John Smith Jr. was here.", "Acme Inc. The end."[:9], "The end."],
]


@pytest.mark.parametrize("expected", ENGLISH, ids=lambda e: e[0])
def test_english(expected: list[str]) -> None:
    assert sentences(" ".join(expected)) == expected


def test_paragraphs_and_lines() -> None:
    assert sentences("A title\n\nOne line\nand another. End") == [
        "A title",
        "One line\nand another.",
        "End",
    ]
    assert sentences("") == sentences(" \n\n ") == []


def test_other_languages() -> None:
    assert sentences("今天天气很好。我们去公园吧！“好。”走。") == [
        "今天天气很好。",
        "我们去公园吧！",
        "“好。”",
        "走。",
    ]
    assert sentences("私は学生です。「はい。」どう？") == ["私は学生です。", "「はい。」", "どう？"]
    assert sentences(
        "Am 3. Mai kam Dr. Müller z.B. nach Berlin. Er blieb bis 1990. Das war usw. Es ging.", "de"
    ) == [
        "Am 3. Mai kam Dr. Müller z.B. nach Berlin.",
        "Er blieb bis 1990.",
        "Das war usw.",
        "Es ging.",
    ]
    assert sentences("Das war so. Peter kam am So. Abend.", "de") == [
        "Das war so.",
        "Peter kam am So. Abend.",
    ]
    assert sentences("नमस्ते। आप कैसे हैं? ठीक।", "hi") == ["नमस्ते।", "आप कैसे हैं?", "ठीक।"]
    assert sentences("Le Dr. Petit est là. Il dort.", "fr") == ["Le Dr. Petit est là.", "Il dort."]


@given(text=texts)
@settings(max_examples=200, deadline=None)
def test_nothing_is_lost(text: str) -> None:
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())


def test_word_example() -> None:
    assert words("Natural language processing is fascinating.") == [
        "Natural",
        "language",
        "processing",
        "is",
        "fascinating",
        ".",
    ]
    assert words("don't", "split") == ["don", "'", "t"]
    assert words("don't") == ["don't"]
    assert words("don't", "clitic") == ["do", "n't"]
    assert words("Freundschaftsbezeugung") == ["Freundschaftsbezeugung"]


def test_an_unknown_treatment_is_refused() -> None:
    with pytest.raises(ConfigError, match="one of keep, split, clitic; got 'splt'"):
        words("don't", "splt")  # type: ignore[arg-type]


def test_characters_where_words_are_not_written() -> None:
    assert words("我爱NLP。") == ["我", "爱", "NLP", "。"]
    assert words("カタカナ") == list("カタカナ")


@given(text=texts)
@settings(max_examples=300, deadline=None)
def test_words_are_those_of_the_tokenizer(text: str) -> None:
    assert [word.encode() for word in words(text)] == twin.split(text.encode(), "word")


def test_clitics_as_in_the_treebank() -> None:
    treebank = pytest.importorskip("nltk.tokenize.treebank").TreebankWordTokenizer()
    for word in (
        "don't",
        "can't",
        "won't",
        "I'm",
        "they're",
        "she'll",
        "we've",
        "he'd",
        "dog's",
        "WON'T",
        "isn't",
    ):
        assert clitics(word) == treebank.tokenize(word), word
    assert clitics("shouldn't've") == ["should", "n't", "'ve"]
    assert clitics("o'clock") == ["o'clock"]
    assert clitics("'s") == ["'s"]


def test_hostile_text_takes_no_longer() -> None:
    n = 20_000
    for text in (
        "a. " * n,
        " " * n + "x",
        "\n " * n + "x",
        "." * n + "x",
        "x!" + " )" * n,
        "( " * n + "a",
        "。" * n,
    ):
        sentences(text)
        words(text)
