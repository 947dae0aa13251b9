"""Accuracy, precision and the like equal scikit-learn's and numbers counted by hand; errors come
with their texts.
"""

import json
import math

import numpy as np
import pytest

from seqloom.errors import DataError
from seqloom.metrics import classification, tables
from seqloom.metrics.classification import evaluate_labels
from seqloom.metrics.result import Result, Signature

CLASSES = ["ham", "spam"]
TEXTS = ["hello there", "win money", "win a  prize\nnow", "see you"]
GOLD = ["ham", "spam", "ham", "ham"]
PROBS = np.array([[0.9, 0.1], [0.2, 0.8], [0.3, 0.7], [0.6, 0.4]])


def judged(classes=CLASSES, gold=GOLD, texts=None, probs=PROBS, samples=200, examples=3):
    texts = (
        TEXTS
        if texts is None and len(gold) == len(TEXTS)
        else texts or [f"text {i}" for i in range(len(gold))]
    )
    with np.errstate(divide="ignore"):
        return evaluate_labels(
            classes, gold, texts, np.log(probs), samples=samples, examples=examples
        )


def random_case(seed, n=400, classes=5, unseen=0):
    rng = np.random.default_rng(seed)
    names = [f"c{i}" for i in range(classes)]
    gold = rng.choice(
        [*names[: classes - 1], *(f"new{i}" for i in range(unseen))], n
    ).tolist()  # the last never comes
    probs = rng.dirichlet(np.full(classes, 0.3), n)
    probs[:, 1] = 0.0  # never predicted
    return names, gold, probs / probs.sum(axis=1, keepdims=True)


def test_a_case_counted_by_hand():
    metrics, details, notes = judged()
    assert list(metrics) == [
        "accuracy",
        "accuracy_interval",
        "macro_f1",
        "weighted_f1",
        "majority_accuracy",
        "nats_per_text",
        "calibration_error",
        "texts",
    ]
    assert metrics["accuracy"] == metrics["majority_accuracy"] == 0.75
    assert metrics["macro_f1"] == pytest.approx((0.8 + 2 / 3) / 2)
    assert metrics["weighted_f1"] == pytest.approx((3 * 0.8 + 2 / 3) / 4)
    assert metrics["nats_per_text"] == pytest.approx(-math.log(0.9 * 0.8 * 0.3 * 0.6) / 4)
    assert metrics["calibration_error"] == pytest.approx(
        (0.1 + 0.2 + 0.7 + 0.4) / 4
    )  # each text has a bin of its own
    assert metrics["texts"] == 4
    assert details["classes"] == [
        {
            "class": "ham",
            "precision": 1.0,
            "recall": 2 / 3,
            "f1": 0.8,
            "support": 3,
            "predicted": 2,
        },
        {
            "class": "spam",
            "precision": 0.5,
            "recall": 1.0,
            "f1": 2 / 3,
            "support": 1,
            "predicted": 2,
        },
    ]
    assert details["confusion"] == {"classes": CLASSES, "counts": [[2, 1], [0, 1]]}
    assert details["errors"] == [
        {
            "gold": "ham",
            "predicted": "spam",
            "count": 1,
            "examples": [{"text": "win a prize now", "probability": 0.7}],
        }
    ]
    assert notes == ()


@pytest.mark.parametrize("unseen", [0, 2])
@pytest.mark.parametrize("seed", range(3))
def test_equal_to_scikit_learn(seed, unseen):
    sklearn = pytest.importorskip("sklearn.metrics")
    names, gold, probs = random_case(seed, unseen=unseen)
    metrics, details, _ = judged(names, gold, probs=probs)
    found = [names[i] for i in probs.argmax(axis=1)]
    every = [row["class"] for row in details["classes"]]
    assert every == [*names, *(f"new{i}" for i in range(unseen))]
    expected = sklearn.precision_recall_fscore_support(gold, found, labels=every, zero_division=0)
    for name, values in zip(("precision", "recall", "f1", "support"), expected):
        assert [row[name] for row in details["classes"]] == pytest.approx(
            values.tolist(), abs=1e-12
        )
    assert (
        details["confusion"]["counts"]
        == sklearn.confusion_matrix(gold, found, labels=every).tolist()
    )
    assert metrics["accuracy"] == pytest.approx(sklearn.accuracy_score(gold, found))
    assert metrics["macro_f1"] == pytest.approx(
        sklearn.f1_score(gold, found, average="macro", zero_division=0)
    )
    assert metrics["weighted_f1"] == pytest.approx(
        sklearn.f1_score(gold, found, average="weighted", zero_division=0)
    )


