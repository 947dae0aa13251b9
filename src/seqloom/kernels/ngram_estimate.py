"""Turn the counts of one level into interpolated probabilities and back-off weights, and prune n-grams.

For a context c with total T and n-gram cw with count a (raw or adjusted):
    p(w | c) = (a - D[min(a, 3)]) / (T + shift) + gamma(c) p(w | c without its first word)
    gamma(c) = 1 - sum over kept cw of (a - D) / (T + shift)
Every smoothing method of `models/language/estimation.py` is a choice of D and of shift = alpha N1+(c) + beta.

n-grams are pruned by the change of the model's relative entropy without them (Stolcke 1998).
"""

import math

import numpy as np
from numba import njit

from seqloom.kernels.ngram_query import find_child


@njit(nogil=True, cache=True)
def adjusted_counts(suffixes, out):
    """Count in out[s] the different words seen to the left of s."""
    for t in range(len(suffixes)):
        out[suffixes[t]] += 1


@njit(nogil=True, cache=True)
def counts_of_counts(counts):
    """Count the n-grams seen once, twice, three and four times (index 1..4; 0 and 5 unused)."""
    out = np.zeros(6, np.int64)
    for t in range(len(counts)):
        c = counts[t]
        if 0 < c < 5:
            out[c] += 1
    return out


@njit(nogil=True, cache=True)
def context_totals(first, counts, lo, hi, totals, types):
    """Set totals[c] = sum of the counts of c's children, types[c] = their number; needed before
    pruning.
    """
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
    """Compute for contexts lo..hi the probabilities of their n-grams, not logarithms, and the weight
    of the lower order.

    `totals` and `types` are given if n-grams were pruned; else they are empty and computed here.
    """
    pruned = len(totals) > 0
    for c in range(lo, hi):
        begin = first[c]
        end = first[c + 1]
        total = 0.0
        discounted = 0.0
        for t in range(begin, end):
            a = counts[t]
            total += a
            discounted += a - discounts[min(a, 3)]
        n_types = np.float64(end - begin)
        if pruned:
            total = totals[c]
            n_types = types[c]
        denominator = total + alpha * n_types + beta
        if begin == end or denominator <= 0.0:
            gammas[c] = 1.0
            continue
        gamma = (denominator - discounted) / denominator
        gammas[c] = gamma
        for t in range(begin, end):
            a = counts[t]
            probs[t] = (a - discounts[min(a, 3)]) / denominator + gamma * lower[suffixes[t]]


@njit(nogil=True, cache=True)
def floors(first, counts, unseen, beta, lo, hi, gammas):
    """Compute the probability of an unseen word without the lower order: k / (T + k V)."""
    for c in range(lo, hi):
        total = beta
        for t in range(first[c], first[c + 1]):
            total += counts[t]
        gammas[c] = unseen / total if first[c] < first[c + 1] else 1.0


@njit(nogil=True, cache=True)
def link(suffixes, suffix_base, first, backoffs, upper_links, links, lo, hi):
    """Set the state where scoring continues after a miss, or after an n-gram without continuations.

    links[t] = the suffix if it has continuations or a back-off weight, else the suffix's link.
    """
    for t in range(lo, hi):
        s = np.int64(suffixes[t]) + suffix_base
        if first[s] < first[s + 1] or backoffs[s] != 0.0:
            links[t] = s
        else:
            links[t] = upper_links[suffixes[t]]


# ---- ngram prune


@njit(nogil=True, cache=True)
def advance_cost(words, log_probs, first, backoffs, links, state, w):
    """Return log p(w | state); continuations are searched as in scoring (`kernels/ngram_query`)."""
    cost = 0.0
    while state != 0:
        node = find_child(words, np.int64(first[state]), np.int64(first[state + 1]), w)
        if node >= 0:
            return cost + log_probs[node]
        cost += backoffs[state]
        state = np.int64(links[state])
    return cost + log_probs[w + 1]


@njit(nogil=True, cache=True)
def history_log_probs(first, log_probs, bos_node, out):
    """Compute out[h]: the log-probability of the history h, by the chain rule; `<s>` is certain."""
    out[0] = 0.0
    for h in range(len(out)):
        for t in range(first[h], min(np.int64(first[h + 1]), len(out))):
            out[t] = 0.0 if t == bos_node else out[h] + log_probs[t]


@njit(nogil=True, cache=True)
def mark_useless(words, log_probs, first, backoffs, links, history, keep, threshold, lo, hi):
    """Clear `keep` in contexts lo..hi if removing the n-gram raises the perplexity by less than the
    threshold.

    Equations 8 and 9 of Stolcke 1998. n-grams with continuations that are kept stay.
    """
    n_inner = len(backoffs)
    for h in range(lo, hi):
        begin = np.int64(first[h])
        end = np.int64(first[h + 1])
        if begin == end:
            continue
        state = np.int64(links[h])
        left = 1.0  # 1 - sum p(w | h), and the same under the shorter history
        left_lower = 1.0
        for t in range(begin, end):
            left -= math.exp(log_probs[t])
            left_lower -= math.exp(
                advance_cost(words, log_probs, first, backoffs, links, state, np.int64(words[t]))
            )
        left = max(left, 0.0)
        left_lower = max(left_lower, 1e-12)
        for t in range(begin, end):
            if t < n_inner:
                followed = False
                for child in range(first[t], first[t + 1]):
                    if keep[child]:
                        followed = True
                        break
                if followed:
                    continue
            log_p = log_probs[t]
            p = math.exp(log_p)
            log_lower = advance_cost(
                words, log_probs, first, backoffs, links, state, np.int64(words[t])
            )
            log_alpha = math.log((left + p) / (left_lower + math.exp(log_lower)))
            change = -math.exp(history[h]) * (
                p * (log_lower + log_alpha - log_p) + left * (log_alpha - backoffs[h])
            )
            if math.expm1(change) < threshold:
                keep[t] = False


@njit(nogil=True, cache=True)
def new_backoffs(words, log_probs, first, backoffs, links, out, lo, hi):
    """Compute weights that make every context sum to one again: (1 - sum p(w | h)) / (1 - sum
    p(w | h')).
    """
    for h in range(lo, hi):
        if first[h] == first[h + 1]:
            out[h] = 0.0
            continue
        state = np.int64(links[h])
        left = 1.0
        left_lower = 1.0
        for t in range(first[h], first[h + 1]):
            left -= math.exp(log_probs[t])
            left_lower -= math.exp(
                advance_cost(words, log_probs, first, backoffs, links, state, np.int64(words[t]))
            )
        out[h] = math.log(max(left, 1e-12) / max(left_lower, 1e-12))


@njit(nogil=True, cache=True)
def relink(links, keep, numbers, live, out):
    """Set links to the longest suffix that is kept and live, in the new numbers."""
    for t in range(len(links)):
        if keep[t]:
            s = np.int64(links[t])
            while s != 0 and not (keep[s] and live[s]):
                s = np.int64(links[s])
            out[numbers[t]] = numbers[s]
