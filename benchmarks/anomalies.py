"""Anomalies in the series of NAB (Numenta Anomaly Benchmark), beside a threshold on the value, at
equal false alarms.

Each detector learns from the first 15 % of a series (NAB's probation). Its threshold is such that a
given share of the later steps outside of NAB's windows is above it; a window is found if one of its
steps is. How steps are scored and the options of the network were chosen on `nab-development`;
`nab-held-out` and `nab-known-cause` were then read once.

The series are those of a checkout of github.com/numenta/NAB, $SEQLOOM_NAB; without it, those with
known cause are looked for in $SEQLOOM_DATA/series/nab, beside combined_windows.json.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.side_by_side import collect, data, sized, table
from seqloom.data.forecasting import read_series
from seqloom.registry import model_class
from seqloom.training.config import TrainConfig

RATES = (0.001, 0.005, 0.01)  # of false alarms among steps outside of NAB's windows
PROBATION = 0.15  # of each series that detectors may learn from, as NAB has it
KNOWN = "realKnownCause"
GROUPS = {
    "nab-development": ("artificialWithAnomaly", "realAWSCloudwatch"),
    "nab-held-out": ("realTraffic", "realTweets", "realAdExchange"),
    "nab-known-cause": (KNOWN,),
}
PEER = "threshold on the value"
MODELS: dict[str, dict[str, Any]] = {
    "naive": {},
    "exponential-smoothing": {"seasonal": False},
    "linear-window": {"window": sized(48, 8)},
    "forecaster": {"window": sized(96, 8), "dropout": 0.2},
}
EPOCHS = 20

Scores = tuple[np.ndarray, np.ndarray]  # of each step after the probation: its score, and its time
Found = list[list[bool]]  # by rate, of each window


def run(quick: bool, only: str) -> None:
    suites: dict[str, Callable[[], Iterator[tuple[str, ...]]]] = {
        name: partial(rows, name, quick) for name in GROUPS
    }
    rates = [f"{rate:.1%} of other steps" for rate in RATES]
    table(
        "anomalies: windows found at equal false alarms (in brackets: not by the threshold / only "
        "by the threshold)",
        collect(suites, only),
        ("series", "windows", "detector", *rates, "all"),
    )


def rows(name: str, quick: bool) -> Iterator[tuple[str, ...]]:
    """One for each detector and group of series, and for all groups of the suite together."""
    every: dict[str, Found] = {}
    for group in GROUPS[name]:
        if (there := _files(group)) is None:
            return
        found = _search(group, *there, quick)
        yield from _lines(group, found)
        for detector, by_rate in found.items():
            every[detector] = [
                a + b for a, b in zip(every.get(detector, [[]] * len(RATES)), by_rate)
            ]
    if len(GROUPS[name]) > 1:
        yield from _lines(f"{name}, together", every)


def _search(group: str, paths: list[Path], marked: dict[str, Any], quick: bool) -> dict[str, Found]:
    found: dict[str, Found] = {}
    for path in paths:
        for detector, scores in detectors(path, quick):
            for k, more in enumerate(windows_found(*scores, marked[f"{group}/{path.name}"])):
                found.setdefault(detector, [[] for _ in RATES])[k] += more
    return found


def _lines(title: str, found: dict[str, Found]) -> Iterator[tuple[str, ...]]:
    for detector, by_rate in found.items():
        counts = [
            str(sum(ours)) if detector == PEER else _cell(ours, peer)
            for ours, peer in zip(by_rate, found[PEER])
        ]
        yield title, str(len(by_rate[0])), detector, *counts, str(sum(map(sum, by_rate)))


def _cell(ours: list[bool], peer: list[bool]) -> str:
    pairs = list(zip(ours, peer))
    return f"{sum(ours)} ({pairs.count((True, False))} / {pairs.count((False, True))})"


def _files(group: str) -> tuple[list[Path], dict[str, Any]] | None:
    """The series of a group and the windows of all, or None with a remark."""
    if "SEQLOOM_NAB" in os.environ:
        root = Path(os.environ["SEQLOOM_NAB"])
        folder, labels = root / "data" / group, root / "labels" / "combined_windows.json"
    elif group == KNOWN and (flat := data("series", "nab")) is not None:
        folder, labels = flat, flat / "combined_windows.json"
    else:
        print(f"(skipped: {group}: $SEQLOOM_NAB, a checkout of NAB, is not set)")
        return None
    return sorted(folder.glob("*.csv")), json.loads(labels.read_text())


def detectors(path: Path, quick: bool) -> Iterator[tuple[str, Scores]]:
    """Of each detector, the scores of the steps after the probation."""
    series = read_series(path)
    track = series.tracks[0]
    learnt, rest = series.between(0, PROBATION), series.between(PROBATION, 1.0)
    begin = rest.tracks[0].begin
    values, times = track.values[:, 0], series.times(track)
    mean, std = np.nanmean(values[:begin]), np.nanstd(values[:begin])
    yield PEER, (np.nan_to_num(np.abs(values[begin:] - mean) / std), times[begin:])
    for name, options in MODELS.items():
        model = model_class(name)(horizon=1, season=1, **options)
        how = {"train": TrainConfig(epochs=2 if quick else EPOCHS, seed=0)} if model.trained else {}
        model.fit(learnt.alone(), **how)
        ((_, (when, scores)),) = model.anomalies(rest, rate=0.5).scores.items()
        yield name, (scores, when)


def windows_found(scores: np.ndarray, times: np.ndarray, spans: list[list[str]]) -> Found:
    """By rate, which windows hold a step above the threshold that such a share of the steps outside
    of them exceeds.
    """
    inside = np.zeros(len(times), bool)
    places = []
    for span in spans:
        low, high = (np.datetime64(at.replace(" ", "T"), "s").astype(np.int64) for at in span)
        places.append((times >= low) & (times <= high))
        inside |= places[-1]
    thresholds = np.quantile(scores[~inside], [1 - rate for rate in RATES])
    return [
        [bool((scores[place] > threshold).any()) for place in places] for threshold in thresholds
    ]
