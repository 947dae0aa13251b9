"""Discounts and continuations of n-gram models, against counting by hand."""

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

import seqloom
from seqloom import NGram, inspect
from seqloom.data.corpus import as_corpus
from seqloom.data.encode import encode_corpus
from seqloom.errors import ConfigError
from seqloom.models.language.backing_off import continuations
from seqloom.models.language.discounting import discounted

TEXT = "the cat sat\nthe dog sat\nthe cat ran\na cat sat\n" * 3


def by_hand(discount, adjusted):
    """p(w | c) of bigrams by interpolated absolute discounting or Kneser-Ney."""
    lines = [["<s>", *line.split(), "</s>"] for line in TEXT.splitlines()]
    pairs = Counter((a, b) for line in lines for a, b in pairwise(line))
    words = sorted({w for _, w in pairs} | {"<unk>"})
    left = {w: len({a for a, b in pairs if b == w}) for w in words}
    single = Counter(w for line in lines for w in line[1:])
    counts = left if adjusted else single
    total = sum(counts.values())
    kinds = sum(counts[w] > 0 for w in words)

    def unigram(w):
        return max(counts[w] - discount, 0) / total + discount * kinds / total / len(words)

    def bigram(c, w):
        followed = {b: n for (a, b), n in pairs.items() if a == c}
        n = sum(followed.values())
        own = max(followed.get(w, 0) - discount, 0) / n
        return own + discount * len(followed) / n * unigram(w)

    return bigram


@pytest.mark.parametrize("smoothing", ["kneser-ney", "absolute"])
def test_a_given_discount_is_absolute_discounting(smoothing):
    model = NGram(order=2, tokenizer="word", smoothing=smoothing).fit(TEXT)
    ids = encode_corpus(model.tokenizer, as_corpus(TEXT), unit=model.unit)
    own, *given = discounted(model, ids, [0.25, 1.0])
    assert own.discount is None
    assert own.model.score("the cat ran") == pytest.approx(model.score("the cat ran"), rel=1e-6)
    for one in given:
        bigram = by_hand(one.discount, smoothing == "kneser-ney")
        wanted = sum(
            math.log(bigram(a, b))
            for a, b in (("<s>", "the"), ("the", "cat"), ("cat", "ran"), ("ran", "</s>"))
        )
        assert one.model.score("the cat ran") == pytest.approx(wanted, rel=1e-5)


def test_the_view_has_shares_that_add_up_and_refuses_what_has_no_discount():
    model = NGram(order=3, tokenizer="byte").fit(TEXT * 40)
    data = inspect.discounts(model, "the cat", steps=4).data
    assert [row["discount"] for row in data["rows"]] == [0.25, 0.5, 0.75, 1.0]
    assert data["best"] == min(data["rows"], key=lambda row: row["bits"])["discount"]
    bundled = encode_corpus(model.tokenizer, seqloom.bundled().split().train, unit=model.unit)
    *_, last = discounted(model, bundled, [1.0])
    scores = last.model.token_scores("the cat")
    assert np.array(data["shares"][3]).sum(1) == pytest.approx(np.exp(scores), rel=1e-5)
    valid = seqloom.bundled().split().valid
    assert data["rows"][3]["bits"] == pytest.approx(last.model.bits_per_byte(valid), rel=1e-5)
    none = NGram(order=2, tokenizer="byte", smoothing="add-k").fit(TEXT)
    with pytest.raises(ConfigError, match="no discount"):
        inspect.discounts(none, "the cat")


@pytest.mark.parametrize("smoothing", ["kneser-ney", "witten-bell", "add-k"])
def test_continuations_are_those_of_the_text(smoothing):
    model = NGram(order=3, tokenizer="word", smoothing=smoothing).fit(TEXT)
    ids, _ = model.encode("the cat ran")
    first, second, third = continuations(model, np.asarray(ids), 2, 2)
    name = model.tokenizer.token
    assert [name(i) for i in first.context] == ["the", "cat"]
    assert (first.order, first.known, first.total) == (3, 2, 6)
    assert {name(i): n for i, _, n in first.tokens} == {"ran": 3, "sat": 3}
    for token, probability, _ in first.tokens:
        expected = math.exp(model.token_scores(f"the cat {name(token)}")[2])
        assert probability == pytest.approx(expected, rel=1e-5)
    assert [name(i) for i in second.context] == ["cat"]
    assert third.context == ()
    assert len(third.tokens) == 2
