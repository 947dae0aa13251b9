"""Forecasters: series of numbers in, what comes next out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from seqloom.config import MAX_INTEGER, Config, option
from seqloom.errors import ConfigError, quoted
from seqloom.tasks.reading import strict_option
from seqloom.tasks.task import Command, EvaluationOptions, Outcome, Task, Verb, check_chart, shown

if TYPE_CHECKING:
    from seqloom.contracts import Forecaster
    from seqloom.data.forecasting import Series


@dataclass(frozen=True, kw_only=True)
class SeriesReading(Config):
    form: Literal["auto", "csv", "tsv", "jsonl", "parquet"] = option(
        "auto", "Format of the data: csv, tsv, jsonl, parquet; auto: by name and content."
    )
    time_column: str | None = option(
        None, "The column with the times  [default: by its name or its values].", metavar="NAME"
    )
    value_columns: tuple[str, ...] = option(
        (), "The columns to forecast  [default: all others with numbers].", metavar="NAME,.."
    )
    key_column: str | None = option(
        None,
        "The column that tells several series apart; a fitted model remembers it.",
        metavar="NAME",
    )
    known_columns: tuple[str, ...] = option(
        (),
        "Columns that are known in advance, such as holidays; rows after the last "
        "value hold those of the steps to forecast.",
        metavar="NAME,..",
    )
    step: str | None = option(
        None,
        "Step of the times, such as 15min, 1h, 1d, 1mo  [default: the commonest].",
        metavar="STEP",
    )
    frequency: str | None = option(
        None,
        "How far apart the rows of a series without times are, such as 1h; its season follows.",
        metavar="STEP",
    )
    time_zone: str | None = option(
        None,
        "Zone of times without an offset, such as Europe/Berlin  [default: UTC].",
        metavar="NAME",
    )
    encoding: str = option("utf-8", "Encoding of the text files.")
    strict: bool = strict_option()


@dataclass(frozen=True, kw_only=True)
class SeriesEvaluation(EvaluationOptions):
    """Options of `evaluate`."""

    chart: str | None = option(
        None, "Draw the last forecast against what came: .png, .svg, .html.", metavar="FILE"
    )
    horizon: int | None = option(
        None,
        "Number of steps to forecast  [default: as many as the model was fitted for].",
        minimum=1,
        maximum=10_000,
    )
    since: str | None = option(
        None,
        "Forecast from this time on; what comes before is history  [default: "
        "where the training data ended].",
        metavar="TIME",
    )


@dataclass(frozen=True, kw_only=True)
class SeriesComparing(Config):
    """How forecasters are compared: the words are those of `fit` and `evaluate`."""

    horizon: int | None = option(
        None,
        "Number of steps to forecast  [default: a season, at most 200 and a tenth of the "
        "training data].",
        minimum=1,
        maximum=10_000,
    )
    season: int | None = option(
        None,
        "Steps of the cycle that repeats  [default: by the data: a day of hours, a week of days, "
        "a year of months].",
        minimum=1,
        maximum=1_000_000,
    )
    seasons: tuple[int, ...] = option(
        (),
        "Several cycles, such as 48,336 for days and weeks of half hours.",
        minimum=2,
        maximum=1_000_000,
        metavar="N,..",
    )
    since: str | int | None = option(
        None,
        "Test forecasts from this time on; what comes before is for training and validation  [default: "
        "the last 20 % of the time].",
        minimum=0,
        maximum=MAX_INTEGER,
        metavar="TIME",
    )


@dataclass(frozen=True, kw_only=True)
class Forecasts(Config):
    """Options of a request to forecast."""

    horizon: int | None = option(
        None,
        "Number of steps to forecast  [default: as many as the model was fitted for].",
        minimum=1,
        maximum=10_000,
    )
    since: str | None = option(
        None, "Forecast from this time on, as if nothing after it were known.", metavar="TIME"
    )


@dataclass(frozen=True, kw_only=True)
class Marks(Config):
    """Options of a request to find anomalies."""

    rate: float = option(
        0.001, "Share of usual steps that may be marked.", minimum=1e-4, maximum=0.5
    )
    top: int | None = option(
        None, "Only the K marks with the highest scores.", minimum=1, maximum=MAX_INTEGER
    )
    since: str | None = option(
        None, "Look from this time on; what comes before is history.", metavar="TIME"
    )


def _series(model: Forecaster, value: Any, at: int) -> Any:
    if not isinstance(value, (list, dict)):
        raise ConfigError(
            f"inputs[{at}] must be a list of numbers or an object of columns; got {quoted(value)}",
            ["inputs"],
        )
    if isinstance(value, list) and model.step.unit != "row":
        columns = ", ".join(map(quoted, ("time", *model.columns)))
        raise ConfigError(
            f"inputs[{at}] has no times, and the model learned from steps of {model.step}; give an "
            f"object of columns, one of them times: {columns}",
            ["inputs"],
        )
    return value


def _forecast_inputs(
    model: Forecaster, inputs: list[Any], options: Forecasts
) -> Iterator[dict[str, Any]]:
    for at, value in enumerate(inputs):
        found = model.forecast(_series(model, value, at), options.horizon, since=options.since)
        yield {"rows": list(found.rows())}


def _find_anomalies(
    model: Forecaster, inputs: list[Any], options: Marks
) -> Iterator[dict[str, Any]]:
    for at, value in enumerate(inputs):
        series = _series(model, value, at)
        yield model.anomalies(series, **options.all_options()).to_dict()


class Forecasting(Task):
    name, phrase = "forecaster", "a forecaster"
    data_help = (
        "series: .csv, .tsv, .jsonl or .parquet with a column of times, or numbers alone; none, or -, "
        "is standard input."
    )
    valid_help = (
        "Data that follows: intervals are learned from the errors on it; networks choose their "
        "best weights by it."
    )
    reading, evaluation, comparing = SeriesReading, SeriesEvaluation, SeriesComparing
    ladder = "seqloom.comparison.forecasting:ForecastingLadder"
    commands: ClassVar = {
        "forecast": Command(
            "seqloom.cli.forecast:command", "What comes next in a series, with intervals."
        ),
        "anomalies": Command(
            "seqloom.cli.anomalies:command", "Steps of a series that are not as expected."
        ),
    }

    def verbs(self) -> dict[str, Verb]:
        series = "a series: a list of numbers, or an object of columns, times among them"
        return {
            "forecast": Verb(
                _forecast_inputs,
                "What comes next in each series, with intervals.",
                series,
                Forecasts,
                ("horizon", "since"),
                numbers=True,
            ),
            "anomalies": Verb(
                _find_anomalies,
                "Steps of each series that are not as expected.",
                series,
                Marks,
                ("rate", "top", "since"),
                numbers=True,
            ),
        }

    def read(
        self, paths: tuple[str, ...], reading: SeriesReading, model: Forecaster | None = None
    ) -> Series:
        """Read the series in files; `model`: the one that will use them, and may have learnt which
        column tells series apart.
        """
        from seqloom.data.forecasting import read_series

        return read_series(
            list(paths) if len(paths) > 1 else (paths or ("-",))[0],
            **reading.to_dict(),
            usual_key=model.key_column if model else None,
        )

    def evaluate(
        self,
        model: Forecaster,
        model_path: str,
        paths: tuple[str, ...],
        reading: SeriesReading,
        evaluation: Any,
    ) -> Outcome:
        check_chart(evaluation.chart)
        data = self.read(paths, reading, model)
        result = model.evaluate(data, horizon=evaluation.horizon, since=evaluation.since)
        if evaluation.chart is not None:
            from seqloom.views import forecast

            forecast(model, data, horizon=evaluation.horizon, backtest=True).save(evaluation.chart)
        return shown(result)
