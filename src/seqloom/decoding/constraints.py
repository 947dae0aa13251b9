"""What may come next: a forced prefix, no end before a minimum length, and never some tokens. All change log-probabilities,
never the search.

A forced token keeps the log-probability that the model gives it, so hypotheses are scored as if they had been found; one that
the model finds impossible counts as certain, since nothing else may stand there (as in `healing.restrict`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from seqloom.decoding.stepper import State, Stepper
from seqloom.errors import ConfigError


def postpone_end(log_probs: np.ndarray, eos_id: int) -> np.ndarray:
    """Forbid the end symbol, except in rows where it is the only token left. A new array.

    >>> postpone_end(np.array([[-0.5, -1.0], [0.0, -np.inf]]), eos_id=0)
    array([[-inf,  -1.],
           [  0., -inf]])
    """
    open_ended = log_probs.copy()
    open_ended[:, eos_id] = -np.inf
    stuck = ~np.isfinite(open_ended.max(axis=1))
    open_ended[stuck] = log_probs[stuck]
    return open_ended


class Prefixes:
    """The tokens that the output of each prompt must begin with; None or nothing where it may begin as it likes."""

    def __init__(
        self,
        prefixes: Sequence[np.ndarray | Sequence[int] | None],
        limits: np.ndarray,
        vocab_size: int,
        eos_id: int,
    ) -> None:
        if len(prefixes) != len(limits):
            raise ValueError(
                f"prefixes are given for {len(prefixes)} prompts, but there are {len(limits)}"
            )
        rows = [np.asarray(() if prefix is None else prefix, np.int64) for prefix in prefixes]
        for number, (row, limit) in enumerate(zip(rows, limits.tolist())):
            if row.size and not 0 <= row.min() <= row.max() < vocab_size:
                raise ValueError(f"prefix {number} has a token id outside 0..{vocab_size - 1}")
            if eos_id in row:
                raise ConfigError(
                    f"prefix {number} contains the end symbol, after which nothing follows; leave it out"
                )
            if len(row) >= limit:
                raise ConfigError(
                    f"prefix {number} has {len(row)} tokens, but the output may have {limit} with its end; "
                    "raise max_tokens or shorten the prefix"
                )
        self.longest = max((len(row) for row in rows), default=0)
        self.ids = np.full((len(rows), self.longest), -1, np.int64)  # -1: free
        for number, row in enumerate(rows):
            self.ids[number, : len(row)] = row

    def force(self, log_probs: np.ndarray, prompt: np.ndarray, position: int) -> np.ndarray:
        """Leave only the forced token at this position to the rows of prompts (R,) that have one. A new array."""
        if position >= self.longest:
            return log_probs
        tokens = self.ids[prompt, position]
        rows = np.flatnonzero(tokens >= 0)
        if not rows.size:
            return log_probs
        tokens = tokens[rows]
        kept = log_probs[rows, tokens]
        forced = log_probs.copy()
        forced[rows] = -np.inf
        forced[rows, tokens] = np.where(kept == -np.inf, 0.0, kept)
        return forced


class Without:
    """A stepper that never proposes some tokens, unless the model leaves nothing else."""

    def __init__(self, stepper: Stepper, tokens: Sequence[int]) -> None:
        self.inner, self.tokens = stepper, np.array(tokens, np.int64)
        self.vocab_size, self.eos_id = stepper.vocab_size, stepper.eos_id
        for name in ("prefill", "extend"):
            if hasattr(stepper, name):
                setattr(self, name, getattr(self, f"_{name}"))
        for name in ("branch", "attention"):
            if hasattr(stepper, name):
                setattr(self, name, getattr(stepper, name))

    def _mask(self, result: tuple[State, np.ndarray]) -> tuple[State, np.ndarray]:
        state, log_probs = result
        kept = log_probs[..., self.tokens]  # a copy
        log_probs[..., self.tokens] = -np.inf
        alone = np.isneginf(log_probs.max(axis=-1))
        log_probs[..., self.tokens] = np.where(alone[..., None], kept, -np.inf)
        return state, log_probs

    def start(self, n: int) -> tuple[State, np.ndarray]:
        return self._mask(self.inner.start(n))

    def step(self, state: State, ids: np.ndarray) -> tuple[State, np.ndarray]:
        return self._mask(self.inner.step(state, ids))

    def _prefill(self, prompts: Sequence[np.ndarray]) -> tuple[State, np.ndarray]:
        return self._mask(self.inner.prefill(prompts))  # type: ignore[attr-defined]

    def _extend(self, state: State, ids: np.ndarray) -> tuple[list[State], np.ndarray]:
        return self._mask(self.inner.extend(state, ids))  # type: ignore[attr-defined]
