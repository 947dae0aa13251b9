"""What the trainers that have an input and an output matrix share."""

from __future__ import annotations

import numpy as np

_LINE = 64  # bytes of a cache line


def aligned(n: int) -> np.ndarray:
    """n float32 zeros, the first at the beginning of a cache line."""
    room = np.zeros(n + _LINE // 4, np.float32)
    skip = -room.ctypes.data % _LINE // 4
    return room[skip : skip + n]


def combined(which: str, input: np.ndarray, output: np.ndarray) -> np.ndarray:
    """The matrix that is the embedding: input, output or their sum."""
    return {"input": input, "output": output}[which] if which != "sum" else input + output
