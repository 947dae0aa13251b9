"""The comparison as one HTML page: the table, every chart, a passage to look into, samples and signatures."""

from __future__ import annotations

from seqloom.charts.ladder import ladder
from seqloom.charts.page import Page
from seqloom.charts.passage import SCRIPT, STYLE, passage_html
from seqloom.charts.quality import quality_against
from seqloom.comparison.curve import best_by_size
from seqloom.comparison.pictures import Details, calibration_chart, curve_chart, drawn, rows, shown_first
from seqloom.comparison.report import COLUMNS, NOTES, added, against, curve_table, seconds, size, visible
from seqloom.comparison.run import Comparison, RungResult

NEAR = 1.02  # a rung is nearly as good as the best within this factor


def report_page(comparison: Comparison, details: Details) -> Page:
    c, n = comparison, comparison.n_bytes
    page = Page(f"Language models compared on {c.corpus}")
    page.text(f"{n['train']:,} bytes to train, {n['valid']:,} to validate, {n['test']:,} to test ({c.split}); "
              f"content {c.fingerprint[:16]}.", kind="faint")
    if not c.results:
        return page.text("No rung was trained.")
    page.text(f"Best: {c.best.name} with {c.best.bits_per_byte:.3f} bits per byte. {_economy(c)}")
    if c.overlap > 0.01:
        page.text(f"Warning: {c.overlap:.1%} of the longer test lines also stand in the training part; memory looks "
                  "like skill.", kind="warning")
    _table(page, c)
    _charts(page, c)
    _passage(page, c, details)
    _calibration(page, details)
    _rest(page, c)
    return page


def _economy(c: Comparison) -> str:
    """The cheapest rungs that are nearly as good as the best."""
    near = [r for r in drawn(c.results) if r.bits_per_byte <= NEAR * c.best.bits_per_byte]
    small, quick = min(near, key=lambda r: r.disk), min(near, key=lambda r: r.train_seconds)
    if small.name == quick.name == c.best.name:
        return f"No smaller or quicker rung comes within {NEAR - 1:.0%} of it."
    return (f"Within {NEAR - 1:.0%} of it: the smallest is {small.name} ({size(small.disk)}), "
            f"the quickest {quick.name} ({seconds(quick.train_seconds)}).")


def _table(page: Page, c: Comparison) -> None:
    body = [[*(cell(r) for _, cell in COLUMNS), against(c, r)] for r in c.results]
    page.table([*(name for name, _ in COLUMNS), "against best"], body, best=c.results.index(c.best))
    for s in c.skipped:
        page.text(f"Skipped: {s.name}, {s.reason}.", kind="faint")
    page.text(NOTES, kind="faint")
    page.heading("What each rung adds")
    for sentence in added(c):
        page.text(sentence)


def _charts(page: Page, c: Comparison) -> None:
    its = rows(c)
    page.heading("The ladder")
    page.chart(ladder(its), "bits per byte of each rung with its interval; the table above has the numbers")
    left_out = [r for r in c.results if r not in drawn(c.results)]
    if left_out:
        page.text("Not drawn: " + ", ".join(f"{r.name} ({r.bits_per_byte:.3f})" for r in left_out)
                  + ", which only shows that the ruler is straight.", kind="faint")
    page.heading("Quality against training time")
    page.chart(quality_against(its, "seconds"), "bits per byte against seconds of training")
    page.heading("Quality against size")
    page.chart(quality_against(its, "disk"), "bits per byte against bytes on disk")
    if c.curve:
        page.heading("Learning curve")
        page.chart(curve_chart(c), "bits per byte against bytes of training text; the table below has the numbers")
        page.text("Each rung trained again, its tokenizer too, on the beginning of the training part and measured on "
                  f"the same test part. {overtaking(c)}", kind="faint")
        page.table(*curve_table(c))


def overtaking(c: Comparison) -> str:
    """Which rung is best with how much text."""
    leads = [(n, name) for n, name, _ in best_by_size(c.curve)]
    changes = [lead for i, lead in enumerate(leads) if i == 0 or lead[1] != leads[i - 1][1]]
    if len(changes) == 1:
        return f"{changes[0][1]} is the best with every amount."
    return "Best: " + ", ".join(f"{name} from {n:,} bytes on" for n, name in changes) + "."


def _passage(page: Page, c: Comparison, details: Details) -> None:
    if details.passage is None:
        return
    page.heading("Which rung predicts what")
    page.text(f"A passage of the test part (from byte {details.passage.start:,}), each token coloured by its cost for "
              "each of its bytes. Choose two rungs; point at a token to see what both paid for it.")
    page.raw(passage_html(details.passage.pieces, shown_first(c)), style=STYLE, script=SCRIPT)


def _calibration(page: Page, details: Details) -> None:
    if not details.calibrations:
        return
    page.heading("Calibration")
    page.chart(calibration_chart(details.calibrations), "how often forecasts of each probability came true")
    page.text("All tokens of the vocabulary at sampled positions, grouped by the probability that they were given, "
              "against how often they came; bars are 95 % intervals. On the dashed line a model is as sure as it may "
              "be; below it, things come less often than it says.", kind="faint")
    page.table(["rung", "misplaced probability", "by chance alone", "positions"],
               [[name, f"{k.error:.1%}", f"{k.chance:.1%}", f"{k.positions:,}"]
                for name, k in details.calibrations.items()])


def _rest(page: Page, c: Comparison) -> None:
    page.heading("Samples")
    for r in _with_samples(c):
        page.folded(r.name, visible(r.sample), opened=r.name == c.best.name)
    fallbacks = [f"{r.name}, order {k}: {note}" for r in c.results for k, note in r.fallbacks.items()]
    if fallbacks:
        page.heading("Discount fall-backs")
        page.listing(fallbacks)
    page.heading("Signatures")
    page.listing([r.signature for r in c.results])


def _with_samples(c: Comparison) -> list[RungResult]:
    return [r for r in c.results if r.sample]
