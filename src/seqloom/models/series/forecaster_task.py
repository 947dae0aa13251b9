"""The neural forecaster as the training engine sees it: windows of all series and columns in random order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from seqloom.data.forecasting import Series
from seqloom.errors import DataError
from seqloom.training.batches import Batch, Batches, Examples
from seqloom.training.trainable import Criterion

if TYPE_CHECKING:
    from seqloom.models.series.forecaster import NeuralForecaster
    from seqloom.training.config import TrainConfig

ROWS = 256  # windows of a batch, unless the options say otherwise
MOST_VALID = 500  # windows of each series that are looked at while training
EPOCHS, STEPS = (
    5.0,
    600,
)  # that are enough where nothing is said; windows overlap, so a pass sees each value many times


class ForecastTraining:
    criterion, counted, unit = Criterion("MSE"), "values", "squared error and pinball loss"

    def __init__(
        self, model: NeuralForecaster, data: Series, valid: Series | None, train: TrainConfig
    ) -> None:
        self.model = model
        self.sources = [_Source(model, prepared) for prepared in model.prepared(data)]
        self.valid = (
            []
            if valid is None
            else [_Source(model, prepared, MOST_VALID) for prepared in model.prepared(valid)]
        )
        self.ends = np.cumsum([len(source) for source in self.sources])
        if not self.ends[-1]:
            raise DataError(
                f"{data.name} is too short to learn from: a window of {model.window} steps and {model.horizon} to "
                f"forecast need more than its {max(map(len, data.tracks))}; give smaller ones, or more data"
            )
        self.batches: Batches = Examples(
            np.ones(int(self.ends[-1])),
            self._collate,
            batch_size=train.batch_size or ROWS,
            seed=train.seed,
        )
        self.enough_epochs = max(EPOCHS, STEPS / self.batches.length((0, 0)))

    def _collate(self, chosen: np.ndarray) -> Batch:
        owner = np.searchsorted(self.ends, chosen, side="right")
        parts = [
            self.sources[k].arrays(chosen[owner == k] - (self.ends[k - 1] if k else 0))
            for k in np.unique(owner)
        ]
        return Batch({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})

    def build(self) -> Any:
        return self.model.build_fitted()

    def loss(self, network: Any, batch: Any, state: Any) -> tuple[Any, Any]:
        from seqloom.models.series.forecaster_net import losses

        each = losses(_run(network, batch), batch["targets"])
        return each.mean() * batch["targets"].numel() if len(each) else each.sum(), None

    def evaluate(self, network: Any) -> float | None:
        import torch

        squares = count = 0.0
        with torch.inference_mode():
            device = next(network.parameters()).device
            for source in self.valid:
                for start in range(0, len(source), ROWS):
                    arrays = source.arrays(np.arange(start, min(start + ROWS, len(source))))
                    batch = {
                        name: torch.from_numpy(array).to(device) for name, array in arrays.items()
                    }
                    off = (_run(network, batch)[..., 0] - batch["targets"]).cpu().numpy()
                    squares, count = (
                        squares + float(np.nansum(off.astype(np.float64) ** 2)),
                        count + np.isfinite(off).sum(),
                    )
        return squares / count if count else None

    def readings(self, value: float, held_out: bool) -> dict[str, float]:
        return {}


class _Source:
    """The windows of one series: one example for each origin, and for each column where those are read on their own."""

    def __init__(self, model: NeuralForecaster, prepared: Any, most: int | None = None) -> None:
        self.model, self.separate = model, model.config.columns == "separate"
        self.origins = model.origins(prepared, model.horizon, most)
        self.columns = prepared.values.shape[1] if self.separate else 1
        past, present, known = prepared.views()
        self.past, self.present, self.known = (
            past.astype(np.float32),
            present,
            known.astype(np.float32),
        )
        self.after = np.pad(
            prepared.values, ((0, model.horizon), (0, 0)), constant_values=np.nan
        ).astype(np.float32)

    def __len__(self) -> int:
        return len(self.origins) * self.columns

    def arrays(self, chosen: np.ndarray) -> dict[str, np.ndarray]:
        """Examples by number, float32."""
        model, at = self.model, self.origins[chosen // self.columns]
        column = chosen % self.columns
        w, h = model.window, model.horizon

        def cut(array: np.ndarray, length: int) -> np.ndarray:
            view = sliding_window_view(array, length, axis=0)
            return view[at, column][:, :, None] if self.separate else view[at].swapaxes(1, 2)

        found = {"values": cut(self.past, w), "targets": cut(self.after, h)}
        if model.n_known:
            found["known"] = sliding_window_view(self.known, w + h, axis=0)[at].swapaxes(1, 2)[
                ..., -model.n_known :
            ]
        if model.learnt["missing"]:
            found["absent"] = 1 - cut(self.present, w).astype(np.float32)
        return {name: np.ascontiguousarray(array) for name, array in found.items()}


def _run(network: Any, batch: Any) -> Any:
    known = batch["known"] if network.n_known else None
    absent = batch["absent"] if network.missing else None
    return network(batch["values"], known, absent)
