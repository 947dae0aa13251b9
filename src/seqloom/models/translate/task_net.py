"""Training a translator: the loss of a batch of pairs, and scheduled sampling.

Trained on true targets, a decoder never sees its own mistakes. Scheduled sampling (Bengio et al. 2015) replaces more and more
of its inputs by its own predictions. They are drawn for all steps at once from a first pass over the true target (Duckworth et
al. 2019, "Parallel Scheduled Sampling"), so that it costs one more pass instead of one step after the other.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from seqloom.models.network.output_net import summed_loss
from seqloom.training.devices import Tensors

ROWS = 1024  # places for which predictions are drawn at a time


def pair_loss(network: Any, batch: Tensors, sampling: str = "none", half: float = 1.0) -> Tensor:
    """The sum of the losses of the target tokens."""
    memory, inputs = network.encode(batch.arrays), batch["inputs"]
    begin = (
        inputs.shape[1] - batch["targets"].shape[1]
    )  # inputs before that which predicts the first target
    if sampling != "none" and network.training:
        share = true_share(sampling, float(batch["epochs"][0]), half)
        inputs = mixed_inputs(network, memory, inputs, share, begin)
    return summed_loss(network.output, network.features(memory, inputs)[:, begin:], batch)


def true_share(decay: str, epochs: float, half: float) -> float:
    """The share of true inputs after so many epochs: 1 at first, 0.5 after `half`.

    linear: 1 - e / (2 half), down to 0; exponential: 0.5 ^ (e / half); inverse sigmoid: k / (k + exp(x)) with k = 100 and
    an x that is proportional to e.

    >>> [round(true_share("inverse-sigmoid", e, 10), 2) for e in (0, 10, 20)]
    [0.99, 0.5, 0.01]
    """
    if decay == "linear":
        return max(1.0 - epochs / (2 * half), 0.0)
    if decay == "exponential":
        return float(0.5 ** (epochs / half))
    return 1 / (1 + math.exp(min(math.log(100) * (epochs / half - 1), 700.0)))


@torch.no_grad()
def mixed_inputs(network: Any, memory: Any, inputs: Tensor, share: float, begin: int = 0) -> Tensor:
    """Return inputs (B, T) of which each after the first `begin` + 1 is true with probability `share`, else
    drawn from what the network predicts there after the true ones before it."""
    drawn = draw(network, network.features(memory, inputs))
    own = torch.rand(inputs.shape, device=inputs.device) >= share
    own[:, : begin + 1] = False
    return torch.where(own, torch.roll(drawn, 1, 1), inputs)


def draw(network: Any, features: Tensor) -> Tensor:
    """A token for each of features (B, T, D), drawn by its probability."""
    flat, parts = features.flatten(0, 1), []
    for low in range(0, len(flat), ROWS):
        log_probs = network.output.log_probs(flat[low : low + ROWS])
        noise = (
            torch.empty_like(log_probs).exponential_().log_()
        )  # the smallest of exponential numbers, each by its rate
        parts.append((log_probs - noise).argmax(1))
    return torch.cat(parts).view(features.shape[:2])
