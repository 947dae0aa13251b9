"""A hidden Markov model whose states emit symbols out of a finite vocabulary (categorical emissions).

Free values: (S - 1) + S (S - 1) + S (K - 1) = S^2 + S K - S - 1 for S states and K symbols. Emissions are kept by
symbol, (K, P), because every pass reads the row of a symbol. There is no stop symbol in the chain: whoever wants
probabilities of different lengths to be comparable ends each sequence with one.

    >>> weather = CategoricalHMM([0.6, 0.4], [[0.7, 0.3], [0.4, 0.6]], [[0.5, 0.4, 0.1], [0.1, 0.3, 0.6]])
    >>> states, joint = weather.viterbi([0, 1, 2])
    >>> states.tolist(), round(float(joint[0]), 4)
    ([0, 0, 1], -4.1917)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from seqloom.errors import ConfigError
from seqloom.models.hidden.batches import Batch, Packer, check_symbols
from seqloom.models.hidden.markov import Counts, Markov, correct, normalised, probabilities
from seqloom.models.hidden.passes import View, log


@dataclass(frozen=True, eq=False)
class CategoricalHMM(Markov):
    emissions: np.ndarray  # (S, K)
    by_symbol: np.ndarray = field(
        init=False, repr=False
    )  # (K, P): the same, padded; emissions is a view of it
    counts_by_row: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        given = probabilities(self.emissions, "emissions")
        if given.ndim != 2 or len(given) != self.n_states:
            raise ConfigError(
                f"emissions {given.shape} do not fit {self.n_states} states; they are (S, K)"
            )
        by_symbol = np.zeros((given.shape[1], self.width))
        by_symbol[:, : self.n_states] = given.T
        object.__setattr__(self, "by_symbol", by_symbol)
        object.__setattr__(self, "emissions", by_symbol[:, : self.n_states].T)

    @classmethod
    def random(
        cls, n_states: int, vocab_size: int, *, seed: int, concentration: float = 1.0
    ) -> Self:
        """Every row drawn from a Dirichlet distribution: a start for Baum-Welch."""
        rng = np.random.default_rng(seed)
        sizes = ((), n_states), ((n_states,), n_states), ((n_states,), vocab_size)
        # A normalised gamma variable is a Dirichlet one; the small floor keeps every cell alive.
        start, transitions, emissions = (
            rng.gamma(concentration, size=(*shape, k)) + 1e-9 for shape, k in sizes
        )
        return cls(*(x / x.sum(-1, keepdims=True) for x in (start, transitions, emissions)))

    @property
    def vocab_size(self) -> int:
        return len(self.by_symbol)

    @property
    def n_free(self) -> int:
        s, k = self.n_states, self.vocab_size
        return s * s + s * k - s - 1

    def arrays(self) -> dict[str, np.ndarray]:
        return {
            "start": self.start,
            "transitions": self.transitions,
            "emissions": np.ascontiguousarray(self.emissions),
        }

    def correct(
        self, belief: np.ndarray, symbol: int | np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The belief after a symbol was read, and how likely that symbol was; n symbols for n beliefs.

        >>> rain = CategoricalHMM([0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]], [[0.9, 0.1], [0.2, 0.8]])  # umbrella seen, or not
        >>> belief, p = rain.correct(rain.start, 0)  # the first step has nothing to predict from
        >>> belief, p = rain.correct(rain.predict(belief), 0)
        >>> belief.round(3).tolist(), round(float(p), 3)
        ([0.883, 0.117], 0.639)
        """
        ids = check_symbols(np.reshape(symbol, -1), self.vocab_size)
        seen = self.by_symbol[ids, : self.n_states]
        return correct(belief, seen[0] if np.ndim(symbol) == 0 else seen)

    def next_probs(self, predicted: np.ndarray) -> np.ndarray:
        """p(x_t | past), (..., K), from the predicted belief p(z_t | past) (F0-25)."""
        return np.asarray(predicted) @ self.emissions

    def sample(self, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Ancestral sampling of one sequence: n symbols and the states that emitted them."""
        rng = np.random.default_rng(seed)
        states = self.walk(n, rng)
        uniforms, symbols = rng.random(n), np.empty(n, np.int64)
        for state in np.unique(states):
            cumulative = np.cumsum(self.emissions[state])
            here = states == state
            symbols[here] = np.searchsorted(
                cumulative / cumulative[-1], uniforms[here], side="right"
            )
        return symbols, states

    def checked(self, data: np.ndarray) -> np.ndarray:
        return check_symbols(data, self.vocab_size)

    def packer(self, data: np.ndarray, lengths: np.ndarray) -> Packer:
        return Packer(lengths, self.n_states, data, self.vocab_size)

    def view(self, data: np.ndarray, batch: Batch) -> View:
        def log_rows(rows: np.ndarray) -> np.ndarray:
            return log(self.by_symbol[batch.known[batch.symbols[rows]]])

        return View(self.by_symbol[batch.known], batch.symbols, None, log_rows)

    @cached_property
    def _log_by_symbol(self) -> np.ndarray:
        return log(self.by_symbol)

    def log_table(self, data: np.ndarray, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        return self._log_by_symbol[batch.known], batch.symbols

    def gather(self, data: np.ndarray, parts: Iterable[tuple[Batch, np.ndarray]]) -> np.ndarray:
        from seqloom.kernels.hmm import add_rows

        total = np.zeros((self.vocab_size, self.n_states))
        for batch, counts in parts:
            add_rows(batch.known, counts, total)
        return total

    def maximise(self, counts: Counts, k: float = 0.0) -> Self:
        return type(self)(
            normalised(counts.start, self.start),
            normalised(counts.transitions + k, self.transitions),
            normalised(counts.emissions.T + k, self.emissions),
        )

    def log_prior(self, k: float) -> float:
        return k * float(log(self.transitions).sum() + log(self.emissions).sum()) if k else 0.0
