"""What a task says about comparing: one object that knows its data, its rungs and how they are evaluated.

The engine (`run`, and `ab` for two rungs) does the rest, the same for all: order, time, memory,
what is kept, folds, paired differences, the table, the report, the answer. A task names its ladder
(`Task.ladder`), and is asked for it.
"""

from __future__ import annotations

import copy
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from seqloom import tasks
from seqloom.comparison.bench import Attempt, Bench, Rung
from seqloom.config import Config
from seqloom.errors import ConfigError, DataError, suggest_known
from seqloom.metrics import bootstrap
from seqloom.progress import reporting

if TYPE_CHECKING:
    from seqloom.charts.comparison import Measure
    from seqloom.charts.page import Page
    from seqloom.comparison.result import Comparison, RungResult

FRACTIONS = (0.8, 0.1, 0.1)
FOLDS = 10  # one of them is held out, unless another number is given


@dataclass(frozen=True)
class Parts:
    """The data of a comparison; each part has a `fingerprint`. `valid` may be None where no rung
    has a use for it.
    """

    train: Any
    valid: Any
    test: Any
    description: str

    @cached_property
    def fingerprint(self) -> str:
        """Return a short hash of the description and of all parts."""
        parts = [
            self.description,
            *(p.fingerprint for p in (self.train, self.valid, self.test) if p is not None),
        ]
        return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:16]


class Score(NamedTuple):
    """A metric of one model by segments of the test part, which are resampled, so that differences
    can be paired.
    """

    name: str
    rows: np.ndarray  # (segments, m)
    statistic: Callable[[np.ndarray], float] = bootstrap.ratio  # what the metric is of the rows
    better: Literal["lower", "higher", ""] = "higher"


class Evaluation(NamedTuple):
    """A fitted model on the test part."""

    measures: dict[str, Any]  # plain values by name, the ladder's measure first
    scores: list[Score]  # likewise; where there are further ones, `ab` compares them too
    scored: int  # how many units
    seconds: float  # how long that took
    answers: list[Any] | None = None  # of classifiers, which can be compared one by one


class Count(NamedTuple):
    """A number of each of two models that is no statistic of segments, such as the size of a vocabulary."""

    name: str
    values: tuple[float, float]


class Trial(NamedTuple):
    """The scores of two models on one held-out part; the first metric decides."""

    scores: list[tuple[Score, Score]]
    counts: Sequence[Count] = ()
    notes: tuple[str, ...] = ()


class Column(NamedTuple):
    """A column of the table besides those that all ladders have."""

    heading: str
    key: str  # of the measure
    form: str


