"""Why a text is of a class: what each feature adds to the log-odds of one class against another.

What a network's answer rests on: integrated gradients, and the weights of attention.

Integrated gradients (Sundararajan et al. 2017) share out the difference between the log-odds of the
text and those of a text of zero vectors among its tokens: along the straight line between the two,
each token's gradient is averaged and multiplied by its vector. The shares add up to the difference,
up to the number of points at which the line is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from seqloom.batching import ranges, there
from seqloom.errors import ConfigError
from seqloom.models.sequence.inputs import spelled_tokens, windows

if TYPE_CHECKING:
    from seqloom.models.classification.neural_classifier import NeuralClassifier


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
        """Return plain values for JSON."""
        return asdict(self)

    def rows(self) -> list[tuple[str, float]]:
        """Return names and nats of all that the log-odds are made of, the largest features first."""
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
    """Return what each token adds: features that are tokens or n-grams of them are shared out
    among the positions where they stand.

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


# ---- attribution

POINTS = 64  # at which the line is read
STEPS_PER_BATCH = 1 << 13  # steps of a batch


def token_shares(
    model: NeuralClassifier, text: Any, one: int, other: int | None, points: int = POINTS
) -> tuple[np.ndarray, float, float]:
    """Return what each step of a text adds to the log-odds of class `one` against `other` (None:
    against its absence), those log-odds and those of no text; all as the network has them.
    """
    import torch

    network = model.network()
    device = next(network.parameters()).device
    arrays = model.encode([text]).batch(np.arange(1))
    batch = {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}
    with torch.no_grad():
        x = network.reader(batch)  # (rows, T, D)

    def odds(vectors: Any, many: int) -> Any:
        repeated = {
            name: value.repeat(many, *[1] * (value.dim() - 1))
            for name, value in batch.items()
            if name in ("lengths", "counts")
        }
        scores = model.example_scores(network.encode(vectors, repeated), repeated)
        return scores[:, one] if other is None else scores[:, one] - scores[:, other]

    together = max(STEPS_PER_BATCH // (x.shape[0] * x.shape[1]), 1)
    total = torch.zeros_like(x)
    for low in range(0, points, together):
        shares = (
            torch.arange(low, min(low + together, points), device=device, dtype=x.dtype) + 0.5
        ) / points
        line = (shares.view(-1, 1, 1, 1) * x).flatten(0, 1).requires_grad_()
        with torch.enable_grad():
            (gradient,) = torch.autograd.grad(odds(line, len(shares)).sum(), line)
        total += gradient.view(len(shares), *x.shape).sum(0)
    with torch.no_grad():
        whole, nothing = float(odds(x, 1)[0]), float(odds(torch.zeros_like(x), 1)[0])
    shares = (total * x / points).sum(2).cpu().numpy()
    return shares[there(arrays["lengths"], x.shape[1])], whole, nothing


def explain(model: NeuralClassifier, text: Any, n: int, label: Any, against: Any) -> Explanation:
    scores = model.class_log_probs([text])[0]
    one = int(scores.argmax()) if label is None else _place(model, label)
    other = _other(model, scores, one) if against is None else _place(model, against)
    if one == other:
        raise ConfigError(f"label and against are both {model.classes[one]!r}; name two classes")
    nats, whole, nothing = token_shares(model, text, one, other)
    temperature, shift = model.learnt.get("temperature", 1.0), model.learnt.get("shift")
    moved = 0.0 if shift is None else shift[one] - (0.0 if other is None else shift[other])
    places, words = steps_in_text(model, text)
    nats = np.bincount(places, nats / temperature, len(words))
    order = np.argsort(-abs(nats), kind="stable")
    rest = (whole - nothing) / temperature - float(nats[order[:n]].sum())
    return Explanation(
        model.classes[one],
        f"not {model.classes[one]}" if other is None else model.classes[other],
        whole / temperature + moved,
        nothing / temperature + moved,
        0.0,
        [Share(words[i], 1, float(nats[i])) for i in order[:n].tolist()],
        rest,
        list(zip(words, nats.tolist())),
    )


def _other(model: NeuralClassifier, scores: np.ndarray, one: int) -> int | None:
    """Return the likeliest other class; where an example may have several labels, each is decided
    against its absence.
    """
    return None if model.multi_label else next(int(c) for c in np.argsort(-scores) if c != one)


def _place(model: NeuralClassifier, label: Any) -> int:
    if label not in model.classes:
        raise ConfigError(
            f"there is no class {label!r}; the classes are {', '.join(map(repr, model.classes[:10]))}"
        )
    return model.classes.index(label)


def steps_in_text(model: NeuralClassifier, text: Any) -> tuple[np.ndarray, list[str]]:
    """Return the position in the text of each step that the network reads, and the tokens at these
    positions as they are spelled; in overlapping windows, a position is read more than once.
    """
    c = model.config
    if c.published:
        names = [model.tokenizer.token(i) for i in model.encode([text]).steps["ids"].tolist()]
        return np.arange(len(names)), names
    if c.long == "sentences":
        from seqloom.text.segment import sentences

        parts = list(sentences(text)) or [text]
        words = [
            word for part in parts for word in spelled_tokens(model.tokenizer, part)[: c.max_length]
        ]
        return np.arange(len(words)), words
    words = spelled_tokens(model.tokenizer, text)
    if c.long == "windows":
        starts, stops, _ = windows(np.array([0]), np.array([len(words)]), c.max_length)
        return ranges(starts, stops - starts), words
    words = words[: c.max_length]
    return np.arange(len(words)), words


def attention(model: NeuralClassifier, text: Any) -> list[tuple[str, float]]:
    """Return the tokens of a text and how much attention each got; the weights sum to one."""
    import torch

    if model.config.pools != "attention" or model.config.long != "truncate":
        raise ConfigError(
            "only a classifier with pooling attention, and without windows or sentences, has "
            "attention weights"
        )
    network = model.network()
    encoded = model.encode([text])
    device = next(network.parameters()).device
    batch = {
        name: torch.from_numpy(array).to(device)
        for name, array in encoded.batch(np.arange(1)).items()
    }
    with torch.inference_mode():
        x, lengths = network.features(network.reader(batch), batch)
        weights = network.output.pooling.weights(x, lengths)[0].cpu().numpy()
    return list(zip(steps_in_text(model, text)[1], weights.tolist()))
