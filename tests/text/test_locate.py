"""Where the tokens of a text stand in it: against the ids of `encode`, the text itself, and the tokenizers
library.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom import Tokenizer
from seqloom.errors import ConfigError

TEXT = (
    "The café of Zoë opened in 1984; naïve people (and İstanbul's) went there.\nNobody left! 😀 x"
)
KINDS = ("whitespace", "word", "char", "byte", "bpe", "wordpiece", "unigram")
TOKENIZERS = {
    kind: Tokenizer(kind=kind, **({"vocab_size": 400} if kind in KINDS[4:] else {})).fit([TEXT])
    for kind in KINDS
}
LOWER = {
    kind: Tokenizer(
        kind=kind, normalize="case=lower", **({"vocab_size": 400} if kind in KINDS[4:] else {})
    ).fit([TEXT])
    for kind in ("word", "char", "bpe", "wordpiece")
}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(st.text(st.sampled_from("the caféZoë1984;.\n\tİßΣ😀<unk>\ufdd0"), max_size=30))
def test_ids_are_those_of_encode_and_places_are_in_order(kind: str, text: str) -> None:
    for tokenizer in (TOKENIZERS[kind], LOWER.get(kind, TOKENIZERS[kind])):
        ids, starts, stops = tokenizer.locate(text)
        assert ids.tolist() == tokenizer.encode(text).tolist()
        assert len(ids) == len(starts) == len(stops)
        assert all(0 <= a <= b <= len(text) for a, b in zip(starts, stops))
        assert starts.tolist() == sorted(starts.tolist())
        assert stops.tolist() == sorted(stops.tolist())


@pytest.mark.parametrize("kind", KINDS)
def test_every_visible_character_belongs_to_a_token(kind: str) -> None:
    for tokenizer in (TOKENIZERS[kind], LOWER.get(kind, TOKENIZERS[kind])):
        _, starts, stops = tokenizer.locate(TEXT)
        covered = {k for a, b in zip(starts, stops) for k in range(a, b)}
        assert {k for k, one in enumerate(TEXT) if not one.isspace()} <= covered


@pytest.mark.parametrize("kind", ["whitespace", "word", "char"])
def test_a_token_is_spelled_as_the_text_is_there(kind: str) -> None:
    tokenizer = TOKENIZERS[kind]
    for token, a, b in zip(*tokenizer.locate(TEXT)):
        assert tokenizer.token_bytes(token).decode() == TEXT[a:b]


def test_lower_case_letters_stand_where_the_capitals_do() -> None:
    tokenizer = LOWER["word"]
    places = {
        TEXT[a:b]: tokenizer.token_bytes(token).decode()
        for token, a, b in zip(*tokenizer.locate(TEXT))
    }
    assert places["Zoë"] == "zoë"
    assert places["İstanbul's" if "İstanbul's" in places else "İstanbul"].startswith("i̇stanbul")
    assert places["there"] == "there"


def test_bytes_of_one_character_share_its_place() -> None:
    _, starts, stops = TOKENIZERS["byte"].locate("a😀b")
    assert starts.tolist() == [0, 1, 1, 1, 1, 2]
    assert stops.tolist() == [1, 2, 2, 2, 2, 3]


def test_a_normaliser_that_changes_words_is_refused() -> None:
    tokenizer = Tokenizer(kind="word", normalize="topic").fit([TEXT])
    with pytest.raises(ConfigError, match="no place in the text"):
        tokenizer.locate("a text")
