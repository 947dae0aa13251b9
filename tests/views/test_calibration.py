"""Calibration: a model is calibrated on its own samples, one that is too sure is not; bins are what
loops find.
"""

import itertools
import math

import numpy as np
import pytest

from seqloom import Mixture, NGram
from seqloom.data.corpus import as_corpus
from seqloom.data.encode import encode_corpus
from seqloom.views import calibration as calibrating
from seqloom.views.calibration import EDGES, calibration, collect, forecasts


@pytest.fixture(scope="module")
def train(shakespeare):
    return shakespeare[:40_000]


@pytest.fixture(scope="module")
def model(train):
    return NGram(order=3, tokenizer="byte", unit="line").fit(train)


def samples(model, n, seed=0, longest=200):
    """Units drawn from the model, token by token, as flat ids."""
    stepper, rng = model.stepper(), np.random.default_rng(seed)
    rows = np.arange(n)
    units = [[] for _ in range(n)]
    state, log_probs = stepper.start(n)
    for t in range(longest):
        edges = np.cumsum(np.exp(log_probs.astype(float)), axis=1)
        drawn = (edges < rng.random((len(rows), 1)) * edges[:, -1:]).sum(axis=1)
        for row, token in zip(rows, drawn):
            units[row].append(int(token))
        go = drawn != stepper.eos_id
        if not go.any() or t == longest - 1:
            break
        state, log_probs = stepper.step(state, drawn)
        state, log_probs, rows = (state[0][go],), log_probs[go], rows[go]
    return np.concatenate([u for u in units if u[-1] == stepper.eos_id])


def sharpened(found, power):
    for log_probs, targets in found:
        changed = power * log_probs.astype(float)
        yield (
            (changed - np.log(np.exp(changed).sum(axis=1, keepdims=True))).astype(np.float32),
            targets,
        )


def test_a_model_is_calibrated_on_its_own_samples(model):
    found = collect(forecasts(model, samples(model, 400), 8000))
    assert found.positions > 5000
    assert found.error < 2 * found.chance
    for b in found.bins:
        expected = b.predicted * b.n
        assert abs(b.hits - expected) < 4 * math.sqrt(expected) + 4, b


def test_one_that_is_too_sure_or_too_timid_is_not(model):
    ids = samples(model, 400)
    for power, sign in ((2.0, 1), (0.5, -1)):
        found = collect(sharpened(forecasts(model, ids, 8000), power))
        assert found.error > 4 * found.chance
        likely = [b for b in found.bins if b.predicted > 0.5 and b.n > 50]
        assert all(sign * (b.predicted - b.observed) > 0 for b in likely)


def test_the_chance_error_is_what_samples_show(model):
    errors = [collect(forecasts(model, samples(model, 60, seed), 10_000)) for seed in range(12)]
    mean = np.mean([e.error for e in errors])
    assert mean == pytest.approx(np.mean([e.chance for e in errors]), rel=0.35)


def test_bins_against_plain_loops(model, train):
    ids = encode_corpus(model.tokenizer, as_corpus(train[:800]), unit="line").astype(np.int64)
    pairs = []
    for log_probs, targets in forecasts(model, ids, 300):
        for row, target in zip(log_probs, targets):
            pairs += [(math.exp(p), token == target) for token, p in enumerate(row.tolist())]
    found = collect(forecasts(model, ids, 300))
    edges = [0.0, *EDGES.tolist(), 1.1]
    slow = []
    for low, high in itertools.pairwise(edges):
        inside = [(p, hit) for p, hit in pairs if low <= p < high]
        if inside:
            slow.append(
                (
                    sum(p for p, _ in inside) / len(inside),
                    sum(hit for _, hit in inside),
                    len(inside),
                )
            )
    assert [(b.hits, b.n) for b in found.bins] == [(hits, n) for _, hits, n in slow]
    assert [b.predicted for b in found.bins] == pytest.approx([p for p, _, _ in slow], rel=1e-5)
    assert found.error == pytest.approx(
        sum(abs(p * n - hits) for p, hits, n in slow) / 2 / found.positions, rel=1e-4
    )


@pytest.mark.parametrize(("unit", "order"), [("line", 3), ("stream", 1), ("stream", 4)])
def test_forecasts_are_the_models_own(train, unit, order):
    """All positions together cost what the text costs: the tokens before a stretch are all that an
    n-gram needs.
    """
    model = NGram(order=order, tokenizer="byte", unit=unit).fit(train)
    text = train[20_000:24_000]
    ids = encode_corpus(model.tokenizer, as_corpus(text), unit=unit).astype(np.int64)
    found = list(forecasts(model, ids, len(ids)))
    assert sum(len(targets) for _, targets in found) == len(ids)
    total = sum(float(log_probs[np.arange(len(t)), t].sum(dtype=float)) for log_probs, t in found)
    assert total == pytest.approx(model.score(text), rel=1e-5)


def test_every_position_is_as_likely(model, train):
    """With stretches that end with their unit, beginnings of lines would be missed."""
    text = train[:12_000]
    ids = encode_corpus(model.tokenizer, as_corpus(text), unit="line").astype(np.int64)
    found = list(forecasts(model, ids, 3000))
    total = sum(len(t) for _, t in found)
    starts = sum(
        int((log_probs[:, 256] == model.stepper().start(1)[1][0, 256]).sum())
        for log_probs, _ in found
    )
    assert starts / total == pytest.approx((ids == 256).mean(), rel=0.25)


def test_small_batches_change_nothing(model, train, monkeypatch):
    before = calibration(model, train[:5000], positions=500)
    monkeypatch.setattr(calibrating, "CELLS", 2000)
    after = calibration(model, train[:5000], positions=500)
    assert after.positions == before.positions
    assert [(b.n, b.hits) for b in after.bins] == [(b.n, b.hits) for b in before.bins]


def test_large_vocabularies_get_fewer_positions(model, train, monkeypatch):
    monkeypatch.setattr(calibrating, "FORECASTS", 257 * 100)
    assert calibration(model, train[:20_000]).positions < 300


def test_mixtures_and_tiny_texts(model, train):
    mixed = Mixture.of([model, NGram(order=2, tokenizer="byte", unit="line").fit(train)]).fit(
        train[:2000]
    )
    assert calibration(mixed, "to be\n").positions == 6
    assert calibration(mixed, train[:3000], positions=200).error < 1