class Ladder(ABC):
    name: ClassVar[str]  # as `--task` has it
    task: ClassVar[str]  # of the models, as in config.json
    models: ClassVar[str]  # in a sentence: "language models"
    measure: Measure
    notes: ClassVar[str]  # what the columns mean
    data_word: ClassVar[str] = "data"  # in a sentence: text
    resampled: ClassVar[str]  # what a segment of the test part is: lines
    size_unit: ClassVar[str]  # in which parts of the data are counted: bytes
    score_unit: ClassVar[str]  # what is scored: tokens
    unit_heading: ClassVar[str]  # that unit in a heading: tok
    test_unit: ClassVar[str] = ""  # of the test part, where it is another than `size_unit`
    learn_unit: ClassVar[str] = ""  # what is learnt from, where it is another than what is scored
    learn_heading: ClassVar[str] = ""
    columns: tuple[Column, ...] = ()
    shows_tokens: ClassVar[bool] = False  # whether the table says what tokens a rung reads
    overlapping: ClassVar[str] = "the test data"  # what `overlap` is a share of
    commands: tuple[str, ...]  # how a saved model is used, with {path}
    python: str  # the same in Python
    minutes: ClassVar[float] = 0.6  # that a network trains, by default
    curve_families: ClassVar[tuple[str, ...] | None] = (
        None  # rungs with a learning curve in the charts; None: all
    )
    smallest: ClassVar[int] = 20  # units that data must have; fewer say nothing
    bundled: ClassVar[str] = "data"  # that does not come with seqloom, in a sentence
    data_class: ClassVar[type]  # of the data, once it is read
    as_data: Callable[[Any], Any]  # by which it is
    recognised: ClassVar[str]  # why such data is for this ladder
    # Former names of the task's options, each with the present one.
    former_names: ClassVar[dict[str, str]] = {}
    options: Config = Config()

    def with_options(self, **options: Any) -> Self:
        """Return a copy with options that only this task has (`Task.comparing`)."""
        ladder = copy.copy(self)
        ladder.options = tasks.get(self.task).comparing(**options)
        return ladder

    def recognises(self, data: Any) -> str:
        """Say in a few words why this data is for this ladder; empty where it is not, or where that
        cannot be known.
        """
        if isinstance(data, self.data_class):
            return self.recognised
        return (
            self.recognises_file(data) if isinstance(data, Path) else self.recognises_values(data)
        )

    def recognises_file(self, path: Path) -> str:
        """Say why a file is for this ladder, as `recognises`."""
        return ""

    def recognises_values(self, data: Any) -> str:
        """Say why lists or frames are for this ladder, as `recognises`."""
        return ""

    def read(self, data: Any) -> Any:
        """Read whatever `fit` of these models accepts."""
        if data is None:
            raise DataError(f"there is no bundled {self.bundled}; give a file")
        return self.as_data(data)

    def read_held_out(self, data: Any) -> Any:
        """Read the data that models are evaluated on."""
        return self.read(data)

    def split(self, data: Any, valid: Any, test: Any) -> Parts:
        """Split the data into its parts; `valid` and `test` are read, or None."""
        if len(data) < self.smallest:
            raise DataError(
                f"{data.name}: {len(data)} {self.resampled} are too few to compare models; give at least "
                f"{self.smallest}"
            )
        return self.given_splits(data, valid, test) or self.cut(data)

    def cut(self, data: Any) -> Parts:
        """Cut the data into its parts, where no held-out data was given."""
        raise NotImplementedError

    def given_splits(self, data: Any, valid: Any, test: Any) -> Parts | None:
        """Return the parts where held-out data was given, else None; with one of the two, rungs are
        evaluated on it.
        """
        if valid is not None and test is not None:
            return Parts(
                data,
                valid,
                test,
                f"validated on {self.short_name(valid)}, tested on {self.short_name(test)}",
            )
        held_out = valid if test is None else test
        return (
            None
            if held_out is None
            else Parts(data, None, held_out, f"tested on {self.short_name(held_out)}")
        )

    def folds(self, data: Any, n: int | None) -> list[Parts]:
        """Hold out each of n parts of like size once; None: of ten, or of fewer where there is
        little data.
        """
        order, sizes, may_begin = self.units(data)
        held = [order[low:high] for low, high in cuts(sizes, n, self.resampled, may_begin)]
        every = np.arange(len(order))
        return [
            Parts(data.part(np.setdiff1d(every, some)), None, data.part(np.sort(some)), "")
            for some in held
        ]

    def units(self, data: Any) -> tuple[np.ndarray, np.ndarray, Sequence[bool] | None]:
        """Return the order in which folds take the units of data, their sizes, and where a fold may
        begin, if not anywhere.
        """
        raise NotImplementedError

    def short_name(self, data: Any) -> str:
        """Return a short name of the data, for people."""
        return str(data.name)

    def specialised_for(self, parts: Parts) -> Ladder:
        """Return the ladder itself, or a variant that suits this data better."""
        return self

    def size(self, part: Any) -> int:
        """Return the size of a part of the data, in `size_unit`."""
        return len(part)

    def excerpt(self, parts: Parts) -> str:
        """Return some lines of the held-out text that may be shown; empty where it is no running text."""
        return ""

    @property
    @abstractmethod
    def rungs(self) -> Sequence[Rung]:
        """Return the rungs in the order of the ladder."""

    def further_rung(self, name: str) -> Rung | None:
        """Return a rung that is not in the ladder but can be asked for: a network with another
        encoder or cell, say.
        """
        return None

    @abstractmethod
    def evaluate(self, model: Any, parts: Parts) -> Evaluation:
        """Evaluate a fitted model on the test part."""

    def trial(self, attempts: Sequence[Attempt], parts: Parts, **fit: Sequence[Any]) -> Trial:
        """Fit two models, each with its own of these arguments, and pair what they give on the test part."""
        models = [
            attempt.fit(**{name: each[i] for name, each in fit.items()})
            for i, attempt in enumerate(attempts)
        ]
        first, second = (self.evaluate(model, parts).scores for model in models)
        return Trial([pair for pair in zip(first, second) if pair[0].name == pair[1].name])

    def refuses(self, model: Any) -> str:
        """Say why a fitted model of this task cannot be evaluated beside the others; empty where it
        can.
        """
        return ""

    def quality(self, model: Any, parts: Parts) -> float:
        """Return only the measure."""
        return float(next(iter(self.evaluate(model, parts).measures.values())))

    def smaller(self, train: Any, part: int) -> Any:
        """Return the first 1/part of training data; None where that is too little."""
        n = len(train) // part
        return train.part(slice(0, n)) if n >= self.smallest // 2 else None

    def bench(self, parts: Parts) -> Bench:
        return Bench(parts, minutes=self.minutes)

    def overlap(self, parts: Parts) -> float:
        """Return the share of the test part that is also in the training part."""
        return 0.0

    def warnings(self, parts: Parts) -> list[str]:
        """Return what a reader of the numbers must know of the parts, besides the overlap."""
        return []

    def learnt_units(self, model: Any, parts: Parts) -> int:
        """Return how many units a model learnt from."""
        return self.size(parts.train)

    def signature(self, model: Any, parts: Parts) -> str:
        return str(model.signature(parts.test))

    def interval(self, rows: np.ndarray) -> tuple[float, float]:
        """Return the interval of the measure, from its rows."""
        values, weights = rows[rows[:, 1] > 0].T
        return bootstrap.interval(values, weights)

    def difference(self, a: np.ndarray, b: np.ndarray) -> bootstrap.Paired:
        """Return the first less the second, each by its rows of the same segments."""
        return bootstrap.paired_rows(a, b)

    def sample(self, model: Any, rung: Rung, seed: int) -> str:
        """Return something to read, where the model writes."""
        return ""

    def group(self, result: RungResult) -> str:
        """Return the group whose members share a colour in charts."""
        return result.family

    def warm_up(self) -> None:  # noqa: B027 - most have something to do, none must
        """Compile kernels on a little data, so that the first rung is not charged for it."""

    # ---- the report

    def remarks(self, comparison: Comparison) -> list[str]:
        """Return sentences about the whole ladder."""
        return []

    def details(self, comparison: Comparison) -> Any:
        """Compute what only the report needs, from the fitted models; None: nothing."""
        return None

    def details_json(self, details: Any) -> dict[str, Any]:
        """Return plain values of the details: as they are, or of results by rung."""
        return {"details": {name: getattr(one, "details", one) for name, one in details.items()}}

    def pictures(self, comparison: Comparison, details: Any) -> dict[str, Any]:
        """Draw the charts besides those that all reports have, by file name (see `pictures.NAMES`)."""
        return {}

    def sections(self, page: Page, comparison: Comparison, details: Any) -> None:  # noqa: B027
        """Add to the page what only this task has."""


