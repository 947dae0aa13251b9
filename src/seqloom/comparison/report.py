"""The comparison as files: an HTML page, a Markdown report, the numbers, and the pictures.

The page has the answer, the table, every chart, what only this task has, samples and signatures.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seqloom import directories, progress
from seqloom.charts.comparison import ladder, quality_against
from seqloom.charts.page import Page
from seqloom.charts.theme import require_charts
from seqloom.comparison.curve import best_by_size
from seqloom.comparison.pictures import HEADINGS, curve_chart, drawn, priced, rows, upper_first
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
from seqloom.metrics.result import plain

NEAR = 0.02  # a rung is nearly as good as the best within this share


def report_page(comparison: Comparison, details: Any) -> Page:
    c = comparison
    page = Page(title(c))
    page.text(parts_sentence(c), kind="faint")
    if (answer := c.answer) is None:
        return page.text("No rung was trained.")
    page.text(
        f"Best: {c.best.shown} with {c.ladder.measure.show(c.best.value)} "
        f"{c.ladder.measure.title}. {_economy(c)}"
    )
    page.text(answer.text)
    if answer.commands:
        page.listing([*answer.commands, answer.python or ""])
    if c.overlap > 0.01:
        page.text(
            f"Warning: {c.overlap:.1%} of {c.ladder.overlapping} also occur in the training part; "
            f"results are too optimistic.",
            kind="warning",
        )
    _table(page, c)
    _charts(page, c)
    c.ladder.sections(page, c, details)
    _rest(page, c)
    return page


def _economy(c: Comparison) -> str:
    """Name the cheapest rungs that are nearly as good as the best."""
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
    page.heading(HEADINGS["ladder"])
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
        page.heading(HEADINGS["quality-time"])
        page.chart(quality_against(timed, "seconds", m), f"{m.title} against seconds of training")
    if weighed := priced(its, "disk"):
        page.heading(HEADINGS["quality-size"])
        page.chart(quality_against(weighed, "disk", m), f"{m.title} against bytes on disk")
    if c.curve:
        page.heading(HEADINGS["curve"])
        page.chart(
            curve_chart(c),
            f"{m.title} against {c.ladder.size_unit} of training data; the table below has the numbers",
        )
        page.text(
            "Each rung trained again, its tokenizer too, on the beginning of the training part and "
            f"measured on the same test part. {overtaking(c)}",
            kind="faint",
        )
        page.table(*curve_table(c))


def overtaking(c: Comparison) -> str:
    """Say which rung is best with how much data."""
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


# ---- report


def markdown(comparison: Comparison, pictures: Sequence[str] = ()) -> str:
    """Return a self-contained report; `pictures` are the names of image files beside it."""
    c = comparison
    lines = [f"# {title(c)}", "", parts_sentence(c), ""]
    if (answer := c.answer) is None:
        return "\n".join([*lines, "No rung was trained.", *_skipped(c)]) + "\n"
    m = c.ladder.measure
    lines += [f"Best: **{c.best.shown}** with {m.show(c.best.value)} {m.title}. {answer.text}", ""]
    if answer.commands:
        lines += ["```text", *answer.commands, answer.python or "", "```", ""]
    if c.overlap > 0.01:
        lines += [
            f"Warning: {c.overlap:.1%} of {c.ladder.overlapping} also occur in the training part.",
            "",
        ]
    shown = columns(c.ladder, c)
    lines += [
        WHAT,
        "",
        "| " + " | ".join(column.heading for column in shown) + " |",
        "|---" * len(shown) + "|",
    ]
    lines += ["| " + " | ".join(column.cell(r) for column in shown) + " |" for r in c.results]
    lines += [
        "",
        *mark(c),
        *_skipped(c),
        "",
        f"{c.ladder.notes} {NOTES}",
        "",
        "## What each rung adds",
        "",
        *(f"- {text}" for text in added(c)),
        "",
    ]
    if pictures:
        lines += ["## Pictures", "", *(f"![{name}]({name}.png)\n" for name in pictures)]
    if c.curve:
        header, rows = curve_table(c)
        lines += [
            "## Learning curve",
            "",
            f"{upper_first(c.ladder.measure.title)} with the first part of the training data, "
            f"in {c.ladder.size_unit}.",
            "",
            f"| {' | '.join(header)} |",
            "|---" * len(header) + "|",
            *(f"| {' | '.join(row)} |" for row in rows),
            "",
        ]
    if any(r.sample for r in c.results):
        lines += ["## Samples", ""]
    for r in c.results:
        if r.sample:
            lines += [
                f"**{r.shown}**",
                "",
                "```text",
                visible(r.sample).replace("```", "'''"),
                "```",
                "",
            ]
    fallbacks = [(r.name, order, note) for r in c.results for order, note in r.fallbacks.items()]
    if fallbacks:
        lines += [
            "## Discount fall-backs",
            "",
            *(f"- {name}, order {k}: {note}" for name, k, note in fallbacks),
            "",
        ]
    lines += ["## Signatures", ""] + [f"- `{r.signature}`" for r in c.results]
    return "\n".join(lines) + "\n"


def _skipped(c: Comparison) -> list[str]:
    return [f"\nSkipped: {s.name}, {s.reason}." for s in c.skipped]


def check_place(directory: str | Path) -> None:
    """Refuse, before a long comparison, a directory to which its report could not be written."""
    directories.check_target(directory, "a directory", Path.is_dir)
    require_charts()


@progress.remarking_once()
def write_report(comparison: Comparison, directory: str | Path) -> None:
    """Write `report.html`, `report.md`, `comparison.json` and the pictures as PNG files, all of
    them or nothing.

    In a directory that holds other files too, which stay, they are replaced one by one.
    """
    from seqloom.charts.theme import write

    check_place(directory)
    progress.say("drawing the report")
    files, target = _files(comparison), Path(directory)
    if not target.exists() or _is_report(target):
        with directories.writing(directory, "a report", _is_report) as folder:
            for name, data in files.items():
                (folder / name).write_bytes(data)
        return
    for name, data in files.items():
        write(target / name, data)
    for name in _names() - files.keys():  # of an earlier report
        (target / name).unlink(missing_ok=True)


def _names() -> set[str]:
    """Return the names of all files that a report can have."""
    from seqloom.comparison.pictures import NAMES

    return {"comparison.json", "report.md", "report.html", *(f"{name}.png" for name in NAMES)}


def _is_report(directory: Path) -> bool:
    """Return whether a directory holds nothing but a report."""
    return directory.is_dir() and {p.name for p in directory.iterdir()} <= _names() | {".DS_Store"}


def _files(comparison: Comparison) -> dict[str, bytes]:
    """Return the files of the report by name."""
    from seqloom.charts.theme import png
    from seqloom.comparison.pictures import NAMES, details, overview, pictures

    page_details = details(comparison)
    charts = pictures(comparison, page_details)
    values = comparison.to_dict() | plain(
        comparison.ladder.details_json(page_details) if page_details else {}
    )
    files = {
        "comparison.json": (
            json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        ).encode(),
        "report.md": markdown(comparison, list(charts)).encode(),
    }
    if charts:
        charts["overview"] = overview(comparison)
    files |= {f"{name}.png": png(charts[name]) for name in NAMES if name in charts}
    return files | {"report.html": report_page(comparison, page_details).html().encode()}
