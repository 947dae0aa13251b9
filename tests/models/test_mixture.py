"""Mixtures: weights by EM against a search, the cache as a member, members that do not fit, saving;
and the uniform rung.
"""

import itertools
import math
import shutil

import numpy as np
import pytest

import seqloom
from seqloom import LSTM, Cache, Mixture, NGram, TrainConfig, Uniform, progress
from seqloom.errors import ConfigError
from seqloom.metrics.language import unit_lengths


@pytest.fixture(scope="module")
def parts(shakespeare):
    return shakespeare[:60_000], shakespeare[60_000:70_000], shakespeare[70_000:80_000]


@pytest.fixture(scope="module")
def members(parts):
    """One of low order, and one of high order that is too sure of itself; together they are worth more."""
    sure = NGram(order=4, smoothing="maximum-likelihood", tokenizer="byte", unit="stream").fit(
        parts[0]
    )
    return [NGram(order=2, tokenizer="byte", unit="stream").fit(parts[0]), sure]


def likelihood(members, weights, text):
    """Mean natural-log probability under fixed weights, from the members' own scores."""
    probs = np.stack([np.exp(np.array(m.token_scores(text), np.float64)) for m in members])
    with np.errstate(divide="ignore"):
        return float(np.log(np.asarray(weights) @ probs).mean())


def test_weights_are_the_best_ones(parts, members):
    """Two members: a ternary search over the one free weight finds the same maximum."""
    mixture = Mixture.of(members, tolerance=1e-9, iterations=1000).fit(parts[1])
    low, high = 0.0, 1.0
    for _ in range(60):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        worse = likelihood(members, [a, 1 - a], parts[1]) < likelihood(
            members, [b, 1 - b], parts[1]
        )
        low, high = (a, high) if worse else (low, b)
    assert mixture.weights[0] == pytest.approx(low, abs=2e-4)
    assert 0.1 < mixture.weights[0] < 0.9
    assert mixture.weights.sum() == pytest.approx(1)
    assert mixture.fit_info["weights"] == {
        f"{i}:{m.label()}": pytest.approx(w, abs=1e-6)
        for i, (m, w) in enumerate(zip(members, mixture.weights))
    }


def test_three_members_against_a_grid(parts, members):
    three = [*members, NGram(order=1, tokenizer="byte", unit="stream").fit(parts[0])]
    mixture = Mixture.of(three).fit(parts[1])
    best = likelihood(three, mixture.weights, parts[1])
    steps = np.linspace(0, 1, 11)
    for a in steps:
        for b in steps[steps <= 1 - a + 1e-9]:
            assert likelihood(three, [a, b, max(1 - a - b, 0)], parts[1]) <= best + 1e-6


def test_likelihood_never_falls_while_em_runs(parts, members):
    values = []
    for rounds in range(1, 12):
        mixture = Mixture.of(members, iterations=rounds, tolerance=0.0).fit(parts[1])
        values.append(likelihood(members, mixture.weights, parts[1]))
    assert all(b >= a - 1e-12 for a, b in itertools.pairwise(values))
    assert values[0] > likelihood(members, [0.5, 0.5], parts[1])
    assert values[-1] > values[0]


def test_probability_is_the_weighted_mean(parts, members):
    mixture = Mixture.of(members).fit(parts[1])
    text = "What say you?"
    ours = np.exp(mixture.token_scores(text))
    expected = sum(w * np.exp(m.token_scores(text)) for w, m in zip(mixture.weights, members))
    assert ours == pytest.approx(expected, rel=1e-4)
    assert mixture.parameters == sum(m.parameters for m in members) + 2


def test_em_stops_when_nothing_moves(parts, members):
    rounds = []

    class Counter:
        def begin(self, label, total, unit):
            return type("Bar", (), {"advance": lambda self, n=1: rounds.append(label)})()

        def end(self, task):
            pass

        def say(self, message):
            pass

    with progress.reporting(Counter()):
        Mixture.of(members, iterations=500, tolerance=0.01).fit(parts[1])
    assert 1 < sum("EM" in label for label in rounds) < 100


def test_a_member_that_finds_a_token_impossible(parts, members):
    """Maximum likelihood alone is infinite; mixed with a smoothed model it is not."""
    assert math.isinf(members[1].perplexity(parts[2]))
    mixed = Mixture.of(members).fit(parts[1]).perplexity(parts[2])
    assert mixed < members[0].perplexity(parts[2])


def test_a_cache_helps_on_repetitive_text(parts, members):
    """Names that the training text does not have come again and again."""
    names = ["Zanzibar", "Quetzal", "Wyvern"]
    rng = np.random.default_rng(0)
    lines = [" ".join(rng.choice([*names, "and", "the", "of"], 6)) for _ in range(60)]
    held_out, test = " ".join(lines[:30]), " ".join(lines[30:])
    ngram = NGram(order=2, tokenizer="whitespace", unit="document").fit(parts[0] + " ".join(names))
    cache = Cache(tokenizer="whitespace", unit="document", window=100).fit(
        "any text", tokenizer=ngram.tokenizer
    )
    mixture = Mixture.of([ngram, cache]).fit(held_out)
    assert mixture.weights[1] > 0.3
    assert mixture.perplexity(test) < ngram.perplexity(test) / 2
    assert mixture.perplexity(test) < cache.perplexity(test)


