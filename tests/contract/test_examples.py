"""The classifier's contract with examples that are no texts, and with several labels: arrays in,
sets of labels out.
"""

import numpy as np
import pytest

from seqloom import NaiveBayes
from seqloom.arrays import Spec
from seqloom.config import Config
from seqloom.contracts import Classifier
from seqloom.data.classification import Labelled
from seqloom.errors import ConfigError, DataError
from seqloom.metrics import classification

RNG = np.random.default_rng(0)
NAMES = ["cold", "dry", "late"]
POINTS = [RNG.normal(size=2) for _ in range(60)]
SETS = [[name for name, on in zip(NAMES, (x < 0, y < 0, x + y > 1)) if on] for x, y in POINTS]


class Logistic(Classifier):
    """Each class by a line of its own through the plane, or all by one softmax."""

    name, config_class, learns_several = "logistic", Config, True

    def is_example(self, value):
        return isinstance(value, np.ndarray) and value.ndim == 1

    def fit_examples(self, data, how):
        x = np.stack(data.examples)
        gold = np.array(
            [
                [name in label if data.multi_label else name == label for name in self.classes]
                for label in data.labels
            ],
            float,
        )
        self.weights = np.zeros((len(self.classes), 3), np.float32)
        for _ in range(500):
            p = np.exp(self.class_log_probs(list(x)))
            self.weights -= 0.5 * ((p - gold).T @ np.c_[x, np.ones(len(x))] / len(x)).astype(
                np.float32
            )

    def class_log_probs(self, examples):
        x = np.stack(examples).astype(np.float64)
        logits = np.c_[x, np.ones(len(x))] @ self.weights.T
        if self.multi_label:
            return -np.logaddexp(0, -logits)
        return logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)

    def arrays(self):
        return {"weights": self.weights}

    def array_specs(self, length):
        return {"weights": Spec("float32", (len(self.classes), 3))}

    def restore_arrays(self, arrays):
        self.weights = arrays["weights"]


def test_arrays_and_one_label():
    labels = ["right" if x > 0 else "left" for x, _ in POINTS]
    model = Logistic().fit((POINTS, labels))
    assert model.classes == ["left", "right"]
    assert not model.multi_label
    assert model.predict(np.array([2.0, 0.0])) == "right"
    assert model.predict([np.array([2.0, 0.0]), np.array([-2.0, 0.0])]) == ["right", "left"]
    assert model.predict_proba(POINTS).sum(axis=1) == pytest.approx(1)
    result = model.evaluate((POINTS, labels))
    assert result["accuracy"] > 0.9
    assert result.details["confusion"]["classes"] == ["left", "right"]


def test_several_labels_are_judged_as_scikit_learn_does():
    metrics = pytest.importorskip("sklearn.metrics")
    model = Logistic().fit(list(zip(POINTS, SETS)))
    assert model.multi_label
    assert model.predict(np.array([-3.0, 3.0])) == ["cold"]
    assert model.predict([np.array([-3.0, -3.0])]) == [["cold", "dry"]]
    assert set(model.predict_proba(POINTS[0])) == set(NAMES)
    result = model.evaluate(list(zip(POINTS, SETS)))
    gold, said = (
        np.array([[name in labels for name in NAMES] for labels in sets])
        for sets in (SETS, model.predict(POINTS))
    )
    assert 0.5 < result["exact_match"] == pytest.approx(metrics.accuracy_score(gold, said))
    for average in ("micro", "macro"):
        assert result[f"{average}_f1"] == pytest.approx(
            metrics.f1_score(gold, said, average=average, zero_division=0)
        )
    assert result["hamming_loss"] == pytest.approx(metrics.hamming_loss(gold, said))
    assert [row["recall"] for row in result.details["classes"]] == pytest.approx(
        metrics.recall_score(gold, said, average=None, zero_division=0)
    )


def test_a_label_never_seen_is_missed_and_said():
    found, details, notes = classification.evaluate_label_sets(
        ["a"], [["a"], ["b"]], np.array([[0.9], [0.1]]), 0.5, samples=0
    )
    assert (found["exact_match"], found["micro_f1"]) == (0.5, pytest.approx(2 / 3))
    assert [row["class"] for row in details["classes"]] == ["a", "b"]
    assert "'b'" in notes[0]


def test_what_a_model_of_texts_does_not_take_is_refused():
    with pytest.raises(ConfigError, match="several labels"):
        NaiveBayes().fit([("a b", ["x", "y"]), ("c", ["x"])])
    with pytest.raises(DataError, match="arrays of numbers"):
        NaiveBayes().fit(list(zip(POINTS, "ab" * 30)))
    model = NaiveBayes().fit([("a b", "x"), ("c", "y")])
    with pytest.raises(ConfigError, match="predicts one per example"):
        model.evaluate([("a", ["x", "y"])])


def test_labelled_arrays_are_checked_and_named():
    data = Labelled.of(
        [(np.zeros((3, 2)), "a"), (np.ones((5, 2)), "b")]
    )  # frames: of any length, of one width
    assert data.part([1]).examples[0].shape == (5, 2)
    assert (
        data.fingerprint
        != Labelled.of([(np.zeros((3, 2)), "a"), (np.zeros((5, 2)), "b")]).fingerprint
    )
    assert Labelled.of([("t", {"b", "a"}), ("u", [])]).labels == [("a", "b"), ()]
    with pytest.raises(DataError, match="row 2 of texts has the shape"):
        Labelled.of([(np.zeros((3, 2)), "a"), (np.zeros((3, 4)), "a")])
    with pytest.raises(DataError, match="row 2 of texts"):
        Labelled.of([(np.zeros(2), "a"), ("text", "a")])


def test_labels_that_would_be_misread_are_refused():
    with pytest.raises(DataError, match="labels in 2 dimensions"):
        Labelled.of((["a", "b"], np.array([[0, 1], [1, 0]])))
    with pytest.raises(DataError, match="no example of texts has a label"):
        Logistic().fit([(POINTS[0], []), (POINTS[1], [])])
    assert (
        Labelled.of([("x", ["a\tb"])]).fingerprint != Labelled.of([("x", ["a", "b"])]).fingerprint
    )
