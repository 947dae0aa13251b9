"""The result of a comparison: a row for each rung, how any two of them differ on the same data, and
what that suggests: the best model, the smallest that is as good, and how to use it.

Finished rungs stay in the user's cache, so that an interrupted comparison continues where it stopped;
this module reads them and limits their size.
"""

from __future__ import annotations

import json
import math
import os
import shlex
import shutil
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from seqloom import progress, storage
from seqloom._version import __version__
from seqloom.arrays import read_arrays, write_arrays
from seqloom.comparison.bench import UNKNOWN
from seqloom.comparison.curve import Curve
from seqloom.directories import InUse, locked
from seqloom.errors import SeqloomError
from seqloom.frames import as_frame, flat_row, html_table
from seqloom.metrics import bootstrap
from seqloom.metrics.result import plain

if TYPE_CHECKING:
    from seqloom.comparison.bench import Bench
    from seqloom.comparison.ladder import Ladder


@dataclass(frozen=True)
class RungResult:
    """One row of the table. What was measured can be asked for by its name: `row.bits_per_byte`,
    `row.accuracy`.
    """

    name: str
    family: str
    measures: dict[str, Any]  # the measure of the ladder first
    interval: tuple[float, float]
    tokenizer: str | None
    parameters: int
    train_seconds: float | None  # the tokenizer's training included; None: it was fitted before
    train_speed: float | None  # units a second
    score_speed: float
    # Bytes, above what the program held before; None where the system does not tell.
    peak_memory: int | None
    disk: int | None  # None: it cannot be saved
    sample: str
    signature: str
    tokenizer_seconds: float = 0.0  # of train_seconds
    fallbacks: dict[str, str] = field(default_factory=dict)
    adds: str = ""
    steps: int | None = None  # of a network: updates, and passes over the training data
    passes: float | None = None
    pretrained: bool = False  # elsewhere, on unknown text that may contain the test part
    stopped_learning: int | None = None  # after which step it only memorised (`stopped_learning`)

    @property
    def shown(self) -> str:
        """Return its name, with a mark where its value may be too good to be true, or where it could
        have stopped training earlier.
        """
        marks = " *" * self.pretrained + " †" * (self.stopped_learning is not None)
        return f"{self.name}{marks}"

    @property
    def value(self) -> float:
        """Return the value of the measure that rungs are compared by."""
        return next(iter(self.measures.values()))

    def __getattr__(self, name: str) -> Any:
        measures = self.__dict__.get("measures", {})
        if name not in measures:
            raise AttributeError(f"a rung has no {name!r}; measured were {', '.join(measures)}")
        return measures[name]

    def to_dict(self, unit: str, learnt: str = "") -> dict[str, Any]:
        """Return plain values for JSON; `unit`: what is scored; `learnt`: what is learnt from, where
        that is another.
        """
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


