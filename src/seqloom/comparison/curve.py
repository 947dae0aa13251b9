"""The learning curve: how good each rung would be with less text, so one sees what more would bring.

Every rung is trained again on the first 1/16, 1/8, 1/4 and 1/2 of the training part, its tokenizer included, and
measured on the same test part; networks train for that share of their time. The last point is the rung itself. A
finished point is kept in a small file, so an interrupted curve goes on where it stopped.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from seqloom import progress
from seqloom.comparison.rungs import Bench, Rung
from seqloom.data.corpus import Corpus
from seqloom.errors import SeqloomError

PARTS = (16, 8, 4, 2)
SMALLEST = 500  # bytes of training text; less says nothing
FAMILIES = ("n-gram", "hidden", "network", "mixture")
LEAST_MINUTES = 0.1


class CurvePoint(NamedTuple):
    bytes: int  # of training text
    bits_per_byte: float
    seconds: float  # of training


Curve = dict[str, list[CurvePoint]]


def learning_curve(rungs: Iterable[Rung], bench: Bench, finished: dict[str, CurvePoint], place: Path,
                   minutes: float) -> Curve:
    """Points from little text to all of it, for each rung that has one in `finished` (its result on all of it).

    `minutes` is the most that the points of one rung may take together; what would need longer is left out and said.
    """
    drawn = [r for r in rungs if r.name in finished and r.family in FAMILIES]
    curve: Curve = {rung.name: [] for rung in drawn}
    left = {rung.name: minutes * 60 for rung in drawn}
    sizes: set[int | None] = set()
    with progress.task("learning curve", len(PARTS) * len(drawn), "points") as bar:
        for part in PARTS:
            text = prefix(bench.splits.train, part)
            if text is not None and text.n_bytes not in sizes:  # long rows: two parts may end with the same one
                sizes.add(text.n_bytes)
                smaller = Bench(dataclasses.replace(bench.splits, train=text), seed=bench.seed,
                                minutes=max(bench.minutes / part, LEAST_MINUTES))
                for rung in drawn:
                    point = _point(rung, drawn, smaller, place / "curve", part, finished, left)
                    if point is not None:
                        curve[rung.name].append(point)
                        left[rung.name] -= point.seconds
                    bar.advance()
    for rung in drawn:
        curve[rung.name].append(finished[rung.name])
    return curve


def prefix(corpus: Corpus, part: int) -> Corpus | None:
    """The first 1/part of a corpus, to the end of a line or row; None where that is too little."""
    if (corpus.n_bytes or 0) // part < SMALLEST:
        return None
    beginning = corpus.beginning(1 / part)
    return beginning if beginning is not None and (beginning.n_bytes or 0) >= SMALLEST else None


def _point(rung: Rung, drawn: list[Rung], bench: Bench, place: Path, part: int, finished: dict[str, CurvePoint],
           left: dict[str, float]) -> CurvePoint | None:
    others = [r for r in drawn if not r.on_others] if rung.on_others else []
    path = place / f"{rung.name}-{rung.key(bench, others)}-{part}.json"
    kept = _read(path)
    if kept is not None:
        return kept
    if finished[rung.name].seconds / part > left[rung.name]:
        progress.say(f"learning curve: {rung.name} on 1/{part} of the text is left out, the time is used up")
        return None
    try:
        for other in others:
            if other.name not in bench.fitted:  # its point was read from its file
                bench.fitted[other.name] = other.fit(bench)
        point = measure(rung, bench)
    except SeqloomError as error:
        progress.say(f"learning curve: {rung.name} on 1/{part} of the text is left out ({error})")
        return None
    _write(path, point)
    return point


def measure(rung: Rung, bench: Bench) -> CurvePoint:
    """Train a rung on the bench's training part and measure it on its test part."""
    start = time.perf_counter()
    model = rung.fit(bench)
    seconds = time.perf_counter() - start
    bench.fitted[rung.name] = model
    return CurvePoint(bench.splits.train.n_bytes or 0, model.bits_per_byte(bench.splits.test), seconds)


def _read(path: Path) -> CurvePoint | None:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        return CurvePoint(int(values["bytes"]), float(values["bits_per_byte"]), float(values["seconds"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _write(path: Path, point: CurvePoint) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(point._asdict()) + "\n", encoding="utf-8")
    partial.replace(path)


def best_by_size(curve: Curve) -> list[tuple[int, str, float]]:
    """For each amount of text the rung that is best with it: bytes, name, bits per byte."""
    sizes = sorted({point.bytes for points in curve.values() for point in points})
    best = []
    for size in sizes:
        bits, name = min((p.bits_per_byte, name) for name, points in curve.items() for p in points if p.bytes == size)
        best.append((size, name, bits))
    return best
