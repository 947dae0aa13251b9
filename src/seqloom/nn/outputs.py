"""Output layers for large vocabularies behind one interface: a loss to train with, exact
probabilities afterwards.

`FullSoftmax` sums over all words, a chunk of logits at a time. `AdaptiveSoftmax` (Grave et al.
2017, "Efficient softmax approximation for GPUs") gives clusters of rare words narrow vectors: a
different model with exact probabilities. `SampledSoftmax` and `NCE` train the full softmax's weights
without its sum. The first predicts which of one true and S sampled words is the true one, by softmax
of (logit - log q): the importance-sampling correction of Jean et al. 2015 in the ranking form, whose
optimum is the true distribution for any S (Ma and Collins 2018). The second (Gutmann and Hyvärinen
2010; Mnih and Teh 2012) predicts for each word separately whether it is data or noise, which also
drives the normaliser to a constant. Both draw one set of words for all tokens of a batch, so that
they cost a matrix product.

Randomness comes from the caller's generator or from torch's, never from state kept here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from seqloom.nn.losses import SoftTargets, linear_cross_entropy, linear_log_probs


class FullSoftmax(nn.Module):
    """The exact softmax, with its own weight (V, D) or that of an embedding; `SampledSoftmax` and `NCE`
    score with it.
    """

    def __init__(
        self,
        d_model: int,
        vocab_size: int,
        *,
        tied: nn.Embedding | None = None,
        bias: bool = True,
        label_smoothing: float = 0.0,
        never: Sequence[int] = (),
    ) -> None:
        """Make the output layer. `never`: words that get probability zero; the loss ignores this."""
        super().__init__()
        self.vocab_size, self.label_smoothing, self.never = vocab_size, label_smoothing, list(never)
        if tied is None:
            self.weight = nn.Parameter(torch.empty(vocab_size, d_model))
            nn.init.normal_(self.weight, std=d_model**-0.5)
        elif tied.weight.shape != (vocab_size, d_model):
            raise ValueError(
                f"a tied output of {vocab_size} x {d_model} cannot share an embedding of "
                f"{tied.num_embeddings} x {tied.embedding_dim}; project the features to the embedding's width"
            )
        # in a tuple, so that the shared weight is not a parameter, and a key of the file, twice
        self._tied = (tied,)
        self.bias = nn.Parameter(torch.zeros(vocab_size)) if bias else None

    def matrix(self) -> Tensor:
        """Return the weight that is used, (V, D)."""
        tied = self._tied[0]
        return self.weight if tied is None else tied.weight

    def loss(
        self,
        features: Tensor,
        targets: Tensor | SoftTargets,
        generator: Generator | None = None,
        weights: Tensor | None = None,
    ) -> Tensor:
        """Return the mean nats of a token (with label smoothing: of the smoothed target) by weights (N,).

        features (N, D); targets: words (N,), distributions (N, V), or a function that gives the latter by
        rows.
        """
        return linear_cross_entropy(
            features,
            self.matrix(),
            self.bias,
            targets,
            weights=weights,
            label_smoothing=self.label_smoothing,
        )

    def log_probs(self, features: Tensor) -> Tensor:
        """Return the log-probabilities of every word, (N, V)."""
        return F.log_softmax(F.linear(features, self.matrix(), self.offsets()), dim=-1)

    def token_log_probs(self, features: Tensor, targets: Tensor) -> Tensor:
        """Return the log-probabilities of the targets alone, (N,), in chunks; no gradient."""
        return linear_log_probs(features, self.matrix(), self.offsets(), targets)

    def offsets(self) -> Tensor | None:
        """Return the numbers added to the logits (V,): the bias, and -inf for `never`."""
        if not self.never:
            return self.bias
        offsets = (
            self.matrix().new_zeros(self.vocab_size)
            if self.bias is None
            else self.bias.detach().clone()
        )
        offsets[self.never] = -math.inf
        return offsets


class SampledSoftmax(FullSoftmax):
    """Trained to find the true word among `samples` drawn ones. `proposal` (V,) is `log_uniform`
    unless given.
    """

    def __init__(
        self,
        d_model: int,
        vocab_size: int,
        *,
        samples: int = 1024,
        proposal: Tensor | None = None,
        tied: nn.Embedding | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__(d_model, vocab_size, tied=tied, bias=bias)
        self.proposal = Proposal(log_uniform(vocab_size) if proposal is None else proposal, samples)

    def loss(
        self,
        features: Tensor,
        targets: Tensor | SoftTargets,
        generator: Generator | None = None,
        weights: Tensor | None = None,
    ) -> Tensor:
        """Return the mean nats of the choice: the full softmax has the same optimum, on a different scale."""
        true, drawn = _corrected_scores(self, self.proposal, features, _words(targets), generator)
        return _mean(torch.cat((true[:, None], drawn), 1).logsumexp(1) - true, weights)


class NCE(FullSoftmax):
    """Each word alone: data, or one of `samples` draws from `noise` (V,)? The logits learn log p
    themselves, plus log V.
    """

    def __init__(
        self,
        d_model: int,
        vocab_size: int,
        *,
        noise: Tensor | None = None,
        samples: int = 256,
        tied: nn.Embedding | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__(d_model, vocab_size, tied=tied, bias=bias)
        self.noise = Proposal(log_uniform(vocab_size) if noise is None else noise, samples)

    def loss(
        self,
        features: Tensor,
        targets: Tensor | SoftTargets,
        generator: Generator | None = None,
        weights: Tensor | None = None,
    ) -> Tensor:
        """Return the mean nats of the S + 1 decisions of a token (Mnih and Teh 2012, equation 8)."""
        true, drawn = _corrected_scores(self, self.noise, features, _words(targets), generator)
        # log V: an untrained layer then begins normalised. log S: how much more noise there is than data.
        offset = math.log(self.vocab_size) + math.log(self.noise.samples)
        return _mean(F.softplus(offset - true) + F.softplus(drawn - offset).sum(1), weights)


def _words(targets: Tensor | SoftTargets) -> Tensor:
    """Refuse soft targets, which need the sum over all words."""
    if not isinstance(targets, Tensor) or targets.ndim != 1:
        raise ValueError("soft targets need the full softmax")
    return targets


def _mean(losses: Tensor, weights: Tensor | None) -> Tensor:
    """Return the mean of losses (N,), each by its weight."""
    if weights is None:
        return losses.mean()
    weights = weights.to(losses.dtype)
    return (losses * weights).sum() / weights.sum()


def _corrected_scores(
    output: FullSoftmax,
    proposal: Proposal,
    features: Tensor,
    targets: Tensor,
    generator: Generator | None,
) -> tuple[Tensor, Tensor]:
    """Compute logit - log q of the targets (N,) and of sampled words (N, S); a sample that is the
    target is not removed.
    """
    ids = proposal.draw(generator)
    weight, log_q = output.matrix(), proposal.log_q
    # One gather for both: the gradient of a gather is as large as the weight, and once is enough.
    rows = F.embedding(torch.cat((targets, ids)), weight)  # (N + S, D)
    features = features.to(weight.dtype)
    true = (features * rows[: len(targets)]).sum(1) - log_q[targets]
    drawn = features @ rows[len(targets) :].t() - log_q[ids]
    if output.bias is not None:
        true, drawn = true + output.bias[targets], drawn + output.bias[ids]
    return true, drawn


class AdaptiveSoftmax(nn.Module):
    """A head of the most frequent words and one entry a cluster; cluster i of width d_model / factor^i.

    `cutoffs` are ranks: [2000, 10000] makes a head of 2,000, a cluster to 10,000 and one of the
    rest. Ids must be sorted by frequency, or `order` (V,) gives the ids from the most frequent to
    the rarest.
    """

    ranks: Tensor | None

    def __init__(
        self,
        d_model: int,
        vocab_size: int,
        cutoffs: Sequence[int],
        *,
        factor: float = 4.0,
        order: Tensor | None = None,
        bias: bool = False,
    ) -> None:
        super().__init__()
        edges = [*cutoffs, vocab_size]
        if not cutoffs or cutoffs[0] < 1 or any(a >= b for a, b in pairwise(edges)):
            raise ValueError(
                f"cutoffs {list(cutoffs)} must rise between 1 and the vocabulary's size {vocab_size}"
            )
        self.edges, self.shortlist = edges, edges[0]
        self.head = nn.Linear(d_model, self.shortlist + len(cutoffs), bias=bias)
        self.tails = nn.ModuleList(
            _Tail(d_model, max(1, int(d_model / factor**i)), high - low)
            for i, (low, high) in enumerate(pairwise(edges), 1)
        )
        if order is not None and not torch.equal(
            order.sort().values, torch.arange(vocab_size, device=order.device)
        ):
            raise ValueError(f"order must hold each id from 0 to {vocab_size - 1} once")
        # saved: the rows of the weights are in this order
        self.register_buffer("ranks", None if order is None else order.argsort())

    def loss(
        self,
        features: Tensor,
        targets: Tensor | SoftTargets,
        generator: Generator | None = None,
        weights: Tensor | None = None,
    ) -> Tensor:
        """Return the mean nats of a token, each by its weight (N,); features (N, D), targets (N,)."""
        ranks, heads = self._head_targets(_words(targets))
        total = linear_cross_entropy(
            features, self.head.weight, self.head.bias, heads, weights=weights, reduction="sum"
        )
        for i, rows in self._rows(ranks):
            tail, tail_weights = self._tail(i), None if weights is None else weights[rows]
            total = total + linear_cross_entropy(
                tail.down(features[rows]),
                tail.up.weight,
                None,
                ranks[rows] - self.edges[i],
                weights=tail_weights,
                reduction="sum",
            )
        return total / (len(ranks) if weights is None else weights.sum())

    def log_probs(self, features: Tensor) -> Tensor:
        """Return the log-probabilities of every word, (N, V)."""
        head = F.log_softmax(self.head(features), dim=-1)
        parts = [head[:, : self.shortlist]]
        for i in range(len(self.tails)):
            tail = self._tail(i)
            parts.append(
                head[:, self.shortlist + i, None]
                + F.log_softmax(tail.up(tail.down(features)), dim=-1)
            )
        by_rank = torch.cat(parts, 1)
        return by_rank if self.ranks is None else by_rank[:, self.ranks]

    @torch.no_grad()
    def token_log_probs(self, features: Tensor, targets: Tensor) -> Tensor:
        """Return the log-probabilities of the targets alone, (N,), in chunks; no gradient."""
        ranks, heads = self._head_targets(targets)
        out = linear_log_probs(features, self.head.weight, self.head.bias, heads)
        for i, rows in self._rows(ranks):
            tail = self._tail(i)
            out[rows] += linear_log_probs(
                tail.down(features[rows]), tail.up.weight, None, ranks[rows] - self.edges[i]
            )
        return out

    def _tail(self, i: int) -> _Tail:
        tail = self.tails[i]
        assert isinstance(tail, _Tail)
        return tail

    def _head_targets(self, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return the rank of each target, and the target of the head: the word itself or its cluster."""
        ranks = targets if self.ranks is None else self.ranks[targets]
        # 0 is the head
        clusters = torch.bucketize(ranks, torch.tensor(self.edges, device=ranks.device), right=True)
        return ranks, torch.where(clusters == 0, ranks, self.shortlist - 1 + clusters)

    def _rows(self, ranks: Tensor) -> list[tuple[int, Tensor]]:
        """Return the index of each cluster that has targets, with their rows."""
        by_cluster = [
            (i, ((ranks >= low) & (ranks < high)).nonzero()[:, 0])
            for i, (low, high) in enumerate(pairwise(self.edges))
        ]
        return [(i, rows) for i, rows in by_cluster if len(rows)]


