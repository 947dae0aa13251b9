"""What `kernels/attention` computes, a query at a time in float64."""

from __future__ import annotations

import numpy as np

from tests.twins.maths import softmax


def attend(query, keys, values, *, place, causal, window, scale, distances=None, relative=None):
    """What one head's query (d,) sees of keys and values (S, d), and the shares (S,).

    `place` is that of the query among the tokens; distances (2 F - 1,) are added to the scores,
    from the farthest key before it to the farthest behind, relative (R, d) is multiplied with the
    query for 0, 1, ... tokens back.
    """
    scores = np.full(len(keys), -np.inf)
    for t, key in enumerate(keys):
        if causal and not place - window <= t <= place:
            continue
        scores[t] = scale * (query @ key)
        if distances is not None:
            far = len(distances) // 2
            scores[t] += distances[far + np.clip(t - place, -far, far)]
        if relative is not None:
            scores[t] += scale * (query @ relative[min(place - t, len(relative) - 1)])
    shares = softmax(scores)
    return shares @ values if len(values) else np.zeros_like(query), shares


def additive_scores(queries, keys, energy):
    """(B, T, S) of queries (B, T, D) and keys (B, S, D)."""
    return np.tanh(queries[:, :, None] + keys[:, None]) @ energy


def attend_memory(query, vectors, keys, energy, scale, covered, coverage):
    """What one query (Q,) sees of vectors (S, D) by keys (S, Q), and the shares (S,)."""
    if covered is not None:
        keys = keys + coverage[:, None] * covered
    scores = np.tanh(query + keys) @ energy if energy is not None else scale * (keys @ query)
    shares = softmax(scores)
    return shares @ vectors, shares
