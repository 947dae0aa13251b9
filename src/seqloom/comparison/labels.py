"""Classifiers compared: accuracy on the same held-out texts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from seqloom.charts.measure import Measure
from seqloom.comparison.bench import Bench, Rung, unfitted
from seqloom.comparison.label_report import AnnotatedLadder
from seqloom.comparison.ladder import FRACTIONS, Column, Judged, Ladder, Parts
from seqloom.data.in_memory import has_labels
from seqloom.data.labelled import Labelled, as_labelled
from seqloom.data.splitting import example_digest, hashed_parts
from seqloom.encoder_table import has_encoder
from seqloom.errors import ConfigError, DataError
from seqloom.metrics import bootstrap, classification

SMALLEST = 20  # texts; fewer say nothing


NETWORKS = tuple(Rung(encoder, "network", "", unfitted("classifier", encoder=encoder), 0, adds) for encoder, adds in (
    ("cnn", "layers over neighbouring steps, in whatever order they matter"),
    ("bilstm", "a state that reads the whole sequence, from both ends"),
    ("transformer", "every step looks at every other, and learns where")))
RUNGS = (
    Rung("majority", "trivial", "", unfitted("majority"), 1, "nothing: always the most frequent class"),
    Rung("bayes-1", "naive Bayes", "", unfitted("naive-bayes"), 1, "each word counts independently for or against a class"),
    Rung("bayes-2", "naive Bayes", "", unfitted("naive-bayes", ngrams=2), 2, "pairs of words count too"),
    Rung("fasttext-1", "fastText", "", unfitted("fasttext-classifier", seeded=True), 30,
         "word vectors, learned to separate the classes"),
    Rung("fasttext-2", "fastText", "", unfitted("fasttext-classifier", seeded=True, ngrams=2), 60,
         "pairs of words have vectors too"),
    *NETWORKS,
)


class LabelLadder(AnnotatedLadder):
    name, task, models = "classification", "classifier", "classifiers"
    measure = Measure("accuracy", "accuracy", "accuracy", lower=False, form=".1%")
    notes = ("Accuracy: share of the held-out texts classified correctly; the interval is a bootstrap over texts. Macro F1 is "
             "the mean of the F1 of all classes; calibration error, how far the probabilities are from how often the model "
             "is right.")
    size_unit, score_unit, unit_heading = "texts", "texts", "texts"
    overlapping = "the test texts"
    columns = (Column("macro F1", "macro_f1", ".3f"), Column("cal. error", "calibration_error", ".3f"))
    commands: ClassVar[tuple[str, ...]] = ('seqloom predict {path} FILE', 'echo "some text" | seqloom predict {path} --proba')
    python = 'seqloom.load({path}).predict("some text")'
    rungs: Sequence[Rung] = RUNGS

    def further_rung(self, name: str) -> Rung | None:
        if not has_encoder(name):
            return None
        return Rung(name, "network", "", unfitted("classifier", encoder=name), 0, f"the encoder {name}")

    def recognises(self, data: Any) -> str:
        if isinstance(data, Labelled):
            return "the data has labels"
        if isinstance(data, Path):
            from seqloom.data.recognise import labels_in

            return labels_in(data)
        if has_labels(data):
            return "the frame has a column of labels"
        return "each text has a label" if _pairs(data, str) else ""

    def read(self, data: Any) -> Labelled:
        if data is None:
            raise DataError("there is no bundled data with labels; give a file")
        return as_labelled(data)

    def split(self, data: Labelled, valid: Labelled | None, test: Labelled | None) -> Parts:
        if data.multi_label:
            raise ConfigError(f"{data.name} has examples with several labels; only single-label data can be compared")
        if data.pairs:
            raise ConfigError(f"{data.name} has pairs of texts, which only classifiers on a converted encoder read; compare "
                              "those with seqloom ab")
        if len(data) < SMALLEST:
            raise DataError(f"{data.name}: {len(data)} texts are too few to compare models; give at least {SMALLEST}")
        if (parts := self.brought(data, valid, test)) is not None:
            return parts
        train, held, last = (data.part(places) for places in hashed_parts(data.examples, FRACTIONS))
        return Parts(train, held, last, "80/10/10 by texts in hashed order, equal texts together")

    def suited(self, parts: Parts) -> Ladder:
        return self if isinstance(parts.train.examples[0], str) else NumberLadder()

    def size(self, part: Labelled) -> int:
        return len(part)

    def overlap(self, parts: Parts) -> float:
        known = {example_digest(example) for example in parts.train.examples}
        return sum(example_digest(example) in known for example in parts.test.examples) / len(parts.test)

    def smaller(self, train: Labelled, part: int) -> Labelled | None:
        """The first ones, which are in no order that has to do with their classes where the data was split here."""
        n = len(train) // part
        some = train.part(slice(0, n)) if n >= SMALLEST // 2 else None
        return some if some is not None and len(some.classes) > 1 else None

    def judge(self, model: Any, parts: Parts) -> Judged:
        test = parts.test
        start = time.perf_counter()
        log_probs = model.log_probs(test.examples)
        seconds = time.perf_counter() - start
        names, gold = list(map(str, model.classes)), list(map(str, test.labels))
        metrics, _, _ = classification.judge(names, gold, [""] * len(test), log_probs, samples=0, examples=0)
        right = np.array([names[i] == label for i, label in zip(log_probs.argmax(axis=1).tolist(), gold)], np.float64)
        ones = np.ones(len(right))
        measures = {key: metrics[key] for key in ("accuracy", "macro_f1", "nats_per_text", "calibration_error", "texts")}
        return Judged(measures, bootstrap.interval(right, ones), right, ones, len(test), seconds)

    def warm_up(self) -> None:
        texts = [("good fun", "+"), ("dull", "-"), ("good", "+"), ("so dull", "-")]
        for rung in [rung for rung in RUNGS[1:] if rung.work]:
            rung.make(Bench(None)).fit(texts).predict("good")


class NumberLadder(LabelLadder):
    """Where the examples are series of numbers."""

    size_unit, score_unit, unit_heading = "series", "series", "series"
    overlapping = "the test series"
    commands = ("seqloom predict {path} FILE",)
    python = "seqloom.load({path}).predict([0.1, 0.4, 0.2])"
    rungs: Sequence[Rung] = (RUNGS[0], *NETWORKS)


def _pairs(data: Any, kind: type) -> bool:
    """Whether it is a list of (text, label), or the pair of lists."""
    if isinstance(data, tuple) and len(data) == 2:
        return all(isinstance(part, (list, np.ndarray)) for part in data) and len(data[0]) > 0 and isinstance(data[0][0], kind)
    if not isinstance(data, list) or not data or not isinstance(data[0], (tuple, list)) or len(data[0]) != 2:
        return False
    return isinstance(data[0][0], kind) and not isinstance(data[0][1], (list, tuple))
