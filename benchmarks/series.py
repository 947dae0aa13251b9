"""Forecasters on ETTh1 (12/4/4 months, seven columns), coverage of intervals, and anomalies on NAB's series with known cause.

ETTh1 is scaled by the mean and standard deviation of its first twelve months (8,640 hours), as in the papers; settings were
chosen on the next four months (2,880 hours), and the last four are looked at once. Files are below $SEQLOOM_DATA/series.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.side_by_side import collect, data, table
from seqloom.data.series import Series, read_series
from seqloom.registry import model_class
from seqloom.training.config import TrainConfig

MONTHS = (8640, 11_520, 14_400)  # hours after which training, validation and test end
MODELS: dict[str, dict[str, Any]] = {
    "naive": {}, "seasonal-naive": {}, "exponential-smoothing": {}, "arima": {}, "linear-window": {"window": 336},
    "forecaster": {"window": 336}}
RATES = (0.001, 0.005, 0.01)  # of false alarms among steps outside of NAB's windows
PROBATION = 0.15  # of each NAB series that detectors may learn from, as NAB has it


def run(quick: bool, only: str) -> None:
    bench = Bench(quick)
    forecasts = {name: suite for name, suite in bench.suites().items() if name != "nab"}
    table("forecasters", collect(forecasts, only),
          ("data", "horizon", "model", "MSE", "MAE", "MASE", "80 %", "95 %", "seconds to fit"))
    if only in "nab":
        table("anomalies: windows found of 19 at equal false alarms", collect({"nab": bench.nab}, only),
              ("detector", *(f"{rate:.1%} of other steps" for rate in RATES)))


class Bench:
    def __init__(self, quick: bool) -> None:
        self.quick = quick

    def suites(self) -> dict[str, Callable[[], Iterator[tuple[str, ...]]]]:
        return {"etth1": self.etth1, "temperatures": self.temperatures, "nab": self.nab}

    def etth1(self) -> Iterator[tuple[str, ...]]:
        if (path := data("series", "ETTh1.csv")) is None:
            return
        whole = read_series(path).between(0, MONTHS[2])
        train, valid, test = whole.between(0, MONTHS[0]), whole.between(*MONTHS[:2]), whole.between(*MONTHS[1:])
        for horizon in (24,) if self.quick else (24, 96):
            for name, options in MODELS.items():
                yield self._row("ETTh1", name, {**options, "horizon": horizon}, train, valid, test)

    def temperatures(self) -> Iterator[tuple[str, ...]]:
        """Ten years of daily minima in Melbourne: seven years to learn from, one to calibrate, two to judge."""
        if (path := data("series", "daily-min-temperatures.csv")) is None:
            return
        whole = read_series(path)
        train, valid, test = (whole.between(a, b) for a, b in ((0, 0.7), (0.7, 0.8), (0.8, 1.0)))
        for name in ("seasonal-naive", "exponential-smoothing", "linear-window", "forecaster"):
            yield self._row("daily temperatures", name, {"horizon": 7, **({"window": 98} if name != "seasonal-naive" else {})},
                            train, valid, test)

    def _row(self, title: str, name: str, options: dict[str, Any], train: Series, valid: Series, test: Series,
             ) -> tuple[str, ...]:
        if name in ("naive", "seasonal-naive"):
            options = {key: value for key, value in options.items() if key != "window"}
        model = model_class(name)(**options)
        how = {"train": TrainConfig(epochs=0.2 if self.quick else 5, seed=0)} if model.trained else {}
        start = time.perf_counter()
        model.fit(train, valid=valid, **how)
        seconds = time.perf_counter() - start
        r = model.evaluate(test, samples=0)
        return (title, str(options["horizon"]), model.label(), f"{r['mse']:.4f}", f"{r['mae']:.4f}", f"{r['mase']:.3f}",
                f"{r['coverage_80']:.1%}", f"{r['coverage_95']:.1%}", f"{seconds:.0f}")

    def nab(self) -> Iterator[tuple[str, ...]]:
        if (folder := data("series", "nab")) is None:
            return
        marked = json.loads((folder / "combined_windows.json").read_text())
        found: dict[str, list[int]] = {}
        for path in sorted(folder.glob("*.csv")):
            spans = marked[f"realKnownCause/{path.name}"]
            for name, scores, times in self._scores(path):
                found.setdefault(name, [0] * len(RATES))
                for k, rate in enumerate(RATES):
                    found[name][k] += _windows_found(scores, times, spans, rate)
        for name, counts in found.items():
            yield (name, *map(str, counts))

    def _scores(self, path: Path) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
        """Of each detector, the scores of the steps after the probation."""
        series = read_series(path)
        track = series.tracks[0]
        learnt, rest = series.between(0, PROBATION), series.between(PROBATION, 1.0)
        begin = rest.tracks[0].begin
        values, times = track.values[:, 0], series.times(track)
        mean, std = np.nanmean(values[:begin]), np.nanstd(values[:begin])
        yield "threshold on the value", np.nan_to_num(np.abs(values[begin:] - mean) / std), times[begin:]
        for name, options in (("naive", {}), ("exponential-smoothing", {"seasonal": False}), ("linear-window", {"window": 48}),
                              ("forecaster", {"window": 48})):
            model = model_class(name)(horizon=1, season=1, **options)
            how = {"train": TrainConfig(epochs=2 if self.quick else 20, seed=0)} if model.trained else {}
            model.fit(learnt.alone(), **how)
            (_, (when, scores)), = model.anomalies(rest, rate=0.5).scores.items()
            yield name, scores, when


def _windows_found(scores: np.ndarray, times: np.ndarray, spans: list[list[str]], rate: float) -> int:
    """How many windows hold a step above the threshold that a share `rate` of the steps outside of them exceeds."""
    inside = np.zeros(len(times), bool)
    places = []
    for span in spans:
        low, high = (np.datetime64(at.replace(" ", "T"), "s").astype(np.int64) for at in span)
        places.append((times >= low) & (times <= high))
        inside |= places[-1]
    threshold = np.quantile(scores[~inside], 1 - rate)
    return sum(bool((scores[place] > threshold).any()) for place in places)
