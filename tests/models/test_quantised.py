"""8 and 4 bits a weight: how far weights and the scores of a gpt move, that all ways of reading
agree, saving of every network, what is refused.
"""

import json

import numpy as np
import pytest

import seqloom
from seqloom.contracts.language import LanguageModel
from seqloom.errors import ConfigError, ModelError, SeqloomError
from seqloom.models.language.gpt import GPT
from seqloom.models.network.network import NetworkModel
from seqloom.registry import MODELS, model_class
from seqloom.runtime.quantised import BLOCK, Blocks, Quantised
from seqloom.runtime.weights import Linear
from seqloom.training.config import TrainConfig
from tests.fuzz.specimens import SPECIMENS
from tests.saved import ask

TEXT = "the cat sat on the mat and the dog sat on the log\n" * 40
FAR = {
    8: 0.1,
    4: 0.8,
}  # nats of a token, in the small model of these tests; rounding the activations is part of it


@pytest.fixture(scope="module")
def model():
    pytest.importorskip("torch")
    return GPT(
        tokenizer="char",
        d_model=48,
        n_heads=4,
        n_kv_heads=2,
        n_layers=2,
        d_mlp=40,
        context=16,
        activation="swiglu",
        norm_kind="rms",
        bias=False,
    ).fit(TEXT, train=TrainConfig(steps=60, batch_size=8, lr=0.01, seed=1))


@pytest.fixture(scope="module", params=[8, 4])
def small(request, model):
    return model.quantised(request.param)


# ---- matrices


@pytest.mark.parametrize("shape", [(40, 64), (3, 70), (17, 5)])
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize(
    "centre", [0, 9]
)  # far from zero, which what is beyond the last column must not bring in
def test_a_weight_is_off_by_half_a_step_of_its_block(bits, shape, centre):
    weight = np.random.default_rng(0).normal(centre, size=shape).astype(np.float32)
    weight[1] *= 1000  # spoils only its own blocks
    weight[2] = 0
    blocks = Blocks.of(weight, bits)
    step = np.repeat(blocks.scale.astype(np.float64), BLOCK, axis=1)[:, : shape[1]]
    least = (
        0
        if blocks.minimum is None
        else np.repeat(blocks.minimum.astype(np.float64), BLOCK, axis=1)[:, : shape[1]]
    )
    found = blocks.tiles().floats()
    assert (np.abs(found - weight) <= step / 2 * 1.001 + np.abs(least) * 2**-11 + 1e-7).all()
    size = (
        np.abs(weight).max(axis=1, keepdims=True) if bits == 8 else np.ptp(weight, axis=1)[:, None]
    )
    assert (step <= size / (127 if bits == 8 else 15) * 1.002 + np.abs(least) * 2**-11).all()


@pytest.mark.parametrize("bits", [8, 4])
def test_tiny_weights_keep_their_size(bits):
    """Steps between float16 are as large as the scale itself here; one too small would cut off the
    largest weights.
    """
    weight = (np.geomspace(1e-6, 1e-4, 64)[:, None] * np.linspace(-1, 1, BLOCK)).astype(np.float32)
    blocks = Blocks.of(weight, bits)
    apart = np.abs(blocks.tiles().floats() - weight)
    assert (apart <= blocks.scale.astype(np.float64) * 0.501 + 2.0**-24).all()


@pytest.mark.parametrize("bits", [8, 4])
def test_what_was_rounded_once_stays_as_it_is(bits):
    once = Quantised.of(np.random.default_rng(1).normal(size=(32, 96)).astype(np.float32), bits)
    again = Quantised.of(once.floats(), bits)
    assert np.array_equal(once.weight, again.weight)
    assert np.array_equal(once.floats(), again.floats())


