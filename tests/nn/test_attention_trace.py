"""Traces of attention: weights are those of brute force, and with the values give what a layer gives."""

from __future__ import annotations

import math
from copy import deepcopy

import pytest

torch = pytest.importorskip("torch")

from seqloom.encoder_table import ENCODERS
from seqloom.nn import attention
from seqloom.nn.attention import Attention, Mask
from seqloom.nn.bert import (
    BertNet,
    split_reader_and_encoder,
)
from seqloom.nn.encoder_decoder import EncoderDecoder
from seqloom.nn.encoders import make_encoder
from seqloom.nn.position import alibi_slopes, rotary_angles, rotate
from seqloom.nn.readers import TokenReader
from seqloom.nn.transformer import GPTNet
from seqloom.traces import Trace
from tests.nn import test_seq2seq as recurrent

POSITIONS = ("learned", "sinusoidal", "rope", "alibi", "relative", "none")
V, D, HEADS, STEPS = 23, 12, 3, 7
IDS = torch.randint(V, (2, STEPS), generator=torch.Generator().manual_seed(1))
LENGTHS = torch.tensor([7, 4])
KEEP = torch.arange(STEPS) < LENGTHS[:, None]
SOURCES = {"ids": torch.tensor([[1, 2, 3, 4, 5], [6, 7, 8, 0, 0]]), "lengths": torch.tensor([5, 3])}
SOURCE_KEEP = torch.arange(5) < SOURCES["lengths"][:, None]
INPUTS = torch.tensor([[0, 3, 1, 4], [0, 9, 9, 2]])


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(7)


def noisy(net):
    with torch.no_grad():
        for p in net.double().eval().parameters():
            p.add_(0.3 * torch.randn_like(p))
    return net


def gpt(**options):
    return noisy(GPTNet(V, 16, D, 2, HEADS, **options))


class Watched:
    """What goes into each self-attention of a network, and what comes out."""

    def __init__(self, net):
        self.calls = []
        for module in net.modules():
            if isinstance(module, Attention):
                module.register_forward_hook(self.note)

    def note(self, layer, inputs, result):
        self.calls.append((layer, inputs[0], result[0]))


def split(layer, x):
    q, k, v = (
        layer.qkv(x)
        .unflatten(2, (-1, layer.d_head))
        .transpose(1, 2)
        .split((layer.n_heads, layer.n_kv_heads, layer.n_kv_heads), 1)
    )
    share = layer.n_heads // layer.n_kv_heads
    return q, k.repeat_interleave(share, 1), v.repeat_interleave(share, 1)


def brute_weights(q, k, scale, seen, added=lambda head, t, s, query: 0.0):
    """Pair by pair; `seen(row, t, s)` tells whether they may meet, `added` is what comes to the score."""
    weights = torch.zeros(*q.shape[:3], k.shape[2], dtype=q.dtype)
    for b, head, t in torch.cartesian_prod(*(torch.arange(n) for n in q.shape[:3])).tolist():
        score = {
            s: float(q[b, head, t] @ k[b, head, s] * scale + added(head, t, s, q[b, head, t]))
            for s in range(k.shape[2])
            if seen(b, t, s)
        }
        total = sum(math.exp(x) for x in score.values())
        for s, x in score.items():
            weights[b, head, t, s] = math.exp(x) / total
    return weights


def check_layer(layer, x, y, weights, expected):
    """The weights are those of brute force, sum to one, and with the values give what the layer gave."""
    torch.testing.assert_close(weights, expected)
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    mixed = weights @ split(layer, x)[2]
    torch.testing.assert_close(layer.out(mixed.transpose(1, 2).flatten(2)), y)


