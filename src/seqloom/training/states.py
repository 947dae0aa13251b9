"""Carried states: nested tuples of tensors, cut off from the graph, flattened for a checkpoint and put together again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch


def detached(state: Any) -> Any:
    """The same values without their history, so that gradients stop at the border of the window."""
    if isinstance(state, tuple):
        return tuple(detached(part) for part in state)
    return None if state is None else state.detach()


def leading(state: Any, rows: int) -> Any:
    """The state of the first rows: those that go on."""
    if isinstance(state, tuple):
        return tuple(leading(part, rows) for part in state)
    return None if state is None else state[:rows]


def leaves(state: Any) -> list[torch.Tensor]:
    if isinstance(state, tuple):
        return [leaf for part in state for leaf in leaves(part)]
    return [] if state is None else [state]


def shape_of(state: Any) -> Any:
    """Its nesting as plain JSON: lists, 0 for a tensor, None."""
    if isinstance(state, tuple):
        return [shape_of(part) for part in state]
    return None if state is None else 0


def rebuilt(shape: Any, tensors: Iterator[torch.Tensor]) -> Any:
    if isinstance(shape, list):
        return tuple(rebuilt(part, tensors) for part in shape)
    return None if shape is None else next(tensors)
