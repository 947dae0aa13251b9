"""Taggers: sentences with a tag for each word in, tags out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from seqloom.config import Config, option
from seqloom.tasks.classification import PREDICT, ROBUSTNESS, Perturbing, SliceEvaluation
from seqloom.tasks.task import Outcome, Predicting, Task, strict_option

if TYPE_CHECKING:
    from seqloom.contracts import Tagger
    from seqloom.data.spans import Scheme
    from seqloom.data.tagging import Tagged
    from seqloom.data.unlabelled import Row
    from seqloom.metrics.result import Result


@dataclass(frozen=True, kw_only=True)
class TaggedReading(Config):
    form: Literal["auto", "conll", "conllu", "slash"] = option(
        "auto", "Format of the data: conll, conllu, slash; auto: by name and content."
    )
    tag_column: str | None = option(
        None,
        "CoNLL: number of the tag column [default: the last]; CoNLL-U: upos, xpos, deprel or "
        "a feature  [default: upos].",
        metavar="NAME|N",
    )
    scheme: Literal["auto", "bio", "iob1", "bioes", "none"] = option(
        "auto", "Tagging scheme of spans; none: tags do not mark spans."
    )
    encoding: str = option("utf-8", "Encoding of the text files.")
    strict: bool = strict_option()


@dataclass(frozen=True, kw_only=True)
class TaggingOptions(Predicting):
    """Options of `predict`."""

    split: Literal["spaces", "words"] = option(
        "spaces", "Taggers: how a line becomes words: at spaces, or also around punctuation."
    )


class Tagging(Task):
    name, phrase = "tagger", "a tagger"
    ladder = "seqloom.comparison.tagging:TaggingLadder"
    data_help = (
        "sentences with tags: CoNLL columns, CoNLL-U, or word/TAG; none, or -, is standard input."
    )
    reading, evaluation, predicting, perturbing = (
        TaggedReading,
        SliceEvaluation,
        TaggingOptions,
        Perturbing,
    )
    commands: ClassVar = {"predict": PREDICT, "robustness": ROBUSTNESS}

    def read(self, paths: tuple[str, ...], reading: TaggedReading) -> Tagged:
        from seqloom.data.tagging import read_tagged

        return read_tagged(list(paths) or ["-"], **reading.to_dict())

    def evaluate_paths(
        self,
        model: Tagger,
        paths: tuple[str, ...],
        reading: TaggedReading,
        evaluation: SliceEvaluation,
    ) -> Result:
        return model.evaluate(
            self.read(paths, reading), slice_by=evaluation.slice_by, latency=evaluation.latency
        )

    def answerer(
        self, model: Tagger, options: TaggingOptions
    ) -> Callable[[list[Row]], Iterator[Outcome]]:
        scheme = model.learnt["scheme"]

        def answer(rows: list[Row]) -> Iterator[Outcome]:
            sentences = [words_of(row.example, options.split) for row in rows]
            for row, words, tags in zip(rows, sentences, model.predict(sentences)):
                yield tagged(row.example, words, tags, scheme)

        return answer

    def nothing(self, model: Tagger, row: Row, options: TaggingOptions) -> Outcome:
        return tagged(row.example or "", [], [], model.learnt["scheme"])

    def keeping(self, text: str, row: Row, keep: tuple[str, ...]) -> str:
        """Write comments before the words, as CoNLL-U has them."""
        kept = zip(keep, (" ".join(str(value).split()) for value in row.kept))
        return "".join(f"# {name} = {value}\n" for name, value in kept) + text

    def feed(
        self, model: Any, stream: Any, line: str, number: int, options: TaggingOptions
    ) -> Iterator[Outcome]:
        for word in words_of(line, options.split):
            tag = stream.feed(word)
            yield Outcome(f"{word}\t{tag}", {"word": word, "tag": tag})


def tagged(text: str, words: list[str], tags: list[str], scheme: Scheme | None) -> Outcome:
    """Return the answer for one sentence."""
    values: dict[str, Any] = {"words": words, "tags": tags}
    if scheme:
        values |= {"text": text, "spans": spans_in(text, words, tags, scheme)}
    return Outcome("".join(f"{word}\t{tag}\n" for word, tag in zip(words, tags)), values)


def words_of(line: str, split: str) -> list[str]:
    if split == "spaces":
        return line.split()
    from seqloom.text.segment import words

    return words(line)


def spans_in(text: str, words: list[str], tags: list[str], scheme: Scheme) -> list[dict[str, Any]]:
    """Find the spans of a tagged text, with their first character in it and the one after their
    last.
    """
    from seqloom.data.spans import spans

    starts, at = [], 0
    for word in words:
        starts.append(text.index(word, at))
        at = starts[-1] + len(word)
    ends = [start + len(word) for start, word in zip(starts, words)]
    return [
        {
            "label": label,
            "start": starts[first],
            "end": ends[stop - 1],
            "text": text[starts[first] : ends[stop - 1]],
        }
        for label, first, stop in spans(tags, scheme)
    ]
