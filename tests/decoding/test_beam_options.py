"""Normalisation, coverage, limits, prefixes and n-best, against a twin that never stops early and
against every output.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.decoding import beam
from seqloom.decoding.beam import MIN_ATTENTION, BeamConfig, beam_search, log_coverage
from seqloom.errors import ConfigError, ModelError

from ..twins import beam as twin
from .toy import Aligned, Attentive, Bigrams, Translations, every_output, random_bigrams

SOURCES = [np.array(source) for source in ([1, 2, 3], [5], [4, 4, 1, 2, 3, 3], [2, 1])]
NOTHING = [np.array([], np.int64)]
DIVISORS = {
    "simple": lambda length, penalty: length**penalty,
    "gnmt": lambda length, penalty: ((5 + length) / 6) ** penalty,
}


def plain(hypotheses, eos_id=0):
    return [([*h.ids.tolist(), *[eos_id] * h.finished], h.log_prob, h.score) for h in hypotheses]


def same(hypotheses, expected):
    assert [(ids, log_prob) for ids, log_prob, _ in plain(hypotheses)] == [
        (ids, log_prob) for ids, log_prob, _ in expected
    ]
    assert [h.score for h in hypotheses] == pytest.approx(
        [score for *_, score in expected], rel=1e-12, abs=1e-15
    )


@settings(max_examples=80, deadline=None)
@given(
    st.integers(0, 1000),
    st.integers(1, 5),
    st.integers(1, 5),
    st.sampled_from(sorted(DIVISORS)),
    st.sampled_from([0.0, 0.3, 1.0, 2.5]),
    st.sampled_from([0.0, 0.2, 3.0]),
    st.integers(0, 4),
    st.lists(
        st.tuples(st.integers(3, 8), st.lists(st.integers(1, 5), max_size=2)),
        min_size=4,
        max_size=4,
    ),
)
def test_the_kernel_in_batches_finds_what_its_twin_finds_for_each(
    seed, beams, nbest, kind, penalty, coverage, least, rows
):
    limits, prefixes = [limit for limit, _ in rows], [prefix for _, prefix in rows]
    nbest = min(nbest, beams)
    found = beam_search(
        Aligned(SOURCES, seed=seed),
        NOTHING * 4,
        beams=beams,
        nbest=nbest,
        length_penalty=penalty,
        length_normalization=kind,
        coverage_penalty=coverage,
        min_tokens=least,
        limits=limits,
        prefixes=prefixes,
    )
    for source, limit, prefix, hypotheses in zip(SOURCES, limits, prefixes, found):
        same(
            hypotheses,
            twin.search(
                Aligned([source], seed=seed),
                [],
                beams=beams,
                nbest=nbest,
                max_tokens=limit,
                min_tokens=least,
                prefix=prefix,
                divisor=lambda length: DIVISORS[kind](length, penalty),
                coverage_penalty=coverage,
            ),
        )


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 4), st.integers(130, 300))
def test_many_tokens_with_ties_and_zeros_go_by_place_in_the_beam_then_by_id(
    seed, beams, vocab_size
):
    rng = np.random.default_rng(seed)
    stepper = Bigrams(np.full((vocab_size + 1, vocab_size), 1 / vocab_size))
    stepper.table = np.log(
        rng.choice([0.0, 0.01, 0.02, 0.03], p=[0.9, 0.04, 0.04, 0.02], size=stepper.table.shape)
        + 1e-30
    )
    stepper.table = np.where(stepper.table < -60, -np.inf, stepper.table).astype(np.float32)
    stepper.table[:, 1] = np.log(0.01)  # no row is empty
    same(
        beam_search(stepper, NOTHING, beams=beams, nbest=beams, max_tokens=5)[0],
        twin.search(stepper, [], beams=beams, nbest=beams, max_tokens=5),
    )


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 1000),
    st.integers(1, 5),
    st.sampled_from(sorted(DIVISORS)),
    st.sampled_from([0.0, 0.3, 1.0, 3.0]),
    st.sampled_from([0.0, 0.5]),
)
def test_stopping_early_changes_nothing(seed, beams, kind, penalty, coverage):
    config = BeamConfig(
        beams=beams,
        nbest=min(2, beams),
        max_tokens=9,
        length_penalty=penalty,
        length_normalization=kind,
        coverage_penalty=coverage,
    )
    early, full = Aligned(SOURCES, seed=seed), Aligned(SOURCES, seed=seed)
    found = beam_search(early, NOTHING * 4, config)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            beam, "largest_divisors", lambda config, limits: np.full(len(limits), np.inf)
        )  # all may reach zero
        assert [plain(h) for h in found] == [
            plain(h) for h in beam_search(full, NOTHING * 4, config)
        ]
    assert sum(early.widths) <= sum(full.widths)


def test_a_bound_by_the_present_length_would_be_wrong():
    # the second token is unlikely and all that follow are sure: worst at length 2, best at length 9
    stepper = Bigrams([[1, 0, 0], [0, 0.001, 0.999], [0.0, 0.0, 1.0], [0.6, 0.4, 0.0]])
    for kind in DIVISORS:
        best = beam_search(
            stepper, NOTHING, beams=2, max_tokens=9, length_penalty=1.0, length_normalization=kind
        )[0][0]
        assert best.ids.tolist() == [1, *[2] * 8]


@pytest.mark.parametrize("coverage", [0.0, 0.4, 5.0])
@pytest.mark.parametrize("kind", sorted(DIVISORS))
@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0, 2.0])
def test_a_beam_that_holds_everything_is_exact(kind, penalty, coverage):
    steps, sources = 4, [np.array([1, 2, 1]), np.array([2])]
    found = beam_search(
        Aligned(sources, vocab_size=3, seed=5),
        NOTHING * 2,
        beams=3**steps,
        nbest=3,
        max_tokens=steps,
        length_penalty=penalty,
        length_normalization=kind,
        coverage_penalty=coverage,
    )
    for source, hypotheses in zip(sources, found):
        stepper = Aligned([source], vocab_size=3, seed=5)
        outputs = sorted(
            (
                (
                    total / DIVISORS[kind](len(ids), penalty)
                    + twin.coverage(stepper, [], ids, coverage),
                    ids,
                )
                for ids, total in every_output(stepper, [], steps)
            ),
            reverse=True,
        )
        assert [h.score for h in hypotheses] == pytest.approx(
            [score for score, _ in outputs[:3]], rel=1e-6
        )
        assert plain(hypotheses)[0][0] == outputs[0][1]


def test_nbest_is_the_beginning_of_all():
    for seed in range(5):
        stepper = Attentive(5, seed, spread=1.0)
        everything = beam_search(stepper, NOTHING, beams=5, nbest=5, max_tokens=10)[0]
        assert [h.score for h in everything] == sorted((h.score for h in everything), reverse=True)
        for nbest in (1, 3):
            assert plain(
                beam_search(stepper, NOTHING, beams=5, nbest=nbest, max_tokens=10)[0]
            ) == plain(everything[:nbest])


def test_fewer_results_and_tighter_limits_settle_earlier():
    def work(**options):
        stepper = Translations(SOURCES, seed=1)
        beam_search(stepper, NOTHING * 4, beams=4, max_tokens=40, **options)
        return sum(stepper.widths)

    assert work(limits=[10] * 4) < work() < work(nbest=4)


def test_wide_bare_beams_are_shorter_and_normalisation_mends_it():
    # ending costs 1.2 nats wherever it comes, each word about one more: greedy goes on, the
    # likeliest output is empty
    stepper = Bigrams(np.tile([0.3, 0.4, 0.3], (4, 1)))
    lengths = {
        kind: [
            len(
                beam_search(
                    stepper,
                    NOTHING,
                    beams=beams,
                    max_tokens=10,
                    length_penalty=penalty,
                    length_normalization=kind,
                )[0][0].ids
            )
            for beams in (1, 8)
        ]
        for kind, penalty in (("simple", 0.0), ("gnmt", 3.0))
    }
    assert lengths == {"simple": [10, 0], "gnmt": [10, 10]}


def test_coverage_prefers_the_output_that_reads_the_whole_source():
    class Reader(Bigrams):
        """Token 1 reads the first of two source tokens, token 2 the second."""

        def attention(self, state):
            return np.eye(3)[[{1: 0, 2: 1}.get(int(last), 2) for last in state[0]]][:, :2], np.full(
                len(state[0]), 2
            )

    stepper = Reader([[1, 0, 0], [0.6, 0.0, 0.4], [1, 0, 0], [0.0, 1, 0]])  # 1 </s>, or 1 2 </s>
    assert beam_search(stepper, NOTHING, beams=2)[0][0].ids.tolist() == [1]
    best = beam_search(stepper, NOTHING, beams=2, coverage_penalty=0.1, length_penalty=0.0)[0][0]
    assert best.ids.tolist() == [1, 2]
    assert best.score == pytest.approx(math.log(0.4))
    assert log_coverage(np.zeros((1, 2)), np.array([2])) == pytest.approx(
        2 * math.log(MIN_ATTENTION)
    )


def test_a_prefix_is_scored_but_not_searched():
    stepper = random_bigrams(5, seed=3)
    prefix = [2, 4, 1]
    (found,) = beam_search(stepper, NOTHING, beams=3, nbest=3, max_tokens=8, prefixes=[prefix])
    (after,) = beam_search(
        stepper, [np.array(prefix)], beams=3, nbest=3, max_tokens=5, length_penalty=0.0
    )
    log_prob = sum(float(twin.after(stepper, prefix[:i])[0][prefix[i]]) for i in range(3))
    assert {tuple(h.ids[:3]) for h in found} == {(2, 4, 1)}
    assert {tuple(h.ids[3:]): h.log_prob for h in found}.items() >= {
        tuple(after[0].ids): pytest.approx(after[0].log_prob + log_prob)
    }.items()
    assert stepper.tokens_stepped > 0


def test_an_impossible_prefix_is_kept_all_the_same():
    stepper = Bigrams([[1, 0, 0], [0.5, 0.5, 0], [0.5, 0.5, 0], [0.5, 0.5, 0.0]])
    best = beam_search(stepper, NOTHING, beams=2, prefixes=[[2]], length_penalty=0.0)[0][0]
    assert (best.ids.tolist(), best.log_prob) == ([2], pytest.approx(math.log(0.5)))


def test_minimum_length():
    stepper = Bigrams(np.tile([0.9, 0.05, 0.05], (4, 1)))
    assert len(beam_search(stepper, NOTHING, beams=2, min_tokens=3)[0][0].ids) == 3
    only_end = Bigrams(np.tile([1.0, 0.0, 0.0], (4, 1)))
    assert len(beam_search(only_end, NOTHING, beams=2, min_tokens=3)[0][0].ids) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beams": 2, "nbest": 3}, "nbest 3 is more than the 2 beams"),
        ({"length_normalization": "long"}, "length_normalization"),
        ({"coverage_penalty": 0.1}, "coverage_penalty needs the attention"),
        ({"prefixes": [[1, 0]]}, "prefix 0 contains the end symbol"),
        (
            {"prefixes": [[1, 2]], "max_tokens": 2},
            "prefix 0 has 2 tokens, but the output may have 2",
        ),
        ({"limits": [0]}, "limit of an output must be at least 1"),
    ],
)
def test_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        beam_search(random_bigrams(4), NOTHING, **options)


@pytest.mark.parametrize(
    "options", [{"prefixes": [[1], [1]]}, {"prefixes": [[9]]}, {"limits": [3, 3]}]
)
def test_refused_as_mistakes_of_the_caller(options):
    with pytest.raises(ValueError, match=r"prefix|limits"):
        beam_search(random_bigrams(4), NOTHING, **options)


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.5, None])
def test_broken_rows_are_noticed_wherever_they_are(value):
    for token in (0, 200, 299):
        stepper = Bigrams(np.full((301, 300), 1 / 300))
        stepper.table[5] = stepper.table[5] if value is not None else -np.inf
        if value is not None:
            stepper.table[5, token] = value
        with pytest.raises(ModelError, match="no usable probability"):
            beam_search(stepper, NOTHING * 2, beams=2, prefixes=[[3], [5]])
