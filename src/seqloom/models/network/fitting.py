"""Fitting a network by the training engine: what is refused before it, and what stays of it in the model's record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqloom import progress
from seqloom.contracts import Fitting
from seqloom.contracts.starting import Origin
from seqloom.errors import ConfigError
from seqloom.models.network.trained import require_torch
from seqloom.training.config import TrainConfig

if TYPE_CHECKING:
    import torch

    from seqloom.training.schedules import DelayedGroup
    from seqloom.training.trainable import Trainable


def check_idle(name: str, train: TrainConfig | None, idle: Mapping[str, str]) -> None:
    """Refuse options of training that have no effect on the model of that name; `idle` says what to do instead."""
    for option, advice in idle.items():
        if (
            train is not None
            and getattr(train, option) != TrainConfig.__dataclass_fields__[option].default
        ):
            raise ConfigError(f"{option} has no effect on {name}: {advice}")


def check_held_out(config: TrainConfig) -> None:
    """Where nothing is held out: refuse what only looks at results on held-out data."""
    names = [name for name in ("patience", "evaluate_every") if getattr(config, name) is not None]
    names += ["schedule plateau"] if config.schedule == "plateau" else []
    if names:
        raise ConfigError(
            f"{' and '.join(names)} need held-out data, and none is held out; "
            "give valid (--valid FILE)"
        )


def remark_frozen_vectors(start: Origin) -> None:
    """Say that pretrained vectors, frozen until now, are weights like others for whoever starts from them."""
    if getattr(start.model.config, "pretrained_training", None) == "frozen":
        progress.say(
            "the pretrained vectors, which were frozen in the model to start from, are trained now; "
            "--freeze '*embedding.weight' keeps them"
        )


def prepare(name: str, how: Fitting) -> tuple[TrainConfig, torch.device]:
    """How and where the model of that name is trained; what this machine cannot do is refused."""
    require_torch(name)
    from seqloom.training.devices import check_precision, find_device

    config, device = how.train or TrainConfig(), find_device(how.device)
    check_precision(config, device)
    return config, device


def train_network(
    task: Trainable,
    config: TrainConfig,
    device: torch.device,
    *,
    run: Path | None,
    facts: Mapping[str, Any],
    groups: Sequence[DelayedGroup] = (),
    start: Origin | None = None,
) -> tuple[torch.nn.Module, dict[str, Any]]:
    """Return the trained network, and what the model's record says of it.

    `run`: the directory of checkpoints; a run whose `facts` (model, options, data) are others is not continued.
    `groups`: weights that learn later or more slowly; `start`: whose weights it starts from.
    """
    from seqloom.training.checkpoint import Run
    from seqloom.training.loop import train

    if start is not None:
        remark_frozen_vectors(start)
    # An empty list (freeze, delay, lr_scale) is left out, as it is in the runs of earlier versions.
    options = {
        key: value
        for key, value in config.to_dict().items()
        if key != "tensorboard" and value != []
    }
    options["optimizer"] = config.rule
    known = {**facts, **({} if start is None else {"start": start.digest}), "train": options}
    report = train(
        task,
        config,
        device=device,
        run=Run(run) if run else None,
        facts=known,
        groups=groups,
        initial=None if start is None else start.weights,
    )
    report.network.requires_grad_(
        True
    )  # as in a loaded one: what was frozen for training is a weight like others
    record = {
        "train": options | {"steps": report.facts["steps"]},
        **report.facts,
        f"valid_{task.criterion.name}": report.valid,
        "best_step": report.best_step,
    }
    return report.network, record | ({} if start is None else start.record)


def train_model(
    model: Any,
    task: Trainable,
    config: TrainConfig,
    device: torch.device,
    how: Fitting,
    groups: Sequence[DelayedGroup] = (),
    **facts: Any,
) -> None:
    """Train the network of a model, which keeps it and the record; `facts` besides model, options and data."""
    facts |= {
        "model": model.name,
        "config": model.config.to_dict(),
        "data": model.fit_info["data_hash"],
    }
    network, record = train_network(
        task, config, device, run=how.run, facts=facts, groups=groups, start=how.start
    )
    model.net.keep(network)
    model.fit_info |= record
