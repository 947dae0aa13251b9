import copy
import itertools
import math

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F
from torch import nn

from seqloom.nn.outputs import (
    NCE,
    AdaptiveSoftmax,
    FullSoftmax,
    Proposal,
    SampledSoftmax,
    log_uniform,
    unigram,
)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def examples(n=11, width=8, vocab_size=20):
    g = generator()
    return torch.randn(n, width, generator=g), torch.randint(vocab_size, (n,), generator=g)


def make(kind):
    torch.manual_seed(3)
    if kind is AdaptiveSoftmax:
        return AdaptiveSoftmax(8, 20, [5, 12], order=torch.randperm(20, generator=generator()))
    return kind(8, 20, **({} if kind is FullSoftmax else {"samples": 6}))


@pytest.mark.parametrize("kind", [FullSoftmax, SampledSoftmax, NCE, AdaptiveSoftmax])
def test_probabilities_sum_to_one_and_both_ways_to_score_agree(kind):
    output = make(kind)
    features, targets = examples()
    log_probs = output.log_probs(features)
    torch.testing.assert_close(log_probs.logsumexp(1), torch.zeros(11), atol=1e-5, rtol=0)
    assert log_probs.std() > 0.05
    token = output.token_log_probs(features, targets)
    torch.testing.assert_close(token, log_probs[torch.arange(11), targets])
    assert not token.requires_grad


@pytest.mark.parametrize("kind", [FullSoftmax, AdaptiveSoftmax])
def test_an_exact_loss_is_the_mean_of_what_scoring_says(kind):
    output = make(kind)
    features, targets = examples()
    features.requires_grad_()
    loss = output.loss(features, targets)
    expected = -output.log_probs(features)[torch.arange(11), targets].mean()
    torch.testing.assert_close(loss, expected)
    ours = torch.autograd.grad(loss, [features, *output.parameters()])
    theirs = torch.autograd.grad(expected, [features, *output.parameters()])
    for a, b in zip(ours, theirs):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-4)


def test_adaptive_is_torchs():
    torch.manual_seed(0)
    theirs = nn.AdaptiveLogSoftmaxWithLoss(16, 50, [10, 25], div_value=4.0, head_bias=True)
    ours = AdaptiveSoftmax(16, 50, [10, 25], bias=True)
    ours.head.load_state_dict(theirs.head.state_dict())
    for mine, tail in zip(ours.tails, theirs.tail):
        mine.down.load_state_dict(tail[0].state_dict())
        mine.up.load_state_dict(tail[1].state_dict())
    features, targets = examples(40, 16, 50)
    expected = theirs(features, targets)
    torch.testing.assert_close(ours.loss(features, targets), expected.loss)
    torch.testing.assert_close(ours.token_log_probs(features, targets), expected.output)
    torch.testing.assert_close(ours.log_probs(features), theirs.log_prob(features))


def test_adaptive_with_an_order_is_the_same_layer_under_other_names():
    order = torch.randperm(20, generator=generator(1))  # order[rank] is the id
    named, plain = AdaptiveSoftmax(8, 20, [5, 12], order=order), AdaptiveSoftmax(8, 20, [5, 12])
    plain.load_state_dict({k: v for k, v in named.state_dict().items() if k != "ranks"})
    features, ranks = examples()
    torch.testing.assert_close(named.log_probs(features)[:, order], plain.log_probs(features))
    torch.testing.assert_close(named.loss(features, order[ranks]), plain.loss(features, ranks))
    restored = AdaptiveSoftmax(8, 20, [5, 12], order=torch.arange(20))
    restored.load_state_dict(named.state_dict())
    torch.testing.assert_close(restored.log_probs(features), named.log_probs(features))


def test_rare_words_are_narrow():
    layer = AdaptiveSoftmax(64, 100, [10, 40])
    assert [tuple(tail.up.weight.shape) for tail in layer.tails] == [(30, 16), (60, 4)]


