"""A passage with every piece coloured by its cost: as a picture, and for a page with a choice between models."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from seqloom.charts import theme
from seqloom.charts.pieces import Piece, columns_of
from seqloom.charts.spec import script_json

COLUMNS = 60  # characters of a line in a picture
CELL = (8.2, 19)  # pixels of a character
SIGNS = {"\n": "↵", "\t": "→", "\r": "␍"}

STYLE = (
    f"""
.passage {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); gap: 0 1.5rem; }}
.passage select {{ font: inherit; padding: .15rem .4rem; margin: .4rem 0; max-width: 100%; }}
.passage div {{ white-space: pre-wrap; font: 15px/1.55 {theme.MONO}; border: 1px solid {theme.GRID}; padding: .5rem; }}
.passage i {{ font-style: normal; padding: .1em 0; box-shadow: inset -1px 0 #ffffff99; }}
.passage i:hover, .passage i.same {{ outline: 2px solid {theme.HUES[0]}; }}
.ramp {{ display: flex; flex-wrap: wrap; gap: .2rem .6rem; font-size: .85rem; margin: .5rem 0; }}
.ramp span {{ padding: 0 .5rem; border: 1px solid {theme.GRID}; }}
.tip {{ position: fixed; display: none; z-index: 9; background: white; border: 1px solid #8a8a8a; padding: .25rem .5rem;
  font: 13px/1.4 {theme.SANS}; box-shadow: 0 1px 5px #0004; pointer-events: none; white-space: pre; }}
"""
    + "".join(
        f".s{i} {{ background: {c}; color: {ink}; }}\n"
        for i, (c, ink) in enumerate(zip(theme.RAMP, theme.RAMP_INK))
    )
    + f".s- {{ color: {theme.FAINT}; }}\n"
)

SCRIPT = """
for (const root of document.querySelectorAll(".passage")) {
  const data = JSON.parse(root.querySelector("script").textContent), tip = root.querySelector(".tip"), panes = [];
  const step = (bits, size) => data.borders.filter(b => bits / size >= b).length;
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
    panes.push(pane); pane.choice.onchange = () => draw(pane, pane.choice.value); draw(pane, pane.choice.value);
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
      lines.push(pane.name + "  " + JSON.stringify(p.text) + "  " + (p.bits === null ? "begins before the passage" :
        p.bits.toFixed(2) + " bits, " + (chance >= 0.1 ? chance.toPrecision(3) : chance.toExponential(1)) + " %"));
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
    """The markup of one passage with a pane for each model of `shown`; needs STYLE and SCRIPT once a page."""
    data = {
        "borders": list(theme.BITS),
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


def passage_chart(pieces: Mapping[str, Sequence[Piece]], columns: int = COLUMNS) -> Any:
    """The passage once for each model, side by side."""
    import altair as alt

    panels = []
    for name, its in pieces.items():
        values, rows = cells(its, columns)
        wide = max((cell["right"] for cell in values), default=1)
        base = alt.Chart(alt.InlineData(values=values)).encode(
            x=alt.X("column:Q", axis=None, scale=alt.Scale(domain=[0, wide], nice=False)),
            y=alt.Y("row:Q", axis=None, scale=alt.Scale(domain=[rows, 0], nice=False)),
        )
        colour = alt.Color(
            "step:N",
            title="bits per byte",
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
    """Where each character stands on a grid, with its colour, and how many rows there are."""
    names = theme.steps_named()
    grid: list[dict[str, Any]] = []
    row = column = 0
    for piece in pieces:
        known = math.isfinite(piece.bits)
        step = theme.step(piece.level) if known else 0
        ink = theme.RAMP_INK[step] if known else theme.FAINT
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
