"""Two models on the same held-out data: does a stop list help a classifier, is an LSTM better than
a GRU here?

A and B are two sets of options of one model, or two models of one task. Both learn from the same
training part and are measured on the same held-out one, so every figure comes in pairs, and what
counts is the spread of the differences. By default the last tenth is held out; with `folds` each
part of the data is, once. The task's `Ladder` says how its data is split and measured. Intervals
resample segments (lines, texts, sentences, questions), both settings together (Koehn 2004). The
number of different words is no statistic of segments (a resample has fewer of them), so those
figures show their range over the folds.

Which figures may be compared: a likelihood is the probability of a text. A setting that loses part
of the text (a normaliser, unknown words) gives the probability of a different, easier text, and its
perplexity falls without anything having been learnt. So likelihoods are compared only where both
settings keep every byte (then in bits per byte) or cut the text into the very same tokens (then in
nats per token). Otherwise that is refused, and what remains are figures that mean the same for
both: how large the vocabulary is, how many held-out tokens and types it does not know, and how long
the lines become. To know whether a lossy step helps a task, measure that task.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np

from seqloom import progress
from seqloom._version import __version__
from seqloom.comparison import ladder as ladders
from seqloom.comparison.bench import OWN, Attempt, Bench, Rung
from seqloom.comparison.ladder import Count, Ladder, Parts, Score, Trial
from seqloom.comparison.table import aligned
from seqloom.contracts.base import Model
from seqloom.describing import changed_options
from seqloom.errors import ConfigError
from seqloom.frames import as_frame, html_table
from seqloom.metrics import bootstrap
from seqloom.metrics.language import MAX_SEGMENTS
from seqloom.metrics.result import plain
from seqloom.registry import model_class
from seqloom.training.config import TrainConfig

Options = Mapping[str, Any]  # "model": the name of the model, where the two differ


@dataclass(frozen=True)
class Figure:
    """One row of the table: both settings, and the second less the first with an interval."""

    name: str
    a: float
    b: float
    difference: float
    low: float
    high: float
    over: str  # what the interval is over: lines, texts, ..., or folds (then it is the range)
    p_value: float | None = None
    better: str = ""

    @property
    def clear(self) -> bool:
        """Return whether the interval excludes zero."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class ABResult:
    model: str
    a: dict[str, Any]
    b: dict[str, Any]
    runs: str  # how they were made
    corpus: str
    fingerprint: str
    figures: list[Figure]
    notes: tuple[str, ...]

    def __getitem__(self, name: str) -> Figure:
        return next(figure for figure in self.figures if figure.name == name)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return plain(asdict(self) | {"winner": self.winner, "seqloom": __version__})

    @property
    def winner(self) -> str | None:
        """Return `a` or `b` where the task's own metric differs clearly (p below 0.05), else None."""
        evaluation = self.figures[0]
        if not evaluation.better or evaluation.p_value is None or not evaluation.p_value < 0.05:
            return None
        return "b" if (evaluation.difference > 0) == (evaluation.better == "higher") else "a"

    def sentence(self) -> str:
        """Say what the task's own metric shows; empty where it is not compared."""
        evaluation = self.figures[0]
        if not evaluation.better:
            return ""
        sure = (
            ""
            if evaluation.p_value is None or math.isnan(evaluation.p_value)
            else f", p = {evaluation.p_value:.2g}"
        )
        if self.winner is None:
            return f"no clear difference in {evaluation.name}{sure}"
        return (
            f"{self.winner.upper()} is better: {evaluation.name} {evaluation.difference:+.4f}{sure}"
        )

    def rows(self) -> list[tuple[str, ...]]:
        """Return the table, cell by cell, a heading first."""
        rows: list[tuple[str, ...]] = [("", "A", "B", "B - A", "95 %", "p", "over")]
        for f in self.figures:
            over = "range over folds" if f.over == "folds" else f.over
            verdict = "" if f.clear else ", the same" if f.low == f.high == 0 else ", not clear"
            spread = (
                "-"
                if math.isnan(f.low)
                else f"{_number(f, f.low, '+')} to {_number(f, f.high, '+')}"
            )
            p = "" if f.p_value is None or math.isnan(f.p_value) else f"{f.p_value:.3f}"
            rows.append(
                (
                    f.name,
                    _number(f, f.a),
                    _number(f, f.b),
                    _number(f, f.difference, "+"),
                    spread,
                    p,
                    over + ("" if math.isnan(f.low) else verdict),
                )
            )
        return rows

    def table(self) -> str:
        """Return the comparison as text."""
        rows = self.rows()
        numbers = aligned(rows[0][:6], [row[:6] for row in rows[1:]]).split("\n")
        lines = [f"{line}  {row[6]}" for line, row in zip(numbers, rows)]
        head = [
            f"{self.model} on {self.corpus} ({self.fingerprint[:8]}), {self.runs}",
            f"A: {_shown(self.a)}",
            f"B: {_shown(self.b)}",
            "",
        ]
        end = [sentence] if (sentence := self.sentence()) else []
        return "\n".join(line.rstrip() for line in [*head, *lines, *self.notes, *end])

    __str__ = __repr__ = table

    def to_frame(self) -> Any:
        """Return a row for each figure: a frame of pandas or polars where one is installed."""
        return as_frame(map(asdict, self.figures))

    def _repr_html_(self) -> str:
        heading, *rows = self.rows()
        about = [
            f"{self.model} on {self.corpus}, {self.runs}",
            f"A: {_shown(self.a)}",
            f"B: {_shown(self.b)}",
        ]
        return html_table(heading, rows, before=about, after=[*self.notes, self.sentence()])


