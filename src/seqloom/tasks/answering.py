"""Answerers: questions on contexts in, parts of the contexts out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from seqloom.config import Config, option
from seqloom.errors import ConfigError, quoted
from seqloom.tasks.classification import PREDICT
from seqloom.tasks.reading import rows_by, strict_option, two_texts
from seqloom.tasks.task import Outcome, Predicting, Task, Verb, shown

if TYPE_CHECKING:
    from seqloom.contracts import Answerer
    from seqloom.data.answering import Questions
    from seqloom.data.unlabelled import Row, Unlabelled


def _column(what: str) -> Any:
    return option(
        None, f"Tables: the column of the {what}s  [default: by its name].", metavar="NAME|N"
    )


@dataclass(frozen=True, kw_only=True)
class QuestionsReading(Config):
    question_column: str | None = _column("question")
    context_column: str | None = _column("context")
    answer_column: str | None = _column("answer")
    encoding: str = option("utf-8", "Encoding of the text files.")
    strict: bool = strict_option()


@dataclass(frozen=True, kw_only=True)
class AnswersEvaluation(Config):
    latency: bool = option(False, "Measure how long answers take.", negatable=False)


@dataclass(frozen=True, kw_only=True)
class AnsweringOptions(Predicting):
    """Options of `predict`."""

    question_column: str | None = _column("question")
    context_column: str | None = _column("context")


class Answering(Task):
    name, phrase = "answerer", "an answerer"
    data_help = (
        "questions on contexts: SQuAD's JSON, JSON Lines, or a table with the columns question, context, "
        "answer (empty: the context has none) and perhaps answer_start; none, or -, is standard input."
    )
    reading, evaluation, predicting = QuestionsReading, AnswersEvaluation, AnsweringOptions
    commands: ClassVar = {"predict": PREDICT}

    def verbs(self) -> dict[str, Verb]:
        help = "The part of the context that answers each question, if any does."
        return {"predict": self.prediction(help, "a question and its context, a list of two")}

    def example(self, model: Any, value: Any, at: int) -> tuple[str, str]:
        if (asked := self.watched(model, value)) is None:
            raise ConfigError(
                f"inputs[{at}] must be a question and its context, a list or {{question, context}}; "
                f"got {quoted(value)}",
                ["inputs"],
            )
        return asked[0], asked[1]

    def watched(self, model: Any, value: Any) -> list[str] | None:
        return two_texts(value, ("question", "context"))

    def read(self, paths: tuple[str, ...], reading: QuestionsReading) -> Questions:
        from seqloom.data.answering import read_questions

        return read_questions(list(paths) or ["-"], **reading.to_dict())

    def evaluate(
        self, model: Any, model_path: str, paths: tuple[str, ...], reading: Any, evaluation: Any
    ) -> Outcome:
        return shown(model.evaluate(self.read(paths, reading), latency=evaluation.latency))

    def reads_lines(self, model: Answerer, options: AnsweringOptions) -> bool:
        return False

    def unlabelled(
        self, model: Answerer, paths: tuple[str, ...], options: AnsweringOptions
    ) -> Unlabelled:
        from seqloom.data.answering_forms import rows_of

        if options.column is not None:
            raise ConfigError(
                "--column is for models that read single texts; an answerer reads questions on "
                "contexts: give --question-column and --context-column"
            )
        chosen = {"question": options.question_column, "context": options.context_column}
        return rows_by(lambda one: rows_of(one, chosen, options.keep), paths, options)

    def answerer(
        self, model: Answerer, options: AnsweringOptions
    ) -> Callable[[list[Row]], Iterator[Outcome]]:
        def answer(rows: list[Row]) -> Iterator[Outcome]:
            for row, found in zip(rows, model.predict([row.example for row in rows])):
                question = row.example[0]
                line = "\t".join(" ".join(text.split()) for text in (found.text, question))
                values = {
                    "answer": found.text,
                    "start": found.start,
                    "end": found.end,
                    "score": found.score,
                    "no_answer": found.no_answer,
                    "question": question,
                }
                yield Outcome(line, values)

        return answer

    def nothing(self, model: Answerer, row: Row, options: AnsweringOptions) -> Outcome:
        unknown = dict.fromkeys(("answer", "start", "end", "score", "no_answer"))
        return Outcome("\t", {**unknown, "question": (row.example or ("",))[0]})

    def examples(self, data: Questions) -> list[tuple[str, str]]:
        return data.pairs

    def observe(self, model: Answerer, texts: list[Any]) -> tuple[dict[str, Any], list[Any] | None]:
        answers = model.predict(texts)
        labels = [["an answer" if answer.text else "no answer"] for answer in answers]
        return super().observe(model, texts)[0], labels

    def use(self, model: Answerer) -> Callable[[Any], Any]:
        return lambda some: model.predict(some if isinstance(some, list) else [some])
