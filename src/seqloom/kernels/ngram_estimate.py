"""Turn the counts of one level into interpolated probabilities and back-off weights.

For a context c with total T and n-gram cw with count a (raw or adjusted):
    p(w | c) = (a - D[min(a, 3)]) / (T + shift) + gamma(c) p(w | c without its first word)
    gamma(c) = 1 - sum over kept cw of (a - D) / (T + shift)
Every smoothing method of `models/language/smoothing.py` is a choice of D and of shift = alpha N1+(c) + beta.
"""

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def adjusted_counts(suffixes, out):
    """out[s]: how many different words were seen to the left of s."""
    for t in range(len(suffixes)):
        out[suffixes[t]] += 1


@njit(nogil=True, cache=True)
def counts_of_counts(counts):
    """How many n-grams were seen once, twice, three and four times (index 1..4; 0 and 5 unused)."""
    out = np.zeros(6, np.int64)
    for t in range(len(counts)):
        c = counts[t]
        if 0 < c < 5:
            out[c] += 1
    return out


@njit(nogil=True, cache=True)
def context_totals(first, counts, lo, hi, totals, types):
    """totals[c] = sum of the counts of c's children, types[c] = how many there are; needed before pruning."""
    for c in range(lo, hi):
        total = 0.0
        for t in range(first[c], first[c + 1]):
            total += counts[t]
        totals[c] = total
        types[c] = first[c + 1] - first[c]


@njit(nogil=True, cache=True)
def estimate(
    first, counts, suffixes, lower, totals, types, discounts, alpha, beta, lo, hi, probs, gammas
):
    """Contexts lo..hi: probabilities of their n-grams, linear, and the weight left for the lower order.

    `totals` and `types` are given where pruning has taken n-grams away, else they are empty and summed here.
    """
    pruned = len(totals) > 0
    for c in range(lo, hi):
        begin = first[c]
        end = first[c + 1]
        total = 0.0
        kept = 0.0
        for t in range(begin, end):
            a = counts[t]
            total += a
            kept += a - discounts[min(a, 3)]
        n_types = np.float64(end - begin)
        if pruned:
            total = totals[c]
            n_types = types[c]
        denominator = total + alpha * n_types + beta
        if begin == end or denominator <= 0.0:
            gammas[c] = 1.0
            continue
        gamma = (denominator - kept) / denominator
        gammas[c] = gamma
        for t in range(begin, end):
            a = counts[t]
            probs[t] = (a - discounts[min(a, 3)]) / denominator + gamma * lower[suffixes[t]]


@njit(nogil=True, cache=True)
def floors(first, counts, unseen, beta, lo, hi, gammas):
    """Where unseen words do not ask the lower order: what one of them gets, k / (T + k V)."""
    for c in range(lo, hi):
        total = beta
        for t in range(first[c], first[c + 1]):
            total += counts[t]
        gammas[c] = unseen / total if first[c] < first[c + 1] else 1.0


@njit(nogil=True, cache=True)
def link(suffixes, suffix_base, first, backoffs, upper_links, links, lo, hi):
    """Where scoring goes on after a miss, or after an n-gram that nothing follows.

    links[t] = the suffix if something follows it or its back-off weight matters, else the suffix's own link.
    """
    for t in range(lo, hi):
        s = np.int64(suffixes[t]) + suffix_base
        if first[s] < first[s + 1] or backoffs[s] != 0.0:
            links[t] = s
        else:
            links[t] = upper_links[suffixes[t]]