@pytest.mark.parametrize(
    "rows", [slice(None), slice(16), slice(16, None), slice(5, 20), slice(7)], ids=str
)
@pytest.mark.parametrize("bits", [8, 4])
def test_some_rows_of_a_matrix(bits, rows):
    """Whole tiles are a view, others a copy; no number changes."""
    whole = Quantised.of(np.random.default_rng(2).normal(size=(40, 70)).astype(np.float32), bits)
    part = whole.part(rows)
    assert np.array_equal(part.floats(), whole.floats()[rows])
    assert np.shares_memory(part.weight, whole.weight) == (rows.start != 5 and rows.stop != 7)
    x = np.random.default_rng(3).normal(size=(3, 70)).astype(np.float32)
    assert np.allclose(Linear(part)(x), Linear(whole)(x)[:, rows], atol=1e-5)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e10])
@pytest.mark.parametrize("bits", [8, 4])
def test_weights_without_a_scale_are_refused(bits, value):
    weight = np.ones((16, 32), np.float32)
    weight[3, 4] = value
    with pytest.raises(ModelError, match=r"the weights up have numbers that . bits cannot hold"):
        Blocks.of(weight, bits, "up")


# ---- models


def test_scores_are_near_those_of_the_same_weights_in_float32(model, small):
    """The kernel rounds activations, so it is held against float32 activations and the weights as
    they were rounded.
    """
    turned = model.quantised(small.bits)
    turned.net.restore({name: np.array(array) for name, array in small.weights.items()})
    turned.learnt = model.learnt
    ids = model.tokenizer.encode(TEXT[:200])
    exact, found = (m.sequence_log_probs(ids, np.array([len(ids)])) for m in (turned, small))
    assert 0 < np.abs(exact - found).mean() < 0.01
    assert np.abs(exact - found).max() < 0.1


def test_scores_are_near_those_of_the_model(model, small):
    assert (
        np.abs(np.subtract(small.token_scores(TEXT[:100]), model.token_scores(TEXT[:100]))).max()
        < FAR[small.bits]
    )
    assert abs(small.perplexity(TEXT) / model.perplexity(TEXT) - 1) < (
        0.003 if small.bits == 8 else 0.05
    )


def test_scoring_stepping_and_prompts_agree(small):
    """But for sums in another order, after which a number may be rounded to its other neighbour."""
    ids = np.random.default_rng(0).integers(0, small.tokenizer.vocab_size, 60)
    lengths = np.array([1, 2, 40, 17])
    assert np.allclose(
        small.sequence_log_probs(ids, lengths),
        LanguageModel.sequence_log_probs(small, ids, lengths),
        atol=0.05,
    )
    whole = small.sequence_log_probs(ids, np.array([60]))
    first, state = small.continue_log_probs(ids[:25], None)
    second, _ = small.continue_log_probs(ids[25:], state)
    assert np.allclose(np.concatenate([first, second]), whole, atol=0.05)
    features, log_probs = small.sequence_features(ids, np.array([60]))
    assert np.array_equal(log_probs, whole)
    stepper = small.stepper()
    state, _ = stepper.prefill([ids[:10]])
    assert np.allclose(stepper.features(state), features[10], atol=0.05)


def test_eight_bit_changes_nothing_in_it(small):
    assert small.generate("the", eight_bit=True, max_tokens=8, seed=2) == small.generate(
        "the", max_tokens=8, seed=2
    )


def test_it_is_small_in_memory_and_in_its_file(model, small, tmp_path):
    matrices = {name: array for name, array in model.weights.items() if array.ndim == 2}
    assert small.parameters == model.parameters
    assert (
        sum(array.nbytes for array in small.arrays().values())
        < sum(a.nbytes for a in matrices.values()) / 2
    )
    assert small.bits == small.learnt["bits"]
    assert small.weights.keys() == model.weights.keys()
    assert small.label() == f"gpt-2x48-{small.bits}bit"
    small.save(tmp_path / "m")
    again = seqloom.load(tmp_path / "m")
    assert json.loads((tmp_path / "m" / "config.json").read_text())["learnt"]["bits"] == small.bits
    assert again.score(TEXT) == small.score(TEXT)
    assert again.generate("the c", temperature=0, max_tokens=20) == small.generate(
        "the c", temperature=0, max_tokens=20
    )
    assert {array.dtype.name for array in again.arrays().values()} == {
        "int8",
        "float16",
        "float32",
        *(["uint8"] if small.bits == 4 else []),
    }


