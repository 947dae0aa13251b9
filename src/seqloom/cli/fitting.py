"""What `fit` offers for models that count and for networks that are trained by steps.

A network's checkpoints are in OUT.run beside OUT; the same command goes on from there after any interruption. The log
of its training is saved with the model; then the checkpoints go.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seqloom.cli.options import config_options, given
from seqloom.errors import ConfigError, TrainingError
from seqloom.training.config import TrainConfig

if TYPE_CHECKING:
    from seqloom.contracts import LanguageModel
    from seqloom.data.corpus import Corpus


def counting_options(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--memory", metavar="SIZE",
                        help="Work on disk when counting needs more than this (800M, 2G).")(function)


def training_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Those of `TrainConfig`, the device, and what to do with an unfinished run."""
    function = click.option("--restart", is_flag=True, help="Begin anew where an unfinished run is found.")(function)
    function = click.option("--device", metavar="NAME", help="cpu, cuda, cuda:1, mps; without it a GPU if there is "
                                                             "one.")(function)
    return config_options(TrainConfig)(function)


@dataclass(frozen=True)
class Training:
    """How a network is to be trained, checked as far as can be before the text is read."""

    config: TrainConfig
    device: str | None
    run: Path
    restart: bool


def prepare(name: str, output: str, options: dict[str, Any]) -> Training:
    """The options of training; what this machine cannot do is refused here, not after an hour of tokenizing."""
    from seqloom.models.language.neural import require_torch
    from seqloom.training.checkpoint import Run

    config = TrainConfig(**given(TrainConfig, options))
    require_torch(name)
    from seqloom.training.devices import check_precision, find_device
    from seqloom.training.log import check_tensorboard

    check_precision(config, find_device(options["device"]))
    check_tensorboard(config)
    run = Path(f"{output.rstrip('/')}.run")
    Run(run).check()
    return Training(config, options["device"], run, options["restart"])


def train_and_save(model: LanguageModel, corpus: Corpus, valid: Corpus | None, output: str, how: Training) -> None:
    """Train with checkpoints beside the output, then save."""
    from seqloom.storage import EVENTS, TRAINING_LOG, save
    from seqloom.training.checkpoint import LOG, Run

    if how.restart and how.run.exists():
        shutil.rmtree(how.run)
    try:
        model.fit(corpus, valid=valid, train=how.config, device=how.device, run=how.run)
    except ConfigError:
        if not Run(how.run).has_checkpoint() and not (how.run / LOG).exists():
            shutil.rmtree(how.run, ignore_errors=True)  # nothing was trained yet
        raise
    except TrainingError as error:
        again = "; other settings need --restart" if Run(how.run).has_checkpoint() else ""
        raise TrainingError(f"{error}{again}") from error
    except KeyboardInterrupt:
        if not Run(how.run).has_checkpoint():
            raise
        raise KeyboardInterrupt(f"interrupted; {how.run} holds what was done, the same command goes on from there") from None
    save(model, output, {TRAINING_LOG: how.run / LOG, EVENTS: how.run / EVENTS})
    shutil.rmtree(how.run)
