"""`seqloom evaluate` for classifiers and taggers: the numbers, the tables behind them, and the confusion matrix drawn."""

from __future__ import annotations

from typing import Any

import click

from seqloom.cli.options import emit
from seqloom.cli.sources import read_for


def judge(model: Any, paths: tuple[str, ...], options: dict[str, Any], chart: str | None, as_json: bool) -> None:
    result = model.evaluate(read_for(model.task, paths, options))
    if chart is not None:
        from seqloom.charts.confusion import confusion_chart
        from seqloom.charts.files import save

        confusion = result.details["confusion"]
        save(confusion_chart(confusion["classes"], confusion["counts"]), chart, title=f"{model.label()}: confusion")
    if as_json:
        emit(result.to_dict())
        return
    from seqloom.metrics.tables import report

    click.echo(f"{result}\n\n{report(result)}")
