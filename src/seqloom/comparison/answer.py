"""What a comparison says to do, in words: the best model, the smallest that is as good, and how to use it."""

from __future__ import annotations

import math
import shlex
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from seqloom.comparison.bench import UNKNOWN

if TYPE_CHECKING:
    from seqloom.comparison.result import Comparison, RungResult


WORTH = 0.9  # of the size of the best: more is not worth speaking of


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
    """The rungs whose measure lies within the interval of the best, or beyond it; the best alone where it has none."""
    best, measure = c.best, c.ladder.measure
    end = best.interval[1] if measure.lower else best.interval[0]
    if not math.isfinite(end):
        return [best]
    return [
        r for r in c.results if not measure.better(end, r.value) and r.pretrained == best.pretrained
    ]


def answer(c: Comparison, path: str | None = None) -> Answer:
    """`path`: where the best model was saved; else where it is kept."""
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
    others = [r for r in c.results if r.pretrained]
    other = (min if measure.lower else max)(others, key=lambda r: r.value) if others else None
    title = (
        "The best"
        if other is None
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
    if other is not None:
        name = other.name
        text += (
            f" {best.shown} was {UNKNOWN}."
            if best.pretrained
            else f" {other.shown} has {measure.show(other.value)}; it was {UNKNOWN}."
        )
    place = path or c.places.get(best.name)
    if place is None:
        return Answer(best.name, smallest.name, text, None, pretrained=name)
    commands = tuple(line.format(path=shlex.quote(place)) for line in c.ladder.commands)
    python = c.ladder.python.format(path=repr(place))
    return Answer(
        best.name, smallest.name, text + " To use the best:", place, commands, python, name
    )
