"""Is a gradient right? Compare it with finite differences, which know only the forward pass.

    dL/dv  ~  (L(v + step) - L(v - step)) / (2 step)

The error of the central difference falls with step^2 and rounding grows with 1 / step; in float64 about 1e-5 is where
both are small. In float32 there is no such place, so everything is computed in float64.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from seqloom.reference.sequences import Cell, State, TraceT


def numerical_gradient(
    loss: Callable[[], float], array: np.ndarray, *, step: float = 1e-5
) -> np.ndarray:
    """The gradient of `loss()` with respect to `array`, which it must read; each entry is moved and put back.

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
    """The norm of the difference over the larger of both norms: 0 for equal arrays, also where both are zero."""
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
    """Relative error of `cell.backward` for each parameter ("w_x", ..), the input ("x") and the initial state ("h", "c").

    The loss is a random weighted sum of all h_t and of the last state, so that every path carries some of it.
    The cell's parameters must be float64; they are moved while it runs and then as before.
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
