"""What a run will take, foretold without training."""

import os

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from seqloom import (
    GPT,
    LSTM,
    NPLM,
    NeuralClassifier,
    NeuralForecaster,
    NeuralTagger,
    Seq2Seq,
    Transformer,
)
from seqloom.errors import ConfigError
from seqloom.training import estimate as estimates
from seqloom.training.estimate import _Allocations, array_bytes, largest_batch
from tests.conftest import TOY

CPU = torch.device("cpu")
TEXTS = [(f"a fine film {i % 7}", "good") if i % 2 else (f"dull {i % 5}", "bad") for i in range(80)]
SENTENCES = [(["the", "cat", f"n{i}"], ["D", "N", "N"]) for i in range(60)]
PAIRS = [(f"a b {i}", f"b a {i % 9} c") for i in range(60)]
LONG = TOY * 200  # enough that some is held out
FAMILIES = {
    "lstm": (lambda: LSTM(tokenizer="whitespace", d_hidden=8), (LONG,)),
    "gpt": (lambda: GPT(tokenizer="whitespace", d_model=8, n_heads=2, n_layers=2), (LONG,)),
    "nplm": (lambda: NPLM(tokenizer="whitespace", d_hidden=8, order=3), (LONG,)),
    "classifier": (lambda: NeuralClassifier(encoder="bilstm", d_hidden=8), (TEXTS,)),
    "tagger": (lambda: NeuralTagger(encoder="bilstm", d_hidden=8), (SENTENCES,)),
    "seq2seq": (lambda: Seq2Seq(tokenizer="whitespace", d_hidden=8), (PAIRS,)),
    "transformer": (lambda: Transformer(tokenizer="whitespace", d_model=8, n_heads=2), (PAIRS,)),
    "forecaster": (
        lambda: NeuralForecaster(d_hidden=4, horizon=2),
        ([float(i % 5) for i in range(80)],),
    ),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_every_network_says_what_training_takes(name):
    make, data = FAMILIES[name]
    model = make()
    found = model.estimate(*data, steps=6, evaluate_every=3)
    assert not model.fitted
    fitted = make().fit(*data, steps=6, evaluate_every=3)
    assert found.parameters == fitted.parameters
    assert found.weights >= 4 * found.parameters  # buffers are weights too
    assert found.gradients == 4 * found.parameters
    assert found.optimizer > 0
    assert min(found.activations, found.evaluation, found.data, found.program) > 0
    assert found.peak >= found.weights + found.gradients + found.optimizer + found.activations
    assert (found.steps, found.evaluations) == (6, 2)
    assert found.seconds == pytest.approx(6 * found.step_seconds + 2 * found.evaluation_seconds)
    assert found.fits
    assert f"{found.parameters:,} parameters" in str(found)


def test_a_fitted_model_stays_as_it_is():
    model = LSTM(tokenizer="whitespace", d_hidden=8).fit(TOY, steps=2)
    before = {name: array.copy() for name, array in model.weights.items()}
    model.estimate(TOY, steps=5)
    assert model.fitted
    assert all(np.array_equal(model.weights[name], array) for name, array in before.items())


def test_a_batch_that_may_not_fit_is_foretold_from_smaller_ones(monkeypatch):
    """What it says then is what it says of a batch that was tried, within a tenth."""

    def found():
        model = LSTM(tokenizer="whitespace", d_hidden=64, softmax="full")
        return model.estimate(TOY * 40, steps=5, batch_size=32, truncation=32)

    tried = found()
    monkeypatch.setattr(estimates, "_SAFE", 0.0)
    foretold = found()
    assert tried.tried
    assert not foretold.tried
    assert foretold.seconds is None
    assert "not known" in str(foretold)
    assert foretold.activations == pytest.approx(tried.activations, rel=0.1)


def test_more_rows_take_more_activations_and_no_more_weights():
    few, many = (
        GPT(tokenizer="whitespace", d_model=16, n_heads=2, context=16).estimate(
            TOY * 40, steps=3, batch_size=rows
        )
        for rows in (4, 32)
    )
    assert (few.weights, few.gradients, few.optimizer) == (
        many.weights,
        many.gradients,
        many.optimizer,
    )
    assert 4 * few.activations < many.activations < 12 * few.activations


def test_recomputed_activations_are_foretold():
    plain, again = (
        GPT(tokenizer="whitespace", d_model=32, n_heads=2, n_layers=6, context=32).estimate(
            TOY * 60, steps=3, batch_size=16, recompute=recompute
        )
        for recompute in (False, True)
    )
    assert again.activations < 0.6 * plain.activations


def test_allocations_are_counted_to_the_byte():
    with _Allocations(CPU) as found:
        a = torch.zeros(1000)
        b = torch.zeros(2000)
        del a
        c = torch.zeros(500)
        del b, c
    assert found.peak == 4 * 3000


def test_what_the_profiler_writes_is_kept_off_the_terminal(capfd):
    with _Allocations(CPU):
        torch.zeros(10)
    assert capfd.readouterr() == ("", "")
    os.write(2, b"here again")
    assert capfd.readouterr().err == "here again"


def test_arrays_are_counted_once():
    class Batches:
        __module__ = "seqloom.toy"

    held, array = Batches(), np.zeros(100)
    held.array, held.view, held.other = array, array[:50], {"x": [np.zeros(3), np.zeros(3)]}
    held.closed = lambda: array
    assert array_bytes(held) == 800 + 48


def test_the_largest_batch_is_the_one_with_the_most_padding_and_steps(monkeypatch):
    texts = [(" ".join("abcdefgh"[: i % 8 + 1]), "xy"[i % 2]) for i in range(64)]
    seen = []

    def look(batches):
        found = largest_batch(batches)
        seen.append((found[0]["ids"].shape, batches.length((0, 0))))
        return found

    monkeypatch.setattr(estimates, "largest_batch", look)
    NeuralClassifier(encoder="bag", hold_out=0.0).estimate(texts, steps=2, batch_size=16)
    assert seen == [((16, 9), 4)]  # eight words and the end


def test_it_is_an_error_where_fit_is_one():
    with pytest.raises(ConfigError, match="batch_size"):
        LSTM(tokenizer="byte", d_hidden=8).estimate("abc " * 30, steps=2, batch_size=5000)
