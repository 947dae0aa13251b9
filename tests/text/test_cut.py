"""Encoding in pieces equals encoding at once, wherever `cut` allows a cut."""

import pytest
from hypothesis import given, settings

from seqloom.text.tokenizer import Tokenizer
from tests.text.strategies import byte_strings

TRAINING = (
    """the cook cooks, the cooker cooked; they're cooking!\n\n  indented   text\tand tabs \n
don't ‘quote’ 12 eggs 你好 世界 カタカナ \u3000 naïve\xa0café \r\n</s> <unk> a  b   c    d\n\n\n x\n y\n"""
    * 20
)

CASES = [
    ("whitespace", "gpt2"),
    ("word", "gpt2"),
    ("char", "gpt2"),
    ("byte", "gpt2"),
    ("bpe", "gpt2"),
    ("bpe", "space"),
    ("unigram", "gpt2"),
    ("unigram", "space"),
    ("wordpiece", "gpt2"),
]


@pytest.fixture(scope="module")
def fitted() -> dict[tuple[str, str], Tokenizer]:
    sizes = {"bpe": 400, "unigram": 320, "wordpiece": 150}
    return {
        (kind, rule): Tokenizer(kind=kind, boundary=rule, vocab_size=sizes.get(kind)).fit(TRAINING)
        for kind, rule in CASES
    }


@pytest.mark.parametrize("case", CASES)
@given(data=byte_strings)
@settings(max_examples=100, deadline=None)
def test_both_sides_of_a_cut_encode_alone(fitted: dict, case: tuple[str, str], data: bytes) -> None:
    tokenizer = fitted[case]
    cuts = {tokenizer.cut(data[:n], False) for n in range(len(data) + 1)}
    for newline_ends in (False, True):
        whole = tokenizer.encode(data, newline_ends=newline_ends).tolist()
        for at in cuts:
            left = tokenizer.encode(data[:at], newline_ends=newline_ends).tolist()
            assert (
                left + tokenizer.encode(data[at:], newline_ends=newline_ends).tolist() == whole
            ), at


@pytest.mark.parametrize("case", CASES)
def test_ordinary_text_is_cut_near_its_end(fitted: dict, case: tuple[str, str]) -> None:
    tokenizer = fitted[case]
    data = TRAINING.encode()[:1000]
    assert 960 < tokenizer.cut(data, False) <= 1000
    assert tokenizer.cut(data, True) == 1000
    assert tokenizer.cut(b"", False) == 0


def test_rules() -> None:
    bpe = Tokenizer(kind="bpe")
    assert bpe.cut(b"one two", False) == 3
    assert bpe.cut(b"one\n\ntwo", False) == 4  # before the last white space of a run
    assert bpe.cut(b"one two ", False) == 3  # what follows the blank is not known
    assert bpe.cut("one two 你".encode()[:-1], False) == 3  # the character is not complete
    assert bpe.cut("one two \u3000x".encode(), False) == 3  # white space beyond ASCII
    assert bpe.cut(b"onetwo", False) == 0
    assert Tokenizer(kind="whitespace").cut(b"one two ", False) == 7
    assert Tokenizer(kind="char").cut("a你".encode()[:-1], False) == 1
    assert Tokenizer(kind="char").cut("a你".encode(), False) == 4
