"""Attention under every mask, and blocks as encoder and decoder: against torch's own layers with
the same weights.
"""

import math
import os
import subprocess
import sys
from functools import partial

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F

from seqloom.nn import attention as module
from seqloom.nn.attention import (
    Attention,
    Mask,
    dropped_attention,
    make_mask,
    near_attention,
    padding_mask,
    seen_keys,
)
from seqloom.nn.transformer import ACTIVATIONS, MLP, Block, causal_positions
from seqloom.traces import Trace

D, HEADS, D_MLP = 12, 3, 20
CAUSAL = Mask(causal=True)
KEEP = torch.tensor([[True] * 4 + [False] * 3, [True] * 7])  # (B, S)
FUNCTIONS = {"relu": F.relu, "gelu": F.gelu, "gelu-tanh": partial(F.gelu, approximate="tanh")}


def some(*shape, seed=1):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def attention(theirs=None, **options):
    """A layer, with the weights of torch's if given."""
    torch.manual_seed(0)
    layer = Attention(D, HEADS, **options).double()
    if theirs is not None:
        weights = {
            "qkv.weight": "in_proj_weight",
            "qkv.bias": "in_proj_bias",
            "out.weight": "out_proj.weight",
            "out.bias": "out_proj.bias",
        }
        layer.load_state_dict({ours: theirs.state_dict()[name] for ours, name in weights.items()})
    return layer


def noisy(module):
    """Weights that are large enough for every part to show; torch's biases are zero at first."""
    torch.manual_seed(3)
    with torch.no_grad():
        for p in module.parameters():
            p.add_(0.3 * torch.randn_like(p))
    return module


def equal_with_gradients(ours, theirs, inputs, where=slice(None)):
    torch.testing.assert_close(ours[where], theirs[where])
    weights = some(*ours[where].shape, seed=9)
    for a, b in zip(
        *(torch.autograd.grad((y[where] * weights).sum(), inputs) for y in (ours, theirs))
    ):
        torch.testing.assert_close(a, b)


def masks():
    """Ours, and the same as torch's attn_mask (added to the scores) and key_padding_mask (True hides)."""
    places = torch.arange(7)
    bias = some(1, HEADS, 7, 7, seed=4)
    hidden = torch.zeros(7, 7, dtype=torch.float64).masked_fill(
        torch.ones(7, 7).triu(1) > 0, -math.inf
    )
    near = torch.zeros(7, 7, dtype=torch.float64).masked_fill(
        (places[:, None] - places).abs() > 2, -math.inf
    )
    padded = torch.zeros(2, 7, dtype=torch.float64).masked_fill(~KEEP, -math.inf)
    causal = seen_keys(places[None], places, causal=True)
    return {
        "all": (Mask(), None, None),
        "causal": (CAUSAL, hidden, None),
        "padded": (padding_mask(KEEP), None, padded),
        "causal and padded": (make_mask(causal & KEEP[:, None, None]), hidden, padded),
        "window": (make_mask(seen_keys(places[None], places, window=2)), near, None),
        "causal window": (
            make_mask(seen_keys(places[None], places, causal=True, window=2)),
            hidden + near,
            None,
        ),
        "causal window by blocks": (Mask(causal=True, window=2), hidden + near, None),
        "biased and padded": (
            make_mask(KEEP[:, None, None], bias),
            bias.expand(2, -1, -1, -1).flatten(0, 1),
            padded,
        ),
    }


@pytest.mark.parametrize("kind", masks())
def test_self_attention_is_torchs(kind):
    mask, added, padded = masks()[kind]
    theirs = noisy(torch.nn.MultiheadAttention(D, HEADS, batch_first=True, dtype=torch.float64))
    x = some(2, 7, D).requires_grad_()
    expected, _ = theirs(x, x, x, attn_mask=added, key_padding_mask=padded, need_weights=False)
    equal_with_gradients(attention(theirs)(x, mask)[0], expected, (x,))


@pytest.mark.parametrize("padded", [False, True])
def test_cross_attention_is_torchs(padded):
    theirs = noisy(torch.nn.MultiheadAttention(D, HEADS, batch_first=True, dtype=torch.float64))
    x, memory = some(2, 5, D).requires_grad_(), some(2, 7, D, seed=2).requires_grad_()
    ours = attention(theirs)
    y = ours.cross(x, ours.project(memory), padding_mask(KEEP) if padded else Mask())
    expected, _ = theirs(
        x, memory, memory, key_padding_mask=~KEEP if padded else None, need_weights=False
    )
    equal_with_gradients(y, expected, (x, memory))


def block(norm, activation, theirs, *, cross=False):
    made = Block(
        D,
        attention(theirs.self_attn),
        MLP(D, D_MLP, FUNCTIONS[activation]),
        norm=norm,
        cross=attention(theirs.multihead_attn) if cross else None,
    ).double()
    parts = {
        "mlp.up": "linear1",
        "mlp.down": "linear2",
        "norm1": "norm1",
        "norm2": "norm3" if cross else "norm2",
    }
    parts |= {"norm_cross": "norm2"} if cross else {}
    for ours, name in parts.items():
        made.get_submodule(ours).load_state_dict(theirs.get_submodule(name).state_dict())
    return made


