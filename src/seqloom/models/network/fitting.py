"""Fitting a network by the training engine: what is refused before it, and what stays of it in the model's record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqloom.contracts import Fitting
from seqloom.errors import ConfigError
from seqloom.models.network.trained import require_torch
from seqloom.training.config import TrainConfig

if TYPE_CHECKING:
    import torch

    from seqloom.training.schedules import DelayedGroup
    from seqloom.training.task import Task


def check_idle(name: str, train: TrainConfig | None, idle: Mapping[str, str]) -> None:
    """Refuse options of training that have no effect on the model of that name; `idle` says what to do instead."""
    for option, advice in idle.items():
        if train is not None and getattr(train, option) != TrainConfig.__dataclass_fields__[option].default:
            raise ConfigError(f"{option} has no effect on {name}: {advice}")


def check_held_out(config: TrainConfig) -> None:
    """Where nothing is held out: refuse what only looks at results on held-out data."""
    names = [name for name in ("patience", "evaluate_every") if getattr(config, name) is not None]
    names += ["schedule plateau"] if config.schedule == "plateau" else []
    if names:
        raise ConfigError(f"{' and '.join(names)} need held-out data, and none is held out; "
                          "give valid (--valid FILE)")


def prepare(name: str, how: Fitting) -> tuple[TrainConfig, torch.device]:
    """How and where the model of that name is trained; what this machine cannot do is refused."""
    require_torch(name)
    from seqloom.training.devices import check_precision, find_device

    config, device = how.train or TrainConfig(), find_device(how.device)
    check_precision(config, device)
    return config, device


def train_network(task: Task, config: TrainConfig, device: torch.device, *, run: Path | None, facts: Mapping[str, Any],
                  groups: Sequence[DelayedGroup] = ()) -> tuple[torch.nn.Module, dict[str, Any]]:
    """The trained network, and what the model's record says of it.

    `run`: the directory of checkpoints; a run whose `facts` (model, options, data) are others is not continued.
    """
    from seqloom.training.checkpoint import Run
    from seqloom.training.loop import train

    # An empty list (freeze, delay, lr_scale) is left out, as it is in the runs of earlier versions.
    options = {key: value for key, value in config.to_dict().items() if key != "tensorboard" and value != []}
    options["optimizer"] = config.rule
    report = train(task, config, device=device, run=Run(run) if run else None, facts={**facts, "train": options}, groups=groups)
    report.network.requires_grad_(True)  # as in a loaded one: what was frozen for training is a weight like others
    return report.network, {"train": options | {"steps": report.facts["steps"]}, **report.facts,
                            f"valid_{task.criterion.name}": report.valid, "best_step": report.best_step}
