"""What comes next in a series, and how sure that is.

A forecaster writes `fit_series` and `forecast_windows`: it gets the last steps before each origin,
scaled by the mean and standard deviation of the training data, and answers the next steps. From
that come `forecast`, `evaluate` (a backtest from rolling origins) and `anomalies`. A window ends
before its origin (`data/forecasting_windows`), so no model can see the future.

Intervals are conformal: the quantiles of the errors for each horizon and column on a part that the
model did not learn from, in units of how large errors were lately, so that intervals grow and
shrink with them (`contracts/forecast_errors`). Where a model was mostly too high or too low there, an
interval still reaches as far as the forecast itself.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from seqloom import progress
from seqloom.arrays import Spec
from seqloom.config import Config, SeriesConfig
from seqloom.contracts import forecast_errors as errors
from seqloom.contracts import forecasts
from seqloom.contracts.base import Model
from seqloom.contracts.fitting import FitOptions
from seqloom.contracts.forecasts import Ahead, Anomalies, Answers, Backtest, Forecast
from seqloom.contracts.saving import Kind, names, optional, positive
from seqloom.contracts.starting import columns_of_start
from seqloom.data.forecasting import Series, as_series, second_of
from seqloom.data.forecasting_windows import Prepared, Windows, begun
from seqloom.data.times import Step
from seqloom.describing import renamed
from seqloom.errors import ConfigError, DataError
from seqloom.metrics import forecasting
from seqloom.metrics.forecasting import INTERVALS
from seqloom.metrics.result import Result, Signature

if TYPE_CHECKING:
    from seqloom.contracts.fitting import Train

RATE = 0.001  # of false alarms


class Forecaster(Model):
    """What comes next in a series."""

    task: ClassVar[str] = "forecaster"
    public_names = "columns horizon season step forecast backtest anomalies evaluate"
    config_class: ClassVar[type[Config]] = SeriesConfig
    learnt_values: ClassVar[dict[str, Kind]] = {
        "columns": names,
        "known_columns": lambda v: v == [] or names(v),
        "season": positive,
        "seasons": optional(lambda v: isinstance(v, list) and all(map(positive, v))),
        "window": positive,
        "step": lambda v: (
            isinstance(v, list)
            and len(v) == 2
            and positive(v[0])
            and v[1] in ("second", "day", "month", "row")
        ),
        "time_zone": lambda v: v is None or isinstance(v, str),
        "until": lambda v: type(v) is int,
        "key_column": optional(lambda v: v is None or isinstance(v, str)),
    }
    # What values are scaled by, and the errors that intervals come from.
    scale: dict[str, np.ndarray]

    # ---- what a model writes

    @abstractmethod
    def fit_series(self, data: Series, options: FitOptions) -> None:
        """Learn from series; `windows_of(data)` cuts them into windows, scaled, with what came after each."""

    @abstractmethod
    def forecast_windows(self, windows: Windows, horizon: int) -> np.ndarray:
        """Predict the next steps after each window, scaled: (n, horizon, C). Each window is answered
        on its own.
        """

    def spread_windows(self, windows: Windows, horizon: int) -> np.ndarray | None:
        """Return how large errors are expected to be, (n, horizon, C), up to a factor; None: the same
        everywhere.
        """
        return None

    def choose_window(self, data: Series) -> int:
        """Choose how many steps back it looks; `season` is already there."""
        return int(getattr(self.config, "window", None) or self.season)

    # ---- what it learnt

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that it forecasts."""
        return tuple(self.learnt.get("columns", ()))

    @property
    def key_column(self) -> str | None:
        """Return the column that separated several series in training; data with it is read so too."""
        return self.learnt.get("key_column")

    @property
    def season(self) -> int:
        """Return the steps of the cycle that the data repeats; 1: none."""
        return int(self.learnt.get("season", 1))

    @property
    def longer_seasons(self) -> tuple[int, ...]:
        """Return the other cycles, whose mean course the values of windows are without."""
        return tuple(self.learnt.get("seasons", ())[1:])

    @property
    def window(self) -> int:
        """Return how many steps back it looks."""
        return int(self.learnt.get("window", 1))

    @property
    def horizon(self) -> int:
        """Return the most steps that it can forecast."""
        return int(self.config.horizon)

    @property
    def step(self) -> Step:
        count, unit = self.learnt["step"]
        return Step(count, unit)

    # ---- fitting

    def fit(
        self,
        data: Any,
        *,
        valid: Any = None,
        memory: int | str | None = None,
        train: Train = None,
        device: str | None = None,
        run: str | Path | None = None,
        start: str | Path | Model | None = None,
        **training: Any,
    ) -> Self:
        """Learn. `data`: a Series, a Path, numbers (T,) or (T, C), or a frame with a column of times.

        Intervals are learnt from the errors on `valid`, or else on the last fifth of the data. `start`: of a
        network, a saved model of the same kind, whose weights, scale, columns and options training starts
        from.
        """
        series = as_series(data)
        options = self.fit_options(memory, train, device, run, start=start, training=training)
        origin = None if options.start is None else options.start.model
        if options.start is not None:
            series = columns_of_start(series, options.start)
        held_out = (
            None
            if valid is None
            else as_series(valid, series.key_column)
            .like(series.columns, series.known_columns)
            .following(series)
        )
        options = replace(options, valid=held_out)
        horizon = self.horizon if origin is None else origin.horizon
        if len(series) < horizon + 2:
            raise DataError(
                f"{series.name} has {len(series)} steps, too few to learn to forecast {horizon}; "
                "give more, or a smaller horizon"
            )
        with self.learning(options):
            if origin is None:
                self.learnt = {
                    "columns": list(series.columns),
                    "known_columns": list(series.known_columns),
                    "step": [series.step.count, series.step.unit],
                }
                seasons = forecasts.seasons_of(self.config.seasons, self.config.season, series)
                self.learnt |= {
                    "season": seasons[0],
                    **({"seasons": seasons} if seasons[1:] else {}),
                }
            self.learnt |= {
                "time_zone": series.clock.zone,
                "until": series.last_time,
                "key_column": series.key_column,
            }
            self.fit_info = {
                "data": series.name,
                "data_hash": series.fingerprint[:16],
                "series": len(series.tracks),
                "steps_seen": len(series),
            }
            self.scale = forecasts.scaling(series, forecasts.judged_season(series, self.season))
            if self.longer_seasons:
                self.scale["course"] = np.zeros((sum(self.longer_seasons), len(series.columns)))
            if origin is None:
                self.learnt["window"] = self.choose_window(series)
            else:
                self.scale |= {n: origin.scale[n] for n in forecasts.SCALED_BY if n in origin.scale}
            errors.fit_and_learn(self, series, held_out, options)
        return self

    # ---- windows

    def prepared(self, series: Series, *, future: bool = False) -> list[Prepared]:
        """Scale each series, to be cut into windows; `future`: the steps after its end are to be
        forecast.
        """
        return [
            Prepared.of(
                series,
                track,
                self.scale,
                self.window,
                self.horizon,
                seasons=self.longer_seasons,
                future=future,
            )
            for track in series.tracks
        ]

    def windows_of(
        self, series: Series, *, most: int | None = None
    ) -> list[tuple[Windows, np.ndarray]]:
        """Return windows to learn from, with what came after each, (n, horizon, C); in parts that fit
        into memory.
        """
        parts = []
        for prepared in self.prepared(series):
            if len(prepared.values) > self.window // 2:  # else windows are mostly padding
                for some, windows in prepared.windows(self.origins(prepared, self.horizon, most)):
                    parts.append((windows, prepared.truth(some, self.horizon)))
        if not parts:
            raise DataError(
                f"{series.name} is too short to learn from: a window of {self.window} steps and "
                f"{self.horizon} to "
                f"forecast need more than its {max(map(len, series.tracks))}; give smaller ones, or more data"
            )
        return parts

    def origins(self, prepared: Prepared, ahead: int, most: int | None = None) -> np.ndarray:
        """Return where forecasts can begin so that their first `ahead` steps are known, after a full window
        where possible; at most `most`, evenly spread.
        """
        every = prepared.origins(ahead)
        full = every[every >= self.window]
        chosen = full if len(full) and not prepared.track.begin else every
        if most is None or len(chosen) <= most:
            return chosen
        return chosen[np.linspace(0, len(chosen) - 1, most).astype(np.int64)]

    def answers(self, prepared: Prepared, origins: np.ndarray, horizon: int) -> Answers:
        """Compute forecasts from origins, and from steps shortly before them, since the errors of
        those show how large recent errors are.
        """
        return errors.answers(self, prepared, origins, horizon)

    def _bands(self, answers: Answers) -> np.ndarray:
        """Return quantiles of what comes, (L, n, H, C); each interval holds the forecast itself."""
        residuals = forecasting.holding_zero(self.scale["residuals"])[
            :, None, : answers.point.shape[1]
        ]
        return (
            answers.point
            + answers.spread * answers.recent(self.scale["typical"])[:, None] * residuals
        )

    # ---- the verbs

    def summary(self) -> str:
        steps, series = self.recorded("steps_seen", 0), self.recorded("series", 1)
        which = f"{series:,} series, " if series > 1 else ""
        columns = len(self.columns)
        return f"{which}{steps:,} steps of {self.step}, {columns} column{'s' * (columns != 1)}"

    def forecast(
        self, history: Any, horizon: int | None = None, *, since: Any = None, start: Any = None
    ) -> Forecast:
        """Predict the next steps after each series of `history`, with intervals of 80 and 95 %.

        `since`: forecast from this time on, as if nothing that came then were known (`start` is its former
        name).
        """
        self.check_fitted()
        ahead, series = self._ahead(horizon), self.read_like(history)
        if (since := renamed("since", since, "start", start)) is not None:
            series = series.before(second_of(since, series))
        mean, std = self.scale["mean"], self.scale["std"]
        tracks = []
        for prepared in self.prepared(series, future=True):
            end = len(prepared.values)
            if end < self.window:
                progress.say(
                    f"{series.name} has {end} steps, fewer than the {self.window} that {self.name} "
                    f"looks back; the missing ones count as the mean"
                )
            answers = self.answers(prepared, np.array([end]), ahead)
            course = prepared.course[end : end + ahead]
            bands = (self._bands(answers)[:, 0] + course) * std + mean
            tracks.append(
                Ahead(
                    prepared.track.key,
                    series.times(prepared.track, end, end + ahead),
                    (answers.point[0] + course) * std + mean,
                    {share: (bands[low], bands[high]) for share, (low, high) in INTERVALS.items()},
                )
            )
        return Forecast(tuple(tracks), self.columns, series.clock, series.known_columns)

    def backtest(
        self, data: Any, *, horizon: int | None = None, since: Any = None, start: Any = None
    ) -> Backtest:
        """Compute forecasts from every step of `data` that has the next steps, each from the steps
        before it alone.

        `since`: a time; what comes before is history (`start` is its former name). Where the data goes on
        after the training data, that is the default.
        """
        self.check_fitted()
        since = renamed("since", since, "start", start)
        ahead = self._ahead(horizon)
        series = begun(self.read_like(data), since, self.learnt["until"])
        parts: list[tuple[np.ndarray, ...]] = []
        apart = (max(map(len, series.tracks)) // ahead + 2) * ahead
        each = max(errors.MAX_ORIGINS // len(series.tracks), 100)
        for k, prepared in enumerate(self.prepared(series)):
            if len(origins := self.origins(prepared, ahead, each)):
                answers = self.answers(prepared, origins, ahead)
                parts.append(
                    (
                        prepared.truth(origins, ahead),
                        answers.point,
                        self._bands(answers),
                        origins + k * apart,
                    )
                )
        if not parts:
            raise DataError(
                f"{series.name} has {len(series)} steps to judge by, too few to forecast {ahead}; "
                f"give more, or a smaller horizon"
            )
        truth, point, bands, origins = (
            np.concatenate([part[i] for part in parts], axis=1 if i == 2 else 0) for i in range(4)
        )
        return Backtest(truth, point, bands, origins)

    def evaluate(
        self,
        data: Any,
        *,
        horizon: int | None = None,
        since: Any = None,
        start: Any = None,
        samples: int = 1000,
    ) -> Result:
        """Compute errors of a backtest (see `backtest`): MSE, MAE, MASE, pinball loss, and how often
        the intervals hold.

        `samples`: of the bootstrap over stretches of time, 0 for no interval.
        """
        self.check_fitted()
        series = as_series(data, self.key_column)
        self.remark_training_data(series.name, series.fingerprint)
        done = self.backtest(series, horizon=horizon, since=renamed("since", since, "start", start))
        metrics, details = forecasting.evaluate_forecasts(
            done.truth,
            done.point,
            done.bands,
            done.origins,
            columns=self.columns,
            std=self.scale["std"],
            naive=self.scale["naive"],
            samples=samples,
        )
        missing = int(np.count_nonzero(np.isnan(done.truth)))
        notes = (f"{missing:,} missing values were not judged",) if missing else ()
        return Result(metrics, self.signature(series), notes, details)

    def anomalies(
        self,
        data: Any,
        *,
        rate: float = RATE,
        top: int | None = None,
        since: Any = None,
        start: Any = None,
    ) -> Anomalies:
        """Find steps that are further from their forecast, one step ahead, than a threshold.

        `rate`: share of usual steps that may be above it; the threshold was learnt on all blocks of the
        training data, each forecast by a model that did not learn from it (of a network: on all of it).
        `top`: only so many, those with the highest scores first. `since`: as in `backtest`.
        """
        self.check_fitted()
        since = renamed("since", since, "start", start)
        read = self.read_like(data)
        self.remark_training_data(read.name, read.fingerprint)
        series = begun(read, since, self.learnt["until"])
        return errors.find_unusual(self, series, rate, top)

    def signature(self, data: Series | None = None) -> Signature:
        """Return everything that the model's results depend on."""
        return Signature(
            model=self.label(),
            data=data.fingerprint[:8] if data else None,
            extras={**self.training_extras(), "horizon": self.horizon},
        )

    # ---- reading

    def _ahead(self, horizon: int | None) -> int:
        if horizon is None:
            return self.horizon
        if not 1 <= horizon <= self.horizon:
            raise ConfigError(
                f"horizon must be from 1 to {self.horizon}, for which this {self.name} model was fitted; got "
                f"{horizon}; fit another with horizon={max(horizon, 1)}"
            )
        return horizon

    def read_like(self, data: Any) -> Series:
        """Read the series with the columns that the model learned from; refuse other steps."""
        series = as_series(data, self.key_column).like(
            self.columns, tuple(self.learnt["known_columns"])
        )
        if series.step != self.step:
            raise DataError(
                f"{series.name} has steps of {series.step}, the model learned from steps of "
                f"{self.step}; give data of the same step, or say it (step=...)"
            )
        return series

    # ---- persistence, for models that write `arrays`

    def scale_specs(self) -> dict[str, Spec]:
        return forecasts.specs(
            len(self.columns),
            len(self.learnt["known_columns"]),
            self.horizon,
            sum(self.longer_seasons),
        )

    def restore_scale(self, arrays: dict[str, np.ndarray]) -> None:
        self.scale = {name: np.array(arrays[name]) for name in self.scale_specs() if name in arrays}