def every() -> Iterator[Ladder]:
    """Return the ladder of each task that has one."""
    return (_load(task.ladder) for task in tasks.every() if task.ladder)


@cache
def _load(target: str) -> Ladder:
    module, _, attribute = target.partition(":")
    return getattr(import_module(module), attribute)()


def names() -> list[str]:
    return [ladder.name for ladder in every()]


def get(name: str) -> Ladder:
    """Return the ladder of that name."""
    for ladder in every():
        if ladder.name == name:
            return ladder
    raise ConfigError(f"unknown task {name!r}{suggest_known(name, names())}")


def of_data(data: Any) -> tuple[Ladder, str]:
    """Return the ladder for this data, and why; the first, of text, where no other recognises it."""
    text, *others = every()
    with reporting(None):  # remarks come when the data is read for the comparison
        return next(
            ((ladder, why) for ladder in others if (why := ladder.recognises(data))), (text, "")
        )


def of_task(task: str) -> Ladder:
    """Return the ladder for models of that task."""
    if not (target := tasks.get(task).ladder):
        raise ConfigError(
            f"there is no comparison for models of the task {task!r}; fit each and evaluate them on the same "
            "held-out data"
        )
    return _load(target)


def columns(part: Any, whole: Any = 1.0) -> np.ndarray:
    """Return rows for a ratio of sums over segments, (n, 2)."""
    return np.stack(
        np.broadcast_arrays(np.asarray(part, np.float64), np.asarray(whole, np.float64)), axis=1
    )


def cuts(
    sizes: np.ndarray, n: int | None, what: str, may_begin: Sequence[bool] | None = None
) -> list[tuple[int, int]]:
    """Return where n parts of like size begin and end, by the sizes of their units."""
    count = len(sizes)
    n = n or max(2, min(FOLDS, count // 2))
    if n < 2 or count < 2 * n:
        raise DataError(
            f"cannot make {n} folds of {count} {what}; give at least 2 folds and twice as many {what}"
        )
    ends = np.cumsum(sizes)
    at = np.searchsorted(ends / max(ends[-1], 1), np.arange(1, n) / n + 1e-9, side="right").tolist()
    if may_begin is not None:
        at = [next((i for i in range(start, count) if may_begin[i]), count) for start in at]
    bounds = list(pairwise([0, *at, count]))
    if not all(low < high for low, high in bounds):
        raise DataError(f"the {what} are too uneven for {n} folds; give fewer folds")
    return bounds