def test_a_tied_output_shares_the_embedding_and_saves_it_once():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(20, 8)
            self.output = FullSoftmax(8, 20, tied=self.embedding)

    net = Net()
    assert set(net.state_dict()) == {"embedding.weight", "output.bias"}
    features, targets = examples()
    expected = F.cross_entropy(features @ net.embedding.weight.t() + net.output.bias, targets)
    torch.testing.assert_close(net.output.loss(features, targets), expected)
    net.output.loss(features, targets).backward()
    assert net.embedding.weight.grad is not None
    twin = copy.deepcopy(
        net
    )  # dynamic evaluation and averaging work on copies: they must not share with the original
    with torch.no_grad():
        twin.embedding.weight.zero_()
        twin.output.bias.zero_()
    torch.testing.assert_close(
        twin.output.log_probs(features), torch.full((11, 20), -torch.log(torch.tensor(20.0)))
    )
    torch.testing.assert_close(net.output.loss(features, targets), expected)
    with pytest.raises(ValueError, match="20 x 9 cannot share an embedding of 20 x 8"):
        FullSoftmax(9, 20, tied=net.embedding)


def test_label_smoothing_reaches_the_loss():
    layer = FullSoftmax(8, 20, label_smoothing=0.2)
    features, targets = examples()
    logits = F.linear(features, layer.weight, layer.bias)
    torch.testing.assert_close(
        layer.loss(features, targets), F.cross_entropy(logits, targets, label_smoothing=0.2)
    )


def expected_gradient(output, proposal, truth, q):
    """Over all targets and all draws, each with its probability: exact, no sampling."""
    total = torch.zeros_like(output.weight)
    samples = proposal.samples
    for draw in itertools.product(range(len(q)), repeat=samples):
        proposal.draw = lambda generator, draw=draw: torch.tensor(draw)
        for target, p in enumerate(truth):
            loss = output.loss(torch.ones(1, 1, dtype=torch.float64), torch.tensor([target]))
            total += p * q[list(draw)].prod() * torch.autograd.grad(loss, output.weight)[0]
    return total


@pytest.mark.parametrize("kind", [SampledSoftmax, NCE])
def test_the_optimum_is_the_true_distribution(kind):
    """Four words, two samples, noise far from the truth: at the true log-probabilities the mean
    gradient is zero.
    """
    truth, q = torch.tensor([[0.5, 0.3, 0.15, 0.05], [0.1, 0.1, 0.3, 0.5]], dtype=torch.float64)
    output = kind(
        1, 4, samples=2, **{"proposal" if kind is SampledSoftmax else "noise": q}
    ).double()
    proposal = output.proposal if kind is SampledSoftmax else output.noise
    proposal.log_q = q.log()
    # A softmax is free up to a constant; NCE's logits come out normalised by themselves, up to log V.
    best = truth.log()[:, None] + (5.0 if kind is SampledSoftmax else math.log(4))
    output.weight.data = best
    torch.testing.assert_close(output.log_probs(torch.ones(1, 1).double())[0].exp(), truth)
    assert expected_gradient(output, proposal, truth, q).abs().max() < 1e-12
    output.weight.data = best + torch.tensor([[0.0], [0.1], [0.0], [0.0]])
    assert expected_gradient(output, proposal, truth, q)[1].item() > 1e-3  # pulled back
    output.weight.data = best
    proposal.log_q = torch.full((4,), 0.25).double().log()  # the wrong correction
    assert expected_gradient(output, proposal, truth, q).abs().max() > 1e-2


@pytest.mark.parametrize("kind", [SampledSoftmax, NCE])
def test_training_without_the_sum_reaches_the_distribution(kind):
    truth = torch.tensor([[40.0, 30, 15, 10, 5]]) / 100
    torch.manual_seed(0)
    output = kind(1, 5, samples=20)
    optimiser = torch.optim.SGD(output.parameters(), lr=1.0 if kind is SampledSoftmax else 0.2)
    g, average = generator(2), torch.zeros(1, 5)
    for step in range(400):
        targets = torch.multinomial(truth[0], 256, replacement=True, generator=g)
        optimiser.zero_grad()
        output.loss(torch.ones(256, 1), targets, g).backward()
        optimiser.step()
        if step >= 100:
            average += output.log_probs(torch.ones(1, 1)).detach() / 300
    assert (average.exp() - truth).abs().max() < 0.03


