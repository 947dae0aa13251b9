"""The comparison as files: a page, a Markdown report, the numbers, and the pictures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from seqloom import directories, progress
from seqloom.charts.theme import require_charts
from seqloom.comparison.result import Comparison
from seqloom.comparison.table import (
    NOTES,
    WHAT,
    added,
    columns,
    curve_table,
    mark,
    parts_sentence,
    title,
    visible,
)
from seqloom.metrics.result import plain


def markdown(comparison: Comparison, pictures: Sequence[str] = ()) -> str:
    """A report that stands for itself; `pictures` are the names of image files beside it."""
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
            f"{c.ladder.measure.title.capitalize()} with the first part of the training data, "
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
    """Refuse, before the work of a long comparison, a place where its report could not be written."""
    directories.check_target(directory, "a directory", Path.is_dir)
    require_charts()


def write_report(comparison: Comparison, directory: str | Path) -> None:
    """`report.html`, `report.md`, `comparison.json` and the pictures as PNG files, all of them or nothing.

    In a directory that holds other files too, which stay, they are replaced one by one.
    """
    from seqloom.charts.theme import write

    check_place(directory)
    progress.say("drawing the report")
    files, place = _files(comparison), Path(directory)
    if not place.exists() or _is_report(place):
        with directories.writing(directory, "a report", _is_report) as folder:
            for name, data in files.items():
                (folder / name).write_bytes(data)
        return
    for name, data in files.items():
        write(place / name, data)
    for name in _names() - files.keys():  # of an earlier report
        (place / name).unlink(missing_ok=True)


def _names() -> set[str]:
    """Of all files that a report can have."""
    from seqloom.comparison.pictures import NAMES

    return {"comparison.json", "report.md", "report.html", *(f"{name}.png" for name in NAMES)}


def _is_report(place: Path) -> bool:
    """Whether nothing else is there."""
    return place.is_dir() and {p.name for p in place.iterdir()} <= _names() | {".DS_Store"}


def _files(comparison: Comparison) -> dict[str, bytes]:
    """What the report consists of, by the names of its files."""
    from seqloom.charts.theme import png
    from seqloom.comparison.page import report_page
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
