"""How sure a number is: bootstrap intervals over segments, and a paired test of two models.

Tokens next to each other are not independent, so whole segments (lines, documents, blocks; see
`metrics/language`) are resampled, after Koehn 2004, "Statistical Significance Tests for Machine
Translation Evaluation", section 3. The statistic is a ratio of sums (nats over bytes): segments are
drawn with both their nats and their bytes, so long ones weigh more, as they do in the number
itself. The p-value of a difference comes from flipping the sign of each segment's difference at
random (Fisher's randomisation test), which asks how often two equal models would seem this far
apart.

What cannot be known is NaN: the spread of a single segment, and of differences with infinite costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

CELLS = 1 << 20  # samples times segments that are drawn at once, which bounds the memory


class Paired(NamedTuple):
    """First model less second, per unit of weight: below zero, the first is better."""

    difference: float
    low: float
    high: float
    p_value: float  # two-sided


def interval(
    nats_by_segment: np.ndarray,
    weight_by_segment: np.ndarray,
    *,
    level: float = 0.95,
    samples: int = 1000,
    seed: int = 0,
) -> tuple[float, float]:
    """Return the confidence interval of sum(nats) / sum(weight) at this level.

    Equal segments give an interval of width zero, one segment gives (nan, nan), and a segment of infinite
    cost an upper end of infinity.

    >>> interval(np.array([2.0, 4.0, 6.0]), np.array([1.0, 2.0, 3.0]))
    (2.0, 2.0)
    """
    values, weights = _checked(nats_by_segment, weight_by_segment)
    _check_options(level, samples)
    if len(values) == 1:
        return math.nan, math.nan
    rng = np.random.default_rng(seed)
    kinds, counts = np.unique(np.stack([values, weights]), axis=1, return_counts=True)

    def ratios(count: int) -> np.ndarray:
        drawn = rng.integers(0, len(values), (count, len(values)))
        return values[drawn].sum(axis=1) / weights[drawn].sum(axis=1)

    def ratios_of_kinds(count: int) -> np.ndarray:
        """Draw ratios from the same distribution by how often each kind of segment is drawn, where few
        kinds come often (right and wrong).
        """
        drawn = rng.multinomial(len(values), counts / len(values), count)
        return (drawn @ kinds[0]) / (drawn @ kinds[1])

    few = len(counts) * 100 < len(values) and np.isfinite(values).all()
    draw, width = (ratios_of_kinds, len(counts)) if few else (ratios, len(values))
    low, high = _middle(_in_chunks(draw, samples, width), level)
    # Resamples may miss an infinite cost, yet it is there.
    return low, math.inf if np.isposinf(values).any() else high


def paired(
    a_nats: np.ndarray,
    b_nats: np.ndarray,
    weights: np.ndarray,
    *,
    level: float = 0.95,
    samples: int = 1000,
    seed: int = 0,
) -> Paired:
    """Compare two models on the same segments: difference of their ratios, its interval, and a p-value.

    A segment that both find impossible counts as a tie. One that only one of them finds impossible makes
    the difference infinite (NaN if both have such segments) and leaves the rest NaN.

    >>> paired(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0]), np.ones(3))
    Paired(difference=0.0, low=0.0, high=0.0, p_value=1.0)
    """
    a, checked_weights = _checked(a_nats, weights)
    b, _ = _checked(b_nats, weights)
    _check_options(level, samples)
    both = np.isposinf(a) & np.isposinf(b)
    gaps = np.where(both, 0.0, a) - np.where(both, 0.0, b)
    if not np.isfinite(gaps).all():
        signs = set(np.sign(gaps[np.isinf(gaps)]).tolist())
        return Paired(
            signs.pop() * math.inf if len(signs) == 1 else math.nan, math.nan, math.nan, math.nan
        )
    low, high = interval(gaps, checked_weights, level=level, samples=samples, seed=seed)
    difference = float(gaps.sum() / checked_weights.sum())
    return Paired(difference, low, high, _sign_flip(gaps, samples, seed))


def paired_statistic(
    a: np.ndarray,
    b: np.ndarray,
    statistic: Callable[[np.ndarray], float],
    *,
    level: float = 0.95,
    samples: int = 1000,
    seed: int = 0,
) -> Paired:
    """Compare two models by any statistic of segments, such as F1, where the weights are not those of
    the other model.

    `a`, `b`: values of each segment, (n, m). The interval resamples segments, both models together;
    the p-value exchanges the two models on random segments (Yeh 2000, "More Accurate Tests for the
    Statistical Significance of Result Differences").

    >>> rows = np.array([[1.0, 2.0], [0.0, 1.0], [2.0, 2.0]])
    >>> paired_statistic(rows, rows, ratio)
    Paired(difference=0.0, low=0.0, high=0.0, p_value=1.0)
    """
    _check_options(level, samples)
    if a.shape != b.shape or a.ndim < 2 or not len(a):
        raise ValueError(f"need values of the same segments; got shapes {a.shape} and {b.shape}")
    difference = statistic(a) - statistic(b)
    if len(a) == 1:
        return Paired(difference, math.nan, math.nan, math.nan)
    rng, far = np.random.default_rng(seed), 0
    drawn = np.empty(samples)
    for i in range(samples):
        rows = rng.integers(0, len(a), len(a))
        drawn[i] = statistic(a[rows]) - statistic(b[rows])
        swap = rng.integers(0, 2, len(a)).astype(bool).reshape(-1, *[1] * (a.ndim - 1))
        far += (
            abs(statistic(np.where(swap, b, a)) - statistic(np.where(swap, a, b)))
            >= abs(difference) - 1e-12
        )
    low, high = _middle(drawn, level)
    return Paired(difference, low, high, (far + 1) / (samples + 1))


def paired_rows(
    a: np.ndarray,
    b: np.ndarray,
    statistic: Callable[[np.ndarray], float] | None = None,
    *,
    samples: int = 1000,
) -> Paired:
    """Compare a ratio of sums, or another statistic, of two models: `paired` where both have the
    same weights.

    >>> rows = np.array([[1.0, 2.0], [0.0, 1.0], [2.0, 2.0]])
    >>> paired_rows(rows, rows)
    Paired(difference=0.0, low=0.0, high=0.0, p_value=1.0)
    """
    if statistic in (None, ratio) and np.array_equal(a[:, 1], b[:, 1]) and (a[:, 1] > 0).all():
        return paired(a[:, 0], b[:, 0], a[:, 1], samples=samples)
    return paired_statistic(a, b, statistic or ratio, samples=samples)


def interval_of_sums(
    rows: np.ndarray,
    formula: Callable[[np.ndarray], np.ndarray],
    *,
    level: float = 0.95,
    samples: int = 1000,
    seed: int = 0,
) -> tuple[float, float]:
    """Return the confidence interval of a formula of sums over segments, such as BLEU; `rows`
    (n, m), `formula` of sums (..., m).

    >>> interval_of_sums(np.array([[2.0, 1.0], [4.0, 2.0]]), lambda sums: sums[..., 0] / sums[..., 1])
    (2.0, 2.0)
    """
    _check_options(level, samples)
    if len(rows) == 1:
        return math.nan, math.nan
    rng = np.random.default_rng(seed)
    return _middle(
        _in_chunks(lambda count: formula(_resampled(rng, count, rows)), samples, len(rows)), level
    )


def paired_sums(
    a: np.ndarray,
    b: np.ndarray,
    formula: Callable[[np.ndarray], np.ndarray],
    *,
    level: float = 0.95,
    samples: int = 1000,
    seed: int = 0,
) -> Paired:
    """Compare as `paired_statistic` does, by a formula of sums, which many resamples take at once:
    that is much faster.

    >>> rows = np.array([[1.0, 2.0], [0.0, 1.0], [2.0, 2.0]])
    >>> paired_sums(rows, rows, lambda sums: sums[..., 0] / sums[..., 1])
    Paired(difference=0.0, low=0.0, high=0.0, p_value=1.0)
    """
    _check_options(level, samples)
    if a.shape != b.shape or a.ndim != 2 or not len(a):
        raise ValueError(f"need sums of the same segments; got shapes {a.shape} and {b.shape}")
    difference = float(formula(a.sum(axis=0)) - formula(b.sum(axis=0)))
    if len(a) == 1:
        return Paired(difference, math.nan, math.nan, math.nan)
    rng, both, total = (
        np.random.default_rng(seed),
        np.concatenate([a, b], axis=1),
        (a + b).sum(axis=0),
    )

    def differences(count: int) -> np.ndarray:
        sums = _resampled(rng, count, both)
        return formula(sums[:, : a.shape[1]]) - formula(sums[:, a.shape[1] :])

    def exchanged(count: int) -> np.ndarray:
        ours = rng.integers(0, 2, (count, len(a))).astype(np.float64) @ (a - b) + b.sum(axis=0)
        return formula(ours) - formula(total - ours)

    low, high = _middle(_in_chunks(differences, samples, len(a)), level)
    far = np.abs(_in_chunks(exchanged, samples, len(a))) >= abs(difference) - 1e-9
    return Paired(difference, low, high, float((np.count_nonzero(far) + 1) / (samples + 1)))


def unpaired(
    a: np.ndarray,
    b: np.ndarray,
    *,
    level: float = 0.95,
    samples: int = 1000,
    seed: int = 0,
) -> list[tuple[float, float, float, float]]:
    """Return for each of m measures the ratios of sums of two sets of segments that are not the same,
    (n, m, 2) each, and the confidence interval of the first less the second; each set is resampled
    by itself, once for all measures.

    >>> unpaired(np.array([[[1.0, 1.0]], [[3.0, 1.0]]]), np.array([[[1.0, 1.0]], [[1.0, 1.0]]]))
    [(2.0, 1.0, 0.0, 2.0)]
    """
    _check_options(level, samples)
    rng = np.random.default_rng(seed)

    def ratios(rows: np.ndarray) -> np.ndarray:
        flat = rows.reshape(len(rows), -1)
        sums = _in_chunks(lambda count: _resampled(rng, count, flat), samples, len(rows))
        parts, wholes = sums[:, ::2], sums[:, 1::2]
        return parts / np.where(wholes > 0, wholes, 1.0)

    gaps = ratios(a) - ratios(b)
    return [
        (ratio(a[:, i]), ratio(b[:, i]), *_middle(gaps[:, i], level)) for i in range(a.shape[1])
    ]


def _resampled(rng: np.random.Generator, count: int, rows: np.ndarray) -> np.ndarray:
    """Return sums of as many rows, drawn with replacement: (count, m)."""
    n = len(rows)
    drawn = rng.integers(0, n, (count, n)) + np.arange(count)[:, None] * n
    return (
        np.bincount(drawn.ravel(), minlength=count * n).reshape(count, n).astype(np.float64) @ rows
    )


def ratio(rows: np.ndarray) -> float:
    """Return the ratio of the sums of two columns.

    >>> ratio(np.array([[1.0, 2.0], [2.0, 4.0]]))
    0.5
    """
    part, whole = rows.sum(axis=0)
    return float(part / whole) if whole else 0.0


def correlation(rows: np.ndarray) -> float:
    """Return the (Pearson) correlation of two columns; of ranks it is Spearman's.

    >>> correlation(np.array([[1.0, 1.0], [2.0, 3.0], [3.0, 2.0]]))
    0.5
    """
    x, y = (rows - rows.mean(axis=0)).T
    size = float(np.sqrt((x @ x) * (y @ y)))
    return round(float(x @ y) / size, 12) if size > 0 else 0.0


def _sign_flip(gaps: np.ndarray, samples: int, seed: int) -> float:
    """Return how often random signs move the sum as far from zero; the observed signs count as one
    sample.
    """
    rng = np.random.default_rng((seed, 1))  # not the numbers of the interval
    total = gaps.sum()

    def sums(count: int) -> np.ndarray:
        plus = rng.integers(0, 2, (count, len(gaps)), dtype=np.int8)
        return 2.0 * (plus @ gaps) - total

    flipped = np.abs(_in_chunks(sums, samples, len(gaps)))
    # Sums of the same numbers in another order are not larger.
    rounding = 1e-12 * np.abs(gaps).sum()
    return float((np.count_nonzero(flipped >= abs(total) - rounding) + 1) / (samples + 1))


def _in_chunks(draw: Callable[[int], np.ndarray], samples: int, width: int) -> np.ndarray:
    size = max(1, CELLS // width)
    return np.concatenate([draw(min(size, samples - done)) for done in range(0, samples, size)])


def _middle(statistics: np.ndarray, level: float) -> tuple[float, float]:
    """Return the ends of the middle `level` of the samples, without interpolation, since some may
    be infinite.
    """
    ordered = np.sort(statistics)
    outside = int((1.0 - level) / 2.0 * len(ordered))
    return float(ordered[outside]), float(ordered[len(ordered) - 1 - outside])


def _checked(values: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    values, weights = np.asarray(values, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    if values.ndim != 1 or values.shape != weights.shape or not values.size:
        raise ValueError(
            f"need one value and one weight a segment; got shapes {values.shape} and {weights.shape}"
        )
    if np.isnan(values).any() or np.isneginf(values).any():
        raise ValueError(
            "the cost of a segment is NaN or minus infinity; give costs (nats), not log-probabilities"
        )
    if not ((weights > 0) & np.isfinite(weights)).all():
        raise ValueError("the weight of every segment must be above zero and finite")
    return values, weights


def _check_options(level: float, samples: int) -> None:
    if not 0 < level < 1 or samples < 1:
        raise ValueError(
            f"level must be between 0 and 1 and samples at least 1; got {level} and {samples}"
        )
