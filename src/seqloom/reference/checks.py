"""Checks of gradients by finite differences, and backward through time in parts: truncation, the share
of each step, clipping.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple

import numpy as np

from seqloom.reference.sequences import Cell, Gradients, Params, State, Trace, TraceT


def numerical_gradient(
    loss: Callable[[], float], array: np.ndarray, *, step: float = 1e-5
) -> np.ndarray:
    """Compute the gradient of `loss()` with respect to `array`, which it must read; each entry is
    changed and restored.

        dL/dv  ~  (L(v + step) - L(v - step)) / (2 step)

    The error of this central difference falls with step^2 and rounding grows with 1 / step; in
    float64 both are small at about 1e-5. In float32 no step makes both small, so float64 is required.

    >>> v = np.array([1.0, 2.0])
    >>> numerical_gradient(lambda: float((v**3).sum()), v).round(6)
    array([ 3., 12.])
    """
    if array.dtype != np.float64:
        raise ValueError(f"the array is {array.dtype}; finite differences need float64")
    grad = np.empty_like(array)
    for at in np.ndindex(array.shape):
        value = array[at]
        array[at] = value + step
        above = loss()
        array[at] = value - step
        below = loss()
        array[at] = value
        grad[at] = (above - below) / (2 * step)
    return grad


def relative_error(a: np.ndarray, b: np.ndarray) -> float:
    """Return the norm of the difference divided by the larger norm; 0 where both arrays are zero."""
    scale = max(float(np.linalg.norm(a)), float(np.linalg.norm(b)))
    return float(np.linalg.norm(a - b)) / scale if scale > 0 else 0.0


def check_gradients(
    cell: Cell[TraceT],
    x: np.ndarray,
    state: State | None = None,
    mask: np.ndarray | None = None,
    *,
    step: float = 1e-5,
    seed: int = 0,
) -> dict[str, float]:
    """Return the relative error of `cell.backward` for each parameter ("w_x", ..), the input ("x")
    and the initial state ("h", "c").

    The loss is a random weighted sum of all h_t and of the last state, so that it depends on every
    path. The cell's parameters must be float64; they are changed while it runs, and restored.
    """
    x = np.array(x, np.float64)
    first = cell.forward(x, state, mask)
    start = tuple(
        np.array(part, np.float64) for part in state or [np.zeros_like(part) for part in first.last]
    )
    rng = np.random.default_rng(seed)
    on_h = rng.normal(size=first.h.shape)  # (B, T, H)
    on_last = tuple(rng.normal(size=part.shape) for part in first.last)

    def loss() -> float:
        trace = cell.forward(x, start, mask)
        return float(
            (on_h * trace.h).sum()
            + sum((w * part).sum() for w, part in zip(on_last, trace.last, strict=True))
        )

    exact = cell.backward(cell.forward(x, start, mask), on_h, on_last)
    pairs = [(name, array, exact.params[name]) for name, array in cell.params.items()]
    pairs += [("x", x, exact.x), *zip(("h", "c"), start, exact.start, strict=False)]
    return {
        name: relative_error(grad, numerical_gradient(loss, array, step=step))
        for name, array, grad in pairs
    }


# ---- bptt

Loss = Callable[[np.ndarray, slice], tuple[float, np.ndarray]]


class Chunk(NamedTuple, Generic[TraceT]):
    steps: slice  # which steps of the text
    loss: float
    trace: TraceT
    gradients: Gradients


def chunks(n_steps: int, length: int) -> list[slice]:
    """Return consecutive slices of `length` steps; the last one may be shorter.

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
    """Run forward and backward, one chunk at a time; parameters may be changed between chunks.

    Truncation (Williams and Peng 1990): the state is carried from one chunk to the next, the gradient
    is not carried back. This saves memory, which grows with the chunk instead of the text, and allows
    an update per chunk; time is linear in the length either way.

    `loss(h, steps)` takes the states of these steps, (B, t, H), and returns its value and its gradient
    with respect to them. Within a chunk the gradient is that of full backward through time from the
    carried state; only the gradient of that state (`gradients.start`) is dropped.
    """
    for steps in chunks(x.shape[1], length):
        trace = cell.forward(x[:, steps], state, None if mask is None else mask[:, steps])
        value, grad_h = loss(trace.h, steps)
        yield Chunk(steps, value, trace, cell.backward(trace, grad_h))
        state = trace.last  # carried as plain numbers: no gradient flows back through it


def recurrent_shares(trace: Trace, gradients: Gradients) -> np.ndarray:
    """Return what each step's use of w_h adds to its gradient, (T, G*H, H); the sum over T is the
    gradient.

    Each share is again a sum over the later losses that depend on it (Pascanu, Mikolov and Bengio
    2013, equations 3 to 5):

        dL/dw_h = sum_k share_k = sum_t sum_{k <= t} dL_t/dh_t dh_t/dh_k (dh_k/dw_h, h_{k-1} held fixed)
    """
    b, n_steps, n_gates, d_hidden = trace.multiplied.shape
    blocks = gradients.product.reshape(b, n_steps, n_gates, d_hidden)
    shares = np.einsum("btgh,btgk->tghk", blocks, trace.multiplied)
    return shares.reshape(n_steps, n_gates * d_hidden, d_hidden)


def recurrent_shares_by_loss(cell: Cell[TraceT], trace: TraceT, grad_h: np.ndarray) -> np.ndarray:
    """Return the terms of both sums, (T, T, G*H, H): [t, k] is the gradient of the loss at step t
    through the use of w_h at step k; zero for k > t.

    Needs one backward pass for each t, so it is for short sequences.
    """
    table = []
    for t in range(grad_h.shape[1]):
        alone = np.zeros_like(grad_h)
        alone[:, t] = grad_h[:, t]
        table.append(recurrent_shares(trace, cell.backward(trace, alone)))
    return np.stack(table)


def clip_by_norm(gradients: Params, threshold: float) -> tuple[Params, float]:
    """Scale all gradients by one factor, so that their common norm is at most `threshold`; return
    the factor too.

    One factor for all keeps the direction; clipping each value does not.

    >>> clipped, scale = clip_by_norm({"w": np.array([9.0, 12.0])}, threshold=5.0)
    >>> clipped["w"], round(scale, 4)
    (array([3., 4.]), 0.3333)
    """
    norm = float(np.sqrt(sum((grad**2).sum() for grad in gradients.values())))
    scale = threshold / norm if norm > threshold else 1.0
    return {name: grad * scale for name, grad in gradients.items()}, scale
