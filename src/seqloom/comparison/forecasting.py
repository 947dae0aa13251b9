"""Forecasters compared: the squared error of forecasts from rolling origins on the same last part
of the data.

All forecast as many steps as are asked for, else as the data has in a season (24 without one); each
part begins where the one before ended.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from seqloom.charts.comparison import Measure
from seqloom.charts.forecasting import Line, forecast_chart
from seqloom.comparison.bench import Attempt, Bench, NotPossible, Rung
from seqloom.comparison.ladder import (
    FOLDS,
    Column,
    Evaluation,
    Ladder,
    Parts,
    Score,
    Trial,
    columns,
)
from seqloom.contracts.forecasts import judged_season, scaling
from seqloom.data.forecasting import Series, as_series, second_of
from seqloom.data.recognise import times_in
from seqloom.encoder_table import has_encoder
from seqloom.errors import ConfigError, DataError
from seqloom.metrics import forecasting
from seqloom.registry import model_class
from seqloom.tasks.forecasting import SeriesComparing

if TYPE_CHECKING:
    from seqloom.charts.page import Page
    from seqloom.comparison.result import Comparison
    from seqloom.metrics.result import Result

SHARES = (0.7, 0.8)  # where training and validation end
USUAL = 24  # steps to forecast where there is no season
MAX_HORIZON = 200  # that are forecast, however long a season is
MIN_HORIZONS = 10  # horizons that the data must have
BEFORE = 4  # horizons that are drawn before a forecast


def horizon_of(train: Series) -> int:
    """Return how many steps a comparison on this data forecasts: a season, if the data has some of
    them.
    """
    season, longest = train.step.season, max(map(len, train.tracks))
    return max(
        min(season if 1 < season <= longest // 3 else USUAL, MAX_HORIZON, longest // MIN_HORIZONS),
        1,
    )


def _model_maker(name: str, **options: Any) -> Callable[[Bench], Any]:
    """Make the registered model of that name, with the horizon and the season of the comparison."""
    return lambda bench: model_class(name)(**bench.options, **options)


RUNGS = (
    Rung("naive", "trivial", "", _model_maker("naive"), 1, "nothing: the last value again"),
    Rung(
        "seasonal-naive", "trivial", "", _model_maker("seasonal-naive"), 1, "the last season again"
    ),
    Rung(
        "smoothing",
        "smoothing",
        "",
        _model_maker("exponential-smoothing"),
        100,
        "level, damped trend and season, which forget the past by degrees",
    ),
    Rung(
        "arima",
        "ARIMA",
        "",
        _model_maker("arima"),
        100,
        "differences, predicted from the last ones and from the last errors",
    ),
    Rung(
        "linear",
        "linear",
        "",
        _model_maker("linear-window"),
        50,
        "a weight for each of the last steps, for each step to come",
    ),
    Rung(
        "gru",
        "network",
        "",
        _model_maker("forecaster"),
        0,
        "patches of the last steps, read by a recurrent network",
    ),
)


class ForecastingLadder(Ladder):
    name, task, models = "forecasting", "forecaster", "forecasters"
    measure = Measure("mse", "mean squared error", "MSE", lower=True, form=".4f")
    notes = (
        "MSE and MAE: mean squared and absolute error of forecasts from all steps of the test "
        "part, each column divided "
        "by its standard deviation in the training part; the interval is a bootstrap over "
        "stretches of time. MASE below "
        "1: better than repeating the last season was in the training part. 80 % and 95 %: how "
        "often those intervals held."
    )
    size_unit, score_unit, unit_heading = "steps", "forecasts", "forecasts"
    learn_unit, learn_heading, resampled = "steps", "steps", "stretches of time"
    columns = (
        Column("MAE", "mae", ".4f"),
        Column("MASE", "mase", ".3f"),
        Column("80 %", "coverage_80", ".1%"),
        Column("95 %", "coverage_95", ".1%"),
    )
    commands = ("seqloom forecast {path} FILE", "seqloom anomalies {path} FILE")
    python = "seqloom.load({path}).forecast(history)"
    bundled, recognised = "series", "the data is a series"
    data_class, as_data = Series, staticmethod(as_series)
    rungs: Sequence[Rung] = RUNGS
    former_names: ClassVar[dict[str, str]] = {"start": "since"}
    options: SeriesComparing = SeriesComparing()
    ahead: int = USUAL  # steps that are forecast, once the data is known

    def further_rung(self, name: str) -> Rung | None:
        if not has_encoder(name):
            return None
        return Rung(
            name,
            "network",
            "",
            _model_maker("forecaster", encoder=name),
            0,
            f"patches of the last steps, the encoder {name}",
        )

    def recognises_file(self, path: Path) -> str:
        return times_in(path)

    def short_name(self, data: Series) -> str:
        return Path(data.name).name or data.name

    def split(self, data: Series, valid: Series | None, test: Series | None) -> Parts:
        if max(map(len, data.tracks)) < 4 * MIN_HORIZONS:
            raise DataError(
                f"{data.name}: {max(map(len, data.tracks))} steps are too few to compare "
                f"forecasters; give at least {4 * MIN_HORIZONS}"
            )
        parts = self._cut(data, valid, test)
        ahead = self._horizon(parts)
        for name, part, least in (
            ("training", parts.train, ahead + 2),
            ("test", parts.test, ahead),
        ):
            if (
                longest := max((len(track) - track.begin for track in part.tracks), default=0)
            ) < least:
                raise DataError(
                    f"{data.name}: the {name} part has {longest} steps, too few to forecast {ahead}; give a "
                    "smaller horizon, or more data"
                )
        return replace(parts, description=f"{parts.description}, {ahead} steps ahead")

    def given_splits(self, data: Series, valid: Series | None, test: Series | None) -> Parts | None:
        """Return the parts, each of which follows the one before."""
        if (parts := super().given_splits(data, valid, test)) is None:
            return None
        after = None if parts.valid is None else parts.valid.following(data)
        return replace(
            parts, valid=after, test=parts.test.following(data if after is None else after)
        )

    def folds(self, data: Series, n: int | None) -> list[Parts]:
        """Cut the data into n + 1 parts: each but the first is forecast after learning from those before."""
        n = n or max(2, min(FOLDS, len(data) // 2))
        bounds = [k / (n + 1) for k in range(1, n + 2)]
        return [
            Parts(data.between(0, low), None, data.between(low, high), "")
            for low, high in pairwise(bounds)
        ]

    def _cut(self, data: Series, valid: Series | None, test: Series | None) -> Parts:
        since = self.options.since
        if (parts := self.given_splits(data, valid, test)) is not None:
            if since is not None:
                raise ConfigError(
                    "since says where the test part of the data begins, but other data was "
                    "given for that; leave one out"
                )
            return parts
        first, second = SHARES
        if since is None:
            return Parts(
                data.between(0, first),
                data.between(first, second),
                data.between(second, 1.0),
                "the last 20 % of the time, after 10 % for validation",
            )
        begin = second_of(since, data)
        before = data.before(begin)
        return Parts(
            before.between(0, first / second),
            before.between(first / second, 1.0),
            data.starting(begin),
            f"from {data.clock.show(begin)} on, with the last {1 - first / second:.1%} before it "
            f"for validation",
        )

    def _horizon(self, parts: Parts) -> int:
        return self.options.horizon or horizon_of(parts.train)

    def specialised_for(self, parts: Parts) -> ForecastingLadder:
        ladder = copy.copy(self)
        ladder.ahead = self._horizon(parts)
        ladder.options = replace(self.options, horizon=ladder.ahead)
        return ladder

    def bench(self, parts: Parts) -> Bench:
        return replace(
            super().bench(parts),
            options={
                "horizon": self.ahead,
                "season": self.options.season,
                "seasons": self.options.seasons,
            },
        )

    def smaller(self, train: Series, part: int) -> Series | None:
        """Return the last steps, which are nearest to those to come."""
        some = train.between(1 - 1 / part, 1.0).alone()
        return (
            some
            if min(map(len, some.tracks))
            >= 6 * max(self.ahead, self.options.season or train.step.season)
            else None
        )

    def evaluate(self, model: Any, parts: Parts) -> Evaluation:
        ahead = self.ahead
        if model.horizon < ahead:
            raise NotPossible(
                f"it forecasts {model.horizon} steps, this comparison {ahead}; give it horizon={ahead}"
            )
        start = time.perf_counter()
        done = model.backtest(parts.test, horizon=ahead)
        seconds = time.perf_counter() - start
        metrics, _ = forecasting.evaluate_forecasts(
            done.truth,
            done.point,
            done.bands,
            done.origins,
            columns=model.columns,
            std=model.scale["std"],
            naive=scaling(parts.train, judged_season(parts.train, self.options.season or 1))[
                "naive"
            ],
            samples=0,
        )
        errors = done.truth - done.point
        scores = [
            Score(name, columns(*forecasting.segments(each, done.origins, ahead)), better="lower")
            for name, each in (("MSE", errors), ("MAE", np.sqrt(np.abs(errors))))
        ]
        return Evaluation(metrics, scores, len(done.truth), seconds)

    def trial(self, attempts: Sequence[Attempt], parts: Parts, **fit: Sequence[Any]) -> Trial:
        """Forecast as many steps as both models can."""
        ladder = copy.copy(self)
        ladder.ahead = min(attempt.model.horizon for attempt in attempts)
        return Ladder.trial(ladder, attempts, parts, **fit)

    # ---- the report

    def details(self, comparison: Comparison) -> dict[str, Result]:
        return {
            r.name: comparison.fitted[r.name].evaluate(
                comparison.test, horizon=self.ahead, samples=0
            )
            for r in comparison.results
        }

    def pictures(self, comparison: Comparison, details: Any) -> dict[str, Any]:
        """Draw the last forecast of the best rung against what came."""
        model, test, ahead = comparison.model, comparison.test, self.ahead
        track = test.tracks[0]
        at = len(track) - ahead
        forecast = model.forecast(test.between(0, at - track.begin), ahead).tracks[0]
        shown = slice(max(at - BEFORE * ahead, 0), len(track))
        column = len(test.columns) - 1
        bands = {
            share: (low[:, column].tolist(), high[:, column].tolist())
            for share, (low, high) in forecast.bands.items()
        }
        came = Line(test.times(track)[shown].tolist(), track.values[shown, column].tolist())
        line = Line(forecast.times.tolist(), forecast.values[:, column].tolist())
        return {
            "forecast": forecast_chart(
                came, line, bands, rows=test.clock.rows, title=test.columns[column]
            )
        }

    def sections(self, page: Page, comparison: Comparison, details: Any) -> None:
        if not details or comparison.bench is None:
            return
        page.heading("Forecast")
        page.chart(
            self.pictures(comparison, details)["forecast"],
            "the last forecast of the best rung against what came",
        )
        page.text(
            f"{comparison.best.name}: the last {self.ahead} steps of the test part, "
            "forecast from the steps before, with intervals of 80 and 95 %.",
            kind="faint",
        )
        page.heading("Error by horizon")
        rows = [result.details["horizons"] for result in details.values()]
        page.table(
            ["steps ahead", *details],
            [
                [str(row["horizon"]), *(f"{its[i]['mse']:.4f}" for its in rows)]
                for i, row in enumerate(rows[0])
            ],
        )
