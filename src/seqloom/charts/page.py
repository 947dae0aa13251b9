"""A page of charts, tables and text in one file that opens without a network, and `Sheet`: titled charts
that belong together, as one picture or as such a page.

Vega is put into a page once, however many charts there are. Charts take the width of the window and
are drawn again when it changes. Whatever is not markup of this file is escaped.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from pathlib import Path
from textwrap import wrap
from typing import Any, Self

from seqloom.charts import theme
from seqloom.charts.theme import require_charts, script_json, specification, vega_lite, version
from seqloom.errors import DataError, MissingExtra, suggest_known
from seqloom.forks import needs_threads
from seqloom.frames import as_frame

STYLE = f"""
:root {{ color-scheme: light; }}
body {{ font: 16px/1.5 {theme.SANS}; color: {theme.INK}; background: white; max-width: 74rem; margin: 0 auto;
  padding: 1rem clamp(.8rem, 3vw, 2rem) 3rem; overflow-wrap: anywhere; }}
h1 {{ font-size: 1.6rem; line-height: 1.25; margin: .5rem 0; }}
h2 {{ font-size: 1.2rem; margin: 2.2rem 0 .3rem; border-top: 1px solid {theme.GRID}; padding-top: 1rem; }}
p {{ margin: .4rem 0; max-width: 46rem; }}
.faint {{ color: {theme.FAINT}; font-size: .9rem; }}
.warning {{ border-left: 4px solid {theme.HUES[1]}; padding-left: .7rem; }}
.chart {{ width: 100%; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-size: .86rem; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .22rem .45rem; text-align: right; white-space: nowrap;
  border-bottom: 1px solid {theme.GRID}; }}
th {{ font-weight: 600; vertical-align: bottom; }}
th:first-child, td:first-child {{ text-align: left; position: sticky; left: 0; background: white;
  background-clip: padding-box; }}
