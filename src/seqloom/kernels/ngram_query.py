"""Score tokens with a back-off trie in level order.

Node 0 is the empty context; nodes 1..V+1 are the words (word w is node w + 1); then the bigrams, and so on,
each level sorted, so the children of node s are the nodes first[s]..first[s + 1], ascending by word.
A state is a node: the longest suffix of what was read that the model knows and that something follows.
On a miss the state moves along `links` and pays the back-off weight, as in an Aho-Corasick automaton, so
a token costs one search and one more for each back-off, never a walk up from the unigram.
"""

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def find_child(words, lo, hi, w):
    """The place of w in words[lo:hi] (ascending), or -1."""
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
    if node < n_inner and (first[node] < first[node + 1] or backoffs[node] != 0.0):
        state = node
    else:
        state = np.int64(links[node])
    return cost, state, node


@njit(nogil=True, cache=True)
def score_chunk(words, log_probs, first, backoffs, links, chained, ids, lo, hi, begin, eos, bos_state, start, out, nodes):
    """Log-probabilities of ids[lo:hi]; `begin` <= lo is where reading starts so that the context is right."""
    state = np.int64(start)
    keep_nodes = len(nodes) > 0
    for i in range(begin, hi):
        w = np.int64(ids[i])
        cost, state, node = advance(words, log_probs, first, backoffs, links, chained, state, w)
        if i >= lo:
            out[i] = cost
            if keep_nodes:
                nodes[i] = node
        if w == eos:
            state = np.int64(bos_state)


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
