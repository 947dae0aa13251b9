import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from seqloom.decoding.sampling import (
    Drawing,
    SamplingConfig,
    apply_repetition_penalty,
    apply_temperature,
    draw_next,
    filter_log_probs,
    keep_top_k,
    keep_top_p,
    normalize,
    sample,
    top_indices,
)
from seqloom.errors import ConfigError, ModelError

from .toy import Attentive, Bigrams, greedy, log, random_bigrams, run

PROMPTS = [np.array(p, np.int64) for p in ([1, 2], [], [3, 3, 1, 2], [4])]


def generate(stepper, prompts, **options):
    return run(sample(stepper, prompts, SamplingConfig(**options)), stepper.eos_id)


@pytest.mark.parametrize("stepper", [Attentive(5, seed=3), random_bigrams(6, seed=2)])
def test_greedy_equals_the_obvious_loop(stepper):
    for row, prompt in zip(generate(stepper, PROMPTS, temperature=0, max_tokens=12), PROMPTS):
        assert row == greedy(stepper, prompt.tolist(), 12)


def test_greedy_ties_go_to_the_lowest_id():
    stepper = Bigrams(np.tile([0.1, 0.2, 0.35, 0.35], (5, 1)))
    assert generate(stepper, [np.array([], np.int64)], temperature=0, max_tokens=3) == [[2, 2, 2]]


@pytest.mark.parametrize(
    "options", [{}, {"top_p": 0.8, "temperature": 1.3}, {"top_k": 3, "repetition_penalty": 1.5}]
)
def test_a_row_does_not_depend_on_the_others(options):
    stepper = Attentive(5, seed=4, spread=0.5)
    together = generate(stepper, PROMPTS, max_tokens=20, seed=7, **options)
    assert (
        len({len(row) for row in together}) > 1
    )  # rows end at different times, so the batch shrinks
    for row in range(len(PROMPTS)):
        others = [np.array([row], np.int64)] * row
        alone = generate(stepper, [*others, PROMPTS[row]], max_tokens=20, seed=7, **options)
        assert alone[row] == together[row]


def test_seeds_and_rows_differ():
    stepper = Bigrams(np.full((11, 10), 0.1))
    same_prompt = [np.array([], np.int64)] * 4
    one = generate(stepper, same_prompt, seed=1)
    assert len({tuple(row) for row in one}) == 4
    assert one == generate(stepper, same_prompt, seed=1)
    assert one != generate(stepper, same_prompt, seed=2)


def test_frequencies_follow_the_model():
    probs = np.array([0.0, 0.5, 0.3, 0.2])
    stepper = Bigrams(np.tile(probs, (5, 1)))
    ids = np.array(generate(stepper, [np.array([], np.int64)] * 20, max_tokens=500)).ravel()
    counts = np.bincount(ids, minlength=4)
    assert counts[0] == 0
    spread = np.sqrt(probs * (1 - probs) / len(ids))
    assert (np.abs(counts / len(ids) - probs) <= 4 * spread).all()


@pytest.mark.parametrize("options", [{}, {"temperature": 0.7}, {"top_k": 4}, {"top_p": 0.999}])
def test_the_ends_of_the_unit_interval_draw_possible_tokens(options):
    config = SamplingConfig(**options)
    for scale in np.random.default_rng(0).uniform(0.99, 1, 100):
        rows = [Drawing(config, 0, np.empty(0, np.int64), 5) for _ in range(2)]
        log_probs = log([[0.0, 0.1, 0.2, 0.7, 0.0]] * 2).astype(np.float32) + np.log(scale)
        ids = draw_next(rows, log_probs, 0, np.array([0.0, 1 - 2.0**-53]))
        assert ids.tolist() == [1, 3]


def test_the_stream_is_lazy_and_stops():
    stepper = random_bigrams(5)
    stream = sample(stepper, [np.array([1, 2])], SamplingConfig(max_tokens=3, min_tokens=3))
    first = next(stream)
    assert first.dtype == np.int64
    assert stepper.tokens_stepped == 2  # the prompt only
    assert len(list(stream)) == 2
    assert stepper.tokens_stepped == 4  # nothing is computed after the last token


def test_no_prompts():
    assert list(sample(random_bigrams(5), [], SamplingConfig())) == []


def test_min_tokens_postpones_the_end():
    stepper = Bigrams(np.tile([0.9, 0.05, 0.05], (4, 1)))
    prompts = [np.array([], np.int64)] * 8
    assert {len(row) for row in generate(stepper, prompts, min_tokens=4, temperature=0)} == {5}
    assert min(len(row) for row in generate(stepper, prompts, min_tokens=4)) == 5
    only_end = Bigrams(np.tile([1.0, 0.0], (3, 1)))
    assert generate(only_end, prompts[:1], min_tokens=4) == [[0]]


def test_first_allowed_holds_for_the_first_token_only():
    stepper = Bigrams(np.tile([0.0, 0.7, 0.2, 0.1], (5, 1)))
    prompts = [np.array([], np.int64)] * 3
    config = SamplingConfig(temperature=0, max_tokens=2)
    stream = sample(stepper, prompts, config, first_allowed=[np.array([2, 3]), None, np.array([0])])
    assert run(stream, 0) == [
        [2, 1],
        [1, 1],
        [0],
    ]  # the last was impossible, but nothing else is allowed
    with pytest.raises(ValueError, match="for 2 rows"):
        next(sample(stepper, prompts, config, first_allowed=[None, None]))


