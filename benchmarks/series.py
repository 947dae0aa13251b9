"""Forecasters on ETTh1 (12/4/4 months, seven columns), and coverage of intervals; `anomalies` has
the detectors.

ETTh1 is scaled by the mean and standard deviation of its first twelve months (8,640 hours), as in
the papers; settings were chosen on the next four months (2,880 hours), and the last four are looked
at once. Files are below $SEQLOOM_DATA/series.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.side_by_side import collect, data, sized, table
from seqloom.data.forecasting import Series, read_series
from seqloom.registry import model_class
from seqloom.training.config import TrainConfig

MONTHS = sized(
    (8640, 11_520, 14_400), (200, 260, 320)
)  # hours after which training, validation and test end
WINDOW = sized(336, 24)
MODELS: dict[str, dict[str, Any]] = {
    "naive": {},
    "seasonal-naive": {},
    "exponential-smoothing": {},
    "arima": {},
    "linear-window": {"window": WINDOW},
    "forecaster": {"window": WINDOW},
}


def run(quick: bool, only: str) -> None:
    table(
        "forecasters",
        collect(Bench(quick).suites(), only),
        ("data", "horizon", "model", "MSE", "MAE", "MASE", "80 %", "95 %", "seconds to fit"),
    )


class Bench:
    def __init__(self, quick: bool) -> None:
        self.quick = quick

    def suites(self) -> dict[str, Callable[[], Iterator[tuple[str, ...]]]]:
        return {"etth1": self.etth1, "temperatures": self.temperatures}

    def etth1(self) -> Iterator[tuple[str, ...]]:
        if (path := data("series", "ETTh1.csv")) is None:
            return
        whole = read_series(path).between(0, MONTHS[2])
        train, valid, test = (
            whole.between(0, MONTHS[0]),
            whole.between(*MONTHS[:2]),
            whole.between(*MONTHS[1:]),
        )
        for horizon in (24,) if self.quick else (24, 96):
            for name, options in MODELS.items():
                yield self._row("ETTh1", name, {**options, "horizon": horizon}, train, valid, test)

    def temperatures(self) -> Iterator[tuple[str, ...]]:
        """Ten years of daily minima in Melbourne: seven years to learn from, one to calibrate, two
        to judge.
        """
        if (path := data("series", "daily-min-temperatures.csv")) is None:
            return
        whole = read_series(path)
        train, valid, test = (whole.between(a, b) for a, b in ((0, 0.7), (0.7, 0.8), (0.8, 1.0)))
        for name in ("seasonal-naive", "exponential-smoothing", "linear-window", "forecaster"):
            yield self._row(
                "daily temperatures",
                name,
                {"horizon": 7, "window": sized(98, 14)},
                train,
                valid,
                test,
            )

    def _row(
        self,
        title: str,
        name: str,
        options: dict[str, Any],
        train: Series,
        valid: Series,
        test: Series,
    ) -> tuple[str, ...]:
        if name in ("naive", "seasonal-naive"):
            options = {key: value for key, value in options.items() if key != "window"}
        model = model_class(name)(**options)
        how = (
            {"train": TrainConfig(epochs=0.2 if self.quick else 3, seed=0)} if model.trained else {}
        )
        start = time.perf_counter()
        model.fit(train, valid=valid, **how)
        seconds = time.perf_counter() - start
        r = model.evaluate(test, samples=0)
        return (
            title,
            str(options["horizon"]),
            model.label(),
            f"{r['mse']:.4f}",
            f"{r['mae']:.4f}",
            f"{r['mase']:.3f}",
            f"{r['coverage_80']:.1%}",
            f"{r['coverage_95']:.1%}",
            f"{seconds:.0f}",
        )
