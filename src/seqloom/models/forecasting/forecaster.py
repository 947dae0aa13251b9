"""A neural forecaster: an encoder of any kind over patches of the window, and a head that predicts
all steps of the horizon at once.

It learns the expected value and two quantiles of each step. The quantiles set the width of the
intervals from window to window, and the errors on held-out data their coverage (conformalised
quantile regression, Romano et al. 2019, with a scale).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from seqloom import progress
from seqloom.arrays import Length, Spec
from seqloom.contracts import FitOptions, Forecaster
from seqloom.contracts.saving import Kind, one_of, positive
from seqloom.data.forecasting import Series
from seqloom.data.forecasting_windows import Windows
from seqloom.errors import ConfigError, DataError, suggest_known
from seqloom.kernels.parallel import chunk_bounds, parallel_map
from seqloom.models.forecasting.configs import NeuralForecasterConfig, seasons_back
from seqloom.models.network.network import NetworkModel, prepare, train_model
from seqloom.runtime.forecasting import ForecastNet
from seqloom.runtime.weights import Weights
from seqloom.traces import Trace, Traced, by_text

PATCHES = 14  # about as many as a window is cut into
ROWS_PER_BATCH = 1024  # rows of a batch when forecasting
MIN_SPREAD = 1e-3  # between the quantiles, in scaled values


class NeuralForecaster(NetworkModel, Forecaster):
    name = "forecaster"
    config_class = NeuralForecasterConfig
    learnt_values: ClassVar[dict[str, Kind]] = {
        **Forecaster.learnt_values,
        "patch": positive,
        "missing": one_of(True, False),
        **NetworkModel.network_values,
    }
    inputs_16_bit = True
    public_names = "trace"
    unused_training_options: ClassVar[dict[str, str]] = {
        "truncation": "windows are read whole",
        "random_truncation": "windows are read whole",
    }

    def label(self) -> str:
        return (
            f"{self.config.encoder}-{self.config.d_hidden}{self.bits_label}"
            if self.fitted
            else self.name
        )

    @property
    def n_known(self) -> int:
        """Return the number of columns known in advance that the network reads: six of the calendar,
        if it is read, and those of the data.
        """
        clocked = self.config.calendar and self.learnt["step"][1] != "row"
        return (6 if clocked else 0) + len(self.learnt["known_columns"])

    def choose_window(self, data: Series) -> int:
        longest = max(map(len, data.tracks))
        window = self.config.window or max(min(seasons_back(self.season, 48), longest // 6), 1)
        self.learnt["patch"] = min(self.config.patch or max(round(window / PATCHES), 1), window)
        self.learnt["missing"] = bool(any(np.isnan(track.values).any() for track in data.tracks))
        return window

    def settled_options(self) -> dict[str, Any]:
        return self.config.all_options() | {
            name: self.learnt[name] for name in ("season", "window", "patch")
        }

    def _sizes(self) -> dict[str, Any]:
        """Return the sizes that both networks, with torch and without, take from the data."""
        columns = 1 if self.config.columns == "separate" else len(self.columns)
        return {
            "n_columns": columns,
            "n_known": self.n_known,
            "window": self.window,
            "horizon": self.horizon,
            "missing": self.learnt["missing"],
            "patch": self.learnt["patch"],
        }

    def build_fitted(self) -> Any:
        from seqloom.models.forecasting import forecaster_net

        try:
            return forecaster_net.ForecastNet(self.config, **self._sizes())
        except ValueError as error:  # options that do not go together
            raise ConfigError(str(error)) from error

    def fit_series(self, data: Series, options: FitOptions) -> None:
        config, device = prepare(self.name, options)
        from seqloom.models.forecasting.forecaster_net import ForecastTraining

        valid = options.valid if options.valid is not data else None
        train_model(
            self,
            ForecastTraining(self, data, valid, config),
            config,
            device,
            options,
            valid=None if valid is None else valid.fingerprint,
        )

    # ---- forecasting

    def forecast_windows(self, windows: Windows, horizon: int) -> np.ndarray:
        return self._outputs(windows)[:, :horizon, :, 0]

    def spread_windows(self, windows: Windows, horizon: int) -> np.ndarray:
        """Return the distance between the two quantiles."""
        output = self._outputs(windows)[:, :horizon]
        return np.maximum(output[..., 2] - output[..., 1], MIN_SPREAD)

    def _rows_of(self, windows: Windows) -> list[np.ndarray]:
        """Return what the network reads of windows: values, what is known in advance, what is missing. Where
        columns are read on their own, each is a row, those of a window one after the other.
        """
        separate, columns = self.config.columns == "separate", len(self.columns)

        def rows(array: np.ndarray) -> np.ndarray:
            """Return (n, W, C) as (n * C, W, 1) where columns are read on their own."""
            return array.swapaxes(1, 2).reshape(-1, array.shape[1], 1) if separate else array

        known = windows.known[..., windows.known.shape[2] - self.n_known :]
        if separate:
            known = np.repeat(known, columns, axis=0)
        arrays = rows(windows.past), known, rows(~windows.present)
        return [np.ascontiguousarray(array, np.float32) for array in arrays]

    def _outputs(self, windows: Windows) -> np.ndarray:
        """Predict expected value and quantiles, float64 (n, H, C, 3)."""
        separate, columns = self.config.columns == "separate", len(self.columns)
        rows_of = self._rows_of(windows)
        run = self._run_by_torch if self.net.on_cpu is False else self.runtime()
        bounds = chunk_bounds(len(rows_of[0]), ROWS_PER_BATCH)
        parts = parallel_map(lambda part: run(*(array[slice(*part)] for array in rows_of)), bounds)
        output = np.concatenate(list(parts)).astype(np.float64)
        return (
            output.reshape(len(windows), columns, self.horizon, 3).swapaxes(1, 2)
            if separate
            else output
        )

    def last_window(
        self, history: Any, *, before: int = 0, column: str | None = None
    ) -> tuple[list[np.ndarray], np.ndarray, list[str]]:
        """Return what the network reads of the last window of a series, each array with an axis for one row;
        the values that come after it, scaled, (before, C); and the last time of each of its patches.

        `before`: how many steps before the end of the series the window ends. `column`: which one, where
        columns are read on their own; the first unless it is given.
        """
        self.check_fitted()
        if history is None:
            raise DataError("there is no series; give one, or a file that has one")
        series = self.read_like(history)
        if len(series.tracks) > 1:
            progress.say(f"of {len(series.tracks):,} series the first is read")
        prepared = self.prepared(replace(series, tracks=series.tracks[:1]), future=not before)[0]
        end = len(prepared.values) - before
        if end < 1:
            raise DataError(
                f"{series.name} has {len(prepared.values)} steps; give more than {before}"
            )
        row = 0
        if column is not None:
            if column not in self.columns:
                raise ConfigError(
                    f"unknown column {column!r}{suggest_known(column, self.columns)}", ["column"]
                )
            if self.config.columns != "separate":
                raise ConfigError("this model reads all columns together; leave column out")
            row = self.columns.index(column)
        (_, windows), *_ = prepared.windows(np.array([end]))
        chosen = slice(row, row + 1)
        arrays = [array[chosen] for array in self._rows_of(windows)]
        columns = chosen if self.config.columns == "separate" else slice(None)
        truth = prepared.values[end:, columns]
        patch = int(self.learnt["patch"])
        ends = end - patch * np.arange(-(-self.window // patch))[::-1]
        times = [int(series.times(prepared.track, at - 1, at)[0]) for at in ends.tolist()]
        return arrays, truth, [series.clock.show(time) for time in times]

    def trace(self, history: Any, *patterns: str, column: str | None = None) -> Traced:
        """Return what the network computes while it reads the last window of a series, from which it
        forecasts what comes next: gates, states, weights of attention (`seqloom.traces` has their names). A
        step is a patch of the window, called by its last time.

        `patterns`: the wanted names, such as `*.gates.f`; none: all. `column`: which one, where columns are
        read on their own; the first unless it is given.
        """
        arrays, _, names = self.last_window(history, column=column)
        trace = Trace(*patterns)
        self.runtime()(*arrays, trace=trace)
        return Traced(names, by_text(trace))

    def _run_by_torch(self, *arrays: np.ndarray) -> np.ndarray:
        """Run the network on the model's device."""
        import torch

        network = self.network()
        device = next(network.parameters()).device
        with torch.inference_mode():
            return (
                network(*(torch.from_numpy(array).to(device) for array in arrays))
                .double()
                .cpu()
                .numpy()
            )

    # ---- persistence

    def arrays(self) -> dict[str, np.ndarray]:
        return {
            **self.scale,
            **{f"network.{name}": array for name, array in self.net.arrays().items()},
        }

    def array_specs(self, length: Length) -> dict[str, Spec]:
        specs = super().array_specs(length)
        return {**self.scale_specs(), **{f"network.{name}": spec for name, spec in specs.items()}}

    def take_runtime(self, weights: Weights) -> ForecastNet:
        c = self.config
        return ForecastNet(
            weights,
            c.encoder,
            c.d_hidden,
            c.n_layers,
            normalise=c.normalise,
            highway=c.highway,
            options=c.encoder_options,
            **self._sizes(),
        )

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        self.restore_scale(arrays)
        super().restore_arrays(
            {
                name.removeprefix("network."): array
                for name, array in arrays.items()
                if name.startswith("network.")
            }
        )
