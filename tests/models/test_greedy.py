"""Greedy search in one call writes what beam search with one beam writes, and decides only what is sure."""

from __future__ import annotations

import threading

import numpy as np
import pytest

pytest.importorskip("torch")

from seqloom.kernels.seq2seq import likeliest
from seqloom.models.network.step_weights import Matrix, Softmax
from seqloom.models.translate.greedy import rounded

from seqloom.decoding.beam import beam_search
from seqloom.decoding.greedy import greedy
from seqloom.errors import ModelError
from seqloom.models.translate.seq2seq import Seq2Seq
from tests.models.test_translate_steps import made

SOURCES = ["abcde", "a", "", "deadbeefcab", "bb"]
WRITTEN = [
    {}, {"attention": "dot"}, {"attention": "general"}, {"attention": "concat"}, {"attention": "scaled"}, {"tied": False},
    {"coverage": True}, {"input_feeding": True, "coverage": True, "attention": "dot"}, {"bottleneck": "every-step"},
    {"bottleneck": "every-step", "input_feeding": True}, {"encoder": "gru", "n_layers": 2}, {"encoder": "bilstm"},
    {"encoder": "transformer", "n_heads": 2}, {"encoder": "cnn"}, {"reverse_source": True}, {"d_hidden": 7, "d_embed": 5},
    {"one_network": True, "shared_vocabulary": True}]
NOT_WRITTEN = [{"attention": "none"}, {"cell": "lstm"}, {"cell": "rnn"}, {"n_decoder_layers": 2}]


def by_beam(model, source, max_tokens):
    best = beam_search(model.decoder([source]), [np.zeros(0, np.int64)], beams=1, max_tokens=max_tokens)[0][0]
    return best.ids.tolist(), best.finished


def drawn_again(model, seed, scale=1.0):
    rng = np.random.default_rng(seed)
    model.net.restore({name: (scale * rng.normal(0, 0.6, array.shape)).astype(np.float32)
                       for name, array in model.weights.items()})


@pytest.mark.parametrize("kept", ["by stepping too", "here", "nowhere"])
@pytest.mark.parametrize("options", WRITTEN, ids=str)
def test_it_writes_what_one_beam_writes(options, kept, monkeypatch):
    """Wherever the first layer's products with all tokens are kept."""
    if kept != "by stepping too":
        monkeypatch.setattr("seqloom.models.translate.seq2seq_steps.SMALL", 0)
    if kept == "nowhere":
        monkeypatch.setattr("seqloom.models.translate.greedy.KEPT", 0)
    model, ended = made(Seq2Seq, **options), set()
    for seed in range(8):
        drawn_again(model, seed, (1.0, 0.02, 4.0)[seed % 3])
        for source in SOURCES:
            for max_tokens in (1, 30):
                (ids, finished), = model.decoder([source]).greedy(1, max_tokens)
                assert (ids.tolist(), finished) == by_beam(model, source, max_tokens)
                ended.add(finished)
        found = greedy(model.decoder(SOURCES[:2]), 2, 9)
        assert [(ids.tolist(), finished) for ids, finished in found] == [by_beam(model, source, 9) for source in SOURCES[:2]]
    assert ended == {True, False}


@pytest.mark.parametrize("options", NOT_WRITTEN, ids=str)
def test_other_decoders_go_by_steps(options):
    model = made(Seq2Seq, **options)
    assert model.decoder(["abc"]).greedy(1, 9) is None
    (ids, finished), = greedy(model.decoder(["abc"]), 1, 9)
    assert (ids.tolist(), finished) == by_beam(model, "abc", 9)


def test_many_sources_go_by_steps():
    model = made(Seq2Seq)
    assert model.decoder(SOURCES).greedy(5, 9) is None
    assert [ids.tolist() for ids, _ in greedy(model.decoder(SOURCES), 5, 9)] == [by_beam(model, s, 9)[0] for s in SOURCES]


def test_translate_takes_it_and_says_the_same():
    model = made(Seq2Seq)
    for seed in range(5):
        drawn_again(model, seed)
        for source in SOURCES:
            assert model.translate(source, beams=1) == model.translate(source, beams=1, nbest=1)[0].text
    scored, = model.translations(["abc"], None)[0]
    assert np.isfinite(scored.score)


