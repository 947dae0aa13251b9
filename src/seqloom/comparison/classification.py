"""Classifiers compared: accuracy on the same held-out texts."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from seqloom.charts.calibration import Forecasts, reliability
from seqloom.charts.comparison import Measure
from seqloom.charts.heat import confusion_chart
from seqloom.comparison.bench import Bench, Rung, unfitted
from seqloom.comparison.ladder import FRACTIONS, Column, Evaluation, Ladder, Parts, Score, columns
from seqloom.comparison.pictures import best_of_groups
from seqloom.data.classification import Labelled, as_labelled
from seqloom.data.examples import example_digest, has_labels, hashed_order, hashed_parts
from seqloom.data.recognise import labels_in
from seqloom.encoder_table import has_encoder
from seqloom.errors import ConfigError
from seqloom.metrics import classification
from seqloom.views.calibration import wilson

if TYPE_CHECKING:
    from seqloom.charts.page import Page
    from seqloom.comparison.result import Comparison
    from seqloom.metrics.result import Result

MAX_RUNGS_EXAMINED = 4  # rungs that are evaluated in detail
KINDS = 15  # of errors that are listed


NETWORKS = tuple(
    Rung(encoder, "network", "", unfitted("classifier", encoder=encoder), 0, adds)
    for encoder, adds in (
        ("cnn", "layers over neighbouring steps, in whatever order they matter"),
        ("bilstm", "a state that reads the whole sequence, from both ends"),
        ("transformer", "every step looks at every other, and learns where"),
    )
)
RUNGS = (
    Rung(
        "majority",
        "trivial",
        "",
        unfitted("majority"),
        1,
        "nothing: always the most frequent class",
    ),
    Rung(
        "bayes-1",
        "naive Bayes",
        "",
        unfitted("naive-bayes"),
        1,
        "each word counts independently for or against a class",
    ),
    Rung(
        "bayes-2",
        "naive Bayes",
        "",
        unfitted("naive-bayes", ngrams=2),
        2,
        "pairs of words count too",
    ),
    Rung(
        "logistic-1",
        "logistic regression",
        "",
        unfitted("logistic"),
        3,
        "the weights of all words are learned together, rare words count more (TF-IDF)",
    ),
    Rung(
        "logistic-2",
        "logistic regression",
        "",
        unfitted("logistic", ngrams=2),
        9,
        "pairs of words have weights too",
    ),
    Rung(
        "fasttext-1",
        "fastText",
        "",
        unfitted("fasttext-classifier", seeded=True),
        30,
        "word vectors, learned to separate the classes",
    ),
    Rung(
        "fasttext-2",
        "fastText",
        "",
        unfitted("fasttext-classifier", seeded=True, ngrams=2),
        60,
        "pairs of words have vectors too",
    ),
    *NETWORKS,
)


class AnnotatedLadder(Ladder):
    """A ladder of data with labels or tags: reports have confusion, calibration, each class, and errors with
    examples.
    """

    def short_name(self, data: Any) -> str:
        return os.path.basename(data.name) or data.name

    def details(self, comparison: Comparison) -> dict[str, Result]:
        """Evaluate the best rung of each group in full detail."""
        sign = -1 if not self.measure.lower else 1
        chosen = sorted(best_of_groups(comparison), key=lambda r: sign * r.value)[
            :MAX_RUNGS_EXAMINED
        ]
        return {
            r.name: comparison.fitted[r.name].evaluate(comparison.test, samples=0) for r in chosen
        }

    def pictures(self, comparison: Comparison, details: dict[str, Result]) -> dict[str, Any]:
        charts, best = {}, details[comparison.best.name].details
        if "confusion" in best:
            charts["confusion"] = confusion_chart(
                best["confusion"]["classes"], best["confusion"]["counts"]
            )
        if any(result.details.get("reliability") for result in details.values()):
            charts["calibration"] = _calibration_chart(details)
        return charts

    def sections(
        self, page: Page, comparison: Comparison, details: dict[str, Result] | None
    ) -> None:
        if not details:
            return
        name = comparison.best.name
        best, charts = details[name].details, self.pictures(comparison, details)
        if "confusion" in charts:
            page.heading("Confusion")
            page.chart(
                charts["confusion"],
                "how often each class was taken for which; the errors below have the numbers",
            )
            page.text(
                f"{name} on the test part: rows are what is right, columns what it said.",
                kind="faint",
            )
        if "calibration" in charts:
            page.heading("Calibration")
            page.chart(charts["calibration"], "how often each was right against how sure it was")
            page.text(
                "Texts grouped by the probability of the predicted class, against how often that "
                "was right; on the dashed line a model is as sure as it may be, below it too sure.",
                kind="faint",
            )
        rows = best.get("classes") or best.get("tags") or []
        key = "class" if "classes" in best else "tag"
        if rows:
            page.heading(f"Each {key}")
            _scores(page, key, rows)
        if best.get("spans"):
            page.heading("Spans")
            _scores(page, "label", best["spans"])
        if best.get("errors"):
            page.heading("Errors")
            page.table(
                ["is", "taken for", "times", "for example"],
                [
                    [
                        error["gold"],
                        error["predicted"],
                        f"{error['count']:,}",
                        next((example["text"] for example in error["examples"]), ""),
                    ]
                    for error in best["errors"][:KINDS]
                ],
            )


def _calibration_chart(results: dict[str, Result]) -> Any:
    """Draw how often each model is right by the probability that it gives."""
    return reliability(
        {
            name: [
                Forecasts(
                    b["confidence"],
                    b["accuracy"],
                    *wilson(b["accuracy"] * b["count"], b["count"]),
                    b["count"],
                )
                for b in result.details.get("reliability", [])
            ]
            for name, result in results.items()
        }
    )


def _scores(page: Page, key: str, rows: list[dict[str, Any]]) -> None:
    page.table(
        [key, "precision", "recall", "F1", "there", "predicted"],
        [
            [
                row[key],
                *(f"{row[name]:.3f}" for name in ("precision", "recall", "f1")),
                f"{row['support']:,}",
                f"{row['predicted']:,}",
            ]
            for row in rows
        ],
    )


class ClassificationLadder(AnnotatedLadder):
    name, task, models = "classification", "classifier", "classifiers"
    measure = Measure("accuracy", "accuracy", "accuracy", lower=False, form=".1%")
    notes = (
        "Accuracy: share of the held-out texts classified correctly; the interval is a bootstrap "
        "over texts. Macro F1 is "
        "the mean of the F1 of all classes; calibration error, how far the probabilities are from "
        "how often the model is right."
    )
    size_unit, score_unit, unit_heading, resampled = "texts", "texts", "texts", "texts"
    overlapping, bundled, recognised = "the test texts", "data with labels", "the data has labels"
    data_class, as_data = Labelled, staticmethod(as_labelled)
    columns = (
        Column("macro F1", "macro_f1", ".3f"),
        Column("cal. error", "calibration_error", ".3f"),
    )
    commands: tuple[str, ...] = (
        "seqloom predict {path} FILE",
        'echo "some text" | seqloom predict {path} --proba',
    )
    python = 'seqloom.load({path}).predict("some text")'
    rungs: Sequence[Rung] = RUNGS

    def further_rung(self, name: str) -> Rung | None:
        if not has_encoder(name):
            return None
        return Rung(
            name, "network", "", unfitted("classifier", encoder=name), 0, f"the encoder {name}"
        )

    def recognises_file(self, path: Path) -> str:
        return labels_in(path)

    def recognises_values(self, data: Any) -> str:
        if has_labels(data):
            return "the frame has a column of labels"
        return "each text has a label" if _pairs(data, str) else ""

    def split(self, data: Labelled, valid: Labelled | None, test: Labelled | None) -> Parts:
        if data.multi_label:
            raise ConfigError(
                f"{data.name} has examples with several labels; only single-label data can be compared"
            )
        if data.pairs:
            raise ConfigError(
                f"{data.name} has pairs of texts, which only classifiers on a converted encoder "
                f"read; compare those with seqloom ab"
            )
        return super().split(data, valid, test)

    def cut(self, data: Labelled) -> Parts:
        train, held, last = (data.part(rows) for rows in hashed_parts(data.examples, FRACTIONS))
        return Parts(train, held, last, "80/10/10 by texts in hashed order, equal texts together")

    def units(self, data: Labelled) -> tuple[np.ndarray, np.ndarray, Sequence[bool]]:
        """Return texts in the order of their hashes, since files are often sorted by class; equal ones
        stay together.
        """
        order, may_begin = hashed_order(data.examples)
        return np.array(order, np.int64), np.ones(len(order)), may_begin

    def specialised_for(self, parts: Parts) -> Ladder:
        return self if isinstance(parts.train.examples[0], str) else NumberLadder()

    def overlap(self, parts: Parts) -> float:
        seen = {example_digest(example) for example in parts.train.examples}
        return sum(example_digest(example) in seen for example in parts.test.examples) / len(
            parts.test
        )

    def smaller(self, train: Labelled, part: int) -> Labelled | None:
        """Return the first examples; their order is unrelated to their classes where the data was
        split here.
        """
        some = super().smaller(train, part)
        return some if some is not None and len(some.classes) > 1 else None

    def refuses(self, model: Any) -> str:
        return "it predicts several labels for an example" if model.multi_label else ""

    def evaluate(self, model: Any, parts: Parts) -> Evaluation:
        test = parts.test
        start = time.perf_counter()
        log_probs = model.log_probs(test.examples)
        seconds = time.perf_counter() - start
        predicted = model.labels_of(np.exp(log_probs))
        if model.multi_label:
            return Evaluation(
                {}, _several_labels(test.labels, predicted), len(test), seconds, predicted
            )
        names, gold = list(map(str, model.classes)), list(map(str, test.labels))
        metrics, _, _ = classification.evaluate_labels(
            names, gold, [""] * len(test), log_probs, samples=0, examples=0
        )
        both = np.array([gold, list(map(str, predicted))]).T
        scores = [
            Score("accuracy", columns(both[:, 0] == both[:, 1])),
            Score("macro F1", both, macro_f1),
        ]
        if math.isfinite(metrics["nats_per_text"]):
            nats = [-min(row[names.index(label)], 0.0) for label, row in zip(gold, log_probs)]
            scores.append(Score("nats per text", columns(nats), better="lower"))
        measures = {
            key: metrics[key]
            for key in ("accuracy", "macro_f1", "nats_per_text", "calibration_error", "texts")
        }
        return Evaluation(measures, scores, len(test), seconds, predicted)

    def warm_up(self) -> None:
        texts = [("good fun", "+"), ("dull", "-"), ("good", "+"), ("so dull", "-")]
        for rung in [rung for rung in RUNGS[1:] if rung.work]:
            rung.make(Bench(None)).fit(texts).predict("good")


class NumberLadder(ClassificationLadder):
    """The ladder where the examples are series of numbers."""

    size_unit, score_unit, unit_heading = "series", "series", "series"
    overlapping = "the test series"
    commands = ("seqloom predict {path} FILE",)
    python = "seqloom.load({path}).predict([0.1, 0.4, 0.2])"
    rungs: Sequence[Rung] = (RUNGS[0], *NETWORKS)


def macro_f1(rows: np.ndarray) -> float:
    """Return the mean F1 of the classes that came or were predicted; rows of (gold, predicted), as
    numbers.
    """
    gold, predicted = rows.astype(np.int64).T
    size = int(rows.max()) + 1
    both = np.bincount(gold[gold == predicted], minlength=size)
    sums = np.bincount(gold, minlength=size) + np.bincount(predicted, minlength=size)
    return float((2 * both[sums > 0] / sums[sums > 0]).mean())


def _several_labels(gold: Sequence[Any], predicted: Sequence[Sequence[Any]]) -> list[Score]:
    sets = [
        (set(map(str, g if isinstance(g, tuple) else (g,))), set(map(str, p)))
        for g, p in zip(gold, predicted)
    ]
    return [
        Score(
            "micro F1",
            columns([2 * len(g & p) for g, p in sets], [len(g) + len(p) for g, p in sets]),
        ),
        Score("exact match", columns([g == p for g, p in sets])),
    ]


def _pairs(data: Any, kind: type) -> bool:
    """Return whether the data is a list of (text, label), or the pair of lists."""
    if isinstance(data, tuple) and len(data) == 2:
        return (
            all(isinstance(part, (list, np.ndarray)) for part in data)
            and len(data[0]) > 0
            and isinstance(data[0][0], kind)
        )
    if (
        not isinstance(data, list)
        or not data
        or not isinstance(data[0], (tuple, list))
        or len(data[0]) != 2
    ):
        return False
    return isinstance(data[0][0], kind) and not isinstance(data[0][1], (list, tuple))
