"""A linear-chain conditional random field over the outputs of an encoder (Lafferty et al. 2001;
Huang et al. 2015).

A tagger without it decides at each step independently. Here p(tags) = exp(score) / Z over whole
sequences; beside the emissions there is a score for each pair of neighbouring tags, and for the
first and the last tag. Pairs that are not `allowed` (in BIO, I-PER after O) have probability zero,
in training and in decoding.

The gradient of log Z is the expected number of each tag and pair, which the forward-backward pass
gives with the likelihood itself, so both are computed in one compiled pass (`nn.linear_chain`).
`log_space_loss` is the same in a few lines of torch; tests compare them, and a GPU uses it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from seqloom.nn.linear_chain import Chain
from seqloom.nn.recording import over_steps

IMPOSSIBLE = -1e30  # in place of -inf, whose gradient in a logsumexp would be NaN


class CRF(nn.Module):
    """Scores of neighbouring tags: transitions [from, to] (K, K), start (K,), end (K,).

    allowed (K + 1, K + 1), boolean [from, to], has the legal pairs; its last row and column are the
    boundary: legal first and last tags (`data.spans.legal_transitions`).
    """

    allowed: Tensor | None

    def __init__(self, n_tags: int, *, allowed: np.ndarray | Tensor | None = None) -> None:
        super().__init__()
        if n_tags < 1:
            raise ValueError(f"n_tags is {n_tags}; it must be at least 1")
        self.n_tags = n_tags
        self.transitions = nn.Parameter(torch.zeros(n_tags, n_tags))
        self.start, self.end = nn.Parameter(torch.zeros(n_tags)), nn.Parameter(torch.zeros(n_tags))
        rules = None if allowed is None else torch.as_tensor(allowed, dtype=torch.bool)
        if rules is not None and rules.shape != (n_tags + 1, n_tags + 1):
            raise ValueError(
                f"allowed must have the shape ({n_tags + 1}, {n_tags + 1}); it has {tuple(rules.shape)}"
            )
        self.register_buffer("allowed", rules, persistent=False)  # it follows from the tags

    def forward(
        self,
        emissions: Tensor,
        tags: Tensor,
        lengths: Tensor | None = None,
        weights: Tensor | None = None,
    ) -> Tensor:
        """Return the sum of -log p(tags) over sequences, times `weights` (B,).

        emissions (B, T, K), tags (B, T), lengths (B,); steps beyond a length are ignored.
        """
        emissions = _real(emissions)
        lengths = _lengths(emissions, lengths)
        if emissions.is_cuda:
            return self.log_space_loss(emissions, tags, lengths, weights)
        parameters = self.start, self.transitions, self.end
        needs_gradients = torch.is_grad_enabled() and any(
            tensor.requires_grad for tensor in (emissions, *parameters)
        )
        total: Tensor = _Loss.apply(
            emissions, *parameters, tags, lengths, weights, self.allowed, needs_gradients
        )
        return total

    @torch.no_grad()
    def decode(self, emissions: Tensor, lengths: Tensor | None = None) -> np.ndarray:
        """Return the best path of each sequence, int64 (B, T), -1 beyond its length."""
        emissions = _real(emissions)
        return self.chain().best_paths(_numpy(emissions), _numpy(_lengths(emissions, lengths)))[0]

    @torch.no_grad()
    def marginals(self, emissions: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return p(tag at each step | emissions) (B, T, K), zero beyond a sequence's length."""
        emissions = _real(emissions)
        marginals = self.chain().marginals(_numpy(emissions), _numpy(_lengths(emissions, lengths)))
        return torch.from_numpy(marginals).to(emissions.device)

    def chain(self) -> Chain:
        """Return this CRF without torch, with the parameters as they are now."""
        rules = None if self.allowed is None else _numpy(self.allowed)
        return Chain(_numpy(self.start), _numpy(self.transitions), _numpy(self.end), rules)

    def log_space_loss(
        self, emissions: Tensor, tags: Tensor, lengths: Tensor, weights: Tensor | None = None
    ) -> Tensor:
        """Compute `forward` step by step in torch, with autograd's gradients; tags that are not
        allowed cost 1e30.
        """
        steps = emissions.shape[1]
        if not steps:
            return emissions.sum() * 0.0
        start, transitions, end = self._tables()
        inside = torch.arange(steps, device=emissions.device) < lengths.unsqueeze(1)  # (B, T)
        tags = tags.where(inside, 0)
        steps_taken = emissions.gather(2, tags.unsqueeze(2))[:, :, 0] * inside
        moves = transitions[tags[:, :-1], tags[:, 1:]] * inside[:, 1:]
        last = tags.gather(1, (lengths - 1).clamp(min=0).unsqueeze(1))[:, 0]
        gold = start[tags[:, 0]] + steps_taken.sum(1) + moves.sum(1) + end[last]
        losses = (self.log_partitions(emissions, lengths) - gold).masked_fill(lengths == 0, 0.0)
        return (losses if weights is None else losses * weights).sum()

    def log_partitions(self, emissions: Tensor, lengths: Tensor) -> Tensor:
        """Return log Z of each sequence (B,), of at least one step: the sum over all its paths of tags, step
        by step in torch.
        """
        start, transitions, end = self._tables()
        inside = torch.arange(emissions.shape[1], device=emissions.device) < lengths.unsqueeze(1)
        forward = start + emissions[:, 0]  # (B, K)
        for t in range(1, emissions.shape[1]):
            after = torch.logsumexp(forward.unsqueeze(2) + transitions, 1) + emissions[:, t]
            forward = torch.where(inside[:, t, None], after, forward)
        return torch.logsumexp(forward + end, 1)

    def log_space_paths(self, emissions: Tensor, lengths: Tensor) -> Tensor:
        """Compute `decode` step by step in torch, as a recorded network does it; at least one step."""
        start, transitions, end = self._tables()
        steps = torch.arange(emissions.shape[1], device=emissions.device)[:, None, None]
        inside = steps < lengths[:, None]  # (T, B, 1)

        def forward(
            emission: Tensor, inside: Tensor, first: Tensor, best: Tensor
        ) -> tuple[Tensor, tuple[Tensor]]:
            """Return the best tag before each one (B, K), and the scores of the best paths to each."""
            score, before = (best.unsqueeze(2) + transitions).max(1)
            after = torch.where(first, start, score) + emission
            stay = torch.arange(self.n_tags, device=best.device)
            return torch.where(inside, before, stay), (torch.where(inside, after, best),)

        def backward(before: Tensor, tag: Tensor) -> tuple[Tensor, tuple[Tensor]]:
            return tag[:, 0], (before.gather(1, tag),)

        none = torch.zeros_like(emissions[:, 0])
        pointers, (best,) = over_steps(
            forward, (emissions.transpose(0, 1), inside, steps == 0), (none,)
        )
        last = (best + end).argmax(1, keepdim=True)
        backwards, _ = over_steps(backward, (pointers.flip(0),), (last,))
        return backwards.flip(0).masked_fill(~inside[:, :, 0], -1).transpose(0, 1)

    def _tables(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return start, transitions and end; what is not allowed is `IMPOSSIBLE`."""
        if self.allowed is None:
            return self.start, self.transitions, self.end
        banned, k = ~self.allowed, self.n_tags
        return (
            self.start.masked_fill(banned[k, :k], IMPOSSIBLE),
            self.transitions.masked_fill(banned[:k, :k], IMPOSSIBLE),
            self.end.masked_fill(banned[:k, k], IMPOSSIBLE),
        )


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        emissions: Tensor,
        start: Tensor,
        transitions: Tensor,
        end: Tensor,
        tags: Tensor,
        lengths: Tensor,
        weights: Tensor | None,
        allowed: Tensor | None,
        needs_gradients: bool,
    ) -> Tensor:
        chain = Chain(
            _numpy(start),
            _numpy(transitions),
            _numpy(end),
            None if allowed is None else _numpy(allowed),
        )
        shares = None if weights is None else _numpy(weights)
        losses, gradients = chain.losses(
            _numpy(emissions), _numpy(tags), _numpy(lengths), shares, gradients=needs_gradients
        )
        if gradients is not None:
            ctx.save_for_backward(
                torch.from_numpy(gradients.emissions),
                *(
                    torch.from_numpy(value).to(start.dtype)
                    for value in (gradients.start, gradients.transitions, gradients.end)
                ),
            )
        return emissions.new_tensor(losses.sum() if shares is None else losses @ shares)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor | None, ...]:
        return (*(value * above for value in ctx.saved_tensors), None, None, None, None, None)


def _real(emissions: Tensor) -> Tensor:
    """Convert half precision to float32."""
    return emissions if emissions.dtype == torch.float64 else emissions.float()


def _lengths(emissions: Tensor, lengths: Tensor | None) -> Tensor:
    if lengths is not None:
        return lengths.to(emissions.device)
    return torch.full(emissions.shape[:1], emissions.shape[1], device=emissions.device)


def _numpy(tensor: Tensor) -> np.ndarray:
    array: np.ndarray = tensor.detach().cpu().numpy()
    return array
