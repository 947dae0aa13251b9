"""Taggers: sentences with a tag for each word in, tags out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from seqloom.config import Config, option
from seqloom.tasks.classification import BATCH, PREDICT, ROBUSTNESS, Perturbing, SliceJudging
from seqloom.tasks.task import Outcome, Task, TextReading, strict_option, text_units

if TYPE_CHECKING:
    from seqloom.contracts import Tagger
    from seqloom.data.tagged import Tagged
    from seqloom.metrics.result import Result


@dataclass(frozen=True, kw_only=True)
class TaggedReading(Config):
    form: Literal["auto", "conll", "conllu", "slash"] = option(
        "auto", "Format of the data: conll, conllu, slash; auto: by name and content.")
    tag_column: str | None = option(None, "CoNLL: number of the tag column [default: the last]; CoNLL-U: upos, xpos, deprel or "
                                    "a feature  [default: upos].", metavar="NAME|N")
    scheme: Literal["auto", "bio", "iob1", "bioes", "none"] = option("auto", "Tagging scheme of spans; none: tags do not mark "
                                                                             "spans.")
    encoding: str = option("utf-8", "Encoding of the text files.")
    strict: bool = strict_option()


class Tagging(Task):
    name, phrase = "tagger", "a tagger"
    data_help = "sentences with tags: CoNLL columns, CoNLL-U, or word/TAG; none, or -, is standard input."
    reading, judging, predicting, perturbing = TaggedReading, SliceJudging, TextReading, Perturbing
    commands: ClassVar = {"predict": PREDICT, "robustness": ROBUSTNESS}

    def read(self, paths: tuple[str, ...], reading: TaggedReading) -> Tagged:
        from seqloom.data.tagged import read_tagged

        return read_tagged(list(paths) or ["-"], **reading.to_dict())

    def judge(self, model: Tagger, paths: tuple[str, ...], reading: TaggedReading, judging: SliceJudging) -> Result:
        return model.evaluate(self.read(paths, reading), slice_by=judging.slice_by, latency=judging.latency)

    def predict(self, model: Tagger, paths: tuple[str, ...], options: TextReading) -> Iterator[Outcome]:
        units = text_units(paths, options)
        while sentences := [line.split() for line in itertools.islice(units, BATCH)]:
            for words, tags in zip(sentences, model.predict(sentences)):
                yield Outcome("".join(f"{word}\t{tag}\n" for word, tag in zip(words, tags)), {"words": words, "tags": tags})
