"""Learning a chain from raw symbols, with checkpoints: Ctrl-C or a kill loses at most a few seconds, and going on gives
the same bits as never having stopped."""

from __future__ import annotations

import math
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np

from seqloom import progress
from seqloom.models.hidden.chain import CategoricalHMM
from seqloom.models.hidden.em import State, baum_welch
from seqloom.training.checkpoint import Interrupts, opened

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
    """The likeliest chain of all restarts, and what there is to say about it."""
    resumed: State | None = None
    with opened(run, facts) as keeper, Interrupts() as interrupts:
        if keeper is not None and (kept := keeper.load()) is not None:
            resumed = {name: np.array(array) for name, array in kept[0].items()}
            keeper.keep_log(int(kept[1]["step"]))
        saved, steps = time.monotonic(), 0 if resumed is None else int(resumed["steps"])

        def after(state: State) -> bool:
            nonlocal saved, steps
            steps += 1
            if keeper is None and interrupts.asked == signal.SIGINT:
                interrupts.obeyed = (
                    True  # there is nothing to go on from later, so what was reached is the result
                )
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