def test_the_matrices_of_a_file_stay_mapped(small, tmp_path):
    """Opening copies nothing."""
    small.save(tmp_path / "m")
    packed = seqloom.load(tmp_path / "m").runtime().output.linear.packed
    assert not any(array.flags.owndata for array in (packed.weight, packed.scale, packed.minimum))


def test_its_network_can_be_had_in_float32(small):
    import torch

    ids = small.tokenizer.encode(TEXT[:12])[None]
    with torch.inference_mode():
        features, _ = small.network()(torch.from_numpy(ids))
    assert np.allclose(features[0].numpy(), small.stepper().read(ids)[0], atol=0.05)


def test_every_layout(tmp_path):
    pytest.importorskip("torch")
    for options in (
        {"positions": "learned", "tied": False},
        {"positions": "alibi", "softmax": "adaptive"},
        {"norm": "post"},
    ):
        model = GPT(tokenizer="char", d_model=8, n_heads=2, n_layers=1, context=8, **options).fit(
            TEXT, train=TrainConfig(steps=1, batch_size=2)
        )
        model.quantised(4).save(tmp_path / "m")
        assert (
            abs(seqloom.load(tmp_path / "m").score(TEXT[:90]) / model.score(TEXT[:90]) - 1) < 0.05
        )


# ---- what is refused


def test_what_cannot_be_quantised(model, small):
    with pytest.raises(ConfigError, match=r"^bits is 3; it must be 8 or 4$"):
        model.quantised(3)
    with pytest.raises(ConfigError, match=f"has {small.bits} bits a weight already"):
        small.quantised(4)
    with pytest.raises(ConfigError, match=f"^weights of {small.bits} bits cannot be trained"):
        small.evaluate(TEXT, dynamic=True)
    with pytest.raises(SeqloomError, match="has not been fitted"):
        GPT().quantised(8)


# ---- every network

ROUNDED = [name for name in SPECIMENS if name.endswith("-bit")]


def test_there_is_one_of_every_network():
    networks = {name for name in MODELS if issubclass(model_class(name), NetworkModel)}
    assert {SPECIMENS[name]().name for name in ROUNDED} == networks - {
        "sentence-encoder"
    }  # which has a test of its own


@pytest.mark.parametrize("name", ROUNDED)
def test_a_saved_one_answers_as_before_it_was_saved(name, tmp_path):
    pytest.importorskip("torch")
    model = SPECIMENS[name]()
    model.save(tmp_path / "m")
    again = seqloom.load(tmp_path / "m")
    assert again.bits == model.bits == int(name.split("-")[-2])
    assert again.label() == model.label()
    assert model.label().endswith(f"-{model.bits}bit")
    assert again.parameters == model.parameters
    assert {key: array.tolist() for key, array in again.arrays().items()} == {
        key: array.tolist() for key, array in model.arrays().items()
    }
    assert ask(again) == ask(model)


@pytest.mark.parametrize(
    "name", ["lstm-plain", "nplm", "classifier", "tagger-gru", "seq2seq", "forecaster"]
)
def test_answers_are_near_those_of_the_model(name):
    """Of networks after one step, which say little."""
    pytest.importorskip("torch")
    model = SPECIMENS[name]()
    for bits, close in ((8, 0.02), (4, 0.2)):
        found, wanted = (numbers_in(ask(each)) for each in (model.quantised(bits), model))
        assert np.abs(np.subtract(found, wanted)).max() < close * max(1, np.abs(wanted).max())


def numbers_in(answer):
    """All numbers of an answer; of tags, how many there are."""
    if isinstance(answer, dict):
        return [number for value in answer.values() for number in numbers_in(value)]
    if isinstance(answer, list):
        return [number for value in answer for number in numbers_in(value)]
    return [answer] if isinstance(answer, float) else [1.0]