SHOWN_WIDTH = 120  # characters of a printed table


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
    # The rows of each rung's score, by segment.
    rows: dict[str, np.ndarray] = field(default_factory=dict, repr=False)
    curve: Curve = field(default_factory=dict)  # by rung, where it was asked for
    places: dict[str, str] = field(default_factory=dict)  # where the model of each rung is kept
    saved: str | None = None  # where the best model was saved
    bench: Bench | None = field(default=None, repr=False)  # the data and the fitted models

    @property
    def best(self) -> RungResult:
        """Return the best rung of those trained here, if there are any: a pretrained one may have seen
        the test part.
        """
        trained = [r for r in self.results if not r.pretrained]
        return (min if self.ladder.measure.lower else max)(
            trained or self.results, key=lambda r: r.value
        )

    @property
    def model(self) -> Any:
        """Return the fitted model of the best rung."""
        return self.fitted[self.best.name]

    @property
    def fitted(self) -> dict[str, Any]:
        """The models of all rungs."""
        assert self.bench is not None
        return self.bench.fitted

    @property
    def test(self) -> Any:
        """The part of the data that the rungs were evaluated on."""
        assert self.bench is not None
        return self.bench.splits.test

    @property
    def answer(self) -> Answer | None:
        """Return what to do with all this; None where no rung was trained."""

        return answer(self, self.saved) if self.results else None

    def __str__(self) -> str:
        """Return the table, with the columns that a notebook has room for, and the answer below it."""
        from seqloom.comparison.table import chosen, columns, lines, mark, title

        shown = chosen(
            columns(self.ladder, self if self.results else None), self.results, SHOWN_WIDTH
        )
        answer = self.answer
        return "\n".join(
            [
                title(self),
                *lines(shown, [*self.results, *self.skipped]),
                *mark(self),
                *([answer.text, *answer.commands] if answer else []),
            ]
        )

    __repr__ = __str__

    def to_frame(self) -> Any:
        """Return a row for each rung, with the difference to the best: a frame of pandas or polars
        where one is installed.
        """
        return as_frame(map(flat_row, self._rung_rows()))

    def _rung_rows(self, *, paired: bool = True) -> list[dict[str, Any]]:
        rows = []
        for r in self.results:
            row = r.to_dict(self.ladder.score_unit, self.ladder.learn_unit)
            if paired and r.name != self.best.name:
                row["versus_best"] = self.difference(r.name, self.best.name)._asdict()
            rows.append(row)
        return rows

    def _repr_html_(self) -> str:
        """Return the table, and the answer below it, for notebooks."""
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
        """Save the best model; the answer then names that directory."""
        self.model.save(directory)
        self.saved = str(directory)

    def difference(self, a: str, b: str) -> bootstrap.Paired:
        """Compare rung a less rung b on the same segments, with interval and p-value, in the unit of
        the measure.
        """
        return self.ladder.difference(self.rows[a], self.rows[b])

    def to_dict(self, *, paired: bool = True) -> dict[str, Any]:
        """Return plain values for JSON; what cannot be known (the interval of a single segment) is the
        text "nan". `paired`: with the differences to the best, which take a while.
        """
        measure = self.ladder.measure
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
                "rungs": self._rung_rows(paired=paired),
                "skipped": [asdict(s) for s in self.skipped],
                "seqloom": __version__,
                **({"curve": curve} if curve else {}),
            }
        )


# ---- kept

MAX_CACHE_BYTES = 4 << 30  # bytes of all comparisons but the one that begins


class FinishedRung(NamedTuple):
    """A finished rung."""

    result: RungResult
    rows: np.ndarray  # of its score, by segment
    model: Any


def reuse(target: Path) -> FinishedRung | None:
    """Load a rung that was finished before; anything unreadable is trained again."""
    try:
        values = json.loads((target / "result.json").read_text(encoding="utf-8"))
        rows = read_arrays(target / "segments.safetensors")["rows"]
        result = RungResult(
            **values
            | {
                "interval": tuple(map(float, values["interval"])),
                "measures": {k: _number(v) for k, v in values["measures"].items()},
            }
        )
        return FinishedRung(result, rows, storage.load(target))
    except (OSError, ValueError, TypeError, KeyError, SeqloomError):
        return None


def write_result(partial: Path, result: RungResult, rows: np.ndarray) -> None:
    """Write the result beside the model in its directory."""
    write_arrays(partial / "segments.safetensors", {"rows": rows})
    text = json.dumps(plain(asdict(result)), indent=1, allow_nan=False)
    (partial / "result.json").write_text(text, encoding="utf-8")


def _number(value: Any) -> Any:
    """Convert "inf" and "nan", which are text in JSON, to numbers."""
    return float(value) if value in ("inf", "-inf", "nan") else value


def held(directory: Path) -> AbstractContextManager[None]:
    """Keep other processes from training the rungs of this comparison while open."""
    return locked(
        directory.with_name(f"{directory.name}.lock"),
        lambda who: (
            f"{directory}: {who} is comparing models on this text there; wait until it has ended, or "
            f"give another directory (work=...)"
        ),
    )


