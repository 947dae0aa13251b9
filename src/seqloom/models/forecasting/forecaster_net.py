"""The network of the neural forecaster: an encoder over patches of a window, and a head that predicts
all steps of the horizon at once; and its training, on windows of all series and columns in random order.

A window is cut into patches of neighbouring steps (Nie et al. 2023, "A Time Series is Worth 64
Words"; Lin et al. 2023, "SegRNN"), so that a recurrent network makes a dozen steps instead of
hundreds. Each column is read on its own with the same weights, which those papers found better than
all together. The normalisation of a window is undone in its forecast (Kim et al. 2022, "Reversible
Instance Normalization"). Beside the encoder a weighted sum of the window goes straight to the
forecast, as the highway of LSTNet (Lai et al. 2018) does: the network learns what a linear model
does not see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from torch import Tensor, nn

from seqloom.data.forecasting import Series
from seqloom.encoder_table import find_encoder
from seqloom.errors import DataError
from seqloom.nn.composition import xavier_linear
from seqloom.traces import Trace, within
from seqloom.training.batches import Batch, Batches, Examples
from seqloom.training.trainable import Criterion

if TYPE_CHECKING:
    from seqloom.models.forecasting.forecaster import NeuralForecaster
    from seqloom.training.config import TrainConfig


QUANTILES = (0.1, 0.9)
MIN_DEVIATION = 1e-4  # added to a standard deviation, which may be 0


class ForecastNet(nn.Module):
    """`values` (B, W, C) and columns `known` in advance (B, W + H, K) to (B, H, C, 3): expected
    value, 10 % and 90 % quantile.
    """

    def __init__(
        self,
        config: Any,
        *,
        n_columns: int,
        n_known: int,
        missing: bool,
        window: int,
        patch: int,
        horizon: int,
    ) -> None:
        super().__init__()
        self.window, self.patch, self.horizon, self.n_columns, self.n_known = (
            window,
            patch,
            horizon,
            n_columns,
            n_known,
        )
        self.missing, self.normalise = missing, config.normalise
        features = n_columns * (2 if missing else 1) + n_known
        self.steps = -(-window // patch)
        self.reader = xavier_linear(patch * features, config.d_hidden)
        self.dropout = nn.Dropout(config.dropout)
        entry = find_encoder(config.encoder)
        self.encoder = entry.make_network(
            config.d_hidden,
            config.d_hidden,
            config.n_layers,
            config.encoder_options,
            dropout=config.dropout,
        )
        self.last = entry.last_state == "last"
        d_head = self.encoder.d_out * (1 if self.last else self.steps)
        self.head = xavier_linear(d_head, horizon * n_columns * 3)
        self.ahead = xavier_linear(n_known, n_columns * 3) if n_known else None
        self.highway = nn.Linear(window, horizon, bias=False) if config.highway else None
        if self.highway is not None:
            nn.init.zeros_(self.highway.weight)

    def forward(
        self,
        values: Tensor,
        known: Tensor | None = None,
        absent: Tensor | None = None,
        trace: Trace | None = None,
    ) -> Tensor:
        level, scale = self._normal(values)
        past = (values - level) / scale
        parts = [past]
        if self.missing:
            parts.append(torch.zeros_like(values) if absent is None else absent)
        if known is not None and self.n_known:
            parts.append(known[:, : self.window])
        x = torch.cat(parts, 2) if len(parts) > 1 else parts[0]
        short = self.steps * self.patch - self.window
        if short:
            x = torch.cat([x[:, :1].expand(-1, short, -1), x], 1)
        x = torch.relu(self.reader(x.reshape(x.shape[0], self.steps, -1)))
        x = self.encoder(self.dropout(x), None, within(trace, "encoder"))
        x = x[:, -1] if self.last else x.flatten(1)
        y = self.head(self.dropout(x)).view(x.shape[0], self.horizon, self.n_columns, 3)
        if self.ahead is not None and known is not None:
            y = y + self.ahead(known[:, self.window :]).view(
                x.shape[0], self.horizon, self.n_columns, 3
            )
        if self.highway is not None:
            y = y + self.highway(past.transpose(1, 2)).transpose(1, 2).unsqueeze(3)
        return y * scale.unsqueeze(3) + level.unsqueeze(3)

    def _normal(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return the level that is subtracted and the scale that is divided by, (B, 1, C)."""
        if self.normalise == "instance":
            return values.mean(1, keepdim=True), values.std(
                1, keepdim=True, unbiased=False
            ) + MIN_DEVIATION
        ones = torch.ones_like(values[:, :1])
        return (
            (values[:, -1:], ones) if self.normalise == "last" else (torch.zeros_like(ones), ones)
        )


def losses(output: Tensor, targets: Tensor) -> Tensor:
    """Compute squared error plus pinball loss of each target that is not missing, (N,)."""
    present = targets.isfinite()
    y, predicted = targets[present], output[present]
    total = (predicted[:, 0] - y) ** 2
    for k, level in enumerate(QUANTILES, 1):
        error = y - predicted[:, k]
        total = total + torch.maximum(level * error, (level - 1) * error)
    return total


# ---- training

ROWS = 256  # windows of a batch, unless the options say otherwise
MOST_VALID = 500  # windows of each held-out series that are evaluated while training
# Enough where the options do not say: windows overlap, so a pass sees each value many times.
EPOCHS, STEPS = 5.0, 600


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
                f"{data.name} is too short to learn from: a window of {model.window} steps and "
                f"{model.horizon} to "
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
                    errors = (_run(network, batch)[..., 0] - batch["targets"]).cpu().numpy()
                    squares, count = (
                        squares + float(np.nansum(errors.astype(np.float64) ** 2)),
                        count + np.isfinite(errors).sum(),
                    )
        return squares / count if count else None

    def readings(self, value: float, held_out: bool) -> dict[str, float]:
        return {}


class _Source:
    """The windows of one series: one example for each origin, or for each origin and column where
    columns are read separately.
    """

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
        """Return the arrays of the examples with these numbers, float32."""
        model, origins = self.model, self.origins[chosen // self.columns]
        column = chosen % self.columns
        w, h = model.window, model.horizon

        def cut(array: np.ndarray, length: int) -> np.ndarray:
            view = sliding_window_view(array, length, axis=0)
            return (
                view[origins, column][:, :, None] if self.separate else view[origins].swapaxes(1, 2)
            )

        examples = {"values": cut(self.past, w), "targets": cut(self.after, h)}
        if model.n_known:
            examples["known"] = sliding_window_view(self.known, w + h, axis=0)[origins].swapaxes(
                1, 2
            )[..., -model.n_known :]
        if model.learnt["missing"]:
            examples["absent"] = 1 - cut(self.present, w).astype(np.float32)
        return {name: np.ascontiguousarray(array) for name, array in examples.items()}


def _run(network: Any, batch: Any) -> Any:
    known = batch["known"] if network.n_known else None
    absent = batch["absent"] if network.missing else None
    return network(batch["values"], known, absent)
