"""The comparison as a table for people: columns shared by the terminal, the page and the Markdown report."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from seqloom.comparison.bench import UNKNOWN
from seqloom.comparison.ladder import Ladder
from seqloom.comparison.result import Comparison, RungResult, Skipped
from seqloom.metrics import bootstrap

WHAT = "A rung is one model of the comparison; rungs go from the most trivial to the most capable."
NOTES = (
    "Memory is the peak above that of the program itself. 'Against best' is the paired difference "
    "to the best on the "
    "same held-out data with its interval; p is the chance of a difference this large between "
    "equal models. Steps and passes are a network's updates and how often it read the training data."
)


def size(n: float | None, unit: str = "B") -> str:
    """Write 1234567 as 1.2 MB."""
    if n is None:
        return "-"
    for prefix in ("", "k", "M", "G"):
        if abs(n) < 1000 or prefix == "G":
            return f"{n:.0f} {unit}" if not prefix else f"{n:.1f} {prefix}{unit}"
        n /= 1000
    return ""


def short(n: float | None) -> str:
    return size(n, "").replace(" ", "")


def visible(sample: str) -> str:
    """Remove what would play tricks on a terminal or a page: control characters show as U+FFFD."""
    return re.sub("[\x00-\x08\x0b-\x1f\x7f-\x9f]", "\ufffd", sample.strip())


def seconds(s: float | None) -> str:
    if s is None:
        return "-"
    return f"{s:.2f} s" if s < 10 else f"{s:.0f} s" if s < 120 else f"{s / 60:.1f} min"


class Column(NamedTuple):
    heading: str
    weight: int  # how much it matters: where there is no room, the least goes first
    cell: Callable[[Any], str]
    left: bool = False  # aligned


def columns(ladder: Ladder, c: Comparison | None = None) -> list[Column]:
    """Return the columns of the table; with the differences to the best where all rungs are known."""
    m, unit = ladder.measure, ladder.unit_heading

    def extra(key: str, form: str) -> Callable[[RungResult], str]:
        return lambda r: "-" if r.measures.get(key) is None else format(r.measures[key], form)

    return [
        Column("rung", 100, lambda r: r.shown, True),
        Column(m.heading, 99, lambda r: m.show(r.value)),
        Column(
            "95 %",
            96,
            lambda r: (
                "-"
                if math.isnan(r.interval[0])
                else f"{m.show(r.interval[0])}-{m.show(r.interval[1])}"
            ),
            True,
        ),
        *(_differences(c) if c else []),
        *(
            Column(one.heading, 60 - i, extra(one.key, one.form))
            for i, one in enumerate(ladder.columns)
        ),
        *(
            [Column("token", 40, lambda r: (r.tokenizer or "-").split("-")[0], True)]
            if ladder.shows_tokens
            else []
        ),
        Column("parameters", 45, lambda r: short(r.parameters)),
        Column("training", 95, lambda r: seconds(r.train_seconds)),
        *(
            [
                Column("steps", 28, lambda r: "-" if r.steps is None else f"{r.steps:,}"),
                Column("passes", 29, lambda r: "-" if r.passes is None else f"{r.passes:.1f}"),
            ]
            if c and any(r.steps for r in c.results)
            else []
        ),
        Column("memory", 70, lambda r: size(r.peak_memory)),
        Column(f"train {ladder.learn_heading or unit}/s", 30, lambda r: short(r.train_speed)),
        Column(f"score {unit}/s", 75, lambda r: short(r.score_speed)),
        Column("disk", 94, lambda r: size(r.disk)),
    ]


def chosen(
    every: Sequence[Column], rows: Sequence[Any], width: int | None, gap: int = 2
) -> list[Column]:
    """Choose the columns that fit into `width` characters; the least important are left out, none
    is squeezed.
    """
    if width is None:
        return list(every)
    needs = {c.heading: max([len(c.heading), *(len(c.cell(r)) for r in rows)]) for c in every}
    left, names = width, set[str]()
    for column in sorted(every, key=lambda c: -c.weight):
        need = needs[column.heading] + (gap if names else 0)
        if need > left:
            break
        left -= need
        names.add(column.heading)
    return [c for c in every if c.heading in names]


def lines(shown: Sequence[Column], rows: Sequence[Any]) -> list[str]:
    """Return the table as text: a heading, a rule and a line per row; of a skipped rung only that
    it was skipped.
    """
    cells = [
        [r.name, "skipped"] if isinstance(r, Skipped) else [c.cell(r) for c in shown] for r in rows
    ]
    widths = [
        max(len(c.heading), *(len(row[i]) for row in cells if len(row) == len(shown)), 0)
        for i, c in enumerate(shown)
    ]
    widths[0] = max([widths[0], *(len(row[0]) for row in cells)])

    def line(row: Sequence[str]) -> str:
        return "  ".join(
            cell.ljust(w) if c.left else cell.rjust(w) for cell, c, w in zip(row, shown, widths)
        ).rstrip()

    return [
        line([c.heading for c in shown]),
        "─" * (sum(widths) + 2 * (len(widths) - 1)),
        *map(line, cells),
    ]


def _differences(c: Comparison) -> list[Column]:
    """Return the columns of differences to the best."""
    m = c.ladder.measure
    paired = {r.name: c.difference(r.name, c.best.name) for r in c.results if r.name != c.best.name}

    def shown(form: Callable[[bootstrap.Paired], str]) -> Callable[[RungResult], str]:
        return lambda r: form(paired[r.name]) if r.name in paired else "-"

    return [
        Column("against best", 93, shown(lambda d: m.show(d.difference, "+"))),
        Column(
            "95 % of that",
            78,
            shown(
                lambda d: (
                    f"{m.show(d.low, '+')} to {m.show(d.high, '+')}"
                    if math.isfinite(d.low)
                    else "-"
                )
            ),
            True,
        ),  # a single segment has none
        Column("p", 80, shown(lambda d: "-" if math.isnan(d.p_value) else f"{d.p_value:.3f}")),
    ]


def mark(c: Comparison) -> list[str]:
    """Say what the mark behind a name means, where one has it."""
    remarks = []
    if any(r.pretrained for r in c.results):
        remarks.append(f"* {UNKNOWN}, so its result may be too good.")
    remarks += [
        f"† {r.name} stopped learning at step {r.stopped_learning:,} of {r.steps:,}: its validation got "
        "worse while its training loss fell; the weights of that step are kept."
        for r in c.results
        if r.stopped_learning is not None
    ]
    return remarks


def curve_table(c: Comparison) -> tuple[list[str], list[list[str]]]:
    """Return header and rows: a rung per line, an amount of training data per column; a point that
    was left out is a dash.
    """
    sizes = sorted({p.size for points in c.curve.values() for p in points})
    body = []
    for name, points in c.curve.items():
        shown = {p.size: c.ladder.measure.show(p.value) for p in points}
        body.append([name, *(shown.get(n, "-") for n in sizes)])
    return ["rung", *(f"{n:,}" for n in sizes)], body


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    return "\n".join(
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:]))]
        )
        for row in (header, *rows)
    )


def parts_sentence(c: Comparison) -> str:
    """Say what was trained and tested on."""
    words = {"train": "to train", "valid": "to validate", "test": "to test"}
    units = {"train": c.ladder.size_unit, "test": c.ladder.test_unit}
    shown = [
        f"{n:,} {units.get(name, '')} {words[name]}".replace("  ", " ")
        for name, n in c.sizes.items()
    ]
    return f"{', '.join(shown)} ({c.split}); content {c.fingerprint[:16]}."


def title(c: Comparison) -> str:
    return f"{c.ladder.models.capitalize()} compared on {c.corpus}"


def added(c: Comparison) -> list[str]:
    """Say what each rung brings over the best of those before it, as sentences."""
    m, sentences = c.ladder.measure, []
    best: RungResult | None = None
    for r in c.results:
        gain = ""
        if best is not None:
            better = m.better(r.value, best.value)
            amount = f"{m.show(abs(best.value - r.value))} {m.unit}".strip()
            gain = f", {amount} {'better' if better else 'worse'} than {best.name}"
        sentences.append(f"{r.name}: {r.adds or r.family}{gain}.")
        best = r if best is None or m.better(r.value, best.value) else best
    return sentences + c.ladder.remarks(c)
