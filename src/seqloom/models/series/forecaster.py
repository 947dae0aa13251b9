"""A neural forecaster: an encoder of any kind over patches of the window, and a head that gives all steps to come at once.

It learns the expected value and two quantiles of each step; the quantiles say how wide intervals are from window to window,
and the errors on held-out data how often they hold (conformalised quantile regression, Romano et al. 2019, with a scale).
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from seqloom.arrays import Length, Spec
from seqloom.contracts import Fitting, Forecaster
from seqloom.contracts.learnt import Kind, one_of, positive
from seqloom.data.series import Series
from seqloom.data.series_windows import Windows
from seqloom.errors import ConfigError
from seqloom.models.network.fitting import prepare, train_network
from seqloom.models.network.model import NetworkModel
from seqloom.models.network.shapes import Shapes, affine, within
from seqloom.models.network.trained import array_specs
from seqloom.models.sequence.shapes import d_encoded, encoder
from seqloom.models.series.configs import REACH, RECURRENT, NeuralForecasterConfig
from seqloom.models.series.lengths import seasons_back

PATCHES = 14  # that a window is cut into, about
TOGETHER = 1024  # rows of a batch when forecasting
NARROWEST = 1e-3  # of a spread, scaled


class NeuralForecaster(NetworkModel, Forecaster):
    name = "forecaster"
    config_class = NeuralForecasterConfig
    learnt_values: ClassVar[dict[str, Kind]] = {**Forecaster.learnt_values, "patch": positive, "missing": one_of(True, False)}
    idle_train: ClassVar[dict[str, str]] = {"truncation": "windows are read whole", "recompute": "it is small",
                                            "random_truncation": "windows are read whole"}

    def label(self) -> str:
        return f"{self.config.encoder}-{self.config.d_hidden}" if self.fitted else self.name

    @property
    def n_known(self) -> int:
        """Columns of what is known in advance that the network reads: the calendar, if wanted, and those of the data."""
        clocked = self.config.calendar and self.learnt["step"][1] != "row"
        return (6 if clocked else 0) + len(self.learnt["known_columns"])

    def choose_window(self, data: Series) -> int:
        longest = max(map(len, data.tracks))
        window = self.config.window or max(min(seasons_back(self.season, 48), longest // 6), 1)
        self.learnt["patch"] = min(self.config.patch or max(round(window / PATCHES), 1), window)
        self.learnt["missing"] = bool(any(np.isnan(track.values).any() for track in data.tracks))
        return window

    def settled_options(self) -> dict[str, Any]:
        return self.get_params() | {name: self.learnt[name] for name in ("season", "window", "patch")}

    def build_fitted(self) -> Any:
        from seqloom.models.series.forecaster_net import ForecastNet

        columns = 1 if self.config.columns == "separate" else len(self.columns)
        try:
            return ForecastNet(self.config, n_columns=columns, n_known=self.n_known, missing=self.learnt["missing"],
                               window=self.window, patch=self.learnt["patch"], horizon=self.horizon)
        except ValueError as error:  # options that do not go together
            raise ConfigError(str(error)) from error

    def fit_series(self, data: Series, how: Fitting) -> None:
        config, device = prepare(self.name, how)
        from seqloom.models.series.forecaster_task import ForecastTask

        valid = how.valid if how.valid is not data else None
        facts = {"model": self.name, "config": self.config.to_dict(), "data": self.fit_info["data_hash"],
                 "valid": None if valid is None else valid.fingerprint}
        task = ForecastTask(self, data, valid, config)
        network, record = train_network(task, config, device, run=how.run, facts=facts, start=how.start)
        self.net.keep(network)
        self.fit_info |= record

    # ---- forecasting

    def forecast_windows(self, windows: Windows, horizon: int) -> np.ndarray:
        return self._outputs(windows)[:, :horizon, :, 0]

    def spread_windows(self, windows: Windows, horizon: int) -> np.ndarray:
        """The distance of the two quantiles."""
        output = self._outputs(windows)[:, :horizon]
        return np.maximum(output[..., 2] - output[..., 1], NARROWEST)

    def _outputs(self, windows: Windows) -> np.ndarray:
        """Expected value and quantiles, float64 (n, H, C, 3)."""
        import torch

        network, separate = self.network(), self.config.columns == "separate"
        device, columns = next(network.parameters()).device, len(self.columns)

        def rows(array: np.ndarray) -> np.ndarray:
            """(n, W, C) as (n * C, W, 1) where columns are read on their own."""
            return array.swapaxes(1, 2).reshape(-1, array.shape[1], 1) if separate else array

        arrays = {"values": rows(windows.past), "known": windows.known[..., windows.known.shape[2] - self.n_known:],
                  "absent": rows(~windows.present)}
        if separate:
            arrays["known"] = np.repeat(arrays["known"], columns, axis=0)
        parts = []
        with torch.inference_mode():
            for start in range(0, len(arrays["values"]), TOGETHER):
                some = [torch.from_numpy(np.ascontiguousarray(array[start:start + TOGETHER], np.float32)).to(device)
                        for array in arrays.values()]
                parts.append(network(*some).double().cpu().numpy())
        output = np.concatenate(parts)
        return output.reshape(len(windows), columns, self.horizon, 3).swapaxes(1, 2) if separate else output

    # ---- persistence

    def arrays(self) -> dict[str, np.ndarray]:
        return {**self.scale, **{f"network.{name}": array for name, array in self.weights.items()}}

    def array_specs(self, length: Length) -> dict[str, Spec]:
        return {**self.scale_specs(), **array_specs(within("network", self.fitted_shapes()))}

    def fitted_shapes(self) -> Shapes:
        c, patch = self.config, self.learnt["patch"]
        columns, steps = 1 if c.columns == "separate" else len(self.columns), -(-self.window // patch)
        features = columns * (1 + self.learnt["missing"]) + self.n_known
        read = d_encoded(c, c.d_hidden) * (1 if c.encoder in RECURRENT else steps)
        shapes = {**within("reader", affine(c.d_hidden, patch * features)), **encoder(c, c.d_hidden, reach=REACH),
                  **within("head", affine(self.horizon * columns * 3, read))}
        shapes |= within("ahead", affine(columns * 3, self.n_known)) if self.n_known else {}
        return shapes | ({"highway.weight": (self.horizon, self.window)} if c.highway else {})

    def restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        self.restore_scale(arrays)
        self.net.restore({name.removeprefix("network."): array for name, array in arrays.items()
                          if name.startswith("network.")})
