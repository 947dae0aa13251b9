"""The networks of the neural language models in torch (Transformer, NPLM, recurrent), and
`LanguageTraining`, by which the training engine trains them.

Each network returns what its output layer reads, and its state.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from seqloom.encoder_table import find_cell
from seqloom.errors import ConfigError
from seqloom.metrics.language import token_widths, unit_lengths
from seqloom.models.language.configs import (
    GPT_SHAPE,
    NPLM_EMBED,
    RECURRENT_SHAPE,
    GPTConfig,
    NPLMConfig,
    RecurrentConfig,
)
from seqloom.models.network.configs import options_of
from seqloom.models.network.first_layer import Size
from seqloom.models.network.output_net import Output, make_output, summed_loss
from seqloom.nn.initialisation import initialise
from seqloom.nn.layers import VariationalDropout, word_dropout
from seqloom.nn.recurrent import RecurrentStack
from seqloom.nn.transformer import GPTNet
from seqloom.traces import Trace, within
from seqloom.training.batches import Batches
from seqloom.training.config import TrainConfig
from seqloom.training.devices import Tensors
from seqloom.training.trainable import Criterion

if TYPE_CHECKING:
    from seqloom.models.language.neural import NeuralLanguageModel
    from seqloom.models.network.first_layer import FirstLayer


class GPTLanguageNet(GPTNet):
    """`nn.transformer.GPTNet` with the output layer of the config."""

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
        """Return what the output layer reads, (B, T, D); there is no state."""
        return self.features(ids, trace=trace)[0], None


# ---- nplm net


class NPLMNet(nn.Module):
    """Bengio et al. 2003, equation 1: y = b + W x + U tanh(d + H x), x the vectors of the last
    order - 1 tokens.

    The output layer holds U and W side by side and reads [tanh(..), x].
    """

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
        """Return what the output layer reads of the windows that end in the last T of the ids
        (B, before - 1 + T).
        """
        vectors = self.embedding(ids)  # (B, before - 1 + T, E)
        steps = ids.shape[1] - self.before + 1
        # (B, T, before * E)
        x = torch.cat([vectors[:, i : i + steps] for i in range(self.before)], 2)
        h = self.drop(torch.tanh(self.hidden(x)))
        return (torch.cat((h, x), dim=2) if self.direct else h), None


# ---- recurrent net


class RecurrentNet(nn.Module):
    """Token vectors, a recurrent stack and an output layer (Mikolov et al. 2010).

    Dropout between layers is that of Zaremba et al. 2014, the tied output of Press and Wolf 2017,
    the rest of Merity et al. 2018. If weights are tied and the state has another width than the
    vectors, a `bridge` projects it to theirs.
    """

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
        """Return what the output layer reads, (B, T, D), and the state after it; a trace gets
        `recurrent...`.
        """
        x = word_dropout(self.embedding, ids, self.word_dropout if self.training else 0.0)
        x, state = self.recurrent(self.drop_in(x), state, trace=within(trace, "recurrent"))
        x = self.drop_out(x)
        return (x if self.bridge is None else self.bridge(x)), state


# ---- task net

MOST_VALID = 20_000  # tokens of the valid text that are used during training
VALID_ROWS = 32  # read in parallel, as one row would take long


class LanguageTraining:
    criterion, counted, unit = Criterion("nats"), "tokens", "nats"
    chosen: dict[str, Any]

    def __init__(
        self,
        model: NeuralLanguageModel,
        batches: Batches,
        size: Size,
        ids: np.ndarray,
        valid: np.ndarray | None,
        train: TrainConfig,
        first: FirstLayer | None = None,
    ) -> None:
        self.model, self.batches, self.size, self.train = model, batches, size, train
        self.valid = None if valid is None or len(valid) == 0 else valid[:MOST_VALID]
        self.lengths = np.zeros(0, np.int64) if self.valid is None else self._sequences(self.valid)
        self.counts = np.bincount(ids, minlength=model.tokenizer.vocab_size)
        self.first, self.widths = first, self._bytes_per_token()

    def _sequences(self, valid: np.ndarray) -> np.ndarray:
        """Return the lengths of the sequences in which the valid text is scored: units, or a few rows
        if the state is carried on.
        """
        if not self.model.carry:
            return unit_lengths(valid, self.model.tokenizer.eos_id)
        rows = min(VALID_ROWS, max(len(valid) // 64, 1))
        return np.diff(np.linspace(0, len(valid), rows + 1).astype(np.int64))

    def _bytes_per_token(self) -> tuple[float, float] | None:
        """Return the bytes per token of the training text and of the valid text; None if the tokenizer
        is not lossless.
        """
        tokenizer, unit = self.model.tokenizer, self.model.unit
        if not tokenizer.lossless:
            return None
        size = token_widths(tokenizer, unit, np.arange(tokenizer.vocab_size))
        train = float(self.counts @ size) / max(int(self.counts.sum()), 1)
        return (
            (train, train if self.valid is None else float(size[self.valid].mean()))
            if train
            else None
        )

    def readings(self, value: float, held_out: bool) -> dict[str, float]:
        return {"bits_per_byte": value / math.log(2) / self.widths[held_out]} if self.widths else {}

    def build(self) -> nn.Module:
        try:
            network: Any = self.model.layers.build(
                self.model, self.size, torch.from_numpy(self.counts)
            )
        except ValueError as error:  # options that do not go together
            raise ConfigError(str(error)) from error
        if self.first is not None:
            self.first.fill(
                network.embedding, frozen=self.model.config.pretrained_training == "frozen"
            )
        return network

    def loss(self, network: Any, batch: Tensors, state: Any) -> tuple[torch.Tensor, Any]:
        features, state = network(batch["inputs"], state)  # (B, T, D)
        return summed_loss(network.output, features, batch), state

    def evaluate(self, network: nn.Module) -> float | None:
        if self.valid is None:
            return None
        log_probs = self.model.flat_log_probs(network, self.valid, self.lengths)
        return -float(log_probs.mean(dtype=np.float64))
