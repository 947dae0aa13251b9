"""The log of a run: a line of JSON for each report in its directory, and optionally TensorBoard events.

The counts (tokens and seconds since the first start, the losses since the last report) are part of
the checkpoint, so the log of an interrupted run reads like that of another. The events are a
function of the log: when a run continues they are written again from its remaining lines, so no step
is in them twice.
"""

from __future__ import annotations

import importlib.util
import shutil
import time
from collections.abc import Mapping
from typing import Any, Self

from seqloom import progress
from seqloom.errors import ConfigError, MissingExtra
from seqloom.storage import EVENTS
from seqloom.training.checkpoint import LOG, Run, read_log
from seqloom.training.config import TrainConfig
from seqloom.training.ranks import is_first
from seqloom.training.trainable import Trainable

_FLUSH = 10  # seconds that an event may wait before it is on disk


def check_tensorboard(config: TrainConfig) -> None:
    """Refuse before training TensorBoard events that could not be written."""
    if config.tensorboard and importlib.util.find_spec("tensorboard") is None:
        raise MissingExtra(
            "tensorboard is not installed: pip install 'seqloom[tensorboard]', or leave out "
            "tensorboard=True; seqloom plot draws the same curves"
        )


class Log:
    """Sums losses and counts between two reports and writes these; a context manager."""

    def __init__(self, run: Run | None, config: TrainConfig, task: Trainable) -> None:
        check_tensorboard(config)
        if config.tensorboard and run is None:
            raise ConfigError(
                "tensorboard files are written into the directory of the run; give fit a run directory"
            )
        self.run, self.task, self.tensorboard = run, task, config.tensorboard and is_first()
        self.count, self.earlier, self.loss_sum, self.updates = 0.0, 0.0, 0.0, 0
        self.clipped, self.largest_norm = 0, 0.0  # since the last report
        # time of the last report, and targets since
        self.since, self.new = time.perf_counter(), 0.0
        self.started = self.since
        self._writer: Any = None

    def begin(self, step: int, state: dict[str, Any]) -> None:
        """Start, or continue after so many steps with the result of `state` at that time."""
        self.count, self.earlier = state.get("count", 0), state.get("seconds", 0.0)
        self.loss_sum, self.updates = state.get("loss_sum", 0.0), state.get("updates", 0)
        self.clipped, self.largest_norm = state.get("clipped", 0), state.get("largest_norm", 0.0)
        self.started = self.since = time.perf_counter()
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
        """Return the values that `begin` needs to continue."""
        return {
            "count": self.count,
            "seconds": self._seconds(),
            "loss_sum": self.loss_sum,
            "updates": self.updates,
            "clipped": self.clipped,
            "largest_norm": self.largest_norm,
        }

    def add(self, loss: float, count: float, norm: float = 0.0, clipped: bool = False) -> None:
        """Add one update: its loss, its targets, its gradient norm, and whether that was clipped."""
        self.loss_sum, self.updates = self.loss_sum + loss, self.updates + 1
        self.count, self.new = self.count + count, self.new + count
        self.clipped, self.largest_norm = self.clipped + clipped, max(self.largest_norm, norm)

    def report(
        self, step: int, rate: float, norm: float, epochs: float, layers: Mapping[str, float]
    ) -> dict[str, Any]:
        """Write the mean of the updates since the last report, and return the line.

        `layers`: the gradient norm of each in the last update.
        """
        now = time.perf_counter()
        loss = self.loss_sum / max(self.updates, 1)
        values = {
            "step": step,
            "loss": round(loss, 5),
            "lr": rate,
            "norm": round(norm, 4),
            "largest_norm": round(self.largest_norm, 4),
            "clipped": round(self.clipped / max(self.updates, 1), 4),
            "epochs": round(epochs, 4),
            f"{self.task.counted}_per_s": round(self.new / max(now - self.since, 1e-9)),
        } | self._progress()
        values |= self._readings(loss, held_out=False) | (
            {} if self.task.unit == "nats" else {"unit": self.task.unit}
        )
        values |= {f"norm.{layer}": float(f"{value:.4g}") for layer, value in layers.items()}
        self.loss_sum, self.updates, self.new, self.since = 0.0, 0, 0.0, now
        self.clipped, self.largest_norm = 0, 0.0
        self._write(values)
        return values

    def evaluated(
        self, step: int, valid: float | None, spent: float, watched: Mapping[str, float]
    ) -> None:
        """Write the criterion on held-out data, and what was `watched` on it; the seconds `spent` on it are
        no training time.
        """
        self.since += spent
        if valid is not None:
            criterion = self.task.criterion.name
            named = {} if criterion == self.task.unit else {"criterion": criterion}
            values = {"step": step, "valid": round(valid, 6), **named}
            readings = self._readings(valid, held_out=True)
            self._write(values | self._progress() | readings | dict(watched))

    def diverged(self, step: int, reason: str, rate: float) -> None:
        """Write why a step could not be made."""
        self._write({"step": step, "diverged": reason, "lr": rate})

    def shown(self, value: float, held_out: bool = False) -> str:
        """Format a loss, or the criterion on held-out data, for people: in the first of its other units
        if it has any.
        """
        for name, other in self.task.readings(value, held_out).items():
            return f"{other:.3f} {name.replace('_per_', '/').replace('_', ' ')}"
        return f"{value:.3f} {self.task.criterion.name if held_out else self.task.unit}"

    def _readings(self, value: float, held_out: bool) -> dict[str, float]:
        return {
            name: round(other, 4) for name, other in self.task.readings(value, held_out).items()
        }

    def _seconds(self) -> float:
        return self.earlier + time.perf_counter() - self.started

    def _progress(self) -> dict[str, Any]:
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

        directory = run.directory / EVENTS
        shutil.rmtree(directory, ignore_errors=True)
        # purge_step: a TensorBoard that shows the deleted file forgets what it has read
        self._writer = SummaryWriter(str(directory), flush_secs=_FLUSH, purge_step=0)
        started = time.time() - self.earlier
        for values in read_log(run.directory) if (run.directory / LOG).exists() else []:
            self._add_events(values, started + values.get("seconds", 0.0))

    def _add_events(self, values: dict[str, Any], when: float) -> None:
        held_out = "valid" in values
        for name, value in values.items():
            if name not in ("step", "seconds", self.task.counted) and not isinstance(value, str):
                tag = f"valid_{name}" if held_out and name != "valid" else name
                self._writer.add_scalar(tag, value, values["step"], walltime=when)
