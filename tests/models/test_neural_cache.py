"""The neural cache against a slow twin, its choice of theta and share, what it gains, members that
do not fit, saving.
"""

import math
import shutil

import numpy as np
import pytest

import seqloom
from seqloom import Mixture, NGram, registry
from seqloom.decoding.stepper import log_probs_by_steps
from seqloom.errors import ConfigError
from seqloom.models.language.neural_cache import NeuralCache, best_share
from seqloom.training.config import TrainConfig

pytest.importorskip("torch")

SMALL = {
    "nplm": {"d_hidden": 12, "d_embed": 6, "order": 3},
    "gru": {"d_hidden": 12, "d_embed": 8},
    "lstm": {"d_hidden": 10, "n_layers": 2},
    "gpt": {"d_model": 12, "n_heads": 2, "n_layers": 1, "context": 16},
}


def network(name, text, steps=4, **options):
    options = {"tokenizer": "whitespace", **SMALL[name], **options}
    return registry.model_class(name)(**options).fit(text, train=TrainConfig(steps=steps))


def features_by_steps(member, ids):
    """What the output layer read before each token of one sequence."""
    stepper = member.stepper()
    state, log_probs = stepper.start(1)
    vectors, scores = [], []
    for token in ids:
        vectors.append(stepper.features(state)[0].astype(np.float64))
        scores.append(float(log_probs[0, token]))
        state, log_probs = stepper.step(state, np.array([token]))
    return vectors, scores


def twin(member, ids, window, theta, share):
    """The paper's equations token by token, in plain Python."""
    vectors, scores = features_by_steps(member, ids)
    found = []
    for t, score in enumerate(scores):
        past = range(max(t - window, 0), t)
        weights = [math.exp(theta * float(vectors[t] @ vectors[i])) for i in past]
        hits = sum(w for i, w in zip(past, weights) if ids[i] == ids[t])
        found.append(
            math.log((1 - share) * math.exp(score) + share * hits / sum(weights))
            if weights
            else score
        )
    return found


@pytest.fixture(scope="module")
def words():
    rng = np.random.default_rng(1)
    return " ".join(rng.choice([f"w{i}" for i in range(30)], 420))


@pytest.mark.parametrize(
    ("name", "options"),
    [("gru", {}), ("lstm", {}), ("gpt", {}), ("nplm", {}), ("nplm", {"direct": True})],
    ids=["gru", "lstm", "gpt", "nplm", "direct"],
)
@pytest.mark.parametrize("window", [1, 7, 2000])
def test_equals_the_slow_twin(words, name, options, window):
    """420 tokens are several blocks; both ways of scoring, each on its own."""
    member = network(name, words, **options)
    cache = NeuralCache.of(member, window=window, theta=1.7, share=0.4).fit(words)
    ids, lengths = cache.encode(words)
    expected = twin(member, ids.tolist(), window, 1.7, 0.4)
    assert cache.sequence_log_probs(ids, lengths) == pytest.approx(expected, abs=1e-4)
    assert log_probs_by_steps(cache.stepper(), ids[:90], np.array([90])) == pytest.approx(
        expected[:90], abs=1e-4
    )


def test_several_sequences_do_not_see_each_other(words):
    member = network("gru", words, unit="line", carry=False)
    cache = NeuralCache.of(member, window=9, theta=2.0, share=0.5).fit(words)
    ids, _ = cache.encode(words)
    lengths = np.array([1, 2, 200, 1, 130, 3, len(ids) - 337])
    parts = np.split(ids, np.cumsum(lengths)[:-1])
    expected = np.concatenate([twin(member, part.tolist(), 9, 2.0, 0.5) for part in parts])
    assert cache.sequence_log_probs(ids, lengths) == pytest.approx(expected, abs=1e-4)
    starts = np.cumsum(lengths) - lengths
    plain = member.sequence_log_probs(ids, lengths)
    assert cache.sequence_log_probs(ids, lengths)[starts] == pytest.approx(plain[starts], abs=1e-6)


def test_carry_follows_the_member(words):
    lines = words.replace(" w1 ", "\n")
    for carry in (True, False):
        cache = NeuralCache.of(
            network("gru", lines, unit="line", carry=carry), theta=1.0, share=0.5
        ).fit(lines)
        assert cache.carry is carry
        assert cache.unit == "line"
        ids, lengths = cache.encode(lines)
        assert len(lengths) > 3
        pieces = np.array([len(ids)]) if carry else lengths
        assert np.array_equal(cache.text_log_probs(ids), cache.sequence_log_probs(ids, pieces))


def test_text_that_repeats_itself_gains():
    """A network that has learnt nearly nothing; the text says the same forty words again and again."""
    rng = np.random.default_rng(0)
    vocabulary = [f"w{i}" for i in range(40)]
    passage = rng.choice(vocabulary, 40)
    repeated, drawn = " ".join(np.tile(passage, 12)), " ".join(rng.choice(vocabulary, 480))
    member = network("lstm", " ".join(rng.choice(vocabulary, 2000)), steps=30)
    cache = NeuralCache.of(member, window=200).fit(repeated)
    assert cache.share > 0.5
    assert cache.theta > 0
    assert cache.perplexity(repeated) < member.perplexity(repeated) / 2
    nothing = NeuralCache.of(member, window=200).fit(drawn)
    assert nothing.share < 0.15
    assert nothing.perplexity(drawn) <= member.perplexity(drawn) * (1 + 1e-6)


