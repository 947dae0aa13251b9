"""Answers to questions that are parts of a context, or none.

An answerer writes `find_spans(pairs)`: of each question and its context the best span, how likely it is,
and how likely it is that there is no answer. If that is above a threshold, which is chosen on held-out
questions, the answer is empty.
"""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from seqloom import progress
from seqloom.contracts.base import Model
from seqloom.contracts.fitting import FitOptions
from seqloom.contracts.reading import each_batch
from seqloom.contracts.saving import Kind
from seqloom.data.answering import Questions, as_questions
from seqloom.data.examples import is_column, values
from seqloom.errors import DataError, quoted
from seqloom.metrics.answering import answer_scores, best_threshold, evaluate_answers
from seqloom.metrics.result import Result, Signature
from seqloom.metrics.result import latency as measure_latency
from seqloom.text.coding import to_bytes
from seqloom.text.file_names import refuse_existing_file

if TYPE_CHECKING:
    from seqloom.contracts.fitting import Train

BATCH = 500  # questions that are answered together
ALWAYS = 1.0  # the threshold of a model that has only seen questions with answers


class Found(NamedTuple):
    """What a model finds for a question."""

    start: int  # character of the context where the best span begins
    end: int  # and the one after its last; not after `start`: there is no span at all
    score: float  # log-probability of the span
    no_answer: float  # probability, against that span, that there is no answer


class Answer(NamedTuple):
    """The part of the context that answers a question; without one the text is empty."""

    text: str
    start: int | None  # its first character in the context
    end: int | None  # the one after its last
    score: float  # log-probability of this span; without one, of the best there is
    no_answer: float  # probability that there is no answer


def is_share(value: Any) -> bool:
    return type(value) is float and 0 <= value <= 1


