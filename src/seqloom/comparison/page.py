"""The comparison as one HTML page: the answer, the table, every chart, what only this task has, samples and signatures."""

from __future__ import annotations

from typing import Any

from seqloom.charts.comparison import ladder, quality_against
from seqloom.charts.page import Page
from seqloom.comparison.curve import best_by_size
from seqloom.comparison.pictures import curve_chart, drawn, priced, rows
from seqloom.comparison.result import Comparison
from seqloom.comparison.table import (
    NOTES,
    WHAT,
    added,
    columns,
    curve_table,
    mark,
    parts_sentence,
    seconds,
    size,
    title,
    visible,
)

NEAR = 0.02  # a rung is nearly as good as the best within this share


def report_page(comparison: Comparison, details: Any) -> Page:
    c = comparison
    page = Page(title(c))
    page.text(parts_sentence(c), kind="faint")
    if (answer := c.answer) is None:
        return page.text("No rung was trained.")
    page.text(
        f"Best: {c.best.shown} with {c.ladder.measure.show(c.best.value)} {c.ladder.measure.title}. {_economy(c)}"
    )
    page.text(answer.text)
    if answer.commands:
        page.listing([*answer.commands, answer.python or ""])
    if c.overlap > 0.01:
        page.text(
            f"Warning: {c.overlap:.1%} of {c.ladder.overlapping} also occur in the training part; results are "
            "too optimistic.",
            kind="warning",
        )
    _table(page, c)
    _charts(page, c)
    c.ladder.sections(page, c, details)
    _rest(page, c)
    return page


def _economy(c: Comparison) -> str:
    """The cheapest rungs that are nearly as good as the best."""
    near = [
        r
        for r in drawn(c.results)
        if abs(r.value - c.best.value) <= NEAR * abs(c.best.value)
        and r.disk is not None
        and r.train_seconds is not None
    ]
    if not near:
        return ""
    small, quick = (
        min(near, key=lambda r: r.disk or 0),
        min(near, key=lambda r: r.train_seconds or 0),
    )
    if small.name == quick.name == c.best.name:
        return f"No smaller or quicker rung comes within {NEAR:.0%} of it."
    return (
        f"Within {NEAR:.0%} of it: the smallest is {small.name} ({size(small.disk)}), "
        f"the quickest {quick.name} ({seconds(quick.train_seconds)})."
    )


def _table(page: Page, c: Comparison) -> None:
    shown = columns(c.ladder, c)
    page.text(WHAT, kind="faint")
    page.table(
        [column.heading for column in shown],
        [[column.cell(r) for column in shown] for r in c.results],
        best=c.results.index(c.best),
    )
    for text in mark(c):
        page.text(text, kind="warning")
    for s in c.skipped:
        page.text(f"Skipped: {s.name}, {s.reason}.", kind="faint")
    page.text(f"{c.ladder.notes} {NOTES}", kind="faint")
    page.heading("What each rung adds")
    for sentence in added(c):
        page.text(sentence)


def _charts(page: Page, c: Comparison) -> None:
    its, m = rows(c), c.ladder.measure
    if not its:
        return
    page.heading("The ladder")
    page.chart(
        ladder(its, m), f"{m.title} of each rung with its interval; the table above has the numbers"
    )
    left_out = [r for r in c.results if r not in drawn(c.results)]
    if left_out:
        page.text(
            "Not drawn: "
            + ", ".join(f"{r.name} ({m.show(r.value)})" for r in left_out)
            + ", which only checks the measurement.",
            kind="faint",
        )
    if timed := priced(its, "seconds"):
        page.heading("Quality against training time")
        page.chart(quality_against(timed, "seconds", m), f"{m.title} against seconds of training")
    if weighed := priced(its, "disk"):
        page.heading("Quality against size")
        page.chart(quality_against(weighed, "disk", m), f"{m.title} against bytes on disk")
    if c.curve:
        page.heading("Learning curve")
        page.chart(
            curve_chart(c),
            f"{m.title} against {c.ladder.size_unit} of training data; the table below has the numbers",
        )
        page.text(
            "Each rung trained again, its tokenizer too, on the beginning of the training part and measured on "
            f"the same test part. {overtaking(c)}",
            kind="faint",
        )
        page.table(*curve_table(c))


def overtaking(c: Comparison) -> str:
    """Which rung is best with how much data."""
    leads = [(n, name) for n, name, _ in best_by_size(c.curve, c.ladder.measure.lower)]
    changes = [lead for i, lead in enumerate(leads) if i == 0 or lead[1] != leads[i - 1][1]]
    if len(changes) == 1:
        return f"{changes[0][1]} is the best with every amount."
    return (
        "Best: "
        + ", ".join(f"{name} from {n:,} {c.ladder.size_unit} on" for n, name in changes)
        + "."
    )


def _rest(page: Page, c: Comparison) -> None:
    samples = [r for r in c.results if r.sample]
    if samples:
        page.heading("Samples")
    for r in samples:
        page.folded(r.name, visible(r.sample), opened=r.name == c.best.name)
    fallbacks = [
        f"{r.name}, order {k}: {note}" for r in c.results for k, note in r.fallbacks.items()
    ]
    if fallbacks:
        page.heading("Discount fall-backs")
        page.listing(fallbacks)
    page.heading("Signatures")
    page.listing([r.signature for r in c.results])
