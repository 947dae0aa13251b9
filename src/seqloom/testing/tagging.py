"""What every tagger must do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from seqloom.contracts import Tagger
from seqloom.data.tagging import Tagged, as_tagged
from seqloom.errors import DataError, NotFitted
from seqloom.testing.rules import (
    SHARED,
    Rule,
    Specimen,
    fit,
    fitting,
    loaded_again,
    refuses,
    refuses_data,
    require,
    run,
    same,
    specimen,
)


def _sentences(pairs: list[tuple[str, str]]) -> list[tuple[list[str], list[str]]]:
    return [(words.split(), tags.split()) for words, tags in pairs]


POS = _sentences(
    [
        ("the dog sleeps", "DET NOUN VERB"),
        ("a cat runs", "DET NOUN VERB"),
        ("dogs run", "NOUN VERB"),
        ("the old cat sees the dog", "DET ADJ NOUN VERB DET NOUN"),
        ("Anna sleeps", "PROPN VERB"),
        ("run", "VERB"),
    ]
)
NER = _sentences(
    [
        ("Anna Smith lives in Paris", "B-PER I-PER O O B-LOC"),
        ("Paris is old", "B-LOC O O"),
        ("she met Bob and Anna", "O O B-PER O B-PER"),
        ("New York wins", "B-LOC I-LOC O"),
        ("nothing here", "O O"),
    ]
)
ODD = [["unseen", "漢字", "😀", "Dogs", "42"], ["the"], []]


def check_tagger(model: Tagger, data: Any = None) -> None:
    """Raise AssertionError if a tagger breaks a rule of its contract. `data`: tagged sentences, as
    `fit` takes them.
    """
    run(RULES, specimen(model, Tagger, data, POS, POS))


def _rows(s: Specimen) -> list[list[str]]:
    """Return sentences of the data, and some that no model has seen."""
    return [*as_tagged(s.data).sentences, *ODD]


@fitting
def an_unfitted_model_refuses(s: Specimen) -> None:
    assert s.fresh is not None
    model = s.fresh()
    for verb, call in (
        ("predict", lambda: model.predict("a b")),
        ("evaluate", lambda: model.evaluate(s.data)),
    ):
        refuses(call, NotFitted, f"{verb} of a model that is not fitted")


def every_word_has_one_tag(s: Specimen) -> None:
    rows = _rows(s)
    answers = s.model.predict(rows)
    wrong = [
        (words, tags) for words, tags in zip(rows, answers, strict=True) if len(words) != len(tags)
    ]
    require(
        not wrong,
        f"{len(wrong[0][1]) if wrong else 0} tags for the words {wrong[0][0] if wrong else ''}",
    )
    ids = s.model.tag_ids(rows)
    require(
        all(isinstance(row, np.ndarray) and np.issubdtype(row.dtype, np.integer) for row in ids),
        "tag_ids must give an array of whole numbers for each sentence",
    )
    if s.model.learnt["scheme"] == s.model.learnt["working_scheme"]:
        require(
            [[s.model.tags[i] for i in row.tolist()] for row in ids] == answers,
            "predict gives other tags than tag_ids",
        )
        strange = {tag for tags in answers for tag in tags} - set(s.model.tags)
        require(
            not strange, f"predict gives {sorted(strange)}, which are not tags of the training data"
        )


def a_sentence_alone_is_answered_as_in_a_list(s: Specimen) -> None:
    rows = _rows(s)
    for words, tags in zip(rows, s.model.predict(rows)):
        require(s.model.predict(words) == tags, f"in a list {words} gets another answer than alone")
    require(
        s.model.predict("the dog sleeps") == s.model.predict(["the", "dog", "sleeps"]),
        "a text gets another answer than its words",
    )
    require(s.model.predict([]) == [], "predict of no words must be an empty list")


def a_second_call_gives_the_same_answer(s: Specimen) -> None:
    require(
        s.model.predict(_rows(s)) == s.model.predict(_rows(s)), "a second call gives other tags"
    )


def evaluate_counts_what_predict_says(s: Specimen) -> None:
    gold, result = as_tagged(s.held_out), s.model.evaluate(s.held_out)
    pairs = [
        (a, b)
        for words, tags in zip(gold.sentences, gold.tags)
        for a, b in zip(s.model.predict(words), tags)
    ]
    require(
        result["words"] == len(pairs), f"evaluate counts {result['words']} of {len(pairs)} words"
    )
    if gold.scheme == s.model.learnt["scheme"]:
        right = sum(a == b for a, b in pairs) / len(pairs)
        same(result["accuracy"], right, "accuracy is not the share of right tags", off=1e-9)
    require(
        ("span_f1" in result.metrics) == (gold.scheme is not None),
        "span_f1 is for tags that mark spans",
    )
    without = s.model.evaluate(s.held_out, samples=0)
    require(
        not [name for name in without.metrics if name.endswith("_interval")],
        "samples=0 gives an interval all the same",
    )
    same(without["accuracy"], result["accuracy"], "evaluate with samples=0 gives another accuracy")


def a_tag_never_seen_counts_as_wrong(s: Specimen) -> None:
    words = as_tagged(s.data).sentences[0][:2]
    predicted = s.model.predict(words)
    result = s.model.evaluate([(words, [*predicted[:-1], "NEVER-SEEN"])])
    same(
        result["accuracy"],
        (len(words) - 1) / len(words),
        "a tag that is not in the training data is not wrong",
        off=1e-9,
    )


def what_is_no_sentence_is_refused(s: Specimen) -> None:
    """Check that what is no sentence is refused: texts in a list would be taken for the words of
    one sentence.
    """
    for bad in (["the dog runs", "a cat"], [1, 2], [["the", None]], [["the"], "dog"]):
        refuses(lambda: s.model.predict(bad), DataError, f"predict({bad!r})")  # noqa: B023


def save_and_load_keep_every_bit(s: Specimen) -> None:
    with loaded_again(s) as again:
        require(again.tags == s.model.tags, f"tags were {s.model.tags}, are {again.tags}")
        require(again.predict(_rows(s)) == s.model.predict(_rows(s)), "predict gives other tags")


@fitting
def spans_are_answered_in_the_scheme_of_the_data(s: Specimen) -> None:
    assert s.fresh is not None
    gold = Tagged.of(NER)
    model = fit(s.fresh(), gold)
    marks = {tag[0] for tags in model.predict(gold.sentences) for tag in tags}
    require(
        marks <= set("BIO"),
        f"the data is in BIO, and the answer has tags that begin with {sorted(marks)}",
    )
    result, again = model.evaluate(gold), model.evaluate(gold.converted("bioes"))
    for name in ("span_f1", "accuracy"):
        same(
            again[name], result[name], f"{name} is another where the same data is in another scheme"
        )


@fitting
def one_tag_is_always_the_answer(s: Specimen) -> None:
    assert s.fresh is not None
    answer = fit(s.fresh(), [(["a", "b"], ["X", "X"])]).predict("b never")
    require(answer == ["X", "X"], f"the only tag of the data is X, and the answer is {answer}")


@fitting
def bad_data_is_refused_in_one_line(s: Specimen) -> None:
    refuses_data(
        s,
        [[], [([], [])], [(["a", "b"], ["X"])], [("a b", "X Y")], 7, Path("missing.conll")],
        DataError,
    )


RULES: list[Rule] = [
    an_unfitted_model_refuses,
    bad_data_is_refused_in_one_line,
    every_word_has_one_tag,
    a_sentence_alone_is_answered_as_in_a_list,
    a_second_call_gives_the_same_answer,
    evaluate_counts_what_predict_says,
    a_tag_never_seen_counts_as_wrong,
    what_is_no_sentence_is_refused,
    save_and_load_keep_every_bit,
    spans_are_answered_in_the_scheme_of_the_data,
    one_tag_is_always_the_answer,
    *SHARED,
]
