import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.decoding.beam import beam_search
from seqloom.errors import ConfigError, ModelError

from .toy import Attentive, Bigrams, every_output, greedy, log_probs_after, random_bigrams

PROMPTS = [np.array(p, np.int64) for p in ([1, 2], [], [3, 3, 1, 2], [3])]
NOTHING = [np.array([], np.int64)]


def described(hypotheses):
    return [(h.ids.tolist(), h.log_prob, h.score, h.finished) for h in hypotheses]


@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.0])
@pytest.mark.parametrize(
    "make", [lambda s: Attentive(5, s), lambda s: random_bigrams(5, s, zeros=True)]
)
def test_one_beam_is_greedy(make, length_penalty):
    for seed in range(5):
        stepper = make(seed)
        for prompt, (best,) in zip(
            PROMPTS,
            beam_search(stepper, PROMPTS, beams=1, max_tokens=9, length_penalty=length_penalty),
        ):
            ids = greedy(stepper, prompt.tolist(), 9)
            assert best.finished == (ids[-1] == 0)
            assert best.ids.tolist() == [i for i in ids if i != 0]


def test_one_beam_breaks_ties_as_greedy_does():
    stepper = Bigrams(np.tile([0.1, 0.2, 0.35, 0.35], (5, 1)))
    assert beam_search(stepper, NOTHING, beams=1, max_tokens=3)[0][0].ids.tolist() == [2, 2, 2]


