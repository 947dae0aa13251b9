"""Score tokens with a back-off trie in level order.

Node 0 is the empty context; nodes 1..V+1 are the words (word w is node w + 1); then the bigrams,
and so on, each level sorted. The numbers of a node that scoring reads are adjacent, because on large
models every cache line counts:

    words[t]                                                last word of n-gram t
    contexts[s] = first, back-off, link, log-probability   of a node that can have children (n + 1, 4) uint32
    leaves[t - n] = log-probability, link                   of an n-gram of the highest order, (m, 2) uint32

Floats are bit patterns; `context_values` and `leaf_values` are float32 views of the same memory. The
children of s are the nodes contexts[s, 0] to contexts[s + 1, 0], ascending by word. A state is a node: the
longest suffix of the text so far that is in the model and has continuations. On a miss the state follows
its link and adds the back-off weight, as in an Aho-Corasick automaton, so a token costs one search and one
more for each back-off, never a walk up from the unigram.

Searching a context with many children reads several cache lines, and these contexts are the most frequent.
For long texts their children are therefore in a hash table, `index` (one line per search): word << 32 |
node, found from context and word. It is derived from the tables and not saved; without it (length 0) the
results are the same.
"""

import numpy as np
from numba import njit

from seqloom.kernels.intrinsics import prefetch

LANES = 16  # segments that one thread scores side by side
SEGMENT, SHORTEST = 512, 8  # tokens
FIRST, BACKOFF, LINK, LOG_PROB = 0, 1, 2, 3  # columns of contexts
LEAF_LOG_PROB, LEAF_LINK = 0, 1  # columns of leaves
WIDE = 16  # children above which a context is in the index
_EMPTY = np.uint64(0xFFFFFFFFFFFFFFFF)  # a slot of the index
_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
DEEPEST = 64  # length of a chain of links; more than the highest order
MOST_LOG_PROB, MOST_BACKOFF = 1e-3, 1e3  # above zero by rounding; in files of other programs


@njit(nogil=True, cache=True)
def find_child(words, lo, hi, w):
    """Return the index of w in words[lo:hi] (ascending), or -1.

    Gallops from the left: ids are in the order of frequency, so w is mostly near the beginning.
    """
    stride = np.int64(8)
    while lo + stride < hi and words[lo + stride] <= w:
        lo += stride
        stride *= 2
    hi = min(lo + stride, hi)
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
def advance(words, contexts, context_values, leaves, leaf_values, chained, state, w):
    """Advance by one token: return (log-probability, next state, node that matched)."""
    cost = 0.0
    paying = True
    s = state
    node = w + 1
    while s != 0:
        node = find_child(words, np.int64(contexts[s, FIRST]), np.int64(contexts[s + 1, FIRST]), w)
        if node >= 0:
            break
        if paying:
            cost += context_values[s, BACKOFF]
            paying = chained
        s = np.int64(contexts[s, LINK])
        node = w + 1
    leaf = node - (len(contexts) - 1)
    if leaf >= 0:
        log_prob = leaf_values[leaf, LEAF_LOG_PROB]
        state = np.int64(leaves[leaf, LEAF_LINK])
    else:
        log_prob = context_values[node, LOG_PROB]
        live = (
            contexts[node, FIRST] < contexts[node + 1, FIRST]
            or context_values[node, BACKOFF] != 0.0
        )
        state = node if live else np.int64(contexts[node, LINK])
    return cost + log_prob if paying else cost, state, node


