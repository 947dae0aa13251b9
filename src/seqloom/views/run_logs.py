"""The log of a run and what is known of how it was made, read from where it lies.

A run is the directory OUT.run of a network that is being trained, the saved model that it becomes, or
a fitted model. A run that is still being written is read as far as it has come.
"""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from seqloom.charts.monitoring import Bar
from seqloom.errors import ConfigError, ModelError

Lines = list[dict[str, Any]]
# How keys of a line begin: gradient norms by layer, and what was read of recurrent layers.
NORM, REACH = "norm.", "reach."
WATCHED = ("closed.", "open.", "saturated.", REACH)
LOWER = ("nats", "mse", "mae", "perplexity")  # criteria of which less is better


@dataclass(frozen=True)
class RunLog:
    """The log of a run, and what is known of how it was made."""

    name: str
    lines: Lines
    model: str = ""
    config: dict[str, Any] = field(default_factory=dict)  # options of the model
    train: dict[str, Any] = field(default_factory=dict)  # and of its training
    record: dict[str, Any] = field(default_factory=dict)  # of a finished fit
    planned: int | None = None  # steps, where they were given
    minutes: float | None = None  # or time
    process: int | None = None  # that is training it
    finished: bool = True

    @property
    def reports(self) -> Lines:
        """Return the lines with the training loss."""
        return [line for line in self.lines if "loss" in line]

    @property
    def evaluations(self) -> Lines:
        """Return the lines with the criterion on held-out data."""
        return [line for line in self.lines if "valid" in line]

    @property
    def steps(self) -> int:
        return int(self.lines[-1]["step"])

    @property
    def epochs(self) -> float | None:
        """Return how often the data has been read, where the log says so."""
        epochs = [line["epochs"] for line in self.reports if "epochs" in line]
        return epochs[-1] if epochs else self.record.get("epochs")

    @property
    def criterion(self) -> str | None:
        """Return what is measured on held-out data, where it is not the loss."""
        return next((line["criterion"] for line in self.evaluations if "criterion" in line), None)

    @property
    def unit(self) -> str:
        """Return the unit of the loss."""
        return unit_of(self.reports[-1]) if self.reports else ""

    @property
    def clipped(self) -> float | None:
        """Return the share of steps that were clipped."""
        shares = [(line["step"], line["clipped"]) for line in self.reports if "clipped" in line]
        if not shares:
            return self.record.get("clipped")
        weighed = [
            (after - before, share)
            for (before, _), (after, share) in zip([(0, 0.0), *shares], shares)
        ]
        return sum(n * share for n, share in weighed) / max(sum(n for n, _ in weighed), 1)

    @property
    def lr(self) -> float:
        """Return the peak learning rate."""
        rates = [line["lr"] for line in self.reports if "lr" in line]
        return self.train.get("lr") or max(rates, default=0.0)

    def best(self) -> dict[str, Any] | None:
        """Return the line of the best evaluation."""
        finite = [line for line in self.evaluations if math.isfinite(line["valid"])]
        if not finite:
            return None
        choose = min if self.lower else max
        return choose(finite, key=lambda line: line["valid"])

    @property
    def lower(self) -> bool:
        """Return whether less of the criterion is better: the loss, or an error."""
        name = (self.criterion or "nats").lower()
        return name in LOWER or "error" in name or "loss" in name

    @property
    def watched(self) -> dict[str, float]:
        """Return what was last read of gates and gradients."""
        for line in reversed(self.evaluations):
            found = {key: value for key, value in line.items() if key.startswith(WATCHED)}
            if found:
                return found
        return {}

    def layers(self, at: str = "step") -> dict[str, list[tuple[float, float]]]:
        """Return the gradient norm of each layer, by step or another key."""
        found: dict[str, list[tuple[float, float]]] = {}
        for line in self.reports:
            for key, value in line.items():
                if key.startswith(NORM) and at in line:
                    found.setdefault(key.removeprefix(NORM), []).append((line[at], value))
        return found

    def reach(self) -> dict[str, list[tuple[float, float]]]:
        """Return for each recurrent stack the last gradients by distance, as shares of that at 1."""
        found: dict[str, list[tuple[float, float]]] = {}
        for key, value in self.watched.items():
            if key.startswith(REACH):
                stack, _, distance = key.removeprefix(REACH).rpartition(".")
                found.setdefault(stack, []).append((int(distance), value))
        return {stack: sorted(points) for stack, points in found.items()}

    def gates(self) -> dict[str, Bar]:
        """Return the last saturation of each gate, candidate or state, by its name."""
        found = {}
        for key, value in self.watched.items():
            kind, _, name = key.partition(".")
            short = name.replace("gates.", "").replace("layers.", "")
            if kind == "closed":
                found[name] = Bar(short, value, self.watched.get(f"open.{name}", 0.0))
            elif kind == "saturated":
                found[name] = Bar(short, value)
        return found

    def state(self) -> str:
        """Say how far it is."""
        steps = f"{self.steps:,}"
        if self.finished:
            return f"finished, {steps} steps"
        of = (
            f"{steps} of {self.planned:,} steps"
            if self.minutes is None and self.planned
            else f"{steps} steps, {self.lines[-1].get('seconds', 0) / 60:.1f} of {self.minutes:g} minutes"
            if self.minutes
            else f"{steps} steps"
        )
        if self.process is not None:
            return f"still training (process {self.process}), {of}"
        return f"interrupted, {of}; the same command resumes"


