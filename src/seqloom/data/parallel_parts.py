"""Which pairs must stay together where pairs are divided into parts for training and for evaluation.

Usually those of one source, since a model that has seen one of them knows much of the others. Where sources are labels, all
parts should have all of them, so only equal pairs stay together.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from seqloom.data.parallel import Parallel
from seqloom.data.splitting import example_digest

MANY = 20  # targets of a source on average, from which on sources are labels


def repeats_sources(data: Parallel) -> bool:
    """Whether few sources have all the targets, as labels do.

    >>> repeats_sources(Parallel.of([("German", f"name {i}") for i in range(30)]))
    True
    """
    return len(set(map(example_digest, data.sources))) * MANY <= len(data)


def has_many_targets(data: Parallel) -> bool:
    """Whether sources have so many different targets that none of them is the right one.

    >>> has_many_targets(Parallel.of([("German", f"name {i % 2}") for i in range(30)]))
    False
    """
    return len(set(map(example_digest, data.sources))) * MANY <= len(
        set(undivided(data, labels=True))
    )


def undivided(data: Parallel, *, labels: bool | None = None) -> list[Any]:
    """Something for each pair that is equal where pairs belong into one part; `labels`: whether sources are labels."""
    if not (repeats_sources(data) if labels is None else labels):
        return list(data.sources)
    return [
        f"{example_digest(source).hex()}\t{target}"
        for source, target in zip(data.sources, data.targets)
    ]


def known_pairs(data: Parallel, training: Parallel) -> np.ndarray:
    """Which pairs belong to one of the training data: bool (n,).

    >>> known_pairs(Parallel.of([("a b", "x"), ("c", "y")]), Parallel.of([("a  b", "z")])).tolist()
    [True, False]
    """
    labels = repeats_sources(training)
    known = set(map(example_digest, undivided(training, labels=labels)))
    return np.array([example_digest(one) in known for one in undivided(data, labels=labels)])
