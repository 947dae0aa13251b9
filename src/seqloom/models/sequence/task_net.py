"""A composed network as the training engine sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from seqloom.errors import ConfigError
from seqloom.models.sequence.encoded import Encoded
from seqloom.training.batches import Batch, Batches, Examples
from seqloom.training.config import TrainConfig
from seqloom.training.devices import Tensors
from seqloom.training.trainable import Criterion

BATCH_SIZE, ENOUGH = 32, 30.0
MOST_STEPS = (
    1 << 14
)  # of a batch with its padding, so that a few very long examples fit into memory


@dataclass
class SequenceTraining:
    batches: Batches
    criterion: Criterion
    make: Callable[[], nn.Module]
    losses: Callable[
        [Any, Tensors], torch.Tensor
    ]  # the network and a batch to the sum of its losses
    judge: (
        Callable[[Any], float] | None
    )  # the network to the criterion on held-out data; None: there is none
    counted: str = "examples"
    unit: str = "nats"
    enough_epochs: float = ENOUGH  # where the time suffices for them and no other number is given
    evaluations: int = 20  # on held-out data, at most

    def build(self) -> nn.Module:
        try:
            return self.make()
        except ValueError as error:  # options that do not go together
            raise ConfigError(str(error)) from error

    def loss(self, network: Any, batch: Tensors, state: Any) -> tuple[torch.Tensor, None]:
        return self.losses(network, batch), None

    def evaluate(self, network: nn.Module) -> float | None:
        return None if self.judge is None else self.judge(network)

    def readings(self, value: float, held_out: bool) -> dict[str, float]:
        return {}


def tagged_steps(batch: Mapping[str, Any]) -> Any:
    """How many steps of each example have a tag: all, or as many as it has words."""
    return batch["word_counts"] if "word_counts" in batch else batch["lengths"]


def example_batches(
    encoded: Encoded,
    train: TrainConfig,
    targets: np.ndarray | None = None,
    weights: np.ndarray | None = None,
) -> Examples:
    """Examples of like length together. `targets` of each example; without them those of the steps, which are among the arrays.
    `weights` of each example: how much its loss counts, whatever else is in its batch."""

    def collate(chosen: np.ndarray) -> Batch:
        arrays = encoded.batch(chosen)
        if targets is not None:
            return Batch(
                {
                    **arrays,
                    "targets": targets[chosen],
                    **({} if weights is None else {"weights": weights[chosen]}),
                }
            )
        return Batch(
            arrays, mask=np.arange(arrays["targets"].shape[1]) < tagged_steps(arrays)[:, None]
        )

    return Examples(
        encoded.lengths,
        collate,
        batch_size=train.batch_size or BATCH_SIZE,
        most_steps=MOST_STEPS,
        seed=train.seed,
    )
