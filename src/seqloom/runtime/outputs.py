"""Output layers: features (n, D) to log-probabilities of all tokens, `nn.outputs` without torch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from seqloom.kernels.maths import log_softmax
from seqloom.kernels.parallel import TEAM
from seqloom.runtime.quantised import Quantised
from seqloom.runtime.weights import NONE, Linear, Weights


def cutoffs(vocab_size: int) -> list[int]:
    """Return the ranks at which the adaptive softmax begins a new cluster of rarer tokens."""
    return [rank for rank in (vocab_size // 10, vocab_size // 2) if rank > 0]


class FullSoftmax:
    """Softmax over all tokens; if `tied`, its matrix is that of an embedding."""

    def __init__(
        self,
        weights: Weights,
        d_model: int,
        vocab_size: int,
        *,
        tied: np.ndarray | Quantised | None = None,
        bias: bool = True,
        never: Sequence[int] = (),
    ) -> None:
        """Take the weights; `never`: tokens of probability zero."""
        offsets = weights.take("bias", vocab_size) if bias else NONE
        if len(never):
            offsets = offsets.copy() if bias else np.zeros(vocab_size, np.float32)
            offsets[list(never)] = -np.inf
        self.bias = offsets
        self.linear: Linear
        if tied is None:
            self.linear = weights.matrix("weight", vocab_size, d_model, role="output")
        else:
            assert tied.shape == (vocab_size, d_model), (
                "a tied output has the shape of its embedding"
            )
            self.linear = Linear(
                tied,
                inputs_16_bit=weights.inputs_16_bit,
                eight_bit=weights.eight_bit,
                name="embedding.weight",
            )

    def log_probs(self, features: np.ndarray) -> np.ndarray:
        """Return the log-probabilities of all tokens, float32 (n, V)."""
        scores = self.linear(features)
        log_softmax(scores, self.bias, TEAM)
        return scores


class AdaptiveSoftmax:
    """A head of frequent tokens and clusters, each cluster narrower than the one before."""

    def __init__(self, weights: Weights, d_model: int, vocab_size: int) -> None:
        edges = [*cutoffs(vocab_size), vocab_size]
        self.shortlist = edges[0]
        self.head = weights.linear(
            "head", edges[0] + len(edges) - 1, d_model, bias=False, role="output"
        )
        self.tails: list[tuple[Linear, Linear]] = []
        for i, (low, high) in enumerate(pairwise(edges)):
            narrow = max(1, int(d_model / 4.0 ** (i + 1)))
            part = weights.within(f"tails.{i}")
            down = part.linear("down", narrow, d_model, bias=False, role="output")
            self.tails.append(
                (down, part.linear("up", high - low, narrow, bias=False, role="output"))
            )
        self.ranks = weights.indices("ranks", vocab_size)

    def log_probs(self, features: np.ndarray) -> np.ndarray:
        """Return the log-probabilities of all tokens, float32 (n, V)."""
        head = self.head(features)
        log_softmax(head, NONE, TEAM)
        parts = [head[:, : self.shortlist]]
        for i, (down, up) in enumerate(self.tails):
            scores = up(down(features))
            log_softmax(scores, NONE, TEAM)
            parts.append(head[:, self.shortlist + i, None] + scores)
        return np.concatenate(parts, axis=1)[:, self.ranks]


def take_output(
    weights: Weights,
    softmax: str,
    d_model: int,
    vocab_size: int,
    *,
    tied: np.ndarray | Quantised | None = None,
    bias: bool = True,
) -> FullSoftmax | AdaptiveSoftmax:
    """Take the output layer that `models.network.output_net.make_output` makes."""
    if softmax == "adaptive":
        return AdaptiveSoftmax(weights, d_model, vocab_size)
    return FullSoftmax(weights, d_model, vocab_size, tied=tied, bias=bias)
