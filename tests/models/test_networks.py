"""Options of the neural language models, each with something that fails without it."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import seqloom
from seqloom import GPT, GRU, LSTM, NPLM, RNN, Mixture, NGram, TrainConfig
from seqloom.decoding.stepper import log_probs_by_steps
from seqloom.errors import ConfigError, ModelError
from seqloom.storage import write_model
from tests.conftest import TOY

QUICK = TrainConfig(steps=3, lr=0.02)
VARIED = [
    *[
        (LSTM, options)
        for options in (
            {"n_layers": 2, "residual": True},
            {"layer_norm": True},
            {"d_projection": 5},
            {"learned_start": True},
            {"tied": False},
            {"d_embed": 6},
            {"d_embed": 6, "tied": False},
            {"softmax": "adaptive"},
            {"softmax": "sampled"},
            {"softmax": "nce"},
            {"weight_drop": 0.3, "recurrent_dropout": 0.2, "word_dropout": 0.2},
            {"variational": False, "dropout": 0.3},
            {"label_smoothing": 0.1},
            {"forget_bias": 2.0},
        )
    ],
    (RNN, {"activation": "relu"}),
    (GRU, {"reset": "before"}),
    (GRU, {"update": "replace"}),
    (GRU, {"reset": "before", "update": "replace", "n_layers": 2}),
    (NPLM, {"direct": True}),
    (NPLM, {"softmax": "adaptive", "direct": True}),
    *[
        (GPT, options)
        for options in (
            {"positions": "learned"},
            {"positions": "sinusoidal"},
            {"positions": "alibi"},
            {"positions": "relative"},
            {"positions": "relative", "max_distance": 3},
            {"positions": "none"},
            {"rope_scale": 3.0},
            {"window": 2},
            {"norm": "post"},
            {"tied": False},
            {"activation": "relu"},
            {"softmax": "adaptive"},
            {"softmax": "sampled"},
            {"context": 7},
        )
    ],
]


def made(cls, **options):
    width = (
        {"d_model": 8, "n_heads": 2, "n_layers": 2, "context": 12}
        if cls is GPT
        else {"d_hidden": 8}
    )
    return cls(**{"tokenizer": "whitespace", "unit": "line", **width, **options})


@pytest.mark.parametrize(
    ("cls", "options"), VARIED, ids=lambda v: v.__name__ if isinstance(v, type) else str(v)
)
def test_every_option_trains_scores_steps_and_saves(cls, options, tmp_path):
    model = made(cls, **options).fit(TOY, train=QUICK)
    ids, lengths = model.encode(TOY)
    fast = model.sequence_log_probs(ids, lengths)
    assert np.allclose(fast, log_probs_by_steps(model.stepper(), ids, lengths), atol=2e-5)
    whole = np.array([len(ids)])
    assert np.allclose(
        model.sequence_log_probs(ids, whole),
        log_probs_by_steps(model.stepper(), ids, whole),
        atol=2e-5,
    )
    _, log_probs = model.stepper().start(1)
    assert abs(float(np.logaddexp.reduce(log_probs[0].astype(np.float64)))) < 1e-4
    plain = made(cls).fit(TOY, train=QUICK)
    assert not np.allclose(
        plain.text_log_probs(ids), model.text_log_probs(ids), atol=1e-7
    )  # the option does something
    model.save(tmp_path / "m")
    assert seqloom.load(tmp_path / "m").token_scores("the cat") == model.token_scores("the cat")


@pytest.mark.parametrize(
    "options",
    [
        {"optimizer": "sgd", "lr": 0.5},
        {"clip": "value", "clip_at": 0.01},
        {"accumulate": 2},
        {"gradient_noise": 1.0},
        {"average": "exponential"},
        {"random_truncation": True, "truncation": 12},
        {"schedule": "noam", "warmup": 2.0},
    ],
    ids=str,
)
def test_training_options_reach_the_engine(options):
    base = made(LSTM).fit(TOY, train=TrainConfig(steps=4))
    other = made(LSTM).fit(TOY, train=TrainConfig(steps=4, **options))
    assert any(not np.array_equal(base.weights[name], other.weights[name]) for name in base.weights)


def test_it_learns_what_an_ngram_of_its_window_cannot():
    """The last word is that of the beginning, six words back: memory, not a window."""
    text = "".join(f"{w} b c d e f {w}\n" for w in np.random.default_rng(0).choice(["x", "y"], 200))
    train = TrainConfig(steps=300, lr=0.02, truncation=32, batch_size=4, weight_decay=0.0)
    network = made(LSTM, d_hidden=16, dropout=0.0, input_dropout=0.0, carry=False, tied=False)
    network.fit(text, valid=text, train=train)
    last = [network.token_scores(f"{w} b c d e f {w}")[6] for w in ("x", "y")]
    counted = NGram(order=5).fit(text)
    assert min(last) > -0.1
    assert max(counted.token_scores(f"{w} b c d e f {w}")[6] for w in ("x", "y")) < -0.5


def test_carry_goes_across_lines():
    carried, alone = (made(LSTM, carry=carry).fit(TOY, train=QUICK) for carry in (True, False))
    ids, lengths = carried.encode(TOY)
    assert len(lengths) > 2
    assert not np.allclose(
        carried.text_log_probs(ids), carried.sequence_log_probs(ids, lengths), atol=1e-7
    )
    assert np.array_equal(alone.text_log_probs(ids), alone.sequence_log_probs(ids, lengths))
    assert carried.signature().to_dict()["carry"] != alone.signature().to_dict()["carry"]


def test_mixture_with_an_ngram(tmp_path):
    network = made(LSTM).fit(TOY, train=QUICK)
    counted = NGram(order=2).fit(TOY, tokenizer=network.tokenizer)
    mixed = Mixture.of([counted, network]).fit(TOY)
    assert mixed.carry
    assert mixed.perplexity(TOY) <= counted.perplexity(TOY) + 1e-6
    mixed.save(tmp_path / "mixed")
    assert seqloom.load(tmp_path / "mixed").perplexity(TOY) == mixed.perplexity(TOY)


def test_eight_bit_weights_are_close_and_not_the_same():
    model = made(LSTM, d_hidden=32).fit(TOY, train=QUICK)
    exact, rounded = model.stepper().start(1)[1], model.stepper(eight_bit=True).start(1)[1]
    assert not np.array_equal(exact, rounded)
    assert np.abs(exact - rounded).max() < 0.05
    assert np.array_equal(exact, model.stepper().start(1)[1])


def test_heads_must_divide_the_width():
    with pytest.raises(ConfigError, match="d_model 8 is not a multiple of 6, as 3 heads"):
        made(GPT, n_heads=3).fit(TOY, train=QUICK)


def test_tokenizer_and_weights_of_different_models_are_refused(tmp_path):
    model = made(RNN).fit(TOY, train=QUICK)
    model.net.weights = {
        **model.weights,
        "embedding.weight": model.weights["embedding.weight"][:-1],
    }
    with pytest.raises(ModelError, match=r"^cannot save a RNN: .* for a vocabulary of"):
        model.save(tmp_path / "m")
    (tmp_path / "m").mkdir()
    write_model(model, tmp_path / "m")  # unchecked
    with pytest.raises(ModelError, match="token vectors for a vocabulary of"):
        seqloom.load(tmp_path / "m")


def test_a_width_is_chosen_that_suits_text_and_time():
    def width(cls, tokens, **train):
        return cls(tokenizer="byte").size_for(TrainConfig(**train), tokens, 257).width

    assert width(LSTM, 10**6, minutes=1) < width(LSTM, 10**6, minutes=30)
    assert width(LSTM, 10**4, minutes=30) < width(LSTM, 10**7, minutes=600)
    assert width(GPT, 10**6, minutes=1) % 4 == 0
    assert LSTM(d_hidden=77).size_for(TrainConfig(), 1000, 257).width == 77


def test_eight_bit_generation_from_the_command_line(tmp_path):
    from click.testing import CliRunner

    from seqloom.cli.main import main

    made(LSTM).fit(TOY, train=QUICK).save(tmp_path / "m")
    NGram(order=2).fit(TOY).save(tmp_path / "n")
    done = CliRunner().invoke(
        main, ["generate", str(tmp_path / "m"), "the", "--eight-bit", "--max-tokens", "5"]
    )
    assert done.exit_code == 0, done.output
    refused = CliRunner().invoke(main, ["generate", str(tmp_path / "n"), "the", "--eight-bit"])
    assert isinstance(refused.exception, ConfigError)
    assert (
        str(refused.exception) == "--eight-bit rounds the weights of networks; this model is ngram"
    )


@pytest.mark.parametrize("positions", ["rope", "alibi", "sinusoidal", "relative", "none"])
def test_a_longer_context_without_training(positions, tmp_path):
    model = made(GPT, positions=positions, unit="stream").fit(
        TOY * 3, train=TrainConfig(steps=20, lr=0.1)
    )
    longer = model.extended(30)
    assert (longer.config.context, model.config.context) == (30, 12)
    assert longer.config.rope_scale == (2.5 if positions == "rope" else 1.0)
    ids, lengths = longer.encode(TOY * 3)
    fast = longer.sequence_log_probs(ids, lengths)
    assert np.allclose(fast, log_probs_by_steps(longer.stepper(), ids, lengths), atol=2e-5)
    before = model.sequence_log_probs(ids, lengths)
    assert np.allclose(fast[:12], before[:12], atol=1e-6) == (positions != "rope")
    assert not np.allclose(fast, before, atol=1e-6)
    if positions == "rope":
        assert np.allclose(
            model.extended(30, rope_scale=1.0).sequence_log_probs(ids, lengths)[:12],
            before[:12],
            atol=1e-6,
        )
    else:
        with pytest.raises(ConfigError, match="rope_scale has no effect with"):
            model.extended(30, rope_scale=2.0)
    longer.save(tmp_path / "longer")
    assert np.array_equal(seqloom.load(tmp_path / "longer").sequence_log_probs(ids, lengths), fast)


def test_what_cannot_be_extended():
    model = made(GPT, positions="learned").fit(TOY, train=QUICK)
    with pytest.raises(ConfigError, match="a learned table of 12, which has no more"):
        model.extended(30)
    with pytest.raises(ConfigError, match="a context of 12 is not longer than the 12"):
        made(GPT).fit(TOY, train=QUICK).extended(12)
