"""Classifiers: examples with labels in, a label (or several) out."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from seqloom import progress
from seqloom.config import MOST_SEED, Config, OnlyWith, option
from seqloom.errors import ConfigError, quoted
from seqloom.tasks.reading import rows_by, strict_option, two_texts
from seqloom.tasks.task import (
    Command,
    EvaluationOptions,
    Outcome,
    Predicting,
    Task,
    Verb,
    check_chart,
)

if TYPE_CHECKING:
    from seqloom.contracts import Classifier
    from seqloom.data.classification import Labelled
    from seqloom.data.unlabelled import Row, Unlabelled
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
    memory: str | None = option(
        None,
        "Texts of more bytes (800M, 2G) are kept in a temporary file  [default: 2G].",
        metavar="SIZE",
    )
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
        None,
        "Classifiers: the column with the text, or with the first text of a pair.",
        metavar="NAME|N",
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

    predict_names = ("proba", "explain")

    def verbs(self) -> dict[str, Verb]:
        return {
            "predict": self.prediction(
                "The class of each text, with probabilities or the deciding words if asked.",
                "a text; for a classifier of pairs a list of two; for one of series a list of numbers",
            )
        }

    def example(self, model: Any, value: Any, at: int) -> Any:
        if model.reads_pairs:
            if (pair := self.watched(model, value)) is None:
                raise ConfigError(
                    f"inputs[{at}] must be two texts, a list or {{text, pair}}; got {quoted(value)}",
                    ["inputs"],
                )
            return tuple(pair)
        if model.reads_numbers and isinstance(value, list):
            return " ".join(map(repr, value))  # as a line of a file has it, checked there
        return super().example(model, value, at)

    def answer_inputs(
        self, model: Any, inputs: list[Any], options: Classifying
    ) -> Iterator[dict[str, Any]]:
        _check_explains(model, options)
        return super().answer_inputs(model, inputs, options)

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
        self, model: Any, paths: tuple[str, ...], options: Classifying, done: int = 0
    ) -> Iterator[Outcome]:
        _check_explains(model, options)
        check_chart(options.chart)
        options = _with_columns(model, options)
        answers = super().predict(model, paths, options, done)
        return answers if options.chart is None else _drawn(model, answers, options.chart)

    def unlabelled(
        self, model: Classifier, paths: tuple[str, ...], options: Classifying
    ) -> Unlabelled:
        from seqloom.data.unlabelled import read_lines, read_pairs

        first, second, keep = options.text_column, options.pair_column, options.keep
        if model.reads_pairs:
            return rows_by(lambda one: read_pairs(one, first, second, keep), paths, options)
        if model.reads_numbers:
            return rows_by(lambda one: read_lines(one, keep), paths, options)
        return super().unlabelled(model, paths, options)

    def reads_lines(self, model: Classifier, options: Classifying) -> bool:
        named = options.text_column is not None or model.reads_pairs
        return super().reads_lines(model, options) and not named

    def answerer(
        self, model: Any, options: Classifying
    ) -> Callable[[list[Row]], Iterator[Outcome]]:
        if options.explain:
            return partial(_explained, model)
        examples = _series(model) if model.reads_numbers else _examples

        def answer(rows: list[Row]) -> Iterator[Outcome]:
            probs = model.predict_proba(examples(rows))
            for row, label, shares in zip(rows, model.labels_of(probs), probs.tolist()):
                yield _answer(model, row.example, label, shares, options.proba)

        return answer

    def nothing(self, model: Classifier, row: Row, options: Classifying) -> Outcome:
        n_classes = len(model.classes) if options.proba else 0
        unknown = {"probabilities": dict.fromkeys(model.classes)} if options.proba else {}
        fields = _fields(row.example)
        return Outcome(
            "\t".join(["", *[""] * n_classes, *(_line(text or "") for text in fields.values())]),
            {"label": None, **unknown, **fields},
        )

    def examples(self, data: Labelled) -> list[Any]:
        if data.examples and not isinstance(data.examples[0], (str, tuple)):
            return super().examples(data)
        return data.examples

    def watched(self, model: Any, value: Any) -> Any:
        return two_texts(value, PAIR) if model.reads_pairs else super().watched(model, value)

    def observe(self, model: Classifier, texts: list[Any]) -> tuple[dict[str, Any], list[Any]]:
        import numpy as np

        probs = np.asarray(model.predict_proba(texts))
        labels = [label if isinstance(label, list) else [label] for label in model.labels_of(probs)]
        sure = np.maximum(probs, 1 - probs).mean(axis=1) if model.multi_label else probs.max(axis=1)
        columns = {"confidence": np.stack([sure, np.ones(len(texts))], axis=1)}
        return columns | super().observe(model, texts)[0], labels

    def use(self, model: Classifier) -> Any:
        return model.predict

    def heading(self, model: Classifier, options: Classifying) -> str | None:
        return _headings(model) if options.proba else None

    def stream(self, model: Any, lines: Iterable[str], options: Classifying) -> Iterator[Outcome]:
        answers = super().stream(model, lines, options)
        return (
            itertools.chain([Outcome(_headings(model), None)], answers)
            if options.proba
            else answers
        )

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


def _check_explains(model: Any, options: Classifying) -> None:
    if options.explain and not hasattr(model, "explain"):
        raise ConfigError(
            f"explain: {model.name} models cannot tell why they chose a class", ["explain"]
        )


def _with_columns(model: Classifier, options: Classifying) -> Classifying:
    """Return the options with the columns that the model reads; `text_column`, as `fit` and `evaluate`
    call it, is the `column` of a model that reads single texts.
    """
    if model.reads_pairs:
        if options.column is not None:
            raise ConfigError(
                "--column is for models that read single texts; this one reads pairs: give --text-column "
                "and --pair-column"
            )
        return options
    if options.pair_column is not None:
        raise ConfigError(
            "--pair-column is for models that read pairs of texts; this one reads single texts: give "
            "--text-column alone"
        )
    if options.text_column is None:
        return options
    if options.column not in (None, options.text_column):
        raise ConfigError("--column and --text-column are one column here; give one of them")
    return replace(options, column=options.text_column, text_column=None)


def _headings(model: Classifier) -> str:
    texts = PAIR if model.reads_pairs else PAIR[:1]
    return "\t".join(["label", *map(_line, map(str, model.classes)), *texts])


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


def _fields(example: Any) -> dict[str, Any]:
    """Return a text, or both texts of a pair, by name."""
    return dict(zip(PAIR, example if isinstance(example, tuple) else (example,)))


def _examples(rows: list[Row]) -> list[Any]:
    return [row.example for row in rows]


def _series(model: Classifier) -> Callable[[list[Row]], list[Any]]:
    """Return what reads lines of numbers as series. Labels before the values, as in the data of
    `fit`, are left out.
    """
    from seqloom.data.translation_sides import begin_with_labels, cells_of, parse_values

    classes, length, said = set(map(str, model.classes)), _usual_length(model), False

    def read(rows: list[Row]) -> list[Any]:
        nonlocal said
        cells, remark = [cells_of(row.example) for row in rows], ""
        longer = (row.number for row, one in zip(rows, cells) if len(one) == (length or 0) + 1)
        if begin_with_labels(cells, classes, length):
            remark = "the first value of each line is taken as its label and left out"
            cells = [one[1:] for one in cells]
        elif length and (line := next(longer, 0)):
            remark = (
                f"line {line} has {length + 1:,} values, one more than the series in training; "
                f"if the first is a label, leave it out"
            )
        if remark and not said:
            progress.say(remark)
            said = True
        return [parse_values(one, f"line {row.number}") for row, one in zip(rows, cells)]

    return read


def _usual_length(model: Classifier) -> int | None:
    """Return the number of values of a series in training, where none had more and most as many;
    None: they differ.
    """
    lengths: dict[str, Any] = model.recorded("lengths", {})
    longest = lengths.get("longest")
    return longest if isinstance(longest, int) and longest == lengths.get("median") else None


def _explained(model: Any, rows: list[Row]) -> Iterator[Outcome]:
    from seqloom.data.examples import in_one_line

    for row in rows:
        explanation = model.explain(row.example)
        yield Outcome(
            f"{_line(in_one_line(row.example))}\n{explanation}\n",
            {**_fields(row.example), **explanation.to_dict()},
        )


def _drawn(model: Any, answers: Iterator[Outcome], chart: str) -> Iterator[Outcome]:
    """Yield explained answers and draw their texts at the end, those that are blank left out."""
    from seqloom.views import classification

    texts: list[Any] = []
    for answer in answers:
        if answer.values and answer.values["label"] is not None:
            found = tuple(answer.values[name] for name in PAIR if name in answer.values)
            texts.append(found if model.reads_pairs else found[0])
            classification.check(model, len(texts))
        yield answer
    classification.check(model, len(texts))
    classification.explained(model, texts, list(map(model.explain, texts))).save(chart)


def _line(text: str) -> str:
    return " ".join(text.split())
