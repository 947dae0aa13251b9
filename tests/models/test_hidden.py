"""Hidden Markov models: against all paths, against hmmlearn, and at the borders (nothing, one
token, the impossible).
"""

import itertools
import math
import signal
import warnings

import numpy as np
import pytest

from seqloom import HMM, progress
from seqloom.errors import ConfigError, DataError, TrainingError
from seqloom.models.hidden.chain import BaumWelch, CategoricalHMM, baum_welch
from seqloom.models.hidden.gaussian import GaussianHMM
from tests.golden import hmmlearn_answers
from tests.twins import hmm as twin

LENGTHS = np.array([4, 0, 1, 6, 2])


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings(), np.errstate(all="raise", under="ignore"):
        warnings.simplefilter("error")
        yield


def chain(n_states, vocab_size, seed, *, zeros=False):
    made = CategoricalHMM.random(n_states, vocab_size, seed=seed)
    if not zeros:
        return made
    transitions, emissions = made.transitions.copy(), made.emissions.copy()
    rng = np.random.default_rng(seed)
    transitions[rng.random(transitions.shape) < 0.3] = 0
    emissions[rng.random(emissions.shape) < 0.2] = 0
    transitions[:, 0] += 0.1
    emissions[:, 0] += 0.1
    return CategoricalHMM(
        made.start,
        transitions / transitions.sum(1, keepdims=True),
        emissions / emissions.sum(1, keepdims=True),
    )


def gaussian(kind, seed=0, n_states=3, d=2):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n_states, d, d))
    full = root @ root.swapaxes(1, 2) + 0.3 * np.eye(d)
    return GaussianHMM(
        rng.dirichlet(np.ones(n_states)),
        rng.dirichlet(np.ones(n_states), n_states),
        rng.normal(size=(n_states, d)) * 2,
        full if kind == "full" else np.abs(root[:, 0]) + 0.3,
    )


def cases():
    for seed in range(4):
        model = chain(3 if seed < 3 else 5, 4, seed, zeros=seed % 2 == 1)
        ids = np.concatenate([model.sample(k, seed=k + seed)[0] for k in LENGTHS])
        yield model, ids, [model.emissions[:, x] for x in ids]
    for kind in ("diagonal", "full"):
        numbers = gaussian(kind)
        rows = np.random.default_rng(5).normal(size=(LENGTHS.sum(), 2)) * 2
        yield numbers, rows, [density(numbers, row) for row in rows]


def density(model, row):
    """The textbook formula."""
    out = []
    for mean, covariance in zip(model.means, model.covariances):
        full = np.diag(covariance) if covariance.ndim == 1 else covariance
        away = row - mean
        out.append(
            math.exp(-0.5 * away @ np.linalg.inv(full) @ away)
            / math.sqrt(np.linalg.det(2 * math.pi * full))
        )
    return np.array(out)


def cut(seen):
    ends = np.cumsum(LENGTHS)
    return [np.array(seen[e - k : e]) for e, k in zip(ends, LENGTHS)]


@pytest.mark.parametrize("case", range(6))
def test_everything_against_all_paths(case):
    model, data, seen = list(cases())[case]
    a, b = model.start, model.transitions
    log_likelihoods, (beliefs, log_probs) = (
        model.log_likelihood(data, LENGTHS),
        model.filter(data, LENGTHS),
    )
    posteriors, (states, joints) = model.posteriors(data, LENGTHS), model.viterbi(data, LENGTHS)
    decoded, counts = model.posterior_decode(data, LENGTHS), model.expected(data, LENGTHS)
    ends, pairs, firsts = np.cumsum(LENGTHS), 0, 0
    for n, (end, one) in enumerate(zip(ends, cut(seen))):
        here = slice(end - len(one), end)
        if not len(one):
            assert log_likelihoods[n] == joints[n] == 0
            continue
        assert log_likelihoods[n] == pytest.approx(math.log(twin.likelihood(a, b, one)), abs=1e-10)
        assert log_likelihoods[n] == pytest.approx(twin.slow_forward(a, b, one), abs=1e-10)
        assert log_probs[here].sum() == pytest.approx(log_likelihoods[n], abs=1e-10)
        single, double = twin.posteriors(a, b, one)
        assert np.allclose(posteriors[here], single, atol=1e-12)
        assert decoded[here].tolist() == single.argmax(1).tolist()
        assert np.allclose(beliefs[here], twin.filtered(a, b, one), atol=1e-12)
        path, p = twin.best(a, b, one)
        assert states[here].tolist() == list(path)
        assert joints[n] == pytest.approx(math.log(p), abs=1e-10)
        pairs, firsts = pairs + double, firsts + single[0]
    assert np.allclose(counts.transitions, pairs, atol=1e-11)
    assert np.allclose(counts.start, firsts, atol=1e-11)
    assert np.array_equal(model.token_log_probs(data, LENGTHS), log_probs)
    weights = counts.emissions.sum(0) if isinstance(model, CategoricalHMM) else counts.emissions[0]
    assert np.allclose(weights, posteriors.sum(0))