@dataclass(frozen=True)
class Setting:
    """A model that has not been fitted, and the options of its fit."""

    model: type[Model]
    options: dict[str, Any]
    train: TrainConfig | None = None
    fit: dict[str, Any] | None = None

    def attempt(self, parts: Parts, extra: dict[str, Any]) -> Attempt:
        """Make a new model, to be fitted with its arguments; `extra`: the seed, where there are several."""
        model_options = {f.name for f in fields(self.model.config_class)}
        options = self.options | {
            name: value for name, value in extra.items() if name in model_options
        }
        fitting = dict(self.fit or {})
        if self.train is not None:
            fitting["train"] = replace(
                self.train,
                **{name: value for name, value in extra.items() if name not in model_options},
            )
        rung = Rung(
            self.model.name, OWN, "", lambda bench: self.model(**options), 1, "", fitting=fitting
        )
        return Attempt(rung, Bench(parts))

    @property
    def has_seed(self) -> bool:
        return self.train is not None or "seed" in {f.name for f in fields(self.model.config_class)}


@progress.remarking_once()
def ab(
    data: Any,
    *,
    a: Options | Model | str | None = None,
    b: Options | Model | str | None = None,
    both: Options | None = None,
    model: str = "ngram",
    valid: Any = None,
    folds: int | None = None,
    seeds: Sequence[int] = (),
    device: str | None = None,
    samples: int = 1000,
) -> ABResult:
    """Compare two settings of a model, or two models of one task, on the same held-out data.

    `a` and `b`: options (`{"order": 3}`; `{"model": "gru", "d_hidden": 64}` where the models
    differ), the name of a model, or a model that was made but not fitted. `both`: options that they
    share. Options of training (`steps`, `lr`) stand among the others. `data` as in `fit`; `valid`:
    held-out data, else the last tenth is held out, or with `folds` each part once. With `seeds` the
    same part is held out for each seed, and the metric is averaged over them.
    """
    first, second = (setting_of(one, both or {}, model, device) for one in (a, b))
    ladder = _ladder(first, second)
    if first == second:
        raise ConfigError(
            "A and B are the same; give one of them an option (b=...), for example case=lower for normalize"
        )
    for setting in (first, second) if seeds else ():
        if not setting.has_seed:
            raise ConfigError(
                f"{setting.model.name} has no seed, so a second run gives the same result; use folds"
            )
    if folds is not None and valid is not None:
        raise ConfigError(
            "folds hold out parts of the data, valid is separate held-out data; give one of them"
        )
    dataset = ladder.read(data)
    parts, runs = _parts(ladder, dataset, valid, folds, len(seeds))
    ladder = ladder.specialised_for(parts[0])
    chosen: list[tuple[Parts, dict[str, Any]]] = [
        (parts[-1], {"seed": seed}) for seed in seeds
    ] or [(p, {}) for p in parts]
    trials: list[Trial] = []
    with progress.task("A/B", len(chosen), "runs") as bar:
        for part, extra in chosen:
            trials.append(
                ladder.trial([setting.attempt(part, extra) for setting in (first, second)], part)
            )
            bar.advance()
    names = list(dict.fromkeys([first.model.name, second.model.name]))
    shown = [
        {
            **({"model": s.model.name} if len(names) > 1 else {}),
            **s.options,
            **({} if s.train is None else changed_options(s.train)),
        }
        for s in (first, second)
    ]
    return ABResult(
        " and ".join(names),
        shown[0],
        shown[1],
        runs,
        dataset.name,
        dataset.fingerprint[:16],
        _figures(trials, ladder.resampled, bool(seeds), samples),
        trials[0].notes,
    )


