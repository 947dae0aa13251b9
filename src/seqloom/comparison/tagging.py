"""Taggers compared: accuracy of words, or F1 of spans where the tags mark them, on the same
held-out sentences.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seqloom.charts.comparison import Measure
from seqloom.comparison.bench import Bench, Rung, unfitted
from seqloom.comparison.classification import AnnotatedLadder
from seqloom.comparison.ladder import FRACTIONS, Column, Evaluation, Ladder, Parts, Score, columns
from seqloom.data.recognise import tags_in
from seqloom.data.tagging import Tagged, as_tagged
from seqloom.encoder_table import has_encoder
from seqloom.metrics import tagging

RUNGS = (
    Rung(
        "most-frequent",
        "trivial",
        "",
        unfitted("most-frequent-tag"),
        1,
        "the most frequent tag of each word",
    ),
    Rung(
        "hmm-1",
        "hidden Markov",
        "",
        unfitted("hmm-tagger", order=1),
        3,
        "the previous tag, and suffix and shape of unknown words",
    ),
    Rung("hmm-2", "hidden Markov", "", unfitted("hmm-tagger", order=2), 3, "the previous two tags"),
    Rung(
        "bilstm",
        "network",
        "",
        unfitted("tagger", crf=False),
        0,
        "vectors of words and spellings, read from both ends",
    ),
    Rung(
        "bilstm-crf",
        "network",
        "",
        unfitted("tagger"),
        0,
        "tags that are chosen as a whole sequence",
    ),
)


class TaggingLadder(AnnotatedLadder):
    name, task, models = "tagging", "tagger", "taggers"
    measure = Measure("accuracy", "accuracy", "accuracy", lower=False, form=".2%")
    notes = (
        "Accuracy: share of the held-out words tagged correctly; the interval is a bootstrap over "
        "sentences. Known and "
        "unknown: the same of words that were in the training data and of those that were not; "
        "sentences: share of those without any error."
    )
    size_unit, score_unit, unit_heading, resampled = "words", "words", "words", "sentences"
    overlapping, bundled, recognised = "the test sentences", "data with tags", "the data has tags"
    data_class, as_data = Tagged, staticmethod(as_tagged)
    columns: tuple[Column, ...] = (
        Column("unknown", "unknown_accuracy", ".1%"),
        Column("known", "known_accuracy", ".1%"),
        Column("sentences", "sentence_accuracy", ".1%"),
    )
    commands = ("seqloom predict {path} FILE", 'echo "some words" | seqloom predict {path}')
    python = 'seqloom.load({path}).predict("some words")'
    rungs: Sequence[Rung] = RUNGS

    def further_rung(self, name: str) -> Rung | None:
        encoder = name.removesuffix("-crf")
        if not has_encoder(encoder):
            return None
        return Rung(
            name,
            "network",
            "",
            unfitted("tagger", encoder=encoder, crf=name != encoder),
            0,
            f"the encoder {encoder}",
        )

    def recognises_file(self, path: Path) -> str:
        return tags_in(path)

    def recognises_values(self, data: Any) -> str:
        if isinstance(data, tuple) and all(isinstance(path, Path) for path in data):
            return tags_in(data)
        first = data[0] if isinstance(data, list) and data else None
        both = (
            isinstance(first, (tuple, list))
            and len(first) == 2
            and all(isinstance(part, (list, tuple)) for part in first)
        )
        return "each word has a tag" if both else ""

    def specialised_for(self, parts: Parts) -> Ladder:
        return SpanLadder() if parts.train.scheme else self

    def cut(self, data: Tagged) -> Parts:
        first, second = (round(share * len(data)) for share in np.cumsum(FRACTIONS)[:2])
        return Parts(
            data.part(slice(0, first)),
            data.part(slice(first, second)),
            data.part(slice(second, len(data))),
            "contiguous 80/10/10 by sentences",
        )

    def units(self, data: Tagged) -> tuple[np.ndarray, np.ndarray, None]:
        """Return contiguous sentences: neighbours are often of the same document."""
        return np.arange(len(data)), np.array([len(words) for words in data.sentences]), None

    def size(self, part: Tagged) -> int:
        return part.n_words

    def overlap(self, parts: Parts) -> float:
        # Sentences of fewer than four words come again by chance.
        seen = {tuple(words) for words in parts.train.sentences if len(words) >= 4}
        sentences = [tuple(words) for words in parts.test.sentences if len(words) >= 4]
        return sum(words in seen for words in sentences) / len(sentences) if sentences else 0.0

    def evaluate(self, model: Any, parts: Parts) -> Evaluation:
        test, scheme = parts.test, model.learnt["scheme"]
        gold = test.converted(scheme) if test.scheme and scheme else test
        start = time.perf_counter()
        predicted = model.predict(gold.sentences)
        seconds = time.perf_counter() - start
        tagset = sorted({*model.learnt["tags"], *(tag for tags in predicted for tag in tags)})
        metrics, _, _ = tagging.evaluate_tags(
            gold, predicted, tagset, model.knows, samples=0, examples=0
        )
        first = self.measure.key
        measures = {first: metrics[first], **{k: v for k, v in metrics.items() if k != first}}
        return Evaluation(measures, self.scores(gold, predicted, model), gold.n_words, seconds)

    def scores(self, gold: Tagged, predicted: list[list[str]], model: Any) -> list[Score]:
        """By sentence, without empty ones: words that are right, and of these the unknown ones,
        where there are any.
        """
        pairs = [triple for triple in zip(gold.sentences, gold.tags, predicted) if triple[0]]
        right = [np.array(tags) == np.array(answer) for _, tags, answer in pairs]
        unknown = [np.array([not model.knows(word) for word in words]) for words, _, _ in pairs]
        scores = [
            Score("accuracy", columns([r.sum() for r in right], [len(r) for r in right])),
            Score(
                "accuracy of unknown words",
                columns(
                    [(r & u).sum() for r, u in zip(right, unknown)], [u.sum() for u in unknown]
                ),
            ),
        ]
        return scores if scores[1].rows[:, 1].any() else scores[:1]

    def warm_up(self) -> None:
        sentences = [(["the", "dog", "runs"], ["D", "N", "V"]), (["a", "cat"], ["D", "N"])]
        for rung in [rung for rung in RUNGS[1:] if rung.work]:
            rung.make(Bench(None)).fit(sentences).predict(["the", "cat"])


class SpanLadder(TaggingLadder):
    """The ladder where the tags mark spans, as for names and chunks."""

    measure = Measure("span_f1", "F1 of spans", "span F1", lower=False, form=".2%")
    notes = (
        "F1 of spans: harmonic mean of precision and recall of the spans, as conlleval counts "
        "them; the interval is a bootstrap over sentences."
    )
    columns = (
        Column("precision", "span_precision", ".1%"),
        Column("recall", "span_recall", ".1%"),
        Column("accuracy", "accuracy", ".2%"),
        Column("unknown", "unknown_accuracy", ".1%"),
    )

    def scores(self, gold: Tagged, predicted: list[list[str]], model: Any) -> list[Score]:
        """Twice the spans that are right, over the spans of both sides, before those of words."""
        assert gold.scheme is not None
        counts = tagging.span_counts(gold.tags, predicted, gold.scheme).astype(np.float64)
        return [Score("span F1", counts), *super().scores(gold, predicted, model)]