@pytest.mark.parametrize(("n", "size"), [(1, 1), (63, 2), (64, 16), (65, 7), (300, 33), (2000, 256)])
def test_the_likeliest_row_is_the_largest_or_left_open(n, size):
    """Against float64. Rows that are close to each other, or equal, are left open and never guessed."""
    rng, decided = np.random.default_rng(n), 0
    for trial in range(40):
        weight = rng.normal(0, 10.0 ** rng.uniform(-2, 1), (n, size)).astype(np.float32)
        bias = rng.normal(0, 1, n).astype(np.float32) if trial % 2 else np.empty(0, np.float32)
        x = np.tanh(rng.normal(0, 10.0 ** rng.uniform(-3, 1), size)).astype(np.float32)
        if trial % 4 == 2 and size > 1:  # one large number a row, so that 8 bits leave little of the others
            weight[:, 0] *= 40
            x[0] = 0
        if trial % 4 == 3 and n > 1:
            weight[rng.integers(n, size=n // 2)] = weight[0] * (1 + 1e-7 * rng.normal(size=size))
        output = rounded(Softmax(Matrix(weight), bias))
        exact = weight.astype(np.float64) @ x + (bias if len(bias) else 0)
        for backwards in (False, True):
            found = likeliest(x, backwards, *output, np.empty_like(output[0][1]))
            assert found in (-1, exact.argmax())
            decided += found >= 0
        gap = exact.max() - np.sort(exact)[-2] if n > 1 else np.inf
        if gap > 1e-3 * (1 + np.abs(weight).max() * size):
            assert found >= 0
    assert decided > 20


@pytest.mark.parametrize("backwards", [False, True])
def test_a_score_that_its_4_bits_hide_is_found(backwards):
    """Rows with one number so large that 4 bits leave nothing of the others, which alone decide."""
    rng = np.random.default_rng(0)
    for n in (70, 500):
        weight = rng.normal(0, 0.01, (n, 24)).astype(np.float32)
        weight[:, 0] = 3.0
        x = np.ones(24, np.float32)
        x[0] = 0.1
        best = rng.integers(n)
        weight[best, 1:] += np.float32(0.03)
        output = rounded(Softmax(Matrix(weight), np.empty(0, np.float32)))
        assert likeliest(x, backwards, *output, np.empty_like(output[0][1])) == best == (weight @ x).argmax()


def test_equal_rows_and_broken_numbers_are_left_open():
    weight = np.ones((70, 4), np.float32)
    output = rounded(Softmax(Matrix(weight), np.empty(0, np.float32)))
    for x in (np.ones(4), np.zeros(4), np.full(4, np.nan), np.array([np.inf, 0, 0, 0]), np.full(4, 1e6)):
        assert likeliest(x.astype(np.float32), False, *output, np.empty_like(output[0][1])) == -1


def test_ties_are_broken_as_by_one_beam():
    model = made(Seq2Seq)
    model.net.restore({name: array * 0 for name, array in model.weights.items()})
    (ids, finished), = model.decoder(["abc"]).greedy(1, 5)
    assert (ids.tolist(), finished) == by_beam(model, "abc", 5)


@pytest.mark.parametrize("name", ["embedding.weight", "decoder.layers.0.w_h", "output.bias"])
def test_a_broken_network_is_refused(name):
    model = made(Seq2Seq)
    broken = {k: array.copy() for k, array in model.weights.items()}
    broken[name][:] = np.nan
    model.net.restore(broken)
    with pytest.raises(ModelError, match="fit it again"):
        model.translate("abc", beams=1)


def test_threads_share_a_writer(monkeypatch):
    monkeypatch.setattr("seqloom.models.translate.seq2seq_steps.SMALL", 0)
    model = made(Seq2Seq)
    expected, found = {source: by_beam(model, source, 200)[0] for source in SOURCES}, []

    def work():
        for source in SOURCES * 10:
            (ids, _), = model.decoder([source]).greedy(1, 200)
            found.append((source, ids.tolist()))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 200
    assert all(ids == expected[source] for source, ids in found)
