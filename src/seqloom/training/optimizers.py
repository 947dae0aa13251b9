"""torch's optimisers by name, their state as named arrays, and means of the weights."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import torch
from torch import nn

from seqloom.training.config import TrainConfig

_EXPONENTIAL = 0.999
_TAIL = 0.75  # `tail` averages what comes after this share of the steps


def make_optimizer(config: TrainConfig, network: nn.Module, late: Collection[str] = ()) -> torch.optim.Optimizer:
    """Weight decay holds for matrices only; biases and gains of norms are left alone.

    Parameters with these `late` names are in groups of their own, which say so.
    """
    groups: list[dict[str, Any]] = []
    for waits in (False, True):
        parameters = [p for name, p in network.named_parameters() if p.requires_grad and (name in late) == waits]
        groups += [{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": config.weight_decay, "late": waits},
                   {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0, "late": waits}]
    groups = [group for group in groups if group["params"]]
    lr = config.rate
    if config.optimizer == "adamw":
        return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.99), fused=True)
    if config.optimizer == "adam":
        return torch.optim.Adam(groups, lr=lr, betas=(0.9, 0.999), fused=True)
    if config.optimizer == "rmsprop":
        return torch.optim.RMSprop(groups, lr=lr, foreach=True)
    return torch.optim.SGD(groups, lr=lr, momentum=0.9 if config.optimizer == "momentum" else 0.0, foreach=True)


def optimizer_arrays(optimizer: torch.optim.Optimizer) -> dict[str, np.ndarray]:
    """`number of the parameter . name`: array."""
    state = optimizer.state_dict()["state"]
    return {f"{number}.{name}": value.detach().cpu().numpy() for number, values in state.items()
            for name, value in values.items() if isinstance(value, torch.Tensor)}


def restore_optimizer(optimizer: torch.optim.Optimizer, arrays: dict[str, np.ndarray]) -> None:
    whole = optimizer.state_dict()
    state: dict[int, dict[str, Any]] = {}
    for key, array in arrays.items():
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = torch.from_numpy(np.array(array))
    whole["state"] = state
    optimizer.load_state_dict(whole)


class Average:
    """A running mean of the weights (Polyak and Juditsky 1992), in which gradient noise cancels."""

    def __init__(self, config: TrainConfig, network: nn.Module, steps: int) -> None:
        self.kind = "tail" if config.optimizer == "asgd" else config.average
        self.begins = int(steps * _TAIL) if self.kind == "tail" else 0
        self.network, self.count = network, 0
        self.mean: dict[str, torch.Tensor] = {}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """After update number `step`."""
        if self.kind == "none" or step < self.begins:
            return
        weights = {name: w for name, w in self.network.state_dict().items() if w.is_floating_point()}
        if not self.mean:
            self.mean = {name: w.detach().clone() for name, w in weights.items()}
            self.count = 1
            return
        self.count += 1
        share = 1 / self.count if self.kind == "tail" else max(1 - _EXPONENTIAL, 1 / self.count)
        torch._foreach_lerp_([self.mean[name] for name in weights], list(weights.values()), share)

    def weights(self) -> dict[str, torch.Tensor]:
        """What to evaluate and keep."""
        return {**self.network.state_dict(), **self.mean}
