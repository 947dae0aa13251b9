"""Why a text is of a class: what each feature adds to the log-odds of one class against another.

For networks the shares are integrated gradients (`token_shares`), or the weights of attention.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from seqloom.batching import ranges, there
from seqloom.errors import ConfigError, suggest_known
from seqloom.models.sequence.inputs import spelled_tokens, windows

if TYPE_CHECKING:
    from seqloom.contracts.classification import Classifier
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
    absent: float  # of the features that do not occur; bernoulli only
    shares: list[Share]  # the largest first, whatever their sign
    others: float  # the features that are not listed
    # Every token in the order of the text, and what it adds in nats.
    tokens: Sequence[tuple[str, float]] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)

    def rows(self) -> list[tuple[str, float]]:
        """Return names and nats of all terms of the log-odds, the largest features first."""
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
    """Return what each token adds: features that are tokens or n-grams of them are divided
    equally among the positions where they occur.

    >>> by_token(["not", "so", "bad"], [Share("bad", 1, -1.0), Share("not so", 1, 0.5)])
    [('not', 0.25), ('so', 0.25), ('bad', -1.0)]
    """
    nats = {share.feature: share.nats for share in shares}
    longest = max(
        (feature.count(joiner) + 1 if joiner else len(feature) for feature in nats), default=1
    )
    spans_of: dict[str, list[range]] = {}
    for first in range(len(tokens)):
        for stop in range(first + 1, min(first + longest, len(tokens)) + 1):
            if (name := joiner.join(tokens[first:stop])) in nats:
                spans_of.setdefault(name, []).append(range(first, stop))
    added = [0.0] * len(tokens)
    for name, spans in spans_of.items():
        for span in spans:
            for i in span:
                added[i] += nats[name] / len(spans) / len(span)
    return list(zip(tokens, added))


# ---- linear models


def explain_by_features(
    model: Classifier,
    text: str,
    times: dict[str, int],
    nats: np.ndarray,
    prior: np.ndarray,
    absent: np.ndarray,
    question: tuple[int, Any, Any],
) -> Explanation:
    """Explain a text by what each of its features adds to the score of each class.

    `times`: how often each feature occurs in the text; nats (features, C); prior and absent (C,):
    what is added whatever the text says. `question`: how many features to list, the class (None: the
    likeliest) and the class that it is held against (None: the likeliest other).
    """
    n, label, against = question
    if len(model.classes) == 1:
        raise ConfigError(
            f"this model has only one class, {model.classes[0]!r}; there is nothing to compare it with"
        )
    scores = nats.sum(axis=0) + prior + absent
    one = int(scores.argmax()) if label is None else class_index(model, label)
    other = (
        next(int(c) for c in np.argsort(-scores) if c != one)
        if against is None
        else class_index(model, against)
    )
    if one == other:
        raise ConfigError(f"label and against are both {model.classes[one]!r}; name two classes")
    added = nats[:, one] - nats[:, other]
    order, names = np.argsort(-abs(added), kind="stable"), list(times.items())
    shares = [Share(names[i][0], names[i][1], float(added[i])) for i in order.tolist()]
    joiner = model.tokenizer.joiner.decode()
    return Explanation(
        model.classes[one],
        model.classes[other],
        float(scores[one] - scores[other]),
        float(prior[one] - prior[other]),
        float(absent[one] - absent[other]),
        shares[:n],
        float(added[order[n:]].sum()),
        by_token(spelled_tokens(model.tokenizer, text)[:-1], shares, joiner),
    )


def class_index(model: Classifier, name: Any) -> int:
    """Return the column of a class; a number may be written as text."""
    names = list(map(str, model.classes))
    if str(name) not in names:
        raise ConfigError(f"unknown class {name!r}{suggest_known(str(name), names)}")
    return names.index(str(name))


def over_others(weights: np.ndarray, column: int) -> np.ndarray:
    """Return the weights (F, C) of one class minus their mean in the other classes: (F,)."""
    others = [i for i in range(weights.shape[1]) if i != column]
    return weights[:, column] - (weights[:, others].mean(axis=1) if others else 0.0)


# ---- attribution

POINTS = 64  # of the line where the gradient is computed
STEPS_PER_BATCH = 1 << 13


def token_shares(
    model: NeuralClassifier,
    text: Any,
    label_index: int,
    against_index: int | None,
    points: int = POINTS,
) -> tuple[np.ndarray, float, float]:
    """Return what each step of a text adds to the log-odds of one class against another (None:
    against its absence), these log-odds, and those of zero vectors; without temperature and shift.

    Integrated gradients (Sundararajan et al. 2017) divide the difference between the log-odds of the
    text and those of zero vectors among its tokens: each token's gradient is averaged along the
    straight line between the two and multiplied by its vector. The shares add up to the difference,
    except for the error of averaging over finitely many points.
    """
    import torch

    network = model.network()
    device = next(network.parameters()).device
    arrays = model.encode([text]).batch(np.arange(1))
    batch = {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}
    with torch.no_grad():
        x = network.reader(batch)  # (rows, T, D)

    def odds(vectors: Any, repeats: int) -> Any:
        repeated = {
            name: value.repeat(repeats, *[1] * (value.dim() - 1))
            for name, value in batch.items()
            if name in ("lengths", "counts")
        }
        scores = model.example_scores(network.encode(vectors, repeated), repeated)
        return (
            scores[:, label_index]
            if against_index is None
            else scores[:, label_index] - scores[:, against_index]
        )

    points_per_batch = max(STEPS_PER_BATCH // (x.shape[0] * x.shape[1]), 1)
    total = torch.zeros_like(x)
    for low in range(0, points, points_per_batch):
        shares = (
            torch.arange(low, min(low + points_per_batch, points), device=device, dtype=x.dtype)
            + 0.5
        ) / points
        line = (shares.view(-1, 1, 1, 1) * x).flatten(0, 1).requires_grad_()
        with torch.enable_grad():
            (gradient,) = torch.autograd.grad(odds(line, len(shares)).sum(), line)
        total += gradient.view(len(shares), *x.shape).sum(0)
    with torch.no_grad():
        full_odds, zero_odds = float(odds(x, 1)[0]), float(odds(torch.zeros_like(x), 1)[0])
    shares = (total * x / points).sum(2).cpu().numpy()
    return shares[there(arrays["lengths"], x.shape[1])], full_odds, zero_odds


def explain(model: NeuralClassifier, text: Any, n: int, label: Any, against: Any) -> Explanation:
    """Explain by integrated gradients, on the scale of the probabilities of the model."""
    scores = model.class_log_probs([text])[0]
    label_index = int(scores.argmax()) if label is None else _class_index(model, label)
    against_index = (
        _runner_up(model, scores, label_index) if against is None else _class_index(model, against)
    )
    if label_index == against_index:
        raise ConfigError(
            f"label and against are both {model.classes[label_index]!r}; name two classes"
        )
    nats, full_odds, zero_odds = token_shares(model, text, label_index, against_index)
    temperature, shift = model.learnt.get("temperature", 1.0), model.learnt.get("shift")
    shift_odds = (
        0.0
        if shift is None
        else shift[label_index] - (0.0 if against_index is None else shift[against_index])
    )
    positions, words = steps_in_text(model, text)
    nats = np.bincount(positions, nats / temperature, len(words))
    order = np.argsort(-abs(nats), kind="stable")
    other_nats = (full_odds - zero_odds) / temperature - float(nats[order[:n]].sum())
    return Explanation(
        model.classes[label_index],
        f"not {model.classes[label_index]}"
        if against_index is None
        else model.classes[against_index],
        full_odds / temperature + shift_odds,
        zero_odds / temperature + shift_odds,
        0.0,
        [Share(words[i], 1, float(nats[i])) for i in order[:n].tolist()],
        other_nats,
        list(zip(words, nats.tolist())),
    )


def _runner_up(model: NeuralClassifier, scores: np.ndarray, label_index: int) -> int | None:
    """Return the likeliest other class; where an example may have several labels, each is decided
    against its absence.
    """
    return (
        None if model.multi_label else next(int(c) for c in np.argsort(-scores) if c != label_index)
    )


def _class_index(model: NeuralClassifier, label: Any) -> int:
    if label not in model.classes:
        raise ConfigError(
            f"there is no class {label!r}; the classes are {', '.join(map(repr, model.classes[:10]))}"
        )
    return model.classes.index(label)


def steps_in_text(model: NeuralClassifier, text: Any) -> tuple[np.ndarray, list[str]]:
    """Return the position in the text of each step that the network reads, and the spellings of
    the tokens; in overlapping windows, a position is read more than once.
    """
    c = model.config
    if c.published:
        names = [model.tokenizer.token(i) for i in model.encode([text]).steps["ids"].tolist()]
        return np.arange(len(names)), names
    if c.long == "sentences":
        from seqloom.text.segment import sentences

        sentence_texts = list(sentences(text)) or [text]
        words = [
            word
            for sentence in sentence_texts
            for word in spelled_tokens(model.tokenizer, sentence)[: c.max_length]
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
