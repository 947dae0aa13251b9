"""Device and precision of training, with clear errors where they are not supported."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch

from seqloom.errors import ConfigError, TrainingError
from seqloom.training.batches import Batch
from seqloom.training.config import TrainConfig


@dataclass(frozen=True)
class Tensors:
    """A batch on the network's device."""

    arrays: dict[str, torch.Tensor]
    mask: torch.Tensor | None  # bool: which targets are not padding; None: all
    weights: torch.Tensor | None  # of the targets; None: one

    def __getitem__(self, name: str) -> torch.Tensor:
        return self.arrays[name]


def on_device(batch: Batch, device: torch.device) -> Tensors:
    def moved(array: np.ndarray | None) -> torch.Tensor | None:
        return None if array is None else torch.from_numpy(array).to(device)

    return Tensors(
        {name: torch.from_numpy(array).to(device) for name, array in batch.arrays.items()},
        moved(batch.mask),
        moved(batch.weights),
    )


def find_device(name: str | None) -> torch.device:
    """Return the device of that name; None: a GPU where there is one."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device).cpu()  # which a device without memory, such as meta, refuses
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(
            f"device {name!r} cannot be used ({str(error).splitlines()[0]}); leave it out or give cpu"
        ) from None
    return device


def check_precision(config: TrainConfig, device: torch.device) -> None:
    """Refuse a precision that this hardware would only emulate."""
    if config.precision == "float32":
        return
    if device.type == "cpu":
        has = config.precision == "bfloat16" and torch.cpu._is_avx512_bf16_supported()
        if not has:
            raise ConfigError(
                f"this CPU has no {config.precision} units and would emulate them, over a hundred times "
                "slower; use precision float32"
            )
        if not _multiplies("bfloat16"):
            raise ConfigError(
                "this CPU names units for bfloat16, but their instructions end the program, as in "
                "some virtual "
                "machines; use precision float32"
            )
    if (
        device.type == "cuda"
        and config.precision == "bfloat16"
        and not torch.cuda.is_bf16_supported()
    ):
        raise ConfigError("this GPU has no bfloat16; use precision float16")


@cache
def _multiplies(dtype: str) -> bool:
    """Return whether a product of two matrices works, tried in a separate process, since an illegal
    instruction would end this one.
    """
    code = f"import torch; a = torch.ones(64, 64, dtype=torch.{dtype}); a @ a"
    return (
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode
        >= 0
    )


def autocast(config: TrainConfig, device: torch.device) -> AbstractContextManager[object]:
    if config.precision == "float32":
        return nullcontext()
    return torch.autocast(
        device.type, torch.bfloat16 if config.precision == "bfloat16" else torch.float16
    )


def scaler_for(config: TrainConfig, device: torch.device) -> torch.amp.GradScaler:
    """Make a scaler of the loss, which keeps float16 from losing small gradients; disabled for other
    types.
    """
    return torch.amp.GradScaler(
        device.type, enabled=config.precision == "float16" and device.type == "cuda"
    )


@contextmanager
def memory_advice(config: TrainConfig) -> Iterator[None]:
    """Raise an error with advice when memory runs out."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
        text = str(error)
        if not isinstance(error, (torch.OutOfMemoryError, MemoryError)) and "allocate" not in text:
            raise
        size = "" if config.batch_size is None else f" (now {config.batch_size})"
        raise TrainingError(
            f"not enough memory for a step: lower batch_size{size} or truncation (now "
            f"{config.truncation}), raise accumulate, or set recompute"
        ) from error
