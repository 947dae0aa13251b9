"""ARIMA (Box & Jenkins 1970): differences of a series, predicted from their last values and from
the last errors.

    w = (1 - B)^d (1 - B^m)^D y          B shifts by a step, m is the season; D is 1 if `seasonal`, else 0
    w[t] = sum_i phi_i w[t-i] + e[t] + sum_j theta_j e[t-j] + Theta (e[t-m] + sum_j theta_j e[t-m-j])

The coefficients have the least conditional sum of squares (errors before a window are 0; Box &
Jenkins, section 7.1.2) on windows of the training data, found by Gauss-Newton steps with damping.
Steps that leave the stationary and invertible region (all roots outside the unit circle) are
refused. The more windows there are, the closer this is to maximum likelihood; tests compare it with
statsmodels.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from seqloom.arrays import Length, Spec
from seqloom.contracts import FitOptions, Forecaster
from seqloom.contracts.saving import Kind, one_of
from seqloom.data.forecasting import Series
from seqloom.data.forecasting_windows import Windows
from seqloom.errors import DataError
from seqloom.models.forecasting.configs import ArimaConfig, seasons_back

STEPS_WITHOUT_SEASON = 200  # length of a window where there is no season
MAX_WINDOWS = 60  # windows that coefficients are fitted on
ITERATIONS = 25
SHIFT = 1e-4  # of a coefficient, for derivatives by finite differences
MIN_ROOT = 1.001  # smallest modulus of a root: just outside the unit circle


class Arima(Forecaster):
    name = "arima"
    config_class = ArimaConfig
    learnt_values: ClassVar[dict[str, Kind]] = {
        **Forecaster.learnt_values,
        "differences": one_of(0, 1, 2),
    }
    coefficients: np.ndarray  # float64 (p + q + D, C): phi, theta, Theta

    @property
    def parameters(self) -> int:
        return self.coefficients.size if self.fitted else 0

    def label(self) -> str:
        if not self.fitted:
            return self.name
        seasonal = f"(0,1,1){self.season}" if self._cycle > 1 else ""
        return f"{self.name}({self.config.ar},{self.differences},{self.config.ma}){seasonal}"

    @property
    def _cycle(self) -> int:
        return self.season if self.config.seasonal else 1

    @property
    def differences(self) -> int:
        """Return how often the series is differenced, besides by the season."""
        return int(self.learnt["differences"])

    def choose_window(self, data: Series) -> int:
        self.learnt["differences"] = self._differences(data)
        longest = max(map(len, data.tracks))
        lost = self.differences + (self._cycle if self._cycle > 1 else 0) + self.config.ar
        return self.config.window or max(
            min(seasons_back(self._cycle, STEPS_WITHOUT_SEASON), longest // 3), lost + 4
        )

    def _differences(self, data: Series) -> int:
        if self.config.differences is not None:
            return int(self.config.differences)
        longest = max(data.tracks, key=len)
        values = (longest.values - self.scale["mean"]) / self.scale["std"]
        values = _seasonal(np.where(np.isfinite(values), values, 0.0)[None], self._cycle)[0]
        return int(np.diff(values, axis=0).var() < values.var())

    def fit_series(self, data: Series, options: FitOptions) -> None:
        lost = self.differences + (self._cycle if self._cycle > 1 else 0) + self.config.ar
        if self.window <= lost + 2:
            raise DataError(
                f"a window of {self.window} steps is too short for this ARIMA, which loses {lost} "
                f"of them; give a "
                "longer one"
            )
        parts = self.windows_of(data, most=MAX_WINDOWS)
        past = np.concatenate([windows.past for windows, _ in parts])[:MAX_WINDOWS]
        series = self._differenced(past)
        size = self.config.ar + self.config.ma + (self._cycle > 1)
        start = np.zeros((size, past.shape[2]))
        if self._cycle > 1:
            start[-1] = -0.5
        self.coefficients = self._least_squares(series, start)

    def _least_squares(self, w: np.ndarray, start: np.ndarray) -> np.ndarray:
        """Fit the coefficients of each column by Levenberg-Marquardt, all columns at once."""
        size, columns = start.shape
        coefficients, damping = start.copy(), np.full(columns, 1e-2)
        errors = self._errors(w, coefficients)
        least = (errors**2).sum(axis=(0, 1))
        for _ in range(ITERATIONS if size else 0):
            slopes = np.stack(
                [
                    (
                        self._errors(w, coefficients + SHIFT * (np.arange(size) == k)[:, None])
                        - errors
                    )
                    / SHIFT
                    for k in range(size)
                ]
            )  # (k, n, T, C)
            hessian = np.einsum("kntc,lntc->ckl", slopes, slopes)
            gradient = np.einsum("kntc,ntc->ck", slopes, errors)
            diagonal = np.einsum("ckk->ck", hessian) * damping[:, None] + 1e-9
            step = np.linalg.solve(
                hessian + diagonal[:, None, :] * np.eye(size), gradient[..., None]
            )[..., 0]  # (C, k)
            candidate = coefficients - step.T
            allowed = np.array([self._fades(candidate[:, c]) for c in range(columns)])
            candidate = np.where(allowed, candidate, coefficients)
            candidate_errors = self._errors(w, candidate)
            squares = (candidate_errors**2).sum(axis=(0, 1))
            better = allowed & (squares < least)
            gain = np.where(better, (least - squares) / np.maximum(least, 1e-300), 0.0)
            coefficients, least = (
                np.where(better, candidate, coefficients),
                np.where(better, squares, least),
            )
            errors = np.where(better, candidate_errors, errors)
            damping = np.clip(np.where(better, damping / 4, damping * 8), 1e-6, 1e6)
            if (gain < 1e-6).all() and (damping > 1.0).all():
                break
        return coefficients

    def _fades(self, coefficients: np.ndarray) -> bool:
        """Return whether the influence of the past fades: all roots outside the unit circle."""
        p, q = self.config.ar, self.config.ma
        roots = [
            np.roots(np.append(-coefficients[:p][::-1], 1.0)),
            np.roots(np.append(coefficients[p : p + q][::-1], 1.0)),
        ]
        within = self._cycle == 1 or abs(coefficients[-1]) < 1 / MIN_ROOT
        return bool(within and (np.abs(np.concatenate(roots)) > MIN_ROOT).all())

    def _differenced(self, past: np.ndarray) -> np.ndarray:
        return np.diff(_seasonal(past, self._cycle), n=self.differences, axis=1)

    def _lags(self, coefficients: np.ndarray) -> dict[int, np.ndarray]:
        """Return the weights of earlier errors by lag."""
        p, q = self.config.ar, self.config.ma
        lags = {j + 1: coefficients[p + j] for j in range(q)}
        if self._cycle > 1:
            last, cycle = coefficients[-1], self._cycle
            for lag, weight in [(0, np.ones_like(last)), *list(lags.items())]:
                lags[cycle + lag] = lags.get(cycle + lag, 0.0) + weight * last
        return lags

    def _errors(self, w: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Compute the one-step-ahead errors, (n, T, C); those of the first p steps are 0."""
        p = self.config.ar
        errors = w.copy()
        for i in range(p):
            errors[:, i + 1 :] -= coefficients[i] * w[:, : -i - 1]
        errors[:, :p] = 0.0
        lags = self._lags(coefficients)
        for t in range(p, w.shape[1]):
            for lag, weight in lags.items():
                if t >= lag:
                    errors[:, t] -= weight * errors[:, t - lag]
        return errors

    def forecast_windows(self, windows: Windows, horizon: int) -> np.ndarray:
        past = windows.past
        season = _seasonal(past, self._cycle)
        w = np.diff(season, n=self.differences, axis=1)
        errors, lags, p = (
            self._errors(w, self.coefficients),
            self._lags(self.coefficients),
            self.config.ar,
        )
        values = np.concatenate([w, np.zeros((len(w), horizon, w.shape[2]))], axis=1)
        n = w.shape[1]
        for t in range(n, n + horizon):
            for i in range(p):
                values[:, t] += self.coefficients[i] * values[:, t - i - 1]
            for lag, weight in lags.items():
                if 0 <= t - lag < n:
                    values[:, t] += weight * errors[:, t - lag]
        ahead = values[:, n:]
        for k in range(self.differences, 0, -1):  # undo differences, the last one first
            ahead = np.diff(season, n=k - 1, axis=1)[:, -1:] + np.cumsum(ahead, axis=1)
        if self._cycle > 1:
            values_ahead = np.concatenate([past[:, -self._cycle :], np.zeros_like(ahead)], axis=1)
            for h in range(horizon):
                values_ahead[:, self._cycle + h] = ahead[:, h] + values_ahead[:, h]
            ahead = values_ahead[:, self._cycle :]
        return ahead

    def arrays(self) -> dict[str, np.ndarray]:
        return {**self.scale, "coefficients": self.coefficients}

    def array_specs(self, length: Length) -> dict[str, Spec]:
        size = self.config.ar + self.config.ma + (self._cycle > 1)
        return {
            **self.scale_specs(),
            "coefficients": Spec("float64", (size, len(self.columns)), -100.0, 100.0),
        }

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        self.restore_scale(arrays)
        self.coefficients = np.array(arrays["coefficients"])


def _seasonal(values: np.ndarray, cycle: int) -> np.ndarray:
    return values[:, cycle:] - values[:, :-cycle] if cycle > 1 else values
