"""Where else in a corpus a unit, or the whole state of a layer, is as it is at the end of a text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from seqloom import progress
from seqloom.charts.page import Sheet
from seqloom.charts.states import context_chart
from seqloom.data.corpus import as_corpus
from seqloom.errors import ConfigError, DataError
from seqloom.views.catalogue import view
from seqloom.views.configs import SimilarOptions
from seqloom.views.hidden import visible
from seqloom.views.reading import remarks
from seqloom.views.recurrence import Reading, check_unit, choose, joiner_of, readings_of

PIECE = 2_000  # characters of a corpus that are read at a time, about
MOST = 500_000  # characters of a corpus that are searched
BEFORE, AFTER = 12, 4  # tokens that are shown around a place


@view
def similar(model: Any, example: str, options: SimilarOptions) -> Sheet:
    """Show the places of a corpus at which a unit is nearest to what it is in the last steps of a text."""
    reading = choose(readings_of(model, example), options)
    width = reading.state.shape[1]
    unit = None if options.unit is None else check_unit(options.unit, width)
    last = len(reading.steps) - 1 if options.at is None else options.at
    if last >= len(reading.steps):
        raise ConfigError(
            f"at must be from 0 to {len(reading.steps) - 1}, the steps of this text; got {last}",
            ["at"],
        )
    steps = min(options.steps, last + 1)
    wanted = reading.state[last + 1 - steps : last + 1]
    wanted = wanted if unit is None else wanted[:, unit : unit + 1]
    source = example if options.corpus is None else options.corpus
    rows = []
    pieces, searched = pieces_of(example, options.corpus)
    with progress.task("searching", len(pieces), "pieces") as bar:
        for line, piece in pieces:
            with progress.unsaid():  # the text itself may be the corpus
                found = choose(readings_of(model, piece), options)
            rows += places(found, wanted, unit, line)
            bar.advance()
    rows = sorted(rows, key=lambda row: (row["distance"], row["line"], row["step"]))
    rows = apart(rows, steps)[: options.count]
    if not rows:
        raise DataError(f"{source}: no place has {steps} steps")
    what = f"unit {unit}" if unit is not None else f"the state of {width} units"
    compared = "tanh of the cell" if "c" in reading.arrays else "the state"
    lines = [
        f"{'distance':>9}{'line':>7}{'step':>6}{'value':>8}  ...the last step shown is the like one"
    ]
    for row in rows:
        value = f"{row['value']:+.3f}" if unit is not None else ""
        lines.append(
            f"{row['distance']:>9.4f}{row['line']:>7,}{row['step']:>6}{value:>8}  "
            + joiner_of(model).join(map(visible, row["before"]))
            + "  |  "
            + joiner_of(model).join(map(visible, row["after"]))
        )

    def draw(page: bool) -> dict[str, Any]:
        contexts = [
            [
                (visible(token), value)
                for token, value in zip([*r["before"], *r["after"]], shades(r))
            ]
            for r in rows
        ]
        names = [f"line {row['line']:,}, step {row['step']}" for row in rows]
        lasts = [len(row["before"]) for row in rows]
        return {
            "Places, the likest first": context_chart(names, contexts, lasts, len(joiner_of(model)))
        }

    def shades(row: dict[str, Any]) -> list[float]:
        """Return what the tokens are coloured by: the unit, or which steps are compared."""
        if unit is not None:
            return list(row["values"])
        last = len(row["before"])
        return [float(last - steps <= at < last) for at in range(len(row["values"]))]

    coloured = "by the unit" if unit is not None else "where their states are compared"
    return Sheet(
        f"{model.label()}: where {what} is alike",
        draw,
        {"layer": reading.layer.name, "unit": unit, "wanted": wanted, "rows": rows},
        [
            *remarks(model),
            f"{searched:,} characters were searched, in pieces that are each read from the start. "
            f"The distance is the root of the mean square of the differences of {compared} over the "
            f"last {steps} steps{_named(options.at, reading)}; {reading.layer.name}, {what}. "
            f"In the picture tokens are coloured {coloured}.",
        ],
        lines=lines,
    )


def _named(at: int | None, reading: Reading) -> str:
    return "" if at is None else f" up to step {at}, which reads {reading.steps[at]!r}"


def pieces_of(example: str, corpus: str | None) -> tuple[list[tuple[int, str]], int]:
    """Return parts of a text, cut at ends of lines, with the number of their first line, and how many
    characters they have together.
    """
    text = example
    if corpus is not None:
        if not Path(corpus).is_file():
            raise DataError(f"{corpus}: there is no such file")
        text = as_corpus(Path(corpus)).text()
        if len(text) > MOST:
            progress.say(f"{corpus}: of {len(text):,} characters, the first {MOST:,} are searched")
            text = text[:MOST]
    pieces = [(line, piece) for line, piece in _cut(text) if piece.strip()]
    return pieces, sum(len(piece) for _, piece in pieces)


def _cut(text: str) -> Iterator[tuple[int, str]]:
    lines, first, piece = text.splitlines(keepends=True), 1, ""
    for number, line in enumerate(lines, 1):
        piece += line
        if len(piece) >= PIECE or number == len(lines):
            yield first, piece
            first, piece = number + 1, ""


def places(
    reading: Reading, wanted: np.ndarray, unit: int | None, line: int
) -> list[dict[str, Any]]:
    """Return each place of a reading at which there are enough steps, with its distance."""
    state = reading.state if unit is None else reading.state[:, unit : unit + 1]
    steps = len(wanted)
    if len(state) < steps:
        return []
    around = np.lib.stride_tricks.sliding_window_view(state, steps, axis=0)  # (P, U, steps)
    distances = np.sqrt(((around - wanted.T[None]) ** 2).mean((1, 2), dtype=np.float64))
    rows = []
    for place in np.argsort(distances, kind="stable")[:100].tolist():
        at = place + steps - 1
        low = max(at + 1 - BEFORE, 0)
        rows.append(
            {
                "line": line,
                "step": at,
                "distance": float(distances[place]),
                "value": float(state[at, 0]),
                "values": [
                    float(value)
                    for value in (
                        reading.state[low : at + 1 + AFTER, unit]
                        if unit is not None
                        else np.sqrt((reading.state[low : at + 1 + AFTER] ** 2).mean(1))
                    )
                ],
                "before": reading.steps[low : at + 1],
                "after": reading.steps[at + 1 : at + 1 + AFTER],
            }
        )
    return rows


def apart(rows: list[dict[str, Any]], steps: int) -> list[dict[str, Any]]:
    """Return the rows without those that overlap a better one."""
    kept: list[dict[str, Any]] = []
    for row in rows:
        if all(row["line"] != k["line"] or abs(row["step"] - k["step"]) >= steps for k in kept):
            kept.append(row)
        if len(kept) >= 1000:
            break
    return kept
