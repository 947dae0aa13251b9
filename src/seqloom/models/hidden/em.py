"""Baum-Welch (Baum et al. 1970): expectation-maximisation for any hidden Markov model, with restarts.

`BaumWelch` is a value that is moved forward one iteration at a time: whatever stops it, `best` holds the best
parameters so far, and `state()` all that the next iteration depends on, as named arrays; a run that is continued from
them gives the same bits. The objective (log-likelihood, plus the logarithm of the prior that `k` stands for) never
falls; if it does by more than rounding, that is a TrainingError and not a warning.

    >>> from seqloom.models.hidden.chain import CategoricalHMM
    >>> ids = CategoricalHMM([1.0, 0.0], [[0.9, 0.1], [0.1, 0.9]], [[0.9, 0.1], [0.1, 0.9]]).sample(200, seed=1)[0]
    >>> fitted = baum_welch(lambda r: CategoricalHMM.random(2, 2, seed=r), ids, restarts=2, iterations=20)
    >>> all(a <= b + 1e-9 for a, b in zip(fitted.history, fitted.history[1:]))
    True
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from seqloom import progress
from seqloom.errors import ConfigError, TrainingError
from seqloom.models.hidden.markov import Markov, refuse_impossible

M = TypeVar("M", bound=Markov)
State = dict[str, np.ndarray]
SLACK = 1e-6  # relative: what rounding may take away


@dataclass(frozen=True)
class Fit(Generic[M]):
    model: M
    history: list[
        float
    ]  # log-likelihood of the start and after each iteration; the last is that of `model`
    converged: bool
    restart: int  # which start it came from


class BaumWelch(Generic[M]):
    """Each restart runs until its gain is below `tolerance` times its objective, or for `iterations`."""

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
        self.history: list[float] = []  # of the restart that runs
        self.objectives: list[float] = []
        self.finished: Fit[M] | None = None  # the best restart that is over
        self._finished_objective = -np.inf
        self.data, self.lengths = self.model.prepare(data, lengths)
        self._batches = self.model.batches(self.data, self.lengths)

    @property
    def done(self) -> bool:
        return self.restart == self.restarts

    @property
    def best(self) -> Fit[M]:
        """The best parameters so far; those of a restart that still runs are at least as good as its last objective."""
        running = self.objectives[-1] if self.objectives else -np.inf
        if self.finished is not None and (self.done or self._finished_objective >= running):
            return self.finished
        return Fit(self.model, list(self.history), False, self.restart)

    def iterate(self) -> None:
        """One E-step and, unless that restart is over by it, one M-step."""
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
        """All that the next iteration depends on, besides data and options."""
        out = {f"model.{name}": array for name, array in self.model.arrays().items()}
        out |= {
            "restart": np.array(self.restart),
            "history": np.array(self.history),
            "objectives": np.array(self.objectives),
        }
        if self.finished is not None:
            fit = self.finished
            out |= {f"best.{name}": array for name, array in fit.model.arrays().items()}
            out |= {
                "best_history": np.array(fit.history),
                "best_objective": np.array(self._finished_objective),
                "best_converged": np.array(fit.converged),
                "best_restart": np.array(fit.restart),
            }
        return out

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

    start: a model, or the model to begin restart r from. k: pseudo-counts for transitions and emissions.
    on_iteration gets `BaumWelch.state()` after every iteration, and ends the fit with the best so far where it answers
    True; such a state can be given back as resume_from. To keep what was reached when Ctrl-C comes, hold a `BaumWelch` and
    call `iterate` until it is `done`, or take the states.
    """
    em = BaumWelch(
        start, data, lengths, iterations=iterations, tolerance=tolerance, restarts=restarts, k=k
    )
    if resume_from is not None:
        em.go_on_from(resume_from)
    with progress.task("Baum-Welch", total=restarts * (iterations + 1), unit="iterations") as bar:
        before = em.restart * (iterations + 1) + len(em.history)
        bar.advance(before)
        while not em.done:
            em.iterate()
            now = em.restart * (iterations + 1) + len(
                em.history
            )  # a restart that converged early jumps ahead
            bar.advance(now - before)
            before = now
            reached = (em.history or em.best.history)[-1]
            bar.note(
                f"log-likelihood {reached:,.2f}"
                + (f", restart {em.restart + 1} of {restarts}" if restarts > 1 else "")
            )
            if on_iteration is not None and on_iteration(em.state()):
                break
    return em.best
