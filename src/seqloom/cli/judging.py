"""`seqloom evaluate` for classifiers and taggers: the numbers, the tables behind them, and pictures of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from seqloom.cli.options import emit
from seqloom.cli.sheet import save_sheet
from seqloom.cli.sources import read_for
from seqloom.errors import ConfigError

if TYPE_CHECKING:
    from seqloom.metrics.result import Result


def judge(model: Any, paths: tuple[str, ...], options: dict[str, Any], chart: str | None, as_json: bool) -> None:
    result = model.evaluate(read_for(model.task, paths, options))
    if chart is not None:
        save_sheet(_charts(result.details), chart, f"{model.label()}: errors")
    show_result(result, as_json)


def show_result(result: Result, as_json: bool) -> None:
    if as_json:
        emit(result.to_dict())
        return
    from seqloom.metrics.tables import report

    behind = report(result)
    click.echo(f"{result}\n\n{behind}" if behind else str(result))


def _charts(details: Mapping[str, Any]) -> dict[str, Any]:
    """The confusion matrix and, where the model gave probabilities, whether they were right."""
    from seqloom.charts.confidence import reliability_chart
    from seqloom.charts.confusion import confusion_chart

    charts = {}
    if confusion := details.get("confusion"):
        charts["Confusion"] = confusion_chart(confusion["classes"], confusion["counts"])
    if bins := details.get("reliability"):
        charts["Calibration"] = reliability_chart(bins)
    if not charts:
        raise ConfigError("there are too many classes for a confusion matrix; leave out --chart")
    return charts
