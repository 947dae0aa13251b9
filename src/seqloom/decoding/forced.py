"""Log-probabilities of known outputs, token by token, from any Stepper."""

from __future__ import annotations

import numpy as np

from seqloom.decoding.stepper import Stepper, select


def forced_log_probs(
    stepper: Stepper, targets: list[np.ndarray], *, greedy: bool = False
) -> list[np.ndarray]:
    """Log-probability of each token of row i's target, by moving the state through it; rows that end are set aside.

    `greedy`: the tokens before it are not the target's but the model's own likeliest ones. Where these end first, so does the
    row: its answer has no more tokens than they have, the end symbol included.
    """
    lengths = np.array([len(target) for target in targets], np.int64)
    out = [np.empty(length, np.float32) for length in lengths.tolist()]
    state, log_probs = stepper.start(len(targets))
    rows = np.arange(len(targets))
    for t in range(int(lengths.max(initial=0))):
        if not (there := lengths[rows] > t).all():
            kept = np.flatnonzero(there)
            state, log_probs, rows = select(state, kept), log_probs[kept], rows[kept]
        ids = np.array([targets[row][t] for row in rows.tolist()], np.int64)
        for row, log_prob in zip(rows.tolist(), log_probs[np.arange(len(rows)), ids].tolist()):
            out[row][t] = log_prob
        if greedy:
            ids = log_probs.argmax(axis=1)
            lengths[rows[ids == stepper.eos_id]] = t + 1
        if t + 1 >= lengths.max():
            break
        state, log_probs = stepper.step(state, ids)
    return [log_probs[:length] for log_probs, length in zip(out, lengths.tolist())]
