"""Whether a classifier treats groups alike: rates of each group, and the gaps between groups.

Of each class: the selection rate is the share of a group that is predicted to be of it, the true
positive rate that share among those that are of the class, the false positive rate among those that
are not. Demographic parity asks for equal selection rates, equalised odds for equal true and equal
false positive rates (Hardt, Price and Srebro 2016, "Equality of Opportunity in Supervised
Learning"). A gap is the largest rate less the smallest; that of equalised odds is the larger one of
its two (as in fairlearn). Intervals of gaps resample the examples of each group. A gap is never
below zero, so that equal groups show one too, the larger the fewer their examples are: `chance` is
the mean gap if the groups were shuffled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from seqloom.errors import DataError
from seqloom.metrics.classification import some
from seqloom.metrics.slices import Slicing, wilson

CELLS = 1 << 22  # samples times kinds of examples that are drawn at once
GAPS = ("demographic_parity", "true_positive_rate", "false_positive_rate", "equalised_odds")


class Counts(NamedTuple):
    """Of each group and class, (..., G, C), but `size`, (..., G, 1)."""

    size: np.ndarray
    support: np.ndarray  # are of the class
    predicted: np.ndarray
    correct: np.ndarray  # both

    def rates(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return selection, true positive and false positive rates; NaN where nobody could be
        selected.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            return (
                self.predicted / self.size,
                self.correct / self.support,
                (self.predicted - self.correct) / (self.size - self.support),
            )


def evaluate_groups(
    names: Sequence[str], gold: np.ndarray, predicted: np.ndarray, groups: Slicing, *, samples: int
) -> tuple[dict[str, Any], dict[str, Any], tuple[str, ...]]:
    """Return metrics, details and notes; `gold` and `predicted`: whether an example is, and is predicted, of
    each class, bool (n, C).

    >>> from seqloom.metrics.slices import by_name
    >>> gold = np.array([[0, 1], [1, 0], [0, 1], [1, 0]], bool)
    >>> said = np.array([[0, 1], [1, 0], [1, 0], [1, 0]], bool)
    >>> groups = by_name("from", ["a", "a", "b", "b"])
    >>> metrics, details, _ = evaluate_groups(["no", "yes"], gold, said, groups, samples=0)
    >>> metrics
    {'accuracy_gap': 0.5, 'demographic_parity_gap': 0.5, 'equalised_odds_gap': 1.0}
    >>> details["gaps"][1]  # doctest: +NORMALIZE_WHITESPACE
    {'class': 'yes', 'demographic_parity': 0.5, 'true_positive_rate': 1.0,
     'false_positive_rate': 0.0, 'equalised_odds': 1.0}
    """
    if len(groups.names) < 2:
        raise DataError(
            f"column {groups.by!r} has one value only, {groups.names[0]!r}; gaps need at least two groups"
        )
    n_groups = len(groups.names)
    counts, right = _counted(gold, predicted, groups.indices, n_groups)
    gaps = _gaps(counts, right)
    drawn = _resampled(gold, predicted, groups.indices, n_groups, samples) if samples else None
    shuffled = _shuffled(gold, predicted, groups.indices, n_groups) if samples else None
    metrics: dict[str, Any] = {}
    for key in ("accuracy", "demographic_parity", "equalised_odds"):
        metrics[f"{key}_gap"] = _number(_worst(gaps[key]))
        if drawn is not None and shuffled is not None:
            metrics[f"{key}_gap_interval"] = _ends(_worst(drawn[key]))
            metrics[f"{key}_gap_chance"] = _number(_mean(_worst(shuffled[key])))
    rows = []
    for c, name in enumerate(names):
        row: dict[str, Any] = {"class": name}
        for key in GAPS:
            row[key] = _number(gaps[key][c])
            if drawn is not None:
                row[f"{key}_interval"] = _ends(drawn[key][:, c])
        rows.append(row)
    details = {
        "groups": _group_rows(names, groups, counts, right),
        "gaps": rows,
        "group_by": groups.by,
    }
    empty = [name for name, support in zip(groups.names, counts.support) if not support.all()]
    note = (
        f"groups without examples of some class, left out of its true positive rate: {some(empty)}"
    )
    return metrics, details, (note,) if empty else ()


def _group_rows(
    names: Sequence[str], groups: Slicing, counts: Counts, right: np.ndarray
) -> list[dict[str, Any]]:
    """Return the accuracy of each group, and the rates of each class in it."""
    rates = dict(
        zip(("selection_rate", "true_positive_rate", "false_positive_rate"), counts.rates())
    )
    rows = []
    for g, group in enumerate(groups.names):
        size, correct = int(counts.size[g, 0]), int(right[g])
        classes = [
            {
                "class": name,
                "support": int(counts.support[g, c]),
                "predicted": int(counts.predicted[g, c]),
                **{key: _number(rate[g, c]) for key, rate in rates.items()},
            }
            for c, name in enumerate(names)
        ]
        rows.append(
            {
                "group": group,
                "size": size,
                "accuracy": correct / size,
                "accuracy_interval": wilson(correct, size),
                "classes": classes,
            }
        )
    return rows


def _counted(
    gold: np.ndarray, predicted: np.ndarray, group_ids: np.ndarray, n_groups: int
) -> tuple[Counts, np.ndarray]:
    """Return the counts, and how many examples of each group are right."""
    order, size = np.argsort(group_ids, kind="stable"), np.bincount(group_ids, minlength=n_groups)
    starts = np.cumsum(size) - size

    def count(flags: np.ndarray) -> np.ndarray:
        return np.add.reduceat(flags[order], starts, axis=0, dtype=np.int64)

    return Counts(size[:, None], count(gold), count(predicted), count(gold & predicted)), count(
        (gold == predicted).all(axis=1)
    )


def _gaps(counts: Counts, right: np.ndarray) -> dict[str, np.ndarray]:
    """Return gaps by name: those of each class, (..., C), and that of the accuracy, (..., 1)."""
    selected, true, false = (_spread(rate) for rate in counts.rates())
    return {
        "accuracy": _spread((right / counts.size[..., 0])[..., None]),
        "demographic_parity": selected,
        "true_positive_rate": true,
        "false_positive_rate": false,
        "equalised_odds": np.fmax(true, false),
    }


def _spread(rates: np.ndarray) -> np.ndarray:
    """Return the largest minus the smallest rate of the groups, (..., G, C) to (..., C); NaN where
    fewer than two have a rate.
    """
    gap = np.fmax.reduce(rates, axis=-2) - np.fmin.reduce(rates, axis=-2)
    return np.where((~np.isnan(rates)).sum(axis=-2) > 1, gap, np.nan)


def _resampled(
    gold: np.ndarray,
    predictions: np.ndarray,
    group_ids: np.ndarray,
    n_groups: int,
    samples: int,
    seed: int = 0,
) -> dict[str, np.ndarray]:
    """Return the gaps of samples in which the examples of each group were drawn anew,
    (samples, C).
    """
    rng = np.random.default_rng(seed)
    packed = np.packbits(np.concatenate([gold, predictions], axis=1), axis=1)
    parts = []
    for g in range(n_groups):
        rows = np.flatnonzero(group_ids == g)
        _, first, times = np.unique(packed[rows], axis=0, return_index=True, return_counts=True)
        kinds = rows[first]  # an example of each kind
        tables = [
            gold[kinds],
            predictions[kinds],
            gold[kinds] & predictions[kinds],
            (gold[kinds] == predictions[kinds]).all(axis=1)[:, None],
        ]
        step = max(1, CELLS // len(kinds))
        drawn = [
            rng.multinomial(len(rows), times / len(rows), min(step, samples - done)).astype(
                np.float64
            )
            for done in range(0, samples, step)
        ]
        parts.append([np.concatenate([some @ table for some in drawn]) for table in tables])
    # (samples, G, C)
    support, predicted, correct, right = (np.stack(values, axis=1) for values in zip(*parts))
    size = np.bincount(group_ids, minlength=n_groups)[:, None]
    return _gaps(Counts(size, support, predicted, correct), right[..., 0])


def _shuffled(
    gold: np.ndarray,
    predicted: np.ndarray,
    group_ids: np.ndarray,
    n_groups: int,
    times: int = 50,
    seed: int = 1,
) -> dict[str, np.ndarray]:
    """Return the gaps of groups of the same sizes whose examples are drawn from all, (times, C)."""
    rng = np.random.default_rng(seed)
    each = [
        _gaps(*_counted(gold, predicted, rng.permutation(group_ids), n_groups))
        for _ in range(times)
    ]
    return {key: np.stack([gaps[key] for gaps in each]) for key in each[0]}


def _worst(gaps: np.ndarray) -> np.ndarray:
    """Return the largest gap over the classes; NaN where there is none."""
    return np.fmax.reduce(gaps, axis=-1)


def _mean(values: np.ndarray) -> float:
    finite = values[~np.isnan(values)]
    return float(finite.mean()) if len(finite) else np.nan


def _ends(drawn: np.ndarray) -> tuple[float, float]:
    """Return the ends of the middle 95 %."""
    finite = np.sort(drawn[~np.isnan(drawn)])
    outside = int(0.025 * len(finite))
    return (
        (float(finite[outside]), float(finite[-1 - outside])) if len(finite) else (np.nan, np.nan)
    )


def _number(value: Any) -> float | None:
    return None if np.isnan(value) else float(value)
