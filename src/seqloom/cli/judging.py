"""`seqloom evaluate` for classifiers and taggers: the numbers, the tables behind them, and pictures of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from seqloom.cli.options import emit
from seqloom.cli.sources import read_for

if TYPE_CHECKING:
    from seqloom.metrics.result import Result


def judge(model: Any, paths: tuple[str, ...], options: dict[str, Any], chart: str | None, as_json: bool) -> None:
    result = model.evaluate(read_for(model.task, paths, options))
    if chart is not None:
        from seqloom.inspect import errors

        errors(result).save(chart)
    show_result(result, as_json)


def show_result(result: Result, as_json: bool) -> None:
    if as_json:
        emit(result.to_dict())
        return
    from seqloom.metrics.tables import report

    behind = report(result)
    click.echo(f"{result}\n\n{behind}" if behind else str(result))
