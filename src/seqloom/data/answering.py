"""Questions on contexts, with the parts of the context that answer them; some contexts have no answer.

>>> data = Questions.of([("Who sat?", "The cat sat.", "The cat"), ("Who ran?", "The cat sat.", None)])
>>> data.answers, data.n_unanswerable
([(Span(text='The cat', start=0),), ()], 1)
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from seqloom import progress
from seqloom.data.answering_forms import Asked, Span, of_object, read_asked, spans_of
from seqloom.data.classification import Source, dataset_name
from seqloom.data.examples import digest, refuse_name, values
from seqloom.data.showing import questions_line
from seqloom.data.sources import find_documents
from seqloom.errors import DataError
from seqloom.text.coding import to_bytes


@dataclass(frozen=True)
class Questions:
    """Questions, the context of each, and its answers: none, one, or several that are equally right."""

    questions: list[str]
    contexts: list[str]
    answers: list[tuple[Span, ...]]
    name: str = "questions"

    @classmethod
    def of(cls, data: Any, *, name: str = "questions") -> Questions:
        """Build from (question, context, answer), the answer a text, several, or None; or from objects
        with these keys.
        """
        asked = []
        for number, row in enumerate(values(data, name), 1):
            location = f"question {number} of {name}"
            if isinstance(row, dict):
                asked.append(of_object(row, number, location))
                continue
            if (
                not isinstance(row, (tuple, list))
                or len(row) != 3
                or not all(isinstance(text, str) for text in row[:2])
            ):
                raise DataError(
                    f"{location} must be (question, context, answer), where the answer is None if the "
                    "context has none"
                )
            found = spans_of(row[2], None, row[1], location)
            asked.append(Asked(row[0], row[1], found, number, location))
        return cls.from_asked(asked, name)

    @classmethod
    def from_asked(cls, asked: Sequence[Asked], name: str) -> Questions:
        """Build from rows that were read; refuse those of which no answer is known."""
        if not asked:
            raise DataError(f"{name} has no question; give some")
        lost = 0
        for one in asked:
            to_bytes(one.question + one.context)  # refuses lone surrogates
            if one.answers is None:
                raise DataError(
                    f"{one.place}: no answer; give the column answer, empty where the context has none"
                )
            lost += bool(one.answers) and all(span.start is None for span in one.answers)
        if lost:
            progress.say(
                f"{name}: the answers of {lost:,} of {len(asked):,} questions are not in their context; "
                "nothing is learnt from these"
            )
        return cls(
            [one.question for one in asked],
            [one.context for one in asked],
            [one.answers or () for one in asked],
            name,
        )

    __repr__ = questions_line

    def __len__(self) -> int:
        return len(self.questions)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Return each question with its context."""
        return list(zip(self.questions, self.contexts))

    @property
    def n_unanswerable(self) -> int:
        """Return how many questions have no answer in their context."""
        return sum(not answers for answers in self.answers)

    @property
    def texts(self) -> list[str]:
        """Return the questions, and every context once."""
        return [*self.questions, *dict.fromkeys(self.contexts)]

    @cached_property
    def fingerprint(self) -> str:
        """Return the SHA-256 of questions, contexts and answers."""
        hasher = hashlib.sha256(digest(self.questions) + digest(self.contexts))
        counts = np.fromiter(map(len, self.answers), "<i8", len(self))
        hasher.update(counts.tobytes())
        every = [span for answers in self.answers for span in answers]
        hasher.update(digest([span.text for span in every]))
        starts = [-1 if span.start is None else span.start for span in every]
        hasher.update(np.array(starts, "<i8").tobytes())
        return hasher.hexdigest()

    def part(self, rows: Sequence[int] | np.ndarray | slice) -> Questions:
        """Return some of the questions, by number, mask or slice."""
        chosen = np.arange(len(self))[rows].tolist()
        return replace(
            self,
            questions=[self.questions[i] for i in chosen],
            contexts=[self.contexts[i] for i in chosen],
            answers=[self.answers[i] for i in chosen],
        )

    def learnable(self) -> Questions:
        """Return the questions whose answer stands in the context, and those without an answer."""
        keep = [
            i
            for i, answers in enumerate(self.answers)
            if not answers or any(span.start is not None for span in answers)
        ]
        return self if len(keep) == len(self) else self.part(np.array(keep, np.int64))


def read_questions(
    source: Source,
    *,
    question_column: str | None = None,
    context_column: str | None = None,
    answer_column: str | None = None,
    encoding: str = "utf-8",
    strict: bool = False,
) -> Questions:
    """Read questions with answers from a file, several files, a directory, a pattern, or `-` for
    standard input: SQuAD's JSON, JSON Lines, or a table with columns of questions, contexts, answers
    and, if known, `answer_start`.
    """
    sources = [source] if isinstance(source, (str, Path)) else list(source)
    documents = [
        document for path in sources for document in find_documents(path, encoding, strict=strict)
    ]
    if not documents:
        raise DataError("the list of files is empty; name at least one")
    chosen = {"question": question_column, "context": context_column, "answer": answer_column}
    asked = [
        one for document in documents for group in read_asked(document, chosen) for one in group
    ]
    return Questions.from_asked(asked, dataset_name(source, [one.name for one in documents]))


def as_questions(data: Any) -> Questions:
    """Convert what `fit` and `evaluate` of an answerer accept: a Questions, a Path or several, or a list
    of (question, context, answer) or of objects.
    """
    if isinstance(data, str):
        refuse_name(data, "seqloom.read_questions")
    if isinstance(data, Questions):
        return data
    are_paths = isinstance(data, (tuple, list)) and {isinstance(one, Path) for one in data} == {
        True
    }
    if isinstance(data, Path) or are_paths:
        return read_questions(data)
    if isinstance(data, (str, bytes, dict)) or not isinstance(data, Iterable):
        raise DataError(
            f"cannot read questions from a {type(data).__name__}; give a list of (question, context, "
            "answer), a Path, or what read_questions returns"
        )
    return Questions.of(data)
