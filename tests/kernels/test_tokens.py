"""The token kernels against their slow twins."""

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings

from seqloom.kernels import tokens as kernels
from seqloom.text.vocabulary import SPLITTERS, TokenCounts, Vocabulary, classes_for, find, padded
from tests.text.strategies import byte_strings
from tests.twins import tokens as twin


def split(data: bytes, kind: str, room: int = 64) -> list[bytes]:
    starts, stops = np.empty(room, np.int64), np.empty(room, np.int64)
    found, i = [], 0
    while i < len(data):
        n, i = kernels.split_tokens(
            padded(data),
            len(data),
            i,
            SPLITTERS.index(kind),
            False,
            classes_for(kind),
            starts,
            stops,
        )
        found += [data[a:b] for a, b in zip(starts[:n], stops[:n])]
    return found


@pytest.mark.parametrize("kind", SPLITTERS)
@given(data=byte_strings)
@settings(max_examples=150, deadline=None)
def test_split_equals_twin(kind: str, data: bytes) -> None:
    assert split(data, kind) == twin.split(data, kind)
    assert split(data, kind, room=1) == twin.split(data, kind)


@pytest.mark.parametrize("kind", SPLITTERS)
@given(data=byte_strings, other=byte_strings)
@settings(max_examples=100, deadline=None)
def test_count_and_encode_equal_twin(kind: str, data: bytes, other: bytes) -> None:
    counts = TokenCounts(kind).add(data)
    expected = Counter(twin.split(data, kind))
    offsets = counts.offsets
    assert {
        counts.arena[offsets[k] : offsets[k + 1]].tobytes(): counts.counts[k]
        for k in range(counts.n)
    } == expected
    if not expected:
        return
    spellings = twin.vocabulary(data, kind)
    vocabulary = Vocabulary.from_counts(counts, 1, None)
    assert [vocabulary.spelling(i) or None for i in range(vocabulary.size)] == spellings
    for newline_ends in (False, True):
        for text in (data, other):
            assert vocabulary.encode(text, newline_ends).tolist() == twin.encode(
                text, kind, spellings, newline_ends
            )


def test_the_word_rule() -> None:
    text = "Don't 'quote' rock’n’roll x1's 1990's naïve e\u0301t 你好, カー 3.14 😀! a_b"
    assert [w.decode() for w in split(text.encode(), "word")] == [
        "Don't",
        "'",
        "quote",
        "'",
        "rock’n’roll",
        "x1",
        "'",
        "s",
        "1990",
        "'",
        "s",
        "naïve",
        "e\u0301t",
        "你",
        "好",
        ",",
        "カ",
        "ー",
        "3",
        ".",
        "14",
        "😀",
        "!",
        "a",
        "_",
        "b",
    ]


def test_table_grows_and_merges() -> None:
    """Many spellings, some longer than the first arena, from blocks that each fill their own table."""
    rng = np.random.default_rng(0)
    words = [b"w%d" % i for i in rng.integers(0, 30_000, 60_000)] + [
        b"x" * 200_000,
        b"y" * 70_000,
    ] * 2
    total = TokenCounts("whitespace")
    for low in range(0, len(words), 20_000):
        total.merge(TokenCounts("whitespace").add(b" ".join(words[low : low + 20_000])))
    expected = Counter(words)
    assert total.n == len(expected)
    assert total.ranked(1, None) == sorted(expected, key=lambda w: (-expected[w], w))
    assert total.ranked(2, 50) == sorted(expected, key=lambda w: (-expected[w], w))[:50]


def test_similar_spellings_are_told_apart() -> None:
    """Lengths around the eight bytes that are hashed together, differing in one byte, NUL bytes included."""
    words = sorted(
        {
            bytes(b) + tail
            for n in (1, 7, 8, 9, 16, 17)
            for tail in (b"", b"\0", b"\0\0")
            for b in [b"a" * n, b"a" * (n - 1) + b"b", b"b" + b"a" * (n - 1)]
        }
    )
    vocabulary = Vocabulary.build("whitespace", words)
    assert vocabulary.encode(b" ".join(words), False).tolist() == list(range(2, 2 + len(words)))
    assert [vocabulary.find(word) for word in words] == list(range(2, 2 + len(words)))
    assert vocabulary.find(b"a" * 18) is None


def test_one_spelling_is_found_without_the_kernel_where_the_kernel_finds_it():
    draw = random.Random(0)
    words = sorted({bytes(draw.choices(range(1, 256), k=draw.randint(1, 30))) for _ in range(500)})
    table = Vocabulary.build("whitespace", words[::2])
    found = np.empty(1, np.int64)
    for word in words:
        kernels.find_tokens(
            padded(word),
            np.zeros(1, np.int64),
            np.array([len(word)]),
            table.arena,
            table.offsets,
            table.slots,
            found,
        )
        assert find(word, table.arena, table.offsets, table.slots) == (
            int(found[0]) if found[0] >= 0 else None
        )
    assert sum(
        find(word, table.arena, table.offsets, table.slots) is not None for word in words
    ) == len(words[::2])
