"""A passage with every piece coloured by its cost: as a picture, for a page with a choice between models,
and in a terminal.

The pieces are the tokens that a model paid for, joined where a character lies in several of them.
"""

from __future__ import annotations

import math
import os
import unicodedata
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple, TextIO

from seqloom.charts import theme
from seqloom.charts.theme import script_json


class Piece(NamedTuple):
    """Some text and its cost; `weight` is what the cost is divided by for its colour: bytes, or 1
    for a word.
    """

    text: str
    bits: float
    weight: int = 1

    @property
    def level(self) -> float:
        return self.bits / max(self.weight, 1)


def whole_characters(tokens: Sequence[bytes], bits: Sequence[float]) -> list[Piece]:
    """Make one piece per token, but never part of a character; tokens without bytes (ends of
    units) keep their place.

    >>> [tuple(p) for p in whole_characters(["é".encode()[:1], "é".encode()[1:], b"t"], [3.0, 1.0, 2.0])]
    [('é', 4.0, 2), ('t', 2.0, 1)]
    """
    pieces: list[Piece] = []
    waiting, cost = b"", 0.0
    for token, token_bits in zip(tokens, bits, strict=True):
        waiting, cost = waiting + token, cost + float(token_bits)
        try:
            text = waiting.decode("utf-8")
        except UnicodeDecodeError as error:
            if error.end == len(waiting) and error.reason == "unexpected end of data":
                continue  # the rest of the character is in the next token
            text = waiting.decode("utf-8", "replace")
        pieces.append(Piece(text, cost, len(waiting)))
        waiting, cost = b"", 0.0
    if waiting:
        pieces.append(Piece(waiting.decode("utf-8", "replace"), cost, len(waiting)))
    return pieces


def columns_of(sign: str) -> int:
    """Return how many grid columns a character takes: two in East Asian scripts and emoji, none
    for marks.

    >>> [columns_of(sign) for sign in ("a", "猫", "\u0301")]
    [1, 2, 0]
    """
    if unicodedata.category(sign) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(sign) in "WF" else 1


# ---- passage

COLUMNS = 60  # characters of a line in a picture
CELL = (8.2, 19)  # pixels of a character
SIGNS = {"\n": "↵", "\t": "→", "\r": "␍"}

STYLE = (
    f"""
.passage {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr));
  gap: 0 1.5rem; }}
.passage select {{ font: inherit; padding: .15rem .4rem; margin: .4rem 0; max-width: 100%; }}
.passage div {{ white-space: pre-wrap; font: 15px/1.55 {theme.MONO}; border: 1px solid {theme.GRID};
  padding: .5rem; }}
.passage i {{ font-style: normal; padding: .1em 0; box-shadow: inset -1px 0 #ffffff99; }}
.passage i:hover, .passage i.same {{ outline: 2px solid {theme.HUES[0]}; }}
.ramp {{ display: flex; flex-wrap: wrap; gap: .2rem .6rem; font-size: .85rem; margin: .5rem 0; }}
.ramp span {{ padding: 0 .5rem; border: 1px solid {theme.GRID}; }}
.tip {{ position: fixed; display: none; z-index: 9; background: white; border: 1px solid #8a8a8a;
  padding: .25rem .5rem; font: 13px/1.4 {theme.SANS}; box-shadow: 0 1px 5px #0004; pointer-events: none;
  white-space: pre; }}
"""
    + "".join(
        f".s{i} {{ background: {c}; color: {ink}; }}\n"
        for i, (c, ink) in enumerate(zip(theme.RAMP, theme.RAMP_INK))
    )
    + f".s- {{ color: {theme.FAINT}; }}\n"
)

