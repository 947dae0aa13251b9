"""A linear probe: what of a label can be read from vectors by logistic regression, and how much of that it
merely learnt by heart (Hewitt and Liang 2019, "Designing and Interpreting Probes with Control Tasks").

In the control task each type, such as a word, has a tag that was drawn once from the distribution of the real
ones. A probe can only solve it by learning which vector belongs to which word. Selectivity is the accuracy
in the task less that in the control task, for words of the same held-out part.

    >>> vectors = np.array([[0.0, 1.0], [0.1, 0.9], [1.0, 0.0], [0.9, 0.2]], np.float32)
    >>> fit_probe(vectors, np.array([0, 0, 1, 1])).predict(vectors).tolist()
    [0, 0, 1, 1]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from seqloom.models.classification.logistic import Sparse, minimise

SMALLEST = 1e-6  # deviation below which a column says nothing


class Probe(NamedTuple):
    """Logistic regression on vectors of mean zero and deviation one."""

    mean: np.ndarray  # (D,)
    deviation: np.ndarray  # (D,)
    weights: np.ndarray  # (D + 1, K): in the last row the intercepts
    classes: np.ndarray  # (K,): those of the training part

    def predict(self, vectors: np.ndarray) -> np.ndarray:
        """Return the likeliest class of each vector (n, D)."""
        x = (vectors - self.mean) / self.deviation
        scores = x @ self.weights[:-1] + self.weights[-1]
        return self.classes[scores.argmax(axis=1)]


def fit_probe(vectors: np.ndarray, targets: np.ndarray, strength: float = 1.0) -> Probe:
    """Return the probe for these vectors (n, D) and classes (n,); `strength`: C, as of scikit-learn's
    LogisticRegression on the normalised vectors.
    """
    mean, deviation = vectors.mean(axis=0), vectors.std(axis=0)
    deviation = np.where(deviation < SMALLEST, 1.0, deviation)
    classes, numbers = np.unique(targets, return_inverse=True)
    n, width = vectors.shape
    if len(classes) == 1:
        return Probe(mean, deviation, np.zeros((width + 1, 1)), classes)
    x = ((vectors - mean) / deviation).astype(np.float32)
    rows = Sparse(
        np.arange(1, n + 1) * width, np.tile(np.arange(width, dtype=np.int32), n), x.ravel(), width
    )
    found, _ = minimise(rows, numbers, np.ones(n), len(classes), strength)
    if len(classes) == 2:  # the log-odds of the second
        found = np.concatenate([-found / 2, found / 2], axis=1)
    return Probe(mean, deviation, found, classes)


def control_targets(
    types: Sequence[Any], targets: np.ndarray, random: np.random.Generator
) -> np.ndarray:
    """Return a class for each item that depends on its type alone, drawn from the distribution of the
    real ones.
    """
    drawn = {one: random.choice(targets) for one in dict.fromkeys(types)}
    return np.array([drawn[one] for one in types])