@njit(nogil=True, cache=True, inline="always")
def _slot(index, state, w):
    """Return the slot where the search for a child of this state begins."""
    h = (np.uint64(state) * np.uint64(0x9E3779B97F4A7C15)) ^ (
        np.uint64(w) * np.uint64(0xC2B2AE3D27D4EB4F)
    )
    h = ((h ^ (h >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)) >> _SHIFT
    return np.int64((h * np.uint64(len(index))) >> _SHIFT)


@njit(nogil=True, cache=True, inline="always")
def _find_indexed(index, slot, lo, hi, w):
    """Return the node of word w between lo and hi, or -1."""
    while True:
        entry = index[slot]
        if entry == _EMPTY:
            return np.int64(-1)
        node = np.int64(entry & _LOW)
        if np.int64(entry >> _SHIFT) == w and node >= lo and node < hi:
            return node
        slot += 1
        if slot == len(index):
            slot = 0


@njit(nogil=True, cache=True)
def count_indexed(contexts):
    """Count the n-grams whose parent has more than WIDE children."""
    total = 0
    for s in range(1, len(contexts) - 1):
        children = np.int64(contexts[s + 1, FIRST]) - np.int64(contexts[s, FIRST])
        if children > WIDE:
            total += children
    return total


@njit(nogil=True, cache=True)
def fill_index(words, contexts, index):
    """Insert the n-grams of `count_indexed` into an index of empty slots (all bits set)."""
    for s in range(1, len(contexts) - 1):
        lo, hi = np.int64(contexts[s, FIRST]), np.int64(contexts[s + 1, FIRST])
        if hi - lo > WIDE:
            for node in range(lo, hi):
                slot = _slot(index, s, np.int64(words[node]))
                while index[slot] != _EMPTY:
                    slot += 1
                    if slot == len(index):
                        slot = 0
                index[slot] = np.uint64(words[node]) << _SHIFT | np.uint64(node)


@njit(nogil=True, cache=True)
def score_span(
    words,
    contexts,
    context_values,
    leaves,
    leaf_values,
    chained,
    index,
    ids,
    lo,
    hi,
    order,
    eos,
    bos_state,
    out,
    nodes,
):
    """Compute the log-probabilities of ids[lo:hi], as `advance` gives them token by token.

    A token waits for memory several times, so LANES segments are scored side by side and each round makes
    one search in every lane; as soon as the next cache line of a lane is known it is prefetched, while the
    others go on. A segment first reads the order - 1 tokens before it, so that its context is right.
    """
    n_inner = len(contexts) - 1
    keep_nodes = len(nodes) > 0
    at = np.empty(LANES, np.int64)  # next token to read
    begin = np.empty(LANES, np.int64)  # first token to report
    end = np.empty(LANES, np.int64)
    state = np.empty(LANES, np.int64)
    left = np.empty(LANES, np.int64)  # children of the state
    right = np.empty(LANES, np.int64)
    slot = np.empty(LANES, np.int64)  # where to search the index, or -1
    child = np.empty(LANES, np.int64)
    cost = np.zeros(LANES, np.float64)
    paying = np.ones(LANES, np.bool_)
    todo = lo
    active = 0
    last = len(words) - 1
    indexed = len(index) > 0
    segment = min(max((hi - lo) // LANES, SHORTEST), SEGMENT)
    while True:
        while active < LANES and todo < hi:
            begin[active] = todo
            end[active] = min(todo + segment, hi)
            at[active] = max(todo - order + 1, 0)
            fresh = at[active] == 0 or ids[at[active] - 1] == eos
            state[active] = bos_state if fresh else 0
            todo = end[active]
            active += 1
        if active == 0:
            return
        for j in range(active):
            left[j] = contexts[state[j], FIRST]
            right[j] = contexts[state[j] + 1, FIRST]
            if indexed and right[j] - left[j] > WIDE and state[j] != 0:
                slot[j] = _slot(index, state[j], np.int64(ids[at[j]]))
                prefetch(index, slot[j], 0)
            else:
                slot[j] = -1
                prefetch(words, min(left[j], last), 0)
        for j in range(active):
            w = np.int64(ids[at[j]])
            if state[j] == 0:
                node = w + 1
            elif slot[j] >= 0:
                node = _find_indexed(index, slot[j], left[j], right[j], w)
            else:
                node = find_child(words, left[j], right[j], w)
            child[j] = node
            if node >= n_inner:
                prefetch(leaves, node - n_inner, 0)
            else:
                prefetch(contexts, node if node >= 0 else np.int64(contexts[state[j], LINK]), 0)
        for j in range(active - 1, -1, -1):
            node = child[j]
            if node < 0:
                if paying[j]:
                    cost[j] += context_values[state[j], BACKOFF]
                    paying[j] = chained
                state[j] = contexts[state[j], LINK]
                if state[j] != 0:
                    continue
                node = np.int64(ids[at[j]]) + 1
            if node >= n_inner:
                log_prob = leaf_values[node - n_inner, LEAF_LOG_PROB]
                following = np.int64(leaves[node - n_inner, LEAF_LINK])
            else:
                log_prob = context_values[node, LOG_PROB]
                live = (
                    contexts[node, FIRST] < contexts[node + 1, FIRST]
                    or context_values[node, BACKOFF] != 0.0
                )
                following = node if live else np.int64(contexts[node, LINK])
            i = at[j]
            if i >= begin[j]:
                out[i] = cost[j] + log_prob if paying[j] else cost[j]
                if keep_nodes:
                    nodes[i] = node
            cost[j] = 0.0
            paying[j] = True
            state[j] = bos_state if ids[i] == eos else following
            prefetch(contexts, state[j], 0)
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
def step_states(words, contexts, context_values, leaves, leaf_values, chained, states, ids, out):
    for i in range(len(states)):
        _, out[i], _ = advance(
            words, contexts, context_values, leaves, leaf_values, chained, states[i], ids[i]
        )


@njit(nogil=True, cache=True)
def distributions(
    words,
    contexts,
    context_values,
    leaves,
    leaf_values,
    chained,
    vocab_size,
    words_sum,
    states,
    out,
    sums,
):
    """Compute the log-probabilities of every next token after states[i] as out[i], (n, V) float32,
    and their sum as sums[i].

    The sum follows from `words_sum`, that of the unigrams, and from what each longer context changes, so it
    costs next to nothing; it is not 1 if a file is damaged.
    """
    n_inner = len(contexts) - 1
    chain = np.empty(DEEPEST, np.int64)  # the state, its suffix, ... down to one word
    cost = np.empty(DEEPEST + 1, np.float64)  # sum of back-off weights before chain[d]
    for i in range(len(states)):
        depth = 0
        cost[0] = 0.0
        s = states[i]
        while s != 0 and depth < DEEPEST and (chained or depth == 0):
            chain[depth] = s
            cost[depth + 1] = cost[depth] + context_values[s, BACKOFF]
            depth += 1
            s = np.int64(contexts[s, LINK])
        row = out[i]
        if not chained and depth > 0:
            row[:] = cost[depth]
            total = vocab_size * np.exp(cost[depth])
        else:
            total = words_sum * np.exp(cost[depth])
            for w in range(vocab_size):
                unigram = (
                    context_values[w + 1, LOG_PROB]
                    if n_inner > 1
                    else leaf_values[w, LEAF_LOG_PROB]
                )
                row[w] = cost[depth] + unigram
        for d in range(depth - 1, -1, -1):  # longer contexts overwrite shorter ones
            for t in range(contexts[chain[d], FIRST], contexts[chain[d] + 1, FIRST]):
                if words[t] < vocab_size:
                    inner = t < n_inner
                    total -= np.exp(np.float64(row[words[t]]))
                    row[words[t]] = cost[d] + (
                        context_values[t, LOG_PROB]
                        if inner
                        else leaf_values[t - n_inner, LEAF_LOG_PROB]
                    )
                    total += np.exp(np.float64(row[words[t]]))
        sums[i] = total


@njit(nogil=True, cache=True)
def check_tables(words, contexts, context_values, leaves, leaf_values, level_starts):
    """Return whether every walk stays inside the tables and every sum is finite.

    Children are in the next level, with distinct words, and links lead to a lower level, so that no chain of
    links is longer than the order. Probabilities are at most one; a back-off weight may be above one, but is
    bounded.
    """
    n_inner = len(contexts) - 1
    top = len(level_starts) - 2
    for level in range(top):
        begin = level_starts[level + 1]
        end = level_starts[level + 2]
        for s in range(level_starts[level], level_starts[level + 1]):
            low = np.int64(contexts[s, FIRST])
            high = np.int64(contexts[s + 1, FIRST])
            if low < begin or low > high or high > end:
                return False
            if s > 0 and (
                contexts[s, LINK] >= level_starts[level]
                or not context_values[s, LOG_PROB] <= MOST_LOG_PROB
            ):
                return False
            if not context_values[s, BACKOFF] <= MOST_BACKOFF:
                return False
            for t in range(low + 1, high):
                if words[t] <= words[t - 1]:
                    return False
    for t in range(len(leaves)):
        if leaves[t, LEAF_LINK] >= n_inner or not leaf_values[t, LEAF_LOG_PROB] <= MOST_LOG_PROB:
            return False
    return True
