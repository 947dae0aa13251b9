"""All that inference says of one sequence under a hidden Markov model: what was believed of the state at each
step then (filter) and afterwards (smoothing), the moves between the states, and the likeliest path (Viterbi).

For a chain whose state is one state (`of_chain`), and for tags of which each depends on the two before it
(`of_tags`), where the state is a pair of tags.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from seqloom.models.hidden.chain import CategoricalHMM


class Lattice(NamedTuple):
    filtered: np.ndarray  # (T, S): p(state | what was read up to here)
    smoothed: np.ndarray  # (T, S): p(state | the whole sequence)
    moves: np.ndarray  # (T - 1, S, S): p(state here, state next | the whole sequence)
    path: np.ndarray  # (T,): the likeliest path
    path_share: float  # its probability, given the sequence
    log_prob: float  # of the sequence; of words without tags up to a constant


def of_chain(chain: CategoricalHMM, ids: np.ndarray) -> Lattice:
    """Return the lattice of one sequence of symbols."""
    filtered, log_probs = chain.filter(ids)
    smoothed = chain.posteriors(ids)
    path, joint = chain.viterbi(ids)
    predicted = chain.predict(filtered[:-1])
    ratio = smoothed[1:] / np.where(predicted > 0, predicted, 1.0)
    moves = filtered[:-1, :, None] * chain.transitions * ratio[:, None, :]
    total = float(log_probs.sum())
    return Lattice(filtered, smoothed, moves, path, float(np.exp(joint[0] - total)), total)


def of_tags(log_transitions: np.ndarray, emissions: np.ndarray, path: np.ndarray) -> Lattice:
    """Return the lattice of one sentence: log_transitions[u, v, w] = log p(w | u, v), the boundary last, and
    emissions (T, S), log-scores of the words under the tags, as in `viterbi_pairs`, which found the path.
    """
    n_steps, end = emissions.shape
    forward, scales, likelihoods = _read(log_transitions, emissions, end)
    follow = np.exp(log_transitions)
    backward = follow[:, :, end]
    both = np.empty_like(forward)
    for t in range(n_steps - 1, -1, -1):
        both[t] = forward[t] * backward
        if t:
            weighted = likelihoods[t] * backward[:, :end]
            backward = np.einsum("uvw,vw->uv", follow[:, :, :end], weighted)
            backward /= backward.max()
    both /= both.sum((1, 2), keepdims=True)
    total = float(scales.sum() + emissions.max(1).sum())
    total += float(np.log((forward[-1] * follow[:, :, end]).sum()))
    framed = [end, end, *path.tolist(), end]
    joint = sum(float(log_transitions[u, v, w]) for u, v, w in zip(framed, framed[1:], framed[2:]))
    joint += float(emissions[np.arange(n_steps), path].sum())
    return Lattice(
        forward.sum(1)[:, :end],
        both.sum(1)[:, :end],
        both[1:, :end, :end],
        path,
        float(np.exp(joint - total)),
        total,
    )


def forgetting_of_tags(log_transitions: np.ndarray, emissions: np.ndarray, tag: int) -> np.ndarray:
    """Return how far apart (total variation) two filters are after each word, of which one begins after
    this tag and one at the boundary.
    """
    end = emissions.shape[1]
    here, there = (
        _read(log_transitions, emissions, before)[0].sum(1)[:, :end] for before in (end, tag)
    )
    return 0.5 * np.abs(here - there).sum(1)


def _read(
    log_transitions: np.ndarray, emissions: np.ndarray, before: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return beliefs (T, S + 1, S + 1) about the tag before and that of each word, given the words up to
    it; logarithms of what each step was divided by, and the likelihoods of the words (T, S).
    """
    n_steps, end = emissions.shape
    follow = np.exp(log_transitions)
    likelihoods = np.exp(emissions - emissions.max(1, keepdims=True))
    beliefs, scales = np.zeros((n_steps, end + 1, end + 1)), np.empty(n_steps)
    belief = np.zeros((end + 1, end + 1))
    belief[end, before] = 1.0
    for t in range(n_steps):
        belief = np.einsum("uv,uvw->vw", belief, follow)
        belief[:, :end] *= likelihoods[t]
        belief[:, end] = 0.0
        total = belief.sum()
        belief /= total
        beliefs[t], scales[t] = belief, np.log(total)
    return beliefs, scales, likelihoods
