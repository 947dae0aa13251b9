"""Attention to a memory: each score against its formula, gradients by finite differences, padding
without a trace.
"""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from seqloom.nn import memory as module
from seqloom.nn.memory import BY_WIDTH, SCORES, MemoryAttention, masked_softmax

B, T, S, Q = 2, 3, 5, 4
LENGTHS = torch.tensor([5, 3])
PRESENT = torch.arange(S) < LENGTHS[:, None]


def some(*shape, seed=1):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def make(score, **options):
    torch.manual_seed(0)
    attention = MemoryAttention(score, Q, Q if score in BY_WIDTH else 6, **options).double()
    with torch.no_grad():
        for p in attention.parameters():
            p.add_(0.5 * torch.randn_like(p))
    return attention, some(B, T, Q), some(B, S, Q if score in BY_WIDTH else 6, seed=2)


def by_formula(attention, q, m):
    """The score of one query and one vector of the memory, as the papers write it."""
    w = attention.state_dict()
    if attention.score == "additive":
        return w["energy"] @ torch.tanh(w["query.weight"] @ q + w["key.weight"] @ m + w["key.bias"])
    if attention.score == "concat":
        return w["energy"] @ torch.tanh(
            torch.cat([w["query.weight"], w["key.weight"]], 1) @ torch.cat([q, m])
        )
    if attention.score == "general":
        return q @ (w["key.weight"] @ m)
    return q @ m / (math.sqrt(Q) if attention.score == "scaled" else 1.0)


@pytest.mark.parametrize("score", SCORES)
def test_each_score_is_its_formula(score):
    attention, queries, memory = make(score)
    context, weights = attention(queries, memory, attention.keys(memory), PRESENT)
    for b in range(B):
        for t in range(T):
            scores = torch.stack(
                [by_formula(attention, queries[b, t], memory[b, s]) for s in range(LENGTHS[b])]
            )
            expected = torch.softmax(scores, 0)
            torch.testing.assert_close(weights[b, t, : LENGTHS[b]], expected)
            torch.testing.assert_close(context[b, t], expected @ memory[b, : LENGTHS[b]])


@pytest.mark.parametrize("coverage", [False, True])
@pytest.mark.parametrize("score", SCORES)
def test_gradients_are_the_finite_differences(score, coverage):
    attention, queries, memory = make(score, coverage=coverage)
    names, values = zip(*attention.named_parameters()) if list(attention.parameters()) else ((), ())

    def outputs(queries, memory, *weights):
        return torch.func.functional_call(
            _Both(attention),
            {f"attention.{n}": w for n, w in zip(names, weights)},
            (queries, memory),
        )

    inputs = [x.detach().clone().requires_grad_() for x in (queries, memory, *values)]
    assert torch.autograd.gradcheck(outputs, inputs)


class _Both(torch.nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.attention = attention

    def forward(self, queries, memory):
        return self.attention(queries, memory, self.attention.keys(memory), PRESENT)


@pytest.mark.parametrize("coverage", [False, True])
@pytest.mark.parametrize("score", SCORES)
def test_padding_leaves_no_trace(score, coverage):
    attention, queries, memory = make(score, coverage=coverage)
    together, weights = attention(queries, memory, attention.keys(memory), PRESENT)
    assert (weights[1, :, 3:] == 0).all()
    alone, _ = attention(queries[1:], memory[1:, :3], attention.keys(memory[1:, :3]))
    torch.testing.assert_close(together[1], alone[0])
    other = torch.where(PRESENT[..., None], memory, 100 * some(*memory.shape, seed=7))
    changed, _ = attention(queries, other, attention.keys(other), PRESENT)
    torch.testing.assert_close(changed, together, atol=1e-12, rtol=0)
    assert not torch.allclose(
        attention(queries, memory, attention.keys(memory))[0][1], together[1]
    )  # the mask does something


@pytest.mark.parametrize("score", SCORES)
def test_coverage_adds_what_was_given_so_far_to_the_keys(score):
    attention, queries, memory = make(score, coverage=True)
    keys, total, expected = attention.keys(memory), torch.zeros(B, S, dtype=torch.float64), []
    for t in range(T):
        query = queries[:, t] if attention.query is None else attention.query(queries[:, t])
        moved = keys + total[..., None] * attention.covered
        if attention.energy is not None:
            scores = torch.tanh(query[:, None] + moved) @ attention.energy
        else:
            scores = (query[:, None] * moved).sum(2) / (math.sqrt(Q) if score == "scaled" else 1.0)
        expected.append(torch.softmax(scores, 1))
        total = total + expected[-1]
    _, weights = attention(queries, memory, keys)
    torch.testing.assert_close(weights, torch.stack(expected, 1))
    _, second = attention(
        queries[:, 1:], memory, keys, None, expected[0]
    )  # what came before is told
    torch.testing.assert_close(second, weights[:, 1:])
    assert not torch.allclose(make(score)[0](queries, memory, keys)[1][:, 1:], weights[:, 1:])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_kernel_is_torchs_arithmetic(dtype, monkeypatch):
    inputs = [
        some(*shape, seed=seed).to(dtype).requires_grad_()
        for seed, shape in enumerate(((2, 3, 19), (2, 4, 19), (19,)))
    ]
    above = some(2, 3, 4, seed=5).to(dtype)
    above[1, :, 2:] = 0.0
    results = []
    for compiled in (True, False):
        monkeypatch.setattr(module, "_compiled", lambda x, compiled=compiled: compiled)
        scores = module.AdditiveScores.apply(*inputs)
        results.append((scores.detach(), *torch.autograd.grad(scores, inputs, above)))
    for ours, theirs in zip(*results):
        torch.testing.assert_close(ours, theirs)


def test_an_empty_memory_gives_zeros():
    weights = masked_softmax(some(2, 3, 4), torch.tensor([[True] * 4, [False] * 4]))
    assert (weights[1] == 0).all()
    torch.testing.assert_close(weights[0].sum(1), torch.ones(3, dtype=torch.float64))


def test_products_need_one_width():
    with pytest.raises(ValueError, match="both need one width; they have 4 and 6"):
        MemoryAttention("dot", 4, 6)
    with pytest.raises(ValueError, match="attention must be one of additive"):
        MemoryAttention("bilinear", 4, 4)