def test_sampled_softmax_nears_the_full_one_with_many_samples():
    """log(mean over draws of exp(logit) / q) is an estimate of the normaliser: the loss is the full
    one, plus log S q.
    """
    layer = SampledSoftmax(8, 20, samples=200_000)
    features, targets = examples()
    constant = torch.tensor(200_000.0).log() + layer.proposal.log_q[targets].mean()
    sampled = layer.loss(features, targets, generator()) - constant
    full = -layer.token_log_probs(features, targets).mean()
    torch.testing.assert_close(sampled, full, atol=5e-3, rtol=0)


@pytest.mark.parametrize("kind", [SampledSoftmax, NCE])
def test_sampling_can_be_resumed_to_the_bit(kind):
    layer = make(kind)
    features, targets = examples()
    g = generator(1)
    layer.loss(features, targets, g)
    state = g.get_state()
    then = layer.loss(features, targets, g)
    later = torch.Generator()
    later.set_state(state)
    assert torch.equal(layer.loss(features, targets, later), then)
    assert not torch.equal(layer.loss(features, targets, later), then)
    torch.manual_seed(9)
    first = layer.loss(features, targets)
    torch.manual_seed(9)
    assert torch.equal(layer.loss(features, targets), first)
    assert set(layer.state_dict()) == {"weight", "bias"}


def test_draws_follow_the_proposal():
    for probabilities in (log_uniform(6), unigram(torch.tensor([5, 0, 3, 90]), power=0.75)):
        assert probabilities.sum().item() == pytest.approx(1)
        drawn = Proposal(probabilities, 100_000).draw(generator())
        share = drawn.bincount(minlength=len(probabilities)) / 100_000
        torch.testing.assert_close(share.double(), probabilities, atol=6e-3, rtol=0)


def test_what_is_refused():
    with pytest.raises(ValueError, match="above zero"):
        NCE(8, 3, noise=torch.tensor([1.0, 0.0, 1.0]))
    with pytest.raises(ValueError, match="samples is 0"):
        SampledSoftmax(8, 3, samples=0)
    for cutoffs in ([], [0], [5, 5], [20]):
        with pytest.raises(ValueError, match="must rise between 1 and the vocabulary's size 20"):
            AdaptiveSoftmax(8, 20, cutoffs)
    with pytest.raises(ValueError, match="each id from 0 to 19 once"):
        AdaptiveSoftmax(8, 20, [5], order=torch.zeros(20, dtype=torch.int64))


@pytest.mark.parametrize("kind", [FullSoftmax, SampledSoftmax, NCE, AdaptiveSoftmax])
def test_a_weight_for_each_token(kind):
    """Whole numbers as weights are tokens that stand there so often."""
    output = make(kind)
    features, targets = examples()
    often = torch.tensor([0, 1, 2, 1, 3, 0, 1, 1, 2, 1, 1])
    found = output.loss(features, targets, generator(), weights=often.float())
    repeated = output.loss(
        features.repeat_interleave(often, 0), targets.repeat_interleave(often), generator()
    )
    torch.testing.assert_close(found, repeated)
    one = output.loss(features, targets, generator(), weights=torch.ones(11))
    torch.testing.assert_close(one, output.loss(features, targets, generator()))


@pytest.mark.parametrize("kind", [SampledSoftmax, NCE, AdaptiveSoftmax])
def test_soft_targets_need_the_full_softmax(kind):
    features, _ = examples()
    assert FullSoftmax(8, 20).loss(features, torch.full((11, 20), 0.05)) > 0
    for soft in (torch.full((11, 20), 0.05), lambda low, high: torch.full((high - low, 20), 0.05)):
        with pytest.raises(ValueError, match="soft targets need the full softmax"):
            make(kind).loss(features, soft)
