"""Scaling laws: how a loss falls as the network (N) and the text (D) grow, L = E + A / N^a + B / D^b
(Hoffmann et al. 2022, "Training Compute-Optimal Large Language Models"), or with one of the two alone.

For given exponents the law is linear in E, A and B, so only the exponents are searched, on a grid that
is refined around the best (variable projection); inside, non-negative least squares of relative
residuals are weighted until the sum of Huber's function of log(predicted / measured) is least. There is
no start to choose, and none to go wrong: of single descents on the published runs more than half end in
a worse place (Besiroglu et al. 2024, "Chinchilla Scaling: A replication attempt").

How sure a prediction is comes from the posterior on the same grid: exponents are equally likely
beforehand, E, A and B have Jeffreys' prior and are positive, and the noise is what repeated runs and
residuals say together. Then the law is tested where it will be used: it is
fitted without the largest third of the runs, and if it misses them, all intervals grow by as much.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import NamedTuple

import numpy as np

from seqloom.errors import DataError

LOWEST, HIGHEST = 0.05, 1.5  # exponents that are searched
COARSE, FINE = 30, 9  # of each exponent on the first grid, and on those around its best
CLOSEST = 1e-4  # distance of the exponents on the last grid
ROUNDS = 40  # of weighting
DELTA = 1e-3  # from where on Huber's function is linear, in logarithms of the loss
FEWEST = 6  # runs
DRAWS = 4000  # from a posterior
NOISE, NOISE_RUNS = 0.003, 3  # where it was not measured: as if of so many repeated runs
LEAST_NOISE = 0.002  # relative: runs without noise do not follow the law more closely
MOST_PASSES = 4.0  # over the text; repeated more often, it is worth less than new text


@dataclass(frozen=True)
class Law:
    """The law with the least Huber loss; `quantities` are N and D, or one of them."""

    floor: float  # E, what remains with all text and the largest network
    factors: tuple[float, ...]  # A, B
    exponents: tuple[float, ...]  # a, b
    objective: float  # the sum over the runs

    def __call__(self, *quantities: float) -> float:
        """Return the loss that the law says.

        >>> Law(1.0, (2.0,), (0.5,), 0.0)(4.0)
        2.0
        """
        terms = (
            factor * x**-power for factor, power, x in zip(self.factors, self.exponents, quantities)
        )
        return self.floor + sum(terms)


class Interval(NamedTuple):
    """A value that is expected, and where it is in 95 of 100 cases."""

    value: float
    low: float
    high: float

    def widened(self, factor: float) -> Interval:
        """Return the interval with both sides longer by a factor."""
        return Interval(
            self.value,
            self.value - factor * (self.value - self.low),
            self.value + factor * (self.high - self.value),
        )


# ---- fit


def fit(
    losses: Sequence[float], quantities: Sequence[Sequence[float]], delta: float = DELTA
) -> Law:
    """Fit the law to the loss of each run; `quantities`: for each run its N and D, or one of them."""
    losses_, x = _checked(losses, quantities)
    law, at_border = _fit(losses_, x, delta)
    flat = [name_of(k, x.shape[1]) for k, factor in enumerate(law.factors) if factor <= 0]
    if flat:
        raise DataError(
            f"the loss of these runs does not fall with {' and '.join(flat)}, so there is no law of it; add "
            "runs that differ more in it, or look at how they were trained"
        )
    if at_border:
        which = " and ".join(at_border)
        raise DataError(
            f"the exponent of {which} is at the border of what is searched ({LOWEST:g} to {HIGHEST:g}): "
            "these runs do not say how the loss goes on; add runs that differ more in it, or that are longer"
        )
    return law


def _checked(
    losses: Sequence[float], quantities: Sequence[Sequence[float]]
) -> tuple[np.ndarray, np.ndarray]:
    y, x = np.asarray(losses, np.float64), np.asarray(quantities, np.float64)
    x = x.reshape(len(y), -1)
    if len(y) < FEWEST:
        raise DataError(
            f"{len(y)} runs are too few for a scaling law; give at least {FEWEST}, better nine: three widths "
            "by three lengths"
        )
    if not (np.isfinite(y).all() and (y > 0).all() and np.isfinite(x).all() and (x > 0).all()):
        raise DataError("losses, sizes and lengths of runs must be positive numbers")
    for k in range(x.shape[1]):
        if len(np.unique(x[:, k])) < 3:
            raise DataError(
                f"only {len(np.unique(x[:, k]))} different values of {name_of(k, x.shape[1])}; an exponent "
                "needs three"
            )
    return y, x


def name_of(index: int, count: int) -> str:
    """Return what a quantity is, where there are both or the text alone."""
    return ("the size", "the text")[index] if count == 2 else "the text"


def _fit(losses: np.ndarray, x: np.ndarray, delta: float) -> tuple[Law, list[str]]:
    """Return the law, and the quantities whose exponent ended at the border."""
    scaled, count = np.log(x / _middle(x)), x.shape[1]
    centre = np.full(count, (LOWEST + HIGHEST) / 2)
    half, points = np.full(count, (HIGHEST - LOWEST) / 2), COARSE
    weights = np.ones(len(losses))
    while True:
        grid = _grid(np.maximum(centre - half, LOWEST), np.minimum(centre + half, HIGHEST), points)
        design = _design(losses, scaled, grid)
        found, weights_of = _project(design, delta, weights)
        objective = _huber(np.log(_fitted(design, found)), delta).sum(axis=1)
        best = int(objective.argmin())
        centre, weights = grid[best], weights_of[best]
        step = 2 * half / (points - 1)
        if step.max() < CLOSEST:
            break
        half, points = np.where(step < CLOSEST, half, 2 * step), FINE
    floor, *terms = found[best].tolist()
    powers = centre.tolist()
    factors = tuple(
        term * middle**power for term, middle, power in zip(terms, _middle(x).tolist(), powers)
    )
    border = [
        name_of(k, count)
        for k in range(count)
        if not LOWEST + 2 * CLOSEST < powers[k] < HIGHEST - 2 * CLOSEST
    ]
    return Law(floor, factors, tuple(powers), float(objective[best])), border


def _middle(x: np.ndarray) -> np.ndarray:
    """Return the geometric mean of each quantity."""
    return np.exp(np.log(x).mean(axis=0))


def _grid(low: np.ndarray, high: np.ndarray, points: int) -> np.ndarray:
    """Return all pairs of exponents between these, (cells, quantities)."""
    axes = [np.linspace(a, b, points) for a, b in zip(low, high)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))


def _design(losses: np.ndarray, scaled: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Return what E and each factor contribute to a run's predicted loss, as a share of the measured
    one, (cells, runs, 1 + quantities).
    """
    terms = np.exp(-scaled * grid[:, None, :])
    return np.concatenate([np.ones((*terms.shape[:2], 1)), terms], axis=2) / losses[:, None]


