"""Examples and measurable claims of the document's sections on tokens and vocabularies, as far as
no other file has them.

Normalisation and stop words are in test_normalize, contractions and sentences in test_segment,
stems in test_stems, lemmas in test_lemmas.
"""

import pytest

from seqloom.data.describe import describe
from seqloom.text.tokenizer import Tokenizer
from seqloom.text.word_forms import Stemmer

PREFIXES = (
    "un un un un unhappy unkind undo unfair untie unlock happy happy happiness happiness happily "
    "kind kindness\n" * 20
)


def pieces(tokenizer: Tokenizer, text: str) -> list[str]:
    return [tokenizer.token(i) for i in tokenizer.encode(text)]


def test_full_stop_apart_or_not() -> None:
    assert pieces(Tokenizer(kind="word").fit("word."), "word.") == ["word", "."]
    assert pieces(Tokenizer(kind="whitespace").fit("word."), "word.") == ["word."]


def test_characters() -> None:
    assert pieces(Tokenizer(kind="char").fit("Hello"), "Hello") == ["H", "e", "l", "l", "o"]


def test_pairs_are_merged_by_frequency() -> None:
    """The document's way from letters to un, ha, ppy: the pair that comes most often first."""
    text = "un " * 50 + "ppy " * 40 + "ha " * 30 + "unhappy\n"
    sizes = {257: ["u", "n", "h", "a", "p", "p", "y"], 258: ["un", "h", "a", "p", "p", "y"]}
    for size, expected in sizes.items():
        assert (
            pieces(Tokenizer(kind="bpe", vocab_size=size, boundary="gpt2").fit(text), "unhappy")
            == expected
        )
    grown = next(
        made
        for size in range(259, 264)
        if pieces(made := Tokenizer(kind="bpe", vocab_size=size).fit(text), "unhappy")
        == ["un", "ha", "ppy"]
    )
    assert grown.vocab_size <= 263


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "unigram"])
def test_a_word_that_was_never_seen_is_made_of_known_parts(kind: str) -> None:
    tokenizer = Tokenizer(
        kind=kind, vocab_size={"bpe": 330, "wordpiece": 80, "unigram": 330}[kind]
    ).fit(PREFIXES)
    assert "unhappiness" not in PREFIXES
    found = [piece.removeprefix("##") for piece in pieces(tokenizer, "unhappiness")]
    assert "".join(found) == "unhappiness"
    assert found[0].startswith("un")
    assert 1 < len(found) < len("unhappiness") - 3
    if kind == "bpe":
        assert found == ["un", "happ", "iness"]
    assert tokenizer.decode(tokenizer.encode("unhappiness")) == "unhappiness"


def test_vocabulary_and_length_claims(shakespeare: str) -> None:
    """Small letters save words, at most half of them; characters make sequences about five times as
    long as words.
    """
    text = shakespeare[:200_000]
    plain, lower = (
        describe(text, kinds=("word", "char"), sizes=(), normalize=how)
        for how in ("none", "case=lower")
    )
    assert lower.types < plain.types < 2 * lower.types
    words, characters = plain.rows
    assert 4 < characters.tokens / words.tokens < 6
    assert characters.oov_rate < words.oov_rate


def test_forms_of_a_word_become_one_token() -> None:
    for recipe, forms in {
        "case=lower": "Apple apple",
        "case=lower,stem=porter": "running runs run Runs",
        "contractions=expand,case=lower": "can't cannot Cannot",
    }.items():
        tokenizer = Tokenizer(kind="word", normalize=recipe).fit(forms)
        assert len(set(tokenizer.encode(forms).tolist())) == 1, recipe
    assert Stemmer("porter")("runs") == Stemmer("porter")("running")
