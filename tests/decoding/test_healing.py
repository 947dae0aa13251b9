import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqloom.decoding.constraints import PrefixIndex, heal, restrict
from seqloom.decoding.sampling import SamplingConfig, sample

from .toy import Bigrams, run

spellings = st.lists(st.text("ab\xff", max_size=4).map(lambda s: s.encode("latin-1")), max_size=20)


@given(spellings, st.text("ab\xff", max_size=3).map(lambda s: s.encode("latin-1")))
def test_starting_with_equals_a_scan(tokens, prefix):
    expected = [i for i, token in enumerate(tokens) if token and token.startswith(prefix)]
    assert PrefixIndex(tokens).starting_with(prefix).tolist() == expected


@given(spellings, st.text("ab\xff", max_size=4).map(lambda s: s.encode("latin-1")))
def test_prefixes_of_equals_a_scan(tokens, text):
    tokens = list(dict.fromkeys(tokens))  # a vocabulary has each spelling once
    expected = [
        i
        for i, token in enumerate(tokens)
        if token and len(token) < len(text) and text.startswith(token)
    ]
    assert sorted(PrefixIndex(tokens).prefixes_of(text)) == expected


TOKENS = [b"", b"a", b"b", b"ab", b"ba", b"aba", b"c"]


def spellings_of(table, last, text):
    """All token sequences that spell the text and may reach beyond it in the last token, with their
    probability.
    """
    found = {}
    for i, token in enumerate(TOKENS):
        if token.startswith(text) and token:
            found[(i,)] = table[last, i]
        elif token and text.startswith(token):
            for rest, p in spellings_of(table, i, text[len(token) :]).items():
                found[(i, *rest)] = table[last, i] * p
    return found


@given(st.integers(0, 1000), st.text("ab", min_size=1, max_size=5).map(str.encode))
def test_covers_are_all_spellings_with_their_probability(seed, text):
    table = np.random.default_rng(seed).dirichlet(np.ones(len(TOKENS)), size=len(TOKENS) + 1)
    found = heal(Bigrams(table), PrefixIndex(TOKENS), np.array([6]), text, width=1000)
    expected = spellings_of(table, 6, text)
    ours = {(*cover.ids[1:], i): None for cover in found for i in cover.allowed}
    assert set(ours) == set(expected)
    assert sum(np.exp(cover.log_prob) for cover in found) == pytest.approx(
        sum(expected.values()), rel=1e-4
    )
    assert [c.log_prob for c in found] == sorted((c.log_prob for c in found), reverse=True)
    for cover in found:
        assert b"".join(TOKENS[i] for i in cover.ids[1:]) + cover.dropped == text


def test_a_cut_word_of_two_tokens_is_completed():
    tokens = [b"", b"The", b" qu", b"i", b" quick", b"zz"]
    probs = np.full((7, 6), 1e-6)
    probs[1, 4], probs[4, 0], probs[3, 5] = (
        1,
        1,
        1,
    )  # "The" is followed by " quick", but "i" by "zz"
    stepper = Bigrams(probs / probs.sum(axis=1, keepdims=True))
    config = SamplingConfig(temperature=0, max_tokens=2)
    assert run(sample(stepper, [np.array([1, 2, 3])], config), 0)[0][0] == 5
    best = heal(stepper, PrefixIndex(tokens), np.array([1]), b" qui")[0]
    ids = run(sample(stepper, [best.ids], config, first_allowed=[best.allowed]), 0)[0]
    assert b"".join(tokens[i] for i in ids)[len(best.dropped) :] == b"ck"


def test_restrict():
    log_probs = np.log(np.array([[0.5, 0.25, 0.25], [0.5, 0.25, 0.25]], np.float32))
    kept = restrict(log_probs, [np.array([1]), None])
    assert kept[0].tolist() == [-np.inf, log_probs[0, 1], -np.inf]
    assert (kept[1] == log_probs[1]).all()
    assert np.isfinite(log_probs).all()  # the model's own array is not written to
    impossible = np.array([[0.0, -np.inf, -np.inf]], np.float32)
    assert np.exp(restrict(impossible, [np.array([1, 2])]))[0] == pytest.approx([0, 0.5, 0.5])
    with pytest.raises(ValueError, match="no token"):
        restrict(impossible, [np.array([], np.int64)])