@pytest.mark.parametrize("case", range(6))
def test_step_by_step_filter_is_the_fast_one(case):
    model, data, _ = list(cases())[case]
    data = data[-6:]
    beliefs, log_probs = model.filter(data)
    belief = model.start
    for t, one in enumerate(data):
        belief, p = model.correct(belief if t == 0 else model.predict(belief), one)
        assert np.allclose(belief, beliefs[t], atol=1e-12)
        assert (math.log(p) if isinstance(model, CategoricalHMM) else p) == pytest.approx(
            log_probs[t], abs=1e-10
        )
    both, _ = model.correct(np.stack([model.start] * 2), data[:2])
    assert np.allclose(both[0], beliefs[0], atol=1e-12)


@pytest.fixture(params=["recorded", "live"])
def source(request):
    return request.param


@pytest.mark.parametrize("name", hmmlearn_answers.CHAINS)
def test_hmmlearn_agrees(name, source):
    peer = hmmlearn_answers.case(name, source)
    model, ids, lengths = (
        CategoricalHMM(peer["start"], peer["transitions"], peer["emissions"]),
        peer["ids"],
        peer["lengths"],
    )
    assert model.log_likelihood(ids, lengths).sum() == pytest.approx(
        float(peer["score"]), rel=1e-12
    )
    assert np.allclose(model.posteriors(ids, lengths), peer["posteriors"], atol=1e-9)
    states, joints = model.viterbi(ids, lengths)
    assert np.array_equal(states, peer["path"])
    assert joints.sum() == pytest.approx(float(peer["joint"]), rel=1e-12)
    ours = baum_welch(model, ids, lengths, iterations=1).model
    for name, mine in ours.arrays().items():
        assert np.allclose(mine, peer[f"fitted_{name}"], atol=1e-9)


@pytest.mark.parametrize("kind", hmmlearn_answers.NUMBERS)
def test_hmmlearn_agrees_on_numbers(kind, source):
    peer = hmmlearn_answers.case(kind, source)
    rows, lengths = peer["rows"], peer["lengths"]
    model = GaussianHMM(peer["start"], peer["transitions"], peer["means"], peer["covariances"])
    assert model.log_likelihood(rows, lengths).sum() == pytest.approx(
        float(peer["score"]), rel=1e-10
    )
    assert np.allclose(model.posteriors(rows, lengths), peer["posteriors"], atol=1e-9)
    assert np.array_equal(model.viterbi(rows, lengths)[0], peer["path"])
    ours = baum_welch(model, rows, lengths, iterations=1).model
    assert np.allclose(ours.transitions, peer["fitted_transitions"], atol=1e-9)
    assert np.allclose(ours.means, peer["fitted_means"], atol=1e-9)
    assert np.allclose(ours.covariances, peer["fitted_covariances"], atol=1e-8)


def test_equal_paths_are_told_apart_as_in_hmmlearn(source):
    """Repeated symbols make detours in either order equally likely, to the last bit."""
    peer = hmmlearn_answers.case("ties", source)
    model = CategoricalHMM(peer["start"], peer["transitions"], peer["emissions"])
    assert np.array_equal(model.viterbi(peer["ids"])[0], peer["path"])


