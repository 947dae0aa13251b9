"""Translators with 8 and 4 bits a weight: they translate and score near the same weights in
float32, without making them.
"""

import numpy as np
import pytest

import seqloom
from seqloom import interop
from seqloom.decoding.configs import TranslationConfig
from seqloom.models.translation.pairs import encode_texts
from seqloom.models.translation.seq2seq import Seq2Seq
from seqloom.models.translation.transformer import Transformer
from seqloom.runtime.quantised import Quantised
from seqloom.training.config import TrainConfig
from tests.fuzz.published import TRANSLATOR, TRANSLATORS
from tests.fuzz.specimens import REVERSED
from tests.models.test_translate_steps import SOURCES, made

TARGETS = ["abc", "", "fed", "cafe", "bb"]
WIDE = {"d_model": 64, "d_mlp": 96, "n_heads": 4}
LAYOUTS = {
    "plain": {},
    "wide": WIDE,
    "marian": {**WIDE, "norm": "post", "shared_vocabulary": True},
    "t5": {
        "positions": "t5",
        "norm_kind": "rms",
        "bias": False,
        "scaled_attention": False,
        "scaled_embedding": False,
        "d_head": 5,
        "scaled_output": True,
        "activation": "geglu",
        "d_model": 11,
        "shared_vocabulary": True,
    },
    "bart": {
        "positions": "learned",
        "norm": "post",
        "embedding_norm": True,
        "activation": "gelu-erf",
        "tied": False,
    },
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("bits", [8, 4])
def test_as_the_same_weights_in_float32(bits, layout):
    """But for the inputs of products: of 16 bits in the encoder, of 8 in the decoder."""
    model = made(Transformer, **LAYOUTS[layout]).quantised(bits)
    wanted = model._log_probs(
        model.network(),
        model.encode_sources(SOURCES),
        encode_texts(model.target_tokenizer, TARGETS),
    )
    for found, expected in zip(model.pair_log_probs(SOURCES, TARGETS), wanted):
        assert np.allclose(found, expected, atol=0.1)
    off = np.abs(np.concatenate(model.pair_log_probs(SOURCES, TARGETS)) - np.concatenate(wanted))
    assert 0 < off.mean() < 0.02


def test_sources_of_numbers():
    sources = [
        np.random.default_rng(n).normal(size=(n, 3)).astype(np.float32) for n in (3, 1, 2, 7, 4)
    ]
    model = made(Transformer, columns=3).quantised(8)
    wanted = model._log_probs(
        model.network(),
        model.encode_sources(sources),
        encode_texts(model.target_tokenizer, TARGETS),
    )
    assert np.allclose(
        np.concatenate(model.pair_log_probs(sources, TARGETS)), np.concatenate(wanted), atol=0.05
    )


@pytest.mark.parametrize("beams", [1, 4])
def test_translations_have_the_scores_of_their_texts(beams):
    """Searching with few and many rows, and scoring what was found."""
    model = made(Transformer, **WIDE).quantised(8)
    for sources in (SOURCES[:1], SOURCES * 4):
        how = TranslationConfig(beams=beams, max_tokens=6, length_penalty=0)
        for source, found in zip(sources, model.translations(sources, how)):
            best = found[0]
            if best.finished:
                assert best.log_prob == pytest.approx(
                    model.score([source], [best.text])[0], abs=0.05
                )


@pytest.mark.parametrize("bits", [8, 4])
def test_it_is_kept_in_its_file(bits, tmp_path):
    model = made(Transformer, **WIDE, positions="learned", context=30, max_length=20)
    small = model.quantised(bits)
    assert {name for name in small.weights.others if model.weights[name].ndim == 2} == {
        "encoder_entrance.position.weight",
        "decoder_entrance.position.weight",
    }
    assert (
        small.weights.matrices["reader.embedding.weight"].bits
        == small.weights.matrices["embedding.weight"].bits
        == 8
    )
    assert (
        sum(array.nbytes for array in small.arrays().values())
        < sum(a.nbytes for a in model.arrays().values()) / 2.5
    )
    small.save(tmp_path / "m")
    again = seqloom.load(tmp_path / "m")
    assert again.label() == f"transformer-2+2x64-{bits}bit"
    assert again.parameters == model.parameters
    assert again.translate(SOURCES, max_tokens=8, beams=3) == small.translate(
        SOURCES, max_tokens=8, beams=3
    )
    assert again.score(SOURCES, TARGETS) == small.score(SOURCES, TARGETS)


def test_matrices_stay_mapped_and_are_never_float32(tmp_path, monkeypatch):
    made(Transformer, **WIDE).quantised(8).save(tmp_path / "m")
    monkeypatch.setattr(Quantised, "floats", None)
    model = seqloom.load(tmp_path / "m")
    assert len(model.translate(SOURCES, max_tokens=8)) == len(model.score(SOURCES, TARGETS)) == 5
    queries = model.runtime().decoder[0].query.packed
    assert (queries.rows, queries.weight.shape[0]) == (64, 4)
    assert not any(array.flags.owndata for array in (queries.weight, queries.scale))


def test_written_for_transformers_it_has_its_weights_in_float32(tmp_path):
    train = TrainConfig(steps=1, batch_size=2)
    model = (
        Transformer(**TRANSLATOR, **TRANSLATORS["marian"]).fit(REVERSED, train=train).quantised(8)
    )
    interop.write(model, tmp_path / "theirs")
    again = interop.open(tmp_path / "theirs")
    assert again.bits is None
    assert np.array_equal(
        again.weights["decoder.0.mlp.up.weight"], model.weights["decoder.0.mlp.up.weight"]
    )
    assert np.allclose(again.score(["abc"], ["cba"]), model.score(["abc"], ["cba"]), atol=0.05)


@pytest.mark.parametrize("beams", [1, 4])
def test_recurrent_translators_too(beams):
    model = made(Seq2Seq).quantised(8)
    wanted = model._log_probs(
        model.network(),
        model.encode_sources(SOURCES),
        encode_texts(model.target_tokenizer, TARGETS),
    )
    assert np.allclose(
        np.concatenate(model.pair_log_probs(SOURCES, TARGETS)), np.concatenate(wanted), atol=0.1
    )
    for source, found in zip(
        SOURCES,
        model.translations(SOURCES, TranslationConfig(beams=beams, max_tokens=6, length_penalty=0)),
    ):
        if found[0].finished:
            assert found[0].log_prob == pytest.approx(
                model.score([source], [found[0].text])[0], abs=0.05
            )
