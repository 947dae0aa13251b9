"""How good a classifier is: accuracy, precision, recall and F1 of each class, calibration, its errors
by kind, and the words that are typical of them.

Precision and recall follow scikit-learn with `zero_division=0`: a class that was never predicted
has precision 0, one that never came has recall 0. The macro average is over the classes that came
or were predicted. The calibration error is that of Guo et al. 2017, "On Calibration of Modern
Neural Networks", equation 3: texts in fifteen bins of equal width by the probability of the
predicted class, and the gap between that probability and the accuracy, averaged over texts. A label
that the model does not know has probability zero: its texts are wrong, and their cost is infinite.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from seqloom.errors import DataError
from seqloom.metrics.bootstrap import interval

BINS = 15  # of the calibration error
MATRIX = 1000  # classes up to which the confusion matrix is kept; the errors tell the same, without zeros
MAX_EXAMPLE_LENGTH = 120  # characters of an example
NAMED = 5  # names in a remark, before "and so many more"
SLACK = 1e-6  # how far rounding may lift a log-probability above zero

# Metrics, details and notes, for a `Result`.
Evaluation = tuple[dict[str, Any], dict[str, Any], tuple[str, ...]]


def evaluate_labels(
    classes: Sequence[str],
    gold_labels: Sequence[str],
    texts: Sequence[str],
    log_probs: np.ndarray,
    *,
    samples: int,
    examples: int,
) -> Evaluation:
    """Compare `log_probs` (n, C), in the order of `classes`, with the labels; `examples` texts of
    each kind of error.

    >>> metrics, details, _ = evaluate_labels(["no", "yes"], ["no", "yes", "yes"], ["a", "b", "c"],
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


def with_unseen(classes: Sequence[str], gold: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """Return all names, those of the model first and then the others by name, and the index of
    each gold name among them.

    >>> names, indices = with_unseen(["b", "c"], ["c", "z", "a", "b"])
    >>> names, indices.tolist()
    (['b', 'c', 'a', 'z'], [1, 3, 2, 0])
    """
    names = [*classes, *sorted(set(gold) - set(classes))]
    at = {name: i for i, name in enumerate(names)}
    return names, np.fromiter((at[name] for name in gold), np.int64, len(gold))


def confusion(names: Sequence[str], gold: np.ndarray, predicted: np.ndarray) -> dict[str, Any]:
    """Count each pair, with gold rows and predicted columns, as a part of details; return nothing
    if the matrix would be vast.

    >>> confusion(["a", "b"], np.array([0, 1, 1]), np.array([0, 0, 1]))
    {'confusion': {'classes': ['a', 'b'], 'counts': [[1, 0], [1, 1]]}}
    """
    size = len(names)
    if size > MATRIX:
        return {}
    # (C, C)
    counts = np.bincount(gold * size + predicted, minlength=size * size).reshape(size, size)
    return {"confusion": {"classes": list(names), "counts": counts.tolist()}}


def class_rows(
    key: str, names: Sequence[str], gold: np.ndarray, predicted: np.ndarray
) -> list[dict[str, Any]]:
    """Return precision, recall, F1 and the numbers behind them, one row per class, with its name
    under `key`.
    """
    each = [
        np.bincount(values, minlength=len(names)).tolist()
        for values in (gold[gold == predicted], gold, predicted)
    ]
    return [{key: name, **scores(*numbers)} for name, *numbers in zip(names, *each)]


def scores(correct: int, support: int, predicted: int) -> dict[str, Any]:
    """Score a class that came `support` times, was predicted `predicted` times, and both at once
    `correct` times.

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
    """Yield (gold, predicted, indices) of each pair of different classes, the commonest first."""
    wrong = np.flatnonzero(gold != predicted)
    if not len(wrong):
        return
    pairs = np.stack([gold[wrong], predicted[wrong]])  # (2, errors)
    order = np.lexsort(pairs[::-1])  # stable: indices of a pair stay in the order of the data
    bounds = np.flatnonzero(np.diff(pairs[:, order], axis=1).any(axis=0)) + 1
    groups = np.split(wrong[order], bounds)
    for rows in sorted(groups, key=len, reverse=True):
        yield int(gold[rows[0]]), int(predicted[rows[0]]), rows


def shortened(text: str, most: int = MAX_EXAMPLE_LENGTH) -> str:
    """Return the text as one line of at most `most` characters.

    >>> shortened("a long  line\\nand another", 12)
    'a long line…'
    """
    line = " ".join(text[: 20 * most].split())  # a document may be long
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def some(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are.

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
    """Return the kinds of errors, each with the texts that the model was surest about."""
    kinds = []
    for is_class, predicted_class, rows in kinds_of_errors(gold, predicted):
        surest = rows[np.argsort(-top[rows], kind="stable")[:examples]].tolist()
        kinds.append(
            {
                "gold": names[is_class],
                "predicted": names[predicted_class],
                "count": len(rows),
                "examples": [
                    {"text": shortened(texts[i]), "probability": round(float(top[i]), 6)}
                    for i in surest
                ],
            }
        )
    return kinds


def _reliability(top: np.ndarray, right: np.ndarray) -> list[dict[str, Any]]:
    """Return the bins (from, to] of the top probability that hold texts, with its mean and the
    accuracy.
    """
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
    notes = []
    if unseen:
        notes.append(
            f"labels that the model never saw: {some(unseen)}; their texts ({texts:,}) count as wrong, "
            "with probability zero"
        )
    if impossible:
        notes.append(
            f"the model gave probability zero to the right class of {impossible:,} texts; "
            f"nats_per_text is infinite"
        )
    if never:
        notes.append(f"never predicted: {some(never)}; their precision counts as 0")
    if absent:
        notes.append(f"not in this data: {some(absent)}; their recall counts as 0")
    return tuple(notes)


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


# ---- multilabel


def evaluate_label_sets(
    classes: Sequence[str],
    gold_labels: Sequence[Sequence[str]],
    probs: np.ndarray,
    threshold: float,
    *,
    samples: int,
) -> Evaluation:
    """Compare probabilities (n, C), in the order of `classes`, with sets of labels.

    Micro F1 counts the labels of all classes as one set, macro F1 is the mean over classes (both as in
    scikit-learn); the exact match is the share of examples whose labels are all right, the Hamming loss
    the share of wrong decisions among all (Zhang and Zhou 2014, "A Review on Multi-Label Learning
    Algorithms").

    >>> gold, probabilities = [["a"], ["a", "b"]], np.array([[0.9, 0.2], [0.8, 0.4]])
    >>> metrics, details, _ = evaluate_label_sets(["a", "b"], gold, probabilities, 0.5, samples=0)
    >>> metrics["exact_match"], metrics["micro_f1"], metrics["hamming_loss"]
    (0.5, 0.8, 0.25)
    """
    if not len(gold_labels):
        raise DataError("no examples to evaluate on: the labelled data is empty")
    names, gold, predicted = decisions(classes, gold_labels, probs > threshold)
    unseen = names[len(classes) :]
    rows = [
        {
            "class": name,
            **scores(
                int((gold[:, i] & predicted[:, i]).sum()),
                int(gold[:, i].sum()),
                int(predicted[:, i].sum()),
            ),
        }
        for i, name in enumerate(names)
    ]
    right = (gold == predicted).all(axis=1)
    metrics = {
        "exact_match": float(right.mean()),
        **(
            {"exact_match_interval": interval(right, np.ones(len(right)), samples=samples)}
            if samples
            else {}
        ),
        "micro_f1": scores(int((gold & predicted).sum()), int(gold.sum()), int(predicted.sum()))[
            "f1"
        ],
        "macro_f1": sum(row["f1"] for row in rows) / len(rows),
        "hamming_loss": float((gold != predicted).mean()),
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
    """Return all names, those of the model first, and whether an example is, and is predicted to be, of
    each class, bool (n, C).

    >>> names, gold, said = decisions(["a", "b"], [["b"], ["c"]], np.array([[True, False], [False, True]]))
    >>> names, gold.astype(int).tolist(), said.astype(int).tolist()
    (['a', 'b', 'c'], [[0, 1, 0], [0, 0, 1]], [[1, 0, 0], [0, 1, 0]])
    """
    names = [
        *classes,
        *sorted({label for labels in gold_labels for label in labels} - set(classes)),
    ]
    index = {name: i for i, name in enumerate(names)}
    gold, predicted = np.zeros((2, len(gold_labels), len(names)), bool)
    for row, labels in zip(gold, gold_labels):
        row[[index[label] for label in labels]] = True
    predicted[:, : len(classes)] = chosen
    return names, gold, predicted


# ---- error words

SURE = 1.96  # deviations; words with less are left out
MIN_ERRORS = 2  # texts with an error that have the word
AROUND = ".,;:!?\"'()[]{}<>«»“”‘’…-–—*/\\"


def text_counts(texts: Iterable[str]) -> Counter[str]:
    """Count the texts that each word is in.

    Words are what stands between white space, in lower case and without punctuation around them.

    >>> sorted(text_counts(["So, so dull!", "dull"]).items())
    [('dull', 2), ('so', 1)]
    """
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update({word for raw in text.lower().split() if (word := raw.strip(AROUND))})
    return counts


def characteristic_words(
    inside: Counter[str], outside: Counter[str], most: int
) -> list[dict[str, Any]]:
    """Find the words that are more frequent inside than chance allows, the surest first.

    Log-odds with a prior (Monroe, Colaresi and Quinn 2008, "Fightin' Words", equations 16 and 22):

        delta_w = log (a_w + k_w) / (A + k - a_w - k_w)  -  log (b_w + k_w) / (B + k - b_w - k_w)
        z_w     = delta_w / its deviation

    a_w of A texts with an error have the word, b_w of B texts without. The prior k_w follows the
    frequency of the word in both together, one text a word on average, so a word that is merely rare
    does not come first.

    >>> characteristic_words(Counter(not_=9, film=9), Counter(film=90, fine=80), 3)
    [{'word': 'not_', 'count': 9, 'z': 2.57}]
    """
    words = sorted(word for word, count in inside.items() if count >= MIN_ERRORS)
    if not words or not outside:
        return []
    total_inside, total_outside = inside.total(), outside.total()
    a, b = (np.array([counts[word] for word in words], np.float64) for counts in (inside, outside))
    prior_total = len(inside | outside)
    prior = (a + b) * prior_total / (total_inside + total_outside)
    odds = [
        np.log(n + prior) - np.log(total + prior_total - n - prior)
        for n, total in ((a, total_inside), (b, total_outside))
    ]
    z = (odds[0] - odds[1]) / np.sqrt(1 / (a + prior) + 1 / (b + prior))
    best = [i for i in np.argsort(-z, kind="stable").tolist() if z[i] > SURE][:most]
    return [{"word": words[i], "count": int(a[i]), "z": round(float(z[i]), 2)} for i in best]


def words_of_errors(
    errors: Sequence[dict[str, Any]],
    texts: Sequence[str],
    gold: Sequence[str],
    predicted: Sequence[str],
    most: int,
) -> list[dict[str, Any]]:
    """Return the kinds of errors with their characteristic words, against the texts of the same
    class that were recognised.
    """
    rows: dict[tuple[str, str], list[int]] = {}
    for i, pair in enumerate(zip(gold, predicted)):
        rows.setdefault(pair, []).append(i)
    right = {
        name: text_counts(texts[i] for i in rows.get((name, name), []))
        for name in {kind["gold"] for kind in errors}
    }
    return [
        {
            **kind,
            "words": characteristic_words(
                text_counts(texts[i] for i in rows[kind["gold"], kind["predicted"]]),
                right[kind["gold"]],
                most,
            ),
        }
        for kind in errors
    ]
