"""Backward through time, whole and in pieces: truncation, the share of each step, clipping.

The gradient of the recurrent matrix is a sum over the steps at which the matrix was used, and each of those shares is
again a sum over the later losses that felt it (Pascanu, Mikolov and Bengio 2013, equations 3 to 5):

    dL/dw_h = sum_k  share_k  =  sum_t sum_{k <= t}  dL_t/dh_t  dh_t/dh_k  (dh_k/dw_h, h_{k-1} held fixed)

Truncation (Williams and Peng 1990) cuts the text into chunks: the state is carried from one to the next, the error is
not carried back. What is saved is memory, which grows with the chunk instead of the text, and there is an update a
chunk; time is linear in the length either way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple

import numpy as np

from seqloom.reference.sequences import Cell, Gradients, Params, State, Trace, TraceT

Loss = Callable[[np.ndarray, slice], tuple[float, np.ndarray]]


class Chunk(NamedTuple, Generic[TraceT]):
    steps: slice  # which steps of the text
    loss: float
    trace: TraceT
    gradients: Gradients


def chunks(n_steps: int, length: int) -> list[slice]:
    """Consecutive stretches of `length` steps, the last one perhaps shorter.

    >>> chunks(25, 10)
    [slice(0, 10, None), slice(10, 20, None), slice(20, 25, None)]
    """
    if length < 1:
        raise ValueError(f"a chunk of {length} steps cannot move on; it needs at least one")
    return [slice(at, min(at + length, n_steps)) for at in range(0, n_steps, length)]


def truncated_bptt(
    cell: Cell[TraceT],
    x: np.ndarray,
    loss: Loss,
    *,
    length: int,
    state: State | None = None,
    mask: np.ndarray | None = None,
) -> Iterator[Chunk[TraceT]]:
    """Forward and backward, one chunk at a time; parameters may be changed between chunks.

    `loss(h, steps)` takes the states of these steps, (B, t, H), and gives its value and its gradient with respect to
    them. Within a chunk the gradient is that of full backward through time from the carried state; only what the chunk
    would ask of the chunks before it (`gradients.start`) is dropped.
    """
    for steps in chunks(x.shape[1], length):
        trace = cell.forward(x[:, steps], state, None if mask is None else mask[:, steps])
        value, grad_h = loss(trace.h, steps)
        yield Chunk(steps, value, trace, cell.backward(trace, grad_h))
        state = trace.last  # carried as plain numbers: no error flows back through it


def recurrent_shares(trace: Trace, gradients: Gradients) -> np.ndarray:
    """What each step's use of w_h adds to its gradient, (T, G*H, H); summed over T it is the gradient."""
    b, n_steps, n_gates, d_hidden = trace.multiplied.shape
    blocks = gradients.product.reshape(b, n_steps, n_gates, d_hidden)
    shares = np.einsum("btgh,btgk->tghk", blocks, trace.multiplied)
    return shares.reshape(n_steps, n_gates * d_hidden, d_hidden)


def recurrent_shares_by_loss(cell: Cell[TraceT], trace: TraceT, grad_h: np.ndarray) -> np.ndarray:
    """Both sums taken apart: [t, k] is what the loss at step t says about the use of w_h at step k, (T, T, G*H, H).

    Zero for k > t. One backward pass for each t, so it is for short sequences; the sum needs only one.
    """
    table = []
    for t in range(grad_h.shape[1]):
        alone = np.zeros_like(grad_h)
        alone[:, t] = grad_h[:, t]
        table.append(recurrent_shares(trace, cell.backward(trace, alone)))
    return np.stack(table)


def clip_by_norm(gradients: Params, threshold: float) -> tuple[Params, float]:
    """All gradients times one factor, so that their common norm is at most `threshold`; and the factor.

    One factor for all keeps the direction, which clipping each value by itself does not.

    >>> clipped, scale = clip_by_norm({"w": np.array([9.0, 12.0])}, threshold=5.0)
    >>> clipped["w"], round(scale, 4)
    (array([3., 4.]), 0.3333)
    """
    norm = float(np.sqrt(sum((grad**2).sum() for grad in gradients.values())))
    scale = threshold / norm if norm > threshold else 1.0
    return {name: grad * scale for name, grad in gradients.items()}, scale
