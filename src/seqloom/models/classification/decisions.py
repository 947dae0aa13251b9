"""Temperature and threshold of a classifier, chosen on held-out examples.

Dividing log-probabilities by a temperature (Guo et al. 2017) makes them honest without changing
which class is likeliest. A threshold other than one half is a shift of the log-odds; it is chosen
where F1 is best: for two classes that of the rarer one, for several labels that of each label.
Also the targets of training, weights of examples, and the metric on held-out examples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from seqloom.errors import ConfigError

if TYPE_CHECKING:
    from seqloom.models.classification.configs import NeuralClassifierConfig

TEMPERATURES = np.exp(np.linspace(np.log(0.1), np.log(10), 201))


def is_temperature(value: Any) -> bool:
    return isinstance(value, float) and 0.01 <= value <= 100


def is_shift(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) > 0
        and all(isinstance(x, float) and abs(x) < 1e6 for x in value)
    )


def shifted(
    log_probs: np.ndarray, temperature: float, shift: list[float] | None, several: bool
) -> np.ndarray:
    """Return the log-probabilities (n, C) at this temperature, with `shift` added to the log-odds
    of the classes.
    """
    if temperature == 1.0 and shift is None:
        return log_probs
    added = np.zeros(log_probs.shape[1]) if shift is None else np.array(shift)
    return log_probs_of((odds(log_probs) if several else log_probs) / temperature + added, several)


def log_probs_of(scores: np.ndarray, several: bool) -> np.ndarray:
    """Return the log-probabilities of classes, float64 (n, C), from their scores; `several`: of
    independent labels.
    """
    scores = scores.astype(np.float64)
    if several:
        return -np.logaddexp(0, -scores)
    return log_softmax(scores)


def log_softmax(scores: np.ndarray) -> np.ndarray:
    """Return the log-probabilities of classes that exclude each other: (n, C)."""
    above = scores - scores.max(axis=1, keepdims=True)
    return above - np.log(np.exp(above).sum(axis=1, keepdims=True))


def odds(log_probs: np.ndarray) -> np.ndarray:
    """Return the log-odds of independent labels."""
    return log_probs - np.log(-np.expm1(np.minimum(log_probs, -1e-12)))


def best_temperature(log_probs: np.ndarray, targets: np.ndarray, several: bool) -> float:
    """Find the temperature with the least loss; targets are indices of classes (n,), or zeros and
    ones (n, C).
    """
    has_target = np.ones(len(targets), bool) if several else targets >= 0
    rows = np.flatnonzero(has_target)
    if not len(rows):
        return 1.0

    def loss(temperature: float) -> float:
        scaled = shifted(log_probs[rows], float(temperature), None, several)
        if several:
            return float(
                -np.where(
                    targets[rows] > 0, scaled, np.log(-np.expm1(np.minimum(scaled, -1e-12)))
                ).mean()
            )
        return float(-scaled[np.arange(len(rows)), targets[rows]].mean())

    best = float(min(TEMPERATURES, key=loss))
    # At an edge the loss has no minimum: there are too few examples to decide.
    return best if TEMPERATURES[0] < best < TEMPERATURES[-1] else 1.0


def best_shift(log_probs: np.ndarray, targets: np.ndarray, several: bool) -> list[float] | None:
    """Find what to add to the log-odds; None for single labels out of more than two classes."""
    if several:
        return [
            _best_cut(odds, is_label > 0) for odds, is_label in zip(odds(log_probs).T, targets.T)
        ]
    if log_probs.shape[1] != 2:
        return None
    rarer = int(np.argmin(np.bincount(targets[targets >= 0], minlength=2)[:2]))
    shift = [0.0, 0.0]
    shift[rarer] = _best_cut(log_probs[:, rarer] - log_probs[:, 1 - rarer], targets == rarer)
    return shift


def _best_cut(odds: np.ndarray, positive: np.ndarray) -> float:
    """Find what to add to log-odds so that predicting those above zero has the best F1; of equal
    cuts, take the one nearest to zero.
    """
    if not positive.any():
        return 0.0
    order = np.argsort(-odds, kind="stable")
    true_positives = np.cumsum(positive[order])
    f1 = 2 * true_positives / (np.arange(1, len(odds) + 1) + positive.sum())
    ranked = odds[order]
    ends = np.append(ranked[:-1] > ranked[1:], True)  # a cut lies between different values
    cuts = np.append((ranked[:-1] + ranked[1:]) / 2, ranked[-1] - 1.0)
    best = np.flatnonzero(ends & np.isclose(f1, f1[ends].max()))
    return float(-min(cuts[best], key=abs))


# ---- training


def label_targets(labels: Sequence[Any], classes: Sequence[Any], *, several: bool) -> np.ndarray:
    """Return indices of the labels among the classes (n,), -1 for others; of several labels, zeros
    and ones (n, C).
    """
    columns = {label: i for i, label in enumerate(classes)}
    if not several:
        return np.array([columns.get(label, -1) for label in labels], np.int64)
    table = np.zeros((len(labels), len(columns)), np.int64)
    for row, example_labels in enumerate(labels):
        table[
            row,
            [
                columns[label]
                for label in (
                    example_labels if isinstance(example_labels, tuple) else (example_labels,)
                )
                if label in columns
            ],
        ] = 1
    return table


def balanced_weights(targets: np.ndarray, classes: int) -> np.ndarray:
    """Return weights of the examples, float32 (n,), that give all classes the same total."""
    counts = np.maximum(np.bincount(targets, minlength=classes), 1)
    per_class = len(targets) / (len(counts) * counts)
    return per_class[targets].astype(np.float32)


def quality(log_probs: np.ndarray, targets: np.ndarray, *, several: bool, balanced: bool) -> float:
    """Return the metric of held-out examples: the loss of several labels, else the accuracy
    (`balanced`: its mean over classes).
    """
    if several:
        return float(
            -np.where(targets, log_probs, np.log1p(-np.exp(np.minimum(log_probs, -1e-7)))).mean()
        )
    correct = log_probs.argmax(1) == targets
    return float(
        np.mean([correct[targets == c].mean() for c in np.unique(targets)])
        if balanced
        else correct.mean()
    )


def check_decidable(
    c: NeuralClassifierConfig, name: str, classes: int, *, several: bool, held_out: bool
) -> None:
    """Refuse options that cannot be chosen on the held-out part of the data `name`."""
    if c.tune_threshold and not several and classes != 2:
        raise ConfigError(
            f"tune_threshold is for two classes or several labels; {name} has "
            f"{classes} classes of "
            "which each example has one"
        )
    if not held_out and (c.tune_threshold or c.calibrate != "none"):
        raise ConfigError(
            "calibrate and tune_threshold need held-out data, and none is held out; give valid=..."
        )
