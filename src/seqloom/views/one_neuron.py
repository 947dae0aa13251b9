"""One recurrent neuron, h = f(w h + b): a dynamical system of which everything can be seen.

A fixed point is stable where |w f'(a)| < 1. Where one appears or vanishes, the state after many steps jumps,
and so does a loss that looks at it: a cliff beside plateaus where the gradient is next to nothing (Pascanu,
Mikolov and Bengio 2013).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from seqloom.charts.gradients import curve_chart, surface_chart, walk_chart
from seqloom.charts.page import Sheet
from seqloom.views.catalogue import view
from seqloom.views.configs import NeuronOptions

GRID = 61  # points along w and along b
HALVINGS = 80
SHOWN_STEPS, STARTS = 30, 9
FLAT = 0.01  # of the norm of the gradient of the loss
NAMES = ("one stable", "two stable, one unstable", "one unstable: it oscillates")


class Function(NamedTuple):
    """An activation with its inverse, its slope by its value, and what is drawn of it."""

    value: Callable[[np.ndarray], np.ndarray]
    inverse: Callable[[np.ndarray], np.ndarray]
    slope: Callable[[np.ndarray], np.ndarray]
    low: float
    steepest: float
    w: tuple[float, float]
    b: tuple[float, float]


def _sigmoid(a: np.ndarray) -> np.ndarray:
    return (1 + np.tanh(a / 2)) / 2


FUNCTIONS = {
    "sigmoid": Function(
        _sigmoid,
        lambda h: np.log(h) - np.log1p(-h),
        lambda h: h * (1 - h),
        0.0,
        0.25,
        (-6.0, 8.0),
        (-6.0, 2.0),
    ),
    "tanh": Function(np.tanh, np.arctanh, lambda h: 1 - h * h, -1.0, 1.0, (-3.0, 3.0), (-2.0, 2.0)),
}


class FixedPoint(NamedTuple):
    """A value that stays, and the slope of a step there."""

    h: float
    slope: float

    @property
    def stable(self) -> bool:
        return abs(self.slope) < 1


def fixed_points(w: float, b: float, activation: str) -> list[FixedPoint]:
    """Return every h with f(w h + b) = h, from the least up.

    w f(a) + b - a is monotone between the at most two places where the slope of a step is one, so each
    piece has at most one zero, which bisection finds.
    """
    f = FUNCTIONS[activation]

    def gap(a: float) -> float:
        return w * float(f.value(np.array(a))) + b - a

    reach = abs(w) + abs(b) + 1
    edges = [-reach, *_turns(w, f), reach]
    found: list[FixedPoint] = []
    for low, high in pairwise(edges):
        if gap(low) * gap(high) > 0:
            continue
        left = gap(low)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            if left * gap(middle) > 0:
                low = middle
            else:
                high = middle
        h = float(f.value(np.array((low + high) / 2)))
        if not found or abs(found[-1].h - h) > 1e-9:
            found.append(FixedPoint(h, w * float(f.slope(np.array(h)))))
    return found


def _turns(w: float, f: Function) -> list[float]:
    """Return the values of a = w h + b at which the slope of a step is one."""
    if w * f.steepest <= 1:
        return []
    if f.low == 0:  # sigmoid: h (1 - h) = 1 / w
        half = math.sqrt(0.25 - 1 / w)
        h = np.array([0.5 - half, 0.5 + half])
    else:  # tanh: 1 - h^2 = 1 / w
        h = math.sqrt(1 - 1 / w) * np.array([-1.0, 1.0])
    turns: list[float] = f.inverse(h).tolist()
    return turns


def loss_surface(
    options: NeuronOptions, w: np.ndarray, b: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the loss (target - h_T)^2 and the norm of its gradient by w and b, at arrays of both."""
    f = FUNCTIONS[options.activation]
    h = np.full(np.broadcast(w, b).shape, options.begin)
    by_w, by_b = np.zeros_like(h), np.zeros_like(h)
    for _ in range(options.steps):
        before = h
        h = f.value(w * h + b)
        slope = f.slope(h)
        by_w, by_b = slope * (before + w * by_w), slope * (1 + w * by_b)
    gap = h - options.target
    return gap * gap, 2 * np.abs(gap) * np.hypot(by_w, by_b)


