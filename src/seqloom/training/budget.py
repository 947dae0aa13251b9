"""How many steps: given, from epochs, or from minutes by timing a few steps that are then thrown away."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np
import torch

from seqloom import progress
from seqloom.training.config import MINUTES, TrainConfig
from seqloom.training.schedules import DelayedGroup
from seqloom.training.trainable import Trainable
from seqloom.training.update import Updater

_WARM, _TIMED, _LONGEST = (
    2,
    8,
    20.0,
)  # steps that are not counted, least number that are, seconds at most
_TRIAL = 0.01  # of the time may go into timing: a longer run deserves a better guess
_EVALUATIONS, _SHARE = (
    20,
    0.1,
)  # how many if the task does not say, and the most of the time that they may take
_FEWEST = (
    100  # steps that are made however little data there is, where nothing is said about length
)


def count_steps(
    task: Trainable,
    config: TrainConfig,
    device: torch.device,
    groups: Sequence[DelayedGroup] = (),
    initial: Mapping[str, np.ndarray] | None = None,
) -> tuple[int, int]:
    """How many steps, and after how many of them to evaluate."""
    most = getattr(task, "evaluations", _EVALUATIONS)
    per_epoch = max(task.batches.length((0, 0)) / config.accumulate, 1)
    if config.steps is not None or config.epochs is not None:
        steps = config.steps or max(round((config.epochs or 1) * per_epoch), 1)
        return steps, config.evaluate_every or max(steps // most, 1)
    minutes, enough = (
        MINUTES if config.minutes is None else config.minutes,
        getattr(task, "enough_epochs", None),
    )
    if enough is not None:  # of little data, which more passes would only teach by heart
        steps = max(round(enough * per_epoch), _FEWEST)
        step, evaluation = _time(Updater(task, config, device, groups, initial), 0.0)
        if steps * step + most * evaluation <= minutes * 60:
            progress.say(
                f"{steps:,} steps, {steps / per_epoch:.0f} epochs; --epochs gives another number"
            )
            return steps, config.evaluate_every or max(steps // most, 1)
    step, evaluation = _time(Updater(task, config, device, groups, initial), minutes * 60 * _TRIAL)
    evaluations = min(max(int(minutes * 60 * _SHARE / max(evaluation, 1e-6)), 2), most)
    left = max(minutes * 60 - evaluations * evaluation, minutes * 30)
    steps = max(int(left / step), 1)
    every = config.evaluate_every or -(-steps // evaluations)
    progress.say(
        f"{minutes:g} minutes: {steps:,} steps, {steps / per_epoch:.1f} epochs "
        f"(--steps {steps} --evaluate-every {every} repeats this run)"
    )
    return steps, every


def _time(updater: Updater, trial: float) -> tuple[float, float]:
    """Seconds of a step and of an evaluation, on a network that is thrown away."""
    times: list[float] = []
    begun = time.perf_counter()
    while True:
        start = time.perf_counter()
        enough = len(times) >= _WARM + _TIMED and start - begun >= trial
        if enough or (start - begun >= _LONGEST and len(times) > _WARM):
            break
        updater.update(len(times), len(times) + 1, 0.0)
        times.append(time.perf_counter() - start)
    counted = sorted(times[_WARM:])
    updater.network.eval()
    start = time.perf_counter()
    updater.task.evaluate(updater.network)
    return counted[len(counted) // 2], time.perf_counter() - start
