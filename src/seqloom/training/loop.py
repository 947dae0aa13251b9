"""The training loop of every network.

A step is a function of its number, the seed and the data; everything else that it depends on
(weights, optimiser, carried state, random state, position) is in the checkpoint. So an interrupted
run gives the same bits as an uninterrupted one, on the same machine with the same number of threads.

The number of steps is given, or comes from epochs, or from minutes by timing a few steps, whose
results are discarded.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from seqloom import progress
from seqloom.arrays import digest
from seqloom.errors import TrainingError
from seqloom.training import checkpoint
from seqloom.training import checkpoint as files
from seqloom.training.checkpoint import Interrupts
from seqloom.training.config import MINUTES, TrainConfig
from seqloom.training.devices import memory_advice
from seqloom.training.log import Log
from seqloom.training.optimizers import Average, optimizer_arrays, restore_optimizer
from seqloom.training.trainable import DelayedGroup, Schedule, Trainable
from seqloom.training.update import (
    Diverged,
    Update,
    Updater,
    frozen_network,
    leaves,
    rebuilt,
    shape_of,
)

# in timing: steps that are not counted, least number of counted ones, seconds at most
_WARM, _TIMED, _LONGEST = 2, 8, 20.0
_TRIAL = 0.01  # share of the time that timing may take: a longer run needs a better estimate
_EVALUATIONS, _SHARE = 20, 0.1  # number by default, and the largest share of the time for them
_FEWEST = 100  # steps however little data there is, where the options set no length


def count_steps(
    task: Trainable,
    config: TrainConfig,
    device: torch.device,
    groups: Sequence[DelayedGroup] = (),
    initial: Mapping[str, np.ndarray] | None = None,
) -> tuple[int, int]:
    """Return the number of steps, and of those between two evaluations."""
    most = getattr(task, "evaluations", _EVALUATIONS)
    per_epoch = max(task.batches.length((0, 0)) / config.accumulate, 1)
    if config.steps is not None or config.epochs is not None:
        steps = config.steps or max(round((config.epochs or 1) * per_epoch), 1)
        return steps, config.evaluate_every or max(steps // most, 1)
    minutes, enough = (
        MINUTES if config.minutes is None else config.minutes,
        getattr(task, "enough_epochs", None),
    )
    if enough is not None:  # little data, which more passes would only memorise
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
    """Measure the seconds of a step (median) and of an evaluation, on a network that is discarded."""
    times: list[float] = []
    first_start = time.perf_counter()
    while True:
        start = time.perf_counter()
        enough = len(times) >= _WARM + _TIMED and start - first_start >= trial
        if enough or (start - first_start >= _LONGEST and len(times) > _WARM):
            break
        updater.update(len(times), len(times) + 1, 0.0)
        times.append(time.perf_counter() - start)
    counted = sorted(times[_WARM:])
    updater.network.eval()
    start = time.perf_counter()
    updater.task.evaluate(updater.network)
    return counted[len(counted) // 2], time.perf_counter() - start


# ---- loop

REPORTS = 200  # about as many reports in the log
CHECKPOINT_SECONDS = 60.0


@dataclass
class Report:
    """The result of a run."""

    steps: int
    network: nn.Module
    valid: float | None = None  # the criterion with the best weights
    best_step: int | None = None
    facts: dict[str, Any] = field(default_factory=dict)


def train(
    task: Trainable,
    config: TrainConfig,
    *,
    device: torch.device,
    run: files.Run | None = None,
    facts: dict[str, Any] | None = None,
    groups: Sequence[DelayedGroup] = (),
    initial: Mapping[str, np.ndarray] | None = None,
) -> Report:
    """Train until the steps are done or patience ends; the network of the report has the best weights.

    `groups`: weights that learn later or more slowly; `initial`: weights to start from, by name.
    """
    gpus = [device] if device.type == "cuda" else []
    facts = {**(facts or {}), **_frozen_facts(task)}

    def decide() -> dict[str, int]:
        """Return the number of steps, and of those between two evaluations; of an earlier start, if
        there was one.
        """
        fixed = run.open(facts) if run is not None else {}
        if "steps" not in fixed:
            steps, every = count_steps(task, config, device, groups, initial)
            fixed = {"steps": steps, "evaluate_every": every}
            if run is not None:
                run.fix(**fixed)
        return fixed

    with (
        torch.random.fork_rng(devices=gpus),
        memory_advice(config),
        nullcontext() if run is None else run.held(),
    ):
        fixed = checkpoint.from_first(decide)
        updater = Updater(task, config, device, groups, initial)
        return _Loop(updater, run, fixed["steps"], fixed["evaluate_every"]).run_all()


def _frozen_facts(task: Trainable) -> dict[str, str]:
    """Return the digest of a second, frozen network, which must be the same when a run is continued."""
    frozen = frozen_network(task)
    if frozen is None:
        return {}
    weights = {name: weight.cpu().numpy() for name, weight in frozen.state_dict().items()}
    return {"frozen_network": digest(weights)}


class _Loop:
    def __init__(
        self, updater: Updater, run: files.Run | None, steps: int, evaluate_every: int
    ) -> None:
        self.updater, self.task = updater, updater.task
        self.config, self.device = updater.config, updater.device
        self.run, self.steps, self.evaluate_every = run, steps, evaluate_every
        self.log = Log(run, self.config, self.task)
        self.network = updater.network
        self.schedule, self.average = (
            Schedule(self.config, steps),
            Average(self.config, self.network, steps),
        )
        self.step, self.best_step, self.waited = 0, 0, 0
        self.best: float | None = None  # of the criterion
        self.best_weights: dict[str, torch.Tensor] | None = None

    # ---- the whole

    def run_all(self) -> Report:
        self._restore()
        with (
            progress.task("training", self.steps, "steps") as bar,
            Interrupts() as interrupts,
            self.log,
        ):
            bar.advance(self.step)
            self._train(bar, interrupts)
        if self.run is not None:
            self._checkpoint()
        self._take_best()
        cursor = self.updater.cursor
        epochs = cursor[0] + self.task.batches.share(cursor)
        facts = {"steps": self.steps, "epochs": round(epochs, 3), **self.updater.clipper.report()}
        return Report(self.step, self.network, self.best, self.best_step or None, facts)

    def _train(self, bar: progress.Bar, interrupts: Interrupts) -> None:
        report_every, saved = max(self.steps // REPORTS, 1), time.monotonic()
        while self.step < self.steps and not self._out_of_patience():
            rate = self.schedule.rate(self.step)
            update = self._update(rate)
            self.step += 1
            self.log.add(update.loss, update.targets)
            bar.advance()
            if self.step % report_every == 0 or self.step == self.steps:
                self._report(bar, self.log.report(self.step, rate, update.norm))
            if self.step % self.evaluate_every == 0 or self.step == self.steps:
                self._evaluate()
            if interrupts.asked or (
                self.run is not None and time.monotonic() - saved > CHECKPOINT_SECONDS
            ):
                self._checkpoint()
                saved = time.monotonic()
                interrupts.give_way()

    def _update(self, rate: float) -> Update:
        try:
            update = self.updater.update(self.step, self.steps, rate)
        except Diverged as error:
            checkpoint_note = (
                ""
                if self.run is None or not self.run.has_checkpoint()
                else (f"; the last good checkpoint is in {self.run.directory}")
            )
            raise TrainingError(
                f"at step {self.step + 1} {error}: try a lower lr (now {rate:.2g}), "
                f"a lower clip_at (now {self.config.limit:g}), or more warmup{checkpoint_note}"
            ) from None
        self.average.update(self.step)
        return update

    # ---- reports and evaluation

    def _report(self, bar: progress.Bar, values: dict[str, Any]) -> None:
        counted = self.task.counted
        valid = "" if self.best is None else f", valid {self.log.shown(self.best, held_out=True)}"
        rate = f"{values[f'{counted}_per_s']:,} {counted}/s"
        bar.note(f"{self.log.shown(values['loss'])}{valid}, {rate}, norm {values['norm']:.2f}")

    def _evaluate(self) -> None:
        start = time.perf_counter()
        weights = {name: w.detach().clone() for name, w in self.network.state_dict().items()}
        averaged = self.average.weights()
        self.network.load_state_dict(averaged)
        self.network.eval()
        valid = self.task.evaluate(self.network)
        self.network.train()
        self.log.evaluated(self.step, valid, time.perf_counter() - start)
        if valid is not None:
            cost = self.task.criterion.cost
            self.schedule.evaluated(cost(valid))
            better = not math.isnan(valid) and (self.best is None or cost(valid) < cost(self.best))
            self.waited = 0 if better else self.waited + 1
            # of equal values, which are frequent where right answers are counted, the later one
            if better or valid == self.best:
                self.best, self.best_step = valid, self.step
                self.best_weights = {name: w.detach().clone() for name, w in averaged.items()}
                if self.run is not None:
                    arrays = {name: w.cpu().numpy() for name, w in self.best_weights.items()}
                    self.run.save(arrays, {"step": self.step, "valid": valid}, files.BEST)
        self.network.load_state_dict(weights)

    def _out_of_patience(self) -> bool:
        return self.config.patience is not None and self.waited >= self.config.patience

    def _take_best(self) -> None:
        """Take the weights of the best evaluation, or without one the last (or mean) ones."""
        if self.best_step and self.best_weights is None and self.run is not None:
            saved = self.run.load(files.BEST)
            if saved is not None:
                self.best_weights = {
                    name: torch.from_numpy(np.array(array)) for name, array in saved[0].items()
                }
        weights = self.best_weights if self.best_weights is not None else self.average.weights()
        self.network.load_state_dict(weights)
        self.network.eval()

    # ---- checkpoints

    def _checkpoint(self) -> None:
        if self.run is None:
            return
        arrays = {
            f"weights.{name}": w.detach().cpu().numpy()
            for name, w in self.network.state_dict().items()
        }
        arrays |= {
            f"optimizer.{name}": a for name, a in optimizer_arrays(self.updater.optimizer).items()
        }
        arrays |= {f"average.{name}": w.cpu().numpy() for name, w in self.average.mean.items()}
        arrays |= {
            f"carried.{i}": leaf.cpu().numpy()
            for i, leaf in enumerate(leaves(self.updater.carried))
        }
        arrays["random"] = torch.get_rng_state().numpy()
        if self.device.type == "cuda":
            arrays["random.cuda"] = torch.cuda.get_rng_state(self.device).numpy()
        self.run.save(
            arrays,
            {
                "step": self.step,
                "cursor": self.updater.cursor,
                "best": self.best,
                "best_step": self.best_step,
                "waited": self.waited,
                "schedule": self.schedule.state(),
                "first_loss": None
                if math.isinf(self.updater.first_loss)
                else self.updater.first_loss,
                "clipper": self.updater.clipper.state(),
                "log": self.log.state(),
                "average": self.average.count,
                "carried": shape_of(self.updater.carried),
            },
        )

    def _restore(self) -> None:
        saved = self.run.load() if self.run is not None else None
        if saved is None:
            self.log.begin(0, {})
            return
        arrays, meta = saved

        def part(prefix: str) -> dict[str, np.ndarray]:
            return {
                name.removeprefix(prefix): np.array(a)
                for name, a in arrays.items()
                if name.startswith(prefix)
            }

        self.network.load_state_dict(
            {name: torch.from_numpy(a) for name, a in part("weights.").items()}
        )
        restore_optimizer(self.updater.optimizer, part("optimizer."))
        self.average.mean = {
            name: torch.from_numpy(a).to(self.device) for name, a in part("average.").items()
        }
        carried = part("carried.")
        tensors = iter(
            [torch.from_numpy(carried[str(i)]).to(self.device) for i in range(len(carried))]
        )
        self.updater.carried = rebuilt(meta["carried"], tensors)
        torch.set_rng_state(torch.from_numpy(np.array(arrays["random"])))
        if self.device.type == "cuda" and "random.cuda" in arrays:
            torch.cuda.set_rng_state(torch.from_numpy(np.array(arrays["random.cuda"])), self.device)
        self.step, self.updater.cursor, self.best = (
            meta["step"],
            tuple(meta["cursor"]),
            meta["best"],
        )
        self.updater.first_loss = math.inf if meta["first_loss"] is None else meta["first_loss"]
        self.best_step, self.waited, self.average.count = (
            meta["best_step"],
            meta["waited"],
            meta["average"],
        )
        self.schedule.restore(meta["schedule"])
        self.updater.clipper.restore(meta["clipper"])
        self.log.begin(self.step, meta.get("log", {}))
        assert self.run is not None
        progress.say(f"resuming from step {self.step:,} of {self.steps:,} in {self.run.directory}")
