"""Which n-grams can go: the change of the model's relative entropy if one n-gram is left out (Stolcke 1998).

Continuations of a context are found as when text is scored (`kernels/ngram_query`).
"""

import math

import numpy as np
from numba import njit

from seqloom.kernels.ngram_query import find_child


@njit(nogil=True, cache=True)
def advance_cost(words, log_probs, first, backoffs, links, state, w):
    """log p(w | state)."""
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
    """out[h]: log-probability of the history h itself, by the chain rule; `<s>` is certain."""
    out[0] = 0.0
    for h in range(len(out)):
        for t in range(first[h], min(np.int64(first[h + 1]), len(out))):
            out[t] = 0.0 if t == bos_node else out[h] + log_probs[t]


@njit(nogil=True, cache=True)
def mark_useless(words, log_probs, first, backoffs, links, history, keep, threshold, lo, hi):
    """Contexts lo..hi: clear `keep` where leaving out the n-gram raises the perplexity by less than the threshold.

    Equations 8 and 9 of the paper. n-grams that something kept follows stay.
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
    """Weights that make every context sum to one again: (1 - sum p(w | h)) / (1 - sum p(w | h'))."""
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
    """The longest suffix that is still there and live, in the new numbers."""
    for t in range(len(links)):
        if keep[t]:
            s = np.int64(links[t])
            while s != 0 and not (keep[s] and live[s]):
                s = np.int64(links[s])
            out[numbers[t]] = numbers[s]
