"""`nn.transformer.GPTNet` with the output layer that the config asks for."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from seqloom.models.language.neural_configs import GPTConfig
from seqloom.models.language.output_net import make_output
from seqloom.nn.transformer import GPTNet


class GPTLanguageNet(GPTNet):
    output: Any

    def __init__(self, config: GPTConfig, vocab_size: int, width: int, counts: Tensor | None = None) -> None:
        c = config
        super().__init__(vocab_size, c.context, width, c.n_layers, c.n_heads, positions=c.positions, norm=c.norm,
                         activation=c.activation, dropout=c.dropout)
        tied = c.tied and c.softmax != "adaptive"
        self.output = make_output(c, width, vocab_size, self.embedding if tied else None, counts, bias=False)

    def forward(self, ids: Tensor, state: Any = None) -> tuple[Tensor, None]:
        """What the output layer reads, (B, T, D); nothing is carried."""
        return self.features(ids)[0], None