def test_penalty_counts_prompt_and_generated_tokens():
    stepper = Bigrams(np.tile([0.01, 0.34, 0.33, 0.32], (5, 1)))
    prompts = [np.array([], np.int64), np.array([1])]
    assert generate(stepper, prompts, temperature=0, repetition_penalty=3.0, max_tokens=3) == [
        [1, 2, 3],
        [2, 3, 1],
    ]
    rows_that_end = Bigrams(
        [[1, 0, 0, 0], [0.9, 0.05, 0.05, 0], [0, 0, 0.6, 0.4], [0, 0.3, 0.4, 0.3], [1, 0, 0, 0]]
    )
    after = generate(
        rows_that_end,
        [np.array([1]), np.array([2])],
        temperature=0,
        repetition_penalty=3.0,
        max_tokens=3,
    )
    assert after == [[0], [3, 1, 0]]  # the second row keeps its own history when the first leaves


@pytest.mark.parametrize("bad", [[np.nan, 0.0], [-np.inf, -np.inf], [5.0, -1.0]])
def test_unusable_log_probs_are_refused(bad):
    stepper = random_bigrams(2)
    stepper.table[1] = bad
    with pytest.raises(ModelError, match=r"no usable probability in row 1|an invalid probability"):
        next(sample(stepper, [np.array([0]), np.array([1])], SamplingConfig()))


@pytest.mark.parametrize(
    "option", [{"temperature": -1}, {"top_p": 1.1}, {"top_k": 0}, {"max_tokens": 0}, {"seed": -1}]
)
def test_options_are_checked(option):
    with pytest.raises(ConfigError, match=next(iter(option))):
        SamplingConfig(**option)


finite_rows = arrays(
    np.float64,
    st.tuples(st.integers(1, 3), st.integers(1, 8)),
    elements=st.one_of(st.just(-np.inf), st.integers(-4, 0).map(float)),
)


@given(finite_rows, st.integers(1, 9))
def test_top_indices_is_a_stable_sort(values, k):
    expected = [sorted(range(len(row)), key=lambda i: (-row[i], i))[:k] for row in values]
    assert top_indices(values, k).tolist() == expected


@given(finite_rows, st.floats(0, 1))
def test_top_p_keeps_the_smallest_nucleus(values, p):
    log_probs = normalize(values)
    kept = keep_top_p(log_probs, p) > -np.inf
    for row, keep in zip(np.exp(log_probs), kept):
        order = sorted(range(len(row)), key=lambda i: (-row[i], i))
        size = int(keep.sum())
        assert set(np.flatnonzero(keep)) <= set(order[:size])
        if row.sum() > 0:
            assert size >= 1
            assert row[order[:size]].sum() >= p - 1e-9
            assert size == 1 or row[order[: size - 1]].sum() < p + 1e-9


def test_top_p_is_full_where_it_is_reached_exactly():
    for p, kept in ((0.5, [1, 0, 0]), (0.75, [2 / 3, 1 / 3, 0]), (0.76, [0.5, 0.25, 0.25])):
        assert np.exp(keep_top_p(np.log([[0.5, 0.25, 0.25]]), p))[0] == pytest.approx(kept)


@pytest.mark.parametrize("evenness", [0.001, 0.1, 30.0])
def test_top_p_of_many_tokens_is_that_of_a_whole_sort(evenness):
    """Few tokens are sorted first, and more only if these do not suffice."""
    probs = np.random.default_rng(0).dirichlet(np.full(5000, evenness))
    probs[100:200] = probs[100]  # equal ones, some of them at a threshold
    probs /= probs.sum()
    log_probs = log([probs])
    order = np.argsort(-log_probs[0], kind="stable")
    before = np.cumsum(probs[order]) - probs[order]
    for p in (0.1, 0.5, 0.9, 0.99):
        kept = np.flatnonzero(keep_top_p(log_probs, p)[0] > -np.inf)
        assert abs(len(kept) - np.count_nonzero(before < p)) <= 1  # by rounding
        assert set(kept.tolist()) == set(order[: len(kept)].tolist())


@settings(max_examples=50)
@given(finite_rows, st.integers(1, 8), st.floats(0.01, 1), st.floats(0.05, 5), st.floats(0.5, 4))
def test_filters_return_distributions(values, k, p, temperature, penalty):
    seen = values > -2
    results = [
        normalize(values),
        keep_top_k(values, k),
        keep_top_p(values, p),
        apply_temperature(values, temperature),
        apply_repetition_penalty(values, seen, penalty),
    ]
    possible = (values > -np.inf).any(axis=1)
    for result in results:
        assert np.allclose(np.exp(result).sum(axis=1), possible)
        assert (result[values == -np.inf] == -np.inf).all()


def test_temperature_does_not_overflow():
    cold = apply_temperature(log([[0.5, 0.3, 0.2]]).astype(np.float64), 1e-320)
    assert np.exp(cold).tolist() == [[1, 0, 0]]
    assert np.exp(apply_temperature(log([[0.9, 0.1, 0.0]]), 100.0))[0] == pytest.approx(
        [0.505, 0.495, 0], abs=1e-3
    )


def test_filters_are_applied_in_order():
    log_probs = log([[0.4, 0.3, 0.2, 0.1]])
    config = SamplingConfig(temperature=0.5, top_k=3, top_p=0.8, repetition_penalty=2.0)
    seen = np.array([[True, False, False, False]])
    # penalty: .16 .3 .2 .1; squares: .0256 .09 .04 .01; top 3 without the last; .578 + .257 >= 0.8
    assert np.exp(filter_log_probs(log_probs, config, seen))[0] == pytest.approx(
        [0, 9 / 13, 4 / 13, 0]
    )
