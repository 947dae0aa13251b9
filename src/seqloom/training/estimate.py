"""What a run will take, foretold: memory, part by part, and time.

A few updates of the real network are made on the largest batch and thrown away, while torch's
allocator tells what is alive. What does not depend on the batch (weights, optimiser, evaluation) is
so known exactly. A batch that might not fit is not tried: two smaller parts of it, whose activations
grow with their rows, say what it would take.
"""

from __future__ import annotations

import copy
import ctypes
import gc
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch.autograd.profiler import profile

from seqloom import progress
from seqloom.arrays import peak_resident, resident
from seqloom.training.batches import WHOLE, Batch, Batches, Cursor, Examples, Part
from seqloom.training.config import TrainConfig
from seqloom.training.optimizers import Average
from seqloom.training.pace import decide_length, time_updates
from seqloom.training.trainable import DelayedGroup, Trainable
from seqloom.training.update import Updater

_SAFE = 0.5  # of the available memory: a batch that would take more is not tried
_PARTS = (8, 4)  # of the rows of a batch, where it is not
_WALKED = 256  # batches among which the largest is looked for, where their sizes are not listed
_TIMED = 3.0  # seconds in which updates are timed


@dataclass(frozen=True)
class Estimate:
    """What training will take: bytes, and seconds. The parts are what is allocated. `peak` is the highest
    memory of the process as the system counts it, or of a GPU, where program and data do not count.
    """

    parameters: int
    weights: int
    gradients: int
    optimizer: int
    copies: int  # of the weights: the best ones so far, and a running mean
    activations: int  # beyond all these, while the largest batch is learnt from
    evaluation: int  # beyond weights, optimizer and copies
    data: int  # what batches are made of
    program: int  # code, libraries, text and all else
    before: int  # the highest so far, while the data was read and encoded
    peak: int
    available: int | None  # None: the system does not tell
    rows: int  # of the largest batch
    targets: float
    tried: bool  # whether the largest batch itself was; else it is foretold from smaller ones
    steps: int | None  # None: not known, as a batch might not fit
    evaluations: int | None
    step_seconds: float | None
    evaluation_seconds: float | None
    seconds: float | None
    epochs: float | None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        batch = f"largest batch: {self.rows:,} rows, {self.targets:,.0f} targets"
        remarks = {
            "weights": f"{self.parameters:,} parameters",
            "copies": "the best weights so far, means of weights",
            "activations": batch if self.tried else f"{batch}; foretold from smaller ones",
            "evaluation": "on held-out data",
            "data": "what batches are made of",
            "program": "code, libraries, texts",
            "before": "the most until now, while the data was read and encoded",
            "peak": "of the process"
            + ("" if self.available is None else f"; there are {megabytes(self.available)}"),
        }
        names = ("weights", "gradients", "optimizer", "copies", "activations", "evaluation")
        lines = [
            f"{name:<12}{megabytes(getattr(self, name)):>12}  {remarks.get(name, '')}".rstrip()
            for name in (*names, "data", "program", "before", "peak")
        ]
        return "\n".join([*lines, f"{'time':<12}{self._time()}"])

    def _time(self) -> str:
        if self.seconds is None or self.step_seconds is None or self.evaluation_seconds is None:
            return "  not known, as the largest batch may not fit and so was not tried"
        return (
            f"{self.seconds / 60:>8.3g} min  {self.steps:,} steps of {1000 * self.step_seconds:,.3g} ms, "
            f"{self.evaluations:,} evaluations of {self.evaluation_seconds:.3g} s, {self.epochs:.3g} epochs"
        )

    @property
    def fits(self) -> bool:
        return self.available is None or self.peak <= self.available


def megabytes(size: int) -> str:
    """Write a number of bytes.

    >>> megabytes(123_456_789), megabytes(5 * 10**9)
    ('123.5 MB', '5,000.0 MB')
    """
    return f"{size / 1e6:,.1f} MB"


class Estimated(Exception):
    """Carries the estimate out of a `fit` that was only asked for one."""

    def __init__(self, estimate: Estimate) -> None:
        super().__init__()
        self.estimate = estimate


def estimate(
    task: Trainable,
    config: TrainConfig,
    device: torch.device,
    groups: Sequence[DelayedGroup] = (),
    initial: Mapping[str, np.ndarray] | None = None,
) -> Estimate:
    """Foretell the memory and the time of `loop.train` with these arguments."""
    held, before = resident(), peak_resident()
    with progress.reporting(None), torch.random.fork_rng(enabled=device.type == "cpu"):
        memory = _measured(task, config, device, groups, initial)
        tried = memory.pop("tried")
        times: dict[str, Any] = dict.fromkeys(_TIMES)
        if tried:
            times = _timed(task, config, device, groups, initial)
    reached = peak_resident()
    _collect()
    data = array_bytes(task.batches)
    # what torch and the kernels took meanwhile stays; what the trial took is gone
    program = max(resident(), held) - data
    on_cpu = device.type == "cpu"
    kept = sum(memory[name] for name in ("weights", "optimizer", "copies"))
    moment = max(memory["gradients"] + memory["activations"], memory["evaluation"])
    peak = kept + moment
    if on_cpu:
        # What was tried has taken what it will take again; not all that is allocated is ever touched, and
        # free memory between what is in use counts too.
        peak = max(reached if tried and reached else peak + program + data, before)
    return Estimate(
        **memory,
        **times,
        tried=tried,
        data=data,
        program=max(program, 0),
        before=before,
        peak=peak,
        available=_available(device, held),
    )


