"""A neural language model as the training engine sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from seqloom.errors import ConfigError
from seqloom.models.language.sizes import Size
from seqloom.training.batches import Batches
from seqloom.training.config import TrainConfig

if TYPE_CHECKING:
    from seqloom.models.language.neural import NeuralLanguageModel

MOST_VALID = 20_000  # tokens of the valid text that are used during training
VALID_ROWS = 32  # in which they are read side by side, as one row would take long


class LanguageTask:
    def __init__(self, model: NeuralLanguageModel, batches: Batches, size: Size, ids: np.ndarray,
                 valid: np.ndarray | None, device: torch.device, train: TrainConfig, vectors: np.ndarray | None = None) -> None:
        """`vectors` (V, D): those of the tokens to begin with."""
        self.model, self.batches, self.size, self.device, self.train = model, batches, size, device, train
        self.valid = None if valid is None or len(valid) == 0 else valid[:MOST_VALID]
        self.counts = np.bincount(ids, minlength=model.tokens().vocab_size)
        self.vectors = vectors

    def build(self) -> nn.Module:
        try:
            network: Any = self.model.build(self.size, torch.from_numpy(self.counts))
        except ValueError as error:  # options that do not go together
            raise ConfigError(str(error)) from error
        if self.vectors is not None:
            with torch.no_grad():
                network.embedding.weight.copy_(torch.from_numpy(self.vectors))
            network.embedding.weight.requires_grad_(self.model.config.pretrained_training != "frozen")
        if self.train.recompute:
            if not hasattr(network, "checkpoint"):
                raise ConfigError(f"recompute is for gpt; for {self.model.name} lower truncation to save memory")
            network.checkpoint = True
        return network

    def loss(self, network: Any, inputs: torch.Tensor, targets: torch.Tensor,
             state: Any) -> tuple[torch.Tensor, Any]:
        features, state = network(inputs, state)  # (B, T, D)
        return network.output.loss(features.reshape(-1, features.shape[-1]), targets.reshape(-1)), state

    def evaluate(self, network: nn.Module) -> float | None:
        if self.valid is None:
            return None
        with torch.inference_mode():
            rows = min(VALID_ROWS, max(len(self.valid) // 64, 1))
            lengths = np.diff(np.linspace(0, len(self.valid), rows + 1).astype(np.int64))
            found = self.model.flat_log_probs(network, self.valid, lengths, self.device)
        return -float(found.mean(dtype=np.float64))