SCRIPT = """
for (const root of document.querySelectorAll(".passage")) {
  const data = JSON.parse(root.querySelector("script").textContent);
  const tip = root.querySelector(".tip"), panes = [];
  const step = (bits, size) => data.bounds.filter(b => bits / size >= b).length;
  const signs = {"\\n": "↵\\n", "\\t": "→\\t"};
  const shown = text => text.replace(/[\\n\\t]/g, c => signs[c]);
  function draw(pane, name) {
    pane.name = name; pane.box.textContent = ""; let at = 0;
    for (const [text, bits, size] of data.pieces[name]) {
      const i = document.createElement("i");
      i.className = bits === null ? "s-" : "s" + step(bits, size);
      i.textContent = shown(text); i.piece = {text, bits, size, from: at, to: at += size};
      pane.box.append(i);
    }
  }
  for (const section of root.querySelectorAll("section")) {
    const pane = {box: section.querySelector("div"), choice: section.querySelector("select")};
    panes.push(pane); pane.choice.onchange = () => draw(pane, pane.choice.value);
    draw(pane, pane.choice.value);
  }
  const clear = () => {
    tip.style.display = "none"; root.querySelectorAll(".same").forEach(i => i.classList.remove("same"));
  };
  root.addEventListener("pointerover", event => {
    clear(); const piece = event.target.piece; if (!piece) return;
    const lines = [];
    for (const pane of panes) for (const i of pane.box.children) {
      const p = i.piece; if (p.from >= piece.to || p.to <= piece.from) continue;
      if (i !== event.target) i.classList.add("same");
      const chance = 100 * 2 ** -p.bits;
      lines.push(pane.name + "  " + JSON.stringify(p.text) + "  " +
        (p.bits === null ? "begins before the passage" : p.bits.toFixed(2) + " bits, " +
          (chance >= 0.1 ? chance.toPrecision(3) : chance.toExponential(1)) + " %"));
    }
    tip.textContent = [...new Set(lines)].join("\\n"); tip.style.display = "block";
    const r = event.target.getClientRects()[0], w = tip.offsetWidth, h = tip.offsetHeight;
    tip.style.left = Math.max(4, Math.min(r.left, innerWidth - w - 8)) + "px";
    tip.style.top = (r.bottom + h + 8 < innerHeight ? r.bottom + 6 : r.top - h - 6) + "px";
  });
  root.addEventListener("pointerleave", clear);
}
"""


def passage_html(pieces: Mapping[str, Sequence[Piece]], shown: Sequence[str]) -> str:
    """Return the markup of one passage with a pane for each model of `shown`; it needs STYLE and
    SCRIPT once per page.
    """
    data = {
        "bounds": list(theme.BITS),
        "pieces": {
            name: [
                [p.text, round(p.bits, 2) if math.isfinite(p.bits) else None, p.weight] for p in its
            ]
            for name, its in pieces.items()
        },
    }
    panes = []
    for number, first in enumerate(shown, 1):
        options = "".join(
            f"<option{' selected' if name == first else ''}>{escape(name)}</option>"
            for name in pieces
        )
        panes.append(
            f"<section><select aria-label='model of pane {number}'>{options}</select><div></div></section>"
        )
    ramp = "".join(f"<span class=s{i}>{name}</span>" for i, name in enumerate(theme.steps_named()))
    return (
        f"<div class=ramp>bits per byte: {ramp}</div>\n<div class=passage>{''.join(panes)}<p class=tip></p>"
        f'<script type="application/json">{script_json(data)}</script></div>'
    )


def passage_chart(
    pieces: Mapping[str, Sequence[Piece]], columns: int = COLUMNS, unit: str = "byte"
) -> Any:
    """Draw the passage once for each model, side by side; `unit` is what the weights count."""
    import altair as alt

    panels = []
    for name, its in pieces.items():
        values, rows = cells(its, columns)
        wide = max((cell["right"] for cell in values), default=1)
        base = alt.Chart(theme.table(values)).encode(
            x=alt.X("column:Q", axis=None, scale=alt.Scale(domain=[0, wide], nice=False)),
            y=alt.Y("row:Q", axis=None, scale=alt.Scale(domain=[rows, 0], nice=False)),
        )
        colour = alt.Color(
            "step:N",
            title=f"bits per {unit}",
            scale=alt.Scale(domain=theme.steps_named(), range=list(theme.RAMP)),
            legend=alt.Legend(
                symbolType="square",
                symbolStrokeColor="#8a8a8a",
                symbolStrokeWidth=0.7,
                columns=6,
                symbolSize=160,
                titleOrient="left",
            ),
        )
        boxes = base.mark_rect(strokeWidth=0).encode(x2="right:Q", y2="below:Q", color=colour)
        text = base.mark_text(
            font="monospace", fontSize=13, align="center", baseline="middle", dy=CELL[1] / 2
        )
        text = text.encode(x="middle:Q", text="sign:N", color=alt.Color("ink:N", scale=None))
        panels.append(
            alt.layer(boxes, text).properties(
                width=round(wide * CELL[0]), height=round(rows * CELL[1]), title=name
            )
        )
    return alt.hconcat(*panels, spacing=24)


