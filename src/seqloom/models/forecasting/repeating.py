"""Forecasts that repeat the end of the series, which every other forecaster must beat. `naive`
repeats the last value, `seasonal-naive` the last season: the same hour of yesterday, the same month
of last year.

    >>> Naive(horizon=2).fit([1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 3.0]).forecast([5.0, 4.0]).values.tolist()
    [4.0, 4.0]
    >>> model = SeasonalNaive(horizon=3, season=2).fit([1.0, 5.0, 1.0, 5.0, 1.0, 5.0, 1.0, 5.0])
    >>> model.forecast([1.0, 6.0]).values.tolist()
    [1.0, 6.0, 1.0]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from seqloom.arrays import Length, Spec
from seqloom.contracts import FitOptions, Forecaster
from seqloom.data.forecasting import Series
from seqloom.data.forecasting_windows import Windows
from seqloom.models.forecasting.configs import NaiveConfig, SeasonalNaiveConfig

if TYPE_CHECKING:
    Mixin = Forecaster
else:
    Mixin = object


class Repeating(Mixin):
    """A forecaster that repeats its window; only the size of its errors is learnt."""

    def fit_series(self, data: Series, options: FitOptions) -> None:
        """Do nothing."""

    def forecast_windows(self, windows: Windows, horizon: int) -> np.ndarray:
        return windows.past[:, np.arange(horizon) % self.window]

    def arrays(self) -> dict[str, np.ndarray]:
        return self.scale

    def array_specs(self, length: Length) -> dict[str, Spec]:
        return self.scale_specs()

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        self.restore_scale(arrays)


class Naive(Repeating, Forecaster):
    name = "naive"
    config_class = NaiveConfig

    def choose_window(self, data: Series) -> int:
        return 1


class SeasonalNaive(Repeating, Forecaster):
    name = "seasonal-naive"
    config_class = SeasonalNaiveConfig

    def label(self) -> str:
        return f"{self.name}-{self.season}" if self.fitted else self.name

    def choose_window(self, data: Series) -> int:
        return self.season