@pytest.mark.parametrize(
    "options",
    [{}, {"window": 2}, {"n_kv_heads": 1, "activation": "swiglu"}, {"norm": "post"}],
    ids=str,
)
@pytest.mark.parametrize("positions", POSITIONS)
def test_gpt_by_brute_force(positions, options):
    net, trace = gpt(positions=positions, max_distance=3, **options), Trace()
    with torch.no_grad():
        plain, _ = net.features(IDS)
        watched = Watched(net)
        traced, _ = net.features(IDS, trace=trace)
        torch.testing.assert_close(traced, plain, atol=1e-6, rtol=0)
        assert set(trace) == {
            f"blocks.{i}.{part}" for i in range(2) for part in ("attention.weights", "out")
        }
        cos, sin = rotary_angles(torch.arange(STEPS)[None, None], D // HEADS)
        for i, (layer, x, y) in enumerate(watched.calls):
            q, k, _ = split(layer, x)
            if positions == "rope":
                q, k = rotate(q, cos, sin), rotate(k, cos, sin)

            def added(head, t, s, query, layer=layer):
                if positions == "alibi":
                    return -float(alibi_slopes(HEADS)[head]) * (t - s)
                if positions == "relative":
                    return query @ layer.relative.weight[min(t - s, 3)] * layer.scale
                return 0.0

            def seen(_, t, s):
                return s <= t and t - s <= options.get("window", STEPS)

            check_layer(
                layer,
                x,
                y,
                trace[f"blocks.{i}.attention.weights"],
                brute_weights(q, k, layer.scale, seen, added),
            )
        last = trace["blocks.1.out"]
        torch.testing.assert_close(last if net.norm is None else net.norm(last), traced)


@pytest.mark.parametrize("positions", POSITIONS)
def test_a_past_is_looked_at_as_the_whole(positions):
    """Rows that have read differently many tokens: what a row has not read has no weight."""
    net, whole = gpt(positions=positions, window=3), Trace()
    with torch.no_grad():
        net.features(IDS, trace=whole)
        _, past = net.features(IDS[:, :3])
        _, past = net.features(IDS[:, 3:5], past)
        past = past._replace(lengths=torch.tensor([5, 2]))
        trace, step = Trace("*.weights"), torch.stack([IDS[0, 5:6], IDS[1, 2:3]])
        net.features(step, past, trace)
    for i in range(2):
        weights, expected = (
            trace[f"blocks.{i}.attention.weights"],
            whole[f"blocks.{i}.attention.weights"],
        )
        assert weights.shape == (2, HEADS, 1, 6)
        torch.testing.assert_close(weights[0, :, 0], expected[0, :, 5, :6])
        torch.testing.assert_close(weights[1, :, 0, :3], expected[1, :, 2, :3])
        assert not weights[1, :, 0, 3:].any()


def read_bert(net, trace=None):
    return net(IDS, None, KEEP, trace)


def read_published(net, trace=None):
    reader, encoder = split_reader_and_encoder(net, D)
    return encoder(reader({"ids": IDS}), LENGTHS, trace)


@pytest.mark.parametrize("read", [read_bert, read_published])
@pytest.mark.parametrize("options", [{}, {"shared_layers": True, "d_embed": 6}], ids=str)
def test_encoders_of_the_bert_family_by_brute_force(options, read):
    with torch.no_grad():
        net, trace = noisy(BertNet(V, 16, D, 3, HEADS, **options)), Trace()
        plain = read(deepcopy(net))
        watched = Watched(net)
        torch.testing.assert_close(read(net, trace), plain, atol=1e-6, rtol=0)
        assert set(trace) == {
            f"blocks.{i}.{part}" for i in range(3) for part in ("attention.weights", "out")
        }
        assert len(watched.calls) == 3
        for i, (layer, x, y) in enumerate(watched.calls):
            q, k, _ = split(layer, x)
            expected = brute_weights(q, k, layer.scale, lambda b, t, s: bool(KEEP[b, s]))
            check_layer(layer, x, y, trace[f"blocks.{i}.attention.weights"], expected)
            assert not trace[f"blocks.{i}.attention.weights"][1, ..., 4:].any()
        torch.testing.assert_close(trace["blocks.2.out"][KEEP], plain[KEEP])


def test_the_transformer_among_the_encoders_by_brute_force():
    net, trace = noisy(make_encoder("transformer", 4, 8, 2, n_heads=2)), Trace()
    x = torch.randn(2, STEPS, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        plain = net(x, LENGTHS)
        watched = Watched(net)
        torch.testing.assert_close(net(x, LENGTHS, trace), plain, atol=1e-6, rtol=0)
        cos, sin = rotary_angles(torch.arange(STEPS)[None, None], 4)
        for i, (layer, read, y) in enumerate(watched.calls):
            q, k, _ = split(layer, read)
            expected = brute_weights(
                rotate(q, cos, sin),
                rotate(k, cos, sin),
                layer.scale,
                lambda b, t, s: bool(KEEP[b, s]),
            )
            check_layer(layer, read, y, trace[f"blocks.{i}.attention.weights"], expected)
        torch.testing.assert_close((net.norm(trace["blocks.1.out"]) * net.scale)[KEEP], plain[KEEP])


OPTIONS = (
    {},
    {"norm": "post"},
    {"d_head": 5, "tied": False},
    {
        "positions": "t5",
        "buckets": 4,
        "max_distance": 3,
        "norm_kind": "rms",
        "bias": False,
        "scaled_attention": False,
        "activation": "geglu",
    },
)
PARTS = {
    "encoder": ("attention.weights", "out"),
    "decoder": ("attention.weights", "cross.weights", "out"),
}


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_both_halves_of_an_encoder_decoder_by_brute_force(options, monkeypatch):
    net = noisy(
        EncoderDecoder(
            TokenReader(9, D), D, 11, D, HEADS, n_layers=2, n_decoder_layers=2, **options
        )
    )
    crossed, cross = [], Attention.cross

    def watched_cross(self, x, memory, mask, trace=None):
        y = cross(self, x, memory, mask, trace)
        crossed.append((self, x, memory, y))
        return y

    with torch.no_grad():
        plain = net.features(net.encode(SOURCES), INPUTS)
        monkeypatch.setattr(Attention, "cross", watched_cross)
        watched, trace = Watched(net), Trace()
        memory = net.encode(SOURCES, trace)
        encoded = len(watched.calls)
        torch.testing.assert_close(net.features(memory, INPUTS, trace), plain, atol=1e-6, rtol=0)
        assert set(trace) == {
            f"{side}.{i}.{part}"
            for side, parts in PARTS.items()
            for i in range(2)
            for part in parts
        }
        assert encoded == 2
        for i, (layer, x, y) in enumerate(watched.calls):
            side, causal = ("decoder", True) if i >= encoded else ("encoder", False)
            bias = getattr(net, f"{side}_entrance").bias

            def added(head, t, s, query, bias=bias):
                return (
                    0.0
                    if bias is None
                    else bias(torch.tensor([[t]]), torch.tensor([s]))[0, head, 0, 0]
                )

            def seen(b, t, s, causal=causal):
                return s <= t if causal else bool(SOURCE_KEEP[b, s])

            q, k, _ = split(layer, x)
            check_layer(
                layer,
                x,
                y,
                trace[f"{side}.{i % 2}.attention.weights"],
                brute_weights(q, k, layer.scale, seen, added),
            )
        for i, (layer, x, (k, v), y) in enumerate(crossed):
            weights = trace[f"decoder.{i}.cross.weights"]
            q = split(layer, x)[0]
            expected = brute_weights(q, k, layer.scale, lambda b, t, s: bool(SOURCE_KEEP[b, s]))
            torch.testing.assert_close(weights, expected)
            torch.testing.assert_close(layer.out((weights @ v).transpose(1, 2).flatten(2)), y)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_step_of_the_decoder_traces_what_the_whole_does(options):
    net = noisy(EncoderDecoder(None, D, 11, D, HEADS, n_layers=1, n_decoder_layers=2, **options))
    with torch.no_grad():
        memory, whole = net.encode(SOURCES), Trace()
        net.features(memory, INPUTS, whole)
        state = net.start(memory)
        for t in range(INPUTS.shape[1]):
            trace = Trace()
            _, state = net.step(memory, state, INPUTS[:, t], trace)
            assert trace.keys() == whole.keys()
            for name, value in trace.items():
                expected = whole[name][..., t : t + 1, :]
                torch.testing.assert_close(
                    value, expected[..., : t + 1] if "attention" in name else expected
                )


@pytest.mark.parametrize("name", recurrent.VARIANTS)
def test_what_a_recurrent_decoder_reads_out_follows_from_its_trace(name):
    net, trace = recurrent.make(**recurrent.VARIANTS[name]), Trace()
    with torch.no_grad():
        memory = net.encode(SOURCES, trace)
        plain = net.encode(SOURCES)
        torch.testing.assert_close(memory.summary, plain.summary)
        features = net.features(memory, INPUTS, trace)
        torch.testing.assert_close(features, net.features(plain, INPUTS), atol=1e-6, rtol=0)
        if recurrent.VARIANTS[name].get("encoder") != "bag":
            assert {part.split(".")[0] for part in trace} - {"cross"} == {"encoder", "decoder"}
        last = len(net.decoder.layers) - 1
        hidden = trace[f"decoder.layers.{last}.h"]
        assert hidden.shape[:2] == INPUTS.shape
        if net.attention is not None:
            weights = trace["cross.weights"]
            assert weights.shape == (2, 1, 4, 5)
            torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
            assert not weights[1, ..., 3:].any()
            hidden = torch.cat([hidden, weights[:, 0] @ memory.vectors], 2)
        read = hidden if net.readout is None else torch.tanh(net.readout(hidden))
        torch.testing.assert_close(read, features)


def test_the_cross_weights_of_every_kind_of_decoder_have_one_pattern():
    deep = noisy(EncoderDecoder(None, D, 11, D, HEADS, n_layers=1, n_decoder_layers=2))
    for net, names in (
        (deep, ["decoder.0.cross.weights", "decoder.1.cross.weights"]),
        (recurrent.make(), ["cross.weights"]),
        (recurrent.make(attention=None), []),
    ):
        trace = Trace("*cross.weights")
        net.features(net.encode(SOURCES, trace), INPUTS, trace)
        assert list(trace) == names


@pytest.mark.parametrize(
    "read", ["gpt", "encoder-decoder", *(name for name in ENCODERS if name != "bag")]
)
def test_float32_is_within_a_millionth(read):
    x = torch.randn(2, STEPS, 16)
    with torch.no_grad():
        if read == "gpt":
            net = GPTNet(V, 16, 32, 3, 4)
            traced, plain = (net.features(IDS, trace=trace)[0] for trace in (Trace(), None))
        elif read == "encoder-decoder":
            net = EncoderDecoder(TokenReader(9, 32), 32, 11, 32, 4).eval()
            traced, plain = (
                net.features(net.encode(SOURCES, trace), INPUTS, trace) for trace in (Trace(), None)
            )
            traced, plain = traced / plain.abs().max(), plain / plain.abs().max()
        else:
            net = make_encoder(read, 16, 32, 2)
            traced, plain = (net(x, LENGTHS, trace) for trace in (Trace(), None))
    torch.testing.assert_close(traced, plain, atol=1e-6, rtol=0)


def test_gradients_flow_through_the_weights_that_are_traced():
    net, trace = gpt(checkpoint=True), Trace()
    out, _ = net.features(IDS, trace=trace)
    weights = trace["blocks.0.attention.weights"]
    gradient, of_embedding = torch.autograd.grad(
        out.square().sum(), [weights, net.embedding.weight]
    )
    assert gradient.any()
    assert not gradient.triu(1).isnan().any()
    (expected,) = torch.autograd.grad(net.features(IDS)[0].square().sum(), [net.embedding.weight])
    torch.testing.assert_close(of_embedding, expected)


def test_without_wanted_weights_the_fused_kernel_stays(monkeypatch):
    def refuse(*_):
        raise AssertionError("the weights were formed")

    monkeypatch.setattr(attention, "attention_weights", refuse)
    net = gpt()
    with torch.no_grad():
        net.features(IDS)
        trace = Trace("*.out")
        net.features(IDS, trace=trace)
    assert list(trace) == ["blocks.0.out", "blocks.1.out"]


def test_dropped_weights_are_traced_before_they_are_dropped():
    layer = Attention(D, HEADS, dropout=0.5).double().train()
    x = torch.randn(2, STEPS, D, dtype=torch.float64)
    outputs, trace = [], Trace()
    for given in (trace, None):
        torch.manual_seed(4)
        outputs.append(layer(x, Mask(causal=True), trace=given)[0])
    torch.testing.assert_close(*outputs)
    torch.testing.assert_close(
        trace["weights"].sum(-1), torch.ones(2, HEADS, STEPS, dtype=torch.float64)
    )
    assert not torch.allclose(outputs[0], layer.eval()(x, Mask(causal=True))[0])
