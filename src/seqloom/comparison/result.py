"""What a comparison came to: a row for each rung, and how any two of them differ on the same data."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from seqloom._version import __version__
from seqloom.comparison.curve import Curve
from seqloom.frames import html_table
from seqloom.metrics import bootstrap
from seqloom.metrics.result import plain

if TYPE_CHECKING:
    from seqloom.comparison.answer import Answer
    from seqloom.comparison.bench import Bench
    from seqloom.comparison.ladder import Ladder


@dataclass(frozen=True)
class RungResult:
    """One row of the table. What was measured can be asked for by its name: `row.bits_per_byte`, `row.accuracy`."""

    name: str
    family: str
    measures: dict[str, Any]  # the measure of the ladder first
    interval: tuple[float, float]
    tokenizer: str | None
    parameters: int
    train_seconds: float | None  # the tokenizer's training included; None: it was fitted before
    train_speed: float | None  # units a second
    score_speed: float
    peak_memory: (
        int | None
    )  # bytes, above what the program held before; None where the system does not tell
    disk: int | None  # None: it cannot be saved
    sample: str
    signature: str
    tokenizer_seconds: float = 0.0  # of train_seconds
    fallbacks: dict[str, str] = field(default_factory=dict)
    adds: str = ""
    steps: int | None = None  # of a network: updates, and passes over the training data
    passes: float | None = None
    pretrained: bool = False  # elsewhere, on unknown text that may contain the test part

    @property
    def shown(self) -> str:
        """Its name, with a mark where its value may be too good to be true."""
        return f"{self.name} *" if self.pretrained else self.name

    @property
    def value(self) -> float:
        """Of the measure that rungs are compared by."""
        return next(iter(self.measures.values()))

    def __getattr__(self, name: str) -> Any:
        measures = self.__dict__.get("measures", {})
        if name not in measures:
            raise AttributeError(f"a rung has no {name!r}; measured were {', '.join(measures)}")
        return measures[name]

    def to_dict(self, unit: str, learnt: str = "") -> dict[str, Any]:
        """Plain values for JSON; `unit`: what is scored; `learnt`: what is learnt from, where that is another."""
        row = asdict(self)
        measures, train, score = row.pop("measures"), row.pop("train_speed"), row.pop("score_speed")
        del row["adds"]
        head = {"name": row.pop("name"), "family": row.pop("family"), **measures}
        return (
            head
            | row
            | {f"train_{learnt or unit}_per_second": train, f"score_{unit}_per_second": score}
        )


@dataclass(frozen=True)
class Skipped:
    name: str
    reason: str


@dataclass
class Comparison:
    """All rows, in the order of the ladder, and how they came about."""

    corpus: str
    fingerprint: str
    split: str
    sizes: dict[str, int]  # of train, valid and test, in the unit of the ladder
    overlap: float
    ladder: Ladder = field(repr=False)
    results: list[RungResult] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    rows: dict[str, np.ndarray] = field(
        default_factory=dict, repr=False
    )  # of the score of each rung, by segment
    curve: Curve = field(default_factory=dict)  # by rung, where it was asked for
    places: dict[str, str] = field(default_factory=dict)  # where the model of each rung is kept
    saved: str | None = None  # where the best model was saved
    bench: Bench | None = field(default=None, repr=False)  # the data and the fitted models

    @property
    def best(self) -> RungResult:
        """Of those that were trained here, if there are any: a pretrained one may have seen the test part."""
        trained = [r for r in self.results if not r.pretrained]
        return (min if self.ladder.measure.lower else max)(
            trained or self.results, key=lambda r: r.value
        )

    @property
    def model(self) -> Any:
        """The fitted model of the best rung."""
        return self.fitted[self.best.name]

    @property
    def fitted(self) -> dict[str, Any]:
        """The models of all rungs."""
        assert self.bench is not None
        return self.bench.fitted

    @property
    def test(self) -> Any:
        """The part of the data that they were judged on."""
        assert self.bench is not None
        return self.bench.splits.test

    @property
    def answer(self) -> Answer | None:
        """What to do with all this; None where no rung was trained."""
        from seqloom.comparison.answer import answer

        return answer(self, self.saved) if self.results else None

    def _repr_html_(self) -> str:
        """For notebooks: the table, and the answer below it."""
        from seqloom.comparison.table import columns, mark, title

        shown = columns(self.ladder, self if self.results else None)
        rows = [[column.cell(r) for column in shown] for r in self.results]
        return html_table(
            [column.heading for column in shown],
            rows,
            before=[title(self)],
            after=[*mark(self), self.answer.text, *self.answer.commands] if self.answer else [],
        )

    def save(self, directory: str | Path) -> None:
        """Save the best model; the answer then names that place."""
        self.model.save(directory)
        self.saved = str(directory)

    def difference(self, a: str, b: str) -> bootstrap.Paired:
        """Rung a less rung b on the same segments, with interval and p-value, in the unit of the measure."""
        return self.ladder.difference(self.rows[a], self.rows[b])

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; what cannot be known (the interval of a single segment) is the text "nan"."""
        measure, rows = self.ladder.measure, []
        for r in self.results:
            row = r.to_dict(self.ladder.score_unit, self.ladder.learn_unit)
            if r.name != self.best.name:
                row["versus_best"] = self.difference(r.name, self.best.name)._asdict()
            rows.append(row)
        curve = {
            name: [
                {self.ladder.size_unit: p.size, measure.key: p.value, "seconds": p.seconds}
                for p in points
            ]
            for name, points in self.curve.items()
        }
        answer = self.answer
        return plain(
            {
                "corpus": self.corpus,
                "fingerprint": self.fingerprint,
                "task": self.ladder.name,
                "split": self.split,
                self.ladder.size_unit: self.sizes,
                "overlap": self.overlap,
                "measure": measure.key,
                "best": self.best.name if self.results else None,
                "answer": answer.to_dict() if answer else None,
                "rungs": rows,
                "skipped": [asdict(s) for s in self.skipped],
                "seqloom": __version__,
                **({"curve": curve} if curve else {}),
            }
        )
