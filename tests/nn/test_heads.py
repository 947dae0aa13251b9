"""Losses of heads with soft targets and weights, against sums written out, and by finite differences."""

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F

from seqloom.nn.composition import (
    LabelHead,
    Pooling,
    TagHead,
)
from seqloom.nn.crf import CRF

B, T, C = 5, 4, 3


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def head(**options):
    return LabelHead(6, C, Pooling("mean", 6), **options).double()


@pytest.mark.parametrize("label_smoothing", [0.0, 0.2])
def test_soft_labels_and_weights_of_examples(label_smoothing):
    scores, weights = drawn(B, C).requires_grad_(), drawn(B, seed=1).abs()
    soft = drawn(B, C, seed=2).softmax(1)
    smooth = (1 - label_smoothing) * soft + label_smoothing / C
    made = head(label_smoothing=label_smoothing)
    expected = -(smooth * torch.log_softmax(scores, 1)).sum(1)
    torch.testing.assert_close(made.loss(scores, soft), expected.sum())
    torch.testing.assert_close(made.loss(scores, soft, weights), (weights * expected).sum())
    assert torch.autograd.gradcheck(lambda x: made.loss(x, soft, weights), (scores,))
    hard = torch.tensor([0, 2, 1, 1, 0])
    torch.testing.assert_close(
        made.loss(scores, F.one_hot(hard, C), weights), made.loss(scores, hard, weights)
    )


def test_several_labels_by_probability_and_weight():
    scores, weights = drawn(B, C).requires_grad_(), drawn(B, seed=1).abs()
    soft = drawn(B, C, seed=2).sigmoid()
    made = head(several=True)
    each = -(soft * F.logsigmoid(scores) + (1 - soft) * F.logsigmoid(-scores))
    torch.testing.assert_close(made.loss(scores, soft), each.sum())
    torch.testing.assert_close(made.loss(scores, soft, weights), (each.sum(1) * weights).sum())
    assert torch.autograd.gradcheck(lambda x: made.loss(x, soft, weights), (scores,))


def test_tags_by_probability_and_weight_of_each_step():
    scores, weights = drawn(B, T, C).requires_grad_(), drawn(B, T, seed=1).abs()
    lengths, soft = torch.tensor([4, 1, 3, 0, 2]), drawn(B, T, C, seed=2).softmax(2)
    made = TagHead(6, C).double()
    there = torch.arange(T) < lengths[:, None]
    each = -(soft * torch.log_softmax(scores, 2)).sum(2) * there
    torch.testing.assert_close(made.loss(scores, soft, lengths), each.sum())
    torch.testing.assert_close(made.loss(scores, soft, lengths, weights), (each * weights).sum())
    assert torch.autograd.gradcheck(lambda x: made.loss(x, soft, lengths, weights), (scores,))
    hard = soft.argmax(2)
    torch.testing.assert_close(
        made.loss(scores, hard, lengths, weights),
        made.loss(scores, F.one_hot(hard, C).double(), lengths, weights),
    )


def test_a_crf_takes_neither():
    made = TagHead(6, C, crf=CRF(C)).double()
    lengths, tags = torch.tensor([4] * B), torch.zeros(B, T, dtype=torch.int64)
    assert made.loss(drawn(B, T, C), tags, lengths) > 0
    with pytest.raises(ValueError, match="need a head without"):
        made.loss(drawn(B, T, C), tags, lengths, torch.ones(B, T))
    with pytest.raises(ValueError, match="need a head without"):
        made.loss(drawn(B, T, C), drawn(B, T, C).softmax(2), lengths)
