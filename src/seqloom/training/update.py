"""One update of the weights: the same in training and where steps are timed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from seqloom.errors import ConfigError, TrainingError
from seqloom.training.batches import Batch, Cursor
from seqloom.training.clipping import Clipper
from seqloom.training.config import TrainConfig
from seqloom.training.devices import autocast, on_device, scaler_for
from seqloom.training.groups import delayed_groups
from seqloom.training.optimizers import make_optimizer
from seqloom.training.schedules import DelayedGroup
from seqloom.training.states import detached, leading
from seqloom.training.trainable import Trainable

_HOPELESS = 3.0  # a loss so many times the first one, and above it by this much, is no learning


class Diverged(TrainingError):
    """The loss or the gradient is beyond hope."""


class Update(NamedTuple):
    loss: float  # mean of the targets
    norm: float  # of the gradient before it was clipped
    targets: float  # how many, each by its weight


def load_weights(network: nn.Module, weights: Mapping[str, np.ndarray]) -> None:
    """Give a network all of its weights and buffers; others in number, name or shape are refused."""
    wanted = {name: tuple(weight.shape) for name, weight in network.state_dict().items()}
    given = {name: tuple(weight.shape) for name, weight in weights.items()}
    for name in [*wanted, *given]:
        if wanted.get(name) != given.get(name):
            raise ConfigError(
                f"the weights to start from are of another network: {name} is "
                f"{given.get(name, 'not there')}, here {wanted.get(name, 'not there')}"
            )
    network.load_state_dict(
        {name: torch.from_numpy(np.array(weight)) for name, weight in weights.items()}
    )


def frozen_network(task: Trainable) -> nn.Module | None:
    """Return the second network of a task, if it has one."""
    return getattr(task, "frozen_network", None)


def _freeze(frozen: nn.Module, trained: nn.Module, device: torch.device) -> None:
    """Put the second network of a task beside the first, where it only answers."""
    own = set(map(id, trained.parameters()))
    if any(id(weight) in own for weight in frozen.parameters()):
        raise ValueError(
            "the frozen network shares weights with the trained one; give it a copy of them"
        )
    frozen.to(device).eval().requires_grad_(False)


class Updater:
    """The network and all that changes with each update, but for the learning rate."""

    def __init__(
        self,
        task: Trainable,
        config: TrainConfig,
        device: torch.device,
        groups: Sequence[DelayedGroup] = (),
        initial: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        """`initial`: weights by name that take the place of those that the network is built with."""
        torch.manual_seed(config.seed)
        self.task, self.config, self.device = task, config, device
        network = task.build()
        if initial is not None:
            load_weights(network, initial)
        self.network = network.to(device)
        if (frozen := frozen_network(task)) is not None:
            _freeze(frozen, self.network, device)
        self.groups = delayed_groups(self.network, groups, config)
        self.optimizer = make_optimizer(
            config, self.network, [group.patterns for group in self.groups]
        )
        self.clipper, self.scaler = Clipper(config), scaler_for(config, device)
        self.carried: Any = None
        self.cursor: Cursor = (0, 0)
        self.first_loss = math.inf

    def update(self, step: int, steps: int, rate: float) -> Update:
        """Update number `step` of `steps`, at this learning rate."""
        # Of the learning rate; the first is that of weights in no group.
        shares = [1.0, *(group.share(step, steps) for group in self.groups)]
        for delayed, share in zip(self.groups, shares[1:]):
            for name in delayed.patterns:
                self.network.get_parameter(name).requires_grad_(share > 0)
        batches = self._batches()
        count, total = sum(batch.count for batch in batches), 0.0
        for batch in batches:
            before = None if batch.fresh else leading(self.carried, batch.rows)
            with autocast(self.config, self.device):
                loss, state = self.task.loss(self.network, on_device(batch, self.device), before)
            total += float(loss.detach())
            self.scaler.scale(
                loss / count
            ).backward()  # every target of the update counts alike, however they are dealt out
            self.carried, self.cursor = detached(state), batch.following
        self._check(total / count)
        self.scaler.unscale_(self.optimizer)
        if self.config.gradient_noise:
            self._add_noise(
                math.sqrt(self.config.gradient_noise / (1 + step) ** 0.55)
            )  # Neelakantan et al. 2015
        norm = self.clipper(self.network.named_parameters())
        if not math.isfinite(norm) and not self.scaler.is_enabled():
            raise Diverged(f"the gradient is {norm}")
        for group in self.optimizer.param_groups:
            group["lr"] = rate * shares[group["delayed"]]
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        return Update(total / count, norm, count)

    def _batches(self) -> list[Batch]:
        """The batches of one update."""
        batches: list[Batch] = []
        cursor = self.cursor
        for _ in range(self.config.accumulate):
            batches.append(self.task.batches.batch(cursor))
            cursor = batches[-1].following
        if not sum(batch.count for batch in batches):
            raise TrainingError(
                "a batch has no targets to train on: their mask or weights are all zero"
            )
        return batches

    def _add_noise(self, deviation: float) -> None:
        for p in self.network.parameters():
            if p.grad is not None:
                p.grad.add_(torch.randn_like(p.grad), alpha=deviation)

    def _check(self, loss: float) -> None:
        if not math.isfinite(loss):
            raise Diverged(f"the loss is {loss}")
        if math.isinf(self.first_loss):
            self.first_loss = loss
        elif self.task.unit == "nats" and loss > max(
            _HOPELESS * self.first_loss, self.first_loss + _HOPELESS
        ):
            raise Diverged(
                f"the loss has grown from {self.first_loss:.2f} to {loss:.2f} {self.task.unit}"
            )