def setting_of(
    side: Options | Model | str | None, both: Options, model: str, device: str | None
) -> Setting:
    if isinstance(side, Model):
        if both:
            raise ConfigError(
                "both is for options, and a model has its own; leave both out, or give options as a and b"
            )
        cls, options = type(side), changed_options(side.config)
    else:
        options = {**both, **({"model": side} if isinstance(side, str) else side or {})}
        cls = model_class(str(options.pop("model", model)))
    fit: dict[str, Any] = (
        {}
        if device is None or "device" not in cls.config_class.fit_arguments
        else {"device": device}
    )
    if "train" not in cls.config_class.fit_arguments:
        return Setting(cls, options, None, fit)
    own, training = ({f.name for f in fields(config)} for config in (cls.config_class, TrainConfig))
    of_training = {name: value for name, value in options.items() if name in training - own}
    if isinstance(side, Model) and side.own_train is not None:
        of_training |= changed_options(side.own_train)
    return Setting(
        cls,
        {name: value for name, value in options.items() if name not in of_training},
        TrainConfig.from_dict(of_training),
        fit,
    )


def _ladder(first: Setting, second: Setting) -> Ladder:
    if first.model.task != second.model.task:
        raise ConfigError(
            f"A and B are for different tasks: {first.model.name} ({first.model.task}) and "
            f"{second.model.name} ({second.model.task})"
        )
    return ladders.of_task(first.model.task)


def _parts(
    ladder: Ladder, data: Any, valid: Any, folds: int | None, seeds: int
) -> tuple[list[Parts], str]:
    """Return training and held-out parts, and what they are in words."""
    if valid is not None:
        held = ladder.read_held_out(valid)
        parts, evaluated_on = ladder.given_splits(data, None, held), f"judged on {held.name}"
        assert parts is not None
        splits = [parts]
    else:
        splits = ladder.folds(data, folds)
        if folds is None:
            splits, evaluated_on = splits[-1:], f"one of {len(splits)} parts held out"
        else:
            evaluated_on = f"last of {folds} folds" if seeds else f"{folds} folds"
    return splits, f"{evaluated_on}, {seeds} seed{'s' * (seeds != 1)}" if seeds else evaluated_on


def _figures(trials: list[Trial], over: str, seeded: bool, samples: int) -> list[Figure]:
    every = zip(*(trial.scores for trial in trials))
    figures = [
        _figure(list(pairs), over, seeded, samples)
        for pairs in every
        if len({pair[0].name for pair in pairs}) == 1
    ]
    return figures + [
        _over_folds(list(counts))
        for counts in zip(*(trial.counts for trial in trials[: 1 if seeded else None]))
    ]


def _figure(pairs: list[tuple[Score, Score]], over: str, seeded: bool, samples: int) -> Figure:
    """Compute one metric over all runs: folds joined one after the other, or the mean over seeds
    of the same part.
    """
    name, _, statistic, better = pairs[0][0]
    rows = [
        (np.stack if seeded else np.concatenate)([pair[side].rows for pair in pairs])
        for side in (0, 1)
    ]
    if rows[0].dtype.kind == "U":  # labels: the statistic takes their numbers
        numbers = np.unique(np.stack(rows), return_inverse=True)[1].reshape(2, *rows[0].shape)
        rows = list(numbers)
    # (segments, seeds, m)
    a, b = (side.swapaxes(0, 1) if seeded else side[:, None] for side in rows)
    if statistic is bootstrap.ratio:
        a, b = a.mean(axis=1), b.mean(axis=1)
        if len(a) > MAX_SEGMENTS:
            # Neighbours together: more would not make an interval better, only slower.
            starts = np.unique(
                np.linspace(0, len(a), MAX_SEGMENTS, endpoint=False).astype(np.int64)
            )
            a, b = np.add.reduceat(a, starts), np.add.reduceat(b, starts)
        mean = statistic
    else:
        mean = partial(_mean, statistic)
    paired = bootstrap.paired_rows(b, a, mean, samples=samples)
    return Figure(
        name,
        mean(a),
        mean(b),
        paired.difference,
        paired.low,
        paired.high,
        over,
        paired.p_value,
        better,
    )


def _mean(statistic: Callable[[np.ndarray], float], rows: np.ndarray) -> float:
    """Return the mean of the statistics of all seeds."""
    return float(np.mean([statistic(rows[:, k]) for k in range(rows.shape[1])]))


def _over_folds(counts: list[Count]) -> Figure:
    a, b = np.array([count.values for count in counts], np.float64).T
    gaps = b - a
    return Figure(
        counts[0].name,
        float(a.mean()),
        float(b.mean()),
        float(gaps.mean()),
        float(gaps.min()),
        float(gaps.max()),
        "folds",
    )


def _number(figure: Figure, value: float, sign: str = "") -> str:
    form = {
        "unknown tokens": ".2%",
        "known types": ".2%",
        "vocabulary": ",.0f",
        "tokens a line": ",.2f",
    }
    return f"{value:{sign}{form.get(figure.name, ',.4f')}}"


def _shown(options: Options) -> str:
    rest = " ".join(f"{key}={value}" for key, value in options.items() if key != "model")
    return " ".join(part for part in (options.get("model", ""), rest) if part) or "as it is"
