"""How good a classifier is: accuracy, precision, recall and F1 of each class, calibration, and its errors by kind.

Precision and recall follow scikit-learn with `zero_division=0`: a class that was never predicted has precision 0, one that
never came has recall 0. The macro average is over the classes that came or were predicted. The calibration error is that
of Guo et al. 2017, "On Calibration of Modern Neural Networks", equation 3: texts in fifteen bins of equal width by the
probability of the predicted class, and the gap between that probability and the accuracy, averaged over texts.

A label that the model does not know has probability zero: its texts are wrong, and their cost is infinite.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from seqloom.errors import DataError
from seqloom.metrics.bootstrap import interval

BINS = 15  # of the calibration error
MATRIX = 1000  # classes up to which the confusion matrix is kept; the errors tell the same, without zeros
LONGEST = 120  # characters of an example
NAMED = 5  # names in a remark, before "and so many more"
SLACK = 1e-6  # how far rounding may lift a log-probability above zero

Judgement = tuple[
    dict[str, Any], dict[str, Any], tuple[str, ...]
]  # metrics, details and notes, for a `Result`


def judge(
    classes: Sequence[str],
    gold_labels: Sequence[str],
    texts: Sequence[str],
    log_probs: np.ndarray,
    *,
    samples: int,
    examples: int,
) -> Judgement:
    """Compare `log_probs` (n, C), in the order of `classes`, with the labels; `examples` texts of each kind of error.

    >>> metrics, details, _ = judge(["no", "yes"], ["no", "yes", "yes"], ["a", "b", "c"],
    ...                             np.log([[0.8, 0.2], [0.4, 0.6], [0.7, 0.3]]), samples=100, examples=1)
    >>> round(metrics["accuracy"], 4), details["confusion"]["counts"]
    (0.6667, [[1, 0], [1, 1]])
    >>> details["errors"]
    [{'gold': 'yes', 'predicted': 'no', 'count': 1, 'examples': [{'text': 'c', 'probability': 0.7}]}]
    """
    log_probs = _checked(classes, gold_labels, texts, log_probs)
    names, gold = with_unseen(classes, gold_labels)
    predicted = log_probs.argmax(axis=1)  # (n,)
    top = np.exp(np.minimum(log_probs.max(axis=1), 0.0))  # (n,)
    right = gold == predicted
    known = gold < len(classes)
    costs = np.full(len(gold), math.inf)
    costs[known] = -np.minimum(log_probs[known, gold[known]], 0.0)
    bins = _reliability(top, right)
    rows = class_rows("class", names, gold, predicted)
    metrics = {
        "accuracy": float(right.mean()),
        **(
            {"accuracy_interval": interval(right, np.ones(len(right)), samples=samples)}
            if samples
            else {}
        ),
        "macro_f1": _mean([row["f1"] for row in rows if row["support"] or row["predicted"]]),
        "weighted_f1": sum(row["f1"] * row["support"] for row in rows) / len(gold),
        "majority_accuracy": max(row["support"] for row in rows) / len(gold),
        "nats_per_text": float(costs.mean()) + 0.0,  # not -0
        "calibration_error": sum(b["count"] * abs(b["accuracy"] - b["confidence"]) for b in bins)
        / len(gold),
        "texts": len(gold),
    }
    details = {
        "classes": rows,
        **confusion(names, gold, predicted),
        "errors": _errors(names, gold, predicted, top, texts, examples),
        "reliability": bins,
    }
    return (
        metrics,
        details,
        _notes(
            rows,
            names[len(classes) :],
            int(np.count_nonzero(~known)),
            int(np.count_nonzero(np.isinf(costs[known]))),
        ),
    )


def with_unseen(known: Sequence[str], gold: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """All names, those of the model first and then the others by name, and the place of each gold name among them.

    >>> names, places = with_unseen(["b", "c"], ["c", "z", "a", "b"])
    >>> names, places.tolist()
    (['b', 'c', 'a', 'z'], [1, 3, 2, 0])
    """
    names = [*known, *sorted(set(gold) - set(known))]
    at = {name: i for i, name in enumerate(names)}
    return names, np.fromiter((at[name] for name in gold), np.int64, len(gold))


def confusion(names: Sequence[str], gold: np.ndarray, predicted: np.ndarray) -> dict[str, Any]:
    """How often each pair came, rows gold and columns predicted, as a part of details; nothing if it would be vast.

    >>> confusion(["a", "b"], np.array([0, 1, 1]), np.array([0, 0, 1]))
    {'confusion': {'classes': ['a', 'b'], 'counts': [[1, 0], [1, 1]]}}
    """
    size = len(names)
    if size > MATRIX:
        return {}
    counts = np.bincount(gold * size + predicted, minlength=size * size).reshape(
        size, size
    )  # (C, C)
    return {"confusion": {"classes": list(names), "counts": counts.tolist()}}


def class_rows(
    key: str, names: Sequence[str], gold: np.ndarray, predicted: np.ndarray
) -> list[dict[str, Any]]:
    """Precision, recall, F1 and the numbers behind them, one row a class, its name under `key`."""
    each = [
        np.bincount(values, minlength=len(names)).tolist()
        for values in (gold[gold == predicted], gold, predicted)
    ]
    return [{key: name, **scores(*numbers)} for name, *numbers in zip(names, *each)]


def scores(correct: int, support: int, predicted: int) -> dict[str, Any]:
    """What a class is worth that came `support` times, was predicted `predicted` times, and both at once `correct` times.

    >>> scores(3, support=4, predicted=6)
    {'precision': 0.5, 'recall': 0.75, 'f1': 0.6, 'support': 4, 'predicted': 6}
    """
    return {
        "precision": correct / predicted if predicted else 0.0,
        "recall": correct / support if support else 0.0,
        "f1": 2 * correct / (support + predicted) if support + predicted else 0.0,
        "support": support,
        "predicted": predicted,
    }


def kinds_of_errors(
    gold: np.ndarray, predicted: np.ndarray
) -> Iterator[tuple[int, int, np.ndarray]]:
    """(gold, predicted, places) of each pair of unlike ones, the commonest first."""
    wrong = np.flatnonzero(gold != predicted)
    if not len(wrong):
        return
    pairs = np.stack([gold[wrong], predicted[wrong]])  # (2, errors)
    order = np.lexsort(pairs[::-1])  # stable: places of a pair stay in the order of the data
    borders = np.flatnonzero(np.diff(pairs[:, order], axis=1).any(axis=0)) + 1
    groups = np.split(wrong[order], borders)
    for places in sorted(groups, key=len, reverse=True):
        yield int(gold[places[0]]), int(predicted[places[0]]), places


def shortened(text: str, most: int = LONGEST) -> str:
    """One line of at most so many characters.

    >>> shortened("a long  line\\nand another", 12)
    'a long line…'
    """
    line = " ".join(text[: 20 * most].split())  # a document may be long
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def some(names: Sequence[str]) -> str:
    """The first names, and how many more there are.

    >>> some(["a", "b"]), some(list("abcdefg"))
    ("'a', 'b'", "'a', 'b', 'c', 'd', 'e' and 2 more")
    """
    more = len(names) - NAMED
    return ", ".join(repr(shortened(name, 40)) for name in names[:NAMED]) + (
        f" and {more} more" if more > 0 else ""
    )


def _errors(
    names: Sequence[str],
    gold: np.ndarray,
    predicted: np.ndarray,
    top: np.ndarray,
    texts: Sequence[str],
    examples: int,
) -> list[dict[str, Any]]:
    """Kinds of errors, each with the texts that the model was surest about."""
    kinds = []
    for is_class, said, places in kinds_of_errors(gold, predicted):
        surest = places[np.argsort(-top[places], kind="stable")[:examples]].tolist()
        kinds.append(
            {
                "gold": names[is_class],
                "predicted": names[said],
                "count": len(places),
                "examples": [
                    {"text": shortened(texts[i]), "probability": round(float(top[i]), 6)}
                    for i in surest
                ],
            }
        )
    return kinds


def _reliability(top: np.ndarray, right: np.ndarray) -> list[dict[str, Any]]:
    """Bins (from, to] of the top probability that hold texts, with its mean and the accuracy."""
    bins = np.clip(np.ceil(top * BINS).astype(np.int64) - 1, 0, BINS - 1)
    count = np.bincount(bins, minlength=BINS)
    confidence, correct = (np.bincount(bins, values, BINS) for values in (top, right))
    return [
        {
            "from": i / BINS,
            "to": (i + 1) / BINS,
            "count": int(n),
            "confidence": float(confidence[i] / n),
            "accuracy": float(correct[i] / n),
        }
        for i, n in enumerate(count)
        if n
    ]


def _notes(
    rows: Sequence[dict[str, Any]], unseen: Sequence[str], texts: int, impossible: int
) -> tuple[str, ...]:
    never = [
        row["class"]
        for row in rows
        if row["support"] and not row["predicted"] and row["class"] not in unseen
    ]
    absent = [row["class"] for row in rows if not row["support"]]
    said = []
    if unseen:
        said.append(
            f"labels that the model never saw: {some(unseen)}; their texts ({texts:,}) count as wrong, "
            "with probability zero"
        )
    if impossible:
        said.append(
            f"the model gave probability zero to the right class of {impossible:,} texts; nats_per_text is infinite"
        )
    if never:
        said.append(f"never predicted: {some(never)}; their precision counts as 0")
    if absent:
        said.append(f"not in this data: {some(absent)}; their recall counts as 0")
    return tuple(said)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _checked(
    classes: Sequence[str], gold: Sequence[str], texts: Sequence[str], log_probs: np.ndarray
) -> np.ndarray:
    values = np.asarray(log_probs, dtype=np.float64)
    if not len(gold):
        raise DataError("no texts to evaluate on: the labelled data is empty")
    if values.shape != (len(gold), len(classes)) or len(texts) != len(gold):
        raise ValueError(
            f"{len(gold)} labels, {len(texts)} texts and {len(classes)} classes do not fit log-probabilities "
            f"of shape {values.shape}"
        )
    if np.isnan(values).any() or (values > SLACK).any():
        raise ValueError(
            "a log-probability is NaN or above zero: the model is broken, not the text"
        )
    return values