def test_cost_equals_scikit_learn():
    sklearn = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    names = ["a", "b", "c"]
    gold, probs = rng.choice(names, 300).tolist(), rng.dirichlet([1.0, 2.0, 3.0], 300)
    metrics, _, _ = judged(names, gold, probs=probs)
    assert metrics["nats_per_text"] == pytest.approx(sklearn.log_loss(gold, probs, labels=names))


def test_calibration_against_an_obvious_loop():
    names, gold, probs = random_case(7)
    metrics, details, _ = judged(names, gold, probs=probs)
    top, right = (
        probs.max(axis=1),
        np.array([names[i] for i in probs.argmax(axis=1)]) == np.array(gold),
    )
    gap = 0.0
    for k in range(15):
        inside = [i for i in range(len(gold)) if k / 15 < top[i] <= (k + 1) / 15]
        if inside:
            said, came = np.mean(top[inside]), np.mean(right[inside])
            gap += abs(said - came) * len(inside) / len(gold)
            found = next(b for b in details["reliability"] if b["from"] == k / 15)
            assert (found["to"], found["count"]) == ((k + 1) / 15, len(inside))
            assert (found["confidence"], found["accuracy"]) == pytest.approx((said, came))
    assert metrics["calibration_error"] == pytest.approx(gap)
    assert sum(b["count"] for b in details["reliability"]) == len(gold)


def test_certainty_is_in_the_last_bin():
    _, details, _ = judged(probs=np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]]))
    assert details["reliability"] == [
        {"from": 14 / 15, "to": 1.0, "count": 4, "confidence": 1.0, "accuracy": 0.75}
    ]


def test_a_probability_on_a_border_belongs_to_the_bin_below():
    _, details, _ = judged(gold=["ham"], probs=np.array([[0.6, 0.4]]))
    assert [(b["from"], b["to"]) for b in details["reliability"]] == [(8 / 15, 9 / 15)]


def test_the_interval_is_as_wide_as_chance():
    rng = np.random.default_rng(0)
    n, share = 2000, 0.8
    gold = np.where(rng.random(n) < share, "ham", "spam").tolist()
    metrics, _, _ = judged(gold=gold, probs=np.tile([0.7, 0.3], (n, 1)), samples=2000)
    low, high = metrics["accuracy_interval"]
    assert low < metrics["accuracy"] < high
    assert high - low == pytest.approx(2 * 1.96 * math.sqrt(share * (1 - share) / n), rel=0.1)


def test_labels_that_the_model_never_saw():
    metrics, details, notes = judged(gold=["ham", "virus", "ham", "junk"])
    assert metrics["accuracy"] == 0.25
    assert metrics["nats_per_text"] == math.inf
    assert details["confusion"] == {
        "classes": ["ham", "spam", "junk", "virus"],
        "counts": [[1, 1, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]],
    }
    assert notes[0] == (
        "labels that the model never saw: 'junk', 'virus'; their texts (2) count as wrong, "
        "with probability zero"
    )
    assert notes[1:] == (
        "not in this data: 'spam'; their recall counts as 0",
    )  # and none of "never predicted"
    shown = Result(metrics, Signature(model="m"), notes, details)
    assert (
        json.loads(json.dumps(shown.to_dict(), allow_nan=False))["metrics"]["nats_per_text"]
        == "inf"
    )


def test_classes_that_were_never_predicted_and_zero_probabilities_are_told():
    metrics, details, notes = judged(probs=np.tile([1.0, 0.0], (4, 1)))
    assert [row["precision"] for row in details["classes"]] == [0.75, 0.0]
    assert metrics["nats_per_text"] == math.inf
    assert len(notes) == 2
    assert "probability zero to the right class of 1 texts" in notes[0]
    assert "never predicted: 'spam'" in notes[1]


def test_errors_by_number_then_the_surest_first():
    gold = ["a"] * 5 + ["b"] * 2 + ["c"]
    probs = np.array(
        [
            [0.1, 0.9, 0],
            [0.45, 0.55, 0],
            [0.3, 0.7, 0],
            [0, 0, 1],
            [1, 0, 0],  # a -> b three times, -> c
            [0.6, 0.4, 0],
            [0.8, 0.2, 0],  # b -> a twice
            [0.1, 0.2, 0.7],
        ]
    )
    texts = [f"t{i}" for i in range(7)] + ["x" * 500]
    _, details, _ = judged(["a", "b", "c"], gold, texts, probs, examples=2)
    assert [
        (e["gold"], e["predicted"], e["count"], [x["text"] for x in e["examples"]])
        for e in details["errors"]
    ] == [("a", "b", 3, ["t0", "t2"]), ("b", "a", 2, ["t6", "t5"]), ("a", "c", 1, ["t3"])]
    _, details, _ = judged(["a", "b", "c"], ["a"] * 8, texts, probs, examples=1)
    long = next(e for e in details["errors"] if e["predicted"] == "c")["examples"][0]
    assert long["text"] == "t3"
    _, details, _ = judged(["a", "c"], ["a"], ["x" * 500], np.array([[0.2, 0.8]]))
    assert details["errors"][0]["examples"][0]["text"] == "x" * 119 + "…"
    assert (
        judged(["a", "c"], ["a"], ["x"], np.array([[0.2, 0.8]]), examples=0)[1]["errors"][0][
            "examples"
        ]
        == []
    )


