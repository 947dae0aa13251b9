"""Translators step without torch as with it: the same log-probabilities and weights of the sources,
whatever the rows.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")


import seqloom
from seqloom.decoding.beam import (
    beam_search,
    forced_log_probs,
)
from seqloom.decoding.configs import TranslationConfig
from seqloom.decoding.stepper import select
from seqloom.errors import ConfigError, DataError, ModelError
from seqloom.models.sequence.configs import Sizes
from seqloom.models.translation.seq2seq import Seq2Seq
from seqloom.models.translation.transformer import Transformer
from seqloom.nn import position
from seqloom.runtime.position import bucket_biases, distance_buckets
from seqloom.text.tokenizer import Tokenizer

SOURCES = ["abcde", "a", "", "deadbeefcab", "bb"]
ONE = {"one_network": True, "shared_vocabulary": True}


def made(cls, *, columns=0, **options):
    """A model with random weights, none of them zero, on the alphabet; `columns` of sources that
    are numbers.
    """
    small = (
        {"d_embed": 12, "d_hidden": 8}
        if cls is Seq2Seq
        else {"d_model": 12, "n_heads": 2, "n_layers": 2, "n_decoder_layers": 2, "d_mlp": 20}
    )
    model = cls(**{"tokenizer": "char", **small, **options})
    tokenizer = Tokenizer(kind="char").fit(["abcdef"])
    model.tokenizers = {"target": tokenizer} | ({} if columns else {"source": tokenizer})
    sizes = (
        Sizes(columns=columns, missing=True)
        if columns
        else Sizes(tokenizer.vocab_size, model.d_embed)
    )
    model.learnt = {"sizes": sizes.to_dict(), "longest_source": 9, "longest_target": 9}
    rng = np.random.default_rng(0)
    model.net.restore(
        {
            name: rng.normal(0, 0.4, shape).astype(np.float32)
            for name, shape in model.fitted_shapes().items()
        }
    )
    model.fitted = True
    return model


def both(model, sources=SOURCES):
    return model.decoder(sources), model.network_decoder(
        model.network(), model.encode_sources(sources)
    )


def assert_same(ours, theirs, sources):
    """Through steps after which rows were dropped, copied and joined: few rows, and many."""
    n, rng, vocabulary = len(sources), np.random.default_rng(1), ours.vocab_size
    states = [stepper.start(n) for stepper in (ours, theirs)]
    for rows in (
        None,
        None,
        [0, 0, 2, 3],
        None,
        [0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3],
        None,
        [0, 4, 12],
        None,
        [1],
    ):
        (own, log_probs), (other, expected) = states
        assert np.allclose(log_probs, expected, atol=1e-4)
        (attention_weights, lengths), (weights, their_lengths) = (
            ours.attention(own),
            theirs.attention(other),
        )
        assert np.allclose(attention_weights, weights[:, : attention_weights.shape[1]], atol=1e-4)
        assert lengths.tolist() == their_lengths.tolist()
        if rows is not None:
            own, other = (select(state, np.array(rows)) for state in (own, other))
        ids = rng.integers(0, vocabulary, len(own.source))
        assert own.source.tolist() == other.source.tolist()
        states = [ours.step(own, ids), theirs.step(other, ids)]


@pytest.fixture(scope="module", params=[Transformer, Seq2Seq])
def model(request):
    return made(request.param)


def test_what_converted_weights_begin_with_and_never_write():
    model = made(Transformer, positions="learned", context=300)
    plain = both(model)[0]
    model.learnt |= {"start": [4, 2], "source_start": 3, "never": [1, 5]}
    model.net.restore(model.weights)
    ours, theirs = both(model)
    assert_same(ours, theirs, SOURCES)
    log_probs = ours.start(5)[1]
    assert np.isneginf(log_probs[:, [1, 5]]).all()
    assert np.allclose(np.exp(log_probs).sum(1), 1, atol=1e-5)
    assert not np.allclose(log_probs[:, 2], plain.start(5)[1][:, 2], atol=1e-2)
    assert model.encode_sources(["ab", ""]).row_offsets.tolist() == [0, 4, 6]
    targets = ["abf", "", "c"]
    by_steps = forced_log_probs(model.decoder(SOURCES[:3]), model.target_ids(targets))
    for ours, theirs in zip(model.pair_log_probs(SOURCES[:3], targets), by_steps, strict=True):
        assert np.allclose(ours, theirs, atol=1e-4)
    aligned = model.alignments(SOURCES[:3], targets)
    assert [one.shape for one in aligned] == [(4, 6), (1, 2), (2, 1)]
    assert all(np.allclose(one.sum(1), 1) for one in aligned)


@pytest.mark.parametrize(
    "damage",
    [
        {"start": [99]},
        {"source_start": 99},
        {"never": [99]},
        {"never": [0]},
        {"start": []},
        {"start": [-1]},
        {"start": 3},
        {"never": ["a"]},
    ],
    ids=str,
)
def test_tokens_that_cannot_be_are_refused(damage, tmp_path):
    made(Transformer).save(tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    config["learnt"] |= damage
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match=r"damaged|invalid learned value"):
        seqloom.load(tmp_path / "model")


def test_learned_positions_end():
    model = made(Transformer, positions="learned", context=300)
    with pytest.raises(
        DataError, match="a source has 301 tokens, and this transformer model has positions for 300"
    ):
        model.translate("a" * 300)
    with pytest.raises(DataError, match="a target has 302 tokens"):
        model.score("a", "a" * 301)
    with pytest.raises(
        ConfigError, match="max_tokens is 300; this transformer model has positions for 299"
    ):
        model.translate("a", max_tokens=300)
    model.learnt["longest_target"] = 1000
    assert model.token_limit(TranslationConfig()) == 299
    for stepper in both(model, ["a"]):  # as far as this they do go
        found = beam_search(
            stepper, [np.zeros(0, np.int64)], beams=2, max_tokens=299, min_tokens=299
        )
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
        by_distance = bucket_biases(table, far, causal=False)[0]
        assert by_distance[distance.numpy().clip(-far, far) + far].tolist() == both_ways.tolist()


@pytest.mark.parametrize(
    ("cls", "options"),
    [
        (Transformer, {}),
        (Transformer, {"positions": "t5", "norm": "post", "tied": False}),
        (Seq2Seq, {}),
        (Seq2Seq, {"coverage": True, "input_feeding": True, "cell": "lstm", "n_decoder_layers": 2}),
        (Seq2Seq, {"attention": "none", "tied": False}),
        (Seq2Seq, {**ONE, "attention": "dot"}),
        (Seq2Seq, {"reverse_source": True}),
    ],
    ids=str,
)
def test_steps_are_those_of_torch(cls, options):
    """For few rows and many; `tests/runtime` has all options."""
    model = made(cls, **options)
    assert_same(*both(model), SOURCES)


@pytest.mark.parametrize("beams", [1, 3, 5])
def test_a_search_finds_what_it_finds_with_torch(model, beams):
    options = {
        "beams": beams,
        "nbest": beams,
        "max_tokens": 40,
        "min_tokens": 36,
    }  # more than a row has place for at first
    ours, theirs = (
        beam_search(stepper, [np.zeros(0, np.int64)] * len(SOURCES), **options)
        for stepper in both(model)
    )
    for found, expected in zip(ours, theirs, strict=True):
        assert [h.ids.tolist() for h in found] == [h.ids.tolist() for h in expected]
        assert np.allclose([h.log_prob for h in found], [h.log_prob for h in expected], atol=1e-3)


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
    call = (
        "import sys, seqloom\nmodel = seqloom.load(sys.argv[1])\nprint(model.translate('ab', beams=3))\n"
        "print('torch' in sys.modules)\nsys.modules['torch'] = None\nprint(model.score('ab', 'b'))"
    )
    text, imported, score = subprocess.run(
        [sys.executable, "-c", call, str(place)], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    model = seqloom.load(place)
    assert imported == "False"
    assert text == model.translate("ab", beams=3)
    assert float(score) == pytest.approx(model.score("ab", "b"), abs=1e-4)
