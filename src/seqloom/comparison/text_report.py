"""What only the report of language models has: a passage coloured by cost, and calibration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from seqloom.charts.calibration import Forecasts, reliability
from seqloom.charts.passage import SCRIPT, STYLE, passage_chart, passage_html
from seqloom.comparison.calibration import Calibration, calibration
from seqloom.comparison.passage import Passage, passage
from seqloom.comparison.pictures import best_of_groups, shown_first

if TYPE_CHECKING:
    from seqloom.charts.page import Page
    from seqloom.comparison.result import Comparison

MOST_CALIBRATED = 4  # lines in the reliability diagram


@dataclass
class Details:
    """What is computed for the report alone, from the fitted models."""

    passage: Passage | None = None
    calibrations: dict[str, Calibration] = field(default_factory=dict)


def details(comparison: Comparison) -> Details:
    """The coloured passage under every rung, and the calibration of the best rung of each group."""
    bench = comparison.bench
    assert bench is not None
    chosen = best_of_groups(comparison)[:MOST_CALIBRATED]
    return Details(passage(bench.fitted, bench.splits.test, guide=comparison.best.name),
                   {r.name: calibration(bench.fitted[r.name], bench.splits.test) for r in chosen})


def pictures(comparison: Comparison, page_details: Details) -> dict[str, Any]:
    charts = {}
    if page_details.passage is not None:
        charts["passage"] = passage_chart({name: page_details.passage.pieces[name] for name in shown_first(comparison)})
    if page_details.calibrations:
        charts["calibration"] = calibration_chart(page_details.calibrations)
    return charts


def calibration_chart(calibrations: dict[str, Calibration]) -> Any:
    return reliability({name: [Forecasts(b.predicted, b.observed, b.low, b.high, b.n) for b in c.bins]
                        for name, c in calibrations.items()})


def sections(page: Page, c: Comparison, page_details: Details | None) -> None:
    if page_details is None:
        return
    if page_details.passage is not None:
        page.heading("Which rung predicts what")
        page.text(f"A passage of the test part (from byte {page_details.passage.start:,}), each token coloured by its cost for "
                  "each of its bytes. Choose two rungs; point at a token to see what both paid for it.")
        page.raw(passage_html(page_details.passage.pieces, shown_first(c)), style=STYLE, script=SCRIPT)
    if page_details.calibrations:
        page.heading("Calibration")
        page.chart(calibration_chart(page_details.calibrations), "how often forecasts of each probability came true")
        page.text("All tokens of the vocabulary at sampled positions, grouped by the probability that they were given, "
                  "against how often they came; bars are 95 % intervals. On the dashed line a model is as sure as it may "
                  "be; below it, things come less often than it says.", kind="faint")
        page.table(["rung", "misplaced probability", "by chance alone", "positions"],
                   [[name, f"{k.error:.1%}", f"{k.chance:.1%}", f"{k.positions:,}"]
                    for name, k in page_details.calibrations.items()])
