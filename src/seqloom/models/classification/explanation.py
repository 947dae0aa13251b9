"""Why a text is of a class: what each feature adds to the log-odds of one class against another.

For networks the shares are integrated gradients (`token_shares`), or the weights of attention.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from seqloom import progress
from seqloom.batching import ranges, there
from seqloom.errors import ConfigError, suggest_known
from seqloom.models.network.attribution import (
    POINTS,
    integrated_gradients,
    occlusion,
    repeated,
)
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
    """Why the answer is this and not another: log_odds = prior + absent + together + all shares + others, up
    to the `difference`. With `unit` "weight" the shares are weights of attention, which add up to one.
    """

    label: Any  # a class
    against: Any
    log_odds: float  # log p(label) - log p(against)
    prior: float
    absent: float  # of the features that do not occur; bernoulli only
    shares: list[Share]  # the largest first, whatever their sign
    others: float  # the features that are not listed
    # Every token in the order of the text, and what it adds in nats.
    tokens: Sequence[tuple[str, float]] = ()
    method: str = "weights"
    together: float = 0.0  # what tokens add only together, where each is left out by itself
    unit: str = "nats"

    @property
    def sum(self) -> float:
        """Return what all terms add up to."""
        shares = sum(share.nats for share in self.shares) + self.others
        return shares + self.prior + self.absent + self.together

    @property
    def difference(self) -> float:
        """Return what the log-odds are above the sum of the terms."""
        return self.log_odds - self.sum

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
            ("(only together)", self.together),
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


# ---- linear models, and any that read words

MOST_WORDS = 2000  # tokens that are left out one by one


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
    scores = nats.sum(axis=0) + prior + absent
    one, other = two_classes(model, scores, label, against)
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


BY_WORDS = "weights", "occlusion"  # methods of models that read a text as a set of words


def explain_by_words(model: Classifier, text: str, question: tuple[int, Any, Any]) -> Explanation:
    """Explain a text by leaving out one token after another, for any classifier of texts."""
    n, label, against = question
    tokenizer = model.tokenizers.get("text") or next(iter(model.tokenizers.values()), None)
    tokens = text.split() if tokenizer is None else spelled_tokens(tokenizer, text)[:-1]
    joiner = " " if tokenizer is None else tokenizer.joiner.decode()
    if len(tokens) > MOST_WORDS:
        tokens = tokens[:MOST_WORDS]
        progress.say(f"the first {MOST_WORDS:,} tokens of the text are explained")
    without = [joiner.join(tokens[:i] + tokens[i + 1 :]) for i in range(len(tokens))]
    with progress.quiet_remarks():
        scores = model.class_log_probs([joiner.join(tokens), "", *without])
    one, other = two_classes(model, scores[0], label, against)
    odds = scores[:, one] - scores[:, other]
    shares = (odds[0] - odds[2:]).tolist()
    return of_tokens(
        model.classes[one],
        model.classes[other],
        (float(odds[0]), float(odds[1])),
        list(zip(tokens, shares)),
        n,
        "occlusion",
    )


def two_classes(model: Classifier, scores: np.ndarray, label: Any, against: Any) -> tuple[int, int]:
    """Return the columns of the class that is explained (None: the likeliest) and of that it is held
    against (None: the likeliest other).
    """
    if len(model.classes) == 1:
        raise ConfigError(
            f"this model has only one class, {model.classes[0]!r}; there is nothing to compare it with"
        )
    one = int(scores.argmax()) if label is None else class_index(model, label)
    other = (
        next(int(c) for c in np.argsort(-scores) if c != one)
        if against is None
        else class_index(model, against)
    )
    if one == other:
        raise ConfigError(f"label and against are both {model.classes[one]!r}; name two classes")
    return one, other


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


# ---- networks


def token_shares(
    model: NeuralClassifier,
    text: Any,
    label_index: int,
    against_index: int | None,
    points: int | None = POINTS,
    method: str = "gradients",
) -> tuple[np.ndarray, float, float]:
    """Return what each step of a text adds to the log-odds of one class against another (None:
    against its absence), these log-odds, and those of zero vectors; without temperature and shift.

    By integrated gradients or by occlusion (`network.attribution`).
    """
    import torch

    network = model.network()
    device = next(network.parameters()).device
    arrays = model.encode([text]).batch(np.arange(1))
    batch = {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}
    with torch.no_grad():
        x = network.reader(batch)  # (rows, T, D)

    def odds(vectors: Any, times: int) -> Any:
        again = repeated(batch, times, ("lengths", "counts"))
        scores = model.example_scores(network.encode(vectors, again), again)
        return (
            scores[:, label_index]
            if against_index is None
            else scores[:, label_index] - scores[:, against_index]
        )

    found = occlusion(odds, x) if method == "occlusion" else integrated_gradients(odds, x, points)
    return found.shares[there(arrays["lengths"], x.shape[1])], found.full, found.nothing


def explain(
    model: NeuralClassifier, text: Any, n: int, label: Any, against: Any, method: str | None = None
) -> Explanation:
    """Explain by a method of networks, on the scale of the probabilities of the model."""
    method = chosen_method(model, method, methods_of(model))
    scores = model.class_log_probs([text])[0]
    label_index = int(scores.argmax()) if label is None else class_index(model, label)
    against_index = (
        _runner_up(model, scores, label_index) if against is None else class_index(model, against)
    )
    if label_index == against_index:
        raise ConfigError(
            f"label and against are both {model.classes[label_index]!r}; name two classes"
        )
    temperature, shift = model.learnt.get("temperature", 1.0), model.learnt.get("shift")
    shift_odds = (
        0.0
        if shift is None
        else shift[label_index] - (0.0 if against_index is None else shift[against_index])
    )
    named = (
        model.classes[label_index],
        f"not {model.classes[label_index]}"
        if against_index is None
        else model.classes[against_index],
    )
    if method == "attention":
        log_odds = scores[label_index] - (
            np.log(-np.expm1(scores[label_index]))
            if against_index is None
            else scores[against_index]
        )
        return of_attention(*named, float(log_odds), attention(model, text), n)
    nats, full_odds, zero_odds = token_shares(model, text, label_index, against_index, None, method)
    positions, words = steps_in_text(model, text)
    nats = np.bincount(positions, nats / temperature, len(words))
    return of_tokens(
        *named,
        (full_odds / temperature + shift_odds, zero_odds / temperature + shift_odds),
        list(zip(words, nats.tolist())),
        n,
        method,
    )


def of_tokens(
    label: Any,
    against: Any,
    odds: tuple[float, float],
    tokens: list[tuple[str, float]],
    n: int,
    method: str,
) -> Explanation:
    """Make the explanation of what each token adds. `odds`: of the input, and of one without any token."""
    nats = np.array([value for _, value in tokens])
    order = np.argsort(-abs(nats), kind="stable")
    full, nothing = odds
    return Explanation(
        label,
        against,
        full,
        nothing,
        0.0,
        [Share(tokens[i][0], 1, float(nats[i])) for i in order[:n].tolist()],
        float(nats[order[n:]].sum()),
        tokens,
        method,
        full - nothing - float(nats.sum()) if method == "occlusion" else 0.0,
    )


def of_attention(
    label: Any, against: Any, log_odds: float, tokens: list[tuple[str, float]], n: int
) -> Explanation:
    """Make the explanation of the attention that each token gets: weights, which are no terms of the
    log-odds.
    """
    one = of_tokens(label, against, (log_odds, 0.0), tokens, n, "attention")
    return replace(one, unit="weight")


def chosen_method(model: Any, method: str | None, methods: Sequence[str]) -> str:
    """Return the method that is asked for, or the best that the model has."""
    if not methods:
        raise ConfigError(f"{model.name} models do not tell what spoke for an answer")
    if method is not None and method not in methods:
        raise ConfigError(
            f"this {model.name} model has no explanation by {method}; it has {', '.join(methods)}",
            ["method"],
        )
    return method or methods[0]


def methods_of(model: NeuralClassifier) -> list[str]:
    """Return the methods that explain a classifier that is a network, the best first."""
    pooled = model.config.pools == "attention" and model.config.long == "truncate"
    return ["gradients", "occlusion", *["attention"] * (pooled or has_attention(model))]


def has_attention(model: Any) -> bool:
    """Tell whether the steps of a network attend to each other."""
    return any("attention.qkv" in name for name in model.fitted_shapes())


def _runner_up(model: NeuralClassifier, scores: np.ndarray, label_index: int) -> int | None:
    """Return the likeliest other class; where an example may have several labels, each is decided
    against its absence.
    """
    return (
        None if model.multi_label else next(int(c) for c in np.argsort(-scores) if c != label_index)
    )


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
    """Return the tokens of a text and how much attention each got, by the pooling, or else in the last layer
    from the step that is pooled (the mean over heads, and over all steps where all are pooled); the
    weights sum to one.
    """
    pools, long = model.config.pools, model.config.long
    if long != "truncate" or not (pools == "attention" or has_attention(model)):
        raise ConfigError(
            "only a classifier with pooling attention or an encoder with attention, and without windows or "
            "sentences, has attention weights"
        )
    if pools == "attention":
        traced = model.trace(text, "output.pooling.weights")
        weights = np.asarray(traced.arrays["output.pooling.weights"]).reshape(-1)
    else:
        traced = model.trace(text, "*attention.weights")
        last = np.asarray(list(traced.arrays.values())[-1]).mean(0)  # (T, S)
        weights = (
            last[{"first": 0, "last": -1}[pools]] if pools in ("first", "last") else last.mean(0)
        )
    return list(zip(traced.tokens, weights.tolist()))
