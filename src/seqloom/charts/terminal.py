"""Text in a terminal, every piece coloured by its cost, with a legend.

Colours are sent where somebody can see them: on a terminal that is not dumb, unless NO_COLOR is set (no-color.org);
FORCE_COLOR (force-color.org) sends them into pipes too. Without colours the steps of the ramp stand as digits below the
text.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TextIO

from seqloom.charts import theme
from seqloom.charts.pieces import Piece, columns_of

WIDTH = 78  # columns of plain text, whose digits must stay below it


def wanted(
    stream: TextIO, *, forced: bool = False, environment: Mapping[str, str] = os.environ
) -> bool:
    """Whether to send colours to this stream."""
    if forced:
        return True
    if environment.get("NO_COLOR"):
        return False
    return bool(environment.get("FORCE_COLOR")) or (
        stream.isatty() and environment.get("TERM") != "dumb"
    )


def legend(
    borders: Sequence[float] = theme.BITS, unit: str = "byte", *, colour: bool = True
) -> str:
    """One line that says what the colours or digits mean."""
    names = theme.steps_named(borders)
    shown = [_paint(f" {name} ", i) if colour else f"{i}: {name}" for i, name in enumerate(names)]
    return f"bits per {unit}: " + (" " if colour else ", ").join(shown)


def show(
    pieces: Sequence[Piece], borders: Sequence[float] = theme.BITS, *, colour: bool = True
) -> str:
    r"""The text with a background for each piece, or without colours with a digit below each character.

    >>> show([Piece("a", 0.1), Piece("b", 9.0)])
    '\x1b[38;5;16;48;5;231ma\x1b[0m\x1b[38;5;231;48;5;124mb\x1b[0m'
    >>> print(show([Piece("to ", 2.0, 3), Piece("be", 9.0, 2)], colour=False))
    to be
    11144
    """
    runs: list[tuple[int, str]] = []  # neighbours of one colour share their codes
    for piece in pieces:
        step = theme.step(piece.level, borders)
        if runs and runs[-1][0] == step:
            runs[-1] = step, runs[-1][1] + visible(piece.text)
        else:
            runs.append((step, visible(piece.text)))
    return "".join(_paint(text, step) for step, text in runs if text) if colour else _digits(runs)


def visible(text: str) -> str:
    """Ends of lines and tabs as signs; control characters could move the cursor or change colours themselves."""
    shown = text.replace("\n", "↵\n")
    return "".join(
        c if c == "\n" or c.isprintable() else "→" if c == "\t" else "\ufffd" for c in shown
    )


def _paint(text: str, step: int) -> str:
    """Codes around each line, so that a background never runs to the edge of the window."""
    code = f"\x1b[38;5;{theme.TERMINAL_INK[step]};48;5;{theme.TERMINAL[step]}m"
    return "\n".join(f"{code}{line}\x1b[0m" if line else "" for line in text.split("\n"))


def _digits(runs: Sequence[tuple[int, str]]) -> str:
    marks = [(sign, str(step)) for step, text in runs for sign in text]
    lines: list[str] = []
    above, below = "", ""
    for sign, digit in marks:
        wide = columns_of(sign)
        if sign == "\n" or len(below) + wide > WIDTH:
            lines += [above, below]
            above = below = ""
        if sign != "\n":
            above, below = above + sign, below + digit * wide
    return "\n".join(lines + ([above, below] if above else []))
