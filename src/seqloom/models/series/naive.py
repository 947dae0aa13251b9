"""The last value, again and again: what every other forecaster must beat.

    >>> Naive(horizon=2).fit([1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 3.0]).forecast([5.0, 4.0]).values.tolist()
    [4.0, 4.0]
"""

from __future__ import annotations

import numpy as np

from seqloom.arrays import Length, Spec
from seqloom.contracts import Fitting, Forecaster
from seqloom.data.series import Series
from seqloom.data.series_windows import Windows
from seqloom.models.series.configs import NaiveConfig


class Naive(Forecaster):
    name = "naive"
    config_class = NaiveConfig

    def choose_window(self, data: Series) -> int:
        return 1

    def fit_series(self, data: Series, how: Fitting) -> None:
        """There is nothing to learn but how large the errors are."""

    def forecast_windows(self, windows: Windows, horizon: int) -> np.ndarray:
        return np.repeat(windows.past[:, -1:], horizon, axis=1)

    def arrays(self) -> dict[str, np.ndarray]:
        return self.scale

    def array_specs(self, length: Length) -> dict[str, Spec]:
        return self.scale_specs()

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        self.restore_scale(arrays)
