"""`linear=` with an adapter (LoRA, Hu et al. 2022): networks train that alone and merge into plain ones."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn
from torch.nn.utils import parametrize

from seqloom.encoder_table import ENCODERS
from seqloom.nn import fused
from seqloom.nn.bert import BertNet
from seqloom.nn.cells import Cell
from seqloom.nn.composition import (
    LabelHead,
    Pooling,
    TagHead,
)
from seqloom.nn.encoder_decoder import EncoderDecoder
from seqloom.nn.encoders import make_encoder
from seqloom.nn.layers import linear_rows, original, own_weights
from seqloom.nn.memory import SCORES
from seqloom.nn.readers import TokenReader
from seqloom.nn.recurrent import RecurrentStack
from seqloom.nn.seq2seq import Seq2Seq
from seqloom.nn.transformer import GPTNet

RANK = 2


def first_a(d_in):
    return torch.cos(torch.arange(RANK * d_in)).view(RANK, d_in)


class LowRank(nn.Module):
    """W + B A, as a parametrisation of W."""

    def __init__(self, d_in, d_out):
        super().__init__()
        self.lora_a, self.lora_b = (
            nn.Parameter(first_a(d_in)),
            nn.Parameter(torch.zeros(d_out, RANK)),
        )
        self.asked = 0

    def forward(self, weight):
        self.asked += 1
        return weight + self.lora_b @ self.lora_a


def by_weight(d_in, d_out, bias=True):
    layer = nn.Linear(d_in, d_out, bias=bias)
    parametrize.register_parametrization(layer, "weight", LowRank(d_in, d_out))
    return layer


class ByForward(nn.Linear):
    """W x + B (A x): no gradient of the size of W is ever made, but a cell cannot use it."""

    def __init__(self, d_in, d_out, bias=True):
        super().__init__(d_in, d_out, bias=bias)
        self.lora_a, self.lora_b = (
            nn.Parameter(first_a(d_in)),
            nn.Parameter(torch.zeros(d_out, RANK)),
        )

    def forward(self, x):
        return super().forward(x) + x @ self.lora_a.T @ self.lora_b.T


class ByBoth(ByForward):
    """Cheap where it is called, and with a matrix for cells: the parametrisation has the parameters."""

    def __init__(self, d_in, d_out, bias=True):
        nn.Linear.__init__(self, d_in, d_out, bias=bias)
        self.low_rank = [
            LowRank(d_in, d_out)
        ]  # in a list: its names are those of the parametrisation
        parametrize.register_parametrization(self, "weight", self.low_rank[0])

    def forward(self, x):
        low = self.low_rank[0]
        return nn.functional.linear(x, original(self), self.bias) + x @ low.lora_a.T @ low.lora_b.T


IDS = torch.randint(23, (2, 9), generator=torch.Generator().manual_seed(1))
KEEP = torch.arange(9) < torch.tensor([[9], [5]])
SOURCES = {"ids": torch.tensor([[1, 2, 3, 4, 5], [6, 7, 8, 0, 0]]), "lengths": torch.tensor([5, 3])}
INPUTS = torch.tensor([[0, 3, 1, 4], [0, 9, 9, 2]])
X = torch.randn(3, 6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
LENGTHS = torch.tensor([6, 2, 4])


def gpt(**options):
    return lambda linear: GPTNet(
        23, 16, 12, 2, 3, linear=linear, **options
    ), lambda net: net.features(IDS)[0]


def bert(**options):
    def read(net):
        hidden = net(IDS, None, KEEP)
        pooled = net.pooled(hidden).sum() if net.pooler is not None else 0.0
        return net.logits(hidden) + pooled

    return lambda linear: BertNet(23, 16, 12, 2, 3, linear=linear, **options), read


def encoder_decoder(**options):
    options = {"n_layers": 2, "n_decoder_layers": 2, **options}
    return (
        lambda linear: EncoderDecoder(TokenReader(9, 8), 8, 11, 12, 3, linear=linear, **options),
        lambda net: net.features(net.encode(SOURCES), INPUTS),
    )


def seq2seq(encoder="bigru", **options):
    def make(linear):
        made = make_encoder(encoder, 6, 4, 1, n_heads=2, linear=linear)
        return Seq2Seq(TokenReader(9, 6), made, 11, 6, 8, linear=linear, **options)

    return make, lambda net: net.features(net.encode(SOURCES), INPUTS)


def stack(**options):
    def read(net):
        out, state = net(X, None, LENGTHS)
        return torch.cat([out.flatten(), *(leaf.flatten() for layer in state for leaf in layer)])

    return lambda linear: RecurrentStack(4, 5, 2, linear=linear, **options), read


def encoder(name):
    return lambda linear: make_encoder(name, 4, 8, 2, n_heads=2, linear=linear), lambda net: net(
        X, LENGTHS
    )


WITHOUT_CELLS = {
    "gpt": gpt(),
    "gpt swiglu": gpt(
        activation="swiglu", positions="rope", n_kv_heads=1, bias=False, norm_kind="rms"
    ),
    "gpt relative": gpt(positions="relative", window=2),
    "gpt untied": gpt(tied=False),
    "bert": bert(),
    "bert untied": bert(tied=False),
    "bert all": bert(d_embed=4, shared_layers=True, pooler=True),
    "encoder-decoder": encoder_decoder(),
    "encoder-decoder geglu": encoder_decoder(activation="geglu", bias=False, norm="post"),
    "label head": (
        lambda linear: LabelHead(4, 3, Pooling("attention", 4, linear=linear), linear=linear),
        lambda net: net(X, LENGTHS),
    ),
    "tag head": (lambda linear: TagHead(4, 3, linear=linear), lambda net: net(X, LENGTHS)),
    **{name: encoder(name) for name in ("window", "cnn", "transformer")},
}
WITH_CELLS = {
    **{
        f"stack {options}": stack(**options)
        for options in (
            {"cell": "lstm"},
            {"cell": "gru"},
            {"cell": "rnn"},
            {"cell": "lstm", "bidirectional": True},
            {"cell": "gru", "bidirectional": True},
            {"d_projection": 3},
            {"cell": "lstm", "layer_norm": True},
            {"cell": "gru", "layer_norm": True, "reset": "before"},
            {"cell": "rnn", "learned_start": True},
        )
    },
    **{name: encoder(name) for name in ENCODERS if name not in WITHOUT_CELLS and name != "bag"},
    **{f"seq2seq {score}": seq2seq(attention=score) for score in SCORES},
    "seq2seq plain": seq2seq(attention=None, cell="lstm", n_layers=2),
    "seq2seq fed": seq2seq(input_feeding=True, cell="lstm", n_layers=2, coverage=True),
    "seq2seq transformer": seq2seq("transformer"),
}
CASES = [
    *((name, maker) for name in {**WITHOUT_CELLS, **WITH_CELLS} for maker in (by_weight, ByBoth)),
    *((name, ByForward) for name in WITHOUT_CELLS),
]


def built(make, linear, plain=None):
    """In double; with the weights of a plain network if given, and then nothing but adapters is trained."""
    torch.manual_seed(0)
    net = make(linear).double().train()
    with torch.no_grad():
        for name, weight in own_weights(net):
            noisy = weight + 0.2 * torch.randn_like(weight)
            weight.copy_(noisy if plain is None else plain.state_dict()[name])
            weight.requires_grad_(plain is None)
    return net


def merged(net):
    """The weights of a plain network that computes the same."""
    weights = {name: weight.detach().clone() for name, weight in own_weights(net)}
    for place, module in net.named_modules():
        prefix = f"{place}." if place else ""
        if isinstance(module, ByForward) and not isinstance(module, ByBoth):
            weights[f"{prefix}weight"] += (module.lora_b @ module.lora_a).detach()
        for name in getattr(module, "parametrizations", {}):
            weights[prefix + name] = getattr(module, name).detach()
    return weights


def added(net):
    return {name: p for name, p in net.named_parameters() if ".lora_" in name}


@pytest.mark.parametrize(
    ("name", "maker"), CASES, ids=[f"{name}-{maker.__name__}" for name, maker in CASES]
)
def test_an_adapter_alone_is_trained_and_merges(name, maker):
    make, read = {**WITHOUT_CELLS, **WITH_CELLS}[name]
    plain = built(make, nn.Linear)
    adapted = built(make, maker, plain)
    assert [own for own, _ in own_weights(plain)] == [own for own, _ in plain.named_parameters()]
    assert {own for own, _ in own_weights(adapted)} == plain.state_dict().keys()
    before = read(plain).detach()
    torch.testing.assert_close(read(adapted), before)
    optimizer = torch.optim.Adam([p for p in adapted.parameters() if p.requires_grad], lr=0.02)
    for _ in range(3):
        optimizer.zero_grad()
        (
            read(adapted) - torch.sin(torch.arange(before.numel())).view(before.shape)
        ).square().sum().backward()
        optimizer.step()
    trained = {own: p for own, p in adapted.named_parameters() if p.requires_grad}
    assert trained.keys() == added(adapted).keys() != set()
    for own, p in trained.items():
        assert not torch.equal(
            p, first_a(p.shape[1]) if own.endswith("a") else torch.zeros_like(p)
        ), own
    for own, weight in own_weights(adapted):
        assert weight.grad is None
        assert torch.equal(weight, plain.state_dict()[own])
    after = read(adapted).detach()
    assert (after - before).abs().max() > 1e-3
    plain.load_state_dict(merged(adapted))
    torch.testing.assert_close(read(plain), after, atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", {**WITHOUT_CELLS, **WITH_CELLS})
def test_no_linear_layer_and_no_cell_is_forgotten(name):
    net = {**WITHOUT_CELLS, **WITH_CELLS}[name][0](by_weight)
    vocabulary = {
        "output",
        "head.output",
    }  # as large as the vectors of tokens, and computed with the loss
    for place, module in net.named_modules():
        if isinstance(module, nn.Linear):
            assert parametrize.is_parametrized(module, "weight") != (place in vocabulary), place
        if isinstance(module, Cell):
            assert parametrize.is_parametrized(module, "w_x"), place
            assert parametrize.is_parametrized(module, "w_h"), place


@pytest.mark.parametrize(
    ("name", "maker"), CASES, ids=[f"{name}-{maker.__name__}" for name, maker in CASES]
)
def test_first_values_are_those_of_the_network_and_of_the_adapter(name, maker):
    """The network fills what is its own, by names that it knows; the B of an adapter stays zero."""
    make = {**WITHOUT_CELLS, **WITH_CELLS}[name][0]
    torch.manual_seed(0)
    plain = make(nn.Linear)
    torch.manual_seed(0)
    net = make(maker)
    for own, p in added(net).items():
        assert torch.equal(p, first_a(p.shape[1]) if own.endswith("a") else torch.zeros_like(p)), (
            own
        )
    if name in WITHOUT_CELLS:  # a plain cell draws no layer first
        for own, weight in own_weights(net):
            assert torch.equal(weight, plain.state_dict()[own]), own


def test_the_cells_are_filled_block_by_block_under_an_adapter():
    cell = RecurrentStack(4, 5, linear=by_weight).layers[0]
    for block in original(cell, "w_h").chunk(4):
        torch.testing.assert_close(block @ block.T, torch.eye(5), atol=1e-6, rtol=0)
    assert cell.b.tolist() == [0.0] * 5 + [1.0] * 5 + [0.0] * 10


def test_what_a_cell_could_not_use_is_refused():
    with pytest.raises(
        ValueError, match="takes the matrix of a ByForward and would never call its forward"
    ):
        RecurrentStack(4, 5, linear=ByForward)


def test_a_layer_without_anything_added_gives_its_matrix():
    stack = RecurrentStack(4, 5, linear=lambda d_in, d_out, bias: nn.Linear(d_in, d_out, bias=bias))
    assert list(stack.state_dict()) == ["layers.0.w_x", "layers.0.w_h", "layers.0.b"]
    assert type(stack.layers[0]).__name__ == "LSTMCell"


@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
def test_adapted_cells_take_the_fused_path_with_the_gradients_of_the_steps(cell, monkeypatch):
    torch.manual_seed(0)
    net = RecurrentStack(4, 5, 2, cell=cell, bidirectional=True, linear=by_weight).double()
    with torch.no_grad():
        for p in added(net).values():
            p.normal_()

    def gradients():
        return torch.autograd.grad(net(X)[0].square().sum(), list(added(net).values()))

    walked = []
    walk = Cell.walk

    def watched(self, *args, **options):
        walked.append(self)
        return walk(self, *args, **options)

    monkeypatch.setattr(Cell, "walk", watched)
    fast = gradients()
    assert not walked
    monkeypatch.setattr(fused, "can_fuse", lambda *_: False)
    slow = gradients()
    assert len(walked) == 4
    for a, b in zip(fast, slow):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize(
    "name",
    [
        "stack {'cell': 'lstm'}",
        "seq2seq fed",
        "stack {'cell': 'gru', 'layer_norm': True, 'reset': 'before'}",
    ],
)
def test_a_matrix_is_computed_once_a_pass(name):
    make, read = WITH_CELLS[name]
    net = make(by_weight).double()
    cells = [p for m in net.modules() if isinstance(m, Cell) for p in m.parametrizations.values()]
    for chain in cells:
        chain[0].asked = 0
    read(net)
    assert cells
    assert [chain[0].asked for chain in cells] == [1] * len(cells)


def test_an_adapted_network_is_saved_and_loaded_by_torch():
    make, read = WITH_CELLS["seq2seq additive"]
    net = built(make, by_weight, built(make, nn.Linear))
    with torch.no_grad():
        for p in added(net).values():
            p.normal_()
    other = make(by_weight).double()
    other.load_state_dict(net.state_dict())
    assert torch.equal(read(other), read(net))
    assert "decoder.layers.0.parametrizations.w_h.original" in net.state_dict()


def test_merging_by_torch_gives_the_names_back():
    make, read = WITH_CELLS["stack {'cell': 'gru', 'bidirectional': True}"]
    net = built(make, by_weight, built(make, nn.Linear))
    with torch.no_grad():
        for p in added(net).values():
            p.normal_()
    expected = read(net)
    for module in list(net.modules()):
        if isinstance(module, Cell):
            for matrix in ("w_x", "w_h"):
                parametrize.remove_parametrizations(module, matrix, leave_parametrized=True)
    assert net.state_dict().keys() == make(nn.Linear).state_dict().keys()
    torch.testing.assert_close(read(net), expected)


@pytest.mark.parametrize("maker", [nn.Linear, by_weight, ByForward, ByBoth])
@pytest.mark.parametrize("bias", [True, False])
def test_some_rows_are_those_of_the_whole(maker, bias):
    layer = maker(4, 6, bias=bias).double()
    with torch.no_grad():
        for p in layer.parameters():
            p.add_(1.0)
    for rows in (slice(2), slice(2, None), slice(1, 5)):
        torch.testing.assert_close(linear_rows(layer, X, rows), layer(X)[..., rows])