def test_one_em_step_by_hand():
    """From the counts of all paths."""
    model = chain(3, 4, 0)
    ids = np.array([0, 1, 2, 3, 1, 1])
    single, pairs = twin.posteriors(
        model.start, model.transitions, [model.emissions[:, x] for x in ids]
    )
    found = baum_welch(model, ids, iterations=1)
    assert np.allclose(found.model.start, single[0])
    assert np.allclose(found.model.transitions, pairs / pairs.sum(1, keepdims=True))
    emitted = np.stack([single[ids == x].sum(0) for x in range(4)], 1)
    assert np.allclose(found.model.emissions, emitted / emitted.sum(1, keepdims=True))
    k = 0.25
    smoothed = baum_welch(model, ids, iterations=1, k=k).model
    assert np.allclose(smoothed.emissions, (emitted + k) / (emitted + k).sum(1, keepdims=True))
    assert np.allclose(smoothed.transitions, (pairs + k) / (pairs + k).sum(1, keepdims=True))
    assert np.allclose(smoothed.start, single[0])  # which has no pseudo-count


@pytest.mark.parametrize("k", [0.0, 0.1])
def test_em_climbs_and_reports_its_own_likelihood(k):
    truth = chain(3, 6, 7)
    ids, lengths = truth.sample(600, seed=0)[0], np.full(20, 30)
    em = BaumWelch(
        lambda r: CategoricalHMM.random(3, 6, seed=r),
        ids,
        lengths,
        iterations=30,
        tolerance=1e-7,
        restarts=3,
        k=k,
    )
    objectives = []
    while not em.done:
        before = em.objectives
        em.iterate()
        objectives.append(em.objectives or before)
    assert all(b >= a - 1e-9 * abs(a) for run in objectives for a, b in itertools.pairwise(run))
    best = em.best
    assert best.history[-1] == pytest.approx(
        best.model.log_likelihood(ids, lengths).sum(), rel=1e-12
    )
    assert best.history[-1] > best.history[0]
    alone = [
        baum_welch(
            CategoricalHMM.random(3, 6, seed=r), ids, lengths, iterations=30, tolerance=1e-7, k=k
        )
        for r in range(3)
    ]
    if not k:
        assert best.history == max((fit.history for fit in alone), key=lambda history: history[-1])


@pytest.mark.parametrize("kind", ["categorical", "diagonal", "full"])
def test_interrupted_em_keeps_the_best_and_goes_on_to_the_bit(kind):
    if kind == "categorical":
        data = chain(3, 6, 7).sample(300, seed=0)[0]

        def start(r):
            return CategoricalHMM.random(3, 6, seed=r)
    else:
        data = gaussian(kind).sample(300, seed=0)[0]

        def start(r):
            return GaussianHMM.random(3, data, seed=r, covariance=kind)

    lengths = np.full(10, 30)
    options = {"iterations": 6, "restarts": 3, "tolerance": 0.0}
    whole = baum_welch(start, data, lengths, **options)
    for stop in (1, 6, 7, 10, 17):
        states = []

        def interrupt(state, stop=stop, states=states):
            states.append(state)
            if len(states) == stop:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            baum_welch(start, data, lengths, on_iteration=interrupt, **options)
        again = baum_welch(start, data, lengths, resume_from=states[-1], **options)
        assert again.history == whole.history
        assert again.restart == whole.restart
        for name, array in whole.model.arrays().items():
            assert np.array_equal(again.model.arrays()[name], array), name
    em = BaumWelch(start, data, lengths, **options)
    first = em.best.model.log_likelihood(data, lengths).sum()
    for _ in range(9):
        em.iterate()
    reached = em.best.model.log_likelihood(data, lengths).sum()
    assert reached > first
    assert reached >= em.finished.history[-1]


def test_threads_do_not_change_the_result(monkeypatch):
    model = CategoricalHMM.random(6, 300, seed=0)
    lengths = np.random.default_rng(0).integers(0, 3000, 150)
    ids = np.random.default_rng(1).integers(0, 300, lengths.sum())
    assert len(model.batches(ids, lengths)) > 2
    found = {}
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("SEQLOOM_THREADS", threads)
        counts = model.expected(ids, lengths)
        found[threads] = [
            counts.log_likelihoods,
            counts.start,
            counts.transitions,
            counts.emissions,
            *model.viterbi(ids, lengths),
            model.posteriors(ids, lengths),
        ]
    for threads in ("2", "5"):
        assert all(np.array_equal(a, b) for a, b in zip(found["1"], found[threads]))
    assert np.allclose(counts.transitions.sum(), len(ids) - (lengths > 0).sum())
    assert np.allclose(counts.emissions.sum(1), np.bincount(ids, minlength=300))


