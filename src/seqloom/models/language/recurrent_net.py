"""Recurrent language models as networks: token vectors, a recurrent stack, an output layer (Mikolov et al. 2010;
Zaremba et al. 2014 for dropout between layers; Press and Wolf 2017 for the tied output; Merity et al. 2018 for the rest).

With tied weights and a state of another width than the vectors, a `bridge` brings one to the other.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from seqloom.encoder_table import find_cell
from seqloom.models.language.neural_configs import RECURRENT_SHAPE, RecurrentConfig
from seqloom.models.network.configs import options_of
from seqloom.models.network.output_net import Output, make_output
from seqloom.nn.initialisation import initialise
from seqloom.nn.layers import VariationalDropout, word_dropout
from seqloom.nn.recurrent import RecurrentStack
from seqloom.trace import Trace, within


class RecurrentNet(nn.Module):
    output: Output

    def __init__(
        self,
        config: RecurrentConfig,
        cell: str,
        vocab_size: int,
        width: int,
        counts: Tensor | None = None,
        d_embed: int | None = None,
    ) -> None:
        super().__init__()
        c = config
        d_embed = d_embed or c.d_embed or width
        entry = find_cell(cell)
        options = {
            name: getattr(c, name) for name in entry.options + entry.training if hasattr(c, name)
        }
        self.embedding = nn.Embedding(vocab_size, d_embed)
        self.recurrent = RecurrentStack(
            d_embed,
            width,
            c.n_layers,
            cell=cell,
            dropout=c.dropout or 0.0,
            options=options,
            **options_of(c, f"{RECURRENT_SHAPE} variational weight_drop recurrent_dropout"),
        )
        tied = c.tied and c.softmax != "adaptive"
        d_out = self.recurrent.d_out
        self.bridge = nn.Linear(d_out, d_embed) if tied and d_out != d_embed else None
        self.output = make_output(
            c.softmax,
            d_embed if tied else d_out,
            vocab_size,
            tied=self.embedding if tied else None,
            counts=counts,
            samples=c.samples,
            label_smoothing=c.label_smoothing,
        )
        drop = VariationalDropout if c.variational else nn.Dropout
        self.drop_in, self.drop_out, self.word_dropout = (
            drop(c.input_dropout or 0.0),
            drop(c.dropout or 0.0),
            c.word_dropout,
        )
        initialise(self.recurrent)
        nn.init.normal_(self.embedding.weight, std=d_embed**-0.5)

    def forward(
        self, ids: Tensor, state: Any = None, trace: Trace | None = None
    ) -> tuple[Tensor, Any]:
        """What the output layer reads, (B, T, D), and the state after it; a trace gets `recurrent...`."""
        x = word_dropout(self.embedding, ids, self.word_dropout if self.training else 0.0)
        x, state = self.recurrent(self.drop_in(x), state, trace=within(trace, "recurrent"))
        x = self.drop_out(x)
        return (x if self.bridge is None else self.bridge(x)), state
