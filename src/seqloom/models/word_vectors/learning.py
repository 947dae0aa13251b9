"""Passes over a text in chunks: threads, progress, checkpoints, Ctrl-C.

A chunk changes the arrays in place. Without locks (Recht et al. 2011, "Hogwild!") several threads run
chunks in parallel and sometimes overwrite each other's updates; that costs no measurable quality but
gives other bits in every run. With one thread, in order, the bits are always the same, also after
resuming from a checkpoint.
"""

from __future__ import annotations

import math
import signal
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from seqloom import progress
from seqloom.errors import TrainingError
from seqloom.kernels.parallel import thread_count
from seqloom.training.checkpoint import Interrupts, Run, opened

CHECKPOINT_SECONDS = 20.0
SHARE_OF_TIME = 0.03  # for writing checkpoints
REPORTS = 200  # lines of the log

Arrays = dict[str, np.ndarray]
Work = Callable[[int, int], tuple[float, int]]  # (epoch, chunk) -> (sum of losses, examples)


@dataclass(frozen=True)
class Passes:
    """The chunks of a text, with sizes in `unit`, and the number of epochs."""

    label: str
    sizes: Sequence[int]
    epochs: int
    unit: str = "words"
    loss: str = "nats per prediction"  # unit of the loss


def learn(
    passes: Passes,
    work: Work,
    arrays: Arrays,
    *,
    deterministic: bool,
    run: Path | None = None,
    facts: dict[str, Any] | None = None,
) -> list[float]:
    """Run all chunks and return the mean loss of every epoch. `arrays`: changed by the chunks, saved in
    checkpoints.
    """
    with opened(run, facts or {}) as keeper:
        state = _State(passes, keeper, arrays)
        _run(passes, work, state, 1 if deterministic else thread_count())
    losses = state.sums[state.sums[:, 1] > 0]
    return (losses[:, 0] / losses[:, 1]).tolist()


def _run(passes: Passes, work: Work, state: _State, threads: int) -> None:
    chunks = len(passes.sizes)
    with (
        Interrupts() as interrupts,
        progress.task(passes.label, passes.epochs * sum(passes.sizes), passes.unit) as bar,
        ThreadPoolExecutor(threads) as pool,
    ):
        bar.advance(sum(passes.sizes[i % chunks] for i in range(state.done)))
        waiting: deque[tuple[int, Future[tuple[float, int]]]] = deque()
        ahead = state.done
        while state.done < passes.epochs * chunks:
            pause = interrupts.asked is not None or state.due()
            while not pause and ahead < passes.epochs * chunks and len(waiting) < threads + 1:
                waiting.append((ahead, pool.submit(work, *divmod(ahead, chunks))))
                ahead += 1
            if waiting:
                index, future = waiting.popleft()
                state.add(index, *future.result())
                bar.advance(passes.sizes[index % chunks])
                bar.note(
                    f"loss {state.recent():.4f}, epoch {index // chunks + 1} of {passes.epochs}"
                )
            elif interrupts.asked == signal.SIGINT and state.keeper is None:
                progress.say(
                    f"interrupted after {state.share():.0%}; what was learnt so far is kept"
                )
                break  # without checkpoints the result is what was learnt so far
            else:  # no chunk is running, so the arrays are those after `done` chunks
                state.save()
                interrupts.give_way()
        interrupts.obeyed = interrupts.asked == signal.SIGINT and state.keeper is None
        if interrupts.asked is not None:  # during the last chunk
            state.save()


class _State:
    """Progress, losses and checkpoints of a run."""

    def __init__(self, passes: Passes, keeper: Run | None, arrays: Arrays) -> None:
        """Start at the beginning, or at the checkpoint of the run."""
        self.passes, self.keeper, self.arrays, self.done = passes, keeper, arrays, 0
        self.sums = np.zeros((passes.epochs, 2))  # of losses and of examples, by epoch
        self.window = np.zeros(2)  # the same since the last report
        self.total = passes.epochs * len(passes.sizes)
        self.every = -(-self.total // REPORTS)
        self.shown = math.nan
        if keeper is not None and (checkpoint := keeper.load()) is not None:
            self.done = int(checkpoint[1]["step"])
            self.sums, self.window = (
                np.array(checkpoint[0]["sums"]),
                np.array(checkpoint[0]["pending"]),
            )
            for name, array in arrays.items():
                array[...] = checkpoint[0][name]
            keeper.keep_log(self.done)
        self.saved, self.cost, self.held = time.monotonic(), 0.0, self.done

    def share(self) -> float:
        return self.done / self.total

    def recent(self) -> float:
        return self.window[0] / self.window[1] if self.window[1] else self.shown

    def due(self) -> bool:
        """Return whether a checkpoint is due; slow ones are written less often."""
        wait = max(CHECKPOINT_SECONDS, self.cost / SHARE_OF_TIME)
        return (
            self.keeper is not None
            and self.done > self.held
            and time.monotonic() - self.saved > wait
        )

    def add(self, index: int, loss: float, examples: int) -> None:
        if not math.isfinite(loss):
            raise TrainingError(
                f"the loss is not a finite number any more, {self.share():.0%} of the way; "
                "lower the lr"
            )
        self.done = index + 1
        self.sums[index // len(self.passes.sizes)] += loss, examples
        self.window += loss, examples
        if self.done % self.every == 0 or self.done == self.total:
            self.shown = self.recent()
            self.window[:] = 0
            if math.isfinite(self.shown):  # lines of one word predict nothing
                report = {
                    "step": self.done,
                    "epoch": index // len(self.passes.sizes) + 1,
                    "loss": self.shown,
                    "unit": self.passes.loss,
                }
                progress.record(report)
                if self.keeper is not None:
                    self.keeper.log(report)

    def save(self) -> None:
        if self.keeper is not None:
            begun = time.monotonic()
            self.keeper.save(
                {**self.arrays, "sums": self.sums, "pending": self.window}, {"step": self.done}
            )
            self.saved, self.held = time.monotonic(), self.done
            self.cost = self.saved - begun
