"""Translators step without torch as with it: the same log-probabilities and weights of the sources, whatever the rows."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from seqloom.models.translate.encoder_steps import biases_around, distance_buckets  # noqa: E402

import seqloom  # noqa: E402
from seqloom.decoding.beam import beam_search  # noqa: E402
from seqloom.decoding.forced import forced_log_probs  # noqa: E402
from seqloom.decoding.stepper import join, select  # noqa: E402
from seqloom.decoding.translation_config import TranslationConfig  # noqa: E402
from seqloom.errors import ConfigError, DataError, ModelError  # noqa: E402
from seqloom.models.sequence.sizes import Sizes  # noqa: E402
from seqloom.models.translate.seq2seq import Seq2Seq  # noqa: E402
from seqloom.models.translate.transformer import Transformer  # noqa: E402
from seqloom.nn import position  # noqa: E402
from seqloom.text.tokenizer import Tokenizer  # noqa: E402

SOURCES = ["abcde", "a", "", "deadbeefcab", "bb"]
ONE = {"one_network": True, "shared_vocabulary": True}


def made(cls, *, columns=0, **options):
    """A model with random weights, none of them zero, on the alphabet; `columns` of sources that are numbers."""
    small = ({"d_embed": 12, "d_hidden": 8} if cls is Seq2Seq else
             {"d_model": 12, "n_heads": 2, "n_layers": 2, "n_decoder_layers": 2, "d_mlp": 20})
    model = cls(**{"tokenizer": "char", **small, **options})
    tokenizer = Tokenizer(kind="char").fit(["abcdef"])
    model.tokenizers = {"target": tokenizer} | ({} if columns else {"source": tokenizer})
    sizes = Sizes(columns=columns, missing=True) if columns else Sizes(tokenizer.vocab_size, model.d_embed)
    model.learnt = {"sizes": sizes.to_dict(), "longest_source": 9, "longest_target": 9}
    rng = np.random.default_rng(0)
    model.net.restore({name: rng.normal(0, 0.4, shape).astype(np.float32) for name, shape in model.fitted_shapes().items()})
    model.fitted = True
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


@pytest.fixture(scope="module", params=[Transformer, Seq2Seq])
def model(request):
    return made(request.param)


@pytest.mark.parametrize("options", [
    {"norm": norm, "activation": activation, "tied": tied, "shared_vocabulary": shared} for norm, activation, (tied, shared) in
    itertools.product(("pre", "post"), ("relu", "gelu"), ((True, False), (False, True)))], ids=str)
def test_transformers_step_as_torch_does(options):
    assert_same(*both(made(Transformer, **options)), SOURCES)


@pytest.mark.parametrize("options", [
    {"positions": "learned"}, {"positions": "t5"}, {"positions": "t5", "buckets": 6, "max_distance": 4, "norm": "post"},
    {"norm_kind": "rms"}, {"norm_epsilon": 0.5}, {"norm_kind": "rms", "norm_epsilon": 0.5, "norm": "post"},
    {"embedding_norm": True}, {"activation": "gelu-erf"}, {"activation": "swish", "norm": "post"}, {"activation": "geglu"},
    {"activation": "swiglu", "bias": False}, {"bias": False, "norm": "post", "tied": False}, {"scaled_attention": False},
    {"scaled_embedding": False}, {"scaled_output": True}, {"d_head": 3}, {"d_head": 7, "norm": "post"},
    {"positions": "t5", "norm_kind": "rms", "bias": False, "scaled_attention": False, "scaled_embedding": False, "d_head": 5,
     "scaled_output": True, "activation": "geglu", "d_model": 11, "shared_vocabulary": True},
    {"positions": "learned", "norm": "post", "embedding_norm": True, "activation": "gelu-erf", "shared_vocabulary": True}],
    ids=str)
def test_transformers_of_other_kinds_step_as_torch_does(options):
    plain, model = made(Transformer), made(Transformer, **options)
    ours, theirs = both(model)
    assert_same(ours, theirs, SOURCES)
    assert not np.allclose(ours.start(5)[1], both(plain)[0].start(5)[1], atol=1e-2)


def test_what_converted_weights_begin_with_and_never_write():
    model = made(Transformer, positions="learned", context=300)
    plain = both(model)[0]
    model.learnt |= {"start": [4, 2], "source_start": 3, "never": [1, 5]}
    model.net.restore(model.weights)
    model._steps = None
    ours, theirs = both(model)
    assert_same(ours, theirs, SOURCES)
    log_probs = ours.start(5)[1]
    assert np.isneginf(log_probs[:, [1, 5]]).all()
    assert np.allclose(np.exp(log_probs).sum(1), 1, atol=1e-5)
    assert not np.allclose(log_probs[:, 2], plain.start(5)[1][:, 2], atol=1e-2)
    assert model.encode_sources(["ab", ""]).borders.tolist() == [0, 4, 6]
    targets = ["abf", "", "c"]
    by_steps = forced_log_probs(model.decoder(SOURCES[:3]), model.target_ids(targets))
    for ours, theirs in zip(model.pair_log_probs(SOURCES[:3], targets), by_steps, strict=True):
        assert np.allclose(ours, theirs, atol=1e-4)
    aligned = model.alignments(SOURCES[:3], targets)
    assert [one.shape for one in aligned] == [(4, 6), (1, 2), (2, 1)]
    assert all(np.allclose(one.sum(1), 1) for one in aligned)


@pytest.mark.parametrize("damage", [{"start": [99]}, {"source_start": 99}, {"never": [99]}, {"never": [0]}, {"start": []},
                                    {"start": [-1]}, {"start": 3}, {"never": ["a"]}], ids=str)
def test_tokens_that_cannot_be_are_refused(damage, tmp_path):
    made(Transformer).save(tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    config["learnt"] |= damage
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match=r"damaged|invalid learned value"):
        seqloom.load(tmp_path / "model")


def test_learned_positions_end():
    model = made(Transformer, positions="learned", context=300)
    with pytest.raises(DataError, match="a source has 301 tokens, and this transformer model has positions for 300"):
        model.translate("a" * 300)
    with pytest.raises(DataError, match="a target has 302 tokens"):
        model.score("a", "a" * 301)
    with pytest.raises(ConfigError, match="max_tokens is 300; this transformer model has positions for 299"):
        model.translate("a", max_tokens=300)
    model.learnt["longest_target"] = 1000
    assert model.token_limit(TranslationConfig()) == 299
    for stepper in both(model, ["a"]):  # as far as this they do go
        found = beam_search(stepper, [np.zeros(0, np.int64)], beams=2, max_tokens=299, min_tokens=299)
        assert len(found[0][0].ids) >= 298
    with pytest.raises(ConfigError, match="context 100 must be at least max_length 250"):
        made(Transformer, positions="learned", context=100)


@pytest.mark.parametrize("buckets", [4, 8, 14, 32, 64])
def test_buckets_of_distances_are_the_same_with_and_without_torch(buckets):
    for far in (buckets // 2 + 1, 40, 128, 500):
        distance = torch.arange(-far - 50, far + 51)
        back = distance_buckets(far, buckets)
        expected = position.distance_buckets(distance, buckets, far, causal=True)
        assert back[(-distance.numpy()).clip(0, far)].tolist() == expected.tolist()
        both_ways = position.distance_buckets(distance, buckets, far, causal=False)
        assert both_ways.max() == buckets - 1
        table = np.arange(buckets, dtype=np.float32)[:, None]
        around = biases_around(table, far, 2 * far + 101)[0, far + 50]
        assert around.tolist() == both_ways.tolist()


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


@pytest.mark.parametrize("options", [{}, {"bottleneck": "every-step", "input_feeding": True}], ids=str)
def test_a_large_vocabulary_is_not_multiplied_beforehand(options, monkeypatch):
    monkeypatch.setattr("seqloom.models.translate.seq2seq_steps.SMALL", 0)
    model = made(Seq2Seq, **options)
    assert_same(*both(model), SOURCES)
    assert model.steps().token_gates is None


@pytest.mark.parametrize("cls", [Transformer, Seq2Seq])
def test_sources_of_numbers_step_as_torch_does(cls):
    rng = np.random.default_rng(2)
    sources = [rng.normal(size=(n, 3)).astype(np.float32) for n in (4, 1, 0, 7, 2)]
    sources[0][1, 1] = np.nan
    model = made(cls, columns=3)
    ours, theirs = both(model, sources)
    (state, log_probs), (other, expected) = ours.start(5), theirs.start(5)
    assert np.allclose(log_probs, expected, atol=1e-4)
    assert np.allclose(ours.step(state, np.arange(5))[1], theirs.step(other, np.arange(5))[1], atol=1e-4)


@pytest.mark.parametrize("beams", [1, 3, 5])
def test_a_search_finds_what_it_finds_with_torch(model, beams):
    options = {"beams": beams, "nbest": beams, "max_tokens": 40, "min_tokens": 36}  # more than a row has place for at first
    ours, theirs = (beam_search(stepper, [np.zeros(0, np.int64)] * len(SOURCES), **options) for stepper in both(model))
    for found, expected in zip(ours, theirs, strict=True):
        assert [h.ids.tolist() for h in found] == [h.ids.tolist() for h in expected]
        assert np.allclose([h.log_prob for h in found], [h.log_prob for h in expected], atol=1e-3)


def test_a_state_is_a_value(model):
    stepper = both(model)[0]
    kept, _ = stepper.start(3)
    every = np.arange(3)
    once, first = stepper.step(select(kept, every), np.array([1, 2, 3]))
    stepper.step(select(kept, every), np.array([3, 3, 3]))
    stepper.step(stepper.start(5)[0], np.arange(5))
    assert np.array_equal(stepper.step(select(kept, every), np.array([1, 2, 3]))[1], first)
    expected = stepper.step(select(once, every), np.array([2, 2, 2]))[1]
    other = stepper.step(stepper.start(3)[0], np.array([1, 2, 3]))[0]
    mixed = join([select(once, every[:1]), select(other, every[1:])])  # rows of two starts
    assert np.allclose(stepper.step(mixed, np.array([2, 2, 2]))[1], expected, atol=1e-5)


def test_no_rows(model):
    stepper = both(model)[0]
    state, _ = stepper.start(2)
    state, log_probs = stepper.step(select(state, np.zeros(0, np.int64)), np.zeros(0, np.int64))
    assert log_probs.shape == (0, stepper.vocab_size)
    assert len(state.source) == 0


def test_new_weights_are_stepped_with(model):
    before = model.decoder(SOURCES[:1]).start(1)[1]
    old = model.weights
    model.net.restore({name: array * np.float32(0.5) for name, array in old.items()})
    changed = model.decoder(SOURCES[:1]).start(1)[1]
    model.net.restore(old)
    assert not np.allclose(changed, before, atol=1e-3)
    assert np.array_equal(model.decoder(SOURCES[:1]).start(1)[1], before)


@pytest.mark.parametrize("name", ["transformer", "seq2seq"])
def test_torch_is_not_imported_to_translate_nor_needed_to_score(name):
    place = Path(__file__).parent.parent / "saved" / "format-2" / name
    call = ("import sys, seqloom\nmodel = seqloom.load(sys.argv[1])\nprint(model.translate('ab', beams=3))\n"
            "print('torch' in sys.modules)\nsys.modules['torch'] = None\nprint(model.score('ab', 'b'))")
    text, imported, score = subprocess.run([sys.executable, "-c", call, str(place)], capture_output=True, text=True,
                                           check=True).stdout.splitlines()
    model = seqloom.load(place)
    assert imported == "False"
    assert text == model.translate("ab", beams=3)
    assert float(score) == pytest.approx(model.score("ab", "b"), abs=1e-4)
