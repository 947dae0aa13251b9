"""Masked language models without torch are those of torch's network, for every layout; with 8 and 4
bits they stay near it.
"""

import subprocess
import sys

import numpy as np
import pytest

import seqloom
from seqloom import interop
from seqloom.models.masked import inputs
from seqloom.models.masked.inputs import hidden_states
from seqloom.models.sequence.published import open_encoder
from seqloom.runtime.quantised import Quantised
from tests.fuzz.specimens import random_encoder
from tests.runtime.networks import LAYOUTS

TEXTS = [
    "the [MASK] sat on [MASK]",
    ("cat [MASK]", "the log [MASK]"),
    "[MASK]",
    "the cat [MASK] a b c d e f g h",
] * 3
WIDE = {"d_model": 96, "n_heads": 6, "d_mlp": 128}
FAR = {
    8: 0.2,
    4: 2,
}  # nats of a token, on average, from the model that was rounded; its weights are large


def make(**options):
    usual = {"context": 24, "d_model": 12, "n_layers": 3, "n_heads": 3, "d_mlp": 20}
    return random_encoder("bert", **{**usual, **options})


def log_probs(model):
    return np.concatenate(model.mask_log_probs([model.encode(text) for text in TEXTS]))


def by_torch(model):
    """With float32 activations, and the weights as they were rounded."""
    pytest.importorskip("torch")
    joined = [model.marks.join(model.encode(text), model.config.n_types) for text in TEXTS]
    hidden = hidden_states(
        model.network(), [model.marks.hide(one) for one in joined], model.marks.pad
    )
    return np.concatenate(model._guessed_by_torch(joined)), hidden


@pytest.mark.parametrize("head", [{}, {"tied": False}, {"head_activation": "relu"}], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_both_networks_guess_the_same(layout, head, monkeypatch):
    model = make(**LAYOUTS[layout], **head)
    expected, hidden = by_torch(model)
    assert expected.max() > -2.9  # far from even chances of 62 tokens
    np.testing.assert_allclose(log_probs(model), expected, atol=1e-5)
    for found, vectors in zip(model.hidden(TEXTS), hidden):
        np.testing.assert_allclose(found.vectors, vectors, atol=1e-5)
    monkeypatch.setattr(type(model.net), "on_cpu", False)
    assert np.array_equal(log_probs(model), expected)
    assert all(
        np.array_equal(found.vectors, vectors)
        for found, vectors in zip(model.hidden(TEXTS), hidden)
    )


def test_groups_and_threads_change_nothing(monkeypatch):
    model = make()
    whole, hidden = log_probs(model), model.hidden(TEXTS)
    monkeypatch.setattr(inputs, "GROUP", 9)
    monkeypatch.setenv("SEQLOOM_THREADS", "2")
    np.testing.assert_allclose(log_probs(model), whole, atol=1e-5)
    for found, expected in zip(model.hidden(TEXTS), hidden):
        assert found.tokens == expected.tokens
        np.testing.assert_allclose(found.vectors, expected.vectors, atol=1e-5)


# ---- fewer bits


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("bits", [8, 4])
def test_as_the_same_weights_in_float32(bits, layout):
    """But for the inputs of products, which have 16 bits; log-probabilities are as low as -14 here."""
    sizes = {
        "d_model": 48,
        "d_mlp": 64,
        **LAYOUTS[layout],
        **({"d_embed": 40} if "d_embed" in LAYOUTS[layout] else {}),
    }
    model = make(**sizes).quantised(bits)
    expected, hidden = by_torch(model)
    np.testing.assert_allclose(log_probs(model), expected, atol=5e-3)
    for found, vectors in zip(model.hidden(TEXTS), hidden):
        np.testing.assert_allclose(found.vectors, vectors, atol=2e-3)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("bits", [8, 4])
def test_near_the_model_and_kept_in_its_file(bits, tied, tmp_path):
    model = make(**WIDE, tied=tied)
    small = model.quantised(bits)
    assert 1e-3 < np.abs(log_probs(model) - log_probs(small)).mean() < FAR[bits]
    assert all(
        name in small.weights.matrices
        for name, array in model.weights.items()
        if array.ndim == 2 and name not in ("position.weight", "types.weight")
    )
    assert {
        small.weights.matrices[name].bits
        for name in ("embedding.weight", "head.output.weight")
        if name in small.weights
    } == {8}
    small.save(tmp_path / "m")
    again = seqloom.load(tmp_path / "m")
    assert again.label() == f"bert-3x96-{bits}bit"
    assert again.parameters == model.parameters
    assert np.array_equal(log_probs(again), log_probs(small))
    assert again.fill("the [MASK] sat", 3) == small.fill("the [MASK] sat", 3)
    assert again.pseudo_perplexity("the cat sat") == small.pseudo_perplexity("the cat sat")


def test_matrices_stay_mapped_and_are_never_float32(tmp_path, monkeypatch):
    """Opening copies nothing, and what is asked of the model expands no matrix."""
    make(**WIDE).quantised(8).save(tmp_path / "m")
    monkeypatch.setattr(Quantised, "floats", None)
    model = seqloom.load(tmp_path / "m")
    assert model.fill("the [MASK] sat")
    assert model.pseudo_perplexity("the cat") > 1
    assert model.hidden("the cat").vectors.shape == (4, 96)
    for matrix in model.weights.matrices.values():
        assert not any(array.flags.owndata for array in matrix.arrays("").values())


def test_torch_is_not_needed(tmp_path):
    make().quantised(8).save(tmp_path / "m")
    program = (
        "import sys\nsys.modules['torch'] = None\nimport seqloom\n"
        f"model = seqloom.load(r'{tmp_path}/m')\n"
        "print(model.fill('the [MASK] sat', 1), model.score('the cat'), model.hidden('the "
        "cat').vectors.shape)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_becomes_of_it_elsewhere_has_its_weights_in_float32(tmp_path):
    """As of sentence-encoder: a directory of transformers, and the encoder of a classifier."""
    pytest.importorskip("torch")
    for name in ("bert", "sentence-encoder"):
        model = random_encoder(
            name, context=24, d_model=40, n_layers=1, n_heads=2, d_mlp=16
        ).quantised(8)
        interop.write(model, tmp_path / f"{name}-theirs")
        again = interop.open(tmp_path / f"{name}-theirs")
        assert again.bits is None
        assert all(
            np.array_equal(again.weights[key], array) for key, array in model.weights.items()
        )
        model.save(tmp_path / name)
        opened = open_encoder(str(tmp_path / name)).weights
        assert np.array_equal(
            opened["encoder.blocks.0.mlp.up.weight"], model.weights["blocks.0.mlp.up.weight"]
        )
