"""Sentence vectors: texts in, a vector for each of them out; judged by pairs of texts that people
have judged.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from seqloom.errors import ConfigError
from seqloom.tasks.task import Command, Outcome, Task, TextReading, read_text, shown
from seqloom.tasks.word_vectors import VectorEvaluation

if TYPE_CHECKING:
    from seqloom.contracts import TextEmbedder


class SentenceVectorsTask(Task):
    name, phrase = "sentence vectors", "sentence vectors"
    data, data_help = (
        "TEXT",
        "files, directories or patterns, a text a line; none, or -, is standard input.",
    )
    valid_help = "Pairs of texts with scores to evaluate the vectors on after fitting."
    reading, evaluation = TextReading, VectorEvaluation
    commands: ClassVar = {
        "nearest": Command(
            "seqloom.cli.nearest:command", "Words near a word, or texts near a text."
        ),
        "embed": Command("seqloom.cli.embed:command", "Vectors of words, phrases and texts."),
    }

    read = staticmethod(read_text)

    def read_valid(self, path: str, reading: TextReading) -> Any:
        from seqloom.metrics.sentence_vectors import as_pairs

        return as_pairs(Path(path))

    def evaluate(
        self,
        model: TextEmbedder,
        place: str,
        paths: tuple[str, ...],
        reading: TextReading,
        evaluation: VectorEvaluation,
    ) -> Outcome:
        if evaluation.on is None:
            raise ConfigError(
                f"{place} holds sentence vectors; give --on FILE with pairs of texts and scores"
            )
        if paths or reading != TextReading():
            raise ConfigError(
                "sentence vectors are evaluated on --on FILE only; leave out TEXT and other options"
            )
        return shown(model.evaluate(Path(evaluation.on)))

    def converted(self, model: TextEmbedder) -> Outcome:
        return Outcome(model.summary(), {"model": model.name, "dimensions": model.dimensions})
