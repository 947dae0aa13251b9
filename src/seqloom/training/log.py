"""Where the reports of a run go: a line of JSON each in its directory, and on wish TensorBoard events.

What is counted here (tokens and seconds since the first start, the losses since the last report) is
part of the checkpoint, so the log of a run that was interrupted reads like one that was not. The
events are a function of the log: when a run goes on they are written anew from the lines that were
kept, so no step is in them twice.
"""

from __future__ import annotations

import importlib.util
import shutil
import time
from typing import Any, Self

from seqloom import progress
from seqloom.errors import ConfigError, MissingExtra
from seqloom.storage import EVENTS
from seqloom.training.checkpoint import LOG, Run, is_first, read_log
from seqloom.training.config import TrainConfig
from seqloom.training.trainable import Trainable

_FLUSH = 10  # seconds that an event may wait before it is on disk


def check_tensorboard(config: TrainConfig) -> None:
    """Refuse, before the work begins, events that could not be written."""
    if config.tensorboard and importlib.util.find_spec("tensorboard") is None:
        raise MissingExtra(
            "tensorboard is not installed: pip install 'seqloom[tensorboard]', or leave --tensorboard out; "
            "seqloom plot draws the same curves"
        )


class Log:
    """Sums what happens between two reports and writes them down; close it by leaving its block."""

    def __init__(self, run: Run | None, config: TrainConfig, task: Trainable) -> None:
        check_tensorboard(config)
        if config.tensorboard and run is None:
            raise ConfigError(
                "tensorboard files are written into the directory of the run; give fit a run directory"
            )
        self.run, self.task, self.tensorboard = run, task, config.tensorboard and is_first()
        self.count, self.earlier, self.loss_sum, self.updates = 0.0, 0.0, 0.0, 0
        self.since, self.new = (
            time.perf_counter(),
            0.0,
        )  # when the last report was, and targets since then
        self.begun = self.since
        self._writer: Any = None

    def begin(self, step: int, state: dict[str, Any]) -> None:
        """Start, or go on after so many steps with what `state` gave then."""
        self.count, self.earlier = state.get("count", 0), state.get("seconds", 0.0)
        self.loss_sum, self.updates = state.get("loss_sum", 0.0), state.get("updates", 0)
        self.begun = self.since = time.perf_counter()
        if self.run is not None:
            self.run.keep_log(step)
            if self.tensorboard:
                self._open_events(self.run)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def state(self) -> dict[str, Any]:
        """Return what `begin` needs to go on."""
        return {
            "count": self.count,
            "seconds": self._seconds(),
            "loss_sum": self.loss_sum,
            "updates": self.updates,
        }

    def add(self, loss: float, count: float) -> None:
        """Add one update: its loss, and how many targets it had."""
        self.loss_sum, self.updates = self.loss_sum + loss, self.updates + 1
        self.count, self.new = self.count + count, self.new + count

    def report(self, step: int, rate: float, norm: float) -> dict[str, Any]:
        """Write the mean of the updates since the last report; returns what was written."""
        now = time.perf_counter()
        loss = self.loss_sum / max(self.updates, 1)
        values = {
            "step": step,
            "loss": round(loss, 5),
            "lr": rate,
            "norm": round(norm, 4),
            f"{self.task.counted}_per_s": round(self.new / max(now - self.since, 1e-9)),
        } | self._place()
        values |= self._readings(loss, held_out=False) | (
            {} if self.task.unit == "nats" else {"unit": self.task.unit}
        )
        self.loss_sum, self.updates, self.new, self.since = 0.0, 0, 0.0, now
        self._write(values)
        return values

    def evaluated(self, step: int, valid: float | None, spent: float) -> None:
        """Add the criterion on held-out data; the seconds that it took are no training time."""
        self.since += spent
        if valid is not None:
            criterion = self.task.criterion.name
            named = {} if criterion == self.task.unit else {"criterion": criterion}
            values = {"step": step, "valid": round(valid, 6), **named}
            self._write(values | self._place() | self._readings(valid, held_out=True))

    def shown(self, value: float, held_out: bool = False) -> str:
        """Show a loss, or the criterion on held-out data, for people: in the first of its other units
        where it has some.
        """
        for name, other in self.task.readings(value, held_out).items():
            return f"{other:.3f} {name.replace('_per_', '/').replace('_', ' ')}"
        return f"{value:.3f} {self.task.criterion.name if held_out else self.task.unit}"

    def _readings(self, value: float, held_out: bool) -> dict[str, float]:
        return {
            name: round(other, 4) for name, other in self.task.readings(value, held_out).items()
        }

    def _seconds(self) -> float:
        return self.earlier + time.perf_counter() - self.begun

    def _place(self) -> dict[str, Any]:
        return {self.task.counted: round(self.count), "seconds": round(self._seconds(), 2)}

    def _write(self, values: dict[str, Any]) -> None:
        progress.record(values)
        if self.run is not None:
            self.run.log(values)
        if self._writer is not None:
            self._add_events(values, time.time())

    # ---- TensorBoard

    def _open_events(self, run: Run) -> None:
        from torch.utils.tensorboard import SummaryWriter

        place = run.directory / EVENTS
        shutil.rmtree(place, ignore_errors=True)
        # purge_step: a TensorBoard that is looking at the deleted file forgets what it has read
        self._writer = SummaryWriter(str(place), flush_secs=_FLUSH, purge_step=0)
        begun = time.time() - self.earlier
        for values in read_log(run.directory) if (run.directory / LOG).exists() else []:
            self._add_events(values, begun + values.get("seconds", 0.0))

    def _add_events(self, values: dict[str, Any], when: float) -> None:
        held_out = "valid" in values
        for name, value in values.items():
            if name not in ("step", "seconds", self.task.counted) and not isinstance(value, str):
                tag = f"valid_{name}" if held_out and name != "valid" else name
                self._writer.add_scalar(tag, value, values["step"], walltime=when)
