"""Numbers of statsmodels for tests/models/test_forecasters.py: python
tests/golden/statsmodels_answers.py (needs statsmodels).

Written with statsmodels 0.15; the file beside it is what it printed.
"""

import json
from pathlib import Path

import numpy as np


def smoothing() -> dict:
    from statsmodels.tsa.holtwinters import ExponentialSmoothing

    rng, t = np.random.default_rng(5), np.arange(96)
    values = 10 + 0.05 * t + 3 * np.sin(2 * np.pi * t / 12) + 0.3 * rng.normal(size=96)
    level, trend, season = 9.8, 0.06, (3 * np.sin(2 * np.pi * np.arange(12) / 12)).tolist()
    alpha, beta, gamma, phi = 0.35, 0.05, 0.2, 0.95
    model = ExponentialSmoothing(
        values,
        trend="add",
        damped_trend=True,
        seasonal="add",
        seasonal_periods=12,
        initialization_method="known",
        initial_level=level,
        initial_trend=trend,
        initial_seasonal=season,
    )
    # its constant of the trend is beta / alpha
    fitted = model.fit(
        smoothing_level=alpha,
        smoothing_trend=beta / alpha,
        smoothing_seasonal=gamma,
        damping_trend=phi,
        optimized=False,
    )
    return {
        "values": values.tolist(),
        "level": level,
        "trend": trend,
        "season": season,
        "alpha": alpha,
        "beta": beta,
        "gamma": gamma,
        "phi": phi,
        "fitted": fitted.fittedvalues.tolist(),
        "forecast": fitted.forecast(24).tolist(),
    }


def arima() -> dict:
    from statsmodels.tsa.arima.model import ARIMA

    rng = np.random.default_rng(6)
    e, values = rng.normal(size=1300), np.zeros(1300)
    for t in range(2, 1300):
        values[t] = 0.6 * values[t - 1] + 0.2 * values[t - 2] + e[t] + 0.4 * e[t - 1]
    values = values[300:] - values[300:].mean()
    fitted = ARIMA(values, order=(2, 0, 1), trend="n").fit()
    return {
        "values": values.tolist(),
        "coefficients": fitted.params[:3].tolist(),
        "forecast": fitted.forecast(12).tolist(),
    }


if __name__ == "__main__":
    place = Path(__file__).with_name("statsmodels.json")
    place.write_text(json.dumps({"smoothing": smoothing(), "arima": arima()}) + "\n")