def test_choice_is_the_best_of_a_search():
    """No pair of a fine grid is better than what fit chose, up to the grid of its own."""
    rng = np.random.default_rng(3)
    vocabulary = [f"w{i}" for i in range(20)]
    text = " ".join(np.concatenate([rng.choice(rng.choice(vocabulary, 6), 40) for _ in range(8)]))
    member = network("gru", text, steps=60)
    chosen = NeuralCache.of(member, window=50).fit(text)
    best = chosen.score(text)
    assert 0 < chosen.share < 0.99
    others = [
        NeuralCache.of(member, window=50, theta=theta, share=share).fit(text).score(text)
        for theta in np.geomspace(chosen.theta / 10, chosen.theta * 10, 9)
        for share in np.linspace(0, 0.9, 10)
    ]
    assert max(others) < best + 0.002 * abs(best)
    assert best > sorted(others)[len(others) // 2] + 0.01 * abs(best)
    kept = NeuralCache.of(member, window=50, theta=chosen.theta).fit(text)
    assert kept.share == pytest.approx(chosen.share, abs=1e-4)
    fixed = NeuralCache.of(member, window=50, share=0.25).fit(text)
    assert fixed.share == 0.25
    assert fixed.theta > 0
    assert chosen.fit_info["theta"] == chosen.theta
    almost = NeuralCache.of(member, window=50, share=0.95).fit(
        text
    )  # where the best theta is another one
    best = almost.score(text)
    for factor in (0.25, 0.5, 2.0, 4.0):
        assert (
            NeuralCache.of(member, window=50, theta=factor * almost.theta, share=0.95)
            .fit(text)
            .score(text)
            <= best + 1e-3
        )


def test_best_share_against_a_grid():
    rng = np.random.default_rng(5)
    plain, other = rng.random(500), rng.random(500) ** 2
    grid = np.linspace(0, 0.99, 2000)
    best = grid[np.argmax([np.log((1 - s) * plain + s * other).mean() for s in grid])]
    assert best_share(plain, other) == pytest.approx(best, abs=1e-3)
    assert 0.05 < best < 0.95
    assert best_share(plain, plain / 2) == 0.0
    assert best_share(plain / 2, plain) == pytest.approx(0.99, abs=1e-5)


def test_a_state_may_be_longer_than_the_first_room_and_rows_differ(words):
    """Rows of unlike length are joined by prefill; each goes on as if it were alone."""
    from seqloom.decoding.stepper import prefill

    cache = NeuralCache.of(network("gru", words), window=150, theta=1.0, share=0.5).fit(words)
    ids, _ = cache.encode(words)
    prompts = [ids[:3], ids[:100], ids[:240], ids[:0]]
    together = prefill(cache.stepper(), prompts)
    _, log_probs = cache.stepper().step(together[0], ids[:4])
    for row, prompt in enumerate(prompts):
        alone, first = prefill(cache.stepper(), [prompt])
        assert first[0] == pytest.approx(together[1][row], abs=1e-5)
        assert cache.stepper().step(alone, ids[row : row + 1])[1][0] == pytest.approx(
            log_probs[row], abs=1e-5
        )


def test_a_member_of_a_mixture(words):
    member = network("gru", words)
    cache = NeuralCache.of(member, window=50, theta=1.0, share=0.3).fit(words)
    ngram = NGram(order=2, unit="stream").fit(words, tokenizer=member.tokenizer)
    mixture = Mixture.of([cache, ngram]).fit(words)
    ids, lengths = mixture.encode(words)
    mean = mixture.weights @ np.exp(
        [m.sequence_log_probs(ids, lengths).astype(np.float64) for m in (cache, ngram)]
    )
    assert mixture.sequence_log_probs(ids, lengths) == pytest.approx(np.log(mean), abs=1e-4)
    assert log_probs_by_steps(mixture.stepper(), ids[:60], np.array([60])) == pytest.approx(
        np.log(mean[:60]), abs=1e-4
    )


def test_saved_it_needs_nothing_else(words, tmp_path):
    network("gpt", words).save(tmp_path / "network")
    cache = NeuralCache(member=str(tmp_path / "network"), window=30).fit(words)
    assert cache.context == 16 + 30
    assert cache.label() == "neural-cache30(gpt-1x12)"
    cache.save(tmp_path / "cache")
    shutil.rmtree(tmp_path / "network")
    again = seqloom.load(tmp_path / "cache")
    assert (again.theta, again.share) == (cache.theta, cache.share)
    assert again.token_scores("w1 w2 w1 w2") == cache.token_scores("w1 w2 w1 w2")


def test_what_is_no_network_is_refused(words):
    with pytest.raises(ConfigError, match="member"):
        NeuralCache().fit(words)
    with pytest.raises(ConfigError, match=r"ngram2.* has none"):
        NeuralCache.of(NGram(order=2).fit(words)).fit(words)
    member = network("gru", words)
    with pytest.raises(ConfigError, match="do not give another"):
        NeuralCache.of(member).fit(words, tokenizer=NGram(order=2).fit("a b").tokenizer)
    with pytest.raises(ConfigError, match="share must be at most"):
        NeuralCache.of(member, share=1.0)
    with pytest.raises(ConfigError, match="give theta and share"):
        NeuralCache.of(network("gru", words, unit="line", carry=False)).fit("\n\n")


def test_on_the_command_line(words, tmp_path):
    from click.testing import CliRunner

    from seqloom.cli.main import main

    network("gru", words).save(tmp_path / "network")
    (tmp_path / "held.txt").write_text(words)
    done = CliRunner().invoke(
        main,
        [
            "fit",
            "neural-cache",
            str(tmp_path / "held.txt"),
            "-o",
            str(tmp_path / "out"),
            "--member",
            str(tmp_path / "network"),
            "--window",
            "64",
            "-q",
        ],
    )
    assert done.exit_code == 0, done.output
    assert "neural-cache64(gru-1x12)" in done.output
    assert seqloom.load(tmp_path / "out").config.window == 64