def test_one_text_and_one_class():
    metrics, _, _ = judged(["only"], ["only"], probs=np.array([[1.0]]))
    assert metrics["accuracy"] == metrics["macro_f1"] == 1.0
    assert str(metrics["nats_per_text"]) == "0.0"
    assert all(math.isnan(end) for end in metrics["accuracy_interval"])


def test_a_vast_matrix_is_left_out(monkeypatch):
    monkeypatch.setattr(classification, "MATRIX", 1)
    _, details, _ = judged()
    assert "confusion" not in details
    assert "errors by kind" in tables.report(Result({}, Signature(model="m"), (), details))


def test_what_cannot_be_judged_is_refused():
    with pytest.raises(DataError, match="no texts"):
        evaluate_labels(CLASSES, [], [], np.empty((0, 2)), samples=10, examples=1)
    with pytest.raises(ValueError, match=r"4 labels, 4 texts and 2 classes .* \(4, 3\)"):
        judged(probs=np.full((4, 3), 1 / 3))
    with pytest.raises(ValueError, match="NaN"):
        judged(probs=np.full((4, 2), np.nan))


def test_the_report_is_aligned_and_cannot_send_codes():
    gold = ["猫", "dog", "dog", "dog\x1b[31m"]
    metrics, details, notes = judged(["dog", "猫"], gold, ["a", "b\x1b]0;x\x07", "c", "d"])
    text = tables.report(Result(metrics, Signature(model="m"), notes, details))
    assert "\x1b" not in text
    assert "\x07" not in text
    parts = text.split("\n\n")
    assert [part.split("\n")[0] for part in parts] == [
        "classes",
        "confusion (rows gold, columns predicted)",
        "errors by kind (gold -> predicted)",
    ]
    assert parts[0].split("\n")[1:3] == [
        "class     precision  recall      f1  gold  predicted",
        "dog          0.0000  0.0000  0.0000     2          2",
    ]
    assert parts[1].split("\n")[1:] == [
        "gold      dog  猫  dog\ufffd[31m",
        "dog         .   2         .",
        "猫          1   .         .",
        "dog\ufffd[31m    1   .         .",
    ]
    assert parts[2].split("\n")[1:4] == [
        "2  dog -> 猫",
        "     0.8000  b\ufffd]0;x\ufffd",
        "     0.7000  c",
    ]


def test_the_report_of_many_classes_has_no_matrix_and_the_commonest_errors():
    names = [f"class number {i}" for i in range(60)]
    rng = np.random.default_rng(0)
    gold, probs = rng.choice(names, 1000).tolist(), rng.dirichlet(np.ones(60), 1000)
    metrics, details, notes = judged(names, gold, probs=probs, examples=1)
    text = tables.report(Result(metrics, Signature(model="m"), notes, details))
    assert "confusion" not in text
    assert "and 10 rarer ones" in text
    shown = [line for line in text.split("\n") if " -> class" in line]
    assert len(shown) == 10
    rest = sum(e["count"] for e in details["errors"][10:])
    assert text.endswith(f"and {rest:,} errors of {len(details['errors']) - 10:,} rarer kinds")
    few = {"confusion": {"classes": names[:12], "counts": np.eye(12, dtype=int).tolist()}}
    head, first = tables.report(Result({}, Signature(model="m"), (), few)).split("\n")[1:3]
    assert head.split() == ["gold", *map(str, range(1, 13))]  # too wide for names
    assert first.startswith(" 1 class number 0")
    assert tables.report(Result({}, Signature(model="m"))) == ""


def test_long_names_are_cut_to_columns_without_delay():
    """A label can be a whole line of a broken file; cutting it letter by letter would take minutes."""
    from seqloom.metrics.tables import NAME, _name, width

    for name in (
        "short",
        "x" * 1_000_000,
        "猫" * 300_000,
        "猫a" * 20,
        "a" * NAME,
        "a" * (NAME + 1),
        "",
        "\u0301" * 9,
    ):
        shown = _name(name)
        assert width(shown) <= NAME
        assert shown == (name or "(empty)") or shown.endswith("…")
    assert _name("a" * (NAME + 1)) == "a" * (NAME - 1) + "…"