@pytest.mark.parametrize("length_penalty", [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize(
    "make", [lambda s: Attentive(3, s), lambda s: random_bigrams(3, s, zeros=True)]
)
def test_a_beam_that_holds_everything_is_exact(make, length_penalty):
    steps, prompts = 4, [np.array([2]), np.array([], np.int64), np.array([1, 2])]
    for seed in range(3):
        stepper = make(seed)
        found = beam_search(
            stepper,
            prompts,
            beams=3**steps,
            nbest=3**steps,
            max_tokens=steps,
            length_penalty=length_penalty,
        )
        for prompt, hypotheses in zip(prompts, found):
            outputs = [
                (total / len(ids) ** length_penalty, ids)
                for ids, total in every_output(stepper, prompt, steps)
                if total > -np.inf
            ]
            expected = sorted((score for score, _ in outputs), reverse=True)
            assert [h.score for h in hypotheses] == pytest.approx(expected, rel=1e-6)
            best = hypotheses[0].ids.tolist() + [0] * hypotheses[0].finished
            assert dict((tuple(ids), score) for score, ids in outputs)[
                tuple(best)
            ] == pytest.approx(expected[0])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.integers(2, 4))
def test_log_probs_are_those_of_the_ids(seed, beams):
    stepper = Attentive(5, seed, spread=1.0)
    for prompt, hypotheses in zip(
        PROMPTS, beam_search(stepper, PROMPTS, beams=beams, nbest=beams, max_tokens=6)
    ):
        assert len({tuple(h.ids) + (0,) * h.finished for h in hypotheses}) == len(hypotheses)
        for h in hypotheses:
            ids = h.ids.tolist() + [0] * h.finished
            total = sum(
                float(log_probs_after(stepper, [*prompt, *ids[:i]])[ids[i]])
                for i in range(len(ids))
            )
            assert h.log_prob == pytest.approx(total, rel=1e-9)


def test_the_end_symbol_is_never_an_input():
    class Strict(Bigrams):
        def step(self, state, ids):
            assert self.eos_id not in ids
            return super().step(state, ids)

    for seed in range(10):
        stepper = Strict(np.exp(random_bigrams(5, seed, zeros=True).table))
        assert len(beam_search(stepper, PROMPTS, beams=4, max_tokens=8)) == len(PROMPTS)


def test_prompts_do_not_influence_each_other():
    stepper = Attentive(5, seed=2, spread=1.0)
    together = beam_search(stepper, PROMPTS, beams=3, nbest=3, max_tokens=12)
    for prompt, hypotheses in zip(PROMPTS, together):
        assert described(
            beam_search(stepper, [prompt], beams=3, nbest=3, max_tokens=12)[0]
        ) == described(hypotheses)


def test_it_does_stop_early():
    stepper = Bigrams(np.tile([0.9, 0.05, 0.05], (4, 1)))
    found = beam_search(stepper, NOTHING, beams=2, nbest=2, max_tokens=100, length_penalty=0.0)[0]
    assert [h.ids.tolist() for h in found] == [[], [1]]
    assert stepper.tokens_stepped <= 4


def test_a_settled_prompt_leaves_the_batch():
    sure = np.array([0.98, 0.01, 0.01])
    stepper = Bigrams([[0.98, 0.01, 0.01], sure, [0.01, 0.01, 0.98], [0.4, 0.3, 0.3]])
    beam_search(stepper, [np.array([1]), np.array([2])], beams=1, max_tokens=20)
    assert stepper.tokens_stepped == 2 + 19  # two prompts; then only the second goes on


def test_length_penalty_lengthens_and_wide_bare_beams_shorten():
    # the end is never the likeliest, so greedy goes on and on; but ending at once beats any long sentence
    stepper = Bigrams(np.tile([0.3, 0.4, 0.3], (4, 1)))
    lengths = {
        (beams, penalty): len(
            beam_search(stepper, NOTHING, beams=beams, max_tokens=10, length_penalty=penalty)[0][
                0
            ].ids
        )
        for beams in (1, 8)
        for penalty in (0.0, 1.0)
    }
    assert lengths == {(1, 0.0): 10, (1, 1.0): 10, (8, 0.0): 0, (8, 1.0): 10}


def test_scores_count_the_end_symbol():
    stepper = Bigrams([[1, 0, 0], [0.8, 0.1, 0.1], [1, 0, 0], [0.1, 0.9, 0.0]])
    best, *_ = beam_search(stepper, NOTHING, beams=4, nbest=4, max_tokens=5, length_penalty=2.0)[0]
    assert best.finished
    assert best.log_prob == pytest.approx(best.score * (len(best.ids) + 1) ** 2)
    ended_after_one = [
        h
        for h in beam_search(stepper, NOTHING, beams=4, nbest=4, max_tokens=5)[0]
        if h.ids.tolist() == [1]
    ]
    assert ended_after_one[0].log_prob == pytest.approx(np.log(0.9 * 0.8), rel=1e-6)
    assert ended_after_one[0].score == pytest.approx(np.log(0.9 * 0.8) / 2, rel=1e-6)


def test_first_allowed():
    stepper = Bigrams(np.tile([0.1, 0.6, 0.2, 0.1], (5, 1)))
    found = beam_search(
        stepper, NOTHING * 2, beams=3, nbest=3, max_tokens=3, first_allowed=[np.array([2, 3]), None]
    )
    assert {h.ids[0] for h in found[0]} <= {2, 3}
    assert found[1][0].ids.tolist() == [1, 1, 1]


def test_ending_takes_the_only_way():
    only_end = Bigrams(np.tile([1.0, 0.0, 0.0], (4, 1)))
    (hypothesis,) = beam_search(only_end, NOTHING, beams=3, nbest=3, max_tokens=5)[0]
    assert described([hypothesis]) == [([], 0.0, 0.0, True)]
    assert only_end.tokens_stepped == 0


def test_no_prompts_and_bad_options():
    assert beam_search(random_bigrams(3), []) == []
    for options in ({"beams": 0}, {"max_tokens": 0}, {"length_penalty": -1.0}):
        with pytest.raises(ConfigError, match=next(iter(options))):
            beam_search(random_bigrams(3), NOTHING, **options)
    broken = random_bigrams(3)
    broken.table[1] = np.nan
    with pytest.raises(ModelError, match=r"no usable probability|an invalid probability"):
        beam_search(broken, [np.array([1])])