def cells(pieces: Sequence[Piece], columns: int) -> tuple[list[dict[str, Any]], int]:
    """Return where each character stands on a grid, with its colour, and the number of rows."""
    names = theme.steps_named()
    grid: list[dict[str, Any]] = []
    row = column = 0
    for piece in pieces:
        finite = math.isfinite(piece.bits)
        step = theme.step(piece.level) if finite else 0
        ink = theme.RAMP_INK[step] if finite else theme.FAINT
        for sign in piece.text:
            size = 1 if sign in SIGNS else columns_of(sign)
            if size == 0 and column:  # a mark stands on what is before it
                grid[-1]["sign"] += sign
                continue
            size = max(size, 1)
            if column + size > columns:
                row, column = row + 1, 0
            grid.append(
                {
                    "row": row,
                    "column": column,
                    "right": column + size,
                    "middle": column + size / 2,
                    "below": row + 1,
                    "sign": SIGNS.get(sign, sign),
                    "step": names[step],
                    "ink": ink,
                }
            )
            row, column = (row + 1, 0) if sign == "\n" else (row, column + size)
    return grid, row + (column > 0)


# ---- terminal

WIDTH = 78  # columns of plain text: the digits must stay below their characters


def wanted(
    stream: TextIO, *, forced: bool = False, environment: Mapping[str, str] = os.environ
) -> bool:
    """Return whether to send colours to this stream: to a terminal that is not dumb, unless NO_COLOR
    is set (no-color.org); FORCE_COLOR (force-color.org) sends them into pipes too. Without colours
    the steps of the ramp stand as digits below the text.
    """
    if forced:
        return True
    if environment.get("NO_COLOR"):
        return False
    return bool(environment.get("FORCE_COLOR")) or (
        stream.isatty() and environment.get("TERM") != "dumb"
    )


def legend(bounds: Sequence[float] = theme.BITS, unit: str = "byte", *, colour: bool = True) -> str:
    """Return one line that says what the colours or digits mean."""
    names = theme.steps_named(bounds)
    shown = [_paint(f" {name} ", i) if colour else f"{i}: {name}" for i, name in enumerate(names)]
    return f"bits per {unit}: " + (" " if colour else ", ").join(shown)


def show(
    pieces: Sequence[Piece], bounds: Sequence[float] = theme.BITS, *, colour: bool = True
) -> str:
    r"""Show the text with a background for each piece, or without colours with a digit below each
    character.

    >>> show([Piece("a", 0.1), Piece("b", 9.0)])
    '\x1b[38;5;16;48;5;231ma\x1b[0m\x1b[38;5;231;48;5;124mb\x1b[0m'
    >>> print(show([Piece("to ", 2.0, 3), Piece("be", 9.0, 2)], colour=False))
    to be
    11144
    """
    runs: list[tuple[int, str]] = []  # neighbours of one colour share their codes
    for piece in pieces:
        step = theme.step(piece.level, bounds)
        if runs and runs[-1][0] == step:
            runs[-1] = step, runs[-1][1] + visible(piece.text)
        else:
            runs.append((step, visible(piece.text)))
    return "".join(_paint(text, step) for step, text in runs if text) if colour else _digits(runs)


def visible(text: str) -> str:
    """Show line ends and tabs as signs; control characters could move the cursor or change colours
    themselves.
    """
    shown = text.replace("\n", "↵\n")
    return "".join(
        c if c == "\n" or c.isprintable() else "→" if c == "\t" else "\ufffd" for c in shown
    )


def _paint(text: str, step: int) -> str:
    """Put colour codes around each line, so that a background never runs to the edge of the
    window.
    """
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
