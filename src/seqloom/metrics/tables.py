"""The details of a result as plain text: a table of classes or sections, the confusion matrix,
errors by kind.

Columns are aligned by how wide a terminal shows a character, and no control character of the data
reaches the terminal.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from seqloom.charts.passage import columns_of, visible
from seqloom.metrics.result import Result

MATRIX = 20  # classes up to which the confusion matrix is printed
ROWS = 50  # of the table of classes: the commonest
KINDS = 10  # of errors that are printed
SLICES = 25  # that are printed, also of groups and their classes
NAME = 28  # columns of a name
WIDE = 100  # columns of the matrix, beyond which its columns have numbers instead of names
GAP = "  "


def report(result: Result) -> str:
    """Return what is behind the numbers, for a terminal; empty for a result without details.

    >>> from seqloom.metrics.result import Signature
    >>> confusion = {"classes": ["no", "yes"], "counts": [[3, 1], [0, 12]]}
    >>> print(report(Result({}, Signature(model="m"), details={"confusion": confusion})))
    confusion (rows gold, columns predicted)
    gold  no  yes
    no     3    1
    yes    .   12
    """
    details = result.details
    parts = [
        _classes(details[key], title)
        for key, title in (
            ("classes", "classes"),
            ("tags", "tags"),
            ("spans", "spans (as conlleval counts them)"),
        )
        if details.get(key)
    ]
    parts += [
        numbers(details[key]) for key in ("horizons", "columns", "lengths") if details.get(key)
    ]
    if details.get("sections"):
        parts.append(_sections(details["sections"]))
    if details.get("slices"):
        parts.append(_slices(details["slices"]))
    if details.get("groups"):
        parts += [_groups(details["groups"], details["group_by"]), _gaps(details["gaps"])]
    if details.get("robustness"):
        parts.append(_robustness(details["robustness"]))
    if "confusion" in details:
        parts.append(_matrix(details["confusion"]["classes"], details["confusion"]["counts"]))
    if details.get("errors"):
        parts.append(_errors(details["errors"]))
    return "\n\n".join(part for part in parts if part)


def _classes(rows: Sequence[dict[str, Any]], title: str) -> str:
    """Return a table of precision and so on, in the order of the data; of many classes, the
    commonest.
    """
    key = next(iter(rows[0]))
    shown = sorted(sorted(range(len(rows)), key=lambda i: -rows[i]["support"])[:ROWS])
    table = [[key, "precision", "recall", "f1", "gold", "predicted"]]
    for row in (rows[i] for i in shown):
        table.append(
            [
                _name(row[key]),
                *(f"{row[name]:.4f}" for name in ("precision", "recall", "f1")),
                f"{row['support']:,}",
                f"{row['predicted']:,}",
            ]
        )
    more = [f"and {len(rows) - ROWS:,} rarer ones"] if len(rows) > ROWS else []
    return "\n".join([title, *aligned(table), *more])


def numbers(rows: Sequence[dict[str, Any]]) -> str:
    """Return a table of forecast errors by horizon and by column, or of translation quality by
    length.

    >>> print(numbers([{"horizon": 1, "mse": 0.25}, {"horizon": 24, "mse": 0.5}]))
    horizon     mse
    1        0.2500
    24       0.5000
    """
    table = [list(rows[0])]
    for row in rows:
        table.append(
            [
                f"{value:,.4f}" if isinstance(value, float) else _name(str(value))
                for value in row.values()
            ]
        )
    return "\n".join(aligned(table))


def _sections(rows: Sequence[dict[str, Any]]) -> str:
    """Return a table of analogies by kind.

    >>> print(_sections([{"section": "capitals", "accuracy": 0.5, "asked": 4, "missing": 1},
    ...                  {"section": "plurals", "accuracy": None, "asked": 0, "missing": 2}]))
    section   accuracy  asked  missing
    capitals    0.5000      4        1
    plurals          -      0        2
    """
    table = [["section", "accuracy", "asked", "missing"]]
    for row in rows:
        share = "-" if row["accuracy"] is None else f"{row['accuracy']:.4f}"
        table.append([_name(row["section"]), share, f"{row['asked']:,}", f"{row['missing']:,}"])
    return "\n".join(aligned(table))


def _slices(rows: Sequence[dict[str, Any]]) -> str:
    """Return a table of sizes and metrics, the worst first.

    >>> row = {"by": "source", "slice": "web", "size": 12, "accuracy": 0.5}
    >>> print(_slices([row | {"accuracy_interval": (0.25, 0.75)}]))
    slices, the worst first
    slice        size  accuracy              95 %
    source: web    12    0.5000  0.2500 to 0.7500
    """
    metrics = list(
        dict.fromkeys(
            key for row in rows for key in row if f"{key}_interval" in row or key.endswith("f1")
        )
    )
    metrics = metrics or [next(key for key in rows[0] if key not in ("by", "slice", "size"))]
    head = ["slice", "size"]
    for key in metrics:
        head += [key, "95 %"] if any(f"{key}_interval" in row for row in rows) else [key]
    table = [head]
    for row in rows[:SLICES]:
        beyond = row.get("longer_than")
        after = "" if beyond is None else f" (longer than {beyond:.0%} in training)"
        cells = [f"{_name(row['by'])}: {_name(row['slice'])}{after}", f"{row['size']:,}"]
        for key in metrics:
            cells.append(_share(row.get(key)))
            if any(f"{key}_interval" in other for other in rows):
                cells.append(_range(row.get(f"{key}_interval")))
        table.append(cells)
    more = [f"and {len(rows) - SLICES:,} more"] if len(rows) > SLICES else []
    return "\n".join(["slices, the worst first", *aligned(table), *more])


def _groups(rows: Sequence[dict[str, Any]], by: str) -> str:
    table = [
        [
            _name(by),
            "class",
            "size",
            "accuracy",
            "95 %",
            "gold",
            "selected",
            "true pos.",
            "false pos.",
        ]
    ]
    for row in rows[:SLICES]:
        first = [
            _name(row["group"]),
            f"{row['size']:,}",
            _share(row["accuracy"]),
            _range(row["accuracy_interval"]),
        ]
        for one in row["classes"][:SLICES]:
            table.append(
                [
                    first[0],
                    _name(one["class"]),
                    *first[1:],
                    f"{one['support']:,}",
                    *(
                        _share(one[key])
                        for key in ("selection_rate", "true_positive_rate", "false_positive_rate")
                    ),
                ]
            )
            first = [""] * 4
    return "\n".join([f"groups by {_name(by)}", *aligned(table)])


def _gaps(rows: Sequence[dict[str, Any]]) -> str:
    keys = ("demographic_parity", "equalised_odds", "true_positive_rate", "false_positive_rate")
    table = [
        ["class", "demographic parity", "95 %", "equalised odds", "95 %", "true pos.", "false pos."]
    ]
    for row in rows[:SLICES]:
        table.append(
            [
                _name(row["class"]),
                *(
                    cell
                    for key in keys[:2]
                    for cell in (_share(row[key]), _range(row.get(f"{key}_interval")))
                ),
                *(_share(row[key]) for key in keys[2:]),
            ]
        )
    return "\n".join(["gaps between groups (largest rate less smallest)", *aligned(table)])


def _robustness(rows: Sequence[dict[str, Any]]) -> str:
    metric = next(key for key in rows[0] if key != "perturbation")
    shares = {"changed": "changed", "answers changed": "answers_changed"}
    shares = {title: key for title, key in shares.items() if key in rows[0]}
    table = [["perturbation", metric, "difference", "95 %", "p", *shares]]
    for row in rows:
        low, high = row["difference_interval"]
        table.append(
            [
                row["perturbation"],
                f"{row[metric]:.4f}",
                f"{row['difference']:+.4f}",
                f"{low:+.4f} to {high:+.4f}",
                f"{row['p_value']:.3g}",
                *(f"{row[key]:.1%}" for key in shares.values()),
            ]
        )
    return "\n".join(["perturbed data (difference to the data as it is, paired)", *aligned(table)])


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _range(ends: Sequence[float] | None) -> str:
    return "-" if ends is None or math.isnan(ends[0]) else f"{ends[0]:.4f} to {ends[1]:.4f}"


def _matrix(classes: Sequence[str], counts: Sequence[Sequence[int]]) -> str:
    """Return the confusion matrix of the classes that came or were predicted, if they are few; a
    dot is a zero.
    """
    used = [i for i in range(len(classes)) if any(counts[i]) or any(row[i] for row in counts)]
    if not used or len(used) > MATRIX:
        return ""
    names = [_name(classes[i]) for i in used]
    numbers = [[f"{counts[i][j]:,}" if counts[i][j] else "." for j in used] for i in used]
    table = [["gold", *names], *([name, *row] for name, row in zip(names, numbers))]
    if width(aligned(table)[0]) > WIDE:
        places = [str(k) for k in range(1, len(used) + 1)]
        table = [
            ["gold", *places],
            *([f"{k:>2} {name}", *row] for k, name, row in zip(places, names, numbers)),
        ]
    return "\n".join(["confusion (rows gold, columns predicted)", *aligned(table)])


def _errors(errors: Sequence[dict[str, Any]]) -> str:
    lines = ["errors by kind (gold -> predicted)"]
    digits = len(f"{errors[0]['count']:,}")
    for kind in errors[:KINDS]:
        lines.append(
            f"{kind['count']:>{digits},}{GAP}{_name(kind['gold'])} -> {_name(kind['predicted'])}"
        )
        lines += [f"{' ' * digits}{GAP}{GAP}{_example(example)}" for example in kind["examples"]]
        if words := [f"{_name(word['word'])} ({word['z']:.1f})" for word in kind.get("words", ())]:
            lines.append(f"{' ' * digits}{GAP}{GAP}words: {', '.join(words)}")
    rest = errors[KINDS:]
    if rest:
        lines.append(
            f"and {sum(kind['count'] for kind in rest):,} errors of {len(rest):,} rarer kinds"
        )
    return "\n".join(lines)


def _example(example: dict[str, Any]) -> str:
    """Return a text with the probability of the wrong class, or a word in its sentence and how
    often it was wrong.
    """
    before = f"{example['probability']:.4f}{GAP}" if "probability" in example else ""
    after = f"{GAP}({example['count']:,} times)" if example.get("count", 1) > 1 else ""
    return before + _line(example["text"]) + after


def aligned(table: Sequence[Sequence[str]]) -> list[str]:
    """Return lines with the first column aligned left and the others right.

    >>> aligned([["猫", "1"], ["cat", "20"]])
    ['猫    1', 'cat  20']
    """
    wide = [max(width(row[k]) for row in table) for k in range(len(table[0]))]
    return [
        GAP.join(
            row[0] + " " * (wide[0] - width(row[0]))
            if not k
            else " " * (wide[k] - width(cell)) + cell
            for k, cell in enumerate(row)
        ).rstrip()
        for row in table
    ]


def width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return sum(map(columns_of, text))


def _name(name: str) -> str:
    """Return a name cut to at most `NAME` columns."""
    shown = _line(name) or "(empty)"
    columns = list(accumulate(map(columns_of, shown)))
    return shown if columns[-1] <= NAME else shown[: bisect_left(columns, NAME)] + "…"


def _line(text: str) -> str:
    return visible(" ".join(text.split()))
