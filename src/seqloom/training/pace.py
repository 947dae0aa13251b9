"""How a run of so many minutes ends in time, on a machine that gets busier or quieter while it runs.

The learning rate rises, stays, and falls (warm-up, stable, decay: Hu et al. 2024, MiniCPM). Only the
fall needs to know the end, so the end is decided late: after every step the time that is left says how
many more would fit, and when those are DECAY of the whole, the decay begins. If the machine then changes
so much that the run would end early or late, the rate falls from where it is to the end that is now
expected.

What is decided this way is a list of pairs of steps, which repeats the run without a clock. Durations
are part of the checkpoint, so a run that goes on has the time that it had left.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from seqloom import progress
from seqloom.training.config import MINUTES, TrainConfig
from seqloom.training.trainable import DECAY, DelayedGroup, Trainable
from seqloom.training.update import Updater

TOLERANCE = 0.03  # of the time: so much early or late is in time
# How far back the duration of a step is measured: a share of the time, but not fewer steps than these.
_MEMORY, _MEMORY_STEPS = 0.03, 20


class Pace:
    """Decides from durations when the learning rate falls, and when the run ends.

    `seconds`: the time given; `evaluate_every`: steps between two evaluations; `decays`: whether the
    schedule has a decay at all.
    """

    def __init__(
        self, seconds: float, evaluate_every: int, decays: bool = True, evaluation: float = 0.0
    ) -> None:
        self.seconds, self.evaluate_every, self.decays = seconds, evaluate_every, decays
        self.spent = 0.0
        self.evaluation = evaluation  # seconds of the last one, at first as it was timed
        # From which step on the rate falls, towards which end.
        self.plan: list[tuple[int, int]] = []
        self._time, self._steps = 0.0, 0.0  # of the last steps, older ones counting less

    def evaluated(self, seconds: float) -> None:
        """Count an evaluation; there will be more like it, one of them at the end."""
        self.evaluation = seconds
        self.spent += seconds

    def stepped(self, step: int, seconds: float) -> None:
        """Count the step after which `step` are done; begin the decay, or change its end, if it is time."""
        self.spent += seconds
        kept = math.exp(-min(seconds / (_MEMORY * self.seconds), 1 / _MEMORY_STEPS))
        self._time, self._steps = self._time * kept + seconds, self._steps * kept + 1
        if not self.decays:
            if self.left <= 0:
                self.plan.append((step, step))  # once: a shorter evaluation does not open it again
            return
        more = self.left / self._seconds_per_step()
        if not self.plan:
            begins = more * (1 - DECAY) <= DECAY * step
        else:
            drift = (self.plan[-1][1] - step - more) * self._seconds_per_step()
            begins = abs(drift) > TOLERANCE * self.seconds
        if begins:
            self.plan.append((step, step + max(round(more), 0)))

    @property
    def left(self) -> float:
        """Return the seconds that are left for steps, before the last evaluation."""
        return self.seconds - self.evaluation - self.spent

    def ends(self, step: int) -> bool:
        """Return whether the run ends after so many steps."""
        return bool(self.plan) and step >= self.plan[-1][1]

    def _seconds_per_step(self) -> float:
        step = self._time / self._steps + self.evaluation / self.evaluate_every
        return max(step, 1e-9)

    def state(self) -> dict[str, Any]:
        """Return all that a later decision depends on."""
        return {
            "spent": self.spent,
            "evaluation": self.evaluation,
            "plan": self.plan,
            "recent": [self._time, self._steps],
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.spent, self.evaluation = state["spent"], state["evaluation"]
        # The same list, since a schedule reads it.
        self.plan[:] = [(begin, end) for begin, end in state["plan"]]
        self._time, self._steps = state["recent"]


# ---- length

_WARM, _TIMED = 2, 8  # steps that are not counted, and how many are, where the time allows it
_TRIAL = 0.03  # of the time may go into timing
_EVALUATIONS = 20  # how many if the task does not say
_SHARE = 0.1  # of the time: the most that evaluations may take
# Steps that are made however little data there is, where nothing is said about length.
_FEWEST = 100
_LITTLE = 0.1  # of a pass: who trains less is told

Clock = Callable[[], float]


@dataclass(frozen=True)
class Length:
    """How long to train: `steps`, or so many `seconds`, for which `steps` is only an estimate."""

    steps: int
    evaluate_every: int
    seconds: float | None = None
    spent: float = 0.0  # seconds that the estimate took
    evaluation: float = 0.0  # seconds of the evaluation in it


def decide_length(
    task: Trainable,
    config: TrainConfig,
    device: torch.device,
    groups: Sequence[DelayedGroup] = (),
    initial: Mapping[str, np.ndarray] | None = None,
    clock: Clock = time.perf_counter,
    shards: int = 1,
) -> Length:
    """Decide how many steps to train, or how long, and after how many steps to evaluate.

    Of several processes all make the steps that are timed, so they must read one `clock`.
    """
    most = getattr(task, "evaluations", _EVALUATIONS)
    per_epoch = max(task.batches.length((0, 0)) / config.usual_batches, 1)
    if not config.timed:
        steps = config.steps or max(round((config.epochs or 1) * per_epoch), 1)
        planned = config.planned_steps or steps
        return Length(steps, config.evaluate_every or max(planned // most, 1))
    begun = clock()
    seconds = 60 * (MINUTES if config.minutes is None else config.minutes)
    enough = getattr(task, "enough_epochs", None)
    step, evaluation = time_updates(
        Updater(task, config, device, groups, initial, shards), seconds * _TRIAL, clock
    )
    if enough is not None and (config.enough or config.minutes is None):
        # of little data, which more passes would only teach by heart
        steps = max(round(enough * per_epoch), _FEWEST)
        if steps * step + most * evaluation <= seconds:
            progress.say(
                f"{steps:,} steps, {steps / per_epoch:.0f} epochs; epochs=... or minutes=... gives "
                "another length"
            )
            return Length(steps, config.evaluate_every or max(steps // most, 1))
    evaluations = min(max(int(seconds * _SHARE / max(evaluation, 1e-6)), 2), most)
    left = max(seconds - evaluations * evaluation, seconds / 2)
    steps = config.planned_steps or max(int(left / step), 1)
    every = config.evaluate_every or -(-steps // evaluations)
    progress.say(f"{seconds / 60:g} minutes: about {steps:,} steps, {steps / per_epoch:.1f} epochs")
    say_little(steps / per_epoch, per_epoch * step)
    return Length(steps, every, seconds, clock() - begun, evaluation)


def say_little(epochs: float, pass_seconds: float) -> None:
    """Say that the data was, or will be, hardly seen."""
    if epochs < _LITTLE:
        progress.say(
            f"warning: this time is enough for {epochs:.1%} of the data; one pass takes about "
            f"{pass_seconds / 60:,.3g} minutes"
        )


def time_updates(
    updater: Updater, longest: float, clock: Clock = time.perf_counter
) -> tuple[float, float]:
    """Measure the seconds of a usual step and of an evaluation, on a network that is thrown away."""
    times: list[float] = []
    begun = clock()
    while len(times) < _WARM + _TIMED and (len(times) <= _WARM or clock() - begun < longest):
        start = clock()
        updater.update(len(times), len(times) + 1, 0.0)
        times.append(clock() - start)
    counted = sorted(times[_WARM:])
    updater.network.eval()
    start = clock()
    updater.task.evaluate(updater.network)
    # as steps were timed, each was the last of a run, where batches have grown
    usual = updater.config.usual_batches / updater.config.batches_of(1, 1)
    return max(counted[len(counted) // 2] * usual, 1e-9), clock() - start
