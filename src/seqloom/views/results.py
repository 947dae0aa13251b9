"""What was measured, as charts: errors of a classifier or tagger, and a description of a text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqloom.charts.calibration import reliability_chart
from seqloom.charts.comparison import SlicePoint, points_with_intervals
from seqloom.charts.heat import confusion_chart
from seqloom.charts.page import Charts, Page, Sheet, with_headings
from seqloom.charts.vocabulary import Bar, Covered, bars, coverage, lengths
from seqloom.errors import ConfigError

if TYPE_CHECKING:
    from seqloom.data.describe import Description
    from seqloom.metrics.result import Result


MOST_ROWS = 40  # slices or groups of a chart


def errors(result: Result) -> Sheet:
    """Show the confusion matrix and, if the model gave probabilities, whether they were right;
    slices and groups, if asked.
    """
    drawn = ("confusion", "reliability", "slices", "groups")
    data = {name: detail for name in drawn if (detail := result.details.get(name))}
    if not data:
        raise ConfigError(
            "nothing to draw: the result has no confusion matrix (too many classes, or another task)"
        )

    def draw(page: bool) -> dict[str, Any]:
        charts = {}
        if confusion := data.get("confusion"):
            charts["Confusion"] = confusion_chart(confusion["classes"], confusion["counts"])
        if bins := data.get("reliability"):
            charts["Calibration"] = reliability_chart(bins)
        if rows := data.get("slices"):
            charts["Slices"] = _slices(result, rows)
        if groups := data.get("groups"):
            points = [_point(row["group"], "", row, "accuracy", row["size"]) for row in groups]
            charts["Groups"] = points_with_intervals(
                points[:MOST_ROWS], "accuracy", _overall(result)[1]
            )
        return charts

    return Sheet(f"{result.signature.model}: errors", draw, data)


def _overall(result: Result) -> tuple[str, float]:
    """Return the metric that slices are ordered by, and its value for all the data."""
    name = next(name for name in ("span_f1", "accuracy", "exact_match") if name in result.metrics)
    return name, float(result.metrics[name])  # type: ignore[arg-type]


def _slices(result: Result, rows: list[dict[str, Any]]) -> Any:
    """Draw the worst slices; one without the metric (a tag has no F1 of spans) is drawn by its
    accuracy.
    """
    metric, overall = _overall(result)
    points = []
    for row in rows[:MOST_ROWS]:
        key = metric if row.get(metric) is not None else "accuracy"
        if row.get(key) is not None:
            points.append(_point(f"{row['by']}: {row['slice']}", row["by"], row, key, row["size"]))
    return points_with_intervals(points, metric.replace("_", " "), overall)


def _point(name: str, group: str, row: dict[str, Any], key: str, size: int) -> SlicePoint:
    low, high = row.get(f"{key}_interval", (row[key], row[key]))
    return SlicePoint(name, group, row[key], low, high, size)


def robustness(result: Result) -> Sheet:
    """Show what each perturbation of `seqloom.robustness` costs, with its interval."""
    rows = result.details.get("robustness")
    if not rows:
        raise ConfigError("nothing to draw: this is not a result of seqloom.robustness")
    metric = next(iter(result.metrics)).replace("_", " ")
    size = next(int(value) for value in result.metrics.values() if isinstance(value, int))
    points = [_point(row["perturbation"], "", row, "difference", size) for row in rows]
    return Sheet(
        f"{result.signature.model}: robustness",
        lambda page: {
            "Robustness": points_with_intervals(
                points, f"difference in {metric} to the data as it is", 0.0
            )
        },
        rows,
    )


def description(result: Description) -> Sheet:
    """Draw charts of `seqloom.data.describe.describe`: coverage, unknown tokens and lengths by
    tokenizer.
    """

    def page(sheet: Sheet) -> Page:
        document = with_headings(sheet)
        for table in result.tables():
            document.heading(table.title.capitalize()).table(table.rows[0], table.rows[1:])
        return document

    return Sheet(
        f"A description of {result.name}",
        lambda page: _described(result),
        result.to_dict(),
        result.summary(),
        _two_in_a_row,
        page,
    )


def _described(statistics: Description) -> dict[str, Any]:
    """Draw the charts, leaving out those without data."""
    points = [Covered("to learn from", c.types, c.train) for c in statistics.coverage]
    points += [
        Covered("held-out", c.types, c.held_out)
        for c in statistics.coverage
        if c.held_out is not None
    ]
    drawn = {"What the most frequent words cover": coverage(points)}
    names = [f"{row.kind} {row.vocab_size:,}" for row in statistics.rows]
    if statistics.rows:
        drawn["Unknown tokens of held-out text"] = bars(
            [
                Bar(name, row.kind, row.oov_rate, f"{row.oov_rate:.2%}")
                for name, row in zip(names, statistics.rows)
            ],
            "share of the tokens that are <unk>",
            form=".2~%",
        )
        drawn["How long tokens are"] = bars(
            [
                Bar(name, row.kind, row.bytes_per_token, f"{row.bytes_per_token:.2f}")
                for name, row in zip(names, statistics.rows)
            ],
            "bytes a token",
            form="~g",
        )
    for one in statistics.lengths:
        drawn[f"Lengths of {one.name}"] = lengths(one.histogram, one.name.rpartition(" ")[2])
    return drawn


def _two_in_a_row(charts: Charts) -> Any:
    import altair as alt

    sized = [chart.properties(width=430) for chart in charts.values()]
    rows = [
        alt.hconcat(*sized[i : i + 2], spacing=40).resolve_scale(color="independent")
        for i in range(0, len(sized), 2)
    ]
    return alt.vconcat(*rows, spacing=30)
