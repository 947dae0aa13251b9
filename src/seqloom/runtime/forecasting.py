"""The network of the neural forecaster (`models.forecasting.forecaster_net`) without torch:
windows in, all steps to come out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from seqloom.encoder_table import ENCODERS
from seqloom.kernels.maths import RELU, activate
from seqloom.runtime.weights import Linear, Weights
from seqloom.traces import Trace, within

MIN_DEVIATION = 1e-4  # added to a standard deviation, which is divided by


class ForecastNet:
    """`values` (B, W, C) and known covariates (B, W + H, K) to (B, H, C, 3): expected value, 10 % and
    90 % quantile.
    """

    def __init__(
        self,
        weights: Weights,
        encoder: str,
        d_hidden: int,
        n_layers: int,
        *,
        n_columns: int,
        n_known: int,
        missing: bool,
        window: int,
        patch: int,
        horizon: int,
        normalise: str,
        highway: bool,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Take the weights; `options` are those of the encoder."""
        self.window, self.patch, self.horizon = window, patch, horizon
        self.n_columns, self.n_known = n_columns, n_known
        self.missing, self.normalise = missing, normalise
        features = n_columns * (2 if missing else 1) + n_known
        self.steps = -(-window // patch)
        self.reader: Linear = weights.linear("reader", d_hidden, patch * features)
        entry = ENCODERS[encoder]
        self.encoder = entry.take(
            weights.within("encoder"), d_hidden, d_hidden, n_layers, options or {}
        )
        self.last = entry.last_state == "last"
        d_read = self.encoder.d_out * (1 if self.last else self.steps)
        self.head: Linear = weights.linear("head", horizon * n_columns * 3, d_read, role="output")
        self.ahead: Linear | None = (
            weights.linear("ahead", n_columns * 3, n_known) if n_known else None
        )
        self.highway: Linear | None = None
        if highway:
            self.highway = weights.linear("highway", horizon, window, bias=False)

    def __call__(
        self,
        values: np.ndarray,
        known: np.ndarray | None = None,
        absent: np.ndarray | None = None,
        trace: Trace | None = None,
    ) -> np.ndarray:
        level, scale = self._normal(values)
        past = (values - level) / scale
        parts = [past]
        if self.missing:
            parts.append(np.zeros_like(values) if absent is None else absent)
        if known is not None and self.n_known:
            parts.append(known[:, : self.window])
        x = np.concatenate(parts, axis=2) if len(parts) > 1 else past
        if short := self.steps * self.patch - self.window:
            x = np.concatenate([np.repeat(x[:, :1], short, axis=1), x], axis=1)
        rows = len(x)
        x = activate(self.reader(x.reshape(rows * self.steps, -1)), RELU)
        x = self.encoder(x, np.arange(rows + 1) * self.steps, within(trace, "encoder"))
        x = x.reshape(rows, self.steps, -1)
        y = self.head(x[:, -1] if self.last else x.reshape(rows, -1))
        y = y.reshape(rows, self.horizon, self.n_columns, 3)
        if self.ahead is not None and known is not None:
            later = np.ascontiguousarray(known[:, self.window :]).reshape(rows * self.horizon, -1)
            y = y + self.ahead(later).reshape(y.shape)
        if self.highway is not None:
            straight = self.highway(past.transpose(0, 2, 1).reshape(rows * self.n_columns, -1))
            y = (
                y
                + straight.reshape(rows, self.n_columns, self.horizon).transpose(0, 2, 1)[..., None]
            )
        return y * scale[..., None] + level[..., None]

    def _normal(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return level and scale, which values are normalised by, each (B, 1, C)."""
        if self.normalise == "instance":
            return values.mean(1, keepdims=True), values.std(1, keepdims=True) + np.float32(
                MIN_DEVIATION
            )
        ones = np.ones_like(values[:, :1])
        return (values[:, -1:], ones) if self.normalise == "last" else (np.zeros_like(ones), ones)