def trim(folder: Path, current: Path, most: int | None = None) -> None:
    """Mark the current comparison as used now, and remove others, the one unused longest first, until
    they have at most that many bytes. One that a process is working on stays.
    """
    with suppress(OSError):
        os.utime(current)
    others = [
        directory for directory in folder.glob("*") if directory.is_dir() and directory != current
    ]
    left = MAX_CACHE_BYTES if most is None else most
    for directory in sorted(others, key=_used, reverse=True):
        size = sum(_size(path) for path in directory.rglob("*"))
        if size > left:
            with suppress(InUse), held(directory):
                shutil.rmtree(directory, ignore_errors=True)
                progress.say(
                    f"removed a comparison of {size / 1e6:,.0f} MB, unused for long, from {folder}"
                )
        else:
            left -= size


def _used(directory: Path) -> float:
    with suppress(OSError):
        return directory.stat().st_mtime
    return 0.0


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size if path.is_file() else 0
    return 0


# ---- answer

WORTH = 0.9  # of the size of the best; a model larger than that is not recommended as smaller


@dataclass(frozen=True)
class Answer:
    best: str  # of the models that were trained here, if there are any
    smallest: str  # within the interval of the best; the best itself where no smaller one is
    text: str
    path: str | None  # of the saved model that the commands name
    commands: tuple[str, ...] = ()
    python: str | None = None
    pretrained: str | None = (
        None  # the best of those trained elsewhere, on unknown text that may contain the test part
    )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        lines = [self.text]
        lines += [f"  {command}" for command in self.commands]
        return "\n".join(lines + ([f"  {self.python}"] if self.python else []))


def within(c: Comparison) -> list[RungResult]:
    """Return the rungs whose measure lies within the interval of the best, or beyond it; the best
    alone where it has none.
    """
    best, measure = c.best, c.ladder.measure
    end = best.interval[1] if measure.lower else best.interval[0]
    if not math.isfinite(end):
        return [best]
    return [
        r for r in c.results if not measure.better(end, r.value) and r.pretrained == best.pretrained
    ]


def answer(c: Comparison, path: str | None = None) -> Answer:
    """Build the answer of a comparison. `path`: where the best model was saved; else where it is
    kept.
    """
    from seqloom.comparison.table import size

    best, measure = c.best, c.ladder.measure
    weighed = [r for r in within(c) if r.disk is not None]
    smallest = min(weighed, key=lambda r: r.disk or 0) if weighed else best
    if best.disk is not None and (smallest.disk or 0) > WORTH * best.disk:
        smallest = best
    spread = (
        ""
        if math.isnan(best.interval[0])
        else (f" ({measure.show(best.interval[0])} to {measure.show(best.interval[1])})")
    )
    pretrained = [r for r in c.results if r.pretrained]
    choose = min if measure.lower else max
    best_pretrained = choose(pretrained, key=lambda r: r.value) if pretrained else None
    title = (
        "The best"
        if best_pretrained is None
        else "Of models trained elsewhere, the best"
        if best.pretrained
        else "The best that was trained here"
    )
    text = f"{title} is {best.shown}: {measure.show(best.value)} {measure.title}{spread}"
    if smallest.name == best.name:
        text += "; no clearly smaller model comes within that interval." if spread else "."
    else:
        text += (
            f". The smallest within that interval is {smallest.name}: {measure.show(smallest.value)}, "
            f"{size(smallest.disk)} instead of {size(best.disk)}."
        )
    name = None
    if best_pretrained is not None:
        name = best_pretrained.name
        text += (
            f" {best.shown} was {UNKNOWN}."
            if best.pretrained
            else f" {best_pretrained.shown} has {measure.show(best_pretrained.value)}; it was {UNKNOWN}."
        )
    saved_at = path or c.places.get(best.name)
    if saved_at is None:
        return Answer(best.name, smallest.name, text, None, pretrained=name)
    commands = tuple(line.format(path=shlex.quote(saved_at)) for line in c.ladder.commands)
    python = c.ladder.python.format(path=repr(saved_at))
    return Answer(
        best.name, smallest.name, text + " To use the best:", saved_at, commands, python, name
    )
