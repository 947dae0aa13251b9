"""Word vectors: text in, a vector for each word out; evaluated on questions instead of held-out text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from seqloom.config import Config, option
from seqloom.errors import ConfigError, quoted
from seqloom.tasks.reading import TextReading, read_text
from seqloom.tasks.task import Command, Outcome, Task, Verb, shown, texts_in


@dataclass(frozen=True, kw_only=True)
class VectorEvaluation(Config):
    on: str | None = option(
        None,
        "For word vectors: analogies (Google's format) or word pairs with similarities; for "
        "sentence vectors: pairs of texts with similarities, separated by tabs.",
        metavar="FILE",
    )


@dataclass(frozen=True, kw_only=True)
class Neighbours(Config):
    """Options of a request for neighbours."""

    number: int = option(10, "Number of neighbours.", minimum=1, maximum=10_000)
    among: tuple[str, ...] = option(
        (), "Only among these texts, which sentence vectors need.", metavar="TEXT,.."
    )


def _find_nearest(model: Any, inputs: list[Any], options: Neighbours) -> Iterator[dict[str, Any]]:
    texts, among = texts_in(inputs), list(options.among) or None
    for text, neighbours in zip(texts, model.nearest(texts, options.number, among=among)):
        yield {"text": text, "nearest": [{"text": near, "cosine": cos} for near, cos in neighbours]}


@dataclass(frozen=True, kw_only=True)
class Analogies(Config):
    """Options of a request for analogies."""

    number: int = option(10, "Number of answers.", minimum=1, maximum=10_000)
    method: Literal["add", "mul"] = option(
        "add", "The nearest to b - a + c, or the largest cos(b) cos(c) / cos(a)."
    )


def _find_analogies(model: Any, inputs: list[Any], options: Analogies) -> Iterator[dict[str, Any]]:
    for at, three in enumerate(inputs):
        a, b, c = _words(three, at, 3, "three words a, b, c: b is to a as what is to c?")
        found = model.analogy(a, b, c, options.number, method=options.method)
        answers = [{"text": word, "score": score} for word, score in found]
        yield {"question": f"{a} : {b} = {c} : ?", "answers": answers}


def _find_similarities(model: Any, inputs: list[Any], options: Config) -> Iterator[dict[str, Any]]:
    for at, two in enumerate(inputs):
        a, b = _words(two, at, 2, "two words or texts")
        yield {"texts": [a, b], "cosine": float(model.similarity(a, b))}


def _words(value: Any, at: int, count: int, wanted: str) -> list[str]:
    """Return the words of an input that is a list of so many."""
    if (
        not isinstance(value, list)
        or len(value) != count
        or not all(isinstance(one, str) for one in value)
    ):
        raise ConfigError(
            f"inputs[{at}] must be a list of {wanted}; got {quoted(value)}", ["inputs"]
        )
    return value


class VectorsTask(Task):
    """Vectors of words or texts, which are evaluated on a file of questions."""

    def verbs(self) -> dict[str, Verb]:
        help = "Words near a word, or of the texts `among` those near a text."
        names = ("number", "among")
        return {
            "nearest": Verb(_find_nearest, help, "a word or a text", Neighbours, names),
            "similarity": Verb(
                _find_similarities, "The cosine of each pair.", "a list of two words or texts"
            ),
        }

    reading, evaluation = TextReading, VectorEvaluation
    questions: ClassVar[str]

    read = staticmethod(read_text)

    def examples(self, data: Any) -> list[str]:
        return [line for line in data.lines() if line.strip()]

    def evaluate(
        self,
        model: Any,
        model_path: str,
        paths: tuple[str, ...],
        reading: TextReading,
        evaluation: VectorEvaluation,
    ) -> Outcome:
        if evaluation.on is None:
            raise ConfigError(
                f"{model_path} holds {self.name}; give --on FILE with {self.questions}"
            )
        if paths or reading != TextReading():
            raise ConfigError(
                f"{self.name} are evaluated on --on FILE only; leave out TEXT and other options"
            )
        return shown(model.evaluate(Path(evaluation.on)))


class WordVectorsTask(VectorsTask):
    name, phrase = "word vectors", "word vectors"
    ladder = "seqloom.comparison.word_vectors:VectorLadder"
    data, data_help = "TEXT", "files, directories or patterns; none, or -, is standard input."
    valid_help = "Analogies or word similarities to evaluate the vectors on after fitting."
    questions = "analogies or similarities"
    file_forms = ("word2vec", "word2vec-binary", "glove", "fasttext")
    commands: ClassVar = {
        "nearest": Command(
            "seqloom.cli.nearest:command", "Words near a word, or texts near a text."
        ),
        "analogy": Command("seqloom.cli.analogy:command", "A is to B as C is to what?"),
        "embed": Command("seqloom.cli.embed:command", "Vectors of words, phrases and texts."),
        "bias": Command(
            "seqloom.cli.bias:command", "How far word vectors lean, and debiased ones."
        ),
        "inspect neighbours": Command(
            "seqloom.cli.vector_views:neighbours_command", "A word, its nearest words, and theirs."
        ),
        "inspect word-map": Command(
            "seqloom.cli.vector_views:word_map_command", "Words as points of a plane."
        ),
        "inspect analogies": Command(
            "seqloom.cli.vector_views:analogies_command", "Pairs of words as arrows."
        ),
        "inspect leaning": Command(
            "seqloom.cli.vector_views:leaning_command", "How far words lean along a direction."
        ),
    }

    def verbs(self) -> dict[str, Verb]:
        analogy = Verb(
            _find_analogies,
            "What is to c as b is to a.",
            "a list of three words a, b, c",
            Analogies,
            ("number", "method"),
        )
        return super().verbs() | {"analogy": analogy}

    def read_valid(self, path: str, reading: TextReading) -> Any:
        from seqloom.metrics.word_vectors import as_questions

        return as_questions(Path(path))

    foreign_forms: ClassVar[tuple[str, ...]] = ("fasttext", "vectors")

    def open_file(self, path: Path) -> Any:
        from seqloom.interop.vectors import read_vectors

        return read_vectors(path)

    def write_file(self, model: Any, model_path: str, target: str, form: str | None) -> None:
        from seqloom.interop.vectors import write_vectors

        write_vectors(model.vectors, target, form or "word2vec")  # type: ignore[arg-type]

    def converted(self, model: Any) -> Outcome:
        return Outcome(
            model.summary(), {"words": len(model.vectors), "dimensions": model.vectors.dimensions}
        )