def test_impossible_sequences_are_defined():
    model = CategoricalHMM([1, 0], [[0.5, 0.5], [0, 1]], [[0.5, 0.5, 0], [0, 1, 0]])
    ids, lengths = np.array([0, 1, 2, 0, 0, 1, 1, 0]), np.array([3, 2, 3])
    assert model.log_likelihood(ids, lengths).tolist() == [
        -math.inf,
        math.log(0.125),
        math.log(0.0625 / 2),
    ]
    beliefs, log_probs = model.filter(ids, lengths)
    assert log_probs[2] == -math.inf
    assert beliefs[2].tolist() == [0, 0]
    assert np.isfinite(model.posteriors(ids, lengths)).all()
    for ask in (model.viterbi, model.posterior_decode, lambda *a: baum_welch(model, *a)):
        with pytest.raises(DataError, match="sequence 0 "):
            ask(ids, lengths)
    counts = model.expected(ids, lengths)
    assert counts.start.tolist() == [2, 0]
    belief, p = model.correct(model.start, 2)
    assert (belief.tolist(), p) == ([0, 0], 0)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", ["diagonal", "full"])
def test_a_number_so_far_away_that_its_density_is_zero_is_refused(kind):
    model, rows, lengths = gaussian(kind), np.array([[0.0, 0.0], [1e200, 0.0], [1.0, 1.0]]), [2, 1]
    for ask in (model.log_likelihood, model.filter, model.viterbi):
        with pytest.raises(DataError, match=r"row 1 .* holds 1e\+200, beyond 1e\+25; "):
            ask(rows, lengths)
    rows[1, 0] = 1e25  # the largest: improbable, not impossible
    assert np.isfinite(model.log_likelihood(rows, lengths)).all()
    assert np.isfinite(model.filter(rows, lengths)[1]).all()
    assert np.isfinite(model.viterbi(rows, lengths)[1]).all()


def test_nothing_and_one_token():
    model = chain(3, 4, 0)
    assert model.log_likelihood(np.array([], int), np.array([], int)).shape == (0,)
    assert model.log_likelihood(np.array([], int)).tolist() == [0]
    states, joints = model.viterbi(np.array([], int), np.array([0, 0]))
    assert (len(states), joints.tolist()) == (0, [0, 0])
    assert model.posteriors([2])[0] == pytest.approx(model.correct(model.start, 2)[0])
    assert baum_welch(model, np.array([1]), iterations=3).history[-1] <= 1e-12
    nothing = baum_welch(model, np.array([], int))
    assert (nothing.history, nothing.converged) == ([0, 0], True)  # not a hundred rounds
    numbers = gaussian("full")
    assert numbers.log_likelihood(np.empty((0, 2))).tolist() == [0]
    assert np.isfinite(baum_welch(numbers, np.zeros((1, 2)), iterations=3).history).all()


@pytest.mark.parametrize(
    ("ids", "lengths", "message"),
    [
        ([0, 4], None, "symbol 4 at position 1"),
        ([-1], None, "symbol -1"),
        ([0.5], None, "whole numbers"),
        ([[0]], None, "flat"),
        ([0, 1], [1], "add up"),
        ([0, 1], [3, -1], "at least 0"),
    ],
)
def test_bad_symbols(ids, lengths, message):
    with pytest.raises(DataError, match=message):
        chain(2, 4, 0).log_likelihood(np.array(ids), lengths)


def test_bad_numbers_and_bad_parameters():
    rows = np.zeros((4, 2))
    rows[2, 1] = np.nan
    with pytest.raises(DataError, match=r"row 2 .*nan"):
        gaussian("full").log_likelihood(rows)
    with pytest.raises(DataError, match="3 numbers; the model has 2"):
        gaussian("full").viterbi(np.zeros((4, 3)))
    for start, transitions, emissions in (
        ([0.5, 0.4], np.eye(2), np.eye(2)),
        ([1, 0], np.eye(3), np.eye(2)),
        ([1, 0], np.eye(2), np.eye(3)),
        ([1.5, -0.5], np.eye(2), np.eye(2)),
        ([np.nan, 1], np.eye(2), np.eye(2)),
    ):
        with pytest.raises(ConfigError):
            CategoricalHMM(start, transitions, emissions)
    with pytest.raises(ConfigError, match="rows of equal length"):
        CategoricalHMM([1, 0], np.eye(2), [[1], [0.5, 0.5]])
    with pytest.raises(DataError, match="numbers must be rows and columns"):
        gaussian("full").filter(["a"])
    with pytest.raises(ConfigError, match="covariance must be diagonal or full; got 'ful'"):
        GaussianHMM.random(2, np.zeros((4, 2)), seed=0, covariance="ful")
    for covariances in (
        np.zeros((2, 2)),
        -np.ones((2, 2)),
        np.zeros((2, 2, 2)),
        np.ones((2, 3)),
        np.full((2, 2), np.inf),
    ):
        with pytest.raises(ConfigError):
            GaussianHMM([1, 0], np.eye(2), np.zeros((2, 2)), covariances)


