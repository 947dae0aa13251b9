"""What all hidden Markov models share: the chain of states, and inference.

Rabiner, "A tutorial on hidden Markov models" (1989). A kind of emissions (`chain`, `gaussian`) gives
the probability of a row of data in each state; filtering, smoothing, likelihood, best paths and
expected counts are here. Data are flat, with `lengths`; a sequence of length 0 is certain
(log-likelihood 0). Beliefs are (S,) or (n, S).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from seqloom.errors import ConfigError, DataError
from seqloom.models.hidden.passes import (
    Batch,
    Packer,
    Padded,
    Smoothed,
    View,
    check_lengths,
    filtered,
    run_forward,
    run_smooth,
    run_viterbi,
    width_of,
)


@dataclass(frozen=True)
class Counts:
    """Expected counts: all that an M-step needs of the data."""

    log_likelihoods: np.ndarray  # (n,) of each sequence
    start: np.ndarray  # (S,)
    transitions: np.ndarray  # (S, S)
    emissions: Any  # of symbols (K, S); of numbers (weights, sums, squares) around the old means

    @property
    def log_likelihood(self) -> float:
        return float(self.log_likelihoods.sum())


@dataclass(frozen=True, eq=False)
class Markov(ABC):
    start: np.ndarray  # (S,)
    transitions: np.ndarray  # (S, S), from row to column
    # Whether an E-step needs the posteriors of every row, or only of every symbol.
    counts_by_row: ClassVar[bool] = True

    def __post_init__(self) -> None:
        start, transitions = (
            probabilities(self.start, "start"),
            probabilities(self.transitions, "transitions"),
        )
        if start.ndim != 1 or transitions.shape != (len(start), len(start)):
            raise ConfigError(
                f"start {start.shape} and transitions {transitions.shape} do not fit; they are "
                f"(S,) and (S, S)"
            )
        object.__setattr__(self, "start", start)
        object.__setattr__(self, "transitions", transitions)

    # What a kind of emissions implements.

    @property
    @abstractmethod
    def n_free(self) -> int:
        """Return the number of free values."""

    @abstractmethod
    def arrays(self) -> dict[str, np.ndarray]:
        """Return the parameters by name, as the constructor takes them."""

    def with_arrays(self, arrays: dict[str, np.ndarray]) -> Self:
        """Return a model of the same kind with these parameters."""
        return type(self)(**arrays)

    @abstractmethod
    def checked(self, data: np.ndarray) -> np.ndarray:
        """Return the data in the form that the kernels take; raise a DataError that names the first bad
        position.
        """

    @abstractmethod
    def packer(self, data: np.ndarray, lengths: np.ndarray) -> Packer: ...

    @abstractmethod
    def view(self, data: np.ndarray, batch: Batch) -> View: ...

    @abstractmethod
    def log_table(self, data: np.ndarray, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        """Return logarithms (U, P), padded with -inf, and which row of them belongs to each row of the
        batch.
        """

    @abstractmethod
    def gather(self, data: np.ndarray, parts: Iterable[tuple[Batch, np.ndarray]]) -> Any:
        """Add up what the M-step needs of the emissions; `parts` come in a fixed order."""

    @abstractmethod
    def maximise(self, counts: Counts, k: float = 0.0) -> Self:
        """Return the likeliest parameters for these counts, with k added to each cell of transitions
        and emissions.
        """

    @abstractmethod
    def log_prior(self, k: float) -> float:
        """Return what k adds to the objective of EM: k times the sum of the logarithms of its cells."""

    # The chain.

    @property
    def n_states(self) -> int:
        return len(self.start)

    @property
    def width(self) -> int:
        return width_of(self.n_states)

    @cached_property
    def padded(self) -> Padded:
        return Padded.of(self.start, self.transitions)

    def predict(self, belief: np.ndarray) -> np.ndarray:
        """Predict the next state: p(z_t | x_1..x_{t-1}) from p(z_{t-1} | x_1..x_{t-1})."""
        return np.asarray(belief) @ self.transitions

    # Passes over data.

    def filter(
        self, data: np.ndarray, lengths: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Compute beliefs p(z_t | x_1..x_t), (T, S), and log p(x_t | x_1..x_{t-1}), (T,); zeros and
        -inf from an impossible step on.
        """
        data, lengths = self.prepare(data, lengths)
        beliefs, log_probs = np.empty((len(data), self.n_states)), np.empty(len(data))

        def filter_batch(batch: Batch) -> None:
            padded_beliefs, log_probs[batch.where] = filtered(
                self.padded, batch, self.view(data, batch)
            )
            beliefs[batch.where] = padded_beliefs[:, : self.n_states]

        run(filter_batch, self.packer(data, lengths))
        return beliefs, log_probs

    def token_log_probs(self, data: np.ndarray, lengths: np.ndarray | None = None) -> np.ndarray:
        """Compute log p(x_t | x_1..x_{t-1}) of every token, (T,)."""
        data, lengths = self.prepare(data, lengths)
        log_probs = np.empty(len(data))

        def filter_batch(batch: Batch) -> None:
            _, log_probs[batch.where] = filtered(self.padded, batch, self.view(data, batch))

        run(filter_batch, self.packer(data, lengths))
        return log_probs

    def log_likelihood(self, data: np.ndarray, lengths: np.ndarray | None = None) -> np.ndarray:
        """Compute log p of each sequence, (n,); -inf where it is impossible."""
        data, lengths = self.prepare(data, lengths)
        log_likelihoods = np.zeros(len(lengths))

        def run_batch(batch: Batch) -> None:
            log_likelihoods[batch.sequences] = run_forward(
                self.padded, batch, self.view(data, batch)
            ).log_likelihoods

        run(run_batch, self.packer(data, lengths))
        return log_likelihoods

    def posteriors(self, data: np.ndarray, lengths: np.ndarray | None = None) -> np.ndarray:
        """Compute smoothed beliefs p(z_t | the whole sequence), (T, S); zeros in a sequence that is
        impossible.
        """
        data, lengths = self.prepare(data, lengths)
        beliefs = np.empty((len(data), self.n_states))

        def smooth_batch(batch: Batch) -> None:
            done = run_smooth(
                self.padded, batch, self.view(data, batch), by_row=True, want_pairs=False
            )
            beliefs[batch.where] = done.counts[:, : self.n_states]

        run(smooth_batch, self.packer(data, lengths))
        return beliefs

    def posterior_decode(self, data: np.ndarray, lengths: np.ndarray | None = None) -> np.ndarray:
        """Return the likeliest state at each position by itself, (T,); these need not form a possible
        path.
        """
        data, lengths = self.prepare(data, lengths)
        posteriors = self.posteriors(data, lengths)
        refuse_impossible(np.where(posteriors.sum(-1) > 0, 0.0, -np.inf), lengths)
        return posteriors.argmax(-1)

    def viterbi(
        self, data: np.ndarray, lengths: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Find the likeliest path, (T,), and log p(path, data) of each sequence, (n,); ties are
        broken as in hmmlearn.
        """
        data, lengths = self.prepare(data, lengths)
        states, joints = np.empty(len(data), np.int64), np.zeros(len(lengths))

        def decode_batch(batch: Batch) -> None:
            joints[batch.sequences] = run_viterbi(
                self.padded, batch, *self.log_table(data, batch), states
            )

        run(decode_batch, self.packer(data, lengths))
        refuse_impossible(joints)
        return states, joints

    def batches(self, data: np.ndarray, lengths: np.ndarray) -> list[Batch]:
        """Make all batches at once, for passes that are repeated."""
        from seqloom.kernels.parallel import parallel_map

        packer = self.packer(data, lengths)
        return list(parallel_map(packer, packer.spans()))

    def expected(
        self, data: np.ndarray, lengths: np.ndarray, batches: list[Batch] | None = None
    ) -> Counts:
        """Run the E-step; an impossible sequence adds nothing. `batches`: those of the data, if they are
        reused.
        """
        from seqloom.kernels.parallel import parallel_map

        log_likelihoods = np.zeros(len(lengths))
        first, pairs = np.zeros(self.width), np.zeros((self.width, self.width))

        packer = self.packer(data, lengths)

        def smooth_batch(item: Batch | tuple[int, int]) -> tuple[Batch, Smoothed]:
            batch = item if isinstance(item, Batch) else packer(item)
            return batch, run_smooth(
                self.padded,
                batch,
                self.view(data, batch),
                by_row=self.counts_by_row,
                want_pairs=True,
            )

        def batch_counts() -> Iterable[tuple[Batch, np.ndarray]]:
            items: Iterable[Batch | tuple[int, int]] = (
                packer.spans() if batches is None else batches
            )
            for batch, done in parallel_map(smooth_batch, items):
                log_likelihoods[batch.sequences] = done.log_likelihoods
                np.add(first, done.firsts, out=first)
                np.add(pairs, done.pairs, out=pairs)
                yield batch, done.counts

        emissions = self.gather(data, batch_counts())
        s = self.n_states
        return Counts(log_likelihoods, first[:s], pairs[:s, :s], emissions)

    def forgetting(self, data: np.ndarray, other_start: np.ndarray) -> np.ndarray:
        """Measure the distance of two filters with different starts: total variation of their beliefs
        at each step, (T,).

        It falls quickly only if the chain mixes; a sticky or a cyclic chain remembers its start.
        """
        other = self.with_arrays({**self.arrays(), "start": other_start})
        return 0.5 * np.abs(self.filter(data)[0] - other.filter(data)[0]).sum(-1)

    def aic(self, data: np.ndarray, lengths: np.ndarray | None = None) -> float:
        """Compute Akaike's criterion, lower is better: 2 n_free - 2 log-likelihood."""
        return 2 * self.n_free - 2 * float(self.log_likelihood(data, lengths).sum())

    def bic(self, data: np.ndarray, lengths: np.ndarray | None = None) -> float:
        """Compute Schwarz's criterion, lower is better: n_free log(tokens) - 2 log-likelihood."""
        return self.n_free * math.log(max(len(data), 1)) - 2 * float(
            self.log_likelihood(data, lengths).sum()
        )

    def prepare(
        self, data: np.ndarray, lengths: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        data = self.checked(data)
        return data, check_lengths(len(data), lengths)

    def walk(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Sample the states of n steps of the chain, (n,)."""
        from seqloom.kernels.hmm_paths import walk

        cumulative = np.cumsum(np.vstack([self.start, self.transitions]), -1)
        cumulative /= cumulative[:, -1:]
        states = np.empty(n, np.int64)
        walk(cumulative, rng.random(n), states)
        return states


def correct(belief: np.ndarray, likelihoods: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the belief after an observation with these likelihoods in each state, and its
    probability.

    After an impossible observation all are zero, as in the other passes.
    """
    joint = np.asarray(belief) * likelihoods
    total = joint.sum(-1)
    return joint / np.where(total > 0, total, 1.0)[..., None], total


def run(work: Callable[[Batch], None], packer: Packer) -> None:
    from seqloom.kernels.parallel import parallel_run

    parallel_run(lambda span: work(packer(span)), packer.spans())


def probabilities(values: np.ndarray, name: str) -> np.ndarray:
    """Return the values as float64, checked to be at least zero and to sum to one in each row
    (within 1e-6).
    """
    try:
        array = np.array(values, np.float64)
    except (TypeError, ValueError):
        raise ConfigError(
            f"{name} must be an array of numbers, with rows of equal length"
        ) from None
    if (
        array.size == 0
        or not (array >= 0).all()
        or not np.allclose(array.sum(-1), 1, rtol=0, atol=1e-6)
    ):
        raise ConfigError(f"{name} must be probabilities: at least 0, and each row must sum to 1")
    return array


def normalised(counts: np.ndarray, fallback: np.ndarray) -> np.ndarray:
    """Return rows divided by their sums; a row without counts is taken from `fallback`."""
    totals = counts.sum(-1, keepdims=True)
    return np.where(totals > 0, counts / np.where(totals > 0, totals, 1.0), fallback)


def refuse_impossible(log_probs: np.ndarray, lengths: np.ndarray | None = None) -> None:
    """Raise a DataError that names the first sequence with -inf; with lengths, log_probs are of
    tokens.
    """
    if len(log_probs) and log_probs.min() == -np.inf:
        index = int(log_probs.argmin())
        if lengths is not None:
            index = int(np.searchsorted(np.cumsum(lengths), index, side="right"))
        raise DataError(
            f"sequence {index} (counted from 0) has probability zero, so no path leads through it; "
            "smooth the model, or leave the sequence out"
        )
