"""Held-out text of another kind is noticed, and text of the same kind is not."""

import random

import pytest

from seqloom.data.corpus import Corpus
from seqloom.data.describe import Shift, shift


def invented(words: list[str], n: int, seed: int, blank: str = " ") -> str:
    """Running text of these words, the first the most frequent."""
    rng = random.Random(seed)
    return blank.join(rng.choices(words, [1 / (k + 1) for k in range(len(words))], k=n))


def vocabulary(letters: str, n: int = 3000) -> list[str]:
    rng = random.Random(letters)
    return ["".join(rng.choices(letters, k=rng.randint(2, 9))) for _ in range(n)]


def test_the_rates_are_those_of_words(shakespeare: str) -> None:
    train = Corpus.from_texts(shakespeare[:200_000])
    far = shift(train, Corpus.from_texts(invented(vocabulary("äöüßxyz"), 2000, 1)))
    assert far.unseen > 0.9
    assert far.expected < 0.15
    assert far.far
    assert (
        shift(train, train).unseen < far.expected
    )  # all but the words of the random tenth alone are known


def test_parts_of_one_text_are_of_one_kind(shakespeare: str) -> None:
    for size in (30_000, 300_000):
        train, _, test = Corpus.from_texts(shakespeare[:size]).split((0.7, 0.1, 0.2))
        assert not shift(train, test).far


def test_text_without_blanks_is_compared_by_characters() -> None:
    one, other = (["".join(chr(start + k)) for k in range(400)] for start in (0x4E00, 0x5E00))
    train = Corpus.from_texts(invented(one, 30_000, 1, ""))
    assert not shift(train, Corpus.from_texts(invented(one, 3000, 2, ""))).far
    assert shift(train, Corpus.from_texts(invented(other, 3000, 2, ""))).far


def test_little_text_says_nothing(shakespeare: str) -> None:
    assert shift(
        Corpus.from_texts(shakespeare[:6000]),
        Corpus.from_texts(invented(vocabulary("xyz"), 900, 1)),
    ) == (0, 0)


@pytest.mark.parametrize(
    ("unseen", "expected", "far"),
    [(0.2, 0.02, True), (0.16, 0.02, False), (0.5, 0.3, False), (0.7, 0.3, True)],
)
def test_both_sides_of_the_threshold(unseen: float, expected: float, far: bool) -> None:
    assert Shift(unseen, expected).far == far


def test_the_warning_has_both_rates() -> None:
    assert Shift(0.412, 0.068).warning() == (
        "warning: 41% of the test part's words are not in the training part, against 7% of a "
        "random tenth of it: the test is "
        "of another kind of text"
    )