def test_far_outliers_and_tiny_probabilities_are_still_exact():
    """A left-to-right chain must pass a row that its only state finds 10,000 nats less likely than
    another state does.
    """
    left_right = GaussianHMM(
        [1, 0, 0],
        [[0.5, 0.5, 0], [0, 0.5, 0.5], [0, 0, 1]],
        [[0.0], [10.0], [150.0]],
        np.ones((3, 1)),
    )
    rows = np.array([0.1, 150.0, 9.0, 151.0, 149.0])
    log_seen = left_right.log_densities(rows[:, None])
    scores = [
        math.log(p) + sum(log_seen[t, state] for t, state in enumerate(path))
        for path, p in twin.paths(left_right.start, left_right.transitions, np.ones((5, 3)))
        if p > 0
    ]
    want = max(scores) + math.log(math.fsum(math.exp(s - max(scores)) for s in scores))
    assert left_right.log_likelihood(rows)[0] == pytest.approx(want, rel=1e-12)
    assert left_right.filter(rows)[1].sum() == pytest.approx(want, rel=1e-12)
    assert np.allclose(left_right.posteriors(rows).sum(1), 1)
    assert left_right.posterior_decode(rows).tolist() == left_right.viterbi(rows)[0].tolist()
    assert np.all(np.diff(baum_welch(left_right, rows, iterations=5).history) >= -1e-9)
    tiny = CategoricalHMM([1, 0], [[1 - 1e-16, 1e-200], [0, 1]], [[1, 1e-295], [0, 1]])
    assert tiny.log_likelihood([0, 1, 1], [3])[0] == pytest.approx(math.log(1e-200), rel=1e-12)
    assert tiny.log_likelihood([1, 0], [2])[0] == pytest.approx(math.log(1e-295), rel=1e-12)
    assert tiny.expected(np.array([1, 0, 0]), np.array([3])).transitions.tolist() == pytest.approx(
        np.array([[2, 0], [0, 0]])
    )


def test_no_underflow_and_no_overflow_over_long_texts():
    """State 1 cannot be reached but would explain all: its backward value grows without bound."""
    model = CategoricalHMM(
        [1, 0, 0],
        [[0.999, 0, 0.001], [0, 1, 0], [0.5, 0, 0.5]],
        [[1 - 1e-6, 1e-6], [0, 1], [0.5, 0.5]],
    )
    ids = np.ones(10_000, np.int64)
    posteriors = model.posteriors(ids)
    assert np.allclose(posteriors.sum(1), 1)
    assert (posteriors[:, 1] == 0).all()
    counts = model.expected(ids, np.array([10_000]))
    assert counts.transitions.sum() == pytest.approx(9_999)
    assert np.isfinite(baum_welch(model, ids, iterations=3).history).all()


def test_sampling_follows_the_tables():
    model = chain(3, 4, 1)
    symbols, states = model.sample(60_000, seed=0)
    assert np.array_equal(symbols, model.sample(60_000, seed=0)[0])
    moves = np.zeros((3, 3))
    np.add.at(moves, (states[:-1], states[1:]), 1)
    assert np.allclose(moves / moves.sum(1, keepdims=True), model.transitions, atol=0.02)
    emitted = np.zeros((3, 4))
    np.add.at(emitted, (states, symbols), 1)
    assert np.allclose(emitted / emitted.sum(1, keepdims=True), model.emissions, atol=0.02)
    firsts = [model.sample(1, seed=s)[1][0] for s in range(3000)]
    assert np.allclose(np.bincount(firsts, minlength=3) / 3000, model.start, atol=0.04)
    rows, states = gaussian("full").sample(40_000, seed=0)
    assert np.allclose(
        np.cov(rows[states == 1].T), gaussian("full").covariances[1], rtol=0.1, atol=0.05
    )


