"""One vector for a whole sequence (B, T, D): its last state, the mean, the largest of each feature, or an attention mean.

Attention (Yang et al. 2016, "Hierarchical Attention Networks"; Bahdanau et al. 2015): each step is scored by a small network
and a learned vector, and the steps are averaged by the softmax of their scores, which also shows what the answer looked at.
Padding has no part in any of them; an empty sequence gives zeros.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

from seqloom.nn.encoders import present
from seqloom.nn.initialisation import xavier
from seqloom.nn.linear import MakeLinear, original
from seqloom.trace import Trace

PoolingName = Literal["last", "mean", "max", "attention"]
POOLINGS = ("last", "mean", "max", "attention")


class Pooling(nn.Module):
    """x (B, T, D) and lengths (B,) to (B, D). `last`: of a bidirectional encoder, the ends of both directions."""

    def __init__(
        self,
        kind: PoolingName,
        d_in: int,
        *,
        bidirectional: bool = False,
        linear: MakeLinear = nn.Linear,
    ) -> None:
        super().__init__()
        if kind not in POOLINGS:
            raise ValueError(f"pooling must be one of {', '.join(POOLINGS)}; it is {kind!r}")
        self.kind, self.bidirectional = kind, bidirectional
        if kind == "attention":
            self.project = linear(d_in, d_in, bias=True)
            self.score = linear(d_in, 1, bias=False)
            xavier(original(self.project))
            nn.init.zeros_(self.project.bias)
            nn.init.normal_(original(self.score), std=d_in**-0.5)

    def forward(self, x: Tensor, lengths: Tensor, trace: Trace | None = None) -> Tensor:
        """A trace gets the `weights` (B, T) of attention."""
        empty = (lengths == 0).to(x.device).unsqueeze(1)
        return self._pooled(x, lengths.to(x.device), trace).masked_fill(empty, 0.0)

    def _pooled(self, x: Tensor, lengths: Tensor, trace: Trace | None) -> Tensor:
        if self.kind == "last":
            rows = torch.arange(len(x), device=x.device)
            last = x[rows, (lengths - 1).clamp(min=0)]
            half = x.shape[2] // 2
            return torch.cat([last[:, :half], x[:, 0, half:]], 1) if self.bidirectional else last
        if self.kind == "attention":
            weights = self.weights(x, lengths)
            if trace is not None:
                trace.add("weights", weights)
            return (weights.unsqueeze(2) * x).sum(1)
        there = present(x, lengths)
        assert there is not None
        if self.kind == "max":
            return x.masked_fill(~there.unsqueeze(2), -math.inf).amax(1)
        return x.masked_fill(~there.unsqueeze(2), 0.0).sum(1) / lengths.clamp(min=1).unsqueeze(1)

    def weights(self, x: Tensor, lengths: Tensor) -> Tensor:
        """How much attention looks at each step, (B, T); rows sum to one, or are zero where a sequence is empty."""
        scores = self.score(torch.tanh(self.project(x))).squeeze(2)
        there = present(x, lengths)
        assert there is not None
        scores = scores.masked_fill(~(there | (lengths == 0).to(x.device).unsqueeze(1)), -math.inf)
        return torch.softmax(scores, 1).masked_fill(~there, 0.0)
