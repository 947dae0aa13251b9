"""Several charts in one file: a page with headings, or one picture with the charts below each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def save_sheet(charts: Mapping[str, Any], target: str, title: str) -> None:
    """Charts by their headings, in the form that the ending names: .png, .svg or .html."""
    from seqloom.charts import files
    from seqloom.charts.page import Page

    if files.check_target(target) == "html":
        page = Page(title)
        for heading, chart in charts.items():
            page.heading(heading).chart(chart, heading)
        files.write(target, page.html().encode())
        return
    import altair as alt

    several = alt.vconcat(*charts.values()).resolve_scale(color="independent") if len(charts) > 1 else None
    files.save(several or next(iter(charts.values())), target)
