"""A neural language model as the training engine sees it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from seqloom.errors import ConfigError
from seqloom.metrics.language import token_widths, unit_lengths
from seqloom.models.network.output_net import summed_loss
from seqloom.models.network.sizes import Size
from seqloom.training.batches import Batches
from seqloom.training.config import TrainConfig
from seqloom.training.devices import Tensors
from seqloom.training.trainable import Criterion

if TYPE_CHECKING:
    from seqloom.models.language.neural import NeuralLanguageModel
    from seqloom.models.network.first_layer import FirstLayer

MOST_VALID = 20_000  # tokens of the valid text that are used during training
VALID_ROWS = 32  # in which they are read side by side, as one row would take long


class LanguageTraining:
    criterion, counted, unit = Criterion("nats"), "tokens", "nats"

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
        """How the valid text is scored: unit by unit, or where the state is carried on, in a few rows."""
        if not self.model.carry:
            return unit_lengths(valid, self.model.tokenizer.eos_id)
        rows = min(VALID_ROWS, max(len(valid) // 64, 1))
        return np.diff(np.linspace(0, len(valid), rows + 1).astype(np.int64))

    def _bytes_per_token(self) -> tuple[float, float] | None:
        """Of the training text and of the valid text, for texts differ in it; None where the tokenizer loses some."""
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
        if self.train.recompute:
            network.checkpoint = True
        return network

    def loss(self, network: Any, batch: Tensors, state: Any) -> tuple[torch.Tensor, Any]:
        features, state = network(batch["inputs"], state)  # (B, T, D)
        return summed_loss(network.output, features, batch), state

    def evaluate(self, network: nn.Module) -> float | None:
        if self.valid is None:
            return None
        log_probs = self.model.flat_log_probs(network, self.valid, self.lengths)
        return -float(log_probs.mean(dtype=np.float64))
