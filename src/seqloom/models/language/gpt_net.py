"""`nn.transformer.GPTNet` with the output layer that the config asks for."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from seqloom.models.language.neural_configs import GPT_SHAPE, GPTConfig
from seqloom.models.network.configs import options_of
from seqloom.models.network.output_net import make_output
from seqloom.nn.transformer import GPTNet
from seqloom.trace import Trace


class GPTLanguageNet(GPTNet):
    output: Any

    def __init__(
        self, config: GPTConfig, vocab_size: int, width: int, counts: Tensor | None = None
    ) -> None:
        c = config
        super().__init__(
            vocab_size,
            c.context,
            width,
            c.n_layers,
            c.n_heads,
            dropout=c.dropout or 0.0,
            **options_of(c, GPT_SHAPE),
        )
        tied = c.tied and c.softmax != "adaptive"
        self.output = make_output(
            c.softmax,
            width,
            vocab_size,
            tied=self.embedding if tied else None,
            counts=counts,
            samples=c.samples,
            label_smoothing=c.label_smoothing,
            bias=False,
        )

    def forward(
        self, ids: Tensor, state: Any = None, trace: Trace | None = None
    ) -> tuple[Tensor, None]:
        """What the output layer reads, (B, T, D); nothing is carried."""
        return self.features(ids, trace=trace)[0], None
