"""Questions with their contexts as rows that a network reads, and spans from what it answers.

A row is a question and a window of its context with marks around them, as BERT reads a pair (Devlin et al.
2019); an encoder that is trained here reads `</s>` in their place. A context that does not fit is read in
several windows that overlap. Such an encoder is also told which words of the context are in the question
(Weissenborn et al. 2017, "Making Neural QA as Simple as Possible but not Simpler"), which it would
otherwise have to learn from many more examples.

The first step of a row stands for "no answer in this window". So a row has a distribution over where the
answer begins and one over where it ends; of all windows the likeliest span is taken, and "no answer" is as
likely as in the window that believes in it least.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from seqloom.batching import offsets
from seqloom.contracts.answering import Found
from seqloom.data.answering_forms import Span
from seqloom.errors import ConfigError
from seqloom.models.answering.configs import NeuralAnswererConfig
from seqloom.models.classification.decisions import log_softmax
from seqloom.models.masked.inputs import Marks
from seqloom.models.sequence.inputs import LONGEST_WORD, Encoded, Spellings
from seqloom.models.sequence.published import Published
from seqloom.text.coding import Located
from seqloom.text.tokenizer import Tokenizer

QUESTION, CONTEXT, SHARED = 0, 1, 2  # types of steps


@dataclass(frozen=True)
class Windows:
    """Rows for the network; `allowed`, one of its steps' arrays, is where an answer may begin and end."""

    encoded: Encoded
    examples: np.ndarray  # (R,): the question of each row, in order
    starts: np.ndarray  # (N,): the first character of each step in its context
    stops: np.ndarray  # (N,)

    def targets(self, answers: Sequence[tuple[Span, ...]]) -> np.ndarray:
        """Return the steps of each row where its answer begins and ends, int64 (R, 2); both 0 where the
        window does not hold all of it.
        """
        out = np.zeros((len(self.examples), 2), np.int64)
        for row, example in enumerate(self.examples.tolist()):
            gold = next((span for span in answers[example] if span.start is not None), None)
            steps = self.steps(row)[1:]
            if gold is None or gold.start is None or not len(steps):
                continue
            begin, end = gold.start, gold.start + len(gold.text)
            over = steps[(self.stops[steps] > begin) & (self.starts[steps] < end)]
            inside = self.starts[steps[0]] <= begin and self.stops[steps[-1]] >= end
            if len(over) and inside:
                out[row] = over[[0, -1]] - self.encoded.row_offsets[row]
        return out

    def steps(self, row: int) -> np.ndarray:
        """Return the allowed steps of a row: its first, and those of the context."""
        begin, end = self.encoded.row_offsets[row : row + 2].tolist()
        return begin + np.flatnonzero(self.encoded.steps["allowed"][begin:end])

    def best(self, scores: np.ndarray, n_questions: int, max_answer: int) -> list[Found]:
        """Return the best span of each question from the scores (N, 2) of all steps."""
        spans = [Found(0, 0, -math.inf, 1.0)] * n_questions
        nothing = np.full(n_questions, math.inf)
        for row, example in enumerate(self.examples.tolist()):
            steps = self.steps(row)
            begins, ends = log_softmax(scores[steps].T.astype(np.float64))
            nothing[example] = min(nothing[example], begins[0] + ends[0])
            first, last, score = best_span(begins[1:], ends[1:], max_answer)
            if score > spans[example].score:
                start, stop = self.starts[steps[1 + first]], self.stops[steps[1 + last]]
                spans[example] = Found(int(start), int(stop), score, 0.0)
        return [
            span._replace(score=float(least), no_answer=1.0)
            if span.score == -math.inf
            else span._replace(no_answer=math.exp(least - np.logaddexp(least, span.score)))
            for span, least in zip(spans, nothing.tolist())
        ]


def best_span(begins: np.ndarray, ends: np.ndarray, most: int) -> tuple[int, int, float]:
    """Return the first and last step of the span of at most so many steps with the largest sum, and this.

    >>> best_span(np.array([-1.0, -5.0, -2.0]), np.array([-4.0, -9.0, -1.0]), 2)
    (2, 2, -3.0)
    """
    first, last, best = 0, 0, -math.inf
    for longer in range(min(most, len(begins))):
        sums = begins[: len(begins) - longer] + ends[longer:]
        at = int(sums.argmax())
        if sums[at] > best:
            first, last, best = at, at + longer, float(sums[at])
    return first, last, best


