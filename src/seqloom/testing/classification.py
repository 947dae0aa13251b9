"""What every classifier must do."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from seqloom.contracts import Classifier
from seqloom.data.classification import Labelled, as_labelled
from seqloom.errors import ConfigError, DataError, NotFitted
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

PAIRS = [
    ("a lovely warm film", "good"),
    ("what a lovely story", "good"),
    ("warm and funny", "good"),
    ("a dull cold film", "bad"),
    ("cold and boring story", "bad"),
    ("what a dull thing", "bad"),
    ("so so", "neutral"),
]
HELD_OUT = [
    ("a warm lovely story", "good"),
    ("cold dull film", "bad"),
    ("nothing here was ever seen", "bad"),
]
ODD = ["", "\n", "漢字 😀", "never seen"]


def check_classifier(model: Classifier, data: Any = None) -> None:
    """Raise AssertionError if a classifier breaks a rule of its contract. `data`: examples with
    labels, as `fit` takes them.
    """
    run(RULES, specimen(model, Classifier, data, PAIRS, HELD_OUT))


def _examples(s: Specimen) -> list[Any]:
    """Return examples of the data, and texts that no model has seen."""
    examples = [*as_labelled(s.data).examples, *as_labelled(s.held_out).examples]
    return examples + (ODD if isinstance(examples[0], str) else [])


@fitting
def an_unfitted_model_refuses(s: Specimen) -> None:
    assert s.fresh is not None
    model, example = s.fresh(), _examples(s)[0]
    for verb, call in (
        ("predict", lambda: model.predict(example)),
        ("predict_proba", lambda: model.predict_proba([example])),
        ("evaluate", lambda: model.evaluate(s.data)),
    ):
        refuses(call, NotFitted, f"{verb} of a model that is not fitted")


def probabilities_sum_to_one(s: Specimen) -> None:
    examples, classes = _examples(s), s.model.classes
    log_probs = s.model.class_log_probs(examples)
    shape = (len(examples), len(classes))
    require(
        isinstance(log_probs, np.ndarray) and log_probs.shape == shape,
        f"class_log_probs gives the shape {np.shape(log_probs)} for {shape[0]} examples and "
        f"{shape[1]} classes",
    )
    require(
        log_probs.dtype == np.float64,
        f"class_log_probs gives {log_probs.dtype}; it must give float64",
    )
    require(not np.isnan(log_probs).any(), "class_log_probs gives NaN")
    if not s.model.multi_label:
        totals = np.exp(np.logaddexp.reduce(log_probs, axis=1))
        worst = int(np.abs(totals - 1).argmax())
        require(
            abs(totals[worst] - 1) < 1e-9,
            f"the probabilities of {examples[worst]!r:.60} sum to {totals[worst]:.9g}",
        )
    require((log_probs <= 1e-9).all(), "a log-probability is above zero")


def predict_proba_names_every_class(s: Specimen) -> None:
    examples, classes = _examples(s), s.model.classes
    require(len(classes) == len(set(classes)) > 0, f"classes are not different names: {classes}")
    probs = s.model.predict_proba(examples)
    same(
        probs,
        np.exp(s.model.class_log_probs(examples)),
        "predict_proba is not exp of class_log_probs",
        off=1e-12,
    )
    one = s.model.predict_proba(examples[0])
    require(
        list(one) == list(classes),
        f"predict_proba of one example names {list(one)}, classes are {classes}",
    )
    same(
        list(one.values()),
        probs[0],
        "predict_proba gives one example alone another answer",
        off=1e-5,
    )
    require(
        s.model.predict_proba([]).shape == (0, len(classes)),
        "predict_proba of no examples must be an array (0, C)",
    )


def an_example_alone_is_answered_as_in_a_list(s: Specimen) -> None:
    examples = _examples(s)
    many, alone = s.model.predict(examples), [s.model.predict(example) for example in examples]
    wrong = [i for i, (a, b) in enumerate(zip(many, alone, strict=True)) if a != b]
    require(
        not wrong,
        f"in a list {examples[wrong[0] if wrong else 0]!r:.60} gets another answer than alone",
    )
    require(
        many == s.model.labels_of(np.exp(s.model.class_log_probs(examples))),
        "predict is not the likeliest class",
    )
    require(s.model.predict([]) == [], "predict of no examples must be an empty list")


def a_second_call_gives_the_same_answer(s: Specimen) -> None:
    examples = _examples(s)
    same(
        s.model.class_log_probs(examples),
        s.model.class_log_probs(examples),
        "a second call gives other probabilities",
    )


def evaluate_counts_what_predict_says(s: Specimen) -> None:
    result, data = s.model.evaluate(s.held_out), as_labelled(s.held_out)
    require(
        "train" in result.signature.to_dict(),
        "the signature does not say what the model was trained on",
    )
    without = s.model.evaluate(s.held_out, samples=0)
    require(
        {**result.metrics}
        == {
            **without.metrics,
            **{k: v for k, v in result.metrics.items() if k.endswith("_interval")},
        },
        "evaluate with samples=0 gives other numbers",
    )
    if s.model.multi_label:
        return
    right = sum(label == gold for label, gold in zip(s.model.predict(data.examples), data.labels))
    same(
        result["accuracy"],
        right / len(data),
        "accuracy is not the share of right answers",
        off=1e-9,
    )
    counted = sum(map(sum, result.details["confusion"]["counts"]))
    require(counted == len(data), f"the confusion matrix counts {counted} of {len(data)} examples")


def save_and_load_keep_every_bit(s: Specimen) -> None:
    examples = _examples(s)
    with loaded_again(s) as again:
        require(
            again.classes == s.model.classes, f"classes were {s.model.classes}, are {again.classes}"
        )
        same(
            again.class_log_probs(examples),
            s.model.class_log_probs(examples),
            "an example has another probability",
        )
        require(again.predict(examples) == s.model.predict(examples), "predict gives other labels")


@fitting
def data_in_any_form_is_the_same_data(s: Specimen) -> None:
    assert s.fresh is not None
    labelled, forms = as_labelled(s.data), []
    forms = [
        labelled,
        list(zip(labelled.examples, labelled.labels)),
        (labelled.examples, labelled.labels),
    ]
    answers = [fit(s.fresh(), data).predict_proba(_examples(s)) for data in forms]
    if isinstance(labelled.examples[0], str) and s.data is PAIRS:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "data.tsv")
            path.write_text(
                "label\ttext\n" + "".join(f"{label}\t{text}\n" for text, label in PAIRS),
                encoding="utf-8",
            )
            answers.append(fit(s.fresh(), path).predict_proba(_examples(s)))
    for answer in answers:
        same(
            answer,
            answers[0],
            "data as a Labelled, as pairs, as two lists and as a file gives other models",
        )


@fitting
def bad_data_is_refused_in_one_line(s: Specimen) -> None:
    refuses_data(
        s,
        [
            [],
            [("text", None)],
            [("only text",)],
            7,
            {"a": "b"},
            [("a", "x"), (None, "y")],
            Path("missing.tsv"),
        ],
        (DataError, ConfigError),
    )


@fitting
def one_class_is_always_the_answer(s: Specimen) -> None:
    assert s.fresh is not None
    labelled = as_labelled(s.data)
    if not labelled.multi_label:
        labels = [labelled.labels[0]] * len(labelled)
        model = fit(s.fresh(), Labelled(labelled.examples, labels, labelled.name))
        same(
            model.predict_proba(_examples(s)),
            np.ones((len(_examples(s)), 1)),
            "the only class is not certain",
            off=1e-9,
        )


RULES: list[Rule] = [
    an_unfitted_model_refuses,
    bad_data_is_refused_in_one_line,
    probabilities_sum_to_one,
    predict_proba_names_every_class,
    an_example_alone_is_answered_as_in_a_list,
    a_second_call_gives_the_same_answer,
    evaluate_counts_what_predict_says,
    save_and_load_keep_every_bit,
    data_in_any_form_is_the_same_data,
    one_class_is_always_the_answer,
    *SHARED,
]
