"""Dropout by seed: against plain integers, in distribution, and in attention against the formula
with the mask written out.
"""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from seqloom.kernels.sampling import drop
from seqloom.nn.attention import Attention, dropped_attention
from seqloom.nn.layers import dropout
from seqloom.nn.position import alibi_slopes
from seqloom.nn.transformer import causal_positions

WORD = (1 << 64) - 1


def bits(seed, counter):
    """splitmix64, in Python's integers."""
    z = (seed + counter * 0x9E3779B97F4A7C15) & WORD
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
    return z ^ (z >> 31)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 100])
def test_it_is_its_slow_twin(n, kind):
    seed, p = 2**63 - 5, 0.3
    x = np.random.default_rng(0).normal(size=n).astype(kind)
    out = np.full(n, np.nan, kind)
    drop(x, np.uint64(seed), np.uint64(round(p * 2**32)), kind(1 / (1 - p)), out)
    half = n // 2
    drawn = [bits(seed, i) & 0xFFFFFFFF for i in range(half)] + [
        bits(seed, i) >> 32 for i in range(half)
    ]
    drawn += [bits(seed, half) & 0xFFFFFFFF] if n % 2 else []
    expected = [
        value * kind(1 / (1 - p)) if r >= round(p * 2**32) else 0 for value, r in zip(x, drawn)
    ]
    assert out.tolist() == np.array(expected, kind).tolist()


@pytest.mark.parametrize("p", [0.1, 0.5, 0.95])
def test_entries_fall_out_by_themselves(p):
    """Their share, that of neighbours and of halves that share a counter, and no two passes alike."""
    torch.manual_seed(1)
    masks = torch.stack([dropout(torch.ones(400, 500), p) for _ in range(2)])
    assert masks.unique().tolist() == pytest.approx([0.0, 1 / (1 - p)])
    gone = (masks == 0).flatten(1).double()
    sure = 4 * math.sqrt(p * (1 - p) / gone.shape[1])
    assert abs(gone[0].mean().item() - p) < sure
    for a, b in (
        (gone[0][1:], gone[0][:-1]),
        (gone[0][:100_000], gone[0][100_000:]),
        (gone[0], gone[1]),
    ):
        assert abs((a * b).mean().item() - p * p) < 2 * sure


def test_the_gradient_has_the_same_mask_and_the_seed_is_torchs():
    x = torch.randn(30, 40, dtype=torch.float64, requires_grad=True)
    torch.manual_seed(3)
    out = dropout(x, 0.4)
    out.sum().backward()
    assert torch.equal(x.grad != 0, out != 0)
    assert torch.allclose(x.grad[x.grad != 0], torch.tensor(1 / 0.6, dtype=torch.float64))
    torch.manual_seed(3)
    assert torch.equal(dropout(x.t().contiguous().t(), 0.4), out)  # whatever the layout in memory
    assert not torch.equal(dropout(x, 0.4), out)
    assert dropout(x, 0.4, training=False) is x
    assert dropout(x, 0.0) is x


@pytest.mark.parametrize("slopes", [None, alibi_slopes(2)])
def test_attention_with_dropout_is_the_formula_with_that_mask(slopes):
    q, k, v = (torch.randn(3, 2, 5, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))
    causal, _ = causal_positions(
        torch.arange(5)[None], slopes=None if slopes is None else slopes.double()
    )
    torch.manual_seed(7)
    mask = dropout(torch.ones(3, 2, 5, 5, dtype=torch.float64), 0.3)
    torch.manual_seed(7)
    found = dropped_attention(q, k, v, causal, 0.3)
    scores = q @ k.transpose(2, 3) / math.sqrt(4)
    if slopes is not None:
        distance = torch.arange(5)[None, :] - torch.arange(5)[:, None]
        scores = scores + slopes.double()[:, None, None] * distance
    hidden = torch.ones(5, 5, dtype=torch.bool).triu(1)
    expected = (torch.softmax(scores.masked_fill(hidden, -math.inf), -1) * mask) @ v
    assert torch.allclose(found, expected, atol=1e-12)
    weights = torch.randn_like(found)
    for a, b in zip(
        torch.autograd.grad((found * weights).sum(), (q, k, v)),
        torch.autograd.grad((expected * weights).sum(), (q, k, v)),
    ):
        assert torch.allclose(a, b, atol=1e-12)


def test_the_layer_goes_that_way_only_while_it_trains():
    layer, x = Attention(8, 2, dropout=0.5), torch.randn(2, 6, 8)
    causal, _ = causal_positions(torch.arange(6)[None])
    trained = [layer(x, causal)[0] for _ in range(2)]
    assert not torch.equal(*trained)
    still = [layer.eval()(x, causal)[0] for _ in range(2)]
    assert torch.equal(*still)
    layer.train()
    mean = torch.stack([layer(x, causal)[0] for _ in range(3000)]).mean(0)
    assert torch.allclose(mean, still[0], atol=0.1)
