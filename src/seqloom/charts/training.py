"""How training went: losses, learning rate and gradient norm of one or several runs against steps,
tokens or seconds.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from seqloom.charts import theme
from seqloom.charts.scales import log_domain, spaced_ticks

Points = Sequence[tuple[float, float]]  # (how far, value)
WEIGHTS = {"training": 0.8, "held-out": 2.6}  # width of a line
HEIGHT, SMALL_PANEL_HEIGHT = theme.HEIGHT - 40, 110  # pixels of the panels
MAX_POINTS = 4000  # points of one chart
DOTTED = 60  # held-out points of a run, up to which each has its dot
AXES = {"steps": "steps", "tokens": "tokens read", "seconds": "seconds"}


class Curves(NamedTuple):
    """What is drawn of a run; lists may be empty."""

    name: str
    training: Points
    held_out: Points
    rates: Points
    norms: Points
    criterion_values: Points = ()  # held-out values of something else than the loss, such as F1

    @property
    def best(self) -> tuple[float, float] | None:
        """Return where the held-out loss, or without one the training loss, is least, and that loss."""
        points = [p for p in (self.held_out or self.training) if math.isfinite(p[1])]
        return min(points, key=lambda p: p[1]) if points else None


def losses(runs: Sequence[Curves], *, by: str, unit: str) -> Any:
    """Draw a thin line for training and a heavy one for held-out text; the least loss is marked
    and named in the legend.
    """
    import altair as alt

    rows: list[dict[str, Any]] = [
        {"run": run.name, "kind": kind, "at": x, "loss": y}
        for run in runs
        for kind, points in zip(WEIGHTS, (run.training, run.held_out))
        for x, y in thinned(points, MAX_POINTS // (2 * len(runs)))
        if y > 0
    ]
    kinds = [kind for kind in WEIGHTS if any(row["kind"] == kind for row in rows)]
    y = _logarithmic(alt, "loss", [row["loss"] for row in rows], unit, HEIGHT)
    base = alt.Chart(theme.table(rows)).encode(x=across(alt, by), y=y, color=_colour(alt, runs, by))
    legend = len(kinds) > 1 and alt.Legend(
        title=None,
        symbolType="stroke",
        symbolStrokeColor=theme.INK,
        symbolSize=200,
        columns=1,
        orient="top-right",
    )
    width = alt.StrokeWidth(
        "kind:N",
        scale=alt.Scale(domain=kinds, range=[WEIGHTS[k] for k in kinds]),
        legend=legend or None,
    )
    lines = [
        base.mark_line(strokeWidth=WEIGHTS[kind])  # of lines, the encoding is for the legend only
        .encode(strokeWidth=width)
        .properties(data=theme.table([row for row in rows if row["kind"] == kind]))
        for kind in kinds
    ]
    few = {
        (run.name, kind)
        for run in runs
        for kind, points in zip(WEIGHTS, (run.training, run.held_out))
        if len(points) <= (DOTTED if kind == "held-out" else 1)
    }
    dotted = [row for row in rows if (row["run"], row["kind"]) in few]
    tips = [
        alt.Tooltip("run:N"),
        alt.Tooltip("kind:N", title="text"),
        alt.Tooltip("at:Q", title=AXES[by], format=","),
        alt.Tooltip("loss:Q", title=unit, format=".4~f"),
    ]
    dots = (
        base.mark_point(size=22, opacity=1)
        .encode(tooltip=tips)
        .properties(data=theme.table(dotted))
    )
    lowest = [{"run": run.name, "at": run.best[0], "loss": run.best[1]} for run in runs if run.best]
    least = base.mark_point(
        size=90, shape="diamond", opacity=1, stroke="white", strokeWidth=1
    ).properties(data=theme.table(lowest))
    return alt.layer(*lines, dots, least).properties(height=HEIGHT)


def rates(runs: Sequence[Curves], *, by: str) -> Any:
    return _small(runs, [run.rates for run in runs], by=by, title="learning rate", log=False)


def norms(runs: Sequence[Curves], *, by: str) -> Any:
    """Draw gradient norms before clipping, on a logarithmic axis, since one looks for explosions."""
    return _small(runs, [run.norms for run in runs], by=by, title="gradient norm", log=True)


def criterion_curves(runs: Sequence[Curves], *, by: str, criterion: str) -> Any:
    return _small(
        runs,
        [run.criterion_values for run in runs],
        by=by,
        title=f"held-out {criterion}",
        log=False,
        zero=False,
    )


def panels(charts: Mapping[str, Any]) -> Any:
    """Join all charts into one picture, one below the other; the legend is above the first."""
    import altair as alt

    return alt.vconcat(
        *(chart.properties(width=theme.WIDTH) for chart in charts.values()), spacing=18
    )


def _small(
    runs: Sequence[Curves],
    series: Sequence[Points],
    *,
    by: str,
    title: str,
    log: bool,
    zero: bool = True,
) -> Any:
    import altair as alt

    rows: list[dict[str, Any]] = [
        {"run": run.name, "at": x, "value": y}
        for run, points in zip(runs, series)
        for x, y in thinned(points, MAX_POINTS // len(runs), peaks=True)
        if y > 0 or not log
    ]
    y = alt.Y(
        "value:Q", title=title, scale=alt.Scale(zero=zero), axis=alt.Axis(tickCount=4, format="~g")
    )
    if log:
        y = _logarithmic(alt, "value", [row["value"] for row in rows], title, SMALL_PANEL_HEIGHT)
    tips = [
        alt.Tooltip("run:N"),
        alt.Tooltip("at:Q", title=AXES[by], format=","),
        alt.Tooltip("value:Q", title=title, format=".4~g"),
    ]
    alone = [points for points in series if len(points) == 1]
    return (
        alt.Chart(theme.table(rows))
        .mark_line(strokeWidth=1.2, point=bool(alone))
        .encode(x=across(alt, by), y=y, color=_colour(alt, runs, by), tooltip=tips)
        .properties(height=SMALL_PANEL_HEIGHT)
    )


def _logarithmic(alt: Any, field: str, values: Sequence[float], title: str, height: int) -> Any:
    domain = log_domain(values or [1.0], 0.04)
    return alt.Y(
        f"{field}:Q",
        title=title,
        scale=alt.Scale(type="log", domain=domain, nice=False),
        axis=alt.Axis(values=spaced_ticks(domain, height), format="~g"),
    )


def across(alt: Any, by: str, field: str = "at") -> Any:
    """Return the horizontal axis of steps, tokens or seconds."""
    return alt.X(
        f"{field}:Q",
        title=AXES[by],
        scale=alt.Scale(zero=True, nice=False),
        axis=alt.Axis(
            labelExpr="format(datum.value, datum.value < 10000 ? ',~r' : '.3~s')", tickCount=7
        ),
    )


def _colour(alt: Any, runs: Sequence[Curves], by: str) -> Any:
    """Give each run a hue; the legend, in one column where it is narrow, says where each was best."""
    colours = theme.group_colours([run.name for run in runs])
    labels = {run.name: f"{run.name}: {_best_point(run, by)}" for run in runs}
    pairs = ", ".join(f"{_quoted(name)}: {_quoted(text)}" for name, text in labels.items())
    legend = alt.Legend(
        title=None,
        symbolType="circle",
        symbolOpacity=1,
        symbolStrokeWidth=0,
        labelLimit=alt.ExprRef(expr="max(width, 200)"),
        labelExpr=f"({{{pairs}}})[datum.label]",
        columns=alt.ExprRef(expr=f"width < {theme.MIDDLE} ? 1 : {2 if len(runs) > 1 else 1}"),
    )
    return alt.Color(
        "run:N", scale=alt.Scale(domain=list(colours), range=list(colours.values())), legend=legend
    )


def _best_point(run: Curves, by: str) -> str:
    if run.best is None:
        return "no loss yet"
    at, loss = run.best
    position = {
        "steps": f"step {at:,.0f}",
        "tokens": f"{at:,.0f} tokens",
        "seconds": f"{at:,.0f} s",
    }[by]
    return f"{loss:.3f} {'held out' if run.held_out else 'in training'} at {position}"


def _quoted(text: str) -> str:
    """Return a string literal for Vega expressions."""
    return json.dumps(text, ensure_ascii=False)


def thinned(points: Points, most: int, *, peaks: bool = False) -> list[tuple[float, float]]:
    """Return at most `most` finite points, each the mean, or the largest, of a stretch of
    neighbours.

    >>> thinned([(1, 1.0), (2, 3.0), (3, float("nan")), (4, 5.0), (5, 7.0)], 2)
    [(1.5, 2.0), (4.5, 6.0)]
    """
    finite = [(float(x), float(y)) for x, y in points if math.isfinite(y)]
    if len(finite) <= most:
        return finite
    size = -(-len(finite) // max(most, 1))
    parts = [finite[i : i + size] for i in range(0, len(finite), size)]
    if peaks:
        return [max(part, key=lambda p: p[1]) for part in parts]
    return [
        (sum(x for x, _ in part) / len(part), sum(y for _, y in part) / len(part)) for part in parts
    ]
