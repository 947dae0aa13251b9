"""Coverage penalty: hypotheses that leave parts of the source unattended score lower.

Wu et al. 2016 ("Google's Neural Machine Translation System"), equation 14: with p_ij, how much attention the j-th target token
pays to the i-th source token,

    coverage(X, Y) = penalty * sum over i of log(min(sum over j of p_ij, 1))

It is zero where each source token got a whole token's worth of attention, and it can only rise as a hypothesis grows; that is
why beam search may ignore it when it asks what an open hypothesis can still reach. The end symbol is a target token here.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from seqloom.decoding.stepper import State
from seqloom.errors import ConfigError

LEAST = 1e-9  # attention that a source token is credited with, so that one that got none does not make all scores -inf


@runtime_checkable
class Attending(Protocol):
    """A Stepper that shows its attention; one that has none simply lacks the method."""

    def attention(self, state: State) -> tuple[np.ndarray, np.ndarray]:
        """The weights (n, S) behind the log-probabilities that came with this state, and each row's source length (n,).

        S is the same at every step; weights beyond a row's length are ignored.
        """
        ...


class Coverage:
    """The attention that the sources of open hypotheses have got so far."""

    def __init__(self, stepper: Any, penalty: float) -> None:
        if not isinstance(stepper, Attending):
            raise ConfigError(
                "coverage_penalty needs the attention to the source, which this model does not have; "
                "set coverage_penalty to 0"
            )
        self.stepper, self.penalty = stepper, penalty
        self.sums: np.ndarray | None = None  # (R, S) float64

    def follow(self, state: State, rows: np.ndarray) -> np.ndarray:
        """Add the attention for the next token of each hypothesis, which continues one of the earlier `rows` (R,); returns the
        penalties (R,) of those that end with that token."""
        weights, lengths = self.stepper.attention(state)
        weights = np.asarray(weights, np.float64)
        self.sums = weights if self.sums is None else self.sums[rows] + weights
        return self.penalty * log_coverage(self.sums, np.asarray(lengths))


def log_coverage(sums: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The sum of log(min(attention, 1)) over the source tokens of each row, (n,) from (n, S).

    >>> log_coverage(np.array([[1.5, 0.5, 0.0]]), np.array([2])).round(4).tolist()
    [-0.6931]
    """
    there = np.arange(sums.shape[1]) < lengths[:, None]
    return np.where(there, np.log(np.clip(sums, LEAST, 1.0)), 0.0).sum(axis=1)
