"""Classifiers: examples with labels in, a label (or several) out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from seqloom.config import Config, OnlyWith, option
from seqloom.errors import ConfigError
from seqloom.tasks.task import Command, Outcome, Task, TextReading, strict_option, text_units

if TYPE_CHECKING:
    from seqloom.contracts import Classifier
    from seqloom.data.labelled import Labelled

BATCH = 10_000  # lines
PREDICT = Command("seqloom.cli.predict:command", "The class of each text, or the tags of its words.")


@dataclass(frozen=True, kw_only=True)
class LabelledReading(Config):
    form: Literal["auto", "tsv", "csv", "jsonl", "parquet", "lines", "fasttext", "folders"] = option(
        "auto", "Format of the data: tsv, csv, jsonl, parquet, lines, fasttext, folders; auto: by name and content.")
    text_column: str | None = option(None, "Tables: the column with the text.", metavar="NAME|N")
    label_column: str | None = option(None, "Tables: the column with the label.", metavar="NAME|N")
    encoding: str = option("utf-8", "Encoding of the text files.")
    strict: bool = strict_option()


@dataclass(frozen=True, kw_only=True)
class Classifying(TextReading):
    """Options of `predict`."""

    only_with: ClassVar[OnlyWith] = {"proba": {"explain": (False,)}}

    proba: bool = option(False, "Classifiers: print the probability of every class.", negatable=False)
    explain: bool = option(False, "Classifiers that support it: print the deciding words, with their weight in nats.",
                                  negatable=False)


class Classification(Task):
    name, phrase = "classifier", "a classifier"
    data_help = ("texts with labels: .tsv, .csv, .jsonl, .parquet, `label text` lines, fastText's `__label__x text`, or a "
                 "directory with one folder a class; none, or -, is standard input.")
    reading, predicting = LabelledReading, Classifying
    commands: ClassVar = {"predict": PREDICT}

    def read(self, paths: tuple[str, ...], reading: LabelledReading) -> Labelled:
        from seqloom.data.labelled import read_labelled

        return read_labelled(list(paths) or ["-"], **reading.to_dict())

    def predict(self, model: Any, paths: tuple[str, ...], options: Classifying) -> Iterator[Outcome]:
        if options.explain and not hasattr(model, "explain"):
            raise ConfigError(f"--explain: {model.name} models cannot explain their predictions")
        units = text_units(paths, options)
        return _explained(model, units) if options.explain else _classified(model, units, options.proba)


def _classified(model: Classifier, units: Iterator[str], proba: bool) -> Iterator[Outcome]:
    classes = model.classes
    if proba:
        yield Outcome("\t".join(["label", *map(_line, map(str, classes)), "text"]), None)
    while texts := list(itertools.islice(units, BATCH)):
        probs = model.predict_proba(texts)
        for text, label, row in zip(texts, model.labels_of(probs), probs.tolist()):
            shares = [f"{p:.4f}" for p in row] if proba else []
            name = ", ".join(map(str, label)) if isinstance(label, list) else str(label)
            yield Outcome("\t".join([_line(name), *shares, _line(text)]),
                          {"label": label, **({"probabilities": dict(zip(classes, row))} if proba else {}), "text": text})


def _explained(model: Any, units: Iterator[str]) -> Iterator[Outcome]:
    for text in units:
        explanation = model.explain(text)
        yield Outcome(f"{_line(text)}\n{explanation}\n", {"text": text, **explanation.to_dict()})


def _line(text: str) -> str:
    return " ".join(text.split())