def test_each_member_carries_its_own_state_or_none(parts):
    """A network whose state goes on from line to line; an n-gram and a cache begin each line anew."""
    pytest.importorskip("torch")
    ngram = NGram(order=3, tokenizer="word", unit="line").fit(parts[0])
    lstm = LSTM(d_hidden=4, tokenizer="word", unit="line").fit(
        parts[0][:5000], tokenizer=ngram.tokenizer, train=TrainConfig(steps=2)
    )
    cache = Cache(tokenizer="word", unit="line", window=50).fit(
        "any text", tokenizer=ngram.tokenizer
    )
    for pair in ([ngram, lstm], [lstm, ngram], [cache, lstm]):
        mixture = Mixture.of(pair).fit(parts[1][:2000])
        assert mixture.carry
        ids, _ = mixture.encode(parts[2][:600])
        assert (ids == ngram.tokenizer.eos_id).sum() > 5
        probs = np.exp(np.stack([m.text_log_probs(ids) for m in pair]).astype(np.float64))
        assert mixture.text_log_probs(ids) == pytest.approx(
            np.log(mixture.weights @ probs), abs=1e-5
        )
        anew = np.exp(lstm.sequence_log_probs(ids, unit_lengths(ids, ngram.tokenizer.eos_id)))
        assert np.abs(anew - probs[pair.index(lstm)]).max() > 1e-6  # so that the above could fail
    alone = Mixture.of(
        [ngram, NGram(order=1, unit="line").fit(parts[0], tokenizer=ngram.tokenizer)]
    ).fit(parts[1][:2000])
    assert not alone.carry


def test_units_are_those_of_the_first_member(parts, members):
    lines = NGram(order=2, tokenizer="byte", unit="line").fit(parts[0])
    for first, second in ((members[0], lines), (lines, members[0])):
        mixture = Mixture.of([first, second]).fit(parts[1])
        assert mixture.unit == first.unit
        ids = mixture.encode(parts[1])[0]
        probs = [np.exp(m.text_log_probs(ids).astype(float)) for m in (first, second)]
        expected = np.log(mixture.weights @ np.array(probs))
        assert np.allclose(mixture.text_log_probs(ids), expected, atol=1e-5)


def test_members_must_fit_each_other(parts, members):
    chars = NGram(order=2, tokenizer="char", unit="stream").fit(parts[0])
    with pytest.raises(
        ConfigError, match=r"share one tokenizer; ngram2.* has byte-257.* has char-"
    ):
        Mixture.of([members[0], chars]).fit(parts[1])
    other = NGram(order=2, tokenizer="char", unit="stream").fit("abc")
    with pytest.raises(ConfigError, match="share one tokenizer"):
        Mixture.of([chars, other]).fit(parts[1])
    for few in ([], members[:1]):
        with pytest.raises(ConfigError, match="at least two"):
            Mixture.of(few).fit(parts[1])
    with pytest.raises(ConfigError, match="do not give another"):
        Mixture.of(members).fit(parts[1], tokenizer=chars.tokenizer)


def test_saved_mixture_needs_nothing_else(parts, members, tmp_path):
    for i, member in enumerate(members):
        member.save(tmp_path / f"member{i}")
    mixture = Mixture(members=(str(tmp_path / "member0"), str(tmp_path / "member1"))).fit(parts[1])
    nested = Mixture.of([mixture, members[0]]).fit(parts[1])
    mixture.save(tmp_path / "mix")
    nested.save(tmp_path / "nested")
    for i in range(2):
        shutil.rmtree(tmp_path / f"member{i}")
    assert seqloom.load(tmp_path / "mix").token_scores("to be") == mixture.token_scores("to be")
    assert seqloom.load(tmp_path / "nested").token_scores("to be") == nested.token_scores("to be")


# ---- the uniform rung


def test_a_uniform_byte_model_reads_eight_bits(shakespeare):
    text = shakespeare[:110_000]
    for data in (text, text.replace("e", "é")):
        result = Uniform().fit("anything").evaluate(data)
        assert round(result["bits_per_byte"], 3) == 8.000
        assert result["bits_per_byte_interval"] == pytest.approx((8, 8), abs=0.001)


def test_uniform_is_uniform(toy_text):
    model = Uniform(tokenizer="whitespace", unit="line").fit(toy_text)
    ids, lengths = model.encode("the cat zebra\n")
    assert unit_lengths(ids, model.tokenizer.eos_id).tolist() == lengths.tolist() == [4]
    scores = model.sequence_log_probs(ids, lengths)
    assert scores[:3] == pytest.approx(math.log((1 - 2**-20) / (model.tokenizer.vocab_size - 1)))
    assert scores[3] == pytest.approx(-20 * math.log(2))
