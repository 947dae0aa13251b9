"""What every answerer must do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from seqloom.contracts import Answerer
from seqloom.data.answering import as_questions
from seqloom.errors import DataError, NotFitted
from seqloom.metrics.answering import exact_match
from seqloom.testing.rules import (
    SHARED,
    Rule,
    Specimen,
    fitting,
    loaded_again,
    refuses,
    refuses_data,
    require,
    run,
    same,
    specimen,
)

_FACTS = "The cat of Anna is Tom. The dog of Bob is Rex. The bird of Carl is Ida Blue."
QUESTIONS = [
    ("What is the cat of Anna?", _FACTS, "Tom"),
    ("What is the dog of Bob?", _FACTS, "Rex"),
    ("What is the bird of Carl?", _FACTS, "Ida Blue"),
    ("What is the dog of Anna?", _FACTS, None),
    ("What is the cat of Dora?", "The cat of Dora is Max.", "Max"),
    ("What is the dog of Dora?", "The cat of Dora is Max.", None),
]
ODD = [
    ("What?", ""),
    ("", "some text"),
    ("Wer? 漢字", "  😀 naïve\tÄrger\n\nover several lines.  "),
    ("What is the bird of Carl?", _FACTS * 30),
]


def check_answerer(model: Answerer, data: Any = None) -> None:
    """Raise AssertionError if an answerer breaks a rule of its contract. `data`: questions, as `fit`
    takes them.
    """
    run(RULES, specimen(model, Answerer, data, QUESTIONS, QUESTIONS))


def _pairs(s: Specimen) -> list[tuple[str, str]]:
    """Return questions of the data, and some that no model has seen."""
    return [*as_questions(s.data).pairs, *ODD]


@fitting
def an_unfitted_model_refuses(s: Specimen) -> None:
    assert s.fresh is not None
    model = s.fresh()
    for verb, call in (
        ("predict", lambda: model.predict("what?", "a text")),
        ("evaluate", lambda: model.evaluate(s.data)),
    ):
        refuses(call, NotFitted, f"{verb} of a model that is not fitted")


def an_answer_is_a_part_of_the_context(s: Specimen) -> None:
    pairs = _pairs(s)
    for (question, context), answer in zip(pairs, s.model.predict(pairs), strict=True):
        if answer.start is None:
            require(answer.text == "", f"no answer to {question!r} has the text {answer.text!r}")
            require(answer.end is None, f"no answer to {question!r} has an end")
            continue
        require(
            answer.text != "" and context[answer.start : answer.end] == answer.text,
            f"the answer {answer.text!r} is not what stands at {answer.start} to {answer.end}",
        )
        require(answer.text == answer.text.strip(), f"white space around {answer.text!r}")


def probabilities_decide(s: Specimen) -> None:
    for answer in s.model.predict(_pairs(s)):
        require(0 <= answer.no_answer <= 1, f"{answer.no_answer} is not a probability")
        require(answer.score <= 1e-6, f"the score {answer.score} is not a log-probability")
        if answer.text:
            require(
                answer.no_answer <= s.model.threshold,
                f"an answer, though none is more likely than {s.model.threshold}",
            )


def a_question_alone_is_answered_as_in_a_list(s: Specimen) -> None:
    pairs = _pairs(s)
    for (question, context), answer in zip(pairs, s.model.predict(pairs)):
        alone = s.model.predict(question, context)
        require(
            alone[:3] == answer[:3],
            f"in a list {question!r} gets another answer than alone",
        )
        same(alone[3:], answer[3:], "alone the score is another", off=1e-4)
    questions, contexts = zip(*pairs)
    require(
        [one.text for one in s.model.predict(list(questions), list(contexts))]
        == [one.text for one in s.model.predict(pairs)],
        "two lists get other answers than a list of pairs",
    )
    require(s.model.predict([]) == [], "predict of no questions must be an empty list")


def a_second_call_gives_the_same_answer(s: Specimen) -> None:
    require(
        s.model.predict(_pairs(s)) == s.model.predict(_pairs(s)),
        "a second call gives other answers",
    )


def evaluate_counts_what_predict_says(s: Specimen) -> None:
    data, result = as_questions(s.held_out), s.model.evaluate(s.held_out)
    right = [
        exact_match(answer.text, [span.text for span in spans])
        for answer, spans in zip(s.model.predict(data.pairs), data.answers)
    ]
    same(
        result["exact_match"],
        sum(right) / len(right),
        "exact_match is not the share of right answers",
        off=1e-9,
    )
    without = s.model.evaluate(s.held_out, samples=0)
    require(
        not [name for name in without.metrics if name.endswith("_interval")],
        "samples=0 gives an interval all the same",
    )


def what_is_no_question_is_refused(s: Specimen) -> None:
    for bad in (["what?"], [1, 2], [("what?", None)], [("a", "b", "c")]):
        refuses(lambda: s.model.predict(bad), DataError, f"predict({bad!r})")  # noqa: B023
    refuses(lambda: s.model.predict(["a", "b"], ["c"]), DataError, "two questions, one context")


def save_and_load_keep_every_bit(s: Specimen) -> None:
    with loaded_again(s) as again:
        require(again.threshold == s.model.threshold, "the threshold is another")
        require(
            again.predict(_pairs(s)) == s.model.predict(_pairs(s)), "predict gives other answers"
        )


@fitting
def bad_data_is_refused_in_one_line(s: Specimen) -> None:
    refuses_data(
        s,
        [[], [("q", "c")], [("q", "c", 3)], [("q", "context", None)], 7, Path("missing.json")],
        DataError,
    )


RULES: list[Rule] = [
    an_unfitted_model_refuses,
    bad_data_is_refused_in_one_line,
    an_answer_is_a_part_of_the_context,
    probabilities_decide,
    a_question_alone_is_answered_as_in_a_list,
    a_second_call_gives_the_same_answer,
    evaluate_counts_what_predict_says,
    what_is_no_question_is_refused,
    save_and_load_keep_every_bit,
    *SHARED,
]
