"""The training loop of every network.

What a step does is a function of its number, the seed and the data; everything else that it depends on (weights,
optimiser, carried state, random state, position) is in the checkpoint. So a run that was interrupted goes on to the
same bits as one that was not, on the same machine with the same number of threads.
"""

from __future__ import annotations

import math
import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from seqloom import progress
from seqloom.errors import TrainingError
from seqloom.training import checkpoint as files
from seqloom.training.batches import Batch, Batches, Cursor
from seqloom.training.budget import count_steps
from seqloom.training.clipping import Clipper
from seqloom.training.config import TrainConfig
from seqloom.training.devices import Tensors, autocast, memory_advice, on_device, scaler_for
from seqloom.training.interrupts import Interrupts
from seqloom.training.log import Density, Log
from seqloom.training.optimizers import Average, make_optimizer, optimizer_arrays, restore_optimizer
from seqloom.training.schedules import Late, Schedule
from seqloom.training.states import detached, leading, leaves, rebuilt, shape_of

REPORTS = 200  # lines of the log, about
CHECKPOINT_SECONDS = 60.0
_HOPELESS = 3.0  # a loss so many times the first one, and above it by this many nats, is no learning


class Task(Protocol):
    """What the loop needs to know of a model."""

    batches: Batches

    def build(self) -> nn.Module:
        """The network with its initial weights, from torch's random state."""
        ...

    def loss(self, network: nn.Module, batch: Tensors, state: Any) -> tuple[torch.Tensor, Any]:
        """Mean nats of a token that is there, and the state to carry on (None: nothing is carried)."""
        ...

    def evaluate(self, network: nn.Module) -> float | None:
        """Mean nats of the held-out text; None where there is none."""
        ...


@dataclass
class Report:
    """How a run went."""

    steps: int
    network: nn.Module
    valid: float | None = None  # nats per token with the weights that were kept
    best_step: int | None = None
    facts: dict[str, Any] = field(default_factory=dict)


def train(task: Task, config: TrainConfig, *, device: torch.device, run: files.Run | None = None,
          facts: dict[str, Any] | None = None, density: Density | None = None, late: Late | None = None) -> Report:
    """Train until the steps are done or patience ends; the network of the report has the best weights."""
    gpus = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=gpus), memory_advice(config), nullcontext() if run is None else run.held():
        fixed = run.open(facts or {}) if run is not None else {}
        if "steps" not in fixed:
            steps, every = count_steps(task, config, device)
            fixed = {"steps": steps, "evaluate_every": every}
            if run is not None:
                run.fix(**fixed)
        return _Loop(task, config, device, run, fixed["steps"], fixed["evaluate_every"], density, late).run_all()


