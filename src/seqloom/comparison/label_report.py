"""What only the reports of classifiers and taggers have: confusion, calibration, each class, and errors with examples."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from seqloom.charts.calibration import Forecasts, reliability
from seqloom.charts.confusion import confusion_chart
from seqloom.comparison.calibration import wilson
from seqloom.comparison.ladder import Ladder
from seqloom.comparison.pictures import best_of_groups

if TYPE_CHECKING:
    from seqloom.charts.page import Page
    from seqloom.comparison.result import Comparison
    from seqloom.metrics.result import Result

MOST = 4  # rungs that are looked at closely
KINDS = 15  # of errors that are listed


class AnnotatedLadder(Ladder):
    """Of data with labels or tags."""

    def short_name(self, data: Any) -> str:
        return os.path.basename(data.name) or data.name

    def details(self, comparison: Comparison) -> dict[str, Result]:
        return details(comparison)

    def details_json(self, details: Any) -> dict[str, Any]:
        return {"details": {name: result.details for name, result in details.items()}}

    def pictures(self, comparison: Comparison, details: Any) -> dict[str, Any]:
        return pictures(comparison, details)

    def sections(self, page: Page, comparison: Comparison, details: Any) -> None:
        sections(page, comparison, details)


def details(comparison: Comparison) -> dict[str, Result]:
    """The best rung of each group, judged with all that can be said."""
    bench = comparison.bench
    assert bench is not None
    sign = -1 if not comparison.ladder.measure.lower else 1
    chosen = sorted(best_of_groups(comparison), key=lambda r: sign * r.value)[:MOST]
    return {r.name: bench.fitted[r.name].evaluate(bench.splits.test, samples=0) for r in chosen}


def pictures(comparison: Comparison, results: dict[str, Result]) -> dict[str, Any]:
    charts = {}
    best = results[comparison.best.name].details
    if "confusion" in best:
        charts["confusion"] = confusion_chart(best["confusion"]["classes"], best["confusion"]["counts"])
    if any(result.details.get("reliability") for result in results.values()):
        charts["calibration"] = calibration_chart(results)
    return charts


def calibration_chart(results: dict[str, Result]) -> Any:
    """How often each is right where it says so much."""
    return reliability({name: [Forecasts(b["confidence"], b["accuracy"], *wilson(b["accuracy"] * b["count"], b["count"]),
                                         b["count"]) for b in result.details.get("reliability", [])]
                        for name, result in results.items()})


def sections(page: Page, c: Comparison, results: dict[str, Result] | None) -> None:
    if not results:
        return
    best, charts = results[c.best.name].details, pictures(c, results)
    if "confusion" in charts:
        page.heading("Confusion")
        page.chart(charts["confusion"], "how often each class was taken for which; the errors below have the numbers")
        page.text(f"{c.best.name} on the test part: rows are what is right, columns what it said.", kind="faint")
    if "calibration" in charts:
        page.heading("Calibration")
        page.chart(charts["calibration"], "how often each was right against how sure it was")
        page.text("Texts grouped by the probability of the predicted class, against how often that was right; on the dashed "
                  "line a model is as sure as it may be, below it too sure.", kind="faint")
    rows = best.get("classes") or best.get("tags") or []
    key = "class" if "classes" in best else "tag"
    if rows:
        page.heading(f"Each {key}")
        _scores(page, key, rows)
    if best.get("spans"):
        page.heading("Spans")
        _scores(page, "label", best["spans"])
    if best.get("errors"):
        page.heading("Errors")
        page.table(["is", "taken for", "times", "for example"],
                   [[error["gold"], error["predicted"], f"{error['count']:,}",
                     next((example["text"] for example in error["examples"]), "")] for error in best["errors"][:KINDS]])


def _scores(page: Page, key: str, rows: list[dict[str, Any]]) -> None:
    page.table([key, "precision", "recall", "F1", "there", "predicted"],
               [[row[key], *(f"{row[name]:.3f}" for name in ("precision", "recall", "f1")), f"{row['support']:,}",
                 f"{row['predicted']:,}"] for row in rows])
