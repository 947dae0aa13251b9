"""Titled charts that belong together: one picture of all of them, or a page with headings.

Nothing is drawn before it is asked for, so the numbers alone cost little. A page may hold other versions of the charts than
a picture (larger, to be zoomed).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from seqloom.charts import files
from seqloom.charts.page import Page
from seqloom.charts.spec import require_charts, specification, vega_lite
from seqloom.errors import MissingExtra, suggest_known

Charts = Mapping[str, Any]  # altair charts by heading


def stacked(charts: Charts) -> Any:
    """One chart below the other, each with colours of its own."""
    import altair as alt

    rows = list(charts.values())
    return alt.vconcat(*rows).resolve_scale(color="independent") if len(rows) > 1 else rows[0]


def with_headings(sheet: Sheet) -> Page:
    """The summary, then the charts; one that is named like the sheet needs no heading."""
    page = Page(sheet.title)
    for line in sheet.summary:
        page.text(line)
    for heading, chart in sheet.draw(True).items():
        if heading == sheet.title:
            page.chart(chart, ": ".join((heading, *sheet.summary)))
        else:
            page.heading(heading).chart(chart, heading)
    return page


@dataclass(frozen=True)
class Sheet:
    """What `seqloom.inspect` returns: `data` are the numbers, `charts` the altair charts, `save` writes them."""

    title: str
    draw: Callable[[bool], Charts]  # told whether the charts are for a page
    data: Any = None
    summary: Sequence[str] = ()  # sentences
    arrange: Callable[[Charts], Any] = stacked  # all charts as one, for a picture
    page: Callable[[Sheet], Page] = with_headings

    @cached_property
    def charts(self) -> Charts:
        """As they are in a picture, by heading."""
        require_charts()
        return self.draw(False)

    def __getitem__(self, heading: str) -> Self:
        """A sheet of that chart alone."""
        if heading not in self.charts:
            raise KeyError(f"unknown chart {heading!r}{suggest_known(heading, self.charts)}")
        return replace(
            self,
            title=heading,
            draw=lambda page: {heading: self.draw(page)[heading]},
            summary=(),
            arrange=stacked,
            page=with_headings,
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """What a notebook shows: the charts as Vega-Lite, and as a picture for those that cannot draw it."""
        bundle: dict[str, Any] = {"text/plain": "\n".join([self.title, *self.summary])}
        try:
            chart = self.arrange(self.charts)
            bundle[vega_lite()] = specification(chart)
            bundle["image/png"] = base64.b64encode(files.png(chart)).decode("ascii")
        except MissingExtra as error:
            bundle["text/plain"] += f"\n{error}"
        wanted = [
            kind
            for kind in bundle
            if (not include or kind in include) and kind not in (exclude or ())
        ]
        return {kind: bundle[kind] for kind in wanted}

    def save(self, path: str | Path) -> None:
        """Write a picture (.png, .svg) or a page that opens without a network (.html)."""
        kind = files.check_target(path)
        if kind == "html":
            data = self.page(self).html().encode()
        else:
            chart = self.arrange(self.charts)
            data = files.png(chart) if kind == "png" else files.svg(chart).encode()
        files.write(path, data)
