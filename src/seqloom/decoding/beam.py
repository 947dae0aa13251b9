"""Beam search: the sequences that a model finds most likely, many prompts at a time.

Scores are log-probabilities divided by length ** length_penalty, after Wu et al. 2016 ("Google's Neural
Machine Translation System", section 7), with the plain power in place of their ((5 + length) / 6): 0 is
the bare log-probability, which in wide beams favours ever shorter outputs; 1 is the mean per token.

Each step takes the `beams` best continuations of a prompt. Those that end leave the beam and the others
go on, to be refilled at the next step; so one beam is greedy search. A prompt is settled when it has
`beams` finished hypotheses and no open one can still beat the worst of them. Log-probabilities only fall,
so an open hypothesis can reach at most what it has now, spread over `max_tokens`; the search that stops
early therefore finds what the full search would.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from seqloom.config import MOST
from seqloom.decoding.healing import restrict
from seqloom.decoding.sampling import top_indices
from seqloom.decoding.sanity import check_log_probs
from seqloom.decoding.stepper import State, Stepper, prefill, select
from seqloom.errors import ConfigError, quoted

STEEPEST = 30  # length_penalty, an exponent of lengths


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """A continuation of a prompt, without the prompt and without the end symbol."""

    ids: np.ndarray   # int64
    log_prob: float   # natural log, the end symbol included
    score: float      # log_prob / length ** length_penalty, the end symbol counted
    finished: bool    # False where max_tokens cut it off


@dataclass(frozen=True, eq=False)
class _Beam:
    """Hypotheses of the prompts that are not settled. A slot with log_prob -inf is empty."""

    prompt: np.ndarray    # (A,) the numbers of those prompts
    log_prob: np.ndarray  # (A, K) float64
    ids: np.ndarray       # (A, K, t)
    rows: np.ndarray      # (A, K) the row of the state that each one continues


def beam_search(stepper: Stepper, prompts: Sequence[np.ndarray], *, beams: int = 5, max_tokens: int = 100,
                length_penalty: float = 1.0, first_allowed: Sequence[np.ndarray | None] | None = None,
                ) -> list[list[Hypothesis]]:
    """The best continuations of each prompt, at most `beams` of them, best first.

    `max_tokens` counts the end symbol. `first_allowed` as in `sampling.sample`.
    """
    _check_options(beams, max_tokens, length_penalty)
    hypotheses: list[list[Hypothesis]] = [[] for _ in prompts]
    if not prompts:
        return hypotheses
    state, log_probs = prefill(stepper, prompts)
    log_probs = restrict(log_probs, first_allowed)
    beam = _begin(len(prompts))
    for length in range(1, max_tokens + 1):
        check_log_probs(log_probs)
        beam = _extend(beam, log_probs, beams)
        ended = beam.ids[:, :, -1] == stepper.eos_id
        leaving = ended if length < max_tokens else np.ones_like(ended)
        _collect(beam, leaving, ended, length**length_penalty, hypotheses, beams)
        beam = _remain(beam, leaving)
        beam = _unsettled(beam, hypotheses, beams, max_tokens**length_penalty)
        if not beam.prompt.size:
            break
        state = _follow(state, beam.rows.ravel(), len(log_probs))
        state, log_probs = stepper.step(state, beam.ids[:, :, -1].ravel())
    return hypotheses


def _begin(n: int) -> _Beam:
    """One empty hypothesis for each prompt."""
    return _Beam(np.arange(n), np.zeros((n, 1)), np.zeros((n, 1, 0), np.int64), np.arange(n)[:, None])


def _extend(beam: _Beam, log_probs: np.ndarray, beams: int) -> _Beam:
    """The best continuations of each prompt; equal ones by position in the beam, then by token id."""
    n, width, _ = beam.ids.shape
    next_log_probs = np.minimum(log_probs, 0.0, dtype=np.float64).reshape(n, width, -1)
    totals = (beam.log_prob[:, :, None] + next_log_probs).reshape(n, -1)       # (A, K * V)
    best = top_indices(totals, beams)                                          # (A, K')
    parent, token = np.divmod(best, log_probs.shape[1])
    ids = np.concatenate([np.take_along_axis(beam.ids, parent[:, :, None], axis=1), token[:, :, None]], axis=2)
    rows = np.arange(n)[:, None] * width + parent
    return _Beam(beam.prompt, np.take_along_axis(totals, best, axis=1), ids, rows)


def _collect(beam: _Beam, leaving: np.ndarray, ended: np.ndarray, divisor: float,
             hypotheses: list[list[Hypothesis]], beams: int) -> None:
    """Move the hypotheses that leave the beam to the results of their prompts, best first."""
    changed = set()
    for a, k in zip(*np.nonzero(leaving & (beam.log_prob > -np.inf))):
        ids = beam.ids[a, k, :-1] if ended[a, k] else beam.ids[a, k]
        log_prob = float(beam.log_prob[a, k])
        hypotheses[beam.prompt[a]].append(Hypothesis(ids.copy(), log_prob, log_prob / divisor, bool(ended[a, k])))
        changed.add(int(beam.prompt[a]))
    for prompt in changed:
        hypotheses[prompt].sort(key=lambda hypothesis: -hypothesis.score)
        del hypotheses[prompt][beams:]


def _remain(beam: _Beam, leaving: np.ndarray) -> _Beam:
    """The beam without those that left, as narrow as its fullest prompt allows.

    An empty slot repeats the best hypothesis of its prompt, so that the Stepper sees only real tokens.
    """
    log_prob = np.where(leaving, -np.inf, beam.log_prob)
    width = max(1, int((log_prob > -np.inf).sum(axis=1).max()))
    order = np.argsort(-log_prob, axis=1, kind="stable")[:, :width]
    log_prob = np.take_along_axis(log_prob, order, axis=1)
    order = np.where(log_prob > -np.inf, order, order[:, :1])
    ids = np.take_along_axis(beam.ids, order[:, :, None], axis=1)
    return _Beam(beam.prompt, log_prob, ids, np.take_along_axis(beam.rows, order, axis=1))


def _unsettled(beam: _Beam, hypotheses: list[list[Hypothesis]], beams: int, largest_divisor: float) -> _Beam:
    """The prompts of which an open hypothesis may still get among the results."""
    bound = beam.log_prob.max(axis=1) / largest_divisor
    results = [hypotheses[prompt] for prompt in beam.prompt]
    worst = np.array([result[-1].score if len(result) == beams else -np.inf for result in results])
    keep = bound > worst
    return _Beam(beam.prompt[keep], beam.log_prob[keep], beam.ids[keep], beam.rows[keep])


def _follow(state: State, rows: np.ndarray, n: int) -> State:
    """The state behind the hypotheses; copied only where rows move, since `step` may write into it."""
    return state if np.array_equal(rows, np.arange(n)) else select(state, rows)


def _check_options(beams: int, max_tokens: int, length_penalty: float) -> None:
    if not 1 <= beams <= MOST or not 1 <= max_tokens <= MOST:
        raise ConfigError(f"beams and max_tokens must be from 1 to {MOST:,}; got {quoted(beams)} and {quoted(max_tokens)}")
    if not 0 <= length_penalty <= STEEPEST:  # also where it is NaN
        raise ConfigError(f"length_penalty must be a number from 0 to {STEEPEST}; got {quoted(length_penalty)}")
