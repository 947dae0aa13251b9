"""The encoder-decoder Transformer equals torch.nn.Transformer with the same weights, and step by
step equals all at once.
"""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from seqloom.nn import attention as attending
from seqloom.nn.encoder_decoder import DistanceBias, EncoderDecoder
from seqloom.nn.position import sinusoids
from seqloom.nn.readers import NumberReader, TokenReader
from seqloom.traces import Trace

pytestmark = pytest.mark.filterwarnings(
    "ignore:enable_nested_tensor"
)  # torch's own advice to itself

V, D, HEADS, D_MLP = 11, 12, 3, 20
SOURCES = {"ids": torch.tensor([[1, 2, 3, 4, 5], [6, 7, 8, 0, 0]]), "lengths": torch.tensor([5, 3])}
HIDDEN = torch.arange(5) >= SOURCES["lengths"][:, None]
INPUTS = torch.tensor([[0, 3, 1, 4], [0, 9, 9, 2]])


def make(reader="own", **options):
    torch.manual_seed(0)
    made = {"own": TokenReader(9, D), "shared": None, "numbers": NumberReader(3)}[reader]
    net = (
        EncoderDecoder(
            made,
            3 if reader == "numbers" else D,
            V,
            D,
            HEADS,
            **{"n_layers": 2, "n_decoder_layers": 2, "d_mlp": D_MLP, **options},
        )
        .double()
        .eval()
    )
    with torch.no_grad():
        for p in net.parameters():
            p.add_(0.2 * torch.randn_like(p))
    return net


def theirs_of(net, norm, activation):
    """torch's, with our weights. It always ends in norms, which the paper's order does not have."""
    theirs = torch.nn.Transformer(
        D,
        HEADS,
        2,
        2,
        D_MLP,
        0.0,
        activation,
        batch_first=True,
        norm_first=norm == "pre",
        dtype=torch.float64,
    ).eval()
    for ours, layer in [
        *zip(net.encoder, theirs.encoder.layers),
        *zip(net.decoder, theirs.decoder.layers),
    ]:
        pairs = {"self_attn": ours.attention} | (
            {"multihead_attn": ours.cross} if ours.cross is not None else {}
        )
        for name, attention in pairs.items():
            layer.get_submodule(name).load_state_dict(
                {
                    "in_proj_weight": attention.qkv.weight,
                    "in_proj_bias": attention.qkv.bias,
                    "out_proj.weight": attention.out.weight,
                    "out_proj.bias": attention.out.bias,
                }
            )
        last = "norm3" if ours.cross is not None else "norm2"
        parts = {
            "linear1": ours.mlp.up,
            "linear2": ours.mlp.down,
            "norm1": ours.norm1,
            last: ours.norm2,
        }
        if ours.cross is not None:
            parts["norm2"] = ours.norm_cross
        for name, part in parts.items():
            layer.get_submodule(name).load_state_dict(part.state_dict())
    for stack, own in ((theirs.encoder, net.encoder_norm), (theirs.decoder, net.decoder_norm)):
        if own is None:
            stack.norm = None
        else:
            stack.norm.load_state_dict(own.state_dict())
    return theirs


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_it_is_torchs_transformer(norm, activation):
    net = make(norm=norm, activation=activation)
    function = (
        torch.nn.functional.relu
        if activation == "relu"
        else lambda x: torch.nn.functional.gelu(x, approximate="tanh")
    )
    theirs = theirs_of(net, norm, function)
    source = net.reader.embedding(SOURCES["ids"]) * math.sqrt(D) + sinusoids(torch.arange(5), D)
    target = net.embedding(INPUTS) * math.sqrt(D) + sinusoids(torch.arange(4), D)
    later = torch.ones(4, 4, dtype=torch.bool).triu(1)
    expected = theirs(
        source, target, tgt_mask=later, src_key_padding_mask=HIDDEN, memory_key_padding_mask=HIDDEN
    )
    features = net.features(net.encode(SOURCES), INPUTS)
    torch.testing.assert_close(features, expected)
    weights = [net.embedding.weight, net.reader.embedding.weight]
    for ours, other in zip(
        *(torch.autograd.grad(y.square().sum(), weights) for y in (features, expected))
    ):
        torch.testing.assert_close(ours, other)


OTHERS = (
    {"positions": "learned", "context": 9, "embedding_norm": True},
    {"d_head": 5, "activation": "swish"},
    {
        "positions": "t5",
        "buckets": 4,
        "max_distance": 3,
        "norm_kind": "rms",
        "bias": False,
        "scaled_attention": False,
        "scaled_output": True,
        "activation": "geglu",
    },
)


