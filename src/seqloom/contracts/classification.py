"""A label for every example, or several.

A classifier writes `class_log_probs(examples)`: the logarithm of each class's probability. From it
come `predict`, `predict_proba` and `evaluate`. One example in, one answer out; a list in, a list
(an array of probabilities) out. Examples are texts unless the model says otherwise (`is_example`),
or pairs of texts where it learnt from pairs; where the data gives an example several labels, so
does the model, and each class is decided by itself.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from seqloom import progress
from seqloom.contracts.base import Model
from seqloom.contracts.fitting import FitOptions
from seqloom.contracts.reading import each_batch
from seqloom.contracts.saving import Kind, labels, one_of, optional
from seqloom.contracts.slicing import slices_of_labelled
from seqloom.contracts.starting import labels_of_start
from seqloom.data.classification import Labelled, as_labelled
from seqloom.data.examples import extent, in_one_line, is_pair, values
from seqloom.decoding.stepper import check_scores, check_table
from seqloom.errors import ConfigError, DataError
from seqloom.metrics import classification
from seqloom.metrics.classification import words_of_errors
from seqloom.metrics.fairness import evaluate_groups
from seqloom.metrics.result import Result, Signature
from seqloom.metrics.result import latency as measure_latency
from seqloom.metrics.slices import by_name, further_columns, length_record
from seqloom.text.file_names import refuse_existing_file

if TYPE_CHECKING:
    from seqloom.contracts.fitting import Train

BATCH = 20_000  # examples that are scored together
THRESHOLD = 0.5  # of a label among several: likelier than not


class Classifier(Model):
    """Which of a few classes an example belongs to."""

    task: ClassVar[str] = "classifier"
    public_names = "tokenizer classes classes_ predict predict_proba score evaluate"
    _estimator_type: ClassVar[str | None] = "classifier"
    learnt_values: ClassVar[dict[str, Kind]] = {
        "classes": labels,
        "multi_label": optional(one_of(True)),
        "pairs": optional(one_of(True)),
    }

    @property
    def classes(self) -> list[Any]:
        """Return the classes in the column order of `class_log_probs`: names, whole numbers, or false
        and true.
        """
        return self.learnt.get("classes", [])

    @property
    def classes_(self) -> np.ndarray:
        """Return the classes, as in scikit-learn; available after fit."""
        if not self.fitted:
            raise AttributeError(f"this {self.name} model has no classes_ before fit")
        return np.array(self.classes)

    @property
    def multi_label(self) -> bool:
        """Return whether an example may have several labels, or none."""
        return self.learnt.get("multi_label", False)

    @property
    def reads_pairs(self) -> bool:
        """Return whether its examples are pairs of texts rather than single ones."""
        return self.learnt.get("pairs", False)

    # ---- what a model writes

    learns_several: ClassVar[bool] = False  # whether it can learn from examples with several labels
    learns_pairs: ClassVar[bool] = False  # whether it can learn from pairs of texts

    @abstractmethod
    def fit_examples(self, data: Labelled, options: FitOptions) -> None:
        """Learn from examples with labels; `classes` is already there, and sorted."""

    @abstractmethod
    def class_log_probs(self, examples: list[Any]) -> np.ndarray:
        """Return the natural-log probability of each class for each example, float64 (n, C). Rows sum
        to one as probabilities, unless an example may have several labels.
        """

    @property
    def reads_numbers(self) -> bool:
        """Return whether its examples are arrays of numbers rather than texts."""
        return False

    def is_example(self, value: Any) -> bool:
        """Return whether a value is a single example rather than a list of them."""
        return isinstance(value, str) or (self.reads_pairs and is_pair(value))

    # ---- fitting

    def fit(
        self,
        data: Any,
        labels: Any = None,
        *,
        valid: Any = None,
        memory: int | str | None = None,
        train: Train = None,
        device: str | None = None,
        run: str | Path | None = None,
        start: str | Path | Model | None = None,
        **training: Any,
    ) -> Self:
        """Learn. `data`: examples, with `labels`; or a Labelled, a Path, a list of (example, label), a frame.

        `start`: of a network, a saved model of the same kind, whose weights, tokenizer, classes and options
        training starts from.
        """
        labelled = as_labelled(data, labels)
        options = self.fit_options(memory, train, device, run, start=start, training=training)
        if options.start is not None:
            labelled = labels_of_start(labelled, options.start)
        classes = labelled.classes if options.start is None else options.start.model.classes
        held_out = None if valid is None else as_labelled(valid).like(classes)
        options = replace(options, valid=held_out)
        if labelled.multi_label and not self.learns_several:
            raise ConfigError(
                f"{labelled.name} has examples with several labels, but {self.name} models learn one per "
                "example; give each example one label"
            )
        self._check_pairs(labelled, held_out)
        if not labelled.classes:
            raise DataError(f"no example of {labelled.name} has a label; give labelled examples")
        if len(classes) == 1 and not labelled.multi_label:
            what = (
                "pair"
                if labelled.pairs
                else "text"
                if isinstance(labelled.examples[0], str)
                else "series"
            )
            progress.say(
                f"{labelled.name} has only one class, {labelled.classes[0]!r}, which will be "
                f"predicted for every {what}"
            )
        with self.learning(options):
            if options.start is None:
                self.learnt = {
                    "classes": labelled.classes,
                    **({"multi_label": True} if labelled.multi_label else {}),
                    **({"pairs": True} if labelled.pairs else {}),
                }
            self.fit_info = {
                "data": labelled.name,
                "data_hash": labelled.fingerprint[:16],
                "texts": len(labelled),
                "lengths": length_record(list(map(extent, labelled.examples))),
            }
            self.fit_examples(labelled, options)
        return self

    def _check_pairs(self, data: Labelled, held_out: Labelled | None) -> None:
        """Refuse pairs that the model cannot learn from, or that only one of both data sets has."""
        if data.pairs and not self.learns_pairs:
            raise ConfigError(
                f"{data.name} has pairs of texts, but {self.name} models read single texts; a "
                f"classifier on a converted encoder reads pairs (NeuralClassifier with encoder='DIR')"
            )
        if held_out is not None and held_out.pairs != data.pairs:
            kinds = (
                ("pairs of texts", "single texts")
                if data.pairs
                else ("single texts", "pairs of texts")
            )
            raise DataError(
                f"the training data ({data.name}) has {kinds[0]}, the held-out data "
                f"({held_out.name}) {kinds[1]}; give both of one kind"
            )

    # ---- the verbs

    def summary(self) -> str:
        examples, classes = self.recorded("texts", 0), len(self.classes)
        what = self._noun if self.reads_numbers or examples != 1 else self._noun.removesuffix("s")
        return (
            f"{examples:,} {what}, " if examples else ""
        ) + f"{classes} class{'es' * (classes != 1)}"

    @property
    def _noun(self) -> str:
        """Return what its examples are called."""
        return "series" if self.reads_numbers else "pairs" if self.reads_pairs else "texts"

    def check_examples(self, examples: Sequence[Any]) -> None:
        """Refuse single texts where the model reads pairs, and pairs where it reads single texts."""
        self.check_fitted()
        if not self.reads_pairs and tuple not in set(map(type, examples)):
            return
        wrong = next(
            (
                row
                for row, example in enumerate(examples, 1)
                if is_pair(example) != self.reads_pairs
            ),
            None,
        )
        if wrong is not None:
            raise DataError(
                f"this {self.name} model reads pairs of texts, but example {wrong} is no pair; "
                f"give a tuple of two texts (in files pair_column=...)"
                if self.reads_pairs
                else f"this {self.name} model reads single texts, but example {wrong} is a pair of "
                f"them; give one text (in files without pair_column=...)"
            )

    def log_probs(self, examples: list[Any]) -> np.ndarray:
        """Compute `class_log_probs` in batches, with progress."""
        self.check_fitted()
        if not examples:
            return np.empty((0, len(self.classes)))
        parts = []
        with progress.collecting(), progress.task("classifying", len(examples), self._noun) as bar:
            batches = [examples[low : low + BATCH] for low in range(0, len(examples), BATCH)]
            for batch, found in zip(batches, each_batch(self, "class_log_probs", batches)):
                parts.append(check_table(found, len(batch), len(self.classes)))
                bar.advance(len(parts[-1]))
        return check_scores(np.concatenate(parts) if len(parts) > 1 else parts[0])

    def _as_examples(self, example: Any) -> tuple[list[Any], bool]:
        """Return the examples as a list, and whether a single one was given."""
        single = self.is_example(example)
        if isinstance(example, str):
            refuse_existing_file(example)
        examples = [example] if single else values(example, "examples")
        self.check_examples(examples)
        return examples, single

    def predict(self, example: Any) -> Any:
        """Predict the likeliest class of an example, or of each of a list, array or column; where
        there may be several labels, a list of those that are likelier than not.
        """
        examples, single = self._as_examples(example)
        labels = self.labels_of(np.exp(self.log_probs(examples)))
        return labels[0] if single else labels

    def labels_of(self, probs: np.ndarray) -> list[Any]:
        """Return the predictions that follow from probabilities (n, C)."""
        classes = self.classes
        if self.multi_label:
            return [[classes[i] for i in np.flatnonzero(row > THRESHOLD).tolist()] for row in probs]
        return [classes[i] for i in probs.argmax(axis=1).tolist()]

    def predict_proba(self, example: Any) -> Any:
        """Return probabilities: by class for one example; for a list an array (n, C) in the order of
        `classes`.
        """
        examples, single = self._as_examples(example)
        probs = np.exp(self.log_probs(examples))
        return dict(zip(self.classes, probs[0].tolist())) if single else probs

    def score(self, data: Any, labels: Any = None) -> float:
        """Return the accuracy, as in scikit-learn; where there may be several labels, the share of
        examples with all of them right.
        """
        metrics = self.evaluate(data, labels, samples=0, examples=0).metrics
        return float(metrics["exact_match" if self.multi_label else "accuracy"])  # type: ignore[arg-type]

    def evaluate(
        self,
        data: Any,
        labels: Any = None,
        *,
        slice_by: str | Sequence[str] = (),
        group_by: str | None = None,
        error_words: int = 0,
        latency: bool = False,
        samples: int = 1000,
        examples: int = 3,
    ) -> Result:
        """Compute accuracy with an interval, precision, recall and F1 of each class, confusion,
        calibration, and errors by kind.

        `data` and `labels`: as `fit` takes them. `slice_by`: also by parts of the data: "length",
        "class", "unknown" (the share of unknown words), and columns of the data; `group_by`: a
        column whose values are groups that should be treated alike; `error_words`: words typical of
        each kind of error; `latency`: how long predictions take. `samples`: of the bootstrap, 0 for
        no interval; `examples`: texts that are shown of each kind of error.
        """
        self.check_fitted()
        labelled = as_labelled(data, labels, columns=further_columns(slice_by, group_by)).like(
            self.classes, strict=False
        )
        self.remark_training_data(labelled.name, labelled.fingerprint)
        if labelled.multi_label and not self.multi_label:
            raise ConfigError(
                f"{labelled.name} has examples with several labels, but this model predicts one per example"
            )
        if error_words and (
            self.multi_label or not all(isinstance(example, str) for example in labelled.examples)
        ):
            raise ConfigError("error_words needs single texts with one label each; leave it out")
        self.check_examples(labelled.examples)
        with progress.collecting():
            progress.number_rows(labelled.numbers)
            log_probs = self.log_probs(labelled.examples)
        names = list(map(str, self.classes))
        gold = [
            list(map(str, some))
            for some in (labelled.labels if labelled.multi_label else zip(labelled.labels))
        ]
        if self.multi_label:
            metrics, details, notes = classification.evaluate_label_sets(
                names, gold, np.exp(log_probs), THRESHOLD, samples=samples
            )
        else:
            shown = [
                in_one_line(example) if isinstance(example, (str, tuple)) else f"example {i}"
                for i, example in enumerate(labelled.examples)
            ]
            first = [some[0] for some in gold]
            metrics, details, notes = classification.evaluate_labels(
                names, first, shown, log_probs, samples=samples, examples=examples
            )
            if error_words:
                predicted = [names[i] for i in log_probs.argmax(axis=1).tolist()]
                details["errors"] = words_of_errors(
                    details["errors"], shown, first, predicted, error_words
                )
        if slice_by or group_by is not None:
            chosen = (
                np.exp(log_probs) > THRESHOLD
                if self.multi_label
                else np.equal.outer(log_probs.argmax(axis=1), np.arange(log_probs.shape[1]))
            )
            more = self._by_parts(
                labelled, classification.decisions(names, gold, chosen), slice_by, group_by, samples
            )
            metrics, details, notes = metrics | more[0], details | more[1], notes + more[2]
        if latency:
            metrics |= measure_latency(self.predict, labelled.examples)
        return Result(metrics, self.signature(labelled), notes, details)

    def _by_parts(
        self,
        data: Labelled,
        decided: tuple[list[str], np.ndarray, np.ndarray],
        slice_by: str | Sequence[str],
        group_by: str | None,
        samples: int,
    ) -> classification.Evaluation:
        """Compute what slices and groups add to a result."""
        metrics: dict[str, Any] = {}
        details: dict[str, Any] = {}
        notes: tuple[str, ...] = ()
        if slice_by:
            details["slices"] = slices_of_labelled(
                self, data, *decided, slice_by, samples, multi_label=self.multi_label
            )
        if group_by is not None:
            metrics, tables, notes = evaluate_groups(
                *decided, by_name(group_by, data.columns[group_by]), samples=samples
            )
            details |= tables
        return metrics, details, notes

    def signature(self, data: Labelled | None = None) -> Signature:
        """Return everything that the model's results depend on."""
        return Signature(
            model=self.label(),
            tokenizer=self.tokenizer_label(),
            data=data.fingerprint[:8] if data else None,
            extras=self.training_extras(),
        )
