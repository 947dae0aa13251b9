"""The comparison as pictures: which of its numbers go into which chart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

from seqloom.charts import theme
from seqloom.charts.comparison import (
    CurvePoint,
    Price,
    Row,
    ladder,
    learning_curves,
    quality_against,
)
from seqloom.charts.page import Sheet
from seqloom.comparison.result import Comparison, RungResult
from seqloom.comparison.table import title
from seqloom.errors import ConfigError

HEADINGS = {  # by file name, as the page has them
    "ladder": "The ladder",
    "quality-time": "Quality against training time",
    "quality-size": "Quality against size",
    "curve": "Learning curve",
    "passage": "Which rung predicts what",
    "calibration": "Calibration",
    "confusion": "Confusion",
    "forecast": "Forecast",
    "lengths": "Quality by length of the source",
}
NAMES = (*HEADINGS, "overview")


def details(comparison: Comparison) -> Any:
    """Compute what only the report needs, from the fitted models; None: nothing."""
    return (
        comparison.ladder.details(comparison)
        if comparison.bench is not None and comparison.results
        else None
    )


def drawn(results: Sequence[RungResult]) -> list[RungResult]:
    """Return the results without the calibration rung, beside which all others would look alike."""
    models = [r for r in results if r.family != "calibration"]
    return models or list(results)


def rows(comparison: Comparison) -> list[Row]:
    return [
        Row(
            r.shown,
            comparison.ladder.group(r),
            r.value,
            *r.interval,
            math.nan if r.train_seconds is None else max(r.train_seconds, 1e-6),
            math.nan if r.disk is None else r.disk,
        )
        for r in drawn(comparison.results)
        if math.isfinite(r.value)
    ]


def priced(its: Sequence[Row], price: Price) -> list[Row]:
    """Return the rows whose price is known."""
    return [row for row in its if math.isfinite(getattr(row, price))]


def pictures(comparison: Comparison, page_details: Any) -> dict[str, Any]:
    """Draw the charts by file name; those without data are left out."""
    its, m = rows(comparison), comparison.ladder.measure
    if not its:
        return {}
    charts = {"ladder": ladder(its, m)}
    for name, price in (("quality-time", "seconds"), ("quality-size", "disk")):
        if some := priced(its, price):  # type: ignore[arg-type]
            charts[name] = quality_against(some, price, m)  # type: ignore[arg-type]
    if comparison.curve:
        charts["curve"] = curve_chart(comparison)
    if page_details is not None:
        charts |= comparison.ladder.pictures(comparison, page_details)
    return {
        name: chart.properties(title=HEADINGS.get(name, name)) for name, chart in charts.items()
    }


def overview(comparison: Comparison) -> Any:
    """Draw the picture for a README: the ladder, and beside it what more data or time brings,
    below the title of the report.
    """
    import altair as alt

    its, m = rows(comparison), comparison.ladder.measure
    both = [
        ladder(its, m).properties(
            width=400, height=theme.HEIGHT, title=f"{upper_first(m.title)} with 95 % interval"
        )
    ]
    if comparison.curve:
        both.append(
            curve_chart(comparison).properties(
                width=400, height=theme.HEIGHT, title=HEADINGS["curve"]
            )
        )
    elif timed := priced(its, "seconds"):
        both.append(
            quality_against(timed, "seconds", m).properties(
                width=400, height=theme.HEIGHT, title=HEADINGS["quality-time"]
            )
        )
    drawn = alt.hconcat(*both, spacing=40)
    return drawn.resolve_scale(color="independent", shape="independent").properties(
        title=alt.TitleParams(title(comparison), **theme.PICTURE_TITLE)
    )


def upper_first(text: str) -> str:
    """Begin a heading with a capital; the capitals of a name such as BLEU stay."""
    return text[:1].upper() + text[1:]


def comparison(result: Comparison) -> Sheet:
    """Draw charts of `seqloom.compare`: a page is the report, a picture its overview; each chart
    is in the sheet by name.
    """
    from seqloom.comparison.report import report_page

    if not result.results:
        raise ConfigError("no rung was trained; there is nothing to draw")
    more = cache(lambda: details(result))  # read the test part again: only when drawn, and once
    return Sheet(
        title(result),
        lambda page: pictures(result, more()),
        result.to_dict(),
        arrange=lambda charts: overview(result),
        page=lambda sheet: report_page(result, more()),
    )


def curve_chart(comparison: Comparison) -> Any:
    groups = {r.name: comparison.ladder.group(r) for r in comparison.results}
    return learning_curves(
        [
            CurvePoint(name, groups[name], p.size, p.value)
            for name, points in comparison.curve.items()
            for p in points
        ],
        comparison.ladder.measure,
        comparison.ladder.size_unit,
    )


def shown_first(comparison: Comparison) -> list[str]:
    """Choose two rungs to look at side by side: one in the middle of the field, and the best."""
    sign = -1 if comparison.ladder.measure.lower else 1
    ordered = sorted(drawn(comparison.results), key=lambda r: sign * r.value)
    return list(dict.fromkeys([ordered[len(ordered) // 4].name, ordered[-1].name]))


def best_of_groups(comparison: Comparison) -> list[RungResult]:
    """Return the best rung of each group, in the order of the ladder."""
    best: dict[str, RungResult] = {}
    sign = 1 if comparison.ladder.measure.lower else -1
    for r in sorted(drawn(comparison.results), key=lambda r: sign * r.value):
        best.setdefault(comparison.ladder.group(r), r)
    return sorted(best.values(), key=lambda r: comparison.results.index(r))
