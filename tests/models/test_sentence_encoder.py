"""Vectors of sentences, from the hidden states of torch's network, and what is asked of many texts."""

import numpy as np
import pytest

import seqloom
from seqloom import progress
from seqloom.contracts import nearness
from seqloom.models.masked import inputs as running
from seqloom.models.masked.inputs import groups, hidden_states
from tests.fuzz.specimens import random_encoder

TEXTS = [
    "the cat sat on the log",
    "",
    "cat",
    "the dog ran",
    "a b c d e f g h i j k l m n o p q",
] * 3


def make(**options):
    usual = {"context": 24, "d_model": 12, "n_layers": 3, "n_heads": 3, "d_mlp": 20}
    return random_encoder("sentence-encoder", **{**usual, **options})


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
@pytest.mark.parametrize("unit_length", [True, False])
def test_vectors_of_texts(pooling, unit_length, monkeypatch):
    """From the hidden states of torch, one text at a time; the same where torch runs the whole, as
    on a GPU.
    """
    pytest.importorskip("torch")
    model = make(pooling=pooling, unit_length=unit_length)
    hidden = hidden_states(model.network(), model._inputs(TEXTS), model.marks.pad)
    expected = np.array(
        [{"mean": x.mean(0), "cls": x[0], "max": x.max(0)}[pooling] for x in hidden]
    )
    if unit_length:
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(model.embed(TEXTS), expected, atol=1e-5)
    monkeypatch.setattr(type(model.net), "on_cpu", False)
    np.testing.assert_allclose(model.embed(TEXTS), expected, atol=1e-5)


def test_groups_and_portions_change_nothing(monkeypatch):
    model = make()
    whole = model.embed(TEXTS)
    monkeypatch.setattr(running, "GROUP", 9)
    inputs = model._inputs(TEXTS)
    parts = list(groups(inputs))
    assert [one.ids.tolist() for part in parts for one in part] == [
        one.ids.tolist() for one in inputs
    ]
    assert all(len(part) == 1 or sum(len(one.ids) for one in part) <= 9 for part in parts)
    assert len(parts) > 5
    monkeypatch.setattr(nearness, "TEXTS_PER_BATCH", 4)
    np.testing.assert_allclose(model.embed(TEXTS), whole, atol=1e-6)
    assert [text for text, _ in model.nearest("the cat", 4, among=iter(TEXTS[:5]))] == [
        text for text, _ in model.nearest("the cat", 4, among=TEXTS[:5])
    ]


def test_what_is_too_long_is_cut_and_said(monkeypatch):
    lines = []
    monkeypatch.setattr(progress, "say", lines.append)
    model = make(longest=6)
    assert (model.embed("the cat sat on the log") == model.embed("the cat sat on")).all()
    assert lines == [
        "1 of 1 texts are longer than the 6 tokens that this sentence-encoder model reads; their "
        "ends are left "
        "out"
    ]
    assert not (make().embed("the cat sat on the log") == make().embed("the cat sat on")).all()


def test_the_same_for_any_number_of_threads(monkeypatch):
    monkeypatch.setattr(running, "GROUP", 20)
    made = []
    for threads in ("1", "2"):
        monkeypatch.setenv("SEQLOOM_THREADS", threads)
        made.append(make().embed(TEXTS))
    assert (made[0] == made[1]).all()


@pytest.mark.parametrize(("bits", "least"), [(8, 0.999), (4, 0.9)])
def test_fewer_bits(bits, least, tmp_path):
    """Other matrices than those of queries, keys and values are rounded; a saved model keeps every bit."""
    model = make(d_model=96, d_mlp=128, n_heads=6)
    made = model.quantised(bits)
    assert {
        name.partition(".attention")[0]
        for name in made.weights.others
        if name.endswith("qkv.weight")
    } == {f"blocks.{i}" for i in range(3)}
    assert "blocks.0.mlp.up.weight" in made.weights.matrices
    cosines = (model.embed(TEXTS) * made.embed(TEXTS)).sum(axis=1)
    assert least < cosines.min() < 0.9999999
    made.save(tmp_path / "m")
    again = seqloom.load(tmp_path / "m")
    assert again.label() == f"sentence-encoder-3x96-{bits}bit"
    assert (again.embed(TEXTS) == made.embed(TEXTS)).all()


def test_vectors_that_are_kept_can_be_searched(tmp_path):
    model = make()
    texts = sorted(set(TEXTS) - {""})
    kept = seqloom.WordVectors.of(texts, model.embed(texts))
    kept.save(tmp_path / "kept")
    found = seqloom.load(tmp_path / "kept").nearest(model.embed("the cat"), 2)
    expected = model.nearest("the cat", 2, among=texts)
    assert [text for text, _ in found] == [text for text, _ in expected]
    np.testing.assert_allclose(
        [cosine for _, cosine in found], [cosine for _, cosine in expected], atol=1e-5
    )


def test_word_vectors_among_given_texts():
    words = seqloom.WordVectors.of(["cat", "dog", "car"], [[1, 0.1], [1, 0.2], [0, 1]])
    assert [text for text, _ in words.nearest("cat", 2, among=["car", "dog", "cat dog"])] == [
        "cat dog",
        "dog",
    ]
