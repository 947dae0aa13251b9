"""The comparison as pictures: which of its numbers go into which chart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from seqloom.charts import theme
from seqloom.charts.calibration import Forecasts, reliability
from seqloom.charts.curve import Point, learning_curves
from seqloom.charts.ladder import Row, ladder
from seqloom.charts.passage import passage_chart
from seqloom.charts.quality import quality_against
from seqloom.comparison.calibration import Calibration, calibration
from seqloom.comparison.passage import Passage, passage
from seqloom.comparison.run import Comparison, RungResult

NAMES = ("ladder", "quality-time", "quality-size", "curve", "passage", "calibration", "overview")
MOST_CALIBRATED = 4  # lines in the reliability diagram


@dataclass
class Details:
    """What is computed for the report alone, from the fitted models."""

    passage: Passage | None = None
    calibrations: dict[str, Calibration] = field(default_factory=dict)


def details(comparison: Comparison) -> Details:
    """The coloured passage under every rung, and the calibration of the best rung of each group."""
    bench = comparison.bench
    if bench is None or not comparison.results:
        return Details()
    chosen = _best_of_groups(comparison.results)[:MOST_CALIBRATED]
    return Details(passage(bench.fitted, bench.splits.test, guide=comparison.best.name),
                   {r.name: calibration(bench.fitted[r.name], bench.splits.test) for r in chosen})


def group(result: RungResult) -> str:
    """What shares a colour."""
    kind = result.tokenizer.split("-")[0]
    return f"{kind} {result.family}" if result.family == "n-gram" else result.family


def drawn(results: Sequence[RungResult]) -> list[RungResult]:
    """Without the rung that shows that the ruler is straight, beside which all others would look alike."""
    models = [r for r in results if r.family != "calibration"]
    return models or list(results)


def rows(comparison: Comparison) -> list[Row]:
    return [Row(r.name, group(r), r.bits_per_byte, *r.interval, max(r.train_seconds, 1e-6), r.disk)
            for r in drawn(comparison.results)]


def pictures(comparison: Comparison, page_details: Details) -> dict[str, Any]:
    """The charts by the name of their file; those without data are left out."""
    if not comparison.results:
        return {}
    its = rows(comparison)
    charts = {"ladder": ladder(its), "quality-time": quality_against(its, "seconds"),
              "quality-size": quality_against(its, "disk")}
    if comparison.curve:
        charts["curve"] = curve_chart(comparison)
    if page_details.passage is not None:
        charts["passage"] = passage_chart({name: page_details.passage.pieces[name] for name in shown_first(comparison)})
    if page_details.calibrations:
        charts["calibration"] = calibration_chart(page_details.calibrations)
    return charts


def overview(comparison: Comparison) -> Any:
    """The picture for a README: the ladder, and beside it what more text or time brings."""
    import altair as alt

    its = rows(comparison)
    second = curve_chart(comparison) if comparison.curve else quality_against(its, "seconds")
    title = "Learning curves" if comparison.curve else "Quality against training time"
    both = [ladder(its).properties(width=400, height=theme.HEIGHT, title="Bits per byte with 95 % interval"),
            second.properties(width=400, height=theme.HEIGHT, title=title)]
    return alt.hconcat(*both, spacing=40).resolve_scale(color="independent", shape="independent")


def curve_chart(comparison: Comparison) -> Any:
    groups = {r.name: group(r) for r in comparison.results}
    return learning_curves([Point(name, groups[name], p.bytes, p.bits_per_byte)
                            for name, points in comparison.curve.items() for p in points])


def calibration_chart(calibrations: dict[str, Calibration]) -> Any:
    return reliability({name: [Forecasts(b.predicted, b.observed, b.low, b.high, b.n) for b in c.bins]
                        for name, c in calibrations.items()})


def shown_first(comparison: Comparison) -> list[str]:
    """Two rungs to look at side by side: one in the middle of the field, and the best."""
    ordered = sorted(drawn(comparison.results), key=lambda r: -r.bits_per_byte)
    return list(dict.fromkeys([ordered[len(ordered) // 4].name, ordered[-1].name]))


def _best_of_groups(results: Sequence[RungResult]) -> list[RungResult]:
    best: dict[str, RungResult] = {}
    for r in sorted(drawn(results), key=lambda r: r.bits_per_byte):
        best.setdefault(group(r), r)
    return sorted(best.values(), key=lambda r: results.index(r))
