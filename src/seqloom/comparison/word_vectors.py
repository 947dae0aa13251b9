"""Word vectors compared: trained on the same text, and asked the same analogies or similarities.

The first file of questions decides; the others are further columns. A question of which a model
lacks a word is left out, and a difference counts those that both models could answer.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from seqloom.charts.comparison import Measure
from seqloom.comparison.bench import Attempt, Bench, NotPossible, Rung, unfitted
from seqloom.comparison.ladder import Column, Evaluation, Ladder, Parts, Score, Trial
from seqloom.data.corpus import Corpus, as_corpus, bundled
from seqloom.errors import ConfigError, DataError
from seqloom.metrics import bootstrap
from seqloom.metrics.word_vectors import Questions, as_questions, ranks, spearman

if TYPE_CHECKING:
    from seqloom.charts.page import Page
    from seqloom.comparison.result import Comparison

SAMPLES = 1000  # of the bootstrap
MIN_CURVE_BYTES = 10_000  # bytes of training text of a point of the learning curve


_seeded = partial(unfitted, seeded=True)
RUNGS = (
    Rung(
        "cbow",
        "word2vec",
        "",
        _seeded("word2vec", architecture="cbow"),
        5,
        "the mean of its neighbours predicts a word",
    ),
    Rung("skip-gram", "word2vec", "", _seeded("word2vec"), 25, "each neighbour predicts the word"),
    Rung(
        "charngram",
        "spelling",
        "",
        _seeded("charngram"),
        50,
        "vectors from spelling alone, also for unseen words",
    ),
    Rung("fasttext", "spelling", "", _seeded("fasttext"), 50, "words and their spelling"),
    Rung("glove", "GloVe", "", _seeded("glove"), 50, "vectors from word co-occurrence counts"),
)


@dataclass(frozen=True)
class Asked:
    """The files of questions."""

    files: tuple[Questions, ...]

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(" ".join(one.fingerprint for one in self.files).encode()).hexdigest()

    @property
    def name(self) -> str:
        return ", ".join(one.name for one in self.files)


class VectorLadder(Ladder):
    """Analogies: the share that is answered right."""

    name, task, models = "vectors", "word vectors", "word vectors"
    measure = Measure("accuracy", "accuracy of analogies", "analogies", lower=False, form=".1%")
    notes = (
        "Analogies: share of the questions whose answer is right, among the 30,000 most frequent "
        "words; similarities: "
        "rank correlation (Spearman) with human scores. Questions with a word that has no vector "
        "are skipped: missing. The interval is a bootstrap over questions."
    )
    data_word, size_unit, score_unit, unit_heading = "text", "bytes", "questions", "questions"
    test_unit, learn_unit, learn_heading, resampled = "questions", "bytes", "B", "questions"
    commands = ("seqloom nearest {path} WORD", "seqloom analogy {path} man king woman")
    python = 'seqloom.load({path}).nearest("word")'
    rungs: Sequence[Rung] = RUNGS

    def __init__(self, columns: tuple[Column, ...] = ()) -> None:
        self.columns = columns

    def recognises(self, data: Any) -> str:
        return ""  # any text would do, so they must be asked for

    def read(self, data: Any) -> Corpus:
        return bundled() if data is None else as_corpus(data)

    def read_held_out(self, data: Any) -> Asked:
        """One file of questions, or several."""
        return (
            data
            if isinstance(data, Asked)
            else Asked(tuple(map(as_questions, data if isinstance(data, list) else [data])))
        )

    def folds(self, data: Corpus, n: int | None) -> list[Parts]:
        raise ConfigError(
            "word vectors are evaluated on questions, not on held-out text; give a file of analogies or "
            "similarities (valid=...) and no folds"
        )

    def split(self, data: Corpus, valid: Any, test: Any) -> Parts:
        if test is None or valid is not None:
            raise ConfigError(
                "word vectors are compared on files of analogies or similarities: give "
                "test=[Path(...)] and no other held-out data"
            )
        return Parts(data, None, test, f"asked {test.name}")

    def specialised_for(self, parts: Parts) -> Ladder:
        first, *others = parts.test.files
        columns = (
            *(
                Column(_short(one), one.name, ".1%" if one.kind == "analogies" else ".3f")
                for one in others
            ),
            Column("missing", "missing", ","),
        )
        return SimilarityLadder(columns) if first.kind == "similarity" else VectorLadder(columns)

    def size(self, part: Any) -> int:
        if isinstance(part, Asked):
            return sum(len(one.pairs) + sum(map(len, one.sections.values())) for one in part.files)
        return part.n_bytes or 0

    def smaller(self, train: Corpus, part: int) -> Corpus | None:
        beginning = (
            train.beginning(1 / part) if (train.n_bytes or 0) // part >= MIN_CURVE_BYTES else None
        )
        return (
            beginning
            if beginning is not None and (beginning.n_bytes or 0) >= MIN_CURVE_BYTES
            else None
        )

    def signature(self, model: Any, parts: Parts) -> str:
        return str(model.signature(parts.test.fingerprint))

    def evaluate(self, model: Any, parts: Parts) -> Evaluation:
        first, *others = parts.test.files
        start = time.perf_counter()
        outcomes = model.outcomes(first)
        seconds = time.perf_counter() - start
        if np.count_nonzero(~np.isnan(outcomes)) < 2:
            raise NotPossible(
                f"it has vectors for the words of fewer than two questions of {first.name}"
            )
        gold = (
            np.array([score for _, _, score in first.pairs])
            if first.pairs
            else np.ones(len(outcomes))
        )
        more = {one.name: next(iter(model.evaluate(one).metrics.values())) for one in others}
        missing = int(np.count_nonzero(np.isnan(outcomes)))
        score = Score("analogies", np.stack([outcomes, gold], axis=1))
        measures = {
            self.measure.key: self.value(score.rows),
            **more,
            "missing": missing,
            "questions": len(outcomes),
        }
        return Evaluation(measures, [score], len(outcomes), seconds)

    def value(self, rows: np.ndarray) -> float:
        """Return the measure; questions without an answer are left out."""
        return float(np.nanmean(rows[:, 0]))

    def interval(self, rows: np.ndarray) -> tuple[float, float]:
        return super().interval(rows[~np.isnan(rows[:, 0])])

    def difference(self, a: np.ndarray, b: np.ndarray) -> bootstrap.Paired:
        """Of the questions that both could answer."""
        answered = ~np.isnan(a[:, 0]) & ~np.isnan(b[:, 0])
        if np.count_nonzero(answered) < 2:
            return bootstrap.Paired(math.nan, math.nan, math.nan, math.nan)
        return self.paired(a[answered], b[answered])

    def paired(self, a: np.ndarray, b: np.ndarray) -> bootstrap.Paired:
        return bootstrap.paired_rows(a, b)

    def trial(self, attempts: Sequence[Attempt], parts: Parts, **fit: Sequence[Any]) -> Trial:
        """Count what a model cannot answer as wrong, and say so."""
        (pair,) = super().trial(attempts, parts, **fit).scores
        missing = [int(np.isnan(score.rows).sum()) for score in pair]
        first, second = (score._replace(rows=np.nan_to_num(score.rows)) for score in pair)
        note = (
            "questions with a word without a vector count as wrong: "
            f"{missing[0]:,} for A, {missing[1]:,} for B"
        )
        return Trial([(first, second)], (), (note,) if any(missing) else ())

    def warm_up(self) -> None:
        text = "the king and the queen saw the man and the woman\n" * 3
        for rung in RUNGS:
            model = rung.make(Bench(None))
            type(model)(min_count=1, dimensions=4, epochs=1, seed=0).fit(text)

    # ---- the report

    def sections(self, page: Page, comparison: Comparison, details: Any) -> None:
        if comparison.bench is None or not (first := comparison.test.files[0]).sections:
            return
        page.heading("Analogies by section")
        tables = {
            r.name: comparison.fitted[r.name].evaluate(first).details["sections"]
            for r in comparison.results
        }
        page.table(
            ["section", *tables],
            [
                [name, *(_share(rows[i]["accuracy"]) for rows in tables.values())]
                for i, name in enumerate(first.sections)
            ],
        )


class SimilarityLadder(VectorLadder):
    """Similarities: how the order of the pairs agrees with people's."""

    measure = Measure("spearman", "rank correlation", "spearman", lower=False)
    resampled = "pairs"

    def value(self, rows: np.ndarray) -> float:
        return spearman(*rows[~np.isnan(rows[:, 0])].T)

    def interval(self, rows: np.ndarray) -> tuple[float, float]:
        answered = rows[~np.isnan(rows[:, 0])]
        rng, n = np.random.default_rng(0), len(answered)
        low, high = np.quantile(
            [spearman(*answered[rng.integers(0, n, n)].T) for _ in range(SAMPLES)], [0.025, 0.975]
        )
        return float(low), float(high)

    def paired(self, a: np.ndarray, b: np.ndarray) -> bootstrap.Paired:
        return bootstrap.paired_statistic(_ranked(a), _ranked(b), bootstrap.correlation)

    def trial(self, attempts: Sequence[Attempt], parts: Parts, **fit: Sequence[Any]) -> Trial:
        """Leave out the pairs that one of the models cannot answer, and say so."""
        ((first, second),) = Ladder.trial(self, attempts, parts, **fit).scores
        answered = ~np.isnan(first.rows[:, 0]) & ~np.isnan(second.rows[:, 0])
        if answered.sum() < 2:
            raise DataError(
                f"{parts.test.name}: fewer than two pairs have vectors in both models; nothing can "
                f"be compared"
            )
        a, b = (
            Score("Spearman", _ranked(score.rows[answered]), bootstrap.correlation)
            for score in (first, second)
        )
        return Trial(
            [(a, b)],
            (),
            ()
            if answered.all()
            else (f"{(~answered).sum():,} pairs were skipped: a word has no vector",),
        )


def _ranked(rows: np.ndarray) -> np.ndarray:
    """Return the ranks of both columns."""
    return np.stack([ranks(column) for column in rows.T], axis=1)


def _short(questions: Questions) -> str:
    return Path(questions.name).stem[:14]


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
