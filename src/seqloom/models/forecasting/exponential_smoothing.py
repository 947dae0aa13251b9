"""Exponential smoothing with a level, a trend and a season: Holt 1957, Winters 1960; the damped
trend of Gardner 1985.

    error   e = y - (level + phi trend + season[t])
    level   <- level + phi trend + alpha e
    trend   <- phi trend + beta e
    season[t] <- season[t] + gamma e

(the error-correction form of Hyndman et al. 2008, section 2.4). A window begins with the level,
trend and season of its first two seasons. The four constants of each column are those with the
least squared error over the whole horizon on windows of the training data, found by a random search
that narrows down.
"""

from __future__ import annotations

import numpy as np

from seqloom.arrays import Length, Spec
from seqloom.contracts import FitOptions, Forecaster
from seqloom.data.forecasting import Series
from seqloom.data.forecasting_windows import Windows
from seqloom.models.forecasting.configs import ExponentialSmoothingConfig, seasons_back

STEPS_WITHOUT_SEASON = 200  # length of a window where there is no season
MAX_WINDOWS = 60  # windows that constants are fitted on
ROUNDS, CANDIDATES = 5, 48  # of the random search; candidates in each round
# alpha, beta, gamma, phi
LOW, HIGH = np.array([1e-3, 1e-5, 1e-4, 0.8]), np.array([0.999, 0.5, 0.6, 0.999])


class ExponentialSmoothing(Forecaster):
    name = "exponential-smoothing"
    config_class = ExponentialSmoothingConfig
    constants: np.ndarray  # float64 (4, C): alpha, beta, gamma, phi

    @property
    def parameters(self) -> int:
        return self.constants.size if self.fitted else 0

    def choose_window(self, data: Series) -> int:
        longest = max(map(len, data.tracks))
        return self.config.window or max(
            min(seasons_back(self._cycle, STEPS_WITHOUT_SEASON), longest // 3), 2 * self._cycle, 4
        )

    @property
    def _cycle(self) -> int:
        return self.season if self.config.seasonal else 1

    def fit_series(self, data: Series, options: FitOptions) -> None:
        parts = self.windows_of(data, most=MAX_WINDOWS)
        past = np.concatenate([windows.past for windows, _ in parts])[:MAX_WINDOWS]
        truth = np.concatenate([after for _, after in parts])[:MAX_WINDOWS]
        rng, columns, present = np.random.default_rng(0), past.shape[2], np.isfinite(truth)
        candidates = rng.uniform(np.log(LOW), np.log(HIGH), (CANDIDATES, columns, 4)).transpose(
            0, 2, 1
        )
        best, least_error = candidates[0], np.full(columns, np.inf)
        width = np.log(HIGH / LOW)[:, None] / 4
        for _ in range(ROUNDS):
            candidates = np.clip(candidates, np.log(LOW)[:, None], np.log(HIGH)[:, None])
            forecasts = self._run(
                past, self._settled(np.exp(candidates.swapaxes(0, 1)))[:, :, None], self.horizon
            )
            squares = np.where(present, (forecasts - truth) ** 2, 0.0).sum(axis=(1, 2))
            errors = squares / np.maximum(present.sum(axis=(0, 1)), 1)  # (CANDIDATES, C)
            best_candidate = np.nan_to_num(errors, nan=np.inf).argmin(axis=0)
            better = errors[best_candidate, np.arange(columns)] < least_error
            least_error = np.where(better, errors[best_candidate, np.arange(columns)], least_error)
            best = np.where(better, candidates[best_candidate, :, np.arange(columns)].T, best)
            candidates, width = best + width * rng.normal(size=candidates.shape), width / 2
        self.constants = self._settled(np.exp(best))

    def _settled(self, constants: np.ndarray) -> np.ndarray:
        """Replace the constants that the options fix."""
        alpha, beta, gamma, phi = constants
        none = np.zeros_like(alpha)
        trend = self.config.trend
        return np.stack(
            [
                alpha,
                none if trend == "none" else beta,
                gamma if self._cycle > 1 else none,
                none + 1 if trend == "additive" else phi,
            ]
        )

    def forecast_windows(self, windows: Windows, horizon: int) -> np.ndarray:
        return self._run(windows.past, self.constants[:, None], horizon)

    def _run(self, past: np.ndarray, constants: np.ndarray, horizon: int) -> np.ndarray:
        """Smooth windows (n, W, C) and continue them; constants (4, 1, C) give (n, H, C), and P
        candidates (4, P, 1, C) give (P, n, H, C).
        """
        (alpha, beta, gamma, phi), cycle = constants, self._cycle
        level, trend, season = _start(past, cycle)
        if self.config.trend == "none":
            trend = np.zeros_like(trend)
        shape = np.broadcast_shapes(alpha.shape, level.shape)
        season = np.broadcast_to(
            season.reshape(cycle, *(1,) * (len(shape) - 2), *level.shape), (cycle, *shape)
        ).copy()
        for t in range(past.shape[1]):
            phase = t % cycle
            ahead = phi * trend
            error = past[:, t] - level - ahead - season[phase]
            level, trend = level + ahead + alpha * error, ahead + beta * error
            season[phase] += gamma * error
        powers = np.arange(1, horizon + 1).reshape(-1, *(1,) * phi.ndim)
        steps = np.cumsum(phi**powers, axis=0)  # (H, ...)
        phases = (past.shape[1] + np.arange(horizon)) % cycle
        return np.moveaxis(level + steps * trend + season[phases], 0, -2)

    def arrays(self) -> dict[str, np.ndarray]:
        return {**self.scale, "constants": self.constants}

    def array_specs(self, length: Length) -> dict[str, Spec]:
        return {
            **self.scale_specs(),
            "constants": Spec("float64", (4, len(self.columns)), 0.0, 1.0),
        }

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        self.restore_scale(arrays)
        self.constants = np.array(arrays["constants"])


def _start(past: np.ndarray, cycle: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return level and trend (n, C) before the first step and season (cycle, n, C), from the first
    two seasons, or four steps.
    """
    if cycle == 1 or past.shape[1] < 2 * cycle:
        first = past[:, :4]
        trend = (first[:, -1] - first[:, 0]) / max(first.shape[1] - 1, 1)
        return (
            first.mean(axis=1) - trend * (first.shape[1] + 1) / 2,
            trend,
            np.zeros((cycle, len(past), past.shape[2])),
        )
    first_two = past[:, : 2 * cycle].reshape(len(past), 2, cycle, -1)
    means = first_two.mean(axis=2)  # (n, 2, C)
    trend = (means[:, 1] - means[:, 0]) / cycle
    level = means[:, 0] - trend * (cycle + 1) / 2
    line = level[:, None] + trend[:, None] * np.arange(1, 2 * cycle + 1)[None, :, None]
    residuals = (past[:, : 2 * cycle] - line).reshape(len(past), 2, cycle, -1).mean(axis=1)
    return level, trend, residuals.swapaxes(0, 1).copy()
