"""Activations that are computed again: less memory, and the same gradients."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from seqloom import (
    GPT,
    GRU,
    LSTM,
    NPLM,
    RNN,
    NeuralClassifier,
    NeuralForecaster,
    NeuralTagger,
    Seq2Seq,
    Transformer,
)
from seqloom.errors import ConfigError
from seqloom.nn.encoders import make_encoder
from seqloom.nn.recomputing import recompute
from seqloom.nn.recurrent import SEGMENT, RecurrentStack
from seqloom.training.estimate import _Allocations
from tests.conftest import TOY

TEXTS = [(f"a fine film {i % 7}", "good") if i % 2 else (f"dull {i % 5}", "bad") for i in range(40)]
SENTENCES = [(["the", "cat", f"n{i}"], ["D", "N", "N"]) for i in range(40)]
PAIRS = [(f"a b {i}", f"b a {i % 9} c") for i in range(40)]
DROPS = {"dropout": 0.2}
FAMILIES = {
    "rnn": (lambda: RNN(tokenizer="whitespace", d_hidden=8, n_layers=2, **DROPS), (TOY,)),
    "lstm": (
        lambda: LSTM(tokenizer="whitespace", d_hidden=8, n_layers=2, weight_drop=0.3, **DROPS),
        (TOY,),
    ),
    "lstm by steps": (
        lambda: LSTM(tokenizer="whitespace", d_hidden=8, recurrent_dropout=0.2),
        (TOY,),
    ),
    "gru": (lambda: GRU(tokenizer="whitespace", d_hidden=8, n_layers=2, **DROPS), (TOY,)),
    "gpt": (lambda: GPT(tokenizer="whitespace", d_model=8, n_heads=2, n_layers=2, **DROPS), (TOY,)),
    **{
        f"classifier {encoder}": (
            lambda encoder=encoder: NeuralClassifier(
                encoder=encoder, d_hidden=8, n_layers=2, **DROPS
            ),
            (TEXTS,),
        )
        for encoder in ("bilstm", "bigru", "cnn", "transformer")
    },
    "tagger": (lambda: NeuralTagger(encoder="bilstm", d_hidden=8, **DROPS), (SENTENCES,)),
    "seq2seq": (lambda: Seq2Seq(tokenizer="whitespace", d_hidden=8, **DROPS), (PAIRS,)),
    "transformer": (
        lambda: Transformer(tokenizer="whitespace", d_model=8, n_heads=2, **DROPS),
        (PAIRS,),
    ),
    "forecaster": (
        lambda: NeuralForecaster(d_hidden=4, horizon=2, encoder="lstm"),
        ([float(i % 5) for i in range(80)],),
    ),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_every_network_learns_the_same_to_the_bit(name):
    make, data = FAMILIES[name]
    plain, again = (
        make().fit(*data, steps=3, batch_size=4, recompute=recompute) for recompute in (False, True)
    )
    assert all(np.array_equal(plain.weights[name], again.weights[name]) for name in plain.weights)


def test_it_is_refused_where_it_would_do_nothing():
    with pytest.raises(ConfigError, match="recompute has no effect on nplm"):
        NPLM(tokenizer="whitespace").fit(TOY, steps=2, recompute=True)
    with pytest.raises(ConfigError, match="recompute has no effect on this network"):
        NeuralClassifier(encoder="bag").fit(TEXTS, steps=2, recompute=True)


@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
@pytest.mark.parametrize("lengths", [None, (3, 150, 90)], ids=["whole", "ragged"])
def test_long_sequences_are_computed_again_in_segments(cell, lengths):
    steps = 2 * SEGMENT + 22
    stack = RecurrentStack(5, 6, 2, cell=cell, bidirectional=True, dropout=0.3, weight_drop=0.2)
    x = torch.randn(3, steps, 5, requires_grad=True)
    lengths = None if lengths is None else torch.tensor(lengths)

    def gradients():
        torch.manual_seed(3)
        out, _ = stack(x, lengths=lengths, final_state=False)
        out.square().sum().backward()
        found = [p.grad.clone() for p in (x, *stack.parameters()) if p.grad is not None]
        stack.zero_grad()
        x.grad = None
        return out.detach(), found

    plain_out, plain = gradients()
    recompute(stack)
    out, again = gradients()
    assert torch.allclose(plain_out, out, atol=1e-6)
    assert len(plain) == len(again)
    for one, other in zip(plain, again):
        assert torch.allclose(one, other, atol=1e-6 * max(float(one.abs().max()), 1.0))


@pytest.mark.parametrize("name", ["bilstm", "bigru", "cnn", "transformer"])
def test_memory_is_saved(name):
    peaks = []
    for again in (False, True):
        encoder = make_encoder(name, 32, 32, 4)
        if again:
            recompute(encoder)
        x = torch.randn(8, 256, 32, requires_grad=True)
        encoder(x).sum().backward()  # whatever is made once
        encoder.zero_grad()
        with _Allocations(torch.device("cpu")) as found:
            encoder(x).sum().backward()
        peaks.append(found.peak)
    assert peaks[1] < 0.75 * peaks[0]
