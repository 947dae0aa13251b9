"""Each future step is a weighted sum of the last steps: ridge regression, solved exactly, for all
steps of the horizon at once.

The last value (or the mean) of a window is subtracted before and added after, so that a level that
was never seen changes nothing: NLinear of Zeng et al. 2023, "Are Transformers Effective for Time
Series Forecasting?", section 4, which found such a model as good as the Transformers of its day.
Columns known in advance enter with their values in the future steps.
"""

from __future__ import annotations

import numpy as np

from seqloom.arrays import Length, Spec
from seqloom.contracts import FitOptions, Forecaster
from seqloom.data.forecasting import Series
from seqloom.data.forecasting_windows import Windows
from seqloom.errors import DataError
from seqloom.models.forecasting.configs import LinearWindowConfig, seasons_back


class LinearWindow(Forecaster):
    name = "linear-window"
    config_class = LinearWindowConfig
    weights: np.ndarray  # float64 (1 or C, W + H * E + 1, H)

    @property
    def parameters(self) -> int:
        return self.weights.size if self.fitted else 0

    def label(self) -> str:
        return f"{self.name}-{self.window}" if self.fitted else self.name

    def choose_window(self, data: Series) -> int:
        longest = max(map(len, data.tracks))
        return self.config.window or max(min(seasons_back(self.season, 48), longest // 6), 1)

    def fit_series(self, data: Series, options: FitOptions) -> None:
        columns, shared = len(self.columns), self.config.weights == "shared"
        size = self.window + self.horizon * len(self.learnt["known_columns"]) + 1
        groups = 1 if shared else columns
        left, right = np.zeros((groups, size, size)), np.zeros((groups, size, self.horizon))
        counts = np.zeros(groups)
        for windows, truth in self.windows_of(data):
            inputs, base = self._inputs(windows)
            for c in range(columns):
                complete = np.isfinite(truth[..., c]).all(axis=1)
                x, y = inputs[complete, c], truth[complete][..., c] - base[complete][:, c, None]
                group = 0 if shared else c
                left[group] += x.T @ x
                right[group] += x.T @ y
                counts[group] += len(x)
        if (counts == 0).any():
            raise DataError(
                f"{data.name} has no {self.horizon} steps in a row without a missing value; give a "
                f"smaller horizon"
            )
        penalty = np.full(size, self.config.ridge + 1e-9)
        penalty[-1] = 1e-9  # the constant is not penalised
        self.weights = np.linalg.solve(
            left / counts[:, None, None] + np.diag(penalty), right / counts[:, None, None]
        )

    def forecast_windows(self, windows: Windows, horizon: int) -> np.ndarray:
        inputs, base = self._inputs(windows)
        if len(self.weights) == 1:
            answer = inputs @ self.weights[0][:, :horizon]  # (n, C, H)
        else:
            answer = np.einsum("ncw,cwh->nch", inputs, self.weights[..., :horizon])
        return (answer + base[..., None]).swapaxes(1, 2)

    def _inputs(self, windows: Windows) -> tuple[np.ndarray, np.ndarray]:
        """Return the inputs of the regression (n, C, size), and the level added to its result (n, C)."""
        past, kind = windows.past.swapaxes(1, 2), self.config.normalise
        base = (
            past[..., -1]
            if kind == "last"
            else past.mean(axis=-1)
            if kind == "mean"
            else np.zeros(past.shape[:2])
        )
        n, columns, n_known = *past.shape[:2], len(self.learnt["known_columns"])
        ahead = windows.known[:, self.window :, windows.known.shape[2] - n_known :].reshape(
            n, 1, -1
        )
        ahead = np.broadcast_to(ahead, (n, columns, ahead.shape[2]))
        return np.concatenate(
            [past - base[..., None], ahead, np.ones((n, columns, 1))], axis=-1
        ), base

    def arrays(self) -> dict[str, np.ndarray]:
        return {**self.scale, "weights": self.weights}

    def array_specs(self, length: Length) -> dict[str, Spec]:
        groups = 1 if self.config.weights == "shared" else len(self.columns)
        size = self.window + self.horizon * len(self.learnt["known_columns"]) + 1
        return {
            **self.scale_specs(),
            "weights": Spec("float64", (groups, size, self.horizon), -1e100, 1e100),
        }

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        self.restore_scale(arrays)
        self.weights = np.array(arrays["weights"])
