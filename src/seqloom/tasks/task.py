"""What a task is: one object that knows its data, the options of reading and evaluating it, its
commands and its charts.

A subclass for each task is all that the command line needs to fit, evaluate and use models of it.
Options are the fields of configs, so a flag, a key and an argument are the same word.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from seqloom import progress
from seqloom.config import Config, OnlyWith, option
from seqloom.errors import ConfigError, quoted
from seqloom.tasks.reading import TextReading, batched, text_rows

if TYPE_CHECKING:
    from seqloom.charts.page import Sheet
    from seqloom.data.unlabelled import Row, Unlabelled


class Command(NamedTuple):
    """A command that works on saved models of a task."""

    target: str  # "module:attribute" of a click command, imported when it is called
    help: str
    needs: str = ""  # a property that models must have, where not all of the task have this view


class Outcome(NamedTuple):
    """What a command answers: for people, and for --json."""

    text: str | None  # None: only for programs
    values: dict[str, Any] | None  # None: only for people, such as a line of headings


class Verb(NamedTuple):
    """What a server does with models of a task: POST /NAME with `inputs`, an answer for each."""

    # model, inputs and options to answers, one for each input, in order; plain values for JSON
    answer: Callable[[Any, list[Any], Any], Iterable[dict[str, Any]]]
    help: str
    input: str  # what an input is, in words
    options: type[Config] = Config  # what a request may say besides
    names: tuple[str, ...] = ()  # of these options; those about files have no meaning there
    numbers: bool = False  # whether a line of numbers is one input, a list of them


@dataclass(frozen=True, kw_only=True)
class Predicting(TextReading):
    """Options of `predict` for all tasks that have it."""

    only_with: ClassVar[OnlyWith] = {
        name: {"stream": (False,)} for name in ("encoding", "column", "strict", "keep")
    }

    keep: tuple[str, ...] = option(
        (),
        "Tables: columns that each answer repeats, such as id,date, so that answers can be joined to "
        "rows.",
        metavar="NAME,NAME",
    )
    stream: bool = option(
        False,
        "Answer each line of standard input as it comes, from what was read so far; an empty line "
        "begins a new text, sentence or series. For encoders that read in one direction.",
        negatable=False,
    )


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions(Config):
    """Options of `evaluate` for most tasks."""

    chart: str | None = option(None, "Draw the errors: .png, .svg, .html.", metavar="FILE")


class Task(ABC):
    name: ClassVar[str]  # as in config.json
    phrase: ClassVar[str]  # in a sentence: "a classifier", "word vectors"
    data: ClassVar[str] = "DATA"  # its data, in --help
    data_help: ClassVar[str]
    valid_help: ClassVar[str] = "Held-out data to evaluate the model on after fitting."
    reading: ClassVar[type[Config]]  # options of `read`
    evaluation: ClassVar[type[Config]] = EvaluationOptions  # options of `evaluate` besides those
    predicting: ClassVar[type[Predicting] | None] = (
        None  # options of `predict`, where there is such a thing
    )
    scoring: ClassVar[type[Config] | None] = None  # options of `score`, likewise
    perturbing: ClassVar[type[Config] | None] = None  # options of `robustness`, likewise
    comparing: ClassVar[type[Config]] = Config  # options of `compare` that only this task has
    ladder: ClassVar[str] = (
        ""  # "module:attribute" of how its models are compared, imported when asked; empty: they are not
    )
    # Besides those that all tasks have; "inspect X" is view X of `inspect`.
    commands: ClassVar[Mapping[str, Command]] = {}

    @abstractmethod
    def read(self, paths: tuple[str, ...], reading: Any) -> Any:
        """Read the data of these files, directories or patterns; none, or `-`, is standard input."""

    def read_valid(self, path: str, reading: Any) -> Any:
        """Read what `fit --valid` names: held-out data of the same kind."""
        return self.read((path,), reading)

    def evaluate(
        self, model: Any, model_path: str, paths: tuple[str, ...], reading: Any, evaluation: Any
    ) -> Outcome:
        """Evaluate the model saved at `model_path` on data; draw what there is to see, if asked."""
        check_chart(evaluation.chart)
        result = self.evaluate_paths(model, paths, reading, evaluation)
        if evaluation.chart is not None:
            self.chart(result).save(evaluation.chart)
        return shown(result)

    def evaluate_paths(
        self, model: Any, paths: tuple[str, ...], reading: Any, evaluation: Any
    ) -> Any:
        """Return the result of a model on data."""
        return model.evaluate(self.read(paths, reading))

    def chart(self, result: Any) -> Sheet:
        """Draw what there is to see of a result."""
        from seqloom.views import errors

        return errors(result)

    def predict(
        self, model: Any, paths: tuple[str, ...], options: Any, done: int = 0
    ) -> Iterator[Outcome]:
        """Yield what `predict` answers: one answer for each row of its input, in order, without the
        first rows, which are done; before them perhaps headings, which have no values.
        """
        from seqloom.data.unlabelled import after

        rows, answer = self.unlabelled(model, paths, options), self.answerer(model, options)
        if (heading := self.heading(model, options)) is not None:
            yield Outcome("\t".join([*options.keep, heading]), None)
        n_rows, blank = 0, []
        for batch in batched(after(rows.runs, done), rows.n_bytes):
            blank += [row.number for row in batch if row.blank]
            for row, found in zip(batch, self._answers(model, batch, answer, options)):
                yield self._located(found, row, options.keep)
            n_rows += len(batch)
        if blank:
            lack = "has" if len(blank) == 1 else "have"
            progress.say(
                f"{len(blank):,} of {n_rows:,} rows {lack} no text, so no answer (first: row {blank[0]:,})"
            )

    def _answers(
        self,
        model: Any,
        rows: list[Row],
        answer: Callable[[list[Row]], Iterable[Outcome]],
        options: Any,
    ) -> Iterator[Outcome]:
        """Yield the answer to each row, blank or not."""
        filled = [row for row in rows if not row.blank]
        progress.number_rows([row.number for row in filled])
        answers = iter(answer(filled) if filled else ())
        for row in rows:
            yield self.nothing(model, row, options) if row.blank else next(answers)

    # ---- a server

    # Options of `predict` that a request may give.
    predict_names: ClassVar[tuple[str, ...]] = ()

    def verbs(self) -> dict[str, Verb]:
        """Return what a server does with models of this task, by name."""
        if self.predicting is None:
            return {}
        return {"predict": self.prediction("What `seqloom predict` answers.", "a text")}

    def prediction(self, help: str, input: str) -> Verb:
        """Return the verb that answers rows as `predict` does."""
        assert self.predicting is not None
        return Verb(self.answer_inputs, help, input, self.predicting, self.predict_names)

    def answer_inputs(
        self, model: Any, inputs: list[Any], options: Any
    ) -> Iterator[dict[str, Any]]:
        """Yield the answers of `predict` to given examples."""
        from seqloom.data.unlabelled import Row

        rows = [Row(at, self.example(model, one, at - 1)) for at, one in enumerate(inputs, 1)]
        answers = self._answers(model, rows, self.answerer(model, options), options)
        return (found.values or {} for found in answers)

    def example(self, model: Any, value: Any, at: int) -> Any:
        """Return the example that an input of a request is, as `Row` has it."""
        if value is not None and not isinstance(value, str):
            raise ConfigError(f"inputs[{at}] must be a text; got {quoted(value)}", ["inputs"])
        return value

    def unlabelled(self, model: Any, paths: tuple[str, ...], options: Any) -> Unlabelled:
        """Read the rows that `predict` answers."""
        return text_rows(paths, options, options.keep)

    def answerer(self, model: Any, options: Any) -> Callable[[list[Row]], Iterable[Outcome]]:
        """Return what answers some rows, none of them blank."""
        raise NotImplementedError

    def nothing(self, model: Any, row: Row, options: Any) -> Outcome:
        """Return the answer to a blank row."""
        raise NotImplementedError

    def heading(self, model: Any, options: Any) -> str | None:
        """Return a line of headings, where there is one."""
        return None

    def _located(self, found: Outcome, row: Row, keep: tuple[str, ...]) -> Outcome:
        """Add the row and what is kept of it to an answer."""
        values = found.values or {}
        if not keep and row.file is None:
            return Outcome(found.text, {"row": row.number, **values})
        place = {"row": row.number} | ({"file": row.file} if row.file is not None else {})
        kept: dict[str, Any] = {}
        for name, value in zip(keep, row.kept):
            while name in values or name in place or name in kept:
                name = f"input_{name}"
            kept[name] = value
        text = found.text if found.text is None or not keep else self.keeping(found.text, row, keep)
        return Outcome(text, place | kept | values)

    def keeping(self, text: str, row: Row, keep: tuple[str, ...]) -> str:
        """Write what is kept of a row into its answer for people."""
        return "\t".join([*(" ".join(str(value).split()) for value in row.kept), text])

    def stream(self, model: Any, lines: Iterable[str], options: Any) -> Iterator[Outcome]:
        """Yield what `predict --stream` answers to each line before it takes the next."""
        if not hasattr(model, "stream"):
            raise ConfigError(
                f"--stream answers within a text, but {model.name} models read one as a whole; leave "
                "--stream out: each line of a pipe is answered as it comes"
            )
        return self._feed_lines(model, model.stream(), lines, options)

    def _feed_lines(
        self, model: Any, stream: Any, lines: Iterable[str], options: Any
    ) -> Iterator[Outcome]:
        """Yield the answers of a stream to lines; after an empty line a new stream begins."""
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield from self.feed(model, stream, line, number, options)
            else:
                stream = model.stream()
                yield Outcome("", None)

    def feed(
        self, model: Any, stream: Any, line: str, number: int, options: Any
    ) -> Iterator[Outcome]:
        """Yield what a stream of the model answers to a line of that number."""
        raise NotImplementedError

    def score(
        self, model: Any, paths: tuple[str, ...], options: Any, tokens: bool
    ) -> Iterator[Outcome]:
        """Yield what `score` answers, for each unit of its input or, if asked, for each token."""
        raise NotImplementedError

    # ---- watching what comes in

    def examples(self, data: Any) -> list[Any]:
        """Return what a model reads of its data, one by one, as requests hold it."""
        raise ConfigError(f"drift compares texts; {self.phrase} reads something else")

    def watched(self, model: Any, value: Any) -> Any:
        """Return the text, or the list of two texts, that a request gives the model; None if it is none
        that this model reads.
        """
        return value if isinstance(value, str) else None

    def observe(self, model: Any, texts: list[Any]) -> tuple[dict[str, Any], list[Any] | None]:
        """Return measures of texts by name, (n, 2), part and whole, and what it labels each with."""
        from seqloom.tasks.watching import unknown_words

        return unknown_words(model, texts), None

    def use(self, model: Any) -> Callable[[Any], Any] | None:
        """Return what is timed, on an example or a list of them; None: nothing is."""
        return None

    # ---- files of other programs

    file_forms: ClassVar[tuple[str, ...]] = ()  # that `convert --form` may name
    # Forms of files with such models, as `interop.opening.form_of` calls them.
    foreign_forms: ClassVar[tuple[str, ...]] = ()

    def recognises(self, path: Path) -> bool:
        """Return whether this is such a file, by its name and its first bytes."""
        from seqloom.interop.opening import form_of

        return form_of(path) in self.foreign_forms

    def open_file(self, path: Path) -> Any:
        """Open the model in such a file where commands take it instead of a saved model; None: they do
        not.
        """
        return None

    def write_file(self, model: Any, model_path: str, target: str, form: str | None) -> None:
        raise ConfigError(
            f"{model_path} is {self.phrase} ({model.name}), which cannot be converted to a file of "
            "another program"
        )

    def converted(self, model: Any) -> Outcome:
        """Say in a few words what was converted."""
        return Outcome(model.summary(), {"model": model.name})


def check_chart(path: str | None) -> None:
    """Refuse, before any work, a path to which a chart could not be written."""
    if path is not None:
        from seqloom.charts.theme import check_target

        check_target(path)


def in_one_field(token: str) -> str:
    """Return a token as it is written in a field of a line."""
    return (
        token.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
    )


def shown(result: Any) -> Outcome:
    """Show a result with the tables behind it."""
    from seqloom.metrics.tables import report

    behind = report(result)
    return Outcome(f"{result}\n\n{behind}" if behind else str(result), result.to_dict())


def texts_in(inputs: list[Any]) -> list[str]:
    """Return the inputs of a request if they are texts."""
    for at, value in enumerate(inputs):
        if not isinstance(value, str):
            raise ConfigError(f"inputs[{at}] must be a text; got {quoted(value)}", ["inputs"])
    return inputs
