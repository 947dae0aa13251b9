"""How good answers are: exact match and F1 of words, as SQuAD counts them (Rajpurkar et al. 2016, 2018).

Answers are compared in lower case, without punctuation and English articles. F1 is that of the bags of
words of an answer and of the right one; of several right ones the best counts. Where there is no answer,
both are 1 if none was given, else 0.

    >>> exact_match("the cat!", ["A cat"]), f1("a black cat", ["the cat"]), f1("", []), f1("x", [])
    (1.0, 0.6666666666666666, 1.0, 0.0)
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from seqloom.data.answering import Questions
from seqloom.metrics.bootstrap import interval

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)
_SHOWN, _WIDTH = 5, 80  # wrong answers that are shown, and characters of each text


def normalised(text: str) -> str:
    """Return an answer as it is compared.

    >>> normalised("  The U.S. and a   cat ")
    'us and cat'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION)).split())


def exact_match(answer: str, right: Sequence[str]) -> float:
    """Return 1.0 if the answer is one of the right ones, else 0.0."""
    return float(normalised(answer) in {normalised(one) for one in right or [""]})


def f1(answer: str, right: Sequence[str]) -> float:
    """Return the F1 of the words of an answer, against the right one for which it is best."""
    return max(_f1(normalised(answer).split(), normalised(one).split()) for one in right or [""])


def _f1(given: list[str], right: list[str]) -> float:
    if not given or not right:
        return float(given == right)
    shared = (Counter(given) & Counter(right)).total()
    return 2 * shared / (len(given) + len(right))


def answer_scores(data: Questions, given: Sequence[str]) -> np.ndarray:
    """Return exact match and F1 of each answer, float64 (n, 2)."""
    rows = [
        (exact_match(text, right), f1(text, right))
        for text, right in zip(given, ([span.text for span in spans] for spans in data.answers))
    ]
    return np.array(rows, np.float64).reshape(-1, 2)


def evaluate_answers(
    data: Questions, given: Sequence[str], *, samples: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the metrics of answers, empty ones where none was given, and the first wrong ones."""
    scores = answer_scores(data, given)
    has = np.array([bool(spans) for spans in data.answers])
    metrics: dict[str, Any] = {}
    ones = np.ones(len(data))
    for name, column in zip(("exact_match", "f1"), scores.T):
        metrics[name] = float(column.mean())
        if samples:
            metrics[f"{name}_interval"] = interval(column, ones, samples=samples)
    if not has.all():
        of_answerable = scores[has].mean(axis=0) if has.any() else (None, None)
        metrics |= {
            "has_answer_exact_match": _plain(of_answerable[0]),
            "has_answer_f1": _plain(of_answerable[1]),
            "no_answer_accuracy": float(scores[~has, 0].mean()),
        }
    metrics |= {"questions": len(data), "unanswerable": data.n_unanswerable}
    wrong = [
        {
            "question": data.questions[i][:_WIDTH],
            "answer": given[i][:_WIDTH],
            "right": data.answers[i][0].text[:_WIDTH] if data.answers[i] else "",
        }
        for i in np.flatnonzero(scores[:, 0] == 0)[:_SHOWN].tolist()
    ]
    return metrics, {"wrong_answers": wrong} if wrong else {}


def _plain(value: Any) -> float | None:
    return None if value is None else float(value)


def best_threshold(no_answer: np.ndarray, answered: np.ndarray, unanswered: np.ndarray) -> float:
    """Return the probability of no answer above which it is best to give none.

    `answered` and `unanswered`: the F1 of each question with the best answer and without one. Of equally
    good thresholds that nearest to a half is taken, halfway between two probabilities.

    >>> best_threshold(np.array([0.1, 0.6, 0.9]), np.array([1.0, 1.0, 0.0]), np.array([0.0, 0.0, 1.0]))
    0.75
    """
    levels = np.unique(no_answer)
    halves = (levels[1:] + levels[:-1]) / 2
    candidates = np.unique(np.concatenate([[0.5], halves, [1.0]]))
    order = np.argsort(no_answer, kind="stable")
    ranks = np.searchsorted(no_answer[order], candidates, side="right")  # so many are answered
    gains = np.concatenate([[0.0], np.cumsum((answered - unanswered)[order])])[ranks]
    best = candidates[gains >= gains.max() - 1e-9]
    return float(best[np.argmin(np.abs(best - 0.5))])
