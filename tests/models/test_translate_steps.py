"""Translators step without torch as with it: the same log-probabilities and weights of the sources, whatever the rows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from seqloom.decoding.stepper import select  # noqa: E402
from seqloom.models.sequence.sizes import Sizes  # noqa: E402
from seqloom.models.translate.seq2seq import Seq2Seq  # noqa: E402
from seqloom.models.translate.transformer import Transformer  # noqa: E402
from seqloom.text.tokenizer import Tokenizer  # noqa: E402

SOURCES = ["abcde", "a", "", "deadbeefcab", "bb"]
ONE = {"one_network": True, "shared_vocabulary": True}


def made(cls, **options):
    """A model with random weights, none of them zero, on the alphabet."""
    small = ({"d_embed": 12, "d_hidden": 8} if cls is Seq2Seq else
             {"d_model": 12, "n_heads": 2, "n_layers": 2, "n_decoder_layers": 2, "d_mlp": 20})
    model = cls(**{"tokenizer": "char", **small, **options})
    numeric = options.pop("numeric", False)
    tokenizer = Tokenizer(kind="char").fit(["abcdef"])
    model.tokenizers = {"source": tokenizer, "target": tokenizer}
    model.learnt = {"sizes": Sizes(tokenizer.vocab_size, model.d_embed).to_dict(), "longest_source": 9, "longest_target": 9}
    rng = np.random.default_rng(0)
    model.net.restore({name: rng.normal(0, 0.4, shape).astype(np.float32) for name, shape in model.fitted_shapes().items()})
    assert not numeric
    return model


def both(model, sources=SOURCES):
    return model.steps().decoder(model.encode_sources(sources)), model._stepper(model.network(), sources)


def assert_same(ours, theirs, sources):
    """Through steps after which rows were dropped, copied and joined: few rows, and many."""
    n, rng, vocabulary = len(sources), np.random.default_rng(1), ours.vocab_size
    states = [stepper.start(n) for stepper in (ours, theirs)]
    for rows in (None, None, [0, 0, 2, 3], None, [0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3], None, [0, 4, 12], None, [1]):
        (own, log_probs), (other, expected) = states
        assert np.allclose(log_probs, expected, atol=1e-4)
        (looked, lengths), (weights, their_lengths) = ours.attention(own), theirs.attention(other)
        assert np.allclose(looked, weights[:, :looked.shape[1]], atol=1e-4)
        assert lengths.tolist() == their_lengths.tolist()
        if rows is not None:
            own, other = (select(state, np.array(rows)) for state in (own, other))
        ids = rng.integers(0, vocabulary, len(own.source))
        assert own.source.tolist() == other.source.tolist()
        states = [ours.step(own, ids), theirs.step(other, ids)]


@pytest.mark.parametrize("options", [
    {"norm": norm, "activation": activation, "tied": tied, "shared_vocabulary": shared} for norm, activation, (tied, shared) in
    itertools.product(("pre", "post"), ("relu", "gelu"), ((True, False), (False, True)))], ids=str)
def test_transformers_step_as_torch_does(options):
    assert_same(*both(made(Transformer, **options)), SOURCES)


@pytest.mark.parametrize("options", [
    *({"attention": attention, "cell": cell} for attention, cell in itertools.product(
        ("none", "additive", "dot", "general", "concat", "scaled"), ("rnn", "lstm", "gru"))),
    *({"attention": attention, "coverage": True, "input_feeding": True, "n_decoder_layers": 2}
      for attention in ("additive", "dot", "general", "concat", "scaled")),
    *({"encoder": encoder, "n_layers": layers} for encoder, layers in (
        ("bag", 1), ("window", 2), ("cnn", 2), ("rnn", 1), ("birnn", 1), ("lstm", 2), ("bilstm", 2), ("gru", 2))),
    {"encoder": "transformer", "n_layers": 2, "n_heads": 2}, {"tied": False, "reverse_source": True},
    {"bottleneck": "every-step", "cell": "lstm", "input_feeding": True}, {"bottleneck": "every-step", "attention": "none"},
    {**ONE, "cell": "lstm", "n_decoder_layers": 2}, {**ONE, "attention": "none", "d_embed": 8},
    {**ONE, "coverage": True, "attention": "dot"}], ids=str)
def test_recurrent_networks_step_as_torch_does(options):
    model = made(Seq2Seq, **options)
    assert_same(*both(model), SOURCES)
    ours, theirs = both(model, SOURCES[:1])  # read alone
    assert np.allclose(ours.start(1)[1], theirs.start(1)[1], atol=1e-4)