@pytest.mark.parametrize("activation", FUNCTIONS)
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_block_is_torchs_encoder_layer(norm, activation):
    theirs = noisy(
        torch.nn.TransformerEncoderLayer(
            D,
            HEADS,
            D_MLP,
            dropout=0.0,
            batch_first=True,
            activation=FUNCTIONS[activation],
            norm_first=norm == "pre",
            dtype=torch.float64,
        )
    )
    x = some(2, 7, D).requires_grad_()
    y, _ = block(norm, activation, theirs)(x, padding_mask(KEEP))
    equal_with_gradients(y, theirs(x, src_key_padding_mask=~KEEP), (x,), where=KEEP)


@pytest.mark.parametrize("activation", FUNCTIONS)
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_block_with_a_memory_is_torchs_decoder_layer(norm, activation):
    theirs = noisy(
        torch.nn.TransformerDecoderLayer(
            D,
            HEADS,
            D_MLP,
            dropout=0.0,
            batch_first=True,
            activation=FUNCTIONS[activation],
            norm_first=norm == "pre",
            dtype=torch.float64,
        )
    )
    x, memory = some(2, 5, D).requires_grad_(), some(2, 7, D, seed=2).requires_grad_()
    ours = block(norm, activation, theirs, cross=True)
    y, _ = ours(x, CAUSAL, memory=ours.cross.project(memory), memory_mask=padding_mask(KEEP))
    hidden = torch.ones(5, 5, dtype=torch.bool).triu(1)
    equal_with_gradients(
        y, theirs(x, memory, tgt_mask=hidden, memory_key_padding_mask=~KEEP), (x, memory)
    )


