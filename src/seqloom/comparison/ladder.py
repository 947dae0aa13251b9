"""What a task says about comparing: one object that knows its data, its rungs and how a fitted one is judged.

The engine (`run`) does the rest, the same for all: order, time, memory, what is kept, the table, the report, the answer. A
task of another package joins with a subclass of `Ladder` and `register`.
"""

from __future__ import annotations

import copy
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from seqloom.comparison.bench import Rung
from seqloom.config import Config
from seqloom.errors import ConfigError, suggest_known
from seqloom.metrics import bootstrap
from seqloom.progress import reporting

if TYPE_CHECKING:
    from seqloom.charts.measure import Measure
    from seqloom.charts.page import Page
    from seqloom.comparison.bench import Bench
    from seqloom.comparison.result import Comparison, RungResult

FRACTIONS = (0.8, 0.1, 0.1)


@dataclass(frozen=True)
class Parts:
    """The data of a comparison; each part has a `fingerprint`. `valid` may be None where no rung has a use for it."""

    train: Any
    valid: Any
    test: Any
    description: str

    @cached_property
    def fingerprint(self) -> str:
        """A short hash of the description and of all parts."""
        parts = [self.description, *(p.fingerprint for p in (self.train, self.valid, self.test) if p is not None)]
        return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:16]


class Judged(NamedTuple):
    """A fitted model on the test part."""

    measures: dict[str, Any]  # plain values by name, the ladder's measure first
    interval: tuple[float, float]  # of that one
    values: np.ndarray  # by segment of the test part (lines, texts, sentences), for paired differences
    weights: np.ndarray  # the measure is sum(values) / sum(weights), but for a factor
    scored: int  # how many units
    seconds: float  # how long that took


Segments = tuple[np.ndarray, np.ndarray]  # values and weights


class Column(NamedTuple):
    """One of the table, besides those that all ladders have."""

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
    size_unit: ClassVar[str]  # in which parts of the data are counted: bytes
    score_unit: ClassVar[str]  # what is scored: tokens
    unit_heading: ClassVar[str]  # that unit in a heading: tok
    test_unit: ClassVar[str] = ""  # of the test part, where it is another than `size_unit`
    learn_unit: ClassVar[str] = ""  # what is learnt from, where it is another than what is scored
    learn_heading: ClassVar[str] = ""
    columns: tuple[Column, ...] = ()
    shows_tokens: ClassVar[bool] = False  # whether the table says what tokens a rung reads
    overlapping: ClassVar[str] = "the test data"  # what `overlap` is a share of
    commands: ClassVar[tuple[str, ...]]  # how a saved model is used, with {path}
    python: ClassVar[str]  # the same in Python
    minutes: ClassVar[float] = 0.6  # that a network trains, by default
    scale: ClassVar[float] = 1.0  # by which values are divided to be in the unit of the measure
    curve_families: ClassVar[tuple[str, ...] | None] = None  # whose learning curves are drawn; None: all
    least: ClassVar[int] = 1  # units of training data of a point of the learning curve
    comparing: ClassVar[type[Config]] = Config  # options of `compare` that only this task has
    former_names: ClassVar[dict[str, str]] = {}  # of these options, each with the name that it has now
    options: Config = Config()

    def with_options(self, **options: Any) -> Self:
        """A copy with options of its own (`comparing`)."""
        made = copy.copy(self)
        made.options = self.comparing(**options)
        return made

    @abstractmethod
    def recognises(self, data: Any) -> str:
        """Why this data is for this ladder, in a few words; empty where it is not, or where that cannot be known."""

    @abstractmethod
    def read(self, data: Any) -> Any:
        """Whatever `fit` of these models accepts."""

    @abstractmethod
    def split(self, data: Any, valid: Any, test: Any) -> Parts:
        """The parts; `valid` and `test` are read, or None."""

    def brought(self, data: Any, valid: Any, test: Any) -> Parts | None:
        """The parts where held-out data was given; with one of two, that is what rungs are judged on. None: there is none."""
        if valid is not None and test is not None:
            return Parts(data, valid, test, f"validated on {self.short_name(valid)}, tested on {self.short_name(test)}")
        held_out = valid if test is None else test
        return None if held_out is None else Parts(data, None, held_out, f"tested on {self.short_name(held_out)}")

    def short_name(self, data: Any) -> str:
        """Of the data, for people."""
        return str(data.name)

    def suited(self, parts: Parts) -> Ladder:
        """Itself, or a variant that suits this data better."""
        return self

    @abstractmethod
    def size(self, part: Any) -> int:
        """Of a part of the data, in `size_unit`."""

    @property
    @abstractmethod
    def rungs(self) -> Sequence[Rung]:
        """In the order of the ladder."""

    def further_rung(self, name: str) -> Rung | None:
        """Return a rung that is not in the ladder but can be asked for: a network with another encoder or cell, say."""
        return None

    @abstractmethod
    def judge(self, model: Any, parts: Parts) -> Judged: ...

    def refuses(self, model: Any) -> str:
        """Why a fitted model of this task cannot be judged beside the others; empty where it can."""
        return ""

    def quality(self, model: Any, parts: Parts) -> float:
        """Only the measure."""
        return float(next(iter(self.judge(model, parts).measures.values())))

    @abstractmethod
    def smaller(self, train: Any, part: int) -> Any:
        """The first 1/part of training data; None where that is too little."""

    def bench(self, parts: Parts) -> Bench:
        from seqloom.comparison.bench import Bench

        return Bench(parts, minutes=self.minutes)

    def overlap(self, parts: Parts) -> float:
        """Which share of the test part also stands in the training part."""
        return 0.0

    def warnings(self, parts: Parts) -> list[str]:
        """What a reader of the numbers must know of the parts, besides the overlap."""
        return []

    def learnt_units(self, model: Any, parts: Parts) -> int:
        """From how many units it learnt."""
        return self.size(parts.train)

    def signature(self, model: Any, parts: Parts) -> str:
        return str(model.signature(parts.test))

    def difference(self, a: Segments, b: Segments) -> bootstrap.Paired:
        """The first less the second on the same segments, each as (values, weights)."""
        return bootstrap.paired(a[0] / self.scale, b[0] / self.scale, a[1])

    def sample(self, model: Any, rung: Rung, seed: int) -> str:
        """Something to read, where the model writes."""
        return ""

    def group(self, result: RungResult) -> str:
        """What shares a colour in charts."""
        return result.family

    def warm_up(self) -> None:  # noqa: B027 - most have something to do, none must
        """Compile kernels on a little data, so that the first rung is not charged for it."""

    # ---- the report

    def remarks(self, comparison: Comparison) -> list[str]:
        """Sentences about the whole ladder."""
        return []

    def details(self, comparison: Comparison) -> Any:
        """What is computed for the report alone, from the fitted models; None: nothing."""
        return None

    def details_json(self, details: Any) -> dict[str, Any]:
        return {}

    def pictures(self, comparison: Comparison, details: Any) -> dict[str, Any]:
        """Charts besides those that all reports have, by the name of their file (see `pictures.NAMES`)."""
        return {}

    def sections(self, page: Page, comparison: Comparison, details: Any) -> None:  # noqa: B027
        """Add to the page what only this task has."""


