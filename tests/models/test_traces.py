"""A trace goes through the networks of models to their parts, and changes nothing on the way."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from seqloom.encoder_table import ENCODERS
from seqloom.models.forecasting.forecaster_net import ForecastNet
from seqloom.models.language.configs import GPTConfig, LSTMConfig
from seqloom.models.language.language_net import (
    GPTLanguageNet,
    RecurrentNet,
)
from seqloom.nn.composition import (
    LabelHead,
    Pooling,
    Sentences,
    SequenceNetwork,
    TagHead,
)
from seqloom.nn.encoders import make_encoder
from seqloom.nn.readers import TokenReader
from seqloom.traces import Trace

IDS = torch.tensor([[1, 2, 3, 4], [5, 6, 0, 0], [7, 8, 1, 0]])
BATCH = {"ids": IDS, "lengths": torch.tensor([4, 2, 3])}


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(7)


@pytest.mark.parametrize("name", ENCODERS)
def test_a_classifier(name):
    encoder = make_encoder(name, 6, 8, 2, n_heads=2)
    net = SequenceNetwork(
        TokenReader(9, 6), encoder, LabelHead(encoder.d_out, 3, Pooling("attention", encoder.d_out))
    )
    trace = Trace()
    with torch.no_grad():
        scores = net.eval()(BATCH, trace)
        torch.testing.assert_close(scores, net(BATCH), atol=1e-6, rtol=0)
        read = net.encoder(net.reader(BATCH), BATCH["lengths"])
    weights = trace["output.pooling.weights"]
    torch.testing.assert_close(weights.sum(1), torch.ones(3))
    assert not weights[1, 2:].any()
    torch.testing.assert_close(net.output.linear((weights[:, :, None] * read).sum(1)), scores)
    parts = {part.split(".")[0] for part in trace}
    assert parts == ({"output"} if name == "bag" else {"encoder", "output"})


def test_documents_of_sentences():
    encoder, upper = make_encoder("bilstm", 6, 8), make_encoder("bigru", 16, 5)
    sentences = Sentences(Pooling("attention", 16), upper)
    net = SequenceNetwork(
        TokenReader(9, 6), encoder, LabelHead(10, 3, Pooling("mean", 10)), sentences=sentences
    )
    batch, trace = {**BATCH, "counts": torch.tensor([2, 1])}, Trace()
    with torch.no_grad():
        torch.testing.assert_close(net.eval()(batch, trace), net(batch), atol=1e-6, rtol=0)
    assert trace["encoder.stack.layers.0.c"].shape == (3, 4, 8)
    assert trace["sentences.pooling.weights"].shape == (3, 4)
    assert trace["sentences.encoder.stack.layers.0.reverse.gates.z"].shape == (2, 2, 5)
    assert not trace["sentences.encoder.stack.layers.0.h"][
        1, 1
    ].any()  # the second document has one sentence


def test_a_tagger():
    net = SequenceNetwork(TokenReader(9, 6), make_encoder("lstm", 6, 8), TagHead(8, 3))
    trace = Trace()
    with torch.no_grad():
        scores = net.eval()(BATCH, trace)
    torch.testing.assert_close(net.output.linear(trace["encoder.stack.layers.0.h"]), scores)


def test_language_models():
    lstm = RecurrentNet(LSTMConfig(n_layers=2), "lstm", 9, 8).eval()
    gpt = GPTLanguageNet(GPTConfig(n_layers=2, n_heads=2, context=8), 9, 8).eval()
    with torch.no_grad():
        for net, name, shape in (
            (lstm, "recurrent.layers.1.gates.f", (3, 4, 8)),
            (gpt, "blocks.1.attention.weights", (3, 2, 4, 4)),
        ):
            trace = Trace()
            torch.testing.assert_close(net(IDS, None, trace)[0], net(IDS)[0], atol=1e-6, rtol=0)
            assert trace[name].shape == shape
            saved = net.state_dict().keys()
            assert all(
                any(key.startswith(part.rsplit(".", 1)[0].removesuffix(".gates")) for key in saved)
                for part in trace
            )  # names of parts are those of saved weights


def test_a_forecaster():
    config = SimpleNamespace(
        normalise="last",
        d_hidden=8,
        dropout=0.0,
        encoder="gru",
        n_layers=1,
        n_heads=2,
        highway=True,
        encoder_options={},
    )
    net = ForecastNet(
        config, n_columns=1, n_known=0, missing=False, window=12, patch=4, horizon=3
    ).eval()
    values, trace = torch.randn(2, 12, 1), Trace("*.gates.*")
    with torch.no_grad():
        torch.testing.assert_close(net(values, trace=trace), net(values), atol=1e-6, rtol=0)
    assert list(trace) == [f"encoder.stack.layers.0.gates.{gate}" for gate in "rzn"]
    assert trace["encoder.stack.layers.0.gates.z"].shape == (2, 3, 8)
