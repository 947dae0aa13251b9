"""What the Jacobians of a recurrent layer say about its memory: their products over distance.

    d s_t / d s_{t-k} = J_t J_{t-1} .. J_{t-k+1}

A largest singular value below one in every step suffices for vanishing, one above is only necessary for
exploding, and the spectral radius of W_h decides only in the linear case: so the products are measured.
They are kept with a logarithmic scale, since after hundreds of steps they leave the range of float64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from seqloom import progress

if TYPE_CHECKING:
    from seqloom.models.network.flow_net import LayerFlow

SMALL, ENDS, FEW_ENDS = 256, 5, 2  # a state up to which many ends are followed; how many
DENSE, MOST_DISTANCES = (
    20,
    40,
)  # distances at which a product is measured: all of the first, then fewer
MOST_MEASURED = 16  # single Jacobians whose singular values and eigenvalues are computed
MOST_NUMBERS = 1 << 22  # of the Jacobians that are held at a time
FLOOR = 1e-300  # a product below this is zero
HORIZON = 0.01  # of the norm at distance 1
# of the demonstration with tanh. What is left spreads over ten powers of ten, so the median of few seeds
# is a matter of luck; this many, chosen before any was looked at, settle it.
SEEDS = 400


@dataclass
class Flow:
    """The measured flow of gradients through one layer; norms are medians over the last steps followed."""

    name: str
    distances: list[int]
    curves: dict[str, list[float]]  # by what: "dh/dh", and of an LSTM "dc/dc" and "forget gates"
    singular: float  # largest singular value of one step's Jacobian, median
    radius: float  # its spectral radius, median
    recurrent: dict[
        str, float
    ]  # of W_h: largest singular value and spectral radius, where it is square
    exponents: list[float] = field(default_factory=list)  # finite-time, of each step followed

    @property
    def exponent(self) -> float:
        """Return the finite-time Lyapunov exponent of the whole state: its growth in nats a step."""
        return float(np.median(self.exponents))

    @property
    def growth(self) -> tuple[float, int]:
        """Return how much larger than at distance 0 a change becomes at most, and at which distance."""
        norms = self.curves["state"]
        best = int(np.argmax(norms))
        return norms[best], self.distances[best]

    @property
    def horizon(self) -> int | None:
        """Return the first distance at which dh/dh is below 1 % of that at distance 1; None: none is."""
        norms = self.curves["dh/dh"]
        return next(
            (k for k, norm in zip(self.distances, norms) if norm < HORIZON * norms[0]), None
        )

    def measures(self) -> dict[str, Any]:
        """Return all that is not by distance, as plain values."""
        return {
            "layer": self.name,
            "singular": self.singular,
            "radius": self.radius,
            **{f"recurrent_{name}": value for name, value in self.recurrent.items()},
            "lyapunov": self.exponent,
            "growth": self.growth[0],
            "growth_at": self.growth[1],
            "horizon": self.horizon,
        }


def distances_up_to(most: int) -> list[int]:
    """Return the distances that are measured.

    >>> distances_up_to(3)
    [1, 2, 3]
    """
    far = np.geomspace(min(DENSE, most), most, MOST_DISTANCES - DENSE).round().astype(int)
    return sorted({*range(1, min(DENSE, most) + 1), *far.tolist()})


def measure(layer: LayerFlow, distance: int) -> Flow:
    """Follow the products of a layer's Jacobians back from several steps, up to `distance`."""
    most = min(distance, layer.steps)
    first = most if layer.steps > most else (layer.steps + 1) // 2
    size = max(part.stop for part in layer.leaves.values())
    many = ENDS if size <= SMALL else FEW_ENDS
    ends = sorted(set(np.linspace(first, layer.steps, many).astype(int).tolist()))
    wanted = set(distances_up_to(most))
    blocks = _blocks(layer, size)
    products = {end: np.eye(size) for end in ends}
    scales = dict.fromkeys(ends, 0.0)
    measured: dict[str, dict[int, list[float]]] = {name: {} for name in blocks}
    exponents: dict[int, float] = {}
    singles: list[tuple[float, float]] = []
    every = -(-most // MOST_MEASURED)
    lowest, rows = max(ends[0] - most, 0), max(MOST_NUMBERS // size**2, 1)
    with progress.task(f"gradients of {layer.name}", layer.steps - lowest, "steps") as bar:
        for high in range(layer.steps, lowest, -rows):
            low = max(high - rows, lowest)
            jacobians = layer.jacobians(low, high)
            for t in range(high - 1, low - 1, -1):
                jacobian = jacobians[t - low]
                if t % every == 0:
                    singles.append((_largest(jacobian), _radius(jacobian)))
                for end in ends:
                    k = end - t
                    if not 0 < k <= most or not math.isfinite(scales[end]):
                        continue
                    product = products[end] @ jacobian
                    norm = float(np.linalg.norm(product))
                    scales[end] += math.log(norm) if norm else -math.inf
                    products[end] = product / (norm or 1.0)
                    if k in wanted:
                        for name, (out, into) in blocks.items():
                            value = _scaled(_largest(products[end][out, into]), scales[end])
                            measured[name].setdefault(k, []).append(value)
                        exponents[end] = _exponent(_largest(products[end]), scales[end], k)
                bar.advance(1)
    distances = sorted(measured["state"])
    curves = {
        name: [float(np.median(values[k])) for k in distances] for name, values in measured.items()
    }
    if layer.forget is not None:
        curves["forget gates"] = _forget_products(layer.forget, ends, distances)
    singular, radius = np.median(np.array(singles or [(0.0, 0.0)]), axis=0).tolist()
    return Flow(
        layer.name,
        distances,
        curves,
        singular,
        radius,
        _of_recurrent(layer.recurrent),
        [value for value in exponents.values() if math.isfinite(value)] or [-math.inf],
    )


def _blocks(layer: LayerFlow, size: int) -> dict[str, tuple[slice, slice]]:
    blocks = {"state": (slice(0, size), slice(0, size))}
    return blocks | {f"d{leaf}/d{leaf}": (part, part) for leaf, part in layer.leaves.items()}


def _largest(matrix: np.ndarray) -> float:
    """Return the largest singular value, by the smaller of the two products with the transpose."""
    gram = matrix @ matrix.T
    return math.sqrt(max(float(np.linalg.eigvalsh(gram)[-1]), 0.0))


def _radius(matrix: np.ndarray) -> float:
    return float(np.abs(np.linalg.eigvals(matrix)).max())


def _scaled(value: float, log_scale: float) -> float:
    """Return value e^scale; zero where it is below all that can be drawn, and a large number above."""
    if value <= 0 or value != value:
        return 0.0
    exponent = math.log(value) + log_scale
    return math.exp(min(exponent, 690.0)) if exponent > math.log(FLOOR) else 0.0


def _exponent(value: float, log_scale: float, steps: int) -> float:
    return (math.log(value) + log_scale) / steps if value > 0 else -math.inf


def _forget_products(forget: np.ndarray, ends: list[int], distances: list[int]) -> list[float]:
    """Return the largest product of forget gates over each distance, the median of the steps followed."""
    with np.errstate(divide="ignore"):
        logs = np.log(np.maximum(forget, 0.0))
    sums = np.concatenate([np.zeros((1, forget.shape[1])), np.cumsum(logs, axis=0)])  # (T + 1, H)
    return [
        float(np.median([np.exp((sums[end] - sums[end - k]).max()) for end in ends if end >= k]))
        for k in distances
    ]


def _of_recurrent(blocks: np.ndarray | None) -> dict[str, float]:
    """Return the largest singular value and spectral radius of W_h, the largest of its gates' blocks."""
    if blocks is None:
        return {}
    return {
        "singular": max(_largest(block) for block in blocks),
        "radius": max(_radius(block) for block in blocks),
    }


# ---- the demonstrations of the documents


def constant_slope_ratios(
    scale: float, *, width: int = 64, steps: int = 100, slope: float = 0.5, starts: int = 2000
) -> np.ndarray:
    """Return how much of random gradients is left after going back through a Gaussian matrix with so many
    steps of one slope: a demonstration with numbers, and no network, since tanh has no constant slope.

    The matrices are those of the seed 0, the small one (scale 0.5) first.
    """
    rng = np.random.default_rng(0)
    small = rng.normal(0, 0.5 / np.sqrt(width), (width, width))
    matrix = small if scale == 0.5 else rng.normal(0, scale / np.sqrt(width), (width, width))
    gradients = np.random.default_rng(1).standard_normal((starts, width))
    first = np.linalg.norm(gradients, axis=1)
    for _ in range(steps):
        gradients = slope * (gradients @ matrix)
    ratios: np.ndarray = np.linalg.norm(gradients, axis=1) / first
    return ratios


def tanh_ratios(
    gain: float, *, seeds: int = SEEDS, width: int = 64, steps: int = 100
) -> tuple[np.ndarray, float]:
    """Return what is left of a random gradient after going back through a plain network that was driven by
    noise, for each of the seeds 0, 1, 2, ..., and the mean slope of tanh.
    """
    draws = [np.random.default_rng(seed) for seed in range(seeds)]
    matrix = np.stack([rng.standard_normal((width, width)) for rng in draws])
    matrix *= gain / math.sqrt(width)  # (N, H, H)
    noise = np.stack([rng.standard_normal((steps, width)) for rng in draws], axis=1)
    gradient = np.stack([rng.standard_normal(width) for rng in draws])
    h, slopes = np.zeros((seeds, width, 1)), np.empty_like(noise)
    for t in range(steps):
        h = np.tanh(matrix @ h + noise[t, :, :, None])
        slopes[t] = 1 - h[:, :, 0] ** 2
    first = np.linalg.norm(gradient, axis=1)
    for slope in slopes[::-1]:
        gradient = ((slope * gradient)[:, None] @ matrix)[:, 0]
    ratios: np.ndarray = np.linalg.norm(gradient, axis=1) / first
    return ratios, float(slopes.mean())


def medians_of(ratios: np.ndarray, size: int) -> np.ndarray:
    """Return the medians of each `size` seeds, in their order: how far such a median can be trusted."""
    medians: np.ndarray = np.median(ratios.reshape(-1, size), axis=1)
    return medians