class WindowInputs:
    """How questions and contexts become windows."""

    def __init__(
        self,
        c: NeuralAnswererConfig,
        tokenizer: Tokenizer,
        published: Published | None,
        characters: Sequence[str] | None = None,
    ) -> None:
        self.tokenizer, self.published, self.overlap = tokenizer, published, c.overlap
        eos = tokenizer.eos_id
        self.marks = Marks(eos, eos, 0, None, 1) if published is None else published.marks
        self.longest = c.max_length
        if published is not None:
            self.longest = min(c.max_length, published.layout.context)
        self.around = self.marks.around(2)
        if self.longest < self.around + 6:
            raise ConfigError(
                f"the encoder reads {self.longest} tokens at once, too few for a question, a context "
                f"and {self.around} marks"
            )
        self.characters = (
            None if characters is None else {char: i for i, char in enumerate(characters, 2)}
        )
        self._located: dict[str, Located] = {}

    @property
    def longest_question(self) -> int:
        """Return the number of tokens of a question that are read."""
        return (self.longest - self.around) // 3

    def encode(self, pairs: Sequence[tuple[str, str]]) -> Windows:
        """Return all windows of all contexts, each with its question."""
        rows: list[_Row] = []
        examples: list[int] = []
        for number, (question, context) in enumerate(pairs):
            some = self._windows(question, context)
            rows += some
            examples += [number] * len(some)
        self._located.clear()
        columns = [
            np.concatenate(part) if part else np.zeros(0, np.int64) for part in _across(rows)
        ]
        ids, types, allowed, starts, stops = columns
        steps = {"ids": ids, "types": types, "allowed": allowed.astype(bool)}
        spellings = None
        if self.characters is not None:
            steps["words"], spellings = self._spellings(rows)
        row_offsets = offsets([len(row.ids) for row in rows])
        encoded = Encoded(steps, row_offsets, spellings)
        return Windows(encoded, np.array(examples, np.int64), starts, stops)

    def _locate(self, text: str) -> Located:
        if text not in self._located:
            self._located[text] = self.tokenizer.locate(text)
        return self._located[text]

    def _windows(self, question: str, context: str) -> list[_Row]:
        asked, found = self._locate(question), self._locate(context)
        asked = Located(*(part[: self.longest_question] for part in asked))
        room = self.longest - self.around - len(asked.ids)
        step = max(room - (room // 3 if self.overlap is None else self.overlap), 1)
        n = len(found.ids)
        begins = range(0, max(n - room, 0) + step, step)
        shared = self._shared(question, asked, context, found)
        visible = np.array(
            [bool(context[a:b].strip()) for a, b in zip(found.starts, found.stops)], bool
        )
        return [
            self._row(
                question,
                asked,
                context,
                Located(*(part[a : a + room] for part in found)),
                shared[a : a + room],
                visible[a : a + room],
            )
            for a in begins
        ]

    def _shared(self, question: str, asked: Located, context: str, found: Located) -> np.ndarray:
        """Return whether each token of the context is spelled like a word of the question."""
        if self.published is not None:
            return np.zeros(len(found.ids), bool)
        words = {word for word in _spelled(question, asked, lower=True) if word.isalnum()}
        return np.array([word in words for word in _spelled(context, found, lower=True)], bool)

    def _row(
        self,
        question: str,
        asked: Located,
        context: str,
        found: Located,
        shared: np.ndarray,
        visible: np.ndarray,
    ) -> _Row:
        n_types = 2 if self.published is None else self.published.layout.n_types
        joined = self.marks.join((asked.ids, found.ids), n_types)
        types, first = joined.types, len(joined.ids) - 1 - len(found.ids)
        inside = slice(first, first + len(found.ids))
        if self.published is None:
            types = np.full(len(joined.ids), QUESTION, np.int64)
            types[inside] = np.where(shared, SHARED, CONTEXT)
        allowed, starts, stops = np.zeros((3, len(joined.ids)), np.int64)
        allowed[0] = 1
        # White space around a token is no part of an answer.
        trimmed = [_trimmed(context, a, b) for a, b in zip(found.starts, found.stops)]
        allowed[inside] = visible
        starts[inside], stops[inside] = np.array(trimmed, np.int64).reshape(-1, 2).T
        words: list[str] = []
        if self.characters is not None:
            between = [""] * (first - 1 - len(asked.ids))
            words = ["", *_spelled(question, asked), *between, *_spelled(context, found), ""]
        return _Row(joined.ids, types, allowed, starts, stops, words)

    def _spellings(self, rows: Sequence[_Row]) -> tuple[np.ndarray, Spellings]:
        assert self.characters is not None
        words = [word for row in rows for word in row.words]
        different = {word: i for i, word in enumerate(dict.fromkeys(words))}
        return (
            np.array([different[word] for word in words], np.int64),
            Spellings.of(list(different), self.characters, LONGEST_WORD),
        )


@dataclass(frozen=True)
class _Row:
    ids: np.ndarray
    types: np.ndarray
    allowed: np.ndarray
    starts: np.ndarray
    stops: np.ndarray
    words: list[str]  # where spellings are read


def _across(rows: Sequence[_Row]) -> list[list[np.ndarray]]:
    names = ("ids", "types", "allowed", "starts", "stops")
    return [[getattr(row, name) for row in rows] for name in names]


def _spelled(text: str, found: Located, *, lower: bool = False) -> list[str]:
    words = [text[a:b].strip() for a, b in zip(found.starts, found.stops)]
    return [word.lower() for word in words] if lower else words


def _trimmed(text: str, start: int, stop: int) -> tuple[int, int]:
    """Return the characters of a token without white space around them.

    >>> _trimmed("to be", 2, 5)
    (3, 5)
    """
    piece = text[start:stop]
    begin = start + len(piece) - len(piece.lstrip())
    return begin, max(begin, stop - (len(piece) - len(piece.rstrip())))