# ---- memory


def _measured(
    task: Trainable,
    config: TrainConfig,
    device: torch.device,
    groups: Sequence[DelayedGroup],
    initial: Mapping[str, np.ndarray] | None,
) -> dict[str, Any]:
    """Return the bytes of all parts of the memory that tensors take, and which batch was tried."""
    largest, cursor = largest_batch(task.batches)
    shown = copy.copy(task)
    few = shown.batches = _Few(task.batches, largest, cursor)
    # gradients add up in place, so that further batches of an update take no more
    one_batch = replace(config, accumulate=1, batch_growth=None)
    updater = Updater(shown, one_batch, device, groups, initial)
    average = Average(config, updater.network)
    # as in the last part of the steps, where a mean over these is kept
    average.update(in_tail=True)

    def room(rows: int) -> int:
        """Return the bytes that an update with so many rows takes beyond what is kept."""
        few.rows, updater.carried = rows, [None]
        with _Allocations(device) as allocations:
            updater.update(1, 2, 0.0)
        return allocations.peak

    small, larger = (max(largest.rows // part, 1) for part in _PARTS)
    copies = [w.detach().clone() for w in updater.network.state_dict().values()]  # as of the best
    room(small)  # makes the state of the optimizer, which is kept
    needed = room(small)
    limit = _available(device, resident())
    tried = limit is None or needed * largest.rows / small <= _SAFE * limit
    if tried:
        needed = room(largest.rows)
    elif larger > small:
        slope = (room(larger) - needed) / (larger - small)
        needed += round(slope * (largest.rows - small))
    with _Allocations(device) as evaluation:
        value = _evaluated(updater, average)
    del copies
    network = updater.network
    weights = sum(map(_bytes, (*network.parameters(), *network.buffers())))
    gradients = sum(_bytes(p) for p in network.parameters() if p.requires_grad)
    states = [value for state in updater.optimizer.state.values() for value in state.values()]
    return {
        "parameters": sum(p.numel() for p in network.parameters()),
        "weights": weights,
        "gradients": gradients,
        "optimizer": sum(_bytes(x) for x in states if isinstance(x, torch.Tensor)),
        "copies": sum(map(_bytes, average.mean.values())) + (weights if value is not None else 0),
        "activations": max(needed - gradients, 0),
        "evaluation": evaluation.peak,
        "rows": largest.rows,
        "targets": largest.count,
        "tried": tried,
    }


def _evaluated(updater: Updater, average: Average) -> float | None:
    """Evaluate as the loop does, with the same copies of the weights; return the criterion."""
    network = updater.network
    current = {name: w.detach().clone() for name, w in network.state_dict().items()}
    network.load_state_dict(average.weights())
    network.eval()
    value = updater.task.evaluate(network)
    network.train()
    best = {name: w.detach().clone() for name, w in average.weights().items()}
    network.load_state_dict(current)
    del best
    return value


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


class _Allocations:
    """The highest number of bytes that torch's allocator gave out, and did not take back, while this
    was open.
    """

    def __init__(self, device: torch.device) -> None:
        self.device, self.peak = device, 0

    def __enter__(self) -> _Allocations:
        gc.collect()  # what is freed inside but was made outside would be remarked on
        self._profile = profile(profile_memory=True)
        with _without_messages():
            self._profile.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        with _without_messages():
            self._profile.__exit__(*error)
        results: Any = self._profile.kineto_results
        of_device = [
            (event.start_ns(), event.nbytes())
            for event in results.events()
            if event.name() == "[memory]" and _kind(event) == self.device.type
        ]
        of_device.sort(key=lambda pair: pair[0])  # stable: those of one moment stay in their order
        self.peak = max(np.cumsum([size for _, size in of_device]).max(initial=0), 0)
        self.peak = int(self.peak)
        del self._profile


def _kind(event: Any) -> str:
    return str(event.device_type()).rpartition(".")[2].lower()


@contextmanager
def _without_messages() -> Iterator[None]:
    """Keep off the lines that torch's profiler writes past Python when it starts and stops."""
    try:
        kept = os.dup(2)
    except OSError:  # closed
        yield
        return
    sys.stderr.flush()
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


# ---- batches


def largest_batch(batches: Batches) -> tuple[Batch, Cursor]:
    """Return the batch of the first epoch with the most steps, padding included, and its cursor."""
    if isinstance(batches, Examples):
        groups = batches.groups(0)
        sizes = [len(group) * float(batches.lengths[group].max(0).sum()) for group in groups]
        cursor = (0, int(np.argmax(sizes)))
        return batches.batch(cursor), cursor
    cursor, best = (0, 0), None
    for _ in range(min(_WALKED, batches.length((0, 0)))):
        batch = batches.batch(cursor)
        if best is None or _size(batch) > _size(best[0]):
            best = batch, cursor
        if batch.following[0] > 0:
            break
        cursor = batch.following
    assert best is not None
    return best


def _size(batch: Batch) -> int:
    return max(array.size for array in batch.arrays.values())


class _Few:
    """The first `rows` rows of one batch, again and again."""

    def __init__(self, batches: Batches, batch: Batch, cursor: Cursor) -> None:
        self.batches, self.largest, self.cursor, self.rows = batches, batch, cursor, batch.rows

    def batch(self, cursor: Cursor, part: Part = WHOLE) -> Batch:
        few = self.largest
        if self.rows < few.rows and isinstance(self.batches, Examples):
            # whose rows are not always those of the arrays: a text may be several windows
            few = self.batches.collate(self.batches.groups(0)[self.cursor[1]][: self.rows])
            missing = {k: v for k, v in self.largest.arrays.items() if k not in few.arrays}
            few = replace(few, arrays=few.arrays | missing)
        elif self.rows < few.rows:
            few = _first_rows(few, self.rows)
        return replace(few, following=(0, 0), fresh=True)

    def length(self, cursor: Cursor) -> int:
        return self.batches.length((0, 0))

    def share(self, cursor: Cursor) -> float:
        return 0.0


def _first_rows(batch: Batch, rows: int) -> Batch:
    def first(array: np.ndarray | None) -> np.ndarray | None:
        if array is None or len(array) != batch.rows:
            return array
        return array[:rows]

    arrays: Any = {name: first(array) for name, array in batch.arrays.items()}
    return replace(batch, arrays=arrays, mask=first(batch.mask), weights=first(batch.weights))


def array_bytes(held: Any) -> int:
    """Return the bytes of all arrays in memory that an object holds, itself or in its parts."""
    seen: set[int] = set()
    total, left = 0, [held]
    while left:
        each = left.pop()
        if each is None or id(each) in seen or isinstance(each, (str, bytes, int, float, type)):
            continue
        seen.add(id(each))
        if isinstance(each, np.ndarray):
            base = each
            while isinstance(base.base, np.ndarray):
                base = base.base
            if id(base) in seen and base is not each:
                continue
            seen.add(id(base))
            total += base.nbytes if base.base is None else 0
        elif isinstance(each, dict):
            left += each.values()
        elif isinstance(each, (list, tuple)):
            left += each
        elif callable(each) and hasattr(each, "__self__"):
            left.append(each.__self__)
        elif callable(each) and getattr(each, "__closure__", None):
            left += [cell.cell_contents for cell in each.__closure__]
        elif type(each).__module__.startswith("seqloom."):
            left += vars(each).values() if hasattr(each, "__dict__") else ()
    return total


# ---- time

_TIMES = ("steps", "evaluations", "step_seconds", "evaluation_seconds", "seconds", "epochs")


def _timed(
    task: Trainable,
    config: TrainConfig,
    device: torch.device,
    groups: Sequence[DelayedGroup],
    initial: Mapping[str, np.ndarray] | None,
) -> dict[str, Any]:
    """Return how long the run will be, timed on updates of a network that is thrown away."""
    length = decide_length(task, config, device, groups, initial)
    step, evaluation = time_updates(Updater(task, config, device, groups, initial), _TIMED)
    evaluations = -(-length.steps // length.evaluate_every)
    per_epoch = max(task.batches.length((0, 0)) / config.usual_batches, 1)
    seconds = length.steps * step + evaluations * evaluation
    return {
        "steps": length.steps,
        "evaluations": evaluations,
        "step_seconds": step,
        "evaluation_seconds": evaluation,
        "seconds": seconds if length.seconds is None else length.seconds,
        "epochs": length.steps / per_epoch,
    }


# ---- the system


def _available(device: torch.device, held: int) -> int | None:
    """Return the bytes that this process may have in all, with what it holds, or those of the GPU."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    if device.type != "cpu":
        return None
    found = []
    with suppress(OSError, ValueError, IndexError), open("/proc/meminfo", "rb") as file:
        free = next(line for line in file if line.startswith(b"MemAvailable:"))
        found.append(held + 1024 * int(free.split()[1]))
    with suppress(OSError, ValueError), open("/sys/fs/cgroup/memory.max", "rb") as file:
        found.append(int(file.read()))  # "max" where there is no limit
    return min(found, default=None)


def _collect() -> None:
    """Free what is not used any more, and give it back to the system where it lets us."""
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
