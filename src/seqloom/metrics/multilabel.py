"""How good a classifier is that may give an example several labels: every class is judged on its own, then all together.

Micro F1 counts the labels of all classes as one set, macro F1 is the mean over classes (as scikit-learn has both, with
`zero_division=0`); the exact match is the share of examples whose labels are all right, the Hamming loss the share of wrong
decisions among all (Zhang and Zhou 2014, "A Review on Multi-Label Learning Algorithms").
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from seqloom.errors import DataError
from seqloom.metrics.bootstrap import interval
from seqloom.metrics.classification import Judgement, scores, some


def judge(
    classes: Sequence[str],
    gold_labels: Sequence[Sequence[str]],
    probs: np.ndarray,
    threshold: float,
    *,
    samples: int,
) -> Judgement:
    """Compare probabilities (n, C), in the order of `classes`, with sets of labels.

    >>> metrics, details, _ = judge(["a", "b"], [["a"], ["a", "b"]], np.array([[0.9, 0.2], [0.8, 0.4]]), 0.5, samples=0)
    >>> metrics["exact_match"], metrics["micro_f1"], metrics["hamming_loss"]
    (0.5, 0.8, 0.25)
    """
    if not len(gold_labels):
        raise DataError("no examples to evaluate on: the labelled data is empty")
    names, gold, said = decisions(classes, gold_labels, probs > threshold)
    unseen = names[len(classes) :]
    rows = [
        {
            "class": name,
            **scores(
                int((gold[:, i] & said[:, i]).sum()), int(gold[:, i].sum()), int(said[:, i].sum())
            ),
        }
        for i, name in enumerate(names)
    ]
    right = (gold == said).all(axis=1)
    metrics = {
        "exact_match": float(right.mean()),
        **(
            {"exact_match_interval": interval(right, np.ones(len(right)), samples=samples)}
            if samples
            else {}
        ),
        "micro_f1": scores(int((gold & said).sum()), int(gold.sum()), int(said.sum()))["f1"],
        "macro_f1": sum(row["f1"] for row in rows) / len(rows),
        "hamming_loss": float((gold != said).mean()),
        "labels_per_example": float(gold.sum(axis=1).mean()),
        "examples": len(gold),
    }
    notes = (
        (f"labels that the model never saw: {some(unseen)}; it cannot give them",) if unseen else ()
    )
    return metrics, {"classes": rows}, notes


def decisions(
    classes: Sequence[str], gold_labels: Sequence[Sequence[str]], chosen: np.ndarray
) -> tuple[list[str], np.ndarray, np.ndarray]:
    """All names, those of the model first; and whether an example is, and is said to be, of each class, bool (n, C).

    >>> names, gold, said = decisions(["a", "b"], [["b"], ["c"]], np.array([[True, False], [False, True]]))
    >>> names, gold.astype(int).tolist(), said.astype(int).tolist()
    (['a', 'b', 'c'], [[0, 1, 0], [0, 0, 1]], [[1, 0, 0], [0, 1, 0]])
    """
    names = [
        *classes,
        *sorted({label for labels in gold_labels for label in labels} - set(classes)),
    ]
    place = {name: i for i, name in enumerate(names)}
    gold, said = np.zeros((2, len(gold_labels), len(names)), bool)
    for row, labels in zip(gold, gold_labels):
        row[[place[label] for label in labels]] = True
    said[:, : len(classes)] = chosen
    return names, gold, said
