import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqloom.decoding.healing import PrefixIndex, heal, restrict
from seqloom.decoding.sampling import SamplingConfig, sample

from .toy import Bigrams, run

spellings = st.lists(st.text("ab\xff", max_size=4).map(lambda s: s.encode("latin-1")), max_size=20)


@given(spellings, st.text("ab\xff", max_size=3).map(lambda s: s.encode("latin-1")))
def test_starting_with_equals_a_scan(tokens, prefix):
    expected = [i for i, token in enumerate(tokens) if token and token.startswith(prefix)]
    assert PrefixIndex(tokens).starting_with(prefix).tolist() == expected


@given(spellings.filter(lambda tokens: any(tokens)), st.data())
def test_healing_can_always_give_the_prompt_back(tokens, data):
    prompt = np.array(data.draw(st.lists(st.integers(0, len(tokens) - 1), max_size=4)), np.int64)
    healed = heal(PrefixIndex(tokens), prompt)
    if healed.allowed is None:
        assert healed.dropped == b""
        assert healed.ids.tolist() == prompt.tolist()
    else:
        assert [*healed.ids, prompt[-1]] == prompt.tolist()
        assert prompt[-1] in healed.allowed
        assert healed.dropped == tokens[prompt[-1]]
        assert all(tokens[i].startswith(healed.dropped) for i in healed.allowed)


def test_prompts_that_need_no_healing():
    index = PrefixIndex([b"", b"a", b"b", b"bc"])
    assert heal(index, np.array([], np.int64)).allowed is None  # nothing to take back
    assert heal(index, np.array([1, 0])).allowed is None        # ends with a special token
    assert heal(index, np.array([2, 1])).allowed is None        # no other token starts with "a"
    assert heal(index, np.array([1, 2])).allowed.tolist() == [2, 3]


def test_a_cut_word_is_completed():
    tokens = [b"", b"The ", b"qui", b"quick", b"zz"]
    probs = np.full((6, 5), 1e-6)
    probs[1, 3], probs[3, 0], probs[2, 4] = 1, 1, 1  # "The " is followed by "quick", but "qui" by "zz"
    stepper = Bigrams(probs / probs.sum(axis=1, keepdims=True))
    prompt = np.array([1, 2])
    config = SamplingConfig(temperature=0, max_tokens=2)
    assert run(sample(stepper, [prompt], config), 0)[0][0] == 4
    healed = heal(PrefixIndex(tokens), prompt)
    ids = run(sample(stepper, [healed.ids], config, first_allowed=[healed.allowed]), 0)[0]
    assert b"".join(tokens[i] for i in ids)[len(healed.dropped):] == b"ck"


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