def test_free_values_as_the_documents_count_them():
    for s, k, n in ((2, 3, 7), (45, 50, 4229), (100, 10, 10_899)):
        assert (
            CategoricalHMM.random(s, k, seed=0).n_free == n == (s - 1) + s * (s - 1) + s * (k - 1)
        )
    assert gaussian("diagonal").n_free == 2 + 6 + 6 + 6
    assert gaussian("full").n_free == 2 + 6 + 6 + 9
    model, ids = chain(2, 3, 0), np.array([0, 1, 2, 1])
    score = float(model.log_likelihood(ids)[0])
    assert model.aic(ids) == pytest.approx(14 - 2 * score)
    assert model.bic(ids) == pytest.approx(7 * math.log(4) - 2 * score)


def test_forgetting():
    """A mixing chain forgets where it began; the identity never does."""
    rng = np.random.default_rng(0)
    emissions = rng.dirichlet(np.ones(6), 4)
    ids = rng.integers(0, 6, 60)
    one, other = np.array([0.7, 0.1, 0.1, 0.1]), np.array([0.1, 0.1, 0.1, 0.7])
    mixing = CategoricalHMM(one, 0.6 * rng.dirichlet(np.ones(4), 4) + 0.1, emissions).forgetting(
        ids, other
    )
    assert mixing[0] > 0.1
    assert mixing[20] < 1e-8
    flat = np.full((4, 6), 1 / 6)
    sticky = CategoricalHMM(one, np.eye(4), flat).forgetting(ids, other)
    assert np.allclose(sticky, 0.6)


def test_floor_of_variances_and_states_without_data():
    rows = np.concatenate([np.zeros(50), np.random.default_rng(0).normal(5, 1, 50)])[:, None]
    start = GaussianHMM(
        [1, 0], [[0.9, 0.1], [0.1, 0.9]], [[0.1], [5.0]], np.ones((2, 1)), floor=0.01
    )
    found = baum_welch(start, rows, iterations=20)
    assert found.model.covariances.min() == 0.01
    assert np.all(np.diff(found.history) >= -1e-9)
    unused = CategoricalHMM(
        [1, 0, 0], [[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1]], np.full((3, 2), 0.5)
    )
    kept = baum_welch(unused, [0, 1, 1], iterations=2).model
    assert kept.transitions[2].tolist() == [0, 0, 1]
    assert kept.emissions[2].tolist() == [0.5, 0.5]


def test_a_falling_objective_is_an_error(monkeypatch):
    model = chain(3, 4, 0)
    ids = model.sample(50, seed=0)[0]
    monkeypatch.setattr(
        CategoricalHMM, "maximise", lambda self, counts, k=0.0: CategoricalHMM.random(3, 4, seed=99)
    )
    with pytest.raises(TrainingError, match="fell from"):
        baum_welch(baum_welch(model, ids, iterations=0).model, ids, iterations=3)
    with pytest.raises(ConfigError):
        baum_welch(model, ids, restarts=0)


def test_progress_shows_the_likelihood():
    notes, advanced = [], []

    class Bar:
        def advance(self, amount=1):
            advanced.append(amount)

        def note(self, text):
            notes.append(text)

    class Reporter:
        def begin(self, label, total, unit):
            advanced.append(-total)
            return Bar()

        def end(self, task):
            pass

        def say(self, message):
            pass

    with progress.reporting(Reporter()):
        found = baum_welch(chain(2, 4, 0), [0, 1, 2, 3, 0, 0], iterations=4, tolerance=0.0)
    assert sum(advanced) == 0
    assert notes[-1] == f"log-likelihood {found.history[-1]:,.2f}"


def test_ctrl_c_in_python_keeps_the_best_so_far(monkeypatch):
    """Without a run directory there is nothing to go on from, so the fit ends early with what it has."""
    text = "the cat sat on the mat\nthe dog sat on the log\n" * 5
    rounds, iterate = [], BaumWelch.iterate

    def interrupted(self):
        rounds.append(self.restart)
        if len(rounds) == 4:
            signal.raise_signal(signal.SIGINT)
        iterate(self)

    monkeypatch.setattr(BaumWelch, "iterate", interrupted)
    model = HMM(states=3, iterations=50, restarts=2, tolerance=0.0).fit(text)
    assert len(rounds) == 4
    monkeypatch.setattr(BaumWelch, "iterate", iterate)
    assert model.perplexity(text) < HMM(states=3, iterations=1).fit(text).perplexity(text)
