"""Heads: what an encoder's vectors become. A label or several for the sequence, or a tag for each step.

Losses are sums over examples or steps, each by its weight, as the training engine wants them. A head that predicts labels pools
the steps first (`nn.pooling`); a head that predicts tags may score whole sequences of them by a conditional random field
(`nn.crf`), in which illegal tags never follow each other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seqloom.nn.initialisation import xavier
from seqloom.nn.linear import MakeLinear, original
from seqloom.nn.pooling import Pooling
from seqloom.trace import Trace, within


def xavier_linear(d_in: int, d_out: int, linear: MakeLinear = nn.Linear) -> nn.Linear:
    """Make a layer whose weight is initialised by Xavier's method, with a bias of zeros."""
    layer = linear(d_in, d_out, bias=True)
    xavier(original(layer))
    nn.init.zeros_(layer.bias)
    return layer


class LabelHead(nn.Module):
    """(B, T, D) to the scores of classes (B, C): of one class by a softmax, of several each by a sigmoid."""

    def __init__(
        self,
        d_in: int,
        n_classes: int,
        pooling: Pooling,
        *,
        several: bool = False,
        label_smoothing: float = 0.0,
        linear: MakeLinear = nn.Linear,
    ) -> None:
        super().__init__()
        self.pooling, self.linear = pooling, xavier_linear(d_in, n_classes, linear)
        self.several, self.label_smoothing = several, label_smoothing

    def forward(self, x: Tensor, lengths: Tensor, trace: Trace | None = None) -> Tensor:
        return self.linear(self.pooling(x, lengths, within(trace, "pooling")))

    def loss(self, scores: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
        """Return the sum over the examples, each by its weight (B,).

        Targets: (B,) of one class each, or soft ones (B, C) that sum to one; of several labels (B, C) from 0
        to 1.
        """
        soft = targets.to(scores.dtype) if targets.ndim == 2 else targets
        if self.several:
            each = F.binary_cross_entropy_with_logits(scores, soft, reduction="none")  # (B, C)
        else:
            smoothing = self.label_smoothing
            each = F.cross_entropy(
                scores, soft, reduction="none", label_smoothing=smoothing
            )  # (B,)
        if weights is None:
            return each.sum()
        return (each * (weights[:, None] if self.several else weights)).sum()

    def log_probs(self, scores: Tensor) -> Tensor:
        return F.logsigmoid(scores) if self.several else torch.log_softmax(scores, 1)


class TagHead(nn.Module):
    """(B, T, D) to the scores of tags (B, T, K); `crf` scores whole sequences of tags instead of single ones."""

    def __init__(
        self, d_in: int, n_tags: int, *, crf: Any = None, linear: MakeLinear = nn.Linear
    ) -> None:
        super().__init__()
        self.linear, self.crf = xavier_linear(d_in, n_tags, linear), crf

    def forward(self, x: Tensor, lengths: Tensor, trace: Trace | None = None) -> Tensor:
        return self.linear(x)

    def loss(
        self, scores: Tensor, targets: Tensor, lengths: Tensor, weights: Tensor | None = None
    ) -> Tensor:
        """Return the sum over the steps that are there, each by its weight (B, T).

        Targets: tags (B, T), or soft ones (B, T, K); a CRF, which scores whole sequences, takes neither these
        nor weights.
        """
        if self.crf is not None:
            if weights is not None or targets.ndim != 2:
                raise ValueError(
                    "a CRF scores whole sequences of tags; soft targets and weights of steps "
                    "need a head without"
                )
            loss: Tensor = self.crf(scores, targets, lengths)
            return loss
        there = torch.arange(scores.shape[1], device=scores.device) < lengths.to(
            scores.device
        ).unsqueeze(1)
        if weights is None:
            return F.cross_entropy(scores[there], targets[there], reduction="sum")
        return (
            F.cross_entropy(scores[there], targets[there], reduction="none") * weights[there]
        ).sum()

    def decode(self, scores: Tensor, lengths: Tensor) -> np.ndarray:
        """The best tags (B, T); what stands beyond a row's length means nothing."""
        best: np.ndarray = (
            scores.argmax(2).cpu().numpy() if self.crf is None else self.crf.decode(scores, lengths)
        )
        return best
