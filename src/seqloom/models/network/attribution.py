"""What each step of an input adds to a number that a network computes from it.

Integrated gradients (Sundararajan et al. 2017) divide the difference between the number of the input and that
of zero vectors among the steps: each step's gradient is averaged along the straight line between the two, and
multiplied by its vector. The shares add up to the difference, but for the error of averaging over finitely
many points. Occlusion (Zeiler and Fergus 2014) asks instead how the number changes where one step is zero;
what the steps do only together is then left over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from seqloom.progress import task

if TYPE_CHECKING:
    import torch

POINTS, MOST_POINTS = 64, 1024  # of the line where the gradient is computed
NEAR = 1e-3  # error of the sum, in nats and as a share of it, below which no more points are taken
STEPS_PER_BATCH = 1 << 13

# Vectors (n rows of the input, T, D) and n, to n numbers.
Odds = Callable[["torch.Tensor", int], "torch.Tensor"]


class Attribution(NamedTuple):
    """Shares of the steps (rows, T), the number of the input, and that of zero vectors."""

    shares: np.ndarray
    full: float
    nothing: float
    points: int


def integrated_gradients(odds: Odds, x: torch.Tensor, points: int | None = None) -> Attribution:
    """Return the shares by integrated gradients at so many points; None: more and more of them, until the
    shares add up.
    """
    import torch

    with torch.no_grad():
        full, nothing = float(odds(x, 1)[0]), float(odds(torch.zeros_like(x), 1)[0])
    many = points or POINTS
    while True:
        shares = (_mean_gradient(odds, x, many) * x).sum(2).cpu().numpy()
        error = abs(float(shares.sum()) - (full - nothing))
        if points or error <= NEAR * max(abs(full - nothing), 1.0) or many >= MOST_POINTS:
            return Attribution(shares, full, nothing, many)
        many *= 2


def _mean_gradient(odds: Odds, x: torch.Tensor, points: int) -> torch.Tensor:
    """Return the gradient in the middle of each part of the line, the mean over all parts."""
    import torch

    at_once = max(STEPS_PER_BATCH // max(x.shape[0] * x.shape[1], 1), 1)
    total = torch.zeros_like(x)
    with task("gradients", points, "points") as bar:
        for low in range(0, points, at_once):
            high = min(low + at_once, points)
            at = (torch.arange(low, high, device=x.device, dtype=x.dtype) + 0.5) / points
            line = (at.view(-1, 1, 1, 1) * x).flatten(0, 1).requires_grad_()
            with torch.enable_grad():
                (gradient,) = torch.autograd.grad(odds(line, len(at)).sum(), line)
            total += gradient.view(len(at), *x.shape).sum(0)
            bar.advance(high - low)
    return total / points


def occlusion(odds: Odds, x: torch.Tensor) -> Attribution:
    """Return how the number falls where the vector of one step is zero, for each step."""
    import torch

    rows, steps = x.shape[:2]
    shares, at_once = np.zeros((rows, steps)), max(STEPS_PER_BATCH // max(rows * steps, 1), 1)
    with torch.no_grad(), task("occlusion", rows * steps, "steps") as bar:
        full, nothing = float(odds(x, 1)[0]), float(odds(torch.zeros_like(x), 1)[0])
        for low in range(0, rows * steps, at_once):
            places = np.arange(low, min(low + at_once, rows * steps))
            without = x.repeat(len(places), 1, 1, 1)
            which = torch.arange(len(places))
            without[which, torch.from_numpy(places // steps), torch.from_numpy(places % steps)] = 0
            shares.flat[places] = full - odds(without.flatten(0, 1), len(places)).cpu().numpy()
            bar.advance(len(places))
    return Attribution(shares, full, nothing, 0)


def repeated(batch: dict[str, Any], times: int, names: tuple[str, ...]) -> dict[str, Any]:
    """Return arrays of a batch so many times one after the other, of these names."""
    return {
        name: value.repeat(times, *[1] * (value.dim() - 1))
        for name, value in batch.items()
        if name in names
    }
