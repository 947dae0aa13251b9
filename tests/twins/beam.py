"""Beam search in plain Python: one prompt, every continuation sorted, never stopped early."""

import math

import numpy as np


def search(
    stepper,
    prompt,
    *,
    beams,
    nbest,
    max_tokens,
    min_tokens=0,
    divisor=lambda length: length,
    coverage_penalty=0.0,
    prefix=(),
):
    """(ids with the end symbol if it came, log-probability, score) of the nbest results."""
    beam, results = [((), 0.0)], []
    for length in range(1, max_tokens + 1):
        candidates = []
        for ids, total in beam:
            row, _ = after(stepper, [*prompt, *ids])
            for token, log_prob in enumerate(
                allowed(row, length, min_tokens, prefix, stepper.eos_id)
            ):
                if log_prob > -math.inf:
                    candidates.append(((*ids, token), total + min(log_prob, 0.0)))
        candidates = sorted(candidates, key=lambda c: -c[1])[
            :beams
        ]  # stable: by position in the beam, then by token
        beam = [
            (ids, total)
            for ids, total in candidates
            if ids[-1] != stepper.eos_id and length < max_tokens
        ]
        for ids, total in candidates:
            if ids[-1] == stepper.eos_id or length == max_tokens:
                score = total / divisor(length) + coverage(stepper, prompt, ids, coverage_penalty)
                results.append((list(ids), total, score))
    return sorted(results, key=lambda result: -result[2])[:nbest]


def allowed(row, length, min_tokens, prefix, eos_id):
    row = [float(log_prob) for log_prob in row]
    if length <= min_tokens and any(
        p > -math.inf for token, p in enumerate(row) if token != eos_id
    ):
        row[eos_id] = -math.inf
    if length <= len(prefix):
        forced = row[prefix[length - 1]]
        row = [-math.inf] * len(row)
        row[prefix[length - 1]] = 0.0 if forced == -math.inf else forced
    return row


def coverage(stepper, prompt, ids, penalty):
    """Wu et al. 2016, equation 14."""
    if not penalty:
        return 0.0
    columns = zip(
        *(after(stepper, [*prompt, *ids[:j]])[1] for j in range(len(ids)))
    )  # of each source token
    return penalty * sum(math.log(min(sum(column), 1.0)) for column in columns)


def after(stepper, ids):
    """The next log-probabilities, and the attention behind them if there is any."""
    state, log_probs = stepper.start(1)
    for token in ids:
        state, log_probs = stepper.step(state, np.array([token], np.int64))
    if not hasattr(stepper, "attention"):
        return log_probs[0], ()
    weights, lengths = stepper.attention(state)
    return log_probs[0], [float(weight) for weight in weights[0, : lengths[0]]]
