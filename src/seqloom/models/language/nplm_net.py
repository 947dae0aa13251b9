"""Bengio et al. 2003, equation 1: y = b + W x + U tanh(d + H x), x the vectors of the last order - 1 tokens.

U and W stand side by side in the output layer, which reads [tanh(..), x].
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from seqloom.models.language.neural_configs import NPLM_EMBED, NPLMConfig
from seqloom.models.network.output_net import make_output


class NPLMNet(nn.Module):
    def __init__(
        self,
        config: NPLMConfig,
        vocab_size: int,
        width: int,
        counts: Tensor | None = None,
        d_embed: int | None = None,
    ) -> None:
        super().__init__()
        self.before, self.direct = config.order - 1, config.direct
        d_embed = d_embed or config.d_embed or NPLM_EMBED
        d_window = self.before * d_embed
        self.embedding = nn.Embedding(vocab_size, d_embed)
        self.hidden = nn.Linear(d_window, width)
        self.drop = nn.Dropout(config.dropout or 0.0)
        self.output = make_output(
            config.softmax,
            width + (d_window if config.direct else 0),
            vocab_size,
            counts=counts,
            samples=config.samples,
            label_smoothing=config.label_smoothing,
        )
        nn.init.normal_(self.embedding.weight, std=d_embed**-0.5)

    def forward(self, ids: Tensor, state: Any = None) -> tuple[Tensor, None]:
        """ids (B, before - 1 + T): for each of the last T, what the output layer reads of the window that it ends."""
        vectors = self.embedding(ids)  # (B, before - 1 + T, E)
        x = vectors.unfold(1, self.before, 1).transpose(2, 3).flatten(2)  # (B, T, before * E)
        h = self.drop(torch.tanh(self.hidden(x)))
        return (torch.cat((h, x), dim=2) if self.direct else h), None
