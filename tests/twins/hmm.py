"""Hidden Markov models the slow, obvious way: every path there is, and the forward recursion as it
stands in the book.

`seen` is (T, S): how likely what stands at t is in each state; for symbols, the columns of the emissions.
"""

import itertools
import math

import numpy as np


def paths(start, transitions, seen):
    """(path, p(path, data)) of all S^T paths."""
    for path in itertools.product(range(len(start)), repeat=len(seen)):
        p = 1.0
        for t, state in enumerate(path):
            p *= (start[state] if t == 0 else transitions[path[t - 1]][state]) * seen[t][state]
        yield path, p


def likelihood(start, transitions, seen):
    return math.fsum(p for _, p in paths(start, transitions, seen))


def posteriors(start, transitions, seen):
    """p(z_t | data), (T, S), and expected transitions, (S, S)."""
    total, states = likelihood(start, transitions, seen), len(start)
    single, pairs = np.zeros((len(seen), states)), np.zeros((states, states))
    for path, p in paths(start, transitions, seen):
        for t, state in enumerate(path):
            single[t, state] += p / total
            if t:
                pairs[path[t - 1], state] += p / total
    return single, pairs


def filtered(start, transitions, seen):
    """p(z_t | data up to t): the last place of the posteriors of every beginning."""
    return np.array(
        [posteriors(start, transitions, seen[: t + 1])[0][-1] for t in range(len(seen))]
    )


def best(start, transitions, seen):
    """The likeliest path, the lowest of equals, and its probability."""
    return max(
        paths(start, transitions, seen),
        key=lambda found: (found[1], [-state for state in found[0]]),
    )


def slow_forward(start, transitions, seen):
    """Log-likelihood by sums of logarithms, in Python."""

    def log_sum(values):
        top = max(values)
        return (
            top
            if top == -math.inf
            else top + math.log(math.fsum(math.exp(v - top) for v in values))
        )

    def log(p):
        return math.log(p) if p > 0 else -math.inf

    states = range(len(start))
    alpha = [log(start[j]) + log(seen[0][j]) for j in states]
    for row in seen[1:]:
        alpha = [
            log_sum([alpha[i] + log(transitions[i][j]) for i in states]) + log(row[j])
            for j in states
        ]
    return log_sum(alpha)


def best_pairs(log_transitions, emissions, allowed):
    """Order two: the best of all taggings with tag t out of allowed[t]; (score, tags)."""
    border = len(log_transitions) - 1
    found = (-math.inf, None)
    for tags in itertools.product(*allowed):
        padded = [border, border, *tags, border]
        score = sum(
            log_transitions[tuple(padded[k : k + 3])] for k in range(len(tags) + 1 if tags else 0)
        )
        score += sum(emissions[t][tag] for t, tag in enumerate(tags))
        if score > found[0]:
            found = (score, list(tags))
    return found
