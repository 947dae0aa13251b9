"""A hidden Markov model whose states emit symbols of a finite vocabulary (categorical emissions), and
Baum-Welch for hidden Markov models of any kind.

There is no stop symbol in the chain: end each sequence with one to make the probabilities of
sequences of different lengths comparable. `learn` fits a chain to symbols with checkpoints: Ctrl-C
or a kill loses at most a few seconds, and a continued run gives the same bits as an uninterrupted
one.

    >>> weather = CategoricalHMM([0.6, 0.4], [[0.7, 0.3], [0.4, 0.6]], [[0.5, 0.4, 0.1], [0.1, 0.3, 0.6]])
    >>> states, joint = weather.viterbi([0, 1, 2])
    >>> states.tolist(), round(float(joint[0]), 4)
    ([0, 0, 1], -4.1917)
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from seqloom import progress
from seqloom.errors import ConfigError, TrainingError
from seqloom.models.hidden.markov import (
    Counts,
    Markov,
    correct,
    normalised,
    probabilities,
    refuse_impossible,
)
from seqloom.models.hidden.passes import Batch, Packer, View, check_symbols, log
from seqloom.training.checkpoint import Interrupts, opened


@dataclass(frozen=True, eq=False)
class CategoricalHMM(Markov):
    emissions: np.ndarray  # (S, K), a view of by_symbol
    # (K, P): emissions by symbol, padded, because every pass reads the row of a symbol.
    by_symbol: np.ndarray = field(init=False, repr=False)
    counts_by_row: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        emissions = probabilities(self.emissions, "emissions")
        if emissions.ndim != 2 or len(emissions) != self.n_states:
            raise ConfigError(
                f"emissions {emissions.shape} do not fit {self.n_states} states; they are (S, K)"
            )
        by_symbol = np.zeros((emissions.shape[1], self.width))
        by_symbol[:, : self.n_states] = emissions.T
        object.__setattr__(self, "by_symbol", by_symbol)
        object.__setattr__(self, "emissions", by_symbol[:, : self.n_states].T)

    @classmethod
    def random(
        cls, n_states: int, vocab_size: int, *, seed: int, concentration: float = 1.0
    ) -> Self:
        """Draw every row from a Dirichlet distribution: a start for Baum-Welch."""
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
        s, k = self.n_states, self.vocab_size  # (S - 1) + S (S - 1) + S (K - 1)
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
        """Return the belief after a symbol, and the probability of that symbol; n symbols for n
        beliefs.

        >>> umbrella = [[0.9, 0.1], [0.2, 0.8]]  # seen, or not
        >>> rain = CategoricalHMM([0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]], umbrella)
        >>> belief, p = rain.correct(rain.start, 0)  # the first step has nothing to predict from
        >>> belief, p = rain.correct(rain.predict(belief), 0)
        >>> belief.round(3).tolist(), round(float(p), 3)
        ([0.883, 0.117], 0.639)
        """
        ids = check_symbols(np.reshape(symbol, -1), self.vocab_size)
        likelihoods = self.by_symbol[ids, : self.n_states]
        return correct(belief, likelihoods[0] if np.ndim(symbol) == 0 else likelihoods)

    def next_probs(self, predicted: np.ndarray) -> np.ndarray:
        """Compute p(x_t | past), (..., K), from the predicted belief p(z_t | past)."""
        return np.asarray(predicted) @ self.emissions

    def sample(self, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Sample one sequence ancestrally: n symbols and the states that emitted them."""
        rng = np.random.default_rng(seed)
        states = self.walk(n, rng)
        uniforms, symbols = rng.random(n), np.empty(n, np.int64)
        for state in np.unique(states):
            cumulative = np.cumsum(self.emissions[state])
            in_state = states == state
            symbols[in_state] = np.searchsorted(
                cumulative / cumulative[-1], uniforms[in_state], side="right"
            )
        return symbols, states

    def checked(self, data: np.ndarray) -> np.ndarray:
        return check_symbols(data, self.vocab_size)

    def packer(self, data: np.ndarray, lengths: np.ndarray) -> Packer:
        return Packer(lengths, self.n_states, data, self.vocab_size)

    def view(self, data: np.ndarray, batch: Batch) -> View:
        def log_rows(rows: np.ndarray) -> np.ndarray:
            return log(self.by_symbol[batch.distinct[batch.symbols[rows]]])

        return View(self.by_symbol[batch.distinct], batch.symbols, None, log_rows)

    @cached_property
    def _log_by_symbol(self) -> np.ndarray:
        return log(self.by_symbol)

    def log_table(self, data: np.ndarray, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        return self._log_by_symbol[batch.distinct], batch.symbols

    def gather(self, data: np.ndarray, parts: Iterable[tuple[Batch, np.ndarray]]) -> np.ndarray:
        from seqloom.kernels.hmm import add_rows

        total = np.zeros((self.vocab_size, self.n_states))
        for batch, counts in parts:
            add_rows(batch.distinct, counts, total)
        return total

    def maximise(self, counts: Counts, k: float = 0.0) -> Self:
        return type(self)(
            normalised(counts.start, self.start),
            normalised(counts.transitions + k, self.transitions),
            normalised(counts.emissions.T + k, self.emissions),
        )

    def log_prior(self, k: float) -> float:
        return k * float(log(self.transitions).sum() + log(self.emissions).sum()) if k else 0.0


# ---- em

M = TypeVar("M", bound=Markov)
State = dict[str, np.ndarray]
SLACK = 1e-6  # relative loss of the objective that rounding may cause


@dataclass(frozen=True)
class Fit(Generic[M]):
    model: M
    # Log-likelihoods of the start and after each iteration; the last is that of `model`.
    history: list[float]
    converged: bool
    restart: int  # which start it came from


class BaumWelch(Generic[M]):
    """Baum-Welch (Baum et al. 1970): expectation-maximisation, one iteration at a time, with restarts.

    Each restart runs until its gain is below `tolerance` times its objective, or for `iterations`.
    Whatever stops it, `best` holds the best parameters so far, and `state()` all that the next
    iteration depends on; a run that is continued from it gives the same bits. The objective
    (log-likelihood plus the log-prior of pseudo-counts `k`) never falls; if it does by more than
    rounding, that is a TrainingError and not a warning.
    """

    def __init__(
        self,
        start: M | Callable[[int], M],
        data: np.ndarray,
        lengths: np.ndarray | None = None,
        *,
        iterations: int = 100,
        tolerance: float = 1e-5,
        restarts: int = 1,
        k: float = 0.0,
    ) -> None:
        if restarts < 1 or iterations < 0 or tolerance < 0 or k < 0:
            raise ConfigError("restarts must be at least 1; iterations, tolerance and k at least 0")
        self._start: Callable[[int], M] = (lambda _: start) if isinstance(start, Markov) else start
        self.iterations, self.tolerance, self.restarts, self.k = iterations, tolerance, restarts, k
        self.restart = 0
        self.model: M = self._start(0)
        self.history: list[float] = []  # of the current restart
        self.objectives: list[float] = []
        self.finished: Fit[M] | None = None  # the best finished restart
        self._finished_objective = -np.inf
        self.data, self.lengths = self.model.prepare(data, lengths)
        self._batches = self.model.batches(self.data, self.lengths)

    @property
    def done(self) -> bool:
        return self.restart == self.restarts

    @property
    def best(self) -> Fit[M]:
        """Return the best parameters so far; those of the current restart are at least as good as its
        last objective.
        """
        running = self.objectives[-1] if self.objectives else -np.inf
        if self.finished is not None and (self.done or self._finished_objective >= running):
            return self.finished
        return Fit(self.model, list(self.history), False, self.restart)

    def iterate(self) -> None:
        """Run one E-step and, unless that ends the restart, one M-step."""
        counts = self.model.expected(self.data, self.lengths, self._batches)
        refuse_impossible(counts.log_likelihoods)
        objective = counts.log_likelihood + self.model.log_prior(self.k)
        history, objectives = [*self.history, counts.log_likelihood], [*self.objectives, objective]
        converged = False
        if len(objectives) > 1 and np.isfinite(objectives[-2]):
            gain = objective - objectives[-2]
            if gain < -SLACK * max(abs(objectives[-2]), 1.0):
                raise TrainingError(
                    f"the objective of EM fell from {objectives[-2]:.9g} to {objective:.9g} in iteration "
                    f"{len(history) - 1} of restart {self.restart}; the data or the model hold values "
                    "beyond what double precision can carry"
                )
            converged = gain <= self.tolerance * abs(objective)
        if converged or len(history) > self.iterations:
            self._finish(Fit(self.model, history, converged, self.restart), objective)
            return
        better = self.model.maximise(counts, self.k)
        self.model, self.history, self.objectives = better, history, objectives

    def _finish(self, fit: Fit[M], objective: float) -> None:
        if self.finished is None or objective > self._finished_objective:
            self.finished, self._finished_objective = fit, objective
        self.restart, self.history, self.objectives = self.restart + 1, [], []
        if not self.done:
            self.model = self._start(self.restart)

    def state(self) -> State:
        """Return all that the next iteration depends on, besides data and options."""
        arrays = {f"model.{name}": array for name, array in self.model.arrays().items()}
        arrays |= {
            "restart": np.array(self.restart),
            "history": np.array(self.history),
            "objectives": np.array(self.objectives),
        }
        if self.finished is not None:
            fit = self.finished
            arrays |= {f"best.{name}": array for name, array in fit.model.arrays().items()}
            arrays |= {
                "best_history": np.array(fit.history),
                "best_objective": np.array(self._finished_objective),
                "best_converged": np.array(fit.converged),
                "best_restart": np.array(fit.restart),
            }
        return arrays

    def go_on_from(self, state: State) -> None:
        """Continue exactly where `state` was taken; data and options must be the same."""

        def model(prefix: str) -> M:
            arrays = {
                name.removeprefix(prefix): array
                for name, array in state.items()
                if name.startswith(prefix)
            }
            return self.model.with_arrays(arrays)

        current = model("model.")
        if "best_history" in state:
            self.finished = Fit(
                model("best."),
                state["best_history"].tolist(),
                bool(state["best_converged"]),
                int(state["best_restart"]),
            )
            self._finished_objective = float(state["best_objective"])
        self.model, self.restart = current, int(state["restart"])
        self.history, self.objectives = state["history"].tolist(), state["objectives"].tolist()


def baum_welch(
    start: M | Callable[[int], M],
    data: np.ndarray,
    lengths: np.ndarray | None = None,
    *,
    iterations: int = 100,
    tolerance: float = 1e-5,
    restarts: int = 1,
    k: float = 0.0,
    on_iteration: Callable[[State], bool | None] | None = None,
    resume_from: State | None = None,
) -> Fit[M]:
    """Fit by EM and return the best restart.

    start: a model, or a function of r that returns the model to start restart r from. k:
    pseudo-counts for transitions and emissions. on_iteration gets `BaumWelch.state()` after every
    iteration, and ends the fit with the best so far if it returns True; such a state can be passed
    as resume_from. To keep results after Ctrl-C, call `BaumWelch.iterate` until it is `done`, or
    keep the states.

    >>> model = CategoricalHMM([1.0, 0.0], [[0.9, 0.1], [0.1, 0.9]], [[0.9, 0.1], [0.1, 0.9]])
    >>> ids = model.sample(200, seed=1)[0]
    >>> fitted = baum_welch(lambda r: CategoricalHMM.random(2, 2, seed=r), ids, restarts=2, iterations=20)
    >>> all(a <= b + 1e-9 for a, b in zip(fitted.history, fitted.history[1:]))
    True
    """
    em = BaumWelch(
        start, data, lengths, iterations=iterations, tolerance=tolerance, restarts=restarts, k=k
    )
    if resume_from is not None:
        em.go_on_from(resume_from)
    with progress.task("Baum-Welch", total=restarts * (iterations + 1), unit="iterations") as bar:
        shown_iterations = em.restart * (iterations + 1) + len(em.history)
        bar.advance(shown_iterations)
        while not em.done:
            em.iterate()
            # After a restart that converged early the bar jumps ahead.
            done_iterations = em.restart * (iterations + 1) + len(em.history)
            bar.advance(done_iterations - shown_iterations)
            shown_iterations = done_iterations
            reached = (em.history or em.best.history)[-1]
            bar.note(
                f"log-likelihood {reached:,.2f}"
                + (f", restart {em.restart + 1} of {restarts}" if restarts > 1 else "")
            )
            if on_iteration is not None and on_iteration(em.state()):
                break
    return em.best


# ---- learning

CHECKPOINT_SECONDS = 10.0


def learn(
    ids: np.ndarray,
    lengths: np.ndarray,
    *,
    n_states: int,
    vocab_size: int,
    iterations: int,
    tolerance: float,
    restarts: int,
    k: float,
    seed: int,
    run: Path | None,
    facts: dict[str, Any],
) -> tuple[CategoricalHMM, dict[str, Any]]:
    """Learn the likeliest chain of all restarts, and return it with a report."""
    resumed: State | None = None
    with opened(run, facts) as keeper, Interrupts() as interrupts:
        if keeper is not None and (checkpoint := keeper.load()) is not None:
            resumed = {name: np.array(array) for name, array in checkpoint[0].items()}
            keeper.keep_log(int(checkpoint[1]["step"]))
        saved, steps = time.monotonic(), 0 if resumed is None else int(resumed["steps"])

        def after(state: State) -> bool:
            nonlocal saved, steps
            steps += 1
            if keeper is None and interrupts.asked == signal.SIGINT:
                interrupts.obeyed = True  # without checkpoints the result is the best so far
                return True
            if len(state["history"]):
                likelihood = float(state["history"][-1])
                report = {
                    "step": steps,
                    "loss": -likelihood / max(len(ids), 1),
                    "log_likelihood": likelihood,
                    "restart": int(state["restart"]),
                }
                progress.record(report)
                if keeper is not None:
                    keeper.log(report)
            if keeper is not None and (
                interrupts.asked or time.monotonic() - saved > CHECKPOINT_SECONDS
            ):
                keeper.save({**state, "steps": np.array(steps)}, {"step": steps})
                saved = time.monotonic()
            interrupts.give_way()
            return False

        fit = baum_welch(
            lambda r: CategoricalHMM.random(n_states, vocab_size, seed=seed + 1000 * r),
            ids,
            lengths,
            iterations=iterations,
            tolerance=tolerance,
            restarts=restarts,
            k=k,
            on_iteration=after,
            resume_from=resumed,
        )
    if interrupts.asked:
        progress.say(
            f"interrupted after {len(fit.history)} rounds; the best parameters so far are kept"
        )
    likelihood, free = fit.history[-1], fit.model.n_free
    report = {
        "iterations": len(fit.history) - 1,
        "converged": fit.converged,
        "restart": fit.restart,
        "log_likelihood": likelihood,
        "aic": 2 * free - 2 * likelihood,
        "bic": free * math.log(max(len(ids), 1)) - 2 * likelihood,
        "log_likelihoods": fit.history,
    }
    return fit.model, report
