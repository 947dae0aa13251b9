"""Exact match and F1 of answers: against values worked by hand and against another way to count them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqloom.data.answering import Questions
from seqloom.metrics.answering import best_threshold, evaluate_answers, exact_match, f1, normalised

WORDS = ["the", "The", "a", "an", "cat", "Cat.", "u.s.", "(dog)", "an't", "7", "", "  ", "!"]


def plainly(text: str) -> list[str]:
    """What is compared, character by character instead of by patterns."""
    letters = [one for one in text.lower() if one not in "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"]
    return [word for word in "".join(letters).split() if word not in ("a", "an", "the")]


def plain_f1(answer: str, right: str) -> float:
    given_words, wanted = plainly(answer), plainly(right)
    if not given_words or not wanted:
        return float(given_words == wanted)
    left, shared = list(wanted), 0
    for word in given_words:
        if word in left:
            left.remove(word)
            shared += 1
    if not shared:
        return 0.0
    precision, recall = shared / len(given_words), shared / len(wanted)
    return 2 * precision * recall / (precision + recall)


@given(*[st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join)] * 3)
def test_scores_are_those_of_another_implementation(answer: str, one: str, two: str) -> None:
    assert normalised(answer).split() == plainly(answer)
    assert exact_match(answer, [one, two]) == float(plainly(answer) in (plainly(one), plainly(two)))
    assert f1(answer, [one, two]) == pytest.approx(
        max(plain_f1(answer, one), plain_f1(answer, two))
    )


def test_values_by_hand() -> None:
    data = Questions.of(
        [
            ("a?", "The Denver Broncos won.", "Denver Broncos"),
            ("b?", "It was blue, or navy blue.", ["blue", "navy blue"]),
            ("c?", "It was red.", "red"),
            ("d?", "nothing here", None),
            ("e?", "nothing here", None),
        ]
    )
    # one word too many: 2 * 2 / (3 + 2); best of two; wrong; rightly none; wrongly some
    given_texts = ["Denver Broncos team", "the navy blue!", "green", "", "here"]
    metrics, details = evaluate_answers(data, given_texts, samples=0)
    assert metrics == pytest.approx(
        {
            "exact_match": 2 / 5,
            "f1": (0.8 + 1 + 0 + 1 + 0) / 5,
            "has_answer_exact_match": 1 / 3,
            "has_answer_f1": 1.8 / 3,
            "no_answer_accuracy": 1 / 2,
            "questions": 5,
            "unanswerable": 2,
        }
    )
    assert [one["question"] for one in details["wrong_answers"]] == ["a?", "c?", "e?"]


def test_the_threshold_is_as_good_as_any() -> None:
    rng = np.random.default_rng(0)
    for n, _ in itertools.product((1, 2, 5, 9), range(20)):
        no_answer = np.round(rng.random(n), 1)
        answered, unanswered = rng.integers(0, 2, (2, n)).astype(float)

        def quality(threshold: float) -> float:
            return float(np.where(no_answer > threshold, unanswered, answered).sum())  # noqa: B023

        # Below all of them nothing is ever answered, which is not wanted.
        tried = [t for t in np.linspace(0, 1, 201) if t >= no_answer.min() or t == 0.5]
        chosen = best_threshold(no_answer, answered, unanswered)
        assert quality(chosen) == max(map(quality, tried))
