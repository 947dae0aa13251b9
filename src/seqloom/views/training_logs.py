"""How training went, from the logs of runs: curves of one or several, and what happened inside."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from seqloom.charts.monitoring import gates, norms_by_layer, reaches, shares_over
from seqloom.charts.page import Charts, Sheet
from seqloom.charts.training import Curves, criterion_curves, losses, norms, panels, rates
from seqloom.errors import ConfigError, suggest
from seqloom.views.catalogue import view
from seqloom.views.configs import RunOptions
from seqloom.views.run_logs import Lines, RunLog, read_run, unit_of

KEYS = {"steps": "step", "tokens": "tokens", "seconds": "seconds"}
MANY = 3  # runs of which what is inside the network is still drawn
GATES = 40  # bars of a picture
FAR = 0.01  # of the gradient one step back: what has fallen below it reaches no further


# ---- curves


def training_curves(runs: str | Path | Sequence[str | Path], *, by: str = "steps") -> Sheet:
    """Draw training curves of networks' saved models, or of run directories, against steps, tokens
    or seconds.
    """
    logs = _read_all(runs, by)
    curves, unit, criterion = _drawn(logs, by)
    return Sheet(
        "Training of " + ", ".join(log.name for log in logs),
        lambda page: _curve_charts(curves, by, unit, criterion),
        [_numbers(run, log.lines, by, unit) for run, log in zip(curves, logs)],
        _least(curves, logs, unit),
        panels,
    )


def _read_all(runs: Any, by: str) -> list[RunLog]:
    if by not in KEYS:
        raise ConfigError(
            f"by must be one of {', '.join(KEYS)}; got {by!r}{suggest(by, KEYS)}", ["by"]
        )
    several = runs if isinstance(runs, (list, tuple)) else [runs]
    logs: dict[str, RunLog] = {}
    for each in several:
        log = read_run(each)
        if not isinstance(
            each, (str, Path)
        ):  # models may be called alike, directories are the same
            same = sum(name.partition(" (")[0] == log.name for name in logs)
            log = replace(log, name=f"{log.name} ({same + 1})") if same else log
        logs[log.name] = log
    if not logs:
        raise ConfigError("no run given; nothing to draw")
    return list(logs.values())


def _drawn(logs: list[RunLog], by: str) -> tuple[list[Curves], str, str]:
    """Return the curves of the runs, the unit of their loss, and their criterion if it is another."""
    measured = [[line for line in log.lines if "diverged" not in line] for log in logs]
    in_bits = all("bits_per_byte" in line for lines in measured for line in lines)
    curves = [_curves(log.name, lines, by, in_bits) for log, lines in zip(logs, measured)]
    units = {unit_of(line) for log in logs for line in log.reports}
    criteria = sorted({log.criterion for log in logs if log.criterion is not None})
    return curves, "bits per byte" if in_bits else " or ".join(sorted(units)), " or ".join(criteria)


def _curve_charts(curves: list[Curves], by: str, unit: str, criterion: str) -> dict[str, Any]:
    charts = {"Loss": losses(curves, by=by, unit=unit)}
    if criterion:
        charts[f"Held-out {criterion}"] = criterion_curves(curves, by=by, criterion=criterion)
    return charts | {"Learning rate": rates(curves, by=by), "Gradient norm": norms(curves, by=by)}


def _least(curves: list[Curves], logs: list[RunLog], unit: str) -> list[str]:
    """Say what each run came to, by what it was judged by: the loss, or a criterion of its task."""
    said = []
    for run, log in zip(curves, logs):
        best = log.best()
        if log.criterion is not None and best is not None:
            came = f"best held-out {log.criterion} {best['valid']:.4f} at step {best['step']:,}"
        elif run.best is not None:
            kind = "held-out" if run.held_out else "training"
            came = f"least {kind} loss {run.best[1]:.4f} {unit}"
        else:
            continue
        said.append(f"{run.name}: {log.steps:,} steps, {came}")
    return said


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


# ---- the view


@view
def run(runs: Any, options: RunOptions) -> Sheet:
    """Show what the logs of runs hold: losses, gradients by layer, clipped steps, gates, and how far
    gradients reach.
    """
    logs = _read_all(runs, options.by)
    curves, unit, criterion = _drawn(logs, options.by)

    def draw(page: bool) -> Charts:
        return _curve_charts(curves, options.by, unit, criterion) | _inside(logs, options.by)

    rows = [{"run": log.name, **line} for log in logs for line in log.lines]
    summary = [f"{log.name}: {log.state()}." for log in logs]
    summary += [remark for log in logs if (remark := _missing(log))]
    return Sheet(
        "Training of " + ", ".join(log.name for log in logs),
        draw,
        {"rows": rows, "runs": [_row(log) for log in logs], "unit": unit},
        summary,
        _arranged,
        lines=_table(logs, unit),
    )


def _inside(logs: list[RunLog], by: str) -> dict[str, Any]:
    """Draw what happened inside the networks, as far as it was logged."""
    key, charts, shown = KEYS[by], {}, logs[:MANY]

    def titled(title: str, log: RunLog) -> str:
        return title if len(logs) == 1 else f"{title}: {log.name}"

    shares = {
        log.name: [(line[key], line["clipped"]) for line in log.reports if "clipped" in line]
        for log in logs
    }
    if any(share for points in shares.values() for _, share in points):
        charts["Clipped steps"] = shares_over(shares, by=by, title="steps clipped")
    for log in shown:
        layers = log.layers(key)
        if any(y > 0 for points in layers.values() for _, y in points):
            charts[titled("Gradient norm by layer", log)] = norms_by_layer(layers, by=by)
    for log in shown:
        if bars := list(log.gates().values()):
            charts[titled("Saturated gates at the end", log)] = gates(bars[:GATES])
    curves = {
        f"{log.name}: {stack}" if len(logs) > 1 else stack: points
        for log in shown
        for stack, points in log.reach().items()
    }
    if curves:
        charts["How far back gradients reach"] = reaches(curves, FAR)
    return charts


def _arranged(charts: Charts) -> Any:
    """Put the curves, which share their colours, above what has colours of its own."""
    import altair as alt

    from seqloom.charts import theme

    own = ("Clipped", "Gradient norm by", "Saturated", "How far")
    together = {h: chart for h, chart in charts.items() if not h.startswith(own)}
    others = [
        chart.properties(width=theme.WIDTH)
        for heading, chart in charts.items()
        if heading not in together
    ]
    return alt.vconcat(panels(together), *others, spacing=24).resolve_scale(color="independent")


def _missing(log: RunLog) -> str:
    if log.layers():
        return ""
    return (
        f"{log.name} was trained before gradients by layer, clipped steps and gates were logged; "
        "fit it again to see them."
    )


def _row(log: RunLog) -> dict[str, Any]:
    best, last = log.best(), log.reports[-1] if log.reports else {}
    return {
        "run": log.name,
        "model": log.model,
        "state": log.state(),
        "steps": log.steps,
        "epochs": log.epochs,
        "seconds": log.lines[-1].get("seconds"),
        "loss": last.get("loss"),
        "valid": None if best is None else best["valid"],
        "best_step": None if best is None else best["step"],
        "criterion": log.criterion or log.unit,
        "clipped": log.clipped,
        "largest_norm": max(
            (line["largest_norm"] for line in log.reports if "largest_norm" in line), default=None
        ),
        "norms": {name: points[-1][1] for name, points in log.layers().items()},
        "gates": {name: bar._asdict() for name, bar in log.gates().items()},
        "reach": {name: dict(points) for name, points in log.reach().items()},
    }


def _table(logs: list[RunLog], unit: str) -> list[str]:
    header = [
        "run",
        "model",
        "steps",
        "passes",
        "minutes",
        "loss",
        "best held-out",
        "at",
        "clipped",
    ]
    rows = []
    for log in logs:
        row = _row(log)
        rows.append(
            [
                log.name,
                log.model or "-",
                f"{row['steps']:,}",
                _shown(row["epochs"], ".2f"),
                _shown(None if row["seconds"] is None else row["seconds"] / 60, ".2f"),
                _shown(row["loss"], ".4f"),
                _shown(row["valid"], ".4f"),
                _shown(row["best_step"], ","),
                _shown(row["clipped"], ".0%"),
            ]
        )
    table = _aligned([header, *rows])
    for log in logs:
        table += _inner_lines(log, len(logs) > 1)
    return table


def _inner_lines(log: RunLog, named: bool) -> list[str]:
    of = f" of {log.name}" if named else ""
    lines = []
    if layers := log.layers():
        rows = [["gradient norm" + of, "first", "median", "last"]]
        for name, points in layers.items():
            values = [value for _, value in points]
            middle = sorted(values)[len(values) // 2]
            rows.append([name, *(f"{v:.3g}" for v in (values[0], middle, values[-1]))])
        lines += ["", *_aligned(rows)]
    if bars := log.gates():
        rows = [["gates at the end" + of, "closed or at an end", "open"]]
        rows += [[bar.name, f"{bar.low:.0%}", f"{bar.high:.0%}"] for bar in bars.values()]
        lines += ["", *_aligned(rows)]
    for stack, points in log.reach().items():
        rows = [[f"gradient of {stack}{of}", *(f"{d} back" for d, _ in points)]]
        rows += [["of that 1 back", *(f"{share:.3g}" for _, share in points)]]
        lines += ["", *_aligned(rows)]
    return lines


def _shown(value: Any, form: str) -> str:
    return "-" if value is None else format(value, form)


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows)]
    return [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    ]
