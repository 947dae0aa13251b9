"""How good a model is on parts of the data: by length, by class, by a column of the table; the
worst parts first.

A metric is a ratio of sums: right answers over texts, right words over words, twice the right spans
over the spans of both sides. It is given as the part and the whole of each example, so that models
of any task are sliced by the same code. The interval of a share of texts is Wilson's (1927,
"Probable Inference, the Law of Succession, and Statistical Inference"), which holds for small
slices and for shares of 0 and 1, where a bootstrap has no width; other ratios are bootstrapped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from seqloom.charts.theme import FEW
from seqloom.errors import DataError, quoted
from seqloom.metrics.bootstrap import interval

Outcomes = Mapping[str, np.ndarray]  # by metric: part and whole of each example, (n, 2)
Interval = tuple[float, float]

LENGTH, CLASS, UNKNOWN = "length", "class", "unknown"
BUILT_IN = (LENGTH, CLASS, UNKNOWN)  # what slices can be made by without a column
BINS = 5  # of numbers such as lengths, about equally many examples in each
MAX_DISTINCT_NUMBERS = 20  # different numbers up to which each is a slice of its own
MAX_SLICES = 1000  # slices by one column; more is a column of names or keys
MIN_EXAMPLES = FEW  # examples of a slice that says little: such slices come last
LONG = 0.95  # examples longer than this share of the training examples are long


class Slicing(NamedTuple):
    """Which slice each example is in."""

    by: str
    names: list[str]
    indices: np.ndarray  # int64 (n,)
    # By name: the share of the training examples that are shorter than all of a slice.
    longer_than: Mapping[str, float] = {}


def as_names(slice_by: str | Sequence[str]) -> list[str]:
    """Return one name or several as a list, each once."""
    return [slice_by] if isinstance(slice_by, str) else list(dict.fromkeys(slice_by))


def further_columns(slice_by: str | Sequence[str], group_by: str | None = None) -> list[str]:
    """Return the columns that data must have to be sliced and grouped so.

    >>> further_columns(["length", "source"], "gender")
    ['source', 'gender']
    """
    columns = [
        *(name for name in as_names(slice_by) if name not in BUILT_IN),
        *([group_by] if group_by is not None else []),
    ]
    return list(dict.fromkeys(columns))


def by_name(by: str, values: Sequence[str]) -> Slicing:
    """Make a slice for each value; numbers with many different values go into bins of about
    equally many examples.

    >>> by_name("source", ["web", "mail", "web"])
    Slicing(by='source', names=['mail', 'web'], indices=array([1, 0, 1]), longer_than={})
    """
    names = sorted(set(values))
    if len(names) > MAX_DISTINCT_NUMBERS and (numbers := _numbers(values)) is not None:
        return by_number(by, numbers)
    if len(names) > MAX_SLICES:
        raise DataError(
            f"column {quoted(by)} has {len(names):,} different values; slice by one that has at "
            f"most {MAX_SLICES:,}"
        )
    at = {name: index for index, name in enumerate(names)}
    return Slicing(by, names, np.fromiter((at[value] for value in values), np.int64, len(values)))


def by_number(
    by: str, values: np.ndarray, show: Callable[[float], str] = "{:,g}".format
) -> Slicing:
    """Make bins of about equally many examples, named by the least and the largest value in each.

    >>> by_number("age", np.array([1, 2, 3, 4, 5, 50])).names
    ['1 to 2', '3', '4', '5', '50']
    """
    return _binned(
        by, values, np.quantile(values, np.arange(1, BINS) / BINS, method="inverted_cdf"), show
    )


def by_length(unit: str, lengths: np.ndarray, training: Mapping[str, int]) -> Slicing:
    """Make bins of lengths; where those of the training examples are known (`length_record`),
    longer ones get bins of their own.

    >>> by_length("words", np.array([3, 4, 9]), {"p95": 4, "longest": 8})[1:]
    (['3', '4', '9'], array([0, 1, 2]), {'9': 1.0})
    """
    bounds = {
        share: training[key]
        for key, share in (("p95", LONG), ("longest", 1.0))
        if type(training.get(key)) is int
    }
    ends = np.quantile(lengths, np.arange(1, BINS) / BINS, method="inverted_cdf")
    # Lengths between the 95th percentile and the longest in training are one bin.
    apart = [end for end in ends if not bounds.get(LONG, end) < end <= bounds.get(1.0, end)]
    slicing = _binned(f"length in {unit}", lengths, [*apart, *bounds.values()], "{:,g}".format)
    longer: dict[str, float] = {}
    for index, name in enumerate(slicing.names):
        beyond = [
            share
            for share, border in bounds.items()
            if lengths[slicing.indices == index].min() > border
        ]
        longer |= {name: max(beyond)} if beyond else {}
    return slicing._replace(longer_than=longer)


def length_record(lengths: Sequence[int]) -> dict[str, int]:
    """Return how long the examples are that a model was fitted on.

    >>> length_record([1, 2, 3])
    {'median': 2, 'p95': 3, 'longest': 3}
    """
    ends = np.quantile(np.array(lengths, np.int64), [0.5, LONG, 1.0], method="inverted_cdf")
    return dict(zip(("median", "p95", "longest"), map(int, ends)))


def slice_rows(
    slicing: Slicing,
    outcomes: Outcomes,
    *,
    samples: int,
    more: Callable[[np.ndarray], dict[str, float]] = lambda rows: {},
) -> Iterator[dict[str, Any]]:
    """Yield a row for each slice; `more`: further numbers of the examples at these indices.

    >>> next(slice_rows(by_name("source", ["web", "mail", "web"]),
    ...                 {"accuracy": np.array([[1, 1], [0, 1], [0, 1]])}, samples=0))
    {'by': 'source', 'slice': 'mail', 'size': 1, 'accuracy': 0.0}
    """
    order = np.argsort(slicing.indices, kind="stable")
    groups = np.split(
        order, np.cumsum(np.bincount(slicing.indices, minlength=len(slicing.names)))[:-1]
    )
    for name, rows in zip(slicing.names, groups):
        beyond = {"longer_than": slicing.longer_than[name]} if name in slicing.longer_than else {}
        yield {
            **slice_row(
                slicing.by, name, {key: pairs[rows] for key, pairs in outcomes.items()}, samples
            ),
            **more(rows),
            **beyond,
        }


def slice_row(by: str, name: str, outcomes: Outcomes, samples: int) -> dict[str, Any]:
    """Return the size of one slice and its metrics, with intervals."""
    row: dict[str, Any] = {"by": by, "slice": name, "size": len(next(iter(outcomes.values())))}
    for key, pairs in outcomes.items():
        counted = pairs[pairs[:, 1] > 0]
        row[key] = float(counted[:, 0].sum() / counted[:, 1].sum()) if len(counted) else None
        if samples:
            row[f"{key}_interval"] = ratio_interval(counted, samples)
    return row


def worst_first(
    rows: Iterator[dict[str, Any]] | Sequence[dict[str, Any]], metric: str
) -> list[dict[str, Any]]:
    """Sort slices by the metric; small slices come after the others, and those without this metric
    last, by their accuracy.
    """

    def rank(row: dict[str, Any]) -> tuple[bool, bool, float]:
        value = row.get(metric)
        return (
            value is None,
            row["size"] < MIN_EXAMPLES,
            row.get("accuracy", 0.0) if value is None else value,
        )

    return sorted(rows, key=rank)


def ratio_interval(pairs: np.ndarray, samples: int) -> Interval:
    """Return the interval of the ratio of the sums of two columns: Wilson's where each row is
    right or wrong as a whole, else bootstrapped.
    """
    if not len(pairs):
        return math.nan, math.nan
    parts, wholes = pairs.T
    if (wholes == 1).all() and np.isin(parts, (0, 1)).all():
        return wilson(int(parts.sum()), len(pairs))
    return interval(parts, wholes, samples=samples)


def wilson(count: int, size: int, level: float = 0.95) -> Interval:
    """Return the Wilson interval of a share, where `count` of `size` were seen.

    >>> [round(end, 4) for end in wilson(8, 10)], wilson(0, 0)
    ([0.4902, 0.9433], (nan, nan))
    """
    if not size:
        return math.nan, math.nan
    z = NormalDist().inv_cdf((1 + level) / 2)
    share, square = count / size, z * z / size
    middle = (share + square / 2) / (1 + square)
    half = z / (1 + square) * math.sqrt(share * (1 - share) / size + square / (4 * size))
    return max(middle - half, 0.0) if count else 0.0, min(
        middle + half, 1.0
    ) if count < size else 1.0


def _binned(
    by: str, values: np.ndarray, ends: Sequence[float] | np.ndarray, show: Callable[[float], str]
) -> Slicing:
    """Make bins up to and including each of `ends`, and one above; those without examples are left
    out.
    """
    bins, indices = np.unique(np.searchsorted(np.unique(ends), values), return_inverse=True)
    names = []
    for index in range(len(bins)):
        inside = values[indices == index]
        low, high = show(inside.min()), show(inside.max())
        names.append(low if low == high else f"{low} to {high}")
    if len(set(names)) < len(names):  # numbers that look alike as they are shown
        names = [f"{name} ({index + 1})" for index, name in enumerate(names)]
    return Slicing(by, names, indices)


def _numbers(values: Sequence[str]) -> np.ndarray | None:
    """Return the values as numbers, if all of them are."""
    try:
        numbers = np.array([float(value) for value in values])
    except ValueError:
        return None
    return numbers if np.isfinite(numbers).all() else None
