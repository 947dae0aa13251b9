"""Why a text is of a class: what each feature adds to the log-odds of one class against another."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Share:
    """What one feature adds to the log-odds of a class."""

    feature: str
    count: int
    nats: float


@dataclass(frozen=True)
class Explanation:
    """Why a text is of one class rather than of another: log_odds = prior + absent + all shares + others."""

    label: Any  # a class
    against: Any
    log_odds: float  # log p(label) - log p(against)
    prior: float
    absent: float  # of the features that are not there; bernoulli only
    shares: list[Share]  # the largest first, whatever their sign
    others: float  # the features that are not listed

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        rows = [(share.feature + (f" x{share.count}" if share.count > 1 else ""), share.nats) for share in self.shares]
        rest = (("(other features)", self.others), ("(absent features)", self.absent), ("(prior)", self.prior))
        rows += [(name, nats) for name, nats in rest if nats]
        width = max(len(name) for name, _ in rows) if rows else 0
        head = f"{self.label} rather than {self.against}: {self.log_odds:+.3f} nats"
        head += "" if self.shares or self.others else "; no word of it is known"
        return "\n".join([head, *(f"  {name:<{width}}  {nats:+.3f}" for name, nats in rows)])
