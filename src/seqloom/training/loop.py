"""The training loop of every network.

A step is a function of its number, the seed and the data; everything else that it depends on
(weights, optimiser, carried state, random state, position) is in the checkpoint. So an interrupted
run gives the same bits as an uninterrupted one, on the same machine with the same number of threads.

How many steps: given, from epochs, or as many as fit into the minutes (`pace`). For minutes a few
steps are timed first and thrown away: shares of the steps, such as warm-up, refer to the estimate.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np
import torch
from torch import nn

from seqloom import progress
from seqloom.arrays import digest
from seqloom.errors import TrainingError
from seqloom.nn.watching import keeping_inputs, watch
from seqloom.training import checkpoint as files
from seqloom.training.checkpoint import Interrupts
from seqloom.training.config import TrainConfig
from seqloom.training.devices import memory_advice
from seqloom.training.log import Log
from seqloom.training.optimizers import Average, optimizer_arrays, restore_optimizer
from seqloom.training.pace import Clock, Length, Pace, decide_length, say_little
from seqloom.training.ranks import arrays_from_first, from_first, is_first, largest
from seqloom.training.shards import (
    check_same_weights,
    check_same_work,
    decide_cut,
    torch_threads,
)
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

REPORTS = 200  # about as many reports in the log
WATCHES, APART = (
    4,
    200,
)  # looks at gates and at the reach of gradients, about; a look costs up to two steps
CHECKPOINT_SECONDS = 60.0


def _arguments(options: dict[str, Any]) -> str:
    """Write options as arguments, which the command line turns into flags."""
    return " ".join(f"{name}={value!r}" for name, value in options.items())


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
    clock: Clock = time.perf_counter,
) -> Report:
    """Train until the steps or the minutes are over or patience ends; the network of the report has the best
    weights.

    `groups`: weights that learn later or more slowly; `initial`: weights to start from, by name.
    `clock` tells the seconds for runs of minutes.
    """
    gpus = [device] if device.type == "cuda" else []
    facts = {**(facts or {}), **_frozen_facts(task)}

    def fix(**values: Any) -> None:
        if run is not None and is_first():
            run.fix(**values)

    with (
        torch.random.fork_rng(devices=gpus),
        memory_advice(config),
        nullcontext() if run is None else run.held(),
    ):
        fixed = from_first(lambda: {} if run is None else run.open(facts))
        cut = decide_cut(config.shards, fixed, "the run" if run is None else str(run.directory))
        with torch_threads(cut.threads):
            check_same_work(cut, facts)
            if "steps" in fixed:  # by an earlier start
                names = {each.name for each in fields(Length)}
                length = Length(**{name: value for name, value in fixed.items() if name in names})
            else:
                told = decide_length(
                    task, config, device, groups, initial, lambda: from_first(clock), cut.shards
                )
                length = Length(**from_first(lambda: asdict(told)))
                fix(**asdict(length), **cut.saved())
            updater = Updater(task, config, device, groups, initial, cut.shards)
            check_same_weights(updater.network)
            return _Loop(updater, run, length, clock).run_all()


def _frozen_facts(task: Trainable) -> dict[str, str]:
    """Return the digest of a second, frozen network, which must be the same when a run is continued."""
    frozen = frozen_network(task)
    if frozen is None:
        return {}
    weights = {name: weight.cpu().numpy() for name, weight in frozen.state_dict().items()}
    return {"frozen_network": digest(weights)}


class _Loop:
    def __init__(
        self, updater: Updater, run: files.Run | None, length: Length, clock: Clock
    ) -> None:
        self.updater, self.task = updater, updater.task
        self.config, self.device = updater.config, updater.device
        self.run, self.length, self.clock = run, length, clock
        self.log = Log(run, self.config, self.task)
        self.network = updater.network
        self.pace: Pace | None = None
        if length.seconds is not None:
            decays = self.config.curve == "wsd"
            self.pace = Pace(length.seconds, length.evaluate_every, decays, length.evaluation)
            self.pace.spent = length.spent
        self.schedule = Schedule(
            self.config, length.steps, None if self.pace is None else self.pace.plan
        )
        self.average = Average(self.config, self.network)
        # What shares of the steps refer to: those that are made, unless that is not known.
        self.planned_steps = self.config.planned_steps or length.steps
        self.step, self.best_step, self.waited = 0, 0, 0
        self.best: float | None = None  # of the criterion
        self.best_weights: dict[str, torch.Tensor] | None = None
        self._last_reading = 0.0

    # ---- the whole

    def run_all(self) -> Report:
        self._restore()
        self._last_reading = self._read_clock()
        total, unit = (
            (self.length.steps, "steps")
            if self.pace is None
            else (math.ceil(self.pace.seconds), "")  # seconds: their rate would say nothing
        )
        with (
            progress.task("training", total, unit) as bar,
            Interrupts() as interrupts,
            self.log,
        ):
            self._train(bar, interrupts)
        if self.run is not None:
            self._checkpoint()
        self._take_best()
        epochs = self._epochs()
        facts = {
            "steps": self.step if self.pace is not None else self.length.steps,
            "epochs": round(epochs, 3),
            **self.updater.clipper.report(),
        }
        if self.updater.shards.count > 1:
            facts |= {"shards": self.updater.shards.count, "threads": torch.get_num_threads()}
        if self.config.timed:
            facts["repeated_by"] = self._repeated_by()
        if self.pace is not None:
            self._say_length(self.pace, epochs, facts["repeated_by"])
        return Report(self.step, self.network, self.best, self.best_step or None, facts)

    def _epochs(self) -> float:
        cursor = self.updater.cursor
        return cursor[0] + self.task.batches.share(cursor)

    def _train(self, bar: progress.Bar, interrupts: Interrupts) -> None:
        report_every, saved = max(self.planned_steps // REPORTS, 1), time.monotonic()
        shown = 0
        while not self._ended() and not self._out_of_patience():
            shown = self._show(bar, shown)
            rate = self.schedule.rate(self.step)
            clipped_before = self.updater.clipper.clipped
            update = self._update(rate)
            self.step += 1
            clipped = self.updater.clipper.clipped > clipped_before
            self.log.add(update.loss, update.targets, update.norm, clipped)
            if self.pace is not None:
                self.pace.stepped(self.step, self._elapsed())
            ended = self._ended()
            if self.step % report_every == 0 or ended:
                layers = self.updater.clipper.by_layer()
                line = self.log.report(self.step, rate, update.norm, self._epochs(), layers)
                self._report(bar, line)
            if self.step % self.length.evaluate_every == 0 or ended:
                self._evaluate()
                if self.pace is not None:
                    self.pace.evaluated(self._elapsed())
            waited = self.run is not None and time.monotonic() - saved > CHECKPOINT_SECONDS
            asked, due = largest(interrupts.asked or 0, waited)  # of any process
            if asked or due:
                self._checkpoint()
                saved = time.monotonic()
                if asked:
                    interrupts.asked = int(asked)
                if asked or self.updater.shards.processes == 1:
                    interrupts.give_way()
        self._show(bar, shown)

    def _show(self, bar: progress.Bar, shown: int) -> int:
        """Move the bar on to the steps, or the seconds, of now; return where it is."""
        now = self.step if self.pace is None else min(int(self.pace.spent), int(self.pace.seconds))
        bar.advance(now - shown)
        return now

    # ---- time

    def _ended(self) -> bool:
        if self.pace is None:
            return self.step >= self.length.steps
        return self.pace.ends(self.step)

    def _read_clock(self) -> float:
        return from_first(self.clock) if self.pace is not None else 0.0

    def _elapsed(self) -> float:
        """Return the seconds since the last reading; several processes go by the clock of the first."""
        now = self._read_clock()
        elapsed, self._last_reading = now - self._last_reading, now
        return elapsed

    def _repeated_by(self) -> dict[str, Any]:
        """Return the options that repeat a run to the bit whose number of steps was not given."""
        plan = self.schedule.plan
        options: dict[str, Any] = {"steps": self.step}
        if len(plan) == 1 and plan[0][1] == self.step > plan[0][0]:
            options["decay_steps"] = plan[0][1] - plan[0][0]
        elif self.config.curve == "wsd":  # patience may have ended the run before any decay
            falls = plan or [(self.step, self.step)]
            options["decay_plan"] = [f"{begin}:{end}" for begin, end in falls]
        options |= {
            "planned_steps": self.planned_steps,
            "evaluate_every": self.length.evaluate_every,
        }
        if self.updater.shards.count > 1:
            options["shards"] = self.updater.shards.count
        return options | getattr(self.task, "chosen", {})

    def _say_length(self, pace: Pace, epochs: float, options: dict[str, Any]) -> None:
        # A plan that was changed is a list, which a line would not show as one can type it.
        how = "repeated_by in fit_info" if "decay_plan" in options else _arguments(options)
        progress.say(
            f"{self.step:,} steps, {epochs:.1f} epochs in {pace.spent / 60:.3g} minutes "
            f"({how} repeats this run)"
        )
        if not self._out_of_patience():
            say_little(epochs, pace.spent / max(epochs, 1e-9))

    def _update(self, rate: float) -> Update:
        try:
            update = self.updater.update(self.step, self.planned_steps, rate)
        except Diverged as error:
            self.log.diverged(self.step + 1, str(error), rate)
            checkpoint_note = (
                ""
                if self.run is None or not self.run.has_checkpoint()
                else (f"; the last good checkpoint is in {self.run.directory}")
            )
            raise TrainingError(
                f"at step {self.step + 1} {error}: try a lower lr (now {rate:.2g}), "
                f"a lower clip_at (now {self.config.limit:g}), or more warmup{checkpoint_note}"
            ) from None
        self.average.update(self.schedule.averages(self.step))
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
        valid, watched = from_first(self._judge)  # which no other process could do faster
        self.network.train()
        self.log.evaluated(self.step, valid, time.perf_counter() - start, watched)
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

    def _judge(self) -> tuple[float | None, dict[str, float]]:
        """Return the criterion on held-out data, and what was watched on it."""
        with keeping_inputs(self.network, wanted=self._watches()) as inputs:
            valid = self.task.evaluate(self.network)
        return valid, dict(watch(self.network, inputs))

    def _watches(self) -> bool:
        """Return whether this evaluation also looks at the recurrent layers: few do, and the last."""
        before = self.step - self.length.evaluate_every
        looks = min(WATCHES, self.planned_steps // APART)
        few = [step * looks // self.planned_steps for step in (before, self.step)]
        return few[1] > few[0] or self._ended()

    def _out_of_patience(self) -> bool:
        return self.config.patience is not None and self.waited >= self.config.patience

    def _take_best(self) -> None:
        """Take the weights of the best evaluation, or without one the last (or mean) ones."""
        if self.best_step and self.best_weights is None and self.run is not None:
            run = self.run
            saved = arrays_from_first(lambda: run.load(files.BEST))
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
        carried = self.updater.all_carried()
        arrays |= {f"carried.{i}": leaf.cpu().numpy() for i, leaf in enumerate(leaves(carried))}
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
                "pace": self.pace and self.pace.state(),
                "first_loss": None
                if math.isinf(self.updater.first_loss)
                else self.updater.first_loss,
                "clipper": self.updater.clipper.state(),
                "log": self.log.state(),
                "average": self.average.count,
                "carried": shape_of(carried),
            },
        )

    def _restore(self) -> None:
        saved = arrays_from_first(self.run.load) if self.run is not None else None
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
        self.updater.restore_carried(rebuilt(meta["carried"], tensors))
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
        if self.pace is not None:
            self.pace.restore(meta["pace"])
        self.updater.clipper.restore(meta["clipper"])
        self.log.begin(self.step, meta.get("log", {}))
        assert self.run is not None
        of = f" of {self.length.steps:,}" if self.pace is None else ""
        progress.say(f"resuming from step {self.step:,}{of} in {self.run.directory}")
