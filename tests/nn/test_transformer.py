import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F

from seqloom.decoding.stepper import join, select
from seqloom.nn.attention import Attention
from seqloom.nn.losses import linear_cross_entropy
from seqloom.nn.position import alibi_slopes
from seqloom.nn.transformer import GPTNet, causal_positions
from tests.golden import gpt2_answers

POSITIONS = ("learned", "sinusoidal", "rope", "alibi", "relative", "none")


def make(**options):
    """A small network with weights large enough that every part shows."""
    torch.manual_seed(0)
    options = {
        "vocab_size": 23,
        "context": 16,
        "d_model": 12,
        "n_layers": 2,
        "n_heads": 3,
        **options,
    }
    net = GPTNet(**options).double().eval()
    with torch.no_grad():
        for p in net.parameters():
            p.add_(0.3 * torch.randn_like(p))
    return net


def some_ids(b=2, t=9, seed=1):
    return torch.randint(23, (b, t), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("positions", POSITIONS)
def test_a_later_token_changes_nothing_before(positions, norm):
    net = make(positions=positions, norm=norm)
    ids = some_ids()
    other = ids.clone()
    other[:, 6] = (other[:, 6] + 1) % 23
    with torch.no_grad():
        a, b = net.features(ids)[0], net.features(other)[0]
    torch.testing.assert_close(a[:, :6], b[:, :6], atol=1e-12, rtol=0)
    assert (a[:, 6:] - b[:, 6:]).abs().amax((0, 2)).min() > 1e-4  # and everything after


@pytest.mark.parametrize("positions", POSITIONS)
def test_a_window_of_two_in_two_blocks_reaches_four_tokens_back(positions):
    net = make(positions=positions, window=2, max_distance=2)
    ids = some_ids()
    changed, past = ids.clone(), net.start(2)
    changed[:, 3] = (changed[:, 3] + 1) % 23
    with torch.no_grad():
        a, b = net.features(ids)[0], net.features(changed)[0]
        moved = (a - b).abs().amax((0, 2)) > 1e-9
        assert moved.tolist() == [False] * 3 + [True] * 5 + [False]
        parts = []
        for part in ids.split((1, 4, 2, 1, 1), 1):  # and with a cache
            hidden, past = net.features(part, past)
            parts.append(hidden)
    torch.testing.assert_close(torch.cat(parts, 1), a)


@pytest.mark.parametrize("positions", POSITIONS)
def test_order_matters(positions):
    net = make(positions=positions)
    with torch.no_grad():
        a, b = (
            net.features(torch.tensor([[1, 2, 3, 4]]))[0],
            net.features(torch.tensor([[2, 1, 3, 4]]))[0],
        )
    assert (a[:, -1] - b[:, -1]).abs().max() > 1e-5


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("positions", POSITIONS)
def test_reading_in_pieces_equals_reading_at_once(positions, norm):
    net = make(positions=positions, norm=norm)
    ids = some_ids()
    with torch.no_grad():
        whole, _ = net.features(ids)
        past, parts, at = net.start(2), [], 0
        for size in (1, 1, 3, 2, 1, 1):
            hidden, past = net.features(ids[:, at : at + size], past)
            parts.append(hidden)
            at += size
    torch.testing.assert_close(torch.cat(parts, 1), whole)
    assert past.lengths.tolist() == [9, 9]


@pytest.mark.parametrize("positions", POSITIONS)
def test_prompts_of_unequal_length_side_by_side(positions):
    """Padded on the right, then each goes on from its own end; the padding must leave no trace."""
    net = make(positions=positions)
    ids, lengths = some_ids(3, 10), [4, 6, 1]
    with torch.no_grad():
        _, past = net.features(ids[:, :6])  # what lies beyond a row's length stands for padding
        past = past._replace(lengths=torch.tensor(lengths))
        for step in range(3):
            now = torch.stack([ids[row, n + step] for row, n in enumerate(lengths)])[:, None]
            hidden, past = net.features(now, past)
        for row, n in enumerate(lengths):
            torch.testing.assert_close(
                hidden[row, -1], net.features(ids[row : row + 1, : n + 3])[0][0, -1]
            )


def test_the_past_is_a_value_that_decoding_can_select_and_join():
    net = make(positions="rope")
    ids = some_ids(3, 8)
    with torch.no_grad():
        _, short = net.features(ids[:1, :3])
        _, long = net.features(ids[1:, :5])
        past = select(join([short, long]), np.array([2, 0]))
        hidden, _ = net.features(torch.tensor([[7], [7]]), past)
        for row, prompt in enumerate((ids[2, :5], ids[0, :3])):
            expected = net.features(torch.cat((prompt, torch.tensor([7])))[None])[0][0, -1]
            torch.testing.assert_close(hidden[row, 0], expected)


def test_a_step_writes_into_the_cache_and_copies_nothing():
    net = make()
    with torch.no_grad():
        _, past = net.features(some_ids(2, 5), net.start(2))
        _, past = net.features(some_ids(2, 1), past)  # makes room
        before = past.layers[0][0].data_ptr()
        _, past = net.features(some_ids(2, 1), past)
    assert past.layers[0][0].data_ptr() == before
    assert past.layers[0][0].shape[2] == 10


def brute_force(x, layer, slopes=None):
    """Attention of one layer by loops over rows, heads and queries, in NumPy."""
    x = x.numpy()
    w, b = layer.qkv.weight.detach().numpy(), layer.qkv.bias.detach().numpy()
    batch, time, width = x.shape
    size = width // layer.n_heads
    out = np.zeros_like(x)
    for row in range(batch):
        q, k, v = np.split(x[row] @ w.T + b, 3, axis=1)
        for head in range(layer.n_heads):
            part = slice(head * size, (head + 1) * size)
            for t in range(time):
                scores = np.array([q[t, part] @ k[s, part] / math.sqrt(size) for s in range(t + 1)])
                if slopes is not None:
                    scores -= slopes[head].item() * (t - np.arange(t + 1))
                weights = np.exp(scores - scores.max())
                out[row, t, part] = (weights / weights.sum()) @ v[: t + 1, part]
    return out @ layer.out.weight.detach().numpy().T + layer.out.bias.detach().numpy()


@pytest.mark.parametrize("alibi", [False, True])
def test_attention_is_the_brute_force_one(alibi):
    torch.manual_seed(0)
    layer = Attention(12, 3).double()
    x = torch.randn(2, 7, 12, dtype=torch.float64)
    slopes = alibi_slopes(3).double() if alibi else None
    y, _ = layer(x, *causal_positions(torch.arange(7)[None], slopes=slopes))
    np.testing.assert_allclose(y.detach().numpy(), brute_force(x, layer, slopes), atol=1e-10)


@pytest.mark.parametrize(
    ("positions", "norm", "tied", "bias"),
    [
        ("learned", "pre", True, True),
        ("alibi", "post", False, False),
        ("rope", "pre", False, True),
        ("sinusoidal", "post", True, True),
        ("relative", "pre", True, True),
        ("none", "pre", True, True),
    ],
)
def test_gradients_agree_with_finite_differences(positions, norm, tied, bias):
    net = make(
        vocab_size=5,
        context=4,
        d_model=4,
        n_layers=1,
        n_heads=2,
        d_mlp=6,
        positions=positions,
        norm=norm,
        tied=tied,
        bias=bias,
    )
    ids, targets = torch.tensor([[0, 3, 1]]), torch.tensor([3, 1, 4])
    names, values = zip(*net.named_parameters())

    def loss(*values):
        hidden, _ = torch.func.functional_call(
            Wrapped(net), {f"net.{k}": v for k, v in zip(names, values)}, (ids,)
        )
        weight = dict(zip(names, values))["embedding.weight" if tied else "output.weight"]
        return linear_cross_entropy(hidden.flatten(0, 1), weight, None, targets)

    assert torch.autograd.gradcheck(loss, values, fast_mode=True)


class Wrapped(torch.nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, ids):
        return self.net.features(ids)


def test_names_of_the_saved_file():
    net = GPTNet(10, 8, 6, 1, 2)
    expected = {
        "embedding.weight": (10, 6),
        "position.weight": (8, 6),
        "norm.weight": (6,),
        "norm.bias": (6,),
    }
    for name, shape in (
        ("norm1", (6,)),
        ("norm2", (6,)),
        ("attention.qkv", (18, 6)),
        ("attention.out", (6, 6)),
        ("mlp.up", (24, 6)),
        ("mlp.down", (6, 24)),
    ):
        expected |= {f"blocks.0.{name}.weight": shape, f"blocks.0.{name}.bias": shape[:1]}
    assert {k: tuple(v.shape) for k, v in net.state_dict().items()} == expected
    other = GPTNet(10, 8, 6, 1, 2, positions="alibi", tied=False, bias=False, d_mlp=7).state_dict()
    assert {k: tuple(v.shape) for k, v in other.items() if "blocks" not in k} == {
        "embedding.weight": (10, 6),
        "output.weight": (10, 6),
        "norm.weight": (6,),
    }
    assert other["blocks.0.mlp.up.weight"].shape == (7, 6)


def test_initialisation_is_gpt2s():
    torch.manual_seed(0)
    state = GPTNet(500, 64, 128, 8, 4).state_dict()
    assert state["blocks.0.attention.qkv.weight"].std().item() == pytest.approx(0.02, rel=0.05)
    assert state["blocks.7.attention.out.weight"].std().item() == pytest.approx(0.02 / 4, rel=0.05)
    assert state["blocks.3.mlp.down.weight"].std().item() == pytest.approx(0.02 / 4, rel=0.05)
    assert state["blocks.3.mlp.up.bias"].abs().max() == 0
    assert state["blocks.3.norm1.weight"].unique().tolist() == [1]


def test_checkpointing_changes_memory_and_not_the_gradient():
    ids = some_ids()
    grads = []
    for checkpoint in (False, True):
        net = make(checkpoint=checkpoint, dropout=0.2).train()
        torch.manual_seed(5)  # dropout must be the same when recomputed
        kept = []
        with torch.autograd.graph.saved_tensors_hooks(
            lambda x, kept=kept: kept.append(x.numel()) or x, lambda x: x
        ):
            hidden, past = net.features(ids)
        assert past is None
        hidden.square().sum().backward()
        grads.append((sum(kept), [p.grad for p in net.parameters()]))
    assert grads[1][0] < grads[0][0] / 2
    for a, b in zip(grads[0][1], grads[1][1]):
        torch.testing.assert_close(a, b)


def test_dropout_is_for_training_alone():
    net = make(dropout=0.3)
    ids = some_ids()
    with torch.no_grad():
        assert torch.equal(net.features(ids)[0], net.features(ids)[0])
        torch.testing.assert_close(net.features(ids)[0], make(dropout=0.0).features(ids)[0])
        net.train()
        assert not torch.equal(net.features(ids)[0], net.features(ids)[0])


def test_only_a_learned_table_ends():
    ids = some_ids(1, 17)
    with torch.no_grad():
        with pytest.raises(ValueError, match="17 tokens is longer than the position table of 16"):
            make().features(ids)
        _, past = make().features(ids[:, :16])
        with pytest.raises(ValueError, match="17 tokens is longer"):
            make().features(ids[:, 16:], past)
        for positions in POSITIONS[1:]:
            assert make(positions=positions).features(ids)[0].isfinite().all()


def test_what_is_refused():
    with pytest.raises(ValueError, match="width 10 does not divide into 3 heads"):
        GPTNet(10, 8, 10, 1, 3)
    net = make()
    with pytest.raises(ValueError, match=r"torch\.no_grad"):
        net.features(some_ids(), net.start(2))


@pytest.mark.parametrize("source", ["recorded", "live"])
def test_hugging_face_gpt2_with_the_same_weights(source):
    weights, theirs = gpt2_answers.network(source)
    net = make()
    net.load_state_dict({name: torch.from_numpy(weight) for name, weight in weights.items()})
    ids = torch.from_numpy(theirs["ids"])
    hidden, _ = net.features(ids)
    torch.testing.assert_close(
        F.linear(hidden, net.output_weight), torch.from_numpy(theirs["logits"])
    )
    loss = linear_cross_entropy(
        hidden[:, :-1].flatten(0, 1), net.output_weight, None, ids[:, 1:].flatten()
    )
    assert loss.item() == pytest.approx(
        float(theirs["loss"]), rel=1e-6
    )  # theirs is float32 in any case