def _fitted(design: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    return np.maximum((design @ coefficients[..., None])[..., 0], 1e-12)


def _huber(residuals: np.ndarray, delta: float) -> np.ndarray:
    size = np.abs(residuals)
    return np.where(size <= delta, 0.5 * size**2, delta * (size - 0.5 * delta))


def _project(
    design: np.ndarray, delta: float, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return for each cell the non-negative coefficients of least Huber loss of the logarithms, and the
    weights of the runs that led there; `weights` to begin with.
    """
    current = np.broadcast_to(weights, design.shape[:2])
    for _ in range(ROUNDS):
        found = _solve(design, current)
        residuals = _fitted(design, found) - 1
        slopes = np.clip(np.log1p(residuals), -delta, delta)
        # Least squares of the residuals with these weights have the same slopes as Huber's function of the
        # logarithms.
        near = np.abs(residuals) < 1e-9
        current = np.where(near, 1.0, slopes / np.where(near, 1.0, residuals * (1 + residuals)))
    return found, current


def _solve(design: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return for each cell the non-negative least squares towards one: few coefficients, so all sets of
    positive ones are tried where the plain solution has a negative one.
    """
    weighted = (design * weights[..., None]).swapaxes(1, 2)
    gram, moment = weighted @ design, weighted.sum(axis=2)
    count = gram.shape[1]
    gram = gram + 1e-13 * np.trace(gram, axis1=1, axis2=2)[:, None, None] * np.eye(count)
    found = np.linalg.solve(gram, moment[..., None])[..., 0]
    bad = np.flatnonzero((found < 0).any(axis=1))
    found[bad], best = 0.0, np.zeros(len(bad))
    for size in range(1, count) if len(bad) else ():
        for chosen in combinations(range(count), size):
            some = np.array(chosen)
            part = np.linalg.solve(
                gram[np.ix_(bad, some, some)], moment[np.ix_(bad, some)][..., None]
            )[..., 0]
            explained = (part * moment[np.ix_(bad, some)]).sum(axis=1)
            better = (part >= 0).all(axis=1) & (explained > best)
            best = np.where(better, explained, best)
            full = np.zeros((len(bad), count))
            full[:, some] = part
            found[bad[better]] = full[better]
    return found


# ---- how sure


@dataclass(frozen=True)
class Posterior:
    """Laws drawn from those that the runs allow."""

    middle: np.ndarray  # of each quantity; terms are what it contributes there
    floors: np.ndarray  # (draws,)
    terms: np.ndarray  # (draws, quantities)
    exponents: np.ndarray  # likewise
    noise: np.ndarray  # (draws,), of one run, relative
    widened: float = 1.0  # by which factor intervals are, since the law missed its largest runs

    def losses(self, *quantities: float) -> np.ndarray:
        """Return what each drawn law expects."""
        shares = (np.asarray(quantities) / self.middle) ** -self.exponents
        return self.floors + (self.terms * shares).sum(axis=1)

    def run(self, *quantities: float) -> Interval:
        """Return where the loss of one further run will be, its own noise included."""
        spread = np.random.default_rng(1).standard_normal(len(self.noise))
        return self.interval(self.losses(*quantities) * (1 + self.noise * spread))

    def gain(self, now: Sequence[float], then: Sequence[float]) -> Interval:
        """Return by how much the loss falls from one place to another."""
        return self.interval(self.losses(*now) - self.losses(*then))

    def interval(self, drawn: np.ndarray) -> Interval:
        """Return the middle of drawn values and where 95 % are."""
        low, value, high = np.quantile(drawn, (0.025, 0.5, 0.975)).tolist()
        return Interval(value, low, high).widened(self.widened)


class Noise(NamedTuple):
    """How much runs that differ in their seed alone differ, relative to their loss."""

    deviation: float
    degrees: int  # of freedom


def noise_of(repeats: Iterable[Sequence[float]]) -> Noise:
    """Return the noise that groups of repeated runs show; what is usual where none was repeated."""
    squares, degrees = 0.0, 0
    for group in repeats:
        values = np.asarray(group, np.float64)
        squares += float(((values / values.mean() - 1) ** 2).sum())
        degrees += len(values) - 1
    return Noise(math.sqrt(squares / degrees), degrees) if degrees else Noise(NOISE, NOISE_RUNS - 1)


def posterior(
    losses: Sequence[float],
    quantities: Sequence[Sequence[float]],
    noise: Noise | None = None,
    *,
    seed: int = 0,
) -> Posterior:
    """Draw laws that the runs allow; `noise` of repeated runs. Intervals are widened where the law,
    fitted without the largest third of the runs, misses them.
    """
    y, x = _checked(losses, quantities)
    noise = noise or noise_of(())
    order = np.argsort(np.log(x).sum(axis=1), kind="stable")
    known, left = order[: -(len(y) // 3)], order[-(len(y) // 3) :]
    before = _posterior(y[known], x[known], noise, seed)
    factor = 1.0
    for i in left.tolist():
        expected = before.run(*x[i])
        side = expected.high if y[i] > expected.value else expected.low
        factor = max(factor, (y[i] - expected.value) / (side - expected.value))
    return replace(_posterior(y, x, noise, seed), widened=float(factor))


def _posterior(y: np.ndarray, x: np.ndarray, noise: Noise, seed: int) -> Posterior:
    rng, count = np.random.default_rng(seed), x.shape[1]
    middle = _middle(x)
    cells = _grid(np.full(count, LOWEST), np.full(count, HIGHEST), 2 * COARSE)
    design = _design(y, np.log(x / middle), cells)
    gram, moment = design.swapaxes(1, 2) @ design, design.sum(axis=1)
    gram = gram + 1e-13 * np.trace(gram, axis1=1, axis2=2)[:, None, None] * np.eye(count + 1)
    centre = np.linalg.solve(gram, moment[..., None])[..., 0]
    squares = ((_fitted(design, centre) - 1) ** 2).sum(axis=1) + (
        noise.degrees * max(noise.deviation, LEAST_NOISE) ** 2
    )
    degrees = len(y) + noise.degrees
    # The searched exponents cost degrees of freedom too.
    log_weights = -0.5 * (degrees - count) * np.log(squares)
    weights = np.exp(log_weights - log_weights.max())
    root = np.linalg.cholesky(np.linalg.inv(gram))
    kept: list[tuple[np.ndarray, ...]] = []
    for _ in range(50):  # draws that are not positive are refused, which is what the prior says
        cell = rng.choice(len(cells), 4 * DRAWS, p=weights / weights.sum())
        spread = np.sqrt(squares[cell] / rng.chisquare(degrees - (count + 1), len(cell)))
        away = (root[cell] @ rng.standard_normal((len(cell), count + 1, 1)))[..., 0]
        drawn = centre[cell] + spread[:, None] * away
        good = (drawn > 0).all(axis=1)
        kept.append((drawn[good], cells[cell[good]], spread[good]))
        if sum(len(part[0]) for part in kept) >= DRAWS:
            break
    coefficients, exponents, deviations = (np.concatenate(parts)[:DRAWS] for parts in zip(*kept))
    if len(coefficients) < 100:
        raise DataError(
            "the loss of these runs does not fall with their size and length, so no scaling law fits; look "
            "at the runs, or give longer ones"
        )
    return Posterior(middle, coefficients[:, 0], coefficients[:, 1:], exponents, deviations)
