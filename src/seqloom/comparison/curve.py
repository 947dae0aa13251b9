"""The learning curve: how good each rung would be with less data, so one sees what more would bring.

Every rung is trained again on the first 1/16, 1/8, 1/4 and 1/2 of the training part, its tokenizer
included, and measured on the same test part. Networks train for as many minutes as on all of it, so that
only the data differs: with less time as well, a curve would promise of more data what more time brings
(`comparison/scaling` takes the two apart). The last point is the rung itself. A finished point is kept in
a small file, so an interrupted curve goes on where it stopped.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from seqloom import progress
from seqloom.comparison.bench import OWN, Attempt, Bench, Rung
from seqloom.comparison.timing import is_network
from seqloom.errors import SeqloomError

if TYPE_CHECKING:
    from seqloom.comparison.ladder import Ladder

PARTS = (16, 8, 4, 2)


class CurvePoint(NamedTuple):
    size: int  # of the training data, in the unit of the ladder
    value: float  # of the measure
    seconds: float  # of training


Curve = dict[str, list[CurvePoint]]


def learning_curve(
    ladder: Ladder,
    rungs: Iterable[Rung],
    bench: Bench,
    finished: dict[str, CurvePoint],
    directory: Path,
    minutes: float,
) -> Curve:
    """Compute points from little data to all of it, for each rung that has one in `finished` (its
    result on all of it).

    `minutes` is the most that the points of one rung may take together; what would need longer is
    left out and said.
    """
    families = ladder.curve_families
    drawn = [
        r
        for r in rungs
        if r.name in finished
        and not r.finished
        and (families is None or r.family in (*families, OWN))
    ]
    curve: Curve = {rung.name: [] for rung in drawn}
    left = {rung.name: minutes * 60 for rung in drawn}
    sizes: set[int] = set()
    with progress.task("learning curve", len(PARTS) * len(drawn), "points") as bar:
        for part in PARTS:
            data = ladder.smaller(bench.splits.train, part)
            if data is not None and ladder.size(data) not in sizes:
                # Long rows: two parts may end with the same one.
                sizes.add(ladder.size(data))
                smaller = dataclasses.replace(
                    bench,
                    splits=dataclasses.replace(bench.splits, train=data),
                    directory=None,
                    tokenizers={},
                    fitted={},
                )
                for rung in drawn:
                    point = _point(
                        ladder, rung, drawn, smaller, directory / "curve", part, finished, left
                    )
                    if point is not None:
                        curve[rung.name].append(point)
                        left[rung.name] -= point.seconds
                    bar.advance()
    for rung in drawn:
        curve[rung.name].append(finished[rung.name])
    return curve


def _point(
    ladder: Ladder,
    rung: Rung,
    drawn: list[Rung],
    bench: Bench,
    directory: Path,
    part: int,
    finished: dict[str, CurvePoint],
    left: dict[str, float],
) -> CurvePoint | None:
    others = [r for r in drawn if not r.on_others and r.family != OWN] if rung.on_others else []
    attempt = Attempt(rung, bench, others)
    path = directory / f"{rung.name}-{attempt.key}-{part}.json" if rung.reusable else None
    cached = _read(path) if path else None
    if cached is not None:
        return cached
    needed = finished[rung.name].seconds / (1 if is_network(rung) else part)
    if needed > left[rung.name]:
        progress.say(
            f"learning curve: skipped {rung.name} on 1/{part} of the {ladder.data_word}: out of time"
        )
        return None
    try:
        for other in others:
            if other.name not in bench.fitted:  # its point was read from its file
                bench.fitted[other.name] = Attempt(other, bench).fit()
        point = measure(ladder, attempt)
    except SeqloomError as error:
        progress.say(
            f"learning curve: skipped {rung.name} on 1/{part} of the {ladder.data_word} ({error})"
        )
        return None
    if path:
        _write(path, point)
    return point


def measure(ladder: Ladder, attempt: Attempt) -> CurvePoint:
    """Train a rung on the bench's training part and measure it on its test part."""
    bench, start = attempt.bench, time.perf_counter()
    model = attempt.fit()
    seconds = time.perf_counter() - start
    bench.fitted[attempt.rung.name] = model
    return CurvePoint(ladder.size(bench.splits.train), ladder.quality(model, bench.splits), seconds)


def _read(path: Path) -> CurvePoint | None:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        return CurvePoint(int(values["size"]), float(values["value"]), float(values["seconds"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _write(path: Path, point: CurvePoint) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(point._asdict()) + "\n", encoding="utf-8")
    partial.replace(path)


def best_by_size(curve: Curve, lower: bool) -> list[tuple[int, str, float]]:
    """Return for each amount of data the rung that is best with it: amount, name, value."""
    sizes = sorted({point.size for points in curve.values() for point in points})
    leaders = []
    for size in sizes:
        sign = 1 if lower else -1
        value, name = min(
            (sign * p.value, name)
            for name, points in curve.items()
            for p in points
            if p.size == size
        )
        leaders.append((size, name, sign * value))
    return leaders