# ---- reading


class Place(NamedTuple):
    """Where a log lies, and whether the run is "finished", "training" or "interrupted"."""

    log: Path
    state: str
    stamp: tuple[int, int]  # size and time of the log


def place_of(directory: Path) -> Place | None:
    """Return the log of a run or of a saved model without reading it; None where there is none."""
    from seqloom.directories import holder
    from seqloom.storage import TRAINING_LOG
    from seqloom.training.checkpoint import LOCK, LOG

    with suppress(OSError):
        if (log := directory / LOG).is_file():
            state = "interrupted" if holder(directory / LOCK) is None else "training"
        elif (log := directory / TRAINING_LOG).is_file():
            state = "finished"
        else:
            return None
        stat = log.stat()
        return Place(log, state, (stat.st_size, stat.st_mtime_ns))
    return None


def read_run(run: Any) -> RunLog:
    """Read a run: its directory, also before the first model is saved, a saved model or a fitted one."""
    if not isinstance(run, (str, Path)):
        return _of_model(run)
    from seqloom.training.checkpoint import read_log

    name = str(run)
    path = Path(name)
    if not path.exists() and Path(f"{name}.run").is_dir():
        name = f"{name}.run"
        path = Path(name)
    if not path.exists():
        raise ModelError(
            f"{name}: no such directory; give a network's saved model, or its OUT.run while it trains"
        )
    lines = [line for line in read_log(name) if _is_sound(line)]
    if not lines:
        raise ModelError(f"{name}: nothing has been logged yet; wait for the first steps")
    return RunLog(name, lines, **(_of_saved(path) or _of_running(path)))


TEXTS = ("criterion", "unit", "diverged")  # of a line; all else are numbers


def _is_sound(line: dict[str, Any]) -> bool:
    """Tell whether a line has a result, and nothing that a log does not hold; a file may be damaged."""
    return bool(line.keys() & {"loss", "valid", "diverged"}) and all(
        isinstance(value, str)
        if key in TEXTS
        else isinstance(value, float) or (isinstance(value, int) and abs(value) < 1 << 62)
        for key, value in line.items()
    )


def _of_saved(path: Path) -> dict[str, Any] | None:
    """Return what a saved model says of its making."""
    from seqloom.storage import CONFIG, read_config

    if not (path / CONFIG).is_file():
        return None
    config = read_config(path)
    record = config["fit"] if isinstance(config.get("fit"), dict) else {}
    train = record.get("train")
    return {
        "model": config["model"],
        "config": config["config"],
        "train": train if isinstance(train, dict) else {},
        "record": record,
    }


def _of_running(path: Path) -> dict[str, Any]:
    """Return what a run in training says of itself; a damaged or missing record says nothing."""
    from seqloom.directories import holder
    from seqloom.training.checkpoint import LOCK, RUN

    known: dict[str, Any] = {"finished": False, "process": holder(path / LOCK)}
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        saved = json.loads((path / RUN).read_text(encoding="utf-8"))
        facts, fixed = saved["facts"], saved["fixed"]
        seconds = fixed.get("seconds")
        known |= {
            "planned": fixed.get("steps"),
            "minutes": None if seconds is None else seconds / 60,
            "model": facts["model"],
            "config": facts["config"],
            "train": facts["train"],
        }
    return known


def _of_model(model: Any) -> RunLog:
    """Return the log of a fitted model."""
    if not hasattr(model, "fit_info"):
        raise ConfigError(
            f"a run is a directory or a fitted model; got {type(model).__name__}, which is neither"
        )
    model.check_fitted()
    lines = [line for line in model.log if "step" in line and _is_sound(line)]
    if not lines:
        raise ModelError(
            f"{model.label()} has no training log; it was counted, or trained before there was one"
        )
    return RunLog(
        model.label(),
        lines,
        model.name,
        model.config.to_dict(),
        model.fit_info.get("train", {}),
        model.fit_info,
    )


def unit_of(line: dict[str, Any]) -> str:
    """Return the unit of a line's loss: its own, or nats per what the run counts.

    >>> unit_of({"loss": 0.7, "words_per_s": 355, "words": 385})
    'nats per word'
    """
    rates = (key for key in line if key.endswith("s_per_s"))
    return line.get("unit") or f"nats per {next(rates, 'tokens_per_s').removesuffix('s_per_s')}"