tr.best td {{ font-weight: 600; background: #eef5fa; }}
pre {{ white-space: pre-wrap; background: #f6f6f6; padding: .6rem .8rem; font: .85rem/1.4 {theme.MONO};
  margin: .3rem 0 1rem; }}
summary {{ cursor: pointer; padding: .2rem 0; }}
code {{ font: .8rem {theme.MONO}; overflow-wrap: anywhere; }}
"""

DRAW = """
for (const [id, spec] of Object.entries(JSON.parse(document.getElementById("charts").textContent)))
  vegaEmbed("#" + id, spec, {renderer: "svg", actions: false, tooltip: {theme: "light"}})
    .catch(console.error);
"""


class Page:
    """Pieces of a page from top to bottom; every method adds one and returns the page."""

    def __init__(self, title: str) -> None:
        self.title = title
        self._body: list[str] = []
        self._style: dict[str, None] = {}  # each once, in order
        self._charts: dict[str, dict[str, Any]] = {}
        self._scripts: dict[str, None] = {}

    def heading(self, text: str) -> Self:
        self._body.append(f"<h2>{escape(text)}</h2>")
        return self

    def text(self, text: str, *, kind: str = "") -> Self:
        self._body.append(f"<p{f' class={kind}' if kind else ''}>{escape(text)}</p>")
        return self

    def chart(self, chart: Any, description: str = "") -> Self:
        """Add an altair chart; `description` is for those who do not see it."""
        name = f"chart{len(self._charts) + 1}"
        self._charts[name] = specification(chart, responsive=True)
        self._body.append(
            f'<div class=chart id={name} role=img aria-label="{escape(description)}"></div>'
        )
        return self

    def table(
        self, header: Sequence[str], rows: Sequence[Sequence[str]], *, best: int | None = None
    ) -> Self:
        head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
        body = ""
        for i, row in enumerate(rows):
            cells = "".join(f"<td>{escape(cell)}</td>" for cell in row)
            body += f"<tr{' class=best' if i == best else ''}>{cells}</tr>"
        self._body.append(
            f"<div class=wide><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        )
        return self

    def folded(self, summary: str, text: str, *, opened: bool = False) -> Self:
        """Add preformatted text below a line that shows and hides it."""
        self._body.append(
            f"<details{' open' if opened else ''}><summary>{escape(summary)}</summary>"
            f"<pre>{escape(text)}</pre></details>"
        )
        return self

    def listing(self, lines: Sequence[str]) -> Self:
        self._body.append(
            "<ul>" + "".join(f"<li><code>{escape(line)}</code></li>" for line in lines) + "</ul>"
        )
        return self

    def raw(self, markup: str, *, style: str = "", script: str = "") -> Self:
        """Add markup that is already escaped, with the style and script that it needs, once per page."""
        self._body.append(markup)
        if style:
            self._style[style] = None
        if script:
            self._scripts[script] = None
        return self

    def html(self) -> str:
        style = STYLE + "".join(self._style)
        scripts = "".join(f"<script>{script}</script>\n" for script in self._scripts)
        if self._charts:
            import vl_convert

            needs_threads("vl-convert")
            # Its stub demands a snippet that has a default.
            bundle: Any = vl_convert.javascript_bundle
            scripts += (
                f"<script>{bundle(vl_version=version())}</script>\n"
                f'<script type="application/json" id=charts>{script_json(self._charts)}</script>\n'
                f"<script>{DRAW}</script>\n"
            )
        body = "\n".join(self._body)
        return (
            "<!DOCTYPE html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n"
            '<meta name=viewport content="width=device-width, initial-scale=1">\n'
            f"<title>{escape(self.title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
            f"<h1>{escape(self.title)}</h1>\n{body}\n{scripts}</body>\n</html>\n"
        )


# ---- sheet

Charts = Mapping[str, Any]  # altair charts by heading
TITLE, SUMMARY = 68, 110  # characters of a line above a picture
SHORT = 12  # characters that do not stand alone in its last line


def summary_lines(text: str) -> list[str]:
    """Break a sentence above a picture into lines; none has a short word alone."""
    lines = wrap(text, SUMMARY, break_on_hyphens=False)
    if len(lines) > 1 and len(lines[-1]) < SHORT:
        lines = wrap(text, SUMMARY - 2 * SHORT, break_on_hyphens=False)
    return lines


def stacked(charts: Charts) -> Any:
    """Put one chart below the other, each with its own colours."""
    import altair as alt

    rows = list(charts.values())
    if len(rows) == 1:
        return rows[0]
    return alt.vconcat(*rows, spacing=24).resolve_scale(
        color="independent", fill="independent", strokeDash="independent"
    )


def with_headings(sheet: Sheet) -> Page:
    """Build a page of the summary, then the charts; one named like the sheet needs no heading."""
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
    """What `seqloom.inspect` returns: `data` are the numbers, `charts` the altair charts, `save`
    writes them.

    Nothing is drawn before it is asked for, so the numbers alone cost little. A page may hold other
    versions of the charts than a picture (larger, to be zoomed).
    """

    title: str
    draw: Callable[[bool], Charts]  # called with whether the charts are for a page
    data: Any = None
    summary: Sequence[str] = ()  # sentences
    arrange: Callable[[Charts], Any] = stacked  # all charts, with headings, as one for a picture
    page: Callable[[Sheet], Page] = with_headings
    lines: Sequence[str] = ()  # what a terminal shows above the sentences, such as a table

    def to_frame(self) -> Any:
        """Return the `rows` of the data as a frame of pandas or polars, or a table without them."""
        if not isinstance(self.data, Mapping) or "rows" not in self.data:
            raise DataError(f"{self.title}: there are no rows; see its data")
        return as_frame(self.data["rows"])

    @cached_property
    def charts(self) -> Charts:
        """Return the charts as they are in a picture, by heading."""
        require_charts()
        return self.draw(False)

    def __getitem__(self, heading: str) -> Self:
        """Return a sheet of that chart alone."""
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

    def picture(self) -> Any:
        """Return all charts as one, with what a page says above them: title, summary, headings."""
        charts = self.charts  # which says what to install, where altair is missing
        import altair as alt

        one = self.arrange(
            {
                heading: chart
                if heading == self.title or chart.title is not alt.Undefined
                else chart.properties(title=heading)
                for heading, chart in charts.items()
            }
        )
        if len(charts) == 1 and self.title not in charts:
            # The one chart has its heading and legend, the picture the title.
            one = alt.vconcat(one).resolve_scale(
                color="independent", fill="independent", strokeDash="independent"
            )
        if one.title is not alt.Undefined:  # charts of a report are called like their files
            return one
        lines = [line for text in self.summary for line in summary_lines(text)]
        title = alt.TitleParams(
            wrap(self.title, TITLE, break_on_hyphens=False), subtitle=lines, **theme.PICTURE_TITLE
        )
        return one.properties(title=title)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """Return what a notebook shows: the charts as Vega-Lite, and as a picture for those that
        cannot draw it.
        """
        bundle: dict[str, Any] = {"text/plain": "\n".join([self.title, *self.summary])}
        try:
            chart = self.picture()
            bundle[vega_lite()] = specification(chart)
            bundle["image/png"] = base64.b64encode(theme.png(chart)).decode("ascii")
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
        kind = theme.check_target(path)
        if kind == "html":
            data = self.page(self).html().encode()
        else:
            chart = self.picture()
            data = theme.png(chart) if kind == "png" else theme.svg(chart).encode()
        theme.write(path, data)
