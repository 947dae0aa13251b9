"""What runs of several sizes and lengths say together: the law, and what more would bring, in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from seqloom import storage
from seqloom._version import __version__
from seqloom.charts.comparison import BITS
from seqloom.charts.page import Sheet
from seqloom.charts.scaling import Measured, Predicted, law_chart
from seqloom.comparison.table import aligned, short, size
from seqloom.contracts import LanguageModel
from seqloom.data.corpus import as_corpus
from seqloom.errors import ConfigError, DataError, ModelError
from seqloom.frames import as_frame
from seqloom.metrics.result import plain
from seqloom.metrics.scaling import (
    FEWEST,
    LEAST_NOISE,
    MOST_PASSES,
    Interval,
    Law,
    Noise,
    Posterior,
    fit,
    noise_of,
    posterior,
)
from seqloom.views.run_logs import Lines, read_run

MORE = 4.0  # times the text, or the weights, that the answers are about
HOUR, FAR = (
    3600.0,
    100.0,
)  # seconds; times the seconds of the longest run from which on nothing is said
FAR_OFF = 4.0  # times the noise
HUBER = 1.345  # deviations of the noise from where on a run counts less


@dataclass(frozen=True)
class Scaled:
    """A run: how large the network was, how much text it read, and how well it then did."""

    width: int | None
    parameters: int | None  # None: a model that counts, which has no size of its own
    size: int  # bytes of text
    passes: float
    seed: int
    loss: float  # bits per byte of the held-out text
    seconds: float  # of training
    share: float = (
        0.0  # of a plan's text; equal ones are never quite as long, as they end with lines
    )

    def repeats(self, other: Scaled) -> bool:
        """Return whether it differs from another run in its seed alone, or in which lines it read."""
        alike = self.share == other.share if self.share else self.size == other.size
        return alike and (self.parameters, self.passes) == (other.parameters, other.passes)

    @property
    def read(self) -> float:
        """Return how many bytes it read, repeated ones included."""
        return self.size * self.passes


@dataclass(frozen=True)
class Scaling:
    """The runs, the law, and what it answers."""

    model: str
    corpus: str
    fingerprint: str
    runs: list[Scaled]  # those that the law is fitted to
    repeats: list[Scaled]  # of one of them with other seeds
    law: Law
    noise: Noise
    posterior: Posterior
    text: int  # bytes of text that there are
    held_out: Scaled | None = None  # a larger run, which the law has not seen

    @classmethod
    def of(
        cls, model: str, corpus: str, fingerprint: str, runs: Sequence[Scaled], text: int
    ) -> Scaling:
        """Fit the law to runs; refuse, with the reason, where they do not carry it."""
        groups: list[list[Scaled]] = []
        for run in runs:
            same = next((group for group in groups if run.repeats(group[0])), None)
            groups.append([run]) if same is None else same.append(run)
        firsts = [group[0] for group in groups]
        repeats = [run for group in groups for run in group[1:]]
        if len(firsts) < FEWEST:
            raise DataError(
                f"{len(firsts)} runs of different size or length are too few for a scaling law; give at "
                f"least {FEWEST}, better nine: three widths by three lengths"
            )
        longest = max(firsts, key=lambda run: run.passes)
        if longest.passes > MOST_PASSES + 0.05:
            raise DataError(
                f"a run read its text {longest.passes:.1f} times, and after {MOST_PASSES:g} passes text is "
                "worth less than new text: the law would take its repetition for more; train on more text, "
                "or for fewer epochs"
            )
        noise = noise_of([run.loss for run in group] for group in groups)
        two = all(run.parameters is not None for run in firsts)
        if two and len({run.parameters for run in firsts}) == 1:
            two = False
        quantities = [_place(run, two) for run in firsts]
        losses = [run.loss for run in firsts]
        law = fit(losses, quantities, HUBER * max(noise.deviation, LEAST_NOISE))
        return cls(
            model,
            corpus,
            fingerprint,
            firsts,
            repeats,
            law,
            noise,
            posterior(losses, quantities, noise),
            text,
        )

    # ---- what it answers

    @property
    def sized(self) -> bool:
        """Return whether the law has a term of the size."""
        return len(self.law.exponents) == 2

    @cached_property
    def largest(self) -> Scaled:
        return max(self.runs, key=lambda run: (run.parameters or 1) * run.read)

    def place(self, run: Scaled) -> tuple[float, ...]:
        """Return where a run is in the law: its weights and its text, or the text alone."""
        return _place(run, self.sized)

    def predict(self, text: float, parameters: float | None = None) -> Interval:
        """Return where the loss of a run will be; `text` in bytes that it reads, repeated ones included."""
        if self.sized and parameters is None:
            raise DataError("this law has sizes: give parameters too")
        return self.posterior.run(*((parameters, text) if self.sized else (text,)))

    def more_text(self, times: float = MORE) -> Interval:
        """Return how many bits per byte so many times the text would bring, after the largest run."""
        now = self.place(self.largest)
        return self.posterior.gain(now, (*now[:-1], now[-1] * times))

    def more_weights(self, times: float = MORE) -> Interval | None:
        """Return the same for so many times the weights."""
        now = self.place(self.largest)
        return self.posterior.gain(now, (now[0] * times, now[1])) if self.sized else None

    def split(self) -> Interval | None:
        """Return the power of the compute with which the text should grow; the network grows with the
        rest.
        """
        if not self.sized:
            return None
        a, b = self.posterior.exponents.T
        return self.posterior.interval(a / (a + b))

    def best_at(self, compute: float) -> tuple[float, float]:
        """Return the weights and the text that are best for weights times text (bytes read)."""
        (factor_n, factor_d), (a, b) = self.law.factors, self.law.exponents
        weights = (a * factor_n / (b * factor_d) * compute**b) ** (1 / (a + b))
        return weights, compute / weights

    def hour(self) -> dict[str, Any] | None:
        """Return what an hour of training would reach, by the measured speeds; None where that is too far
        from what was run to say.
        """
        if FAR * max(run.seconds for run in self.runs) < HOUR or not all(
            run.seconds > 0 for run in self.runs
        ):
            return None
        speed = np.log([run.seconds / run.read for run in self.runs])
        if not self.sized:
            weights, text = None, HOUR / math.exp(speed.mean())
            return {"weights": weights, "text": text, "loss": self.predict(text)}
        sizes = np.log([run.parameters or 1 for run in self.runs])
        slope, start = np.polyfit(sizes, speed, 1).tolist()
        tried = np.exp(np.linspace(sizes.min(), sizes.max() + math.log(FAR), 400))
        read = HOUR / np.exp(start + max(slope, 0.0) * np.log(tried))
        losses = [self.law(n, d) for n, d in zip(tried, read)]
        best = int(np.argmin(losses))
        weights, text = float(tried[best]), float(read[best])
        return {"weights": weights, "text": text, "loss": self.predict(text, weights)}

    @property
    def distance(self) -> float:
        """Return how far runs lie from the law: the root of the mean square, relative."""
        off = [run.loss / self.law(*self.place(run)) - 1 for run in self.runs]
        return float(np.sqrt(np.mean(np.square(off))))

    @property
    def expected(self) -> Interval | None:
        """Return where the law says that the held-out larger run is."""
        return None if self.held_out is None else self.posterior.run(*self.place(self.held_out))

    # ---- in words

    def answers(self) -> list[str]:
        """Return what follows, a sentence each."""
        unit, times = BITS.title, f"{MORE:g}x"
        weights = self.more_weights()
        of = _shown_run(self.largest)
        lines = [
            f"from the largest run ({of}, {self.largest.loss:.3f} {unit}): {times} the text would bring "
            f"{_bits(self.more_text())}"
            + (
                ""
                if weights is None
                else f"; {times} the weights (about {math.sqrt(MORE):g}x the width) {_bits(weights)}"
            )
        ]
        if (split := self.split()) is not None:
            compute = math.prod(self.place(self.largest))
            n, d = self.best_at(compute)
            lines.append(
                f"with more compute, the text should grow as its power {split.value:.2f} ({split.low:.2f} to "
                f"{split.high:.2f}) and the network as the rest; for that of the largest run {short(n)} "
                f"weights and {size(d)} would be best, {self.law(n, d):.3f}"
            )
        lines.append(self._hour_line())
        lines += [
            f"in 95 of 100 cases a run lies in these intervals; noise of a run {self.noise.deviation:.2%}"
            + ("" if self.repeats else ", assumed: none was repeated")
        ]
        if (off := self.distance) > FAR_OFF * max(self.noise.deviation, LEAST_NOISE):
            lines.append(
                f"runs lie {off:.1%} from the law, far more than their noise: the shortest are too short, or "
                "were trained unevenly; give more minutes"
            )
        if self.posterior.widened > 1:
            lines.append(
                f"fitted without its largest third the law missed it, so all intervals are "
                f"{self.posterior.widened:.1f} times as wide"
            )
        if (expected := self.expected) is not None and self.held_out is not None:
            inside = expected.low <= self.held_out.loss <= expected.high
            lines.append(
                f"held-out larger run ({_shown_run(self.held_out)}): {self.held_out.loss:.3f}, expected "
                f"{_interval(expected)}: {'inside' if inside else 'outside'}, "
                f"{self.held_out.loss / expected.value - 1:+.1%} off"
            )
        return lines

    def _hour_line(self) -> str:
        hour = self.hour()
        if hour is None:
            return "what an hour would reach is too far from these runs to say"
        weights = "" if hour["weights"] is None else f"{short(hour['weights'])} weights and "
        lacking = hour["text"] > MOST_PASSES * self.text
        return (
            f"an hour would reach {_interval(hour['loss'])} with {weights}{size(hour['text'])} of text"
            + (f", of which there are {size(self.text)}" if lacking else "")
        )

    def formula(self) -> str:
        """Return the law in figures."""
        names = ("N", "D") if self.sized else ("D",)
        terms = " + ".join(
            f"{factor:.3g} / {name}^{power:.3f}"
            for factor, name, power in zip(self.law.factors, names, self.law.exponents)
        )
        what = "N weights, D bytes read" if self.sized else "D bytes read"
        return f"{BITS.title} = {self.law.floor:.3f} + {terms}   ({what})"

    def table(self) -> str:
        """Return the runs, the law and the answers as text."""
        heading = ("width", "weights", "text", "passes", "bits/byte", "law", "off", "seconds")
        rows = [
            (
                "-" if run.width is None else str(run.width),
                "-" if run.parameters is None else f"{run.parameters:,}",
                size(run.size),
                f"{run.passes:g}",
                f"{run.loss:.4f}",
                f"{self.law(*self.place(run)):.4f}",
                f"{run.loss / self.law(*self.place(run)) - 1:+.2%}",
                f"{run.seconds:.1f}",
            )
            for run in sorted(self.runs, key=lambda run: (run.parameters or 0, run.size))
        ]
        return "\n".join(
            [
                f"{self.model} on {self.corpus}"
                + (f" ({self.fingerprint[:8]})" if self.fingerprint else ""),
                "",
                aligned(heading, rows),
                "",
                self.formula(),
                *(f"- {line}" for line in self.answers()),
            ]
        )

    __str__ = __repr__ = table

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        hour, weights, split = self.hour(), self.more_weights(), self.split()
        return plain(
            {
                "model": self.model,
                "corpus": self.corpus,
                "fingerprint": self.fingerprint,
                "runs": [asdict(run) for run in self.runs],
                "repeats": [asdict(run) for run in self.repeats],
                "law": asdict(self.law),
                "noise": self.noise.deviation,
                "widened": self.posterior.widened,
                "times": MORE,
                "more_text": self.more_text()._asdict(),
                "more_weights": None if weights is None else weights._asdict(),
                "text_power": None if split is None else split._asdict(),
                "hour": None if hour is None else hour | {"loss": hour["loss"]._asdict()},
                "held_out": None if self.held_out is None else asdict(self.held_out),
                "expected": None if self.expected is None else self.expected._asdict(),
                "answers": self.answers(),
                "seqloom": __version__,
            }
        )

    def to_frame(self) -> Any:
        """Return a row for each run: a frame of pandas or polars where one is installed."""
        return as_frame(asdict(run) for run in [*self.runs, *self.repeats])

    def sheet(self) -> Sheet:
        """Return the picture: runs, law, and the held-out larger run with what was expected of it."""
        title = f"Scaling of {self.model} on {self.corpus}"
        return Sheet(title, lambda page: {title: self._chart()}, self.to_dict(), self.answers())

    def _chart(self) -> Any:
        every = [*self.runs, *self.repeats]
        measured = [Measured(self._line(run), run.read, run.loss) for run in every]
        far = MORE * max(run.read for run in every)
        least = min(run.read for run in every)
        shown = [self.held_out] if self.held_out is not None else []
        lines = {self._line(run): run for run in sorted([*self.runs, *shown], key=_weights)}
        predicted = [
            Predicted(name, d, *self.posterior.run(*self._with_text(run, d)))
            for name, run in lines.items()
            for d in np.geomspace(least, far, 40).tolist()
        ]
        larger = [Measured(self._line(run), run.read, run.loss) for run in shown]
        return law_chart(measured, predicted, larger, BITS)

    def _with_text(self, run: Scaled, text: float) -> tuple[float, ...]:
        return (*self.place(run)[:-1], text)

    def _line(self, run: Scaled) -> str:
        return f"{short(run.parameters or 0)} weights" if self.sized else self.model


def scaling_of(runs: Sequence[Any], *, valid: Any = None) -> Scaling:
    """Fit a scaling law to networks that were trained before: saved models, or fitted ones.

    They must share a tokenizer and differ in size, in the text that they read, or both. The loss is that of
    `valid`, in bits per byte, or else what their training measured on held-out text, which must have been
    the same for all.
    """
    done, tokenizers = [], set()
    text = None if valid is None else as_corpus(valid)
    for run in runs:
        fitted = storage.load(run) if isinstance(run, (str, Path)) else run
        name = str(run) if isinstance(run, (str, Path)) else fitted.label()
        if not isinstance(fitted, LanguageModel) or not fitted.trained:
            raise ConfigError(
                f"{name} is no network that models language, whose runs have sizes and lengths; scaling "
                f"trains runs of {fitted.name} on a text instead"
            )
        tokenizers.add(fitted.tokenizer.label())
        lines = _log_of(run)
        measured = [line for line in lines if "valid" in line and "bits_per_byte" in line]
        if text is None and not measured:
            raise DataError(
                f"{name} was not measured on held-out text in bits per byte; give valid=..."
            )
        passes = float(fitted.recorded("epochs", 1.0))
        loss = (
            float(fitted.bits_per_byte(text))
            if text is not None
            else min(line["bits_per_byte"] for line in measured)
        )
        size = int(fitted.recorded("bytes", 0) * min(passes, 1.0))
        seconds = float(lines[-1].get("seconds", 0.0)) if lines else 0.0
        width = fitted.learnt.get("width")
        done.append(Scaled(width, fitted.parameters, size, max(passes, 1.0), 0, loss, seconds))
    if len(tokenizers) > 1:
        raise DataError(
            f"the runs have different tokenizers ({', '.join(sorted(tokenizers))}), so the floor of their "
            "losses differs; give runs with one"
        )
    first = runs[0] if runs else ""
    of = storage.load(first).name if isinstance(first, (str, Path)) and first else "model"
    return Scaling.of(of, f"{len(done)} runs", "", done, max((one.size for one in done), default=0))


def _log_of(run: Any) -> Lines:
    """Return the training log; of a model that was saved without one, none."""
    with suppress(ModelError):
        return read_run(run).lines
    return []


def _place(run: Scaled, sized: bool) -> tuple[float, ...]:
    return (float(run.parameters or 0), run.read) if sized else (run.read,)


def _weights(run: Scaled) -> int:
    return run.parameters or 0


def _interval(interval: Interval) -> str:
    return f"{interval.value:.3f} ({interval.low:.3f} to {interval.high:.3f})"


def _bits(interval: Interval) -> str:
    return f"{interval.value:.3f} bits ({interval.low:.3f} to {interval.high:.3f})"


def _shown_run(run: Scaled) -> str:
    weights = "" if run.parameters is None else f"{short(run.parameters)} weights, "
    return weights + size(run.size)
