"""The network of the neural forecaster: patches of a window, an encoder over them, and all steps to come at once.

A window is cut into patches of neighbouring steps (Nie et al. 2023, "A Time Series is Worth 64 Words"; Lin et al. 2023,
"SegRNN"), so that a recurrent network makes a dozen steps instead of hundreds. Each column is read on its own with the same
weights, which those papers found better than all together. What a window is normalised by is given back to the forecast (Kim
et al. 2022, "Reversible Instance Normalization"). Beside the encoder a weighted sum of the window goes straight to the
forecast, as the highway of LSTNet (Lai et al. 2018) does: the network learns what a linear model does not see. The head gives
for each step the expected value and two quantiles.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from seqloom.encoder_table import find_encoder
from seqloom.models.series.configs import REACH
from seqloom.nn.composition import xavier_linear
from seqloom.trace import Trace, within

QUANTILES = (0.1, 0.9)
SMALLEST = 1e-4  # of a standard deviation


class ForecastNet(nn.Module):
    """`values` (B, W, C) and what is known, (B, W + H, K), to (B, H, C, 3): expected value, 10 % and 90 % quantile."""

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
            {"n_heads": config.n_heads, "window": REACH},
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
        x = torch.relu(self.reader(x.reshape(len(x), self.steps, -1)))
        x = self.encoder(self.dropout(x), None, within(trace, "encoder"))
        x = x[:, -1] if self.last else x.flatten(1)
        y = self.head(self.dropout(x)).view(len(x), self.horizon, self.n_columns, 3)
        if self.ahead is not None and known is not None:
            y = y + self.ahead(known[:, self.window :]).view(
                len(x), self.horizon, self.n_columns, 3
            )
        if self.highway is not None:
            y = y + self.highway(past.transpose(1, 2)).transpose(1, 2).unsqueeze(3)
        return y * scale.unsqueeze(3) + level.unsqueeze(3)

    def _normal(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """What is subtracted and what it is divided by, (B, 1, C)."""
        if self.normalise == "instance":
            return values.mean(1, keepdim=True), values.std(
                1, keepdim=True, unbiased=False
            ) + SMALLEST
        ones = torch.ones_like(values[:, :1])
        return (
            (values[:, -1:], ones) if self.normalise == "last" else (torch.zeros_like(ones), ones)
        )


def losses(output: Tensor, targets: Tensor) -> Tensor:
    """Squared error and pinball loss of each target that is there, (N,)."""
    there = targets.isfinite()
    y, said = targets[there], output[there]
    total = (said[:, 0] - y) ** 2
    for k, level in enumerate(QUANTILES, 1):
        off = y - said[:, k]
        total = total + torch.maximum(level * off, (level - 1) * off)
    return total