@pytest.mark.parametrize("reader", ["own", "shared"])
@pytest.mark.parametrize("options", [{"norm": "pre"}, {"norm": "post"}, *OTHERS], ids=str)
def test_all_steps_at_once_are_one_by_one(options, reader):
    net = make(reader, **options)
    with torch.no_grad():
        memory = net.encode(SOURCES)
        whole = net.features(memory, INPUTS)
        state = net.start(memory)
        for t in range(INPUTS.shape[1]):
            features, state = net.step(memory, state, INPUTS[:, t])
            torch.testing.assert_close(features, whole[:, t])


@pytest.mark.parametrize(
    ("reader", "options"),
    [("own", {}), ("shared", {}), ("numbers", {}), *(("own", o) for o in OTHERS)],
    ids=str,
)
def test_a_source_is_read_as_if_it_were_alone(reader, options):
    net = make(reader, **options)
    values = torch.randn(2, 5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    sources = {**SOURCES, "values": values} if reader == "numbers" else SOURCES
    with torch.no_grad():
        together = net.features(net.encode(sources), INPUTS)
        short = {name: part[1:, :3] for name, part in sources.items() if name != "lengths"}
        alone = net.features(net.encode({**short, "lengths": torch.tensor([3])}), INPUTS[1:])
        unlike = net.features(net.encode({**sources, "lengths": torch.tensor([5, 5])}), INPUTS)
    torch.testing.assert_close(together[1], alone[0])
    assert not torch.allclose(unlike[1], together[1])


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_weights_are_those_of_torchs_attention(norm):
    net = make(norm=norm)
    theirs = theirs_of(net, norm, torch.nn.functional.relu)
    seen = []
    for layer in theirs.decoder.layers:
        original = layer.multihead_attn.forward

        def watched(*args, original=original, **options):
            y, weights = original(
                *args, **{**options, "need_weights": True, "average_attn_weights": False}
            )
            seen.append(weights)
            return y, weights

        layer.multihead_attn.forward = watched
    with torch.no_grad():
        source = net.reader.embedding(SOURCES["ids"]) * math.sqrt(D) + sinusoids(torch.arange(5), D)
        target = net.embedding(INPUTS) * math.sqrt(D) + sinusoids(torch.arange(4), D)
        theirs(
            source,
            target,
            tgt_mask=torch.ones(4, 4, dtype=torch.bool).triu(1),
            src_key_padding_mask=HIDDEN,
            memory_key_padding_mask=HIDDEN,
        )
        weights, steps = Trace("*.cross.weights"), Trace("*.cross.weights")
        memory = net.encode(SOURCES)
        net.features(memory, INPUTS, weights)
        net.step(memory, net.start(memory), INPUTS[:, 0], steps)
    torch.testing.assert_close(torch.stack(list(weights.values())), torch.stack(seen))
    torch.testing.assert_close(torch.stack(list(steps.values())), torch.stack(seen)[..., :1, :])


def test_tied_vectors_are_one_matrix():
    assert "output.weight" not in make().state_dict()
    assert "output.weight" in make(tied=False).state_dict()
    assert not any(name.startswith("reader") for name in make("shared").state_dict())
    with pytest.raises(ValueError, match="even width"):
        EncoderDecoder(None, 9, V, 9, 3)


def test_biases_of_long_texts_are_made_in_tiles_that_fit(monkeypatch):
    net, made = make("shared", positions="t5", max_distance=8, buckets=8), []
    sources = {"ids": torch.arange(120).reshape(2, 60) % V, "lengths": torch.tensor([60, 7])}
    inputs, real = torch.arange(80).reshape(2, 40) % V, DistanceBias.forward
    memory = net.encode(sources)
    whole = net.features(memory, inputs)

    def forward(self, queries, keys):
        made.append(real(self, queries, keys))
        return made[-1]

    monkeypatch.setattr(DistanceBias, "forward", forward)
    monkeypatch.setattr(attending, "MOST_SCORES", 4000)
    trace = Trace("*weights")
    tiles = net.encode(sources, trace)
    torch.testing.assert_close(tiles.layers, memory.layers)
    torch.testing.assert_close(net.features(tiles, inputs, trace), whole)
    assert trace["encoder.0.attention.weights"].shape == (2, HEADS, 60, 60)
    assert len(made) > 10
    assert max(bias.numel() for bias in made) <= 4000


def test_a_line_of_12_000_characters_needs_little_memory_for_its_biases():
    bias = DistanceBias(8, 32, 128, causal=False)
    positions = torch.arange(12_000)
    mask = attending.tiled(
        lambda rows: bias(positions[None, rows], positions), (1, 8, 12_000, 12_000)
    )
    assert mask.scores is None
    make_tile, height = mask.tiles
    assert make_tile(slice(0, height)).numel() * 4 <= 64 << 20