_BUILT_IN = {"text": "seqloom.comparison.text:TextLadder", "classification": "seqloom.comparison.labels:LabelLadder",
             "tagging": "seqloom.comparison.tags:TagLadder", "vectors": "seqloom.comparison.word_vectors:VectorLadder",
             "forecasting": "seqloom.comparison.series:SeriesLadder",
             "translation": "seqloom.comparison.pairs:PairLadder"}
_registered: dict[str, Ladder] = {}


def register(ladder: Ladder) -> None:
    """Make the ladder of another task known, for this process."""
    if ladder.name in _BUILT_IN or _registered.get(ladder.name, ladder).__class__ is not ladder.__class__:
        raise ConfigError(f"there is already a comparison named {ladder.name!r}; give yours another name")
    _registered[ladder.name] = ladder


def names() -> list[str]:
    return list(dict.fromkeys([*_BUILT_IN, *_registered]))


def get(name: str) -> Ladder:
    """The ladder of that name."""
    if name in _BUILT_IN and name not in _registered:
        module, _, attribute = _BUILT_IN[name].partition(":")
        _registered[name] = getattr(import_module(module), attribute)()
    if name not in _registered:
        raise ConfigError(f"unknown task {name!r}{suggest_known(name, names())}")
    return _registered[name]


def every() -> Iterator[Ladder]:
    return map(get, names())


def of_data(data: Any) -> tuple[Ladder, str]:
    """The ladder for this data, and why; text where no other recognises it."""
    with reporting(None):  # whoever reads it will say what is to be said
        for ladder in every():
            if ladder.name != "text" and (why := ladder.recognises(data)):
                return ladder, why
    return get("text"), ""


def of_task(task: str) -> Ladder:
    """The ladder for models of that task."""
    for ladder in every():
        if ladder.task == task:
            return ladder
    raise ConfigError(f"there is no comparison for models of the task {task!r}")
