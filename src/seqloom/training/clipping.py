"""Cutting gradients that are too large, and a record of how often and where.

By global norm (Pascanu et al. 2013) the direction is kept; by value it is not. Adaptive clipping allows a multiple of
a running mean of the norm, and there is no limit during the first steps. What enters that mean is capped at twice the
limit: an explosion of any size then raises it by a few hundredths at most, a lasting rise is followed all the same,
and ordinary norms enter as they are. (Were they cut at the limit itself, the mean would sink, and the limit with it.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch

from seqloom.training.config import TrainConfig

_WARM_UP, _MEMORY = 20, 0.99
_CAP = 2.0  # limits that a norm may count for in the mean


class Clipper:
    def __init__(self, config: TrainConfig) -> None:
        self.kind, self.at = config.clip, config.limit
        self.steps = self.clipped = 0
        self.usual = 0.0  # running mean of the norm
        self.largest: Counter[str] = Counter()  # whose gradient was largest when it was clipped

    def __call__(self, named: Iterable[tuple[str, torch.nn.Parameter]]) -> float:
        """Cut in place; the norm before. A norm that is not finite is returned and nothing is cut."""
        grads = {name: p.grad for name, p in named if p.grad is not None}
        norms = torch._foreach_norm(list(grads.values()))
        norm = float(torch.linalg.vector_norm(torch.stack(norms)))
        self.steps += 1
        if self.kind == "none" or norm != norm or norm == float("inf"):
            return norm
        if self.kind == "value":
            self._count(
                norm, max(float(g.abs().max()) for g in grads.values()) > self.at, grads, norms
            )
            torch._foreach_clamp_min_(list(grads.values()), -self.at)
            torch._foreach_clamp_max_(list(grads.values()), self.at)
            return norm
        limit = self.at if self.kind == "norm" else self._adaptive_limit()
        self._count(norm, norm > limit, grads, norms)
        if norm > limit:
            torch._foreach_mul_(list(grads.values()), limit / norm)
        share = max(1 - _MEMORY, 1 / self.steps)
        self.usual += share * (min(norm, _CAP * limit) - self.usual)
        return norm

    def _adaptive_limit(self) -> float:
        return float("inf") if self.steps <= _WARM_UP else self.at * self.usual

    def _count(
        self, norm: float, cut: bool, grads: dict[str, torch.Tensor], norms: Iterable[torch.Tensor]
    ) -> None:
        if cut:
            self.clipped += 1
            self.largest[max(zip(norms, grads), key=lambda pair: float(pair[0]))[1]] += 1

    def report(self) -> dict[str, Any]:
        """How often it cut, and in which parameter the gradient was then largest."""
        share = self.clipped / max(self.steps, 1)
        return {
            "clipped": round(share, 4),
            "largest_in": [name for name, _ in self.largest.most_common(3)],
        }

    def state(self) -> dict[str, Any]:
        return {
            "steps": self.steps,
            "clipped": self.clipped,
            "usual": self.usual,
            "largest": dict(self.largest),
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.steps, self.clipped, self.usual = state["steps"], state["clipped"], state["usual"]
        self.largest = Counter(state["largest"])
