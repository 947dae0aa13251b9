"""One label for every text.

A classifier writes `class_log_probs(texts)`: the logarithm of each class's probability. From it come `predict`,
`predict_proba` and `evaluate`. `str` in, one answer out; a list in, a list (an array of probabilities) out.
"""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, overload

import numpy as np

from seqloom import progress
from seqloom.contracts.base import Fitting, Model
from seqloom.contracts.learnt import Kind, names
from seqloom.data.labelled import Labelled, as_labelled
from seqloom.decoding.sanity import check_scores
from seqloom.metrics import classification
from seqloom.metrics.result import Result, Signature

if TYPE_CHECKING:
    from seqloom.training.config import TrainConfig

BATCH = 20_000  # texts that are looked at together


class Classifier(Model):
    """Which of a few classes a text belongs to."""

    task: ClassVar[str] = "classifier"
    learnt_values: ClassVar[dict[str, Kind]] = {"classes": names}

    @property
    def classes(self) -> list[str]:
        """The names of the classes, in the order of the columns of `class_log_probs`."""
        return self.learnt.get("classes", [])

    # ---- what a model writes

    @abstractmethod
    def fit_texts(self, data: Labelled, how: Fitting) -> None:
        """Learn from texts with labels; `classes` is already there, and sorted."""

    @abstractmethod
    def class_log_probs(self, texts: list[str]) -> np.ndarray:
        """Natural-log probability of each class for each text, float64 (n, C); rows sum to one as probabilities."""

    # ---- fitting

    def fit(self, data: Any, *, valid: Any = None, memory: int | str | None = None, train: TrainConfig | None = None,
            device: str | None = None, run: str | Path | None = None) -> Self:
        """Learn from scratch. `data`: a Labelled, a Path, a list of (text, label), or the pair (texts, labels)."""
        how = self.told(memory, train, device, run, None if valid is None else as_labelled(valid))
        labelled = as_labelled(data)
        if len(labelled.classes) == 1:
            progress.say(f"{labelled.name} has one class only, {labelled.classes[0]!r}: it will be the answer for every text")
        with self.learning():
            self.learnt = {"classes": labelled.classes}
            self.fit_info = {"data": labelled.name, "data_hash": labelled.fingerprint[:16], "texts": len(labelled)}
            self.fit_texts(labelled, how)
        return self

    # ---- the verbs

    def summary(self) -> str:
        texts, classes = self.recorded("texts", 0), len(self.classes)
        return (f"{texts:,} text{'s' * (texts != 1)}, " if texts else "") + f"{classes} class{'es' * (classes != 1)}"

    def log_probs(self, texts: list[str]) -> np.ndarray:
        """`class_log_probs` in batches, with progress."""
        self.check_fitted()
        if not texts:
            return np.empty((0, len(self.classes)))
        parts = []
        with progress.task("classifying", len(texts), "texts") as bar:
            for start in range(0, len(texts), BATCH):
                parts.append(self.class_log_probs(texts[start : start + BATCH]))
                bar.advance(len(parts[-1]))
        return check_scores(np.concatenate(parts) if len(parts) > 1 else parts[0])

    @overload
    def predict(self, text: str) -> str: ...
    @overload
    def predict(self, text: list[str]) -> list[str]: ...
    def predict(self, text: str | list[str]) -> str | list[str]:
        """The likeliest class of a text, or of each text of a list."""
        best = self.log_probs([text] if isinstance(text, str) else list(text)).argmax(axis=1)
        classes = self.classes
        labels = [classes[i] for i in best.tolist()]
        return labels[0] if isinstance(text, str) else labels

    @overload
    def predict_proba(self, text: str) -> dict[str, float]: ...
    @overload
    def predict_proba(self, text: list[str]) -> np.ndarray: ...
    def predict_proba(self, text: str | list[str]) -> dict[str, float] | np.ndarray:
        """Probabilities: by class for one text; for a list an array (n, C) in the order of `classes`."""
        probs = np.exp(self.log_probs([text] if isinstance(text, str) else list(text)))
        return dict(zip(self.classes, probs[0].tolist())) if isinstance(text, str) else probs

    def evaluate(self, data: Any, *, samples: int = 1000, examples: int = 3) -> Result:
        """Accuracy with an interval, precision, recall and F1 of each class, confusion, calibration, and errors by kind.

        `samples`: of the bootstrap, 0 for no interval; `examples`: texts that are shown of each kind of error.
        """
        self.check_fitted()
        labelled = as_labelled(data)
        log_probs = self.log_probs(labelled.texts)
        metrics, details, notes = classification.judge(self.classes, labelled.labels, labelled.texts, log_probs,
                                                       samples=samples, examples=examples)
        return Result(metrics, self.signature(labelled), notes, details)

    def signature(self, data: Labelled | None = None) -> Signature:
        """What a number of this model depends on."""
        return Signature(model=self.label(), tokenizer=self.tokenizer.label() if self.tokenizer else None,
                         data=data.fingerprint[:8] if data else None, extras={"train": self.recorded("data_hash", "")[:8]})
