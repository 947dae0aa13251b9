"""Classifiers: examples with labels in, a label (or several) out."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from seqloom import progress
from seqloom.config import MOST_SEED, Config, OnlyWith, option
from seqloom.errors import ConfigError
from seqloom.tasks.task import (
    Command,
    EvaluationOptions,
    Outcome,
    Predicting,
    Task,
    batched,
    check_chart,
    strict_option,
    text_batches,
)

if TYPE_CHECKING:
    from seqloom.contracts import Classifier
    from seqloom.data.classification import Labelled
    from seqloom.metrics.result import Result

PREDICT = Command(
    "seqloom.cli.predict:command", "The class of each text, or the tags of its words."
)
PAIR = ("text", "pair")  # what the texts of an example are called in answers
ROBUSTNESS = Command(
    "seqloom.cli.robustness:command", "What typing errors, case, length and word order cost."
)


@dataclass(frozen=True, kw_only=True)
class LabelledReading(Config):
    form: Literal[
        "auto", "tsv", "csv", "jsonl", "parquet", "lines", "fasttext", "folders", "numbers"
    ] = option(
        "auto",
        "Format of the data: tsv, csv, jsonl, parquet, lines, fasttext, folders, numbers (a label "
        "and a series of numbers a line); auto: by name and content.",
    )
    text_column: str | None = option(None, "Tables: the column with the text.", metavar="NAME|N")
    pair_column: str | None = option(
        None,
        "Tables: the column with the second text, where each example is a pair of texts.",
        metavar="NAME|N",
    )
    label_column: str | None = option(None, "Tables: the column with the label.", metavar="NAME|N")
    unlabelled: Literal["refuse", "skip"] = option(
        "refuse", "Rows without a label: refuse them, or skip and count them."
    )
    encoding: str = option("utf-8", "Encoding of the text files.")
    strict: bool = strict_option()


@dataclass(frozen=True, kw_only=True)
class SliceEvaluation(EvaluationOptions):
    """Options of `evaluate` that classifiers and taggers share."""

    slice_by: tuple[str, ...] = option(
        (),
        "Also evaluate parts of the data, the worst first: by length, class, unknown (the "
        "share of unknown words) or a column of the table; may be repeated.",
        metavar="NAME",
        repeated=True,
    )
    latency: bool = option(
        False,
        "Also measure how long predictions take, one at a time and together.",
        negatable=False,
    )


@dataclass(frozen=True, kw_only=True)
class LabelEvaluation(SliceEvaluation):
    group_by: str | None = option(
        None,
        "Classifiers: rates of the groups in this column and the gaps between them.",
        metavar="COLUMN",
    )
    error_words: int = option(
        0,
        "Classifiers: show this many words typical of each kind of error.",
        minimum=0,
        maximum=1000,
        metavar="N",
    )


@dataclass(frozen=True, kw_only=True)
class Perturbing(Config):
    """Options of `robustness`."""

    perturb: tuple[
        Literal["typos", "lower", "upper", "truncated", "lengthened", "shuffled"], ...
    ] = option(
        (),
        "Perturb in this way only; may be repeated.  [default: all]",
        metavar="KIND",
        repeated=True,
    )
    typo_rate: float = option(
        0.05, "Share of the letters that are swapped, dropped or doubled.", minimum=0, maximum=1
    )
    seed: int = option(0, "Start of the random numbers.", minimum=0, maximum=MOST_SEED)
    chart: str | None = option(None, "Draw the differences: .png, .svg, .html.", metavar="FILE")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.perturb and "typos" not in self.perturb and self.typo_rate != Perturbing.typo_rate:
            raise ConfigError(
                "typo_rate has no effect without typos; perturb typos as well, or leave typo_rate out"
            )


@dataclass(frozen=True, kw_only=True)
class Classifying(Predicting):
    """Options of `predict`."""

    only_with: ClassVar[OnlyWith] = {
        "proba": {"explain": (False,)},
        "chart": {"explain": (True,)},
        **{name: {"stream": (False,)} for name in ("text_column", "pair_column", "explain")},
    }

    text_column: str | None = option(
        None, "Classifiers of pairs of texts: the column with the first text.", metavar="NAME|N"
    )
    pair_column: str | None = option(
        None,
        "Classifiers of pairs of texts: the column with the second text.  [default: of two "
        "columns the second]",
        metavar="NAME|N",
    )
    proba: bool = option(
        False, "Classifiers: print the probability of every class.", negatable=False
    )
    explain: bool = option(
        False,
        "Classifiers that support it: print the deciding words, with their weight in nats.",
        negatable=False,
    )
    chart: str | None = option(
        None,
        "With --explain: draw the texts, each word coloured by its weight: .png, .svg, .html.",
        metavar="FILE",
    )


class Classification(Task):
    name, phrase = "classifier", "a classifier"
    ladder = "seqloom.comparison.classification:ClassificationLadder"
    data_help = (
        "texts with labels: .tsv, .csv, .jsonl, .parquet, `label text` lines, fastText's "
        "`__label__x text`, a "
        "directory with one folder a class, or a label and a series of numbers a line; none, or -, "
        "is standard input."
    )
    reading, evaluation, predicting, perturbing = (
        LabelledReading,
        LabelEvaluation,
        Classifying,
        Perturbing,
    )
    commands: ClassVar = {"predict": PREDICT, "robustness": ROBUSTNESS}

    def read(self, paths: tuple[str, ...], reading: LabelledReading) -> Labelled:
        from seqloom.data.classification import read_labelled

        return read_labelled(list(paths) or ["-"], **reading.to_dict())

    def evaluate_paths(
        self,
        model: Any,
        paths: tuple[str, ...],
        reading: LabelledReading,
        evaluation: LabelEvaluation,
    ) -> Result:
        from seqloom.data.classification import read_labelled
        from seqloom.metrics.slices import further_columns

        columns = further_columns(evaluation.slice_by, evaluation.group_by)
        data = read_labelled(list(paths) or ["-"], columns=columns, **reading.to_dict())
        return model.evaluate(
            data,
            slice_by=evaluation.slice_by,
            group_by=evaluation.group_by,
            error_words=evaluation.error_words,
            latency=evaluation.latency,
        )

    def predict(
        self, model: Any, paths: tuple[str, ...], options: Classifying
    ) -> Iterator[Outcome]:
        if options.explain and not hasattr(model, "explain"):
            raise ConfigError(f"--explain: {model.name} models cannot explain their predictions")
        check_chart(options.chart)
        _check_columns(model, options)
        batches = (
            _pairs(paths, options)
            if model.reads_pairs
            else _lines_of_numbers(paths, options)
            if model.reads_numbers
            else text_batches(paths, options)
        )
        return (
            _explained(model, itertools.chain.from_iterable(batches), options.chart)
            if options.explain
            else _classified(model, batches, options.proba)
        )

    def stream(self, model: Any, lines: Iterable[str], options: Classifying) -> Iterator[Outcome]:
        answers = super().stream(model, lines, options)
        return itertools.chain([_headings(model)], answers) if options.proba else answers

    def feed(
        self, model: Any, stream: Any, line: str, number: int, options: Classifying
    ) -> Iterator[Outcome]:
        import numpy as np

        from seqloom.data.translation_sides import cells_of, parse_values

        probs = stream.feed(
            parse_values(cells_of(line), f"line {number}") if model.reads_numbers else line
        )
        row = list(probs.values())
        yield _answer(model, line, model.labels_of(np.array([row]))[0], row, options.proba)


def _check_columns(model: Classifier, options: Classifying) -> None:
    """Refuse names of columns that the model has no use for."""
    if model.reads_pairs and options.column is not None:
        raise ConfigError(
            "--column is for models that read single texts; this one reads pairs: give --text-column and "
            "--pair-column"
        )
    if not model.reads_pairs and (
        options.text_column is not None or options.pair_column is not None
    ):
        raise ConfigError(
            "--text-column and --pair-column are for models that read pairs of texts; this one reads single "
            "texts: give --column"
        )


def _classified(model: Classifier, batches: Iterator[list[Any]], proba: bool) -> Iterator[Outcome]:
    if proba:
        yield _headings(model)
    for texts, examples in (
        _series(model, batches) if model.reads_numbers else ((texts, texts) for texts in batches)
    ):
        probs = model.predict_proba(examples)
        for text, label, row in zip(texts, model.labels_of(probs), probs.tolist()):
            yield _answer(model, text, label, row, proba)


def _headings(model: Classifier) -> Outcome:
    return Outcome(
        "\t".join(
            [
                "label",
                *map(_line, map(str, model.classes)),
                *(PAIR if model.reads_pairs else PAIR[:1]),
            ]
        ),
        None,
    )


def _answer(model: Classifier, text: Any, label: Any, row: list[float], proba: bool) -> Outcome:
    """Return the answer for one example, or for what a stream has read; `row`: the probabilities."""
    shares = [f"{p:.4f}" for p in row] if proba else []
    name = ", ".join(map(str, label)) if isinstance(label, list) else str(label)
    return Outcome(
        "\t".join([_line(name), *shares, *map(_line, _fields(text).values())]),
        {
            "label": label,
            **({"probabilities": dict(zip(model.classes, row))} if proba else {}),
            **_fields(text),
        },
    )


def _fields(example: Any) -> dict[str, str]:
    """Return a text, or both texts of a pair, by name."""
    return dict(zip(PAIR, (example,) if isinstance(example, str) else example))


def _documents(paths: tuple[str, ...], options: Classifying) -> tuple[list[Any], int | None]:
    """Find the files, and the bytes of all, where known."""
    from seqloom.data.sources import find_documents

    documents = [
        document
        for path in paths or ("-",)
        for document in find_documents(path, options.encoding, strict=options.strict)
    ]
    sizes = [document.size() for document in documents]
    return documents, None if None in sizes else sum(size or 0 for size in sizes)


def _pairs(paths: tuple[str, ...], options: Classifying) -> Iterator[list[Any]]:
    """Yield the pairs of texts of tables in batches."""
    from seqloom.data.classification_forms import read_pairs

    documents, n_bytes = _documents(paths, options)
    pairs = (
        pair
        for document in documents
        for some in read_pairs(document, options.text_column, options.pair_column)
        for pair in some
    )
    return batched(pairs, n_bytes, "pairs")


def _lines_of_numbers(paths: tuple[str, ...], options: Classifying) -> Iterator[list[str]]:
    """Yield the lines of files in batches, whatever the names of the files: each line is a series."""
    from seqloom.data.translation_sides import lines_of_numbers

    documents, n_bytes = _documents(paths, options)
    lines = (line for document in documents for _, line in lines_of_numbers(document))
    return batched(lines, n_bytes, "series")


def _series(
    model: Classifier, batches: Iterator[list[str]]
) -> Iterator[tuple[list[str], list[Any]]]:
    """Yield lines of numbers with their series as arrays. Labels before the values, as in the data
    of `fit`, are left out.
    """
    from seqloom.data.translation_sides import begin_with_labels, cells_of, parse_values

    classes, length, said, first = set(map(str, model.classes)), _usual_length(model), False, 1
    for lines in batches:
        rows = [cells_of(line) for line in lines]
        remark = ""
        if begin_with_labels(rows, classes, length):
            remark, rows = (
                "the first value of each line is taken as its label and left out",
                [row[1:] for row in rows],
            )
        elif length and (
            longer := next((n for n, row in enumerate(rows, first) if len(row) == length + 1), 0)
        ):
            remark = (
                f"line {longer} has {length + 1:,} values, one more than the series in training; "
                f"if the first is a label, leave it out"
            )
        if remark and not said:
            progress.say(remark)
            said = True
        yield lines, [parse_values(row, f"line {number}") for number, row in enumerate(rows, first)]
        first += len(lines)


def _usual_length(model: Classifier) -> int | None:
    """Return the number of values of a series in training, where none had more and most as many;
    None: they differ.
    """
    lengths: dict[str, Any] = model.recorded("lengths", {})
    longest = lengths.get("longest")
    return longest if isinstance(longest, int) and longest == lengths.get("median") else None


def _explained(model: Any, units: Iterator[Any], chart: str | None) -> Iterator[Outcome]:
    from seqloom.data.examples import in_one_line
    from seqloom.views import classification

    texts, explanations = [], []
    for text in units:
        explanation = model.explain(text)
        if chart is not None:
            texts.append(text)
            explanations.append(explanation)
            classification.check(model, len(texts))
        yield Outcome(
            f"{_line(in_one_line(text))}\n{explanation}\n",
            {**_fields(text), **explanation.to_dict()},
        )
    if chart is not None:
        classification.check(model, len(texts))
        classification.explained(model, texts, explanations).save(chart)


def _line(text: str) -> str:
    return " ".join(text.split())
