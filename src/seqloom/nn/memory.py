"""Attention of a decoder to a memory: each target token gets a weighted mean of the source's vectors.

A query q and a key k are scored by a small network, `additive` (Bahdanau et al. 2015, section
A.1.2), or by a product (Luong et al. 2015, section 3.1): `dot` q'k, `general` q'Wk, `concat`
v'tanh(W[q; k]); `scaled` is dot divided by the root of the width (Vaswani et al. 2017). The keys are
computed once for a memory; queries of all target steps are scored at once.

`coverage` is the sum of the weights of each source step so far (Tu et al. 2016; See et al. 2017):
times a learned vector it is added to the key, so that the score depends on what was translated.
Steps then depend on each other and are computed one by one.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from seqloom.nn.initialisation import xavier
from seqloom.nn.layers import MakeLinear, original
from seqloom.nn.recording import over_steps, recorded

Score = Literal["additive", "dot", "general", "concat", "scaled"]
SCORES = ("additive", "dot", "general", "concat", "scaled")
BY_WIDTH = ("dot", "scaled")  # for which query and memory must have one width


class MemoryAttention(nn.Module):
    """Queries (B, T, d_query) to a memory (B, S, d_memory): its weighted means (B, T, d_memory) and
    the weights (B, T, S).
    """

    def __init__(
        self,
        score: Score,
        d_query: int,
        d_memory: int,
        *,
        coverage: bool = False,
        linear: MakeLinear = nn.Linear,
    ) -> None:
        super().__init__()
        if score not in SCORES:
            raise ValueError(f"attention must be one of {', '.join(SCORES)}; it is {score!r}")
        if score in BY_WIDTH and d_query != d_memory:
            raise ValueError(
                f"attention {score} multiplies queries and memory, so both need one width; they "
                f"have {d_query} "
                f"and {d_memory}"
            )
        self.score = score
        self.query = (
            linear(d_query, d_query, bias=False) if score in ("additive", "concat") else None
        )
        self.key = (
            None if score in BY_WIDTH else linear(d_memory, d_query, bias=score == "additive")
        )
        self.energy = nn.Parameter(torch.empty(d_query)) if self.query is not None else None
        self.covered = nn.Parameter(torch.zeros(d_query)) if coverage else None
        for layer in (self.query, self.key):
            if layer is not None:
                xavier(original(layer))
        if self.key is not None and self.key.bias is not None:
            nn.init.zeros_(self.key.bias)
        if self.energy is not None:
            nn.init.uniform_(self.energy, -(d_query**-0.5), d_query**-0.5)

    def keys(self, memory: Tensor) -> Tensor:
        """Return the keys of a memory, (B, S, d_query)."""
        return memory if self.key is None else self.key(memory)

    def forward(
        self,
        queries: Tensor,
        memory: Tensor,
        keys: Tensor,
        present: Tensor | None = None,
        coverage: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return the weighted memory and the attention weights. `present` (B, S) is False at padding.
        `coverage` (B, S): the sum of the weights before these queries; none: zeros.
        """
        if self.covered is None:
            weights = masked_softmax(self._scores(queries, keys), present)
        else:
            weights = self._covering(queries, keys, present, coverage)
        return weights @ memory, weights

    def _covering(
        self, queries: Tensor, keys: Tensor, present: Tensor | None, coverage: Tensor | None
    ) -> Tensor:
        covered = self.covered
        assert covered is not None
        total = keys.new_zeros(keys.shape[:2]) if coverage is None else coverage

        def cover(
            query: Tensor, total: Tensor, keys: Tensor, *present: Tensor
        ) -> tuple[Tensor, tuple[Tensor]]:
            shifted = keys + total.unsqueeze(2) * covered
            scores = self._scores(query.unsqueeze(1), shifted)
            weights = masked_softmax(scores, present[0] if present else None)[:, 0]
            return weights, (total + weights,)

        given = () if present is None else (present,)
        weights, _ = over_steps(cover, (queries.transpose(0, 1),), (total,), (keys, *given))
        return weights.transpose(0, 1)

    def _scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Compute the scores (B, T, S)."""
        if self.query is not None:
            assert self.energy is not None
            if recorded():
                pairs = self.query(queries).unsqueeze(2) + keys.unsqueeze(1)
                return torch.tanh(pairs) @ self.energy
            scores: Tensor = AdditiveScores.apply(self.query(queries), keys, self.energy)
            return scores
        scores = queries @ keys.transpose(1, 2)
        return scores / math.sqrt(queries.shape[2]) if self.score == "scaled" else scores


def masked_softmax(scores: Tensor, present: Tensor | None) -> Tensor:
    """Return weights (B, T, S) that sum to one over the steps `present` (B, S), or are all zero where
    none is.
    """
    if present is None:
        return torch.softmax(scores, -1)
    hidden = ~present.unsqueeze(1)
    least = torch.finfo(scores.dtype).min  # not -inf: the softmax of a row of these would be NaN
    return torch.softmax(scores.masked_fill(hidden, least), -1).masked_fill(hidden, 0.0)


class AdditiveScores(torch.autograd.Function):
    """energy . tanh(query + key) of all pairs: (B, T, A) and (B, S, A) to (B, T, S).

    The (B, T, S, A) values in between are not stored but computed again in the backward pass, a few at
    a time, which is faster than writing and reading them.
    """

    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, energy: Tensor) -> Tensor:
        queries, keys = queries.contiguous(), keys.contiguous()
        ctx.save_for_backward(queries, keys, energy)
        if not _compiled(queries):
            return torch.stack(
                [torch.tanh(keys + q.unsqueeze(1)) @ energy for q in queries.unbind(1)], 1
            )
        from seqloom.kernels.attention import additive_scores

        scores = queries.new_empty(*queries.shape[:2], keys.shape[1])
        additive_scores(*(x.detach().numpy() for x in (queries, keys, energy, scores)))
        return scores

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        queries, keys, energy = ctx.saved_tensors
        d_queries, d_keys, d_energy = (
            torch.zeros_like(queries),
            torch.zeros_like(keys),
            torch.zeros_like(energy),
        )
        if _compiled(queries):
            from seqloom.kernels.attention import additive_scores_back

            additive_scores_back(
                *(
                    x.detach().numpy()
                    for x in (
                        queries,
                        keys,
                        energy,
                        above.contiguous(),
                        d_queries,
                        d_keys,
                        d_energy,
                    )
                )
            )
            return d_queries, d_keys, d_energy
        for t in range(queries.shape[1]):
            inner = torch.tanh(keys + queries[:, t : t + 1])  # (B, S, A)
            d_energy += inner.reshape(-1, len(energy)).t() @ above[:, t].reshape(-1)
            slope = inner.square_().neg_().add_(1.0).mul_(energy).mul_(above[:, t].unsqueeze(2))
            d_keys += slope
            d_queries[:, t] = slope.sum(1)
        return d_queries, d_keys, d_energy


def _compiled(x: Tensor) -> bool:
    """Return whether our kernel takes this tensor."""
    return x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64)
