"""What was measured, as charts: errors of a classifier or tagger, a description of a text, and how
training went (losses, learning rate and gradient norm from the logs of runs).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqloom.charts.calibration import reliability_chart
from seqloom.charts.comparison import SlicePoint, points_with_intervals
from seqloom.charts.heat import confusion_chart
from seqloom.charts.page import Charts, Page, Sheet, with_headings
from seqloom.charts.training import Curves, criterion_curves, losses, norms, panels, rates
from seqloom.charts.vocabulary import Bar, Covered, bars, coverage, lengths
from seqloom.errors import ConfigError, ModelError, suggest

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


# ---- runs

Lines = list[dict[str, Any]]
KEYS = {"steps": "step", "tokens": "tokens", "seconds": "seconds"}


def training_curves(runs: str | Path | Sequence[str | Path], *, by: str = "steps") -> Sheet:
    """Draw training curves of networks' saved models, or of run directories, against steps, tokens
    or seconds.
    """
    if by not in KEYS:
        raise ConfigError(f"by must be one of {', '.join(KEYS)}; got {by!r}{suggest(by, KEYS)}")
    logs = {
        str(run): _read(str(run)) for run in ([runs] if isinstance(runs, (str, Path)) else runs)
    }
    if not logs:
        raise ConfigError("no run given; nothing to draw")
    in_bits = all("bits_per_byte" in line for lines in logs.values() for line in lines)
    curves = [_curves(name, lines, by, in_bits) for name, lines in logs.items()]
    units = {_unit(line) for lines in logs.values() for line in lines if "loss" in line}
    unit = "bits per byte" if in_bits else " or ".join(sorted(units))
    summary = [
        f"{run.name}: {lines[-1]['step']:,} steps, least {'held-out' if run.held_out else 'training'} loss "
        f"{run.best[1]:.4f} {unit}"
        for run, lines in zip(curves, logs.values())
        if run.best is not None
    ]
    criteria = sorted(
        {line["criterion"] for lines in logs.values() for line in lines if "criterion" in line}
    )
    criterion = " or ".join(criteria)  # the criterion of runs, where it is not the loss
    return Sheet(
        "Training of " + ", ".join(logs),
        lambda page: {
            "Loss": losses(curves, by=by, unit=unit),
            **(
                {f"Held-out {criterion}": criterion_curves(curves, by=by, criterion=criterion)}
                if criterion
                else {}
            ),
            "Learning rate": rates(curves, by=by),
            "Gradient norm": norms(curves, by=by),
        },
        [_numbers(run, lines, by, unit) for run, lines in zip(curves, logs.values())],
        summary,
        panels,
    )


def _unit(line: dict[str, Any]) -> str:
    """Return the unit of a line's loss: its own, or nats per what the run counts.

    >>> _unit({"loss": 0.7, "words_per_s": 355, "words": 385})
    'nats per word'
    """
    rates = (key for key in line if key.endswith("s_per_s"))
    return line.get("unit") or f"nats per {next(rates, 'tokens_per_s').removesuffix('s_per_s')}"


def _read(name: str) -> Lines:
    """Read the log of that run; also if the model is not saved yet and NAME.run is meant."""
    from seqloom.training.checkpoint import read_log

    if not Path(name).exists() and Path(f"{name}.run").is_dir():
        name = f"{name}.run"
    if not Path(name).exists():
        raise ModelError(
            f"{name}: no such directory; give a network's saved model, or its OUT.run while it trains"
        )
    lines = [line for line in read_log(name) if "loss" in line or "valid" in line]
    if not lines:
        raise ModelError(f"{name}: nothing has been logged yet; wait for the first steps")
    return lines


def _curves(name: str, lines: Lines, by: str, in_bits: bool) -> Curves:
    key = KEYS[by]
    if not all(key in line for line in lines):
        raise ConfigError(f"{name}: its log has no {by}; plot it by steps")

    def points(having: str, value: str) -> list[tuple[float, float]]:
        pairs = [
            (float(line[key]), float(line[value]))
            for line in lines
            if having in line and value in line
        ]
        return [p for p in pairs if math.isfinite(p[1])]

    held_out = points("valid", "bits_per_byte" if in_bits else "valid")
    other = any("criterion" in line for line in lines)  # its criterion is not the loss
    return Curves(
        name,
        points("loss", "bits_per_byte" if in_bits else "loss"),
        [] if other else held_out,
        points("lr", "lr"),
        points("norm", "norm"),
        held_out if other else [],
    )


def _numbers(run: Curves, lines: Lines, by: str, unit: str) -> dict[str, Any]:
    best = None if run.best is None else {by: run.best[0], "loss": run.best[1]}
    return {
        "run": run.name,
        "unit": unit.replace(" ", "_"),
        "best": best,
        "training": [line for line in lines if "loss" in line],
        "held_out": [line for line in lines if "valid" in line],
    }
