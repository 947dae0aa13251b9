"""Whether what a model says can be probabilities. A damaged file may pass every check of its tables and still give nonsense;
better one line than text drawn from it."""

from __future__ import annotations

import numpy as np

from seqloom.errors import ModelError

ABOVE_ONE = 1e-2  # how far a log-probability may lie above zero, or a sum off one, by rounding

_ADVICE = "the model is damaged or its training diverged; fit it again"


def check_log_probs(log_probs: np.ndarray) -> None:
    """Refuse rows (n, V) from which nothing can be chosen: NaN, above one, or no token with a probability above zero."""
    top = log_probs.max(axis=1)  # NaN if one is
    broken = np.flatnonzero(~(np.isfinite(top) & (top <= ABOVE_ONE)))
    if broken.size:
        raise ModelError(
            f"the model gave no usable probability in row {broken[0]}: all are zero, or one is not a probability; "
            + _ADVICE
        )


def check_sums(sums: np.ndarray) -> None:
    """Refuse distributions whose probabilities do not sum to one; `sums` of each (n,)."""
    if not (np.abs(sums - 1) <= ABOVE_ONE).all():
        raise ModelError(f"the model gave probabilities that do not sum to one; {_ADVICE}")


def check_table(log_probs: object, n: int, classes: int) -> np.ndarray:
    """The log-probabilities that a classifier gave as an array (n, C) of floats, if they are one."""
    table = np.asarray(log_probs, np.float64)
    if table.shape != (n, classes):
        raise ModelError(
            f"class_log_probs gave an array of shape {table.shape}; it must be ({n}, {classes}): a row for each "
            "example, a column for each class"
        )
    return table


def check_scores(log_probs: np.ndarray, *, exact: bool = True) -> np.ndarray:
    """The same log-probabilities, of tokens or classes, if none of them is NaN or above one.

    `exact` false: they may be above one, as in a file of another program that does not sum to one.
    """
    top = float(log_probs.max(initial=-np.inf))
    if np.isnan(top) or (exact and top > ABOVE_ONE):
        raise ModelError(f"the model gave an invalid probability ({_ADVICE})")
    return log_probs
