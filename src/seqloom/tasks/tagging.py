"""Taggers: sentences with a tag for each word in, tags out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from seqloom import progress
from seqloom.config import Config, option
from seqloom.tasks.classification import PREDICT, ROBUSTNESS, Perturbing, SliceEvaluation
from seqloom.tasks.reading import strict_option
from seqloom.tasks.task import Outcome, Predicting, Task, Verb

if TYPE_CHECKING:
    from seqloom.contracts import Tagger
    from seqloom.data.spans import Scheme
    from seqloom.data.tagging import Tagged
    from seqloom.data.unlabelled import Row, Unlabelled
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
    memory: str | None = option(
        None,
        "Words of more bytes (800M, 2G) are kept in a temporary file  [default: 2G].",
        metavar="SIZE",
    )
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

    predict_names = ("split",)

    def verbs(self) -> dict[str, Verb]:
        verb = self.prediction("The tags of the words of each sentence.", "a sentence")
        return {"tag": verb, "predict": verb}

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

    def unlabelled(
        self, model: Tagger, paths: tuple[str, ...], options: TaggingOptions
    ) -> Unlabelled:
        """Read sentences; tags in a second file, or in a column beside the words, are left out."""
        from seqloom.data.recognise import tags_in
        from seqloom.data.rows import table_kind

        if len(paths) == 2 and "-" not in paths and tags_in(tuple(map(Path, paths))):
            progress.say(f"{paths[1]} has the tags of {paths[0]} and is left out")
            paths = paths[:1]
        columns = [table_kind(path) and tags_in(Path(path)) for path in paths]
        if options.column is None and columns and all(columns):
            options = replace(options, column="1")
        return super().unlabelled(model, paths, options)

    def answerer(
        self, model: Tagger, options: TaggingOptions
    ) -> Callable[[list[Row]], Iterator[Outcome]]:
        from seqloom.data.tagging_forms import without_tags

        scheme = model.learnt["scheme"]
        known, said = {*model.learnt["tags"], "O"}, False

        def answer(rows: list[Row]) -> Iterator[Outcome]:
            nonlocal said
            lines = [without_tags(row.example, known) for row in rows]
            if not said and any(line != row.example for line, row in zip(lines, rows)):
                said = True
                progress.say("the tags that follow the words of a line after a tab are left out")
            sentences = [words_of(line, options.split) for line in lines]
            for line, words, tags in zip(lines, sentences, model.predict(sentences)):
                yield tagged(line, words, tags, scheme)

        return answer

    def nothing(self, model: Tagger, row: Row, options: TaggingOptions) -> Outcome:
        return tagged(row.example or "", [], [], model.learnt["scheme"])

    def keeping(self, text: str, row: Row, keep: tuple[str, ...]) -> str:
        """Write comments before the words, as CoNLL-U has them."""
        kept = zip(keep, (" ".join(str(value).split()) for value in row.kept))
        return "".join(f"# {name} = {value}\n" for name, value in kept) + text

    def examples(self, data: Tagged) -> list[list[str]]:
        return data.sentences

    def observe(self, model: Tagger, texts: list[Any]) -> tuple[dict[str, Any], list[Any]]:
        import numpy as np

        sentences = [text.split() if isinstance(text, str) else list(text) for text in texts]
        counts = [
            (float(sum(not model.knows(word) for word in words)), float(len(words)))
            for words in sentences
        ]
        tags = [sorted(set(tags) - {"O"}) for tags in model.predict(sentences)]
        return {"unknown words": np.array(counts).reshape(-1, 2)}, tags

    def use(self, model: Tagger) -> Any:
        return model.predict

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