def test_a_decoder_that_reads_token_by_token_projects_its_memory_once():
    torch.manual_seed(0)
    made = Block(D, attention(), MLP(D, D_MLP, ACTIVATIONS["gelu"]), cross=attention()).double()
    x, memory = some(2, 5, D), made.cross.project(some(2, 7, D, seed=2))
    with torch.no_grad():
        whole, _ = made(x, CAUSAL, memory=memory, memory_mask=padding_mask(KEEP))
        cache = (x.new_empty(2, HEADS, 0, D // HEADS),) * 2
        for t in range(5):
            mask, places = causal_positions(torch.full((2, 1), t), [t, t])
            y, cache = made(x[:, t : t + 1], mask, places, cache, memory, padding_mask(KEEP))
            torch.testing.assert_close(y[:, 0], whole[:, t])


@pytest.mark.parametrize("bias", [None, some(1, HEADS, 7, 7, seed=4)], ids=["boolean", "added"])
@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_what_sees_nothing_gets_nothing_and_no_nan(rate, bias):
    """The second row has no keys; in the first, padded on the left, the first two queries look back
    at none.
    """
    keep = torch.tensor([[False, False] + [True] * 5, [False] * 7])
    places = torch.arange(7)
    mask = make_mask(seen_keys(places[None], places, causal=True) & keep[:, None, None], bias)
    layer, x = attention(dropout=rate), some(2, 7, D).requires_grad_()
    with torch.no_grad():
        layer.out.bias.zero_()
    y, _ = layer(x, mask)
    crossed = layer.cross(x, layer.project(x), padding_mask(keep))
    assert torch.equal(y.abs().sum(-1) == 0, ~keep)
    assert (crossed[1] == 0).all()
    assert (crossed[0] != 0).any()
    gradients = torch.autograd.grad(
        (y.square().sum() + crossed.square().sum()), (x, *layer.parameters())
    )
    assert all(g.isfinite().all() for g in gradients)
    assert (gradients[0][1] == 0).all()
    assert (gradients[0][0] != 0).any()


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_padding_changes_nothing_of_what_is_there(norm):
    torch.manual_seed(0)
    made = Block(D, attention(), MLP(D, D_MLP, ACTIVATIONS["gelu"]), norm=norm).double()
    x, other = some(2, 7, D), some(2, 7, D, seed=5)
    y, _ = made(x, padding_mask(KEEP))
    changed, _ = made(torch.where(KEEP[:, :, None], x, 100 * other), padding_mask(KEEP))
    torch.testing.assert_close(changed[KEEP], y[KEEP], atol=1e-12, rtol=0)
    alone, _ = made(x[:1, :4], Mask())
    torch.testing.assert_close(alone[0], y[0, :4])
    assert not torch.allclose(made(x, Mask())[0][0, :4], y[0, :4])  # the mask does something


@pytest.mark.parametrize("kind", masks())
def test_attention_with_dropout_has_the_same_masks(kind, monkeypatch):
    mask = masks()[kind][0]
    q, k, v = (some(2, HEADS, 7, 4, seed=seed) for seed in (1, 2, 3))
    weights = []
    monkeypatch.setattr(module, "dropout", lambda p, rate: weights.append(p) or p)
    scores = mask.added_to(torch.zeros(2, HEADS, 7, 7, dtype=torch.float64))
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=scores)
    torch.testing.assert_close(dropped_attention(q, k, v, mask, 0.5), expected)
    assert len(weights) == 1


@pytest.mark.parametrize("dropout", [0.0, 1e-12], ids=["fused", "written out"])
@pytest.mark.parametrize("kv_heads", [2, 1], ids=["grouped", "multi-query"])
@pytest.mark.parametrize("kind", masks())
def test_heads_that_share_keys_are_heads_with_copies_of_them(kind, kv_heads, dropout):
    mask = masks()[kind][0]
    if mask.scores is not None and mask.scores.shape[1] == HEADS:
        mask = mask._replace(scores=mask.scores[:, [0, 1, 2, 0]])
    torch.manual_seed(0)
    shared, copies = (
        Attention(D, 4, n_kv_heads=n, dropout=dropout).double() for n in (kv_heads, 4)
    )
    size, (weight, bias) = D // 4, (shared.qkv.weight, shared.qkv.bias)
    rows = [
        *range(D),
        *(
            D + part * kv_heads * size + head * kv_heads // 4 * size + j
            for part in range(2)
            for head in range(4)
            for j in range(size)
        ),
    ]
    copies.load_state_dict(
        {
            "qkv.weight": weight[rows],
            "qkv.bias": bias[rows],
            "out.weight": shared.out.weight,
            "out.bias": shared.out.bias,
        }
    )
    x = some(2, 7, D).requires_grad_()
    assert shared.qkv.weight.shape == (D + 2 * kv_heads * size, D)
    equal_with_gradients(shared(x, mask)[0], copies(x, mask)[0], (x,))


@pytest.mark.parametrize("kv_heads", [3, 1])
@pytest.mark.parametrize("kind", masks())
def test_the_weights_that_are_shown_are_those_that_are_taken(kind, kv_heads):
    mask = masks()[kind][0]
    layer, x = attention(n_kv_heads=kv_heads), some(2, 7, D)
    memory = layer.project(x)
    ways = (
        lambda trace: layer.cross(x, memory, mask, trace),
        lambda trace: layer(x, mask, trace=trace)[0],
    )
    for attend in ways:
        trace = Trace()
        y = attend(trace)
        weights = trace["weights"]
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
        mixed = weights @ memory[1].repeat_interleave(HEADS // kv_heads, 1)
        torch.testing.assert_close(layer.out(mixed.transpose(1, 2).flatten(2)), y)
        torch.testing.assert_close(attend(None), y)


def test_no_weights_are_shown_where_nothing_is_seen():
    keep = torch.tensor([[True] * 7, [False] * 7])
    layer, x = attention(), some(2, 7, D).requires_grad_()
    trace = Trace()
    layer.cross(x, layer.project(x), padding_mask(keep), trace)
    weights = trace["weights"]
    assert (weights[1] == 0).all()
    torch.testing.assert_close(weights[0].sum(-1), torch.ones(HEADS, 7, dtype=torch.float64))
    (gradient,) = torch.autograd.grad(weights.square().sum(), x)
    assert gradient.isfinite().all()


@pytest.mark.parametrize(
    ("length", "window"), [(1, 3), (3, 3), (4, 3), (6, 3), (7, 3), (11, 1), (5, 100)]
)
def test_attention_by_blocks_is_that_under_the_whole_mask(length, window):
    q, k, v = (some(2, HEADS, length, 4, seed=seed).requires_grad_() for seed in (1, 2, 3))
    places = torch.arange(length)
    seen = seen_keys(places[None], places, causal=True, window=window)
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)

    def weighted(q, k, v, mask):
        assert k.shape[2] <= 2 * window
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask.scores, is_causal=mask.causal)

    equal_with_gradients(near_attention(q, k, v, window, weighted), expected, (q, k, v))


PEAKS = """
import resource, torch
from seqloom.nn.attention import Attention, Mask, padding_mask

def use(kind, length):
    keep = (torch.arange(length) < length // 2).expand(2, -1)
    masks = {"causal": Mask(causal=True), "window": Mask(causal=True, window=64)}
    mask = masks.get(kind, padding_mask(keep))
    x = torch.randn(2, length, 32, requires_grad=True)
    layer(x, mask)[0].sum().backward()

layer = Attention(32, 4, n_kv_heads=2)
for kind in ("causal", "window", "padded"):
    use(kind, 64)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for kind in ("causal", "window", "padded"):
    use(kind, 4096)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


def test_memory_is_not_quadratic_in_the_length():
    """The scores alone would take 512 MB, a mask of booleans for every row and head 128."""
    done = subprocess.run(
        [sys.executable, "-c", PEAKS],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert int(done.stdout) < 80e6
