"""Why a text is of a class: what each feature adds to the log-odds of one class against another."""

from __future__ import annotations

from collections.abc import Sequence
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
    tokens: Sequence[
        tuple[str, float]
    ] = ()  # every token in the order of the text, and what it adds in nats

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    def rows(self) -> list[tuple[str, float]]:
        """Names and nats of all that the log-odds are made of, the largest features first."""
        rows = [
            (share.feature + (f" x{share.count}" if share.count > 1 else ""), share.nats)
            for share in self.shares
        ]
        rest = (
            ("(other features)", self.others),
            ("(absent features)", self.absent),
            ("(prior)", self.prior),
        )
        return rows + [(name, nats) for name, nats in rest if nats]

    def __str__(self) -> str:
        rows = self.rows()
        width = max(len(name) for name, _ in rows) if rows else 0
        head = f"{self.label} rather than {self.against}: {self.log_odds:+.3f} nats"
        head += "" if self.shares or self.others else "; no word of it is known"
        return "\n".join([head, *(f"  {name:<{width}}  {nats:+.3f}" for name, nats in rows)])


def by_token(
    tokens: Sequence[str], shares: Sequence[Share], joiner: str = " "
) -> list[tuple[str, float]]:
    """What each token adds: features that are tokens or n-grams of them are shared out among the places where they stand.

    >>> by_token(["not", "so", "bad"], [Share("bad", 1, -1.0), Share("not so", 1, 0.5)])
    [('not', 0.25), ('so', 0.25), ('bad', -1.0)]
    """
    nats = {share.feature: share.nats for share in shares}
    longest = max(
        (feature.count(joiner) + 1 if joiner else len(feature) for feature in nats), default=1
    )
    places: dict[str, list[range]] = {}
    for first in range(len(tokens)):
        for stop in range(first + 1, min(first + longest, len(tokens)) + 1):
            if (name := joiner.join(tokens[first:stop])) in nats:
                places.setdefault(name, []).append(range(first, stop))
    added = [0.0] * len(tokens)
    for name, found in places.items():
        for place in found:
            for i in place:
                added[i] += nats[name] / len(found) / len(place)
    return list(zip(tokens, added))
