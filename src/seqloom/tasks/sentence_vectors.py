"""Sentence vectors: texts in, a vector for each of them out; evaluated on pairs of texts with
human ratings of their similarity.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from seqloom.tasks.reading import TextReading
from seqloom.tasks.task import Command, Outcome
from seqloom.tasks.word_vectors import VectorsTask

if TYPE_CHECKING:
    from seqloom.contracts import TextEmbedder


class SentenceVectorsTask(VectorsTask):
    name, phrase = "sentence vectors", "sentence vectors"
    data, data_help = (
        "TEXT",
        "files, directories or patterns, a text a line; none, or -, is standard input.",
    )
    valid_help = "Pairs of texts with scores to evaluate the vectors on after fitting."
    questions = "pairs of texts and scores"
    commands: ClassVar = {
        "nearest": Command(
            "seqloom.cli.nearest:command", "Words near a word, or texts near a text."
        ),
        "embed": Command("seqloom.cli.embed:command", "Vectors of words, phrases and texts."),
    }

    def read_valid(self, path: str, reading: TextReading) -> Any:
        from seqloom.metrics.sentence_vectors import as_pairs

        return as_pairs(Path(path))

    def converted(self, model: TextEmbedder) -> Outcome:
        return Outcome(model.summary(), {"model": model.name, "dimensions": model.dimensions})