class _Loop:
    def __init__(self, task: Task, config: TrainConfig, device: torch.device, run: files.Run | None, steps: int,
                 evaluate_every: int, density: Density | None, late: Late | None) -> None:
        self.task, self.config, self.device, self.run, self.steps = task, config, device, run, steps
        self.evaluate_every = evaluate_every
        self.log = Log(run, config, density)
        torch.manual_seed(config.seed)
        self.network = task.build().to(device)
        self.late = late or Late((), 0.0)
        self.optimizer = make_optimizer(config, self.network, self.late.names)
        self.schedule, self.clipper = Schedule(config, steps), Clipper(config)
        self.average = Average(config, self.network, steps)
        self.scaler = scaler_for(config, device)
        self.step, self.carried = 0, None
        self.cursor: Cursor = (0, 0)
        self.best, self.best_step, self.waited, self.first_loss = math.inf, 0, 0, math.inf
        self.best_weights: dict[str, torch.Tensor] | None = None

    # ---- the whole

    def run_all(self) -> Report:
        self._restore()
        with progress.task("training", self.steps, "steps") as bar, Interrupts() as interrupts, self.log:
            bar.advance(self.step)
            self._train(bar, interrupts)
        if self.run is not None:
            self._checkpoint()
        self._take_best()
        valid = self.best if self.best_step else None
        epochs = self.cursor[0] + self.task.batches.share(self.cursor)
        facts = {"steps": self.steps, "epochs": round(epochs, 3), **self.clipper.report()}
        return Report(self.step, self.network, valid, self.best_step or None, facts)

    def _train(self, bar: progress.Task, interrupts: Interrupts) -> None:
        report_every, saved = max(self.steps // REPORTS, 1), time.monotonic()
        while self.step < self.steps and not self._out_of_patience():
            rate = self.schedule.rate(self.step)
            loss, norm, tokens = self._update(rate)
            self.step += 1
            self.log.add(loss, tokens)
            bar.advance()
            if self.step % report_every == 0 or self.step == self.steps:
                self._report(bar, self.log.report(self.step, rate, norm))
            if self.step % self.evaluate_every == 0 or self.step == self.steps:
                self._evaluate()
            if interrupts.asked or (self.run is not None and time.monotonic() - saved > CHECKPOINT_SECONDS):
                self._checkpoint()
                saved = time.monotonic()
                interrupts.give_way()

    def _update(self, rate: float) -> tuple[float, float, int]:
        """One update: its mean loss, the norm of its gradient, and how many tokens it read."""
        c, total = self.config, 0.0
        awake = self.late.share(self.step, self.steps)
        for name in self.late.names:
            self.network.get_parameter(name).requires_grad_(awake > 0)
        batches = self._next()
        tokens = sum(batch.tokens for batch in batches)
        for batch in batches:
            before = None if batch.fresh else leading(self.carried, len(batch.inputs))
            with autocast(c, self.device):
                loss, state = self.task.loss(self.network, on_device(batch, self.device), before)
            value = float(loss.detach())
            self._check(value)
            parts = tokens / batch.tokens  # every token of the update counts alike, however they are dealt out
            self.scaler.scale(loss / parts).backward()
            self.carried, self.cursor, total = detached(state), batch.following, total + value / parts
        self.scaler.unscale_(self.optimizer)
        if c.gradient_noise:
            deviation = math.sqrt(c.gradient_noise / (1 + self.step) ** 0.55)  # Neelakantan et al. 2015
            for p in self.network.parameters():
                if p.grad is not None:
                    p.grad.add_(torch.randn_like(p.grad), alpha=deviation)
        norm = self.clipper(self.network.named_parameters())
        if not math.isfinite(norm) and not self.scaler.is_enabled():
            self._diverged(f"the gradient is {norm}")
        for group in self.optimizer.param_groups:
            group["lr"] = rate * awake if group["late"] else rate
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        self.average.update(self.step)
        return total, norm, tokens

    def _next(self) -> list[Batch]:
        """The batches of one update."""
        found, cursor = [], self.cursor
        for _ in range(self.config.accumulate):
            found.append(self.task.batches.batch(cursor))
            cursor = found[-1].following
        return found

    def _check(self, loss: float) -> None:
        if not math.isfinite(loss):
            self._diverged(f"the loss is {loss}")
        if math.isinf(self.first_loss):
            self.first_loss = loss
        elif loss > max(_HOPELESS * self.first_loss, self.first_loss + _HOPELESS):
            self._diverged(f"the loss has grown from {self.first_loss:.2f} to {loss:.2f} nats")

    def _diverged(self, what: str) -> None:
        kept = "" if self.run is None or not self.run.has_checkpoint() else (
            f"; the last good checkpoint is in {self.run.directory}")
        raise TrainingError(f"at step {self.step + 1} {what}: try a lower lr (now {self.schedule.rate(self.step):.2g}), "
                            f"a lower clip_at (now {self.config.limit:g}), or more warmup{kept}")

    # ---- reports and evaluation

    def _report(self, bar: progress.Task, values: dict[str, Any]) -> None:
        shown = f"{values['bits_per_byte']:.3f} bits/byte" if "bits_per_byte" in values else f"{values['loss']:.3f} nats"
        valid = f", valid {self.log.shown(self.best):.3f}" if self.best_step else ""
        bar.note(f"{shown}{valid}, {values['tokens_per_s']:,} tokens/s, norm {values['norm']:.2f}")

    def _evaluate(self) -> None:
        begun = time.perf_counter()
        weights = {name: w.detach().clone() for name, w in self.network.state_dict().items()}
        averaged = self.average.weights()
        self.network.load_state_dict(averaged)
        self.network.eval()
        valid = self.task.evaluate(self.network)
        self.network.train()
        self.log.evaluated(self.step, valid, time.perf_counter() - begun)
        if valid is not None:
            self.schedule.evaluated(valid)
            self.waited = 0 if valid < self.best else self.waited + 1
            if valid < self.best:
                self.best, self.best_step = valid, self.step
                self.best_weights = {name: w.detach().clone() for name, w in averaged.items()}
                if self.run is not None:
                    arrays = {name: w.cpu().numpy() for name, w in self.best_weights.items()}
                    self.run.save(arrays, {"step": self.step, "valid": valid}, files.BEST)
        self.network.load_state_dict(weights)

    def _out_of_patience(self) -> bool:
        return self.config.patience is not None and self.waited >= self.config.patience

    def _take_best(self) -> None:
        """The weights of the best evaluation, or without one the last (or mean) ones."""
        if self.best_step and self.best_weights is None and self.run is not None:
            found = self.run.load(files.BEST)
            if found is not None:
                self.best_weights = {name: torch.from_numpy(np.array(array)) for name, array in found[0].items()}
        weights = self.best_weights if self.best_weights is not None else self.average.weights()
        self.network.load_state_dict(weights)
        self.network.eval()

    # ---- checkpoints

    def _checkpoint(self) -> None:
        if self.run is None:
            return
        arrays = {f"weights.{name}": w.detach().cpu().numpy() for name, w in self.network.state_dict().items()}
        arrays |= {f"optimizer.{name}": a for name, a in optimizer_arrays(self.optimizer).items()}
        arrays |= {f"average.{name}": w.cpu().numpy() for name, w in self.average.mean.items()}
        arrays |= {f"carried.{i}": leaf.cpu().numpy() for i, leaf in enumerate(leaves(self.carried))}
        arrays["random"] = torch.get_rng_state().numpy()
        if self.device.type == "cuda":
            arrays["random.cuda"] = torch.cuda.get_rng_state(self.device).numpy()
        self.run.save(arrays, {
            "step": self.step, "cursor": self.cursor, "best": None if math.isinf(self.best) else self.best,
            "best_step": self.best_step, "waited": self.waited, "schedule": self.schedule.state(),
            "first_loss": None if math.isinf(self.first_loss) else self.first_loss,
            "clipper": self.clipper.state(), "log": self.log.state(), "average": self.average.count,
            "carried": shape_of(self.carried)})

    def _restore(self) -> None:
        found = self.run.load() if self.run is not None else None
        if found is None:
            self.log.begin(0, {})
            return
        arrays, meta = found

        def part(prefix: str) -> dict[str, np.ndarray]:
            return {name.removeprefix(prefix): np.array(a) for name, a in arrays.items() if name.startswith(prefix)}

        self.network.load_state_dict({name: torch.from_numpy(a) for name, a in part("weights.").items()})
        restore_optimizer(self.optimizer, part("optimizer."))
        self.average.mean = {name: torch.from_numpy(a).to(self.device) for name, a in part("average.").items()}
        carried = part("carried.")
        tensors = iter([torch.from_numpy(carried[str(i)]).to(self.device) for i in range(len(carried))])
        self.carried = rebuilt(meta["carried"], tensors)
        torch.set_rng_state(torch.from_numpy(np.array(arrays["random"])))
        if self.device.type == "cuda" and "random.cuda" in arrays:
            torch.cuda.set_rng_state(torch.from_numpy(np.array(arrays["random.cuda"])), self.device)
        self.step, self.cursor = meta["step"], tuple(meta["cursor"])
        self.best = math.inf if meta["best"] is None else meta["best"]
        self.first_loss = math.inf if meta["first_loss"] is None else meta["first_loss"]
        self.best_step, self.waited, self.average.count = meta["best_step"], meta["waited"], meta["average"]
        self.schedule.restore(meta["schedule"])
        self.clipper.restore(meta["clipper"])
        self.log.begin(self.step, meta.get("log", {}))
        assert self.run is not None
        progress.say(f"going on from step {self.step:,} of {self.steps:,} in {self.run.directory}")
