"""Arrays of numbers as the steps of a composed network: (T,) or (T, C) for each example, of any length; NaN is missing.

An array is read as a whole, or in windows that overlap by half, as texts are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from seqloom.errors import DataError
from seqloom.models.sequence.encoded import Encoded, flat
from seqloom.models.sequence.sizes import Sizes
from seqloom.models.sequence.texts import windows


def is_numbers(value: Any) -> bool:
    """Whether it is a single example: an array (T, C), or a flat one of numbers."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "fiub" and value.ndim <= 2
    return (
        isinstance(value, (list, tuple)) and len(value) > 0 and isinstance(value[0], (int, float))
    )


def as_steps(example: Any, place: str) -> np.ndarray:
    """float32 (T, C)."""
    if isinstance(example, str):
        raise DataError(f"{place} is text, but this model reads arrays of numbers")
    try:
        values = np.asarray(example, np.float32)
    except (TypeError, ValueError):
        raise DataError(
            f"{place} is not an array of numbers with rows of equal length: {str(example)[:60]}"
        ) from None
    if values.ndim not in (1, 2):
        raise DataError(f"{place} has {values.ndim} axes; give (steps,) or (steps, columns)")
    values = values[:, None] if values.ndim == 1 else values
    if np.isinf(values).any():
        raise DataError(
            f"{place} holds an infinite value; give finite numbers, or NaN for what is missing"
        )
    return values


def as_row(step: Any) -> np.ndarray:
    """One step, a number or one for each column, as an example (1, C)."""
    row = as_steps(step if np.ndim(step) else [step], "the row")
    if row.shape[1] != 1:
        raise DataError(
            f"feed takes one row at a time, a number for each column; got an array {row.shape}"
        )
    return row.T


def check_numbers(examples: Sequence[Any], name: str) -> tuple[Sizes, np.ndarray, np.ndarray]:
    """Columns of training examples, and the mean and scale of each column."""
    rows = [as_steps(example, f"example {i} of {name}") for i, example in enumerate(examples, 1)]
    widths = {row.shape[1] for row in rows}
    if len(widths) > 1:
        at = next(i for i, row in enumerate(rows, 1) if row.shape[1] != rows[0].shape[1])
        raise DataError(
            f"example {at} of {name} has {rows[at - 1].shape[1]} columns, the first {rows[0].shape[1]}; "
            "all must have as many"
        )
    every = np.concatenate(rows).astype(np.float64)
    there = ~np.isnan(every)
    if not there.any():
        raise DataError(f"the examples of {name} hold no numbers")
    many = np.maximum(there.sum(0), 1)
    mean = np.where(there, every, 0).sum(0) / many
    scale = np.sqrt(np.where(there, (every - mean) ** 2, 0).sum(0) / many)
    scale = np.where(scale > 0, scale, 1.0)
    return (
        Sizes(columns=every.shape[1], missing=not bool(there.all())),
        mean.astype(np.float32),
        scale.astype(np.float32),
    )


class NumberInputs:
    def __init__(self, sizes: Sizes, window: int | None = None) -> None:
        """`window`: steps of one; None: no windows."""
        self.columns, self.window = sizes.columns, window

    def encode(self, examples: Sequence[Any]) -> Encoded:
        rows = [as_steps(example, f"example {i}") for i, example in enumerate(examples, 1)]
        for i, row in enumerate(rows, 1):
            if row.shape[1] != self.columns:
                raise DataError(
                    f"example {i} has {row.shape[1]} columns; this model was fitted on {self.columns}"
                )
        counts = None
        if self.window is not None:
            lengths = np.array([len(row) for row in rows], np.int64)
            starts, stops, counts = windows(np.zeros_like(lengths), lengths, self.window)
            of = np.repeat(np.arange(len(rows)), counts)
            rows = [rows[i][a:b] for i, a, b in zip(of.tolist(), starts.tolist(), stops.tolist())]
        values, borders = flat(rows, np.float32)
        return Encoded({"values": values.reshape(-1, self.columns)}, borders, counts=counts)
