"""Greedy search without scores: the likeliest token at every step, by any Stepper."""

from __future__ import annotations

import numpy as np

from seqloom.decoding.sanity import ABOVE_ONE, check_log_probs
from seqloom.decoding.stepper import Stepper, select


def greedy(stepper: Stepper, n: int, max_tokens: int) -> list[tuple[np.ndarray, bool]]:
    """Return the tokens of each of n empty sequences, without the end symbol, and whether it came:
    what beam search of one beam finds, without its bookkeeping.
    """
    from seqloom.kernels.beam import all_usable

    if not n:
        return []
    found: list[list[int]] = [[] for _ in range(n)]
    ended = [False] * n
    state, log_probs = stepper.start(n)
    rows = list(range(n))  # those that go on
    for length in range(1, max_tokens + 1):
        ids = log_probs.argmax(axis=1)
        if not all_usable(log_probs, ids, ABOVE_ONE):
            check_log_probs(log_probs)
        chosen = ids.tolist()
        for row, token in zip(rows, chosen):
            ended[row] = token == stepper.eos_id
            if not ended[row]:
                found[row].append(token)
        if length == max_tokens:
            break
        if stepper.eos_id in chosen:
            kept = np.flatnonzero(ids != stepper.eos_id)
            if not len(kept):
                break
            state, ids, rows = select(state, kept), ids[kept], [rows[i] for i in kept.tolist()]
        state, log_probs = stepper.step(state, ids)
    return [(np.array(tokens, np.int64), end) for tokens, end in zip(found, ended)]
