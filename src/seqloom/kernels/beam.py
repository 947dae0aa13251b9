"""One step of beam search: the best continuations of each prompt, and which of them leave the beam.

A step reads every log-probability once. Blocks without a candidate for the `k` best, which are most, are
skipped after one comparison per value, on vector units; only the others are read again, one by one. No
array of sums (rows times vocabulary) is built.

Rows of the beam are open hypotheses: those of one prompt side by side, best first, prompts in their order.
"""

import numpy as np
from numba import njit

BLOCK = 128


@njit(nogil=True, cache=True)
def any_above(x, limit):
    """Return whether a value is above the limit or NaN. LLVM vectorises a count of 32 bits, but not a
    maximum.
    """
    hits = np.int32(0)
    for j in range(len(x)):
        hits = np.int32(hits + np.int32(not x[j] <= limit))
    return hits > 0


@njit(nogil=True, cache=True)
def possible(x):
    """Return whether any value is above -inf, or NaN."""
    for j in range(len(x)):
        if x[j] != -np.inf:
            return True
    return False


@njit(nogil=True, cache=True)
def offer(x, row, log_prob, largest, filled, best, rows, tokens):
    """Insert the continuations of one row, log-probabilities x (V,), into the list `best`, which has
    `filled` entries, if they are good enough.

    Of equal sums the one that came first stays ahead. Return the new number of entries, or -1 if x
    holds NaN or a value above `largest`.
    """
    k = len(best)
    for start in range(0, len(x), BLOCK):
        end = min(start + BLOCK, len(x))
        worst = best[k - 1] if filled == k else -np.inf
        # a little lower, so that rounding to float32 loses none
        limit = min(worst - log_prob, 0.0) * (1 + 1e-6)
        if not any_above(x[start:end], np.float32(limit)):
            continue
        for j in range(start, end):
            if not x[j] <= largest:
                return -1
            total = log_prob + min(np.float64(x[j]), 0.0)
            if total > worst:
                at = min(filled, k - 1)
                while at > 0 and best[at - 1] < total:
                    best[at], rows[at], tokens[at] = best[at - 1], rows[at - 1], tokens[at - 1]
                    at -= 1
                best[at], rows[at], tokens[at] = total, row, j
                filled = min(filled + 1, k)
                worst = best[k - 1] if filled == k else -np.inf
    return filled


@njit(nogil=True, cache=True)
def all_usable(log_probs, ids, largest):
    """Return whether the likeliest tokens, ids (n,) of log_probs (n, V), have valid probabilities: above
    zero, not above `largest`, not NaN (which `argmax` takes for the largest number).
    """
    for row in range(len(ids)):
        best = log_probs[row, ids[row]]
        if not -np.inf < best <= largest:
            return False
    return True


@njit(nogil=True, cache=True)
def keep_result(count, scores, log_probs, origins, score, log_prob, length, row, token):
    """Insert a hypothesis into the results of its prompt, best first, equal ones in order of arrival;
    return the new count.
    """
    capacity = len(scores)
    if count == capacity and score <= scores[capacity - 1]:
        return count
    at = min(count, capacity - 1)
    while at > 0 and scores[at - 1] < score:
        scores[at], log_probs[at], origins[at] = scores[at - 1], log_probs[at - 1], origins[at - 1]
        at -= 1
    scores[at], log_probs[at] = score, log_prob
    origins[at, 0], origins[at, 1], origins[at, 2] = length, row, token
    return min(count + 1, capacity)


@njit(nogil=True, cache=True)
def advance(
    log_probs,
    prompt,
    log_prob,
    coverage,
    k,
    eos_id,
    largest,
    length,
    divisor,
    limits,
    divisors,
    results,
    out,
):
    """Extend the beam by one token to hypotheses of `length` tokens; return how many stay open,
    and whether rows moved.

    log_probs (R, V) of the next token, prompt (R,) and log_prob (R,) of the rows, coverage (R,)
    their penalty or empty. Each prompt keeps its k best continuations. Those that end, or reach the
    limit of their prompt (n,), go to the results: counts (n,), scores (n, N), log_probs (n, N) and
    origins (n, N, 3) with length, row and last token. The others go to `out`, log_prob (.,) and
    prompt, row and token (3, .), unless the prompt is settled: its best open one divided by the
    largest divisor it can reach, `divisors` (n,), is no better than the worst of N results. -1 open: a
    row is no distribution.
    """
    counts, scores, log_prob_of, origins = results
    out_log_prob, out_ids = out
    best, rows, tokens = np.empty(k), np.empty(k, np.int64), np.empty(k, np.int64)
    n_open, first = 0, 0
    while first < len(prompt):
        p, filled, row = prompt[first], 0, first
        while row < len(prompt) and prompt[row] == p:
            if not possible(log_probs[row]):
                return -1, False
            filled = offer(log_probs[row], row, log_prob[row], largest, filled, best, rows, tokens)
            if filled < 0:
                return -1, False
            row += 1
        first, begin = row, n_open
        for i in range(filled):
            if tokens[i] == eos_id or length == limits[p]:
                score = best[i] / divisor + (coverage[rows[i]] if len(coverage) > 0 else 0.0)
                counts[p] = keep_result(
                    counts[p],
                    scores[p],
                    log_prob_of[p],
                    origins[p],
                    score,
                    best[i],
                    length,
                    rows[i],
                    tokens[i],
                )
            else:
                out_log_prob[n_open] = best[i]
                out_ids[0, n_open], out_ids[1, n_open], out_ids[2, n_open] = p, rows[i], tokens[i]
                n_open += 1
        nbest = scores.shape[1]
        if (
            n_open > begin
            and counts[p] == nbest
            and not out_log_prob[begin] / divisors[p] > scores[p, nbest - 1]
        ):
            n_open = begin
    moved = n_open != len(prompt)
    for i in range(n_open):
        moved = moved or out_ids[1, i] != i
    return n_open, moved


@njit(nogil=True, cache=True)
def trace(tokens, rows, starts, counts, origins, out):
    """Write the concatenated tokens of all results to `out`, from the choices of every step: a token,
    and the row that it continues.

    The choices of step t begin at starts[t]. counts (n,) and origins (n, N, 3) as in `advance`.
    """
    end = 0
    for p in range(len(counts)):
        for i in range(counts[p]):
            length, row = origins[p, i, 0], origins[p, i, 1]
            end += length
            out[end - 1] = origins[p, i, 2]
            for back in range(1, length):
                at = starts[length - 1 - back] + row
                out[end - 1 - back] = tokens[at]
                row = rows[at]