def regime(w: float, b: float, activation: str) -> int:
    """Return which of NAMES holds."""
    points = fixed_points(w, b, activation)
    if len(points) > 1:
        return 1
    return 0 if points[0].stable else 2


@view
def neuron(options: NeuronOptions) -> Sheet:
    """Show fixed points, where they appear, and the loss over weight and bias."""
    o, f = options, FUNCTIONS[options.activation]
    points = fixed_points(o.w, o.b, o.activation)
    ws, bs = _axis(f.w, o.w), _axis(f.b, o.b)
    w, b = np.meshgrid(ws, bs, indexing="ij")
    losses, norms = loss_surface(o, w, b)
    regimes = np.array([[regime(x, y, o.activation) for y in bs.tolist()] for x in ws.tolist()])
    walks = _walks(o, f)
    flat = float((norms < FLAT).mean())
    steepest = np.unravel_index(int(norms.argmax()), norms.shape)
    here = loss_surface(o, np.array(o.w), np.array(o.b))
    summary = [
        f"w {o.w:g}, b {o.b:g}: "
        + "; ".join(
            f"h = {p.h:.4f} {'stable' if p.stable else 'unstable'} (slope of a step {p.slope:.3f})"
            for p in points
        )
        + ".",
        f"The loss there is {float(here[0]):.3g}, the norm of its gradient {float(here[1]):.1e}.",
        f"Of the surface, {flat:.0%} is a plateau, where that norm is below {FLAT:g}; the steepest place "
        f"is at w {ws[steepest[0]]:.2f}, b {bs[steepest[1]]:.2f}, with {norms.max():.1e}.",
    ]

    def draw(page: bool) -> Mapping[str, Any]:
        place = (o.w, o.b)
        return {
            "From several starts": walk_chart(walks, [(p.h, p.stable) for p in points]),
            f"Fixed points over b, at w {o.w:g}": curve_chart(_branches(o, f, bs), o.b),
            "How many fixed points there are": surface_chart(
                ws, bs, regimes, place, classes=NAMES, title="fixed points"
            ),
            f"Loss (target {o.target:g}, {o.steps} steps)": surface_chart(
                ws, bs, losses, place, title="loss"
            ),
            "Norm of its gradient": surface_chart(
                ws, bs, np.log10(np.clip(norms, 1e-6, 1e6)), place, title="norm", log=True
            ),
        }

    return Sheet(
        f"One neuron: h = {o.activation}(w h + b)",
        draw,
        {
            "rows": [{"h": p.h, "slope": p.slope, "stable": p.stable} for p in points],
            "w": ws,
            "b": bs,
            "regimes": regimes,
            "losses": losses,
            "gradient_norms": norms,
            "walks": walks,
        },
        summary,
    )


def _axis(bounds: tuple[float, float], value: float) -> np.ndarray:
    """Return the values of an axis, moved so that the given one is inside."""
    low, high = bounds
    shift = value - low if value < low else value - high if value > high else 0.0
    margin = math.copysign(0.1 * (high - low), shift) if shift else 0.0
    return np.linspace(low + shift + margin, high + shift + margin, GRID)


def _walks(o: NeuronOptions, f: Function) -> np.ndarray:
    """Return h from several starts over the first steps, (STARTS, steps + 1)."""
    h = np.linspace(f.low, 1.0, STARTS)
    steps = [h]
    for _ in range(min(o.steps, SHOWN_STEPS)):
        h = f.value(o.w * h + o.b)
        steps.append(h)
    return np.stack(steps, axis=1)


def _branches(
    o: NeuronOptions, f: Function, bs: np.ndarray
) -> list[list[tuple[float, float, bool]]]:
    """Return the curves (b, h, stable) of fixed points, cut where stability changes."""
    h = np.linspace(f.low + 1e-4, 1 - 1e-4, 400)
    b = f.inverse(h) - o.w * h
    stable = np.abs(o.w * f.slope(h)) < 1
    parts = np.split(np.arange(len(h)), np.flatnonzero(np.diff(stable.astype(int))) + 1)
    return [
        [(float(b[i]), float(h[i]), bool(stable[i])) for i in part if bs[0] <= b[i] <= bs[-1]]
        for part in parts
    ]
