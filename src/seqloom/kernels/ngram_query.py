"""Score tokens with a back-off trie in level order.

Node 0 is the empty context; nodes 1..V+1 are the words (word w is node w + 1); then the bigrams, and so on,
each level sorted, so the children of node s are the nodes first[s]..first[s + 1], ascending by word.
A state is a node: the longest suffix of what was read that the model knows and that something follows.
On a miss the state moves along `links` and pays the back-off weight, as in an Aho-Corasick automaton, so
a token costs one search and one more for each back-off, never a walk up from the unigram.
"""

import numpy as np
from numba import njit

LANES = 16  # segments that one thread scores side by side
SEGMENT = 2048  # tokens


@njit(nogil=True, cache=True)
def find_child(words, lo, hi, w):
    """The place of w in words[lo:hi] (ascending), or -1.

    Gallops from the left: ids are given by frequency, so the word asked for is mostly near the beginning.
    """
    reach = np.int64(8)
    while lo + reach < hi and words[lo + reach] <= w:
        lo += reach
        reach *= 2
    hi = min(lo + reach, hi)
    while hi - lo > 8:
        mid = (lo + hi) >> 1
        if words[mid] <= w:
            lo = mid
        else:
            hi = mid
    for i in range(lo, hi):
        if words[i] == w:
            return i
    return np.int64(-1)


@njit(nogil=True, cache=True)
def advance(words, log_probs, first, backoffs, links, chained, state, w):
    """One token: (log-probability, next state, node that matched)."""
    cost = 0.0
    paying = True
    s = state
    while s != 0:
        node = find_child(words, np.int64(first[s]), np.int64(first[s + 1]), w)
        if node >= 0:
            break
        if paying:
            cost += backoffs[s]
            paying = chained
        s = np.int64(links[s])
    if s == 0:
        node = w + 1
    if paying:
        cost += log_probs[node]
    n_inner = len(backoffs)
    live = node < n_inner and (first[node] < first[node + 1] or backoffs[node] != 0.0)
    return cost, node if live else np.int64(links[node]), node


@njit(nogil=True, cache=True)
def score_span(words, log_probs, first, backoffs, links, chained, ids, lo, hi, order, eos, bos_state, out, nodes):
    """Log-probabilities of ids[lo:hi], the same as `advance` gives token by token.

    A token waits on memory several times, so LANES segments are scored side by side and each round makes one
    search in every lane: loads of one kind stand together, do not depend on each other, and overlap.
    A segment reads the order - 1 tokens before it first, so that its context is right.
    """
    n_inner = len(backoffs)
    keep_nodes = len(nodes) > 0
    at = np.empty(LANES, np.int64)  # next token to read
    begin = np.empty(LANES, np.int64)  # first token to report
    end = np.empty(LANES, np.int64)
    state = np.empty(LANES, np.int64)
    left = np.empty(LANES, np.int64)  # children of the state
    right = np.empty(LANES, np.int64)
    found = np.empty(LANES, np.int64)
    cost = np.zeros(LANES, np.float64)
    paying = np.ones(LANES, np.bool_)
    todo = lo
    active = 0
    warm = np.int64(0)  # only keeps the loads that it sums from being optimised away
    last = len(words) - 1
    while True:
        while active < LANES and todo < hi:
            begin[active] = todo
            end[active] = min(todo + SEGMENT, hi)
            at[active] = max(todo - order + 1, 0)
            fresh = at[active] == 0 or ids[at[active] - 1] == eos
            state[active] = bos_state if fresh else 0
            todo = end[active]
            active += 1
        if active == 0:
            return warm
        for j in range(active):
            left[j] = first[state[j]]
            right[j] = first[state[j] + 1]
        for j in range(active):
            warm ^= words[min(left[j], last)]
        for j in range(active):
            w = np.int64(ids[at[j]])
            found[j] = find_child(words, left[j], right[j], w) if state[j] != 0 else w + 1
        for j in range(active):
            if found[j] >= 0:
                if paying[j]:
                    cost[j] += log_probs[found[j]]
                left[j] = links[found[j]]
                node = found[j] if found[j] < n_inner else np.int64(0)
                right[j] = first[node + 1] - first[node] if node else 0
            else:
                if paying[j]:
                    cost[j] += backoffs[state[j]]
                    paying[j] = chained
                state[j] = links[state[j]]
        for j in range(active - 1, -1, -1):
            if found[j] < 0:
                continue
            i = at[j]
            if i >= begin[j]:
                out[i] = cost[j]
                if keep_nodes:
                    nodes[i] = found[j]
            cost[j] = 0.0
            paying[j] = True
            if ids[i] == eos:
                state[j] = bos_state
            elif right[j] > 0 or (found[j] < n_inner and backoffs[found[j]] != 0.0):
                state[j] = found[j]
            else:
                state[j] = left[j]
            at[j] = i + 1
            if i + 1 == end[j]:
                active -= 1
                at[j] = at[active]
                begin[j] = begin[active]
                end[j] = end[active]
                state[j] = state[active]
                cost[j] = cost[active]
                paying[j] = paying[active]
                cost[active] = 0.0
                paying[active] = True


@njit(nogil=True, cache=True)
def step_states(words, log_probs, first, backoffs, links, chained, states, ids, out):
    for i in range(len(states)):
        _, out[i], _ = advance(words, log_probs, first, backoffs, links, chained, states[i], ids[i])


@njit(nogil=True, cache=True)
def distributions(words, log_probs, first, backoffs, links, chained, vocab_size, states, out):
    """out[i]: log-probabilities of every next token after states[i], (n, V) float32."""
    chain = np.empty(64, np.int64)  # the state, its suffix, ... down to one word
    cost = np.empty(65, np.float64)  # what was paid in back-off before reaching chain[d]
    for i in range(len(states)):
        depth = 0
        cost[0] = 0.0
        s = states[i]
        while s != 0 and (chained or depth == 0):
            chain[depth] = s
            cost[depth + 1] = cost[depth] + backoffs[s]
            depth += 1
            s = np.int64(links[s])
        row = out[i]
        if s == 0:
            for w in range(vocab_size):
                row[w] = cost[depth] + log_probs[w + 1]
        if s != 0 or (not chained and depth > 0):
            row[:] = cost[depth]
        for d in range(depth - 1, -1, -1):  # longer contexts overwrite shorter ones
            for t in range(first[chain[d]], first[chain[d] + 1]):
                if words[t] < vocab_size:
                    row[words[t]] = cost[d] + log_probs[t]


@njit(nogil=True, cache=True)
def check_tables(first, links, total):
    """Children come after their parent and links lead back, so every walk ends inside the tables."""
    n_inner = len(first) - 1
    for s in range(n_inner):
        if first[s] > first[s + 1] or first[s] <= s or first[s + 1] > total:
            return False
    for t in range(1, len(links)):
        if links[t] >= t or links[t] >= n_inner:
            return False
    return True