class Answerer(Model):
    """Which part of a context answers a question, if any."""

    task: ClassVar[str] = "answerer"
    public_names = "predict evaluate threshold"
    primitives: ClassVar[tuple[str, ...]] = ("find_spans",)
    learnt_values: ClassVar[dict[str, Kind]] = {"threshold": is_share}

    @property
    def threshold(self) -> float:
        """Return the probability of no answer above which none is given."""
        return float(self.learnt.get("threshold", ALWAYS))

    # ---- what a model writes

    @abstractmethod
    def fit_questions(self, data: Questions, options: FitOptions) -> None:
        """Learn from questions with answers that stand in their contexts, and from those without."""

    @abstractmethod
    def find_spans(self, pairs: list[tuple[str, str]]) -> list[Found]:
        """Return what is found for each question and its context."""

    # ---- fitting

    def fit(
        self,
        data: Any,
        *,
        valid: Any = None,
        memory: int | str | None = None,
        train: Train = None,
        device: str | None = None,
        run: str | Path | None = None,
        start: str | Path | Model | None = None,
        **training: Any,
    ) -> Self:
        """Learn. `data`: a Questions, a Path, or a list of (question, context, answer), where the answer
        is None if the context has none.

        `start`: of a network, a saved model of the same kind, whose weights, tokenizer and options training
        starts from.
        """
        held = None if valid is None else as_questions(valid)
        options = self.fit_options(memory, train, device, run, held, start, training=training)
        questions = as_questions(data)
        known = questions.learnable()
        if len(known) == known.n_unanswerable:
            raise DataError(
                f"{questions.name} has no question whose answer stands in its context; give some"
            )
        with self.learning(options):
            self.learnt["threshold"] = 0.5 if known.n_unanswerable else ALWAYS
            self.fit_info = {
                "data": questions.name,
                "data_hash": questions.fingerprint[:16],
                "questions": len(questions),
                "unanswerable": questions.n_unanswerable,
            }
            self.fit_questions(known, options)
        return self

    def choose_threshold(self, data: Questions) -> None:
        """Choose when no answer is given, on held-out questions, some of which must have none."""
        if not 0 < data.n_unanswerable < len(data) or self.threshold == ALWAYS:
            return
        found = self._found(data.pairs)
        texts = [context[one.start : one.end] for context, one in zip(data.contexts, found)]
        self.learnt["threshold"] = best_threshold(
            np.array([one.no_answer for one in found]),
            answer_scores(data, texts)[:, 1],
            answer_scores(data, [""] * len(data))[:, 1],
        )

    # ---- the verbs

    def summary(self) -> str:
        counts = {what: self.recorded(what, 0) for what in ("questions", "unanswerable")}
        said = [
            f"{n:,} {what.removesuffix('s') if n == 1 else what}" for what, n in counts.items() if n
        ]
        return ", ".join(said) or f"threshold {self.threshold:.2f}"

    def predict(self, questions: Any, contexts: Any = None) -> Any:
        """Answer a question on a context, `predict(question, context)`; several, each with its context
        or all with one: `predict(questions, contexts)`; or a list of pairs: `predict(pairs)`.
        """
        self.check_fitted()
        single = isinstance(questions, str)
        pairs = _pairs([questions] if single else questions, contexts)
        answers = [self._answer(pair, found) for pair, found in zip(pairs, self._found(pairs))]
        return answers[0] if single else answers

    def _found(self, pairs: list[tuple[str, str]]) -> list[Found]:
        found: list[Found] = []
        with progress.task("answering", len(pairs), "questions") as bar:
            batches = [pairs[low : low + BATCH] for low in range(0, len(pairs), BATCH)]
            for some in each_batch(self, "find_spans", batches):
                found += some
                bar.advance(len(some))
        return found

    def _answer(self, pair: tuple[str, str], found: Found) -> Answer:
        start, end, score, no_answer = found
        if start >= end or no_answer > self.threshold:
            return Answer("", None, None, score, no_answer)
        return Answer(pair[1][start:end], start, end, score, no_answer)

    def evaluate(self, data: Any, *, latency: bool = False, samples: int = 1000) -> Result:
        """Compute exact match and F1 as SQuAD does; where some questions have no answer, also of those
        with and without one.

        `data`: as `fit` takes it. `latency`: how long answers take. `samples`: of the bootstrap, 0 for
        no intervals.
        """
        self.check_fitted()
        questions = as_questions(data)
        self.remark_training_data(questions.name, questions.fingerprint)
        given = [answer.text for answer in self.predict(questions.pairs)]
        metrics, details = evaluate_answers(questions, given, samples=samples)
        if latency:
            asked = questions.pairs
            metrics |= measure_latency(
                lambda some: self.predict(some if isinstance(some, list) else [some]), asked
            )
        return Result(metrics, self.signature(questions), (), details)

    def signature(self, data: Questions | None = None) -> Signature:
        """Return everything that the model's results depend on."""
        return Signature(
            model=self.label(),
            tokenizer=self.tokenizer_label(),
            data=data.fingerprint[:8] if data else None,
            extras={**self.training_extras(), "threshold": round(self.threshold, 4)},
        )


def _pairs(questions: Any, contexts: Any) -> list[tuple[str, str]]:
    """Return what `predict` was given as pairs of texts."""
    rows: list[Any] = values(questions, "questions")
    if contexts is not None:
        if isinstance(contexts, str):
            refuse_existing_file(contexts)
            contexts = [contexts] * len(rows)
        if not is_column(contexts) and not isinstance(contexts, tuple):
            raise DataError(f"contexts must be a text or a list of texts; got {quoted(contexts)}")
        texts = values(list(contexts) if isinstance(contexts, tuple) else contexts, "contexts")
        if len(texts) != len(rows):
            raise DataError(f"{len(rows)} questions and {len(texts)} contexts; give as many")
        rows = list(zip(rows, texts))
    for row in rows:
        if not (isinstance(row, (tuple, list)) and len(row) == 2) or not all(
            isinstance(text, str) for text in row
        ):
            raise DataError(
                "predict takes a question and its context, predict(question, context), or a list of "
                f"pairs of texts; got {quoted(row)}"
            )
        to_bytes(row[0] + row[1])
    return [(row[0], row[1]) for row in rows]