class _Tail(nn.Module):
    def __init__(self, d_model: int, d_tail: int, size: int) -> None:
        super().__init__()
        self.down = nn.Linear(d_model, d_tail, bias=False)
        self.up = nn.Linear(d_tail, size, bias=False)


class Proposal(nn.Module):
    """A distribution over words to draw `samples` from, with replacement. Not saved: scoring does
    not need it.
    """

    log_q: Tensor
    cumulative: Tensor

    def __init__(self, probabilities: Tensor, samples: int) -> None:
        super().__init__()
        if samples < 1:
            raise ValueError(f"samples is {samples}; at least one word must be drawn")
        if probabilities.ndim != 1 or not bool((probabilities > 0).all()):
            raise ValueError(
                "every word needs a probability above zero, or its logit cannot be corrected"
            )
        q = probabilities.double() / probabilities.double().sum()
        self.samples = samples
        self.register_buffer("log_q", q.log().to(torch.get_default_dtype()), persistent=False)
        self.register_buffer("cumulative", q.cumsum(0), persistent=False)

    def draw(self, generator: Generator | None = None) -> Tensor:
        """Sample ids (S,) by the inverse of the distribution function: log V a draw, where
        torch.multinomial reads all of V.
        """
        device = self.cumulative.device if generator is None else generator.device
        u = torch.rand(self.samples, dtype=torch.float64, generator=generator, device=device)
        return torch.searchsorted(self.cumulative, u.to(self.cumulative.device), right=True).clamp_(
            max=len(self.log_q) - 1
        )


def log_uniform(vocab_size: int) -> Tensor:
    """Return probabilities (V,) close to Zipf's law, for ids sorted by frequency:
    log((k + 2) / (k + 1)) / log(V + 1).

    >>> [round(p, 3) for p in log_uniform(3).tolist()]
    [0.5, 0.292, 0.208]
    """
    k = torch.arange(vocab_size, dtype=torch.float64)
    return ((k + 2) / (k + 1)).log() / math.log(vocab_size + 1)


def unigram(counts: Tensor, power: float = 1.0) -> Tensor:
    """Return probabilities (V,) by counts; one is added to each, so that no word is impossible.
    0.75 is word2vec's power.

    >>> unigram(torch.tensor([2, 0])).tolist()
    [0.75, 0.25]
    """
    raised = (counts.double() + 1.0) ** power
    return raised / raised.sum()
