"""Search for good settings within a time limit: those with the best accuracy on held-out texts win.

The first trial has the settings of the user. Then all that have their default are drawn at random,
more and more of them near the best so far. A trial that could not end in time is not started. The
draws have a seed, but their number depends on the machine.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from seqloom import progress
from seqloom.data.classification import Labelled
from seqloom.errors import DataError, Interrupted, TrainingError
from seqloom.models.classification.bags import OutOfTime, default_epochs
from seqloom.models.classification.configs import MINUTES, FastTextClassifierConfig

if TYPE_CHECKING:
    from seqloom.models.classification.fasttext_classifier import FastTextClassifier

Settings = dict[str, Any]
Draw = np.random.Generator

_TRIES = 30  # draws until one is cheap enough


@dataclass(frozen=True)
class Range:
    """The values of a setting: the listed ones, or all between two, log-uniformly."""

    low: float = 0
    high: float = 0
    values: tuple[int, ...] = ()
    integer: bool = True

    def any(self, draw: Draw) -> Any:
        if self.values:
            return int(draw.choice(self.values))
        return self._rounded(math.exp(draw.uniform(math.log(self.low), math.log(self.high))))

    def near(self, value: Any, width: float, draw: Draw) -> Any:
        """Sample a value near this one; `width`: about how far, as a share of the whole range."""
        if self.values:
            return value if draw.random() > width else self.any(draw)
        step = draw.normal() * width * math.log(self.high / self.low)
        return self._rounded(min(max(value * math.exp(step), self.low), self.high))

    def _rounded(self, value: float) -> Any:
        return max(1, round(value)) if self.integer else float(f"{value:.3g}")


def ranges(config: FastTextClassifierConfig, texts: int) -> dict[str, Range]:
    """Return the range of each setting that has its default."""
    epochs = default_epochs(texts)
    every = {
        "lr": Range(0.03, 2, integer=False),
        "epochs": Range(max(1, epochs / 4), 4 * epochs),
        "ngrams": Range(values=(1, 2, 3)),
        "dimensions": Range(10, 200),
        "min_count": Range(values=(1, 1, 2, 3, 5)),
        "max_ngram": Range(values=(0, 0, 0, *(n for n in (4, 5, 6) if n >= config.min_ngram))),
    }
    usual = FastTextClassifierConfig()
    fixed = {name for name in every if getattr(config, name) != getattr(usual, name)}
    if config.pretrained is not None:
        fixed.add("dimensions")
    if config.vocab_file is not None:
        fixed.add("min_count")
    if config.tokenizer not in ("word", "whitespace"):
        fixed |= {"max_ngram", "min_count"}
    return {name: span for name, span in every.items() if name not in fixed}


class Search:
    """Proposes settings, given the accuracy of the earlier ones."""

    def __init__(self, first: Settings, spans: dict[str, Range], seed: int) -> None:
        self.spans, self.best, self.best_accuracy = spans, first, -1.0
        self.draw = np.random.default_rng([seed, 7])

    def record(self, settings: Settings, accuracy: float) -> bool:
        """Keep the settings if they are the best so far, and return whether they are."""
        better = accuracy > self.best_accuracy
        if better:
            self.best, self.best_accuracy = settings, accuracy
        return better

    def propose(self, spent: float) -> Settings:
        """Propose settings to try; `spent`: the share of the time limit that has passed."""
        if self.draw.random() < 0.6 - 0.5 * spent:
            return {name: span.any(self.draw) for name, span in self.spans.items()}
        width = 0.3 - 0.25 * spent
        return {
            name: span.near(self.best[name], width, self.draw) for name, span in self.spans.items()
        }


class Tuning:
    """Trials of one model on the same data, and the best of them."""

    def __init__(self, model: FastTextClassifier, data: Labelled, valid: Labelled) -> None:
        if not set(valid.labels) & set(model.classes):
            raise DataError(
                f"{valid.name} has no label that was seen in training; valid data must share its classes"
            )
        self.model, self.data, self.valid, self.config = model, data, valid, model.config
        self.labels = np.array(valid.labels)
        self.limit, self.begun = 60 * model.config.minutes, time.monotonic()
        spans = ranges(self.config, len(data))
        self.first: Settings = {name: getattr(self.config, name) for name in spans}
        if "epochs" in spans:
            self.first["epochs"] = default_epochs(len(data))
        self.search = Search(self.first, spans, self.config.seed)
        self.best: FastTextClassifier | None = None
        self.trials: list[Settings] = []
        self.costs: list[float] = []  # seconds for each unit of `_work`

    def run(self) -> FastTextClassifier:
        """Run trials until the time is over or somebody interrupts."""
        with progress.task("tuning", round(self.limit), "s") as bar:
            for settings in self._proposals():
                start = time.monotonic()
                try:
                    go_on = self._try(settings)
                except (OutOfTime, KeyboardInterrupt) as error:
                    if self.best is None:
                        raise
                    if isinstance(error, Interrupted):
                        error.obey()
                    break
                except (TrainingError, DataError):  # diverged, or no word comes min_count times
                    if self.best is None:
                        raise
                    go_on = True
                bar.advance(max(1, round(time.monotonic() - start)))
                if not go_on:
                    break
        assert self.best is not None
        self.best.config = replace(
            self.best.config, quantise=self.config.quantise, cutoff=self.config.cutoff
        )
        return self.best

    def summary(self) -> Settings:
        """Return the number of trials, the best settings, their accuracy and that of the first."""
        return {
            "trials": len(self.trials),
            "settings": self.search.best,
            "accuracy": self.search.best_accuracy,
            "accuracy_before": self.trials[0]["accuracy"],
        }

    def _try(self, settings: Settings) -> bool:
        """Learn and evaluate; return False after an interruption. Only the first has no time limit."""
        start = time.monotonic()
        config = replace(
            self.config, tune=False, minutes=MINUTES, quantise=False, cutoff=None, **settings
        )
        model = type(self.model)(config)
        model.learnt, model.fit_info, model.fitted = (
            self.model.learnt,
            dict(self.model.fit_info),
            True,
        )
        with progress.recording() as model.log:
            completed = model.learn(
                self.data, deadline=self.begun + self.limit if self.best else math.inf
            )
        if self.best is not None and not completed:
            return False
        accuracy = float(np.mean(np.array(model.predict(self.valid.texts)) == self.labels))
        seconds = time.monotonic() - start
        self.costs.append(seconds / _work(config))
        self.trials.append({**settings, "accuracy": accuracy})
        if self.search.record(settings, accuracy):
            self.best = model
        progress.say(
            f"trial {len(self.trials)}, {seconds:.1f} s: accuracy {accuracy:.2%}, best "
            f"{self.search.best_accuracy:.2%}; "
            + ", ".join(f"{name} {value}" for name, value in settings.items())
        )
        return completed

    def _proposals(self) -> Iterator[Settings]:
        """Yield the settings of the user, then others that can be learnt in the remaining time."""
        yield self.first
        if not self.search.spans:
            progress.say(
                "every setting that could be tuned was given a value, so there is nothing to tune"
            )
        while self.search.spans:
            seconds_left = self.begun + self.limit - time.monotonic()
            drawn = (self.search.propose(1 - seconds_left / self.limit) for _ in range(_TRIES))
            affordable = next(
                (settings for settings in drawn if self._seconds(settings) < seconds_left), None
            )
            if affordable is None:
                return
            yield affordable

    def _seconds(self, settings: Settings) -> float:
        """Estimate how long a trial takes; the first also compiles, so it counts only while it is the
        only one.
        """
        return _work(replace(self.config, **settings)) * float(
            np.median(self.costs[1:] or self.costs)
        )


def _work(config: FastTextClassifierConfig) -> float:
    """Estimate the work: reading the texts once, and every dimension of every feature in each
    epoch.
    """
    features = config.ngrams + (10.0 if config.max_ngram else 0.0)
    return features * (3 + (config.epochs or 1) * (0.3 + config.dimensions / 100))
