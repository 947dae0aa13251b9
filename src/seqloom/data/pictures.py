"""The description of a text as pictures: coverage, unknown tokens and tokens' lengths by tokenizer, distributions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from seqloom.charts import files
from seqloom.charts.page import Page
from seqloom.charts.vocabulary import Bar, Covered, bars, coverage, lengths
from seqloom.data.describe import Description, Table


def charts(found: Description) -> dict[str, Any]:
    """The charts by title; those without data are left out."""
    points = [Covered("to learn from", c.types, c.train) for c in found.coverage]
    points += [Covered("held-out", c.types, c.held_out) for c in found.coverage if c.held_out is not None]
    drawn = {"What the most frequent words cover": coverage(points)}
    names = [f"{row.kind} {row.vocab_size:,}" for row in found.rows]
    if found.rows:
        drawn["Unknown tokens of held-out text"] = bars(
            [Bar(name, row.kind, row.oov_rate, f"{row.oov_rate:.2%}") for name, row in zip(names, found.rows)],
            "share of the tokens that are <unk>", form=".2~%")
        drawn["How long tokens are"] = bars(
            [Bar(name, row.kind, row.bytes_per_token, f"{row.bytes_per_token:.2f}")
             for name, row in zip(names, found.rows)], "bytes a token", form="~g")
    for one in found.lengths:
        drawn[f"Lengths of {one.name}"] = lengths(one.histogram, one.name.rpartition(" ")[2])
    return drawn


def draw(found: Description, path: str | Path) -> None:
    """Write the pictures where the ending says how: .png, .svg, or .html with the tables."""
    kind = files.check_target(path)
    drawn = charts(found)
    if kind != "html":
        files.save(_sheet(drawn), path)
        return
    page = Page(f"A description of {found.name}")
    for line in found.summary():
        page.text(line)
    for title, chart in drawn.items():
        page.heading(title).chart(chart, title)
    for table in found.tables():
        _add(page, table)
    files.write(path, page.html().encode())


def _add(page: Page, table: Table) -> None:
    page.heading(table.title.capitalize()).table(table.rows[0], table.rows[1:])


def _sheet(drawn: dict[str, Any]) -> Any:
    """All charts on one sheet, two in a row."""
    import altair as alt

    made = [chart.properties(width=430, title=title) for title, chart in drawn.items()]
    rows = [alt.hconcat(*made[i:i + 2], spacing=40).resolve_scale(color="independent") for i in range(0, len(made), 2)]
    return alt.vconcat(*rows, spacing=30)
