"""Ensembles against their definition, token by token, and under every search."""

import math

import numpy as np
import pytest

from seqloom.decoding.beam import beam_search
from seqloom.decoding.ensemble import Ensemble
from seqloom.decoding.generation import search
from seqloom.decoding.sampling import SamplingConfig
from seqloom.decoding.stepper import prefill
from seqloom.errors import ConfigError, ModelError

from .toy import (
    Aligned,
    Attentive,
    Bigrams,
    Translations,
    every_output,
    log_probs_after,
    random_bigrams,
)

NOTHING = [np.array([], np.int64)]
PROMPTS = [np.array(p, np.int64) for p in ([1, 2], [], [3, 3, 1, 2], [3])]
SOURCES = [np.array(source) for source in ([1, 2, 3], [5], [4, 4, 1])]


def described(found):
    return [
        [(h.ids.tolist(), h.log_prob, h.score, h.finished) for h in hypotheses]
        for hypotheses in found
    ]


def mixed(rows, mean):
    """The distribution of several, in plain Python."""
    columns = list(zip(*(map(float, row) for row in rows)))
    if mean == "probability":
        return [math.fsum(map(math.exp, column)) / len(column) for column in columns]
    products = [math.exp(math.fsum(column) / len(column)) for column in columns]
    return [product / math.fsum(products) for product in products]


@pytest.mark.parametrize("mean", ["probability", "log"])
def test_one_member_is_the_model_itself(mean):
    for seed in range(3):
        alone = Attentive(5, seed, spread=1.0)
        options = {"beams": 3, "nbest": 3, "max_tokens": 8}
        assert described(
            beam_search(Ensemble([alone], mean=mean), PROMPTS, **options)
        ) == described(beam_search(alone, PROMPTS, **options))


@pytest.mark.parametrize("mean", ["probability", "log"])
@pytest.mark.parametrize("size", [2, 3])
def test_log_probs_by_definition(mean, size):
    members = [Attentive(5, seed) for seed in range(size - 1)] + [random_bigrams(5, 9, zeros=True)]
    ensemble = Ensemble(members, mean=mean)
    for ids in ([], [1], [3, 1, 2]):
        expected = mixed([log_probs_after(member, ids) for member in members], mean)
        shown = log_probs_after(ensemble, ids)
        assert shown.dtype == np.float32
        assert np.exp(shown) == pytest.approx(expected, rel=1e-5)
        assert prefill(ensemble, [np.array(ids, np.int64)])[1][0] == pytest.approx(shown, rel=1e-6)


@pytest.mark.parametrize("mean", ["probability", "log"])
def test_two_members_find_the_best_of_every_output(mean):
    members = [Attentive(3, 1), Attentive(3, 2)]
    best = beam_search(
        Ensemble(members, mean=mean), NOTHING, beams=81, max_tokens=4, length_penalty=0.6
    )[0][0]

    def score(ids):
        rows = [
            mixed([log_probs_after(member, ids[:i]) for member in members], mean)
            for i in range(len(ids))
        ]
        return sum(math.log(row[token]) for row, token in zip(rows, ids)) / len(ids) ** 0.6

    outputs = {tuple(ids): score(ids) for ids, _ in every_output(members[0], [], 4)}
    assert (*best.ids.tolist(), *[0] * best.finished) == max(outputs, key=outputs.get)
    assert best.score == pytest.approx(max(outputs.values()), rel=1e-5)


def test_an_outsider_of_one_member():
    sure, unsure = Bigrams([[0.0, 1.0]] * 3), Bigrams([[0.5, 0.5]] * 3)
    assert np.exp(log_probs_after(Ensemble([sure, unsure]), [])) == pytest.approx([0.25, 0.75])
    assert np.exp(log_probs_after(Ensemble([sure, unsure], mean="log"), [])).tolist() == [0.0, 1.0]
    opposite = Bigrams([[1.0, 0.0]] * 3)
    with pytest.raises(ModelError, match="no usable probability"):
        beam_search(Ensemble([sure, opposite], mean="log"), NOTHING)


def test_translators_keep_their_sources_and_may_draw():
    members = [Translations(SOURCES, seed=seed) for seed in (1, 2)]
    found = beam_search(Ensemble(members), NOTHING * 3, beams=3, max_tokens=10)
    alone = [
        beam_search(
            Ensemble([Translations([source], seed=seed) for seed in (1, 2)]),
            NOTHING,
            beams=3,
            max_tokens=10,
        )[0]
        for source in SOURCES
    ]
    assert described(found) == described(alone)
    assert members[0].widths == members[1].widths
    greedy = search(Ensemble(members), NOTHING * 3, SamplingConfig(temperature=0, max_tokens=10))
    assert greedy == search(Ensemble(members), NOTHING * 3, SamplingConfig(max_tokens=10), beams=1)


def test_attention_is_the_mean_where_all_have_it():
    members = [Aligned(SOURCES, seed=seed) for seed in (1, 2)]
    ensemble = Ensemble(members)
    state, _ = ensemble.start(3)
    weights, lengths = ensemble.attention(state)
    assert lengths.tolist() == [3, 1, 3]
    assert weights == pytest.approx(
        (members[0].attention(state[0])[0] + members[1].attention(state[1])[0]) / 2
    )
    assert beam_search(ensemble, NOTHING * 3, coverage_penalty=0.3, max_tokens=9)
    with pytest.raises(ConfigError, match="coverage_penalty needs the attention"):
        beam_search(
            Ensemble([members[0], Translations(SOURCES)]), NOTHING * 3, coverage_penalty=0.3
        )
    others = Aligned([np.array([1, 2]), *SOURCES[1:]], seed=2)
    with pytest.raises(
        ConfigError, match="member 2 of the ensemble cuts sources into other tokens"
    ):
        beam_search(Ensemble([members[0], others]), NOTHING * 3, coverage_penalty=0.3)


def test_refused():
    with pytest.raises(
        ConfigError,
        match=r"^member 3 of the ensemble has another vocabulary than the first \(6 tokens",
    ):
        Ensemble([random_bigrams(5), random_bigrams(5), random_bigrams(6)])
    with pytest.raises(ConfigError, match="end symbol 1, not 5 and 0"):
        Ensemble([random_bigrams(5), Attentive(5, eos_id=1)])
    with pytest.raises(ConfigError, match="at least one"):
        Ensemble([])
    with pytest.raises(ConfigError, match="probability or log"):
        Ensemble([random_bigrams(5)], mean="median")
