"""A hidden Markov model whose states emit vectors of numbers: a Gaussian for each state, diagonal
or full covariance.

Log-densities are reduced by the largest of each row, so that the scaled passes can use the rest; a
sequence with a row that is far from every reachable state is done with logarithms (see `passes`).
Variances are clipped to `floor`, which is the exact maximum under that condition, so EM stays
monotone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, Self, get_args

import numpy as np

from seqloom.arrays import MAX_NUMBER
from seqloom.errors import ConfigError, DataError
from seqloom.models.hidden.markov import Counts, Markov, correct, normalised
from seqloom.models.hidden.passes import Batch, Packer, View, log

Covariance = Literal["diagonal", "full"]


@dataclass(frozen=True, eq=False)
class GaussianHMM(Markov):
    means: np.ndarray  # (S, D)
    covariances: np.ndarray  # (S, D) diagonal, or (S, D, D) full
    floor: float = 1e-3  # of a variance, or of an eigenvalue of a full covariance
    # Standard deviations (S, D), or Cholesky factors (S, D, D).
    _roots: np.ndarray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        means, covariances = (
            np.array(self.means, np.float64),
            np.array(self.covariances, np.float64),
        )
        valid_shapes = (means.shape, (*means.shape, means.shape[-1]))
        if means.ndim != 2 or len(means) != self.n_states or covariances.shape not in valid_shapes:
            raise ConfigError(
                f"means {means.shape} and covariances {covariances.shape} do not fit {self.n_states} states; "
                "they are (S, D) and (S, D) or (S, D, D)"
            )
        if not np.isfinite(means).all() or not np.isfinite(covariances).all():
            raise ConfigError("means and covariances must be finite")
        if self.floor <= 0:
            raise ConfigError(f"floor must be above 0; got {self.floor}")
        try:
            roots = (
                np.linalg.cholesky(covariances)
                if covariances.ndim == 3
                else np.sqrt(np.maximum(covariances, 0.0))
            )
        except np.linalg.LinAlgError:
            roots = np.zeros(1)
        if roots.ndim < 3 and not (roots > 0).all():
            raise ConfigError(
                "covariances must be positive definite; raise them to a floor such as 1e-3"
            )
        for name, value in (("means", means), ("covariances", covariances), ("_roots", roots)):
            object.__setattr__(self, name, value)

    @classmethod
    def random(
        cls,
        n_states: int,
        data: np.ndarray,
        *,
        seed: int,
        covariance: Covariance = "diagonal",
        floor: float = 1e-3,
    ) -> Self:
        """Return a start for Baum-Welch: means are rows of the data, covariances those of all data,
        start and transitions are drawn from a Dirichlet distribution.
        """
        if covariance not in get_args(Covariance):
            raise ConfigError(f"covariance must be diagonal or full; got {covariance!r}")
        rows, rng = check_numbers(data), np.random.default_rng(seed)
        if not len(rows):
            raise DataError("no rows to begin from")
        means = rows[rng.choice(len(rows), n_states, replace=len(rows) < n_states)]
        variance = np.maximum(rows.var(0), floor)
        if covariance == "full":
            covariances = (
                np.atleast_2d(np.cov(rows.T, bias=True)) if len(rows) > 1 else np.diag(variance)
            )
            state_covariances = np.tile(raised(covariances[None], floor), (n_states, 1, 1))
        else:
            state_covariances = np.tile(variance, (n_states, 1))
        return cls(
            rng.dirichlet(np.ones(n_states)),
            rng.dirichlet(np.ones(n_states), n_states),
            means,
            state_covariances,
            floor,
        )

    @property
    def n_features(self) -> int:
        return self.means.shape[1]

    @property
    def n_free(self) -> int:
        s, d = self.n_states, self.n_features
        return s * s - 1 + s * d + (s * d if self.covariances.ndim == 2 else s * d * (d + 1) // 2)

    def arrays(self) -> dict[str, np.ndarray]:
        return {
            "start": self.start,
            "transitions": self.transitions,
            "means": self.means,
            "covariances": self.covariances,
        }

    def with_arrays(self, arrays: dict[str, np.ndarray]) -> Self:
        return type(self)(**arrays, floor=self.floor)

    def log_densities(self, rows: np.ndarray) -> np.ndarray:
        """Compute log p(row | state), (n, S)."""
        log_densities = np.empty((len(rows), self.n_states))
        for s in range(self.n_states):
            deviations = rows - self.means[s]
            if self.covariances.ndim == 2:
                scaled = deviations / self._roots[s]
                log_volume = np.log(self._roots[s]).sum()
            else:
                scaled = deviations @ self._inverse_roots[s].T
                log_volume = np.log(np.diagonal(self._roots[s])).sum()
            with np.errstate(over="ignore"):  # then the density is zero
                log_densities[:, s] = -0.5 * np.square(scaled).sum(-1) - log_volume
        return log_densities - 0.5 * self.n_features * math.log(2 * math.pi)

    @cached_property
    def _inverse_roots(self) -> np.ndarray:
        return np.linalg.inv(self._roots)

    def correct(self, belief: np.ndarray, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the belief after a row of numbers (D,), or n rows for n beliefs, and its log-density
        given the past.
        """
        row = np.asarray(row, np.float64)
        log_densities = self.log_densities(self.checked(np.atleast_2d(row)))
        log_densities = log_densities[0] if row.ndim == 1 else log_densities
        joint = log(np.asarray(belief)) + log_densities
        top = joint.max(-1, keepdims=True)
        top = np.where(top > -np.inf, top, 0.0)
        posterior, total = correct(np.exp(joint - top), np.ones(self.n_states))
        return posterior, log(total) + top[..., 0]

    def sample(self, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Sample n rows and the states that emitted them."""
        rng = np.random.default_rng(seed)
        states = self.walk(n, rng)
        noise = rng.standard_normal((n, self.n_features))
        if self.covariances.ndim == 2:
            return self.means[states] + noise * self._roots[states], states
        return self.means[states] + np.einsum("nij,nj->ni", self._roots[states], noise), states

    def checked(self, data: np.ndarray) -> np.ndarray:
        rows = check_numbers(data)
        if rows.shape[1] != self.n_features:
            raise DataError(f"rows have {rows.shape[1]} numbers; the model has {self.n_features}")
        return rows

    def packer(self, data: np.ndarray, lengths: np.ndarray) -> Packer:
        return Packer(lengths, self.n_states)

    def log_table(self, data: np.ndarray, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        return self._log_rows(data[batch.where]), batch.symbols

    def _log_rows(self, rows: np.ndarray) -> np.ndarray:
        padded = np.full((len(rows), self.width), -np.inf)
        padded[:, : self.n_states] = self.log_densities(rows)
        return padded

    def view(self, data: np.ndarray, batch: Batch) -> View:
        table = self._log_rows(data[batch.where])
        shift = table.max(-1)
        shift[shift == -np.inf] = 0.0
        np.exp(table - shift[:, None], out=table)
        return View(
            table, batch.symbols, shift, lambda rows: self._log_rows(data[batch.where[rows]])
        )

    def gather(
        self, data: np.ndarray, parts: Iterable[tuple[Batch, np.ndarray]]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Compute weights (S,), and first and second moments around the old means, which avoids
        cancellation.
        """
        weights, sums, squares = (
            np.zeros(self.n_states),
            np.zeros_like(self.means),
            np.zeros_like(self.covariances),
        )
        for batch, counts in parts:
            rows = data[batch.where]
            for s in range(self.n_states):
                weight, deviations = counts[:, s], rows - self.means[s]
                weights[s] += weight.sum()
                sums[s] += weight @ deviations
                squares[s] += (
                    weight @ np.square(deviations)
                    if squares.ndim == 2
                    else (weight[:, None] * deviations).T @ deviations
                )
        return weights, sums, squares

    def maximise(self, counts: Counts, k: float = 0.0) -> Self:
        weights, sums, squares = counts.emissions
        has_weight = weights > 0
        divisors = np.where(has_weight, weights, 1.0)
        mean_shifts = np.where(has_weight[:, None], sums / divisors[:, None], 0.0)  # (S, D)
        if self.covariances.ndim == 2:
            covariances = np.maximum(squares / divisors[:, None] - mean_shifts**2, self.floor)
            covariances = np.where(has_weight[:, None], covariances, self.covariances)
        else:
            covariances = raised(
                squares / divisors[:, None, None]
                - mean_shifts[:, :, None] * mean_shifts[:, None, :],
                self.floor,
            )
            covariances = np.where(has_weight[:, None, None], covariances, self.covariances)
        return type(self)(
            normalised(counts.start, self.start),
            normalised(counts.transitions + k, self.transitions),
            self.means + mean_shifts,
            covariances,
            self.floor,
        )

    def log_prior(self, k: float) -> float:
        return k * float(log(self.transitions).sum()) if k else 0.0


def raised(covariances: np.ndarray, floor: float) -> np.ndarray:
    """Return the covariances with no eigenvalue below the floor, (S, D, D)."""
    values, vectors = np.linalg.eigh((covariances + covariances.swapaxes(-1, -2)) / 2)
    if values.min() >= floor:
        return covariances
    return (vectors * np.maximum(values, floor)[:, None, :]) @ vectors.swapaxes(-1, -2)


def check_numbers(data: np.ndarray) -> np.ndarray:
    """Return the data as float64 (T, D), all finite; a flat array is one number per row."""
    try:
        rows = np.asarray(data, np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"numbers must be rows and columns (T, D): {error}") from None
    rows = rows[:, None] if rows.ndim == 1 else rows
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise DataError(f"numbers must be rows and columns (T, D); got shape {np.shape(data)}")
    usable = np.abs(rows) <= MAX_NUMBER  # not NaN either
    if not usable.all():
        row = int((~usable.all(-1)).argmax())
        number = rows[row][~usable[row]][0]
        beyond = f", beyond {MAX_NUMBER:g}" if np.isfinite(number) else ""
        raise DataError(
            f"row {row:,} (counted from 0) holds {number}{beyond}; fill such rows in, or leave them out"
        )
    return np.ascontiguousarray(rows)
