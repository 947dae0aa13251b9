"""The comparison as a table for people: columns shared by the terminal and the Markdown report."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from seqloom import directories, progress
from seqloom.charts.spec import require_charts
from seqloom.comparison.run import Comparison, RungResult
from seqloom.comparison.rungs import RUNGS
from seqloom.metrics.result import plain

Column = tuple[str, Callable[[RungResult], str]]


def size(n: float | None, unit: str = "B") -> str:
    """1234567 as 1.2 MB."""
    if n is None:
        return "-"
    for prefix in ("", "k", "M", "G"):
        if abs(n) < 1000 or prefix == "G":
            return f"{n:.0f} {unit}" if not prefix else f"{n:.1f} {prefix}{unit}"
        n /= 1000
    return ""


def short(n: float) -> str:
    return size(n, "").replace(" ", "")


def visible(sample: str) -> str:
    """A sample without what would play tricks on a terminal or a page: control characters show as U+FFFD."""
    return re.sub("[\x00-\x08\x0b-\x1f\x7f-\x9f]", "\ufffd", sample.strip())


def seconds(s: float) -> str:
    return f"{s:.2f} s" if s < 10 else f"{s:.0f} s" if s < 120 else f"{s / 60:.1f} min"


COLUMNS: tuple[Column, ...] = (
    ("rung", lambda r: r.name),
    ("bits/byte", lambda r: f"{r.bits_per_byte:.3f}"),
    ("95 %", lambda r: "-" if math.isnan(r.interval[0]) else f"{r.interval[0]:.3f}-{r.interval[1]:.3f}"),
    ("perplexity", lambda r: f"{r.perplexity:,.2f}"),
    ("token", lambda r: r.tokenizer.split("-")[0]),
    ("parameters", lambda r: short(r.parameters)),
    ("training", lambda r: seconds(r.train_seconds)),
    ("memory", lambda r: size(r.peak_memory)),
    ("train tok/s", lambda r: short(r.train_tokens_per_second)),
    ("score tok/s", lambda r: short(r.score_tokens_per_second)),
    ("disk", lambda r: size(r.disk)),
)

NOTES = ("Bits per byte: cost of the held-out text in bits for each of its bytes, every byte charged; the interval is a "
         "bootstrap over lines. Perplexity is per token and compares only where the tokens agree. Memory is the peak "
         "above what the program held before. 'Against best' is the paired difference in bits per byte with its "
         "interval.")


def markdown(comparison: Comparison, pictures: Sequence[str] = ()) -> str:
    """A report that stands for itself; `pictures` are the names of image files beside it."""
    c = comparison
    n = c.n_bytes
    lines = [f"# Language models compared on {c.corpus}", "",
             f"{n['train']:,} bytes to train, {n['valid']:,} to validate, {n['test']:,} to test ({c.split}); "
             f"content {c.fingerprint[:16]}.",
             f"Best: **{c.best.name}** with {c.best.bits_per_byte:.3f} bits per byte." if c.results else
             "No rung was trained.", ""]
    if c.overlap > 0.01:
        lines += [f"Warning: {c.overlap:.1%} of the longer test lines also stand in the training part.", ""]
    lines += ["| " + " | ".join(name for name, _ in COLUMNS) + " | against best |", "|---" * (len(COLUMNS) + 1) + "|"]
    for r in c.results:
        lines.append("| " + " | ".join(cell(r) for _, cell in COLUMNS) + f" | {against(c, r)} |")
    lines += [f"\nSkipped: {s.name}, {s.reason}." for s in c.skipped]
    lines += ["", NOTES, "", "## What each rung adds", "", *(f"- {text}" for text in added(c)), ""]
    if pictures:
        lines += ["## Pictures", "", *(f"![{name}]({name}.png)\n" for name in pictures)]
    if c.curve:
        header, rows = curve_table(c)
        lines += ["## Learning curve", "", "Bits per byte with the first part of the training text, in bytes.", "",
                  f"| {' | '.join(header)} |", "|---" * len(header) + "|",
                  *(f"| {' | '.join(row)} |" for row in rows), ""]
    lines += ["## Samples", ""]
    for r in c.results:
        if r.sample:
            lines += [f"**{r.name}**", "", "```text", visible(r.sample).replace("```", "'''"), "```", ""]
    fallbacks = [(r.name, order, note) for r in c.results for order, note in r.fallbacks.items()]
    if fallbacks:
        lines += ["## Discount fall-backs", "", *(f"- {name}, order {k}: {note}" for name, k, note in fallbacks), ""]
    lines += ["## Signatures", ""] + [f"- `{r.signature}`" for r in c.results]
    return "\n".join(lines) + "\n"


def added(c: Comparison) -> list[str]:
    """A sentence for each rung: what it adds, and what that brought against the best simpler one."""
    known, best, sentences = {r.name: r for r in RUNGS}, None, []
    for r in c.results:
        gain = ""
        if best is not None:
            bits = best.bits_per_byte - r.bits_per_byte
            gain = f", {abs(bits):.3f} bits {'better' if bits > 0 else 'worse'} than {best.name}"
        sentences.append(f"{r.name}: {known[r.name].adds if r.name in known else r.family}{gain}.")
        best = r if best is None or r.bits_per_byte < best.bits_per_byte else best
    counted = [r for r in c.results if r.family == "n-gram"]
    networks = [r for r in c.results if r.family == "network"]
    if counted and networks:
        first, second = (min(group, key=lambda r: r.bits_per_byte) for group in (counted, networks))
        ahead, behind = (first, second) if first.bits_per_byte <= second.bits_per_byte else (second, first)
        sentences.append(f"On this text, with this time, {'counting' if ahead is first else 'a network'} wins: {ahead.name} "
                         f"reads {ahead.bits_per_byte:.3f} bits per byte, {behind.name} {behind.bits_per_byte:.3f}.")
    return sentences


def against(c: Comparison, r: RungResult) -> str:
    if r.name == c.best.name:
        return "-"
    d = c.difference(r.name, c.best.name)
    spread = f" ({d.low:+.3f} to {d.high:+.3f})" if math.isfinite(d.low) else ""  # a single segment has none
    return f"{d.difference:+.3f}{spread}"


def check_place(directory: str | Path) -> None:
    """Refuse, before the work of a long comparison, a place where its report could not be written."""
    directories.check_target(directory, "a directory", Path.is_dir)
    require_charts()


def curve_table(c: Comparison) -> tuple[list[str], list[list[str]]]:
    """Header and rows: a rung a line, an amount of training text a column; a point that was left out is a dash."""
    sizes = sorted({p.bytes for points in c.curve.values() for p in points})
    body = []
    for name, points in c.curve.items():
        known = {p.bytes: f"{p.bits_per_byte:.3f}" for p in points}
        body.append([name, *(known.get(n, "-") for n in sizes)])
    return ["rung", *(f"{n:,}" for n in sizes)], body


def write_report(comparison: Comparison, directory: str | Path) -> None:
    """`report.html`, `report.md`, `comparison.json` and the pictures as PNG files, all of them or nothing.

    In a directory that holds other files too, which stay, they are replaced one by one.
    """
    from seqloom.charts.files import write

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
    from seqloom.charts.files import png
    from seqloom.comparison.page import report_page
    from seqloom.comparison.pictures import NAMES, details, overview, pictures

    page_details = details(comparison)
    charts = pictures(comparison, page_details)
    calibrations = plain({name: calibration.to_dict() for name, calibration in page_details.calibrations.items()})
    values = comparison.to_dict() | ({"calibration": calibrations} if calibrations else {})
    files = {"comparison.json": (json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode(),
             "report.md": markdown(comparison, list(charts)).encode()}
    if comparison.results:
        charts["overview"] = overview(comparison)
    files |= {f"{name}.png": png(charts[name]) for name in NAMES if name in charts}
    return files | {"report.html": report_page(comparison, page_details).html().encode()}
