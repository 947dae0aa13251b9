"""Taggers: sentences with a tag for each word in, tags out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from seqloom import progress
from seqloom.config import Config, option
from seqloom.tasks.classification import PREDICT, ROBUSTNESS, Perturbing, SliceEvaluation
from seqloom.tasks.task import Outcome, Predicting, Task, strict_option, text_batches

if TYPE_CHECKING:
    from seqloom.contracts import Tagger
    from seqloom.data.spans import Scheme
    from seqloom.data.tagging import Tagged
    from seqloom.metrics.result import Result


@dataclass(frozen=True, kw_only=True)
class TaggedReading(Config):
    form: Literal["auto", "conll", "conllu", "slash", "lines"] = option(
        "auto",
        "Format of the data: conll, conllu, slash, lines (words, a tab and their tags; or two files, "
        "words and tags); auto: by name and content.",
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
        "sentences with tags: CoNLL columns, CoNLL-U, word/TAG, lines of words, a tab and their tags, or two "
        "files, one of words and one of tags; none, or -, is standard input."
    )
    reading, evaluation, predicting, perturbing = (
        TaggedReading,
        SliceEvaluation,
        TaggingOptions,
        Perturbing,
    )
    commands: ClassVar = {"predict": PREDICT, "robustness": ROBUSTNESS}

    valid_help = f"{Task.valid_help.removesuffix('.')}; two files as WORDS,TAGS."

    def read_valid(self, path: str, reading: TaggedReading) -> Tagged:
        """Read held-out sentences; WORDS,TAGS are two files."""
        both = path.split(",") if path.count(",") == 1 and not Path(path).exists() else [path]
        return self.read(tuple(both), reading)

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

    def predict(
        self, model: Tagger, paths: tuple[str, ...], options: TaggingOptions
    ) -> Iterator[Outcome]:
        scheme = model.learnt["scheme"]
        for lines in _untagged(model, paths, options):
            sentences = [words_of(line, options.split) for line in lines]
            for line, words, tags in zip(lines, sentences, model.predict(sentences)):
                values: dict[str, Any] = {"words": words, "tags": tags}
                if scheme:
                    values |= {"text": line, "spans": spans_in(line, words, tags, scheme)}
                yield Outcome("".join(f"{word}\t{tag}\n" for word, tag in zip(words, tags)), values)

    def feed(
        self, model: Any, stream: Any, line: str, number: int, options: TaggingOptions
    ) -> Iterator[Outcome]:
        for word in words_of(line, options.split):
            tag = stream.feed(word)
            yield Outcome(f"{word}\t{tag}", {"word": word, "tag": tag})


def _untagged(
    model: Tagger, paths: tuple[str, ...], options: TaggingOptions
) -> Iterator[list[str]]:
    """Yield sentences in batches. Tags that the data has, after a tab or in a second file, are left
    out.
    """
    from seqloom.data.recognise import tags_in
    from seqloom.data.rows import table_kind
    from seqloom.data.tagging_forms import without_tags

    if len(paths) == 2 and "-" not in paths and tags_in(tuple(map(Path, paths))):
        progress.say(f"{paths[1]} has the tags of {paths[0]} and is left out")
        paths = paths[:1]
    if options.column is None and all(table_kind(path) and tags_in(Path(path)) for path in paths):
        options = replace(options, column="1" if paths else None)
    known, said = {*model.learnt["tags"], "O"}, False
    for lines in text_batches(paths, options):
        sentences = [without_tags(line, known) for line in lines]
        if sentences != lines and not said:
            said = True
            progress.say("the tags that follow the words of a line after a tab are left out")
        yield sentences


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
