"""Count all n-grams of orders 1..n of a token sequence by sorting, level by level.

The sequence holds whole units, each `<s> w1 .. wm </s>`. Level k lists the distinct k-grams in
lexicographic order. Given the positions sorted by the k-gram that starts there, one stable counting sort
by the word *before* each position sorts them by (k+1)-gram, and the level-k group of a position is then
the suffix of its (k+1)-gram. So a level costs one random gather and one scatter per token, whatever the
vocabulary; suffix links (which Kneser-Ney needs) come for free, and so does the last word of an n-gram,
because it is the last word of its suffix. n-grams across a unit's end are excluded where the word before
is `</s>`. Slow twin: `tests/twins/ngrams.py`.

`window_counts` counts inside a sliding window, for the cache model.
"""

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def word_before(seq, positions, lo, hi, eos, out, histogram):
    """Set out[i] = word before positions[i], or -1 if no n-gram continues to the left; count them
    by word.
    """
    for i in range(lo, hi):
        p = np.int64(positions[i])
        w = np.int64(-1)
        if p > 0:
            w = np.int64(seq[p - 1])
            if w == eos:
                w = np.int64(-1)
        out[i] = w
        if w >= 0:
            histogram[w] += 1


@njit(nogil=True, cache=True)
def word_here(seq, lo, hi, out, positions, histogram):
    """Set up the first level: positions[i] = i + 1, so that the word before it is seq[i]; `</s>`
    counts.
    """
    for i in range(lo, hi):
        w = np.int64(seq[i])
        out[i] = w
        positions[i] = i + 1
        histogram[w] += 1


@njit(nogil=True, cache=True)
def scatter(before, positions, groups, lo, hi, starts, out_positions, out_suffixes):
    """Sort by the word before, with a stable counting sort; `starts` is this chunk's write position for
    each word.
    """
    for i in range(lo, hi):
        w = before[i]
        if w >= 0:
            d = starts[w]
            starts[w] = d + 1
            out_positions[d] = positions[i] - 1
            out_suffixes[d] = groups[i]


@njit(nogil=True, cache=True)
def next_group(suffixes, bucket_starts, i):
    """Return the first index from i on where a new n-gram begins, so that chunks never share an
    n-gram.
    """
    n = len(suffixes)
    if i <= 0 or i >= n:
        return min(max(i, 0), n)
    w = np.searchsorted(bucket_starts, i, side="right")
    if bucket_starts[w - 1] == i:
        return i
    end = bucket_starts[w]
    while i < end and suffixes[i] == suffixes[i - 1]:
        i += 1
    return i


@njit(nogil=True, cache=True)
def count_groups(suffixes, bucket_starts, lo, hi):
    """Count the distinct n-grams in [lo, hi) of the sorted order; a new one begins at lo."""
    n = 0
    w = np.searchsorted(bucket_starts, lo, side="right")
    end = bucket_starts[w] if w < len(bucket_starts) else hi
    for i in range(lo, hi):
        if i == end:
            while bucket_starts[w] <= i:
                w += 1
            end = bucket_starts[w] if w < len(bucket_starts) else hi
            n += 1
        elif i == lo or suffixes[i] != suffixes[i - 1]:
            n += 1
    return n


@njit(nogil=True, cache=True)
def fill_groups(
    suffixes, positions, limit, bucket_starts, lo, hi, node, groups, node_suffix, node_count
):
    """Number the distinct n-grams from `node` on and count their occurrences that start before `limit`."""
    w = np.searchsorted(bucket_starts, lo, side="right")
    end = bucket_starts[w] if w < len(bucket_starts) else hi
    node -= 1
    for i in range(lo, hi):
        new = i == lo
        if i == end:
            while bucket_starts[w] <= i:
                w += 1
            end = bucket_starts[w] if w < len(bucket_starts) else hi
            new = True
        if new or suffixes[i] != suffixes[i - 1]:
            node += 1
            node_suffix[node] = suffixes[i]
            node_count[node] = 0
        groups[i] = node
        if positions[i] < limit:
            node_count[node] += 1


@njit(nogil=True, cache=True)
def bucket_nodes(bucket_starts, groups, n_nodes, out):
    """Set out[w] to the first n-gram of those that begin with word w."""
    n = len(groups)
    for w in range(len(bucket_starts)):
        out[w] = groups[bucket_starts[w]] if bucket_starts[w] < n else n_nodes


@njit(nogil=True, cache=True)
def insert_bos(ids, eos, bos, at_start, out):
    """Insert `<s>` before each unit; return the new length. `at_start`: whether ids[0] begins a unit."""
    n = 0
    for i in range(len(ids)):
        if at_start:
            out[n] = bos
            n += 1
        out[n] = ids[i]
        n += 1
        at_start = ids[i] == eos
    return n


@njit(nogil=True, cache=True)
def link_parents(
    w_lo, w_hi, upper_bucket, upper_suffix, upper_parent, upper_words, bucket, suffix, parent, words
):
    """Set parent[t] to the n-gram without its last word, and words[t] to the last word. Both follow
    from the suffix.

    Within one first word both levels are sorted by suffix, so one sweep finds the parents.
    """
    for w in range(w_lo, w_hi):
        q = np.int64(upper_bucket[w])
        for t in range(bucket[w], bucket[w + 1]):
            s = suffix[t]
            target = upper_parent[s]
            while upper_suffix[q] != target:
                q += 1
            parent[t] = q
            words[t] = upper_words[s]


@njit(nogil=True, cache=True)
def child_offsets(parents, n_parents, out):
    """Set out[q] .. out[q + 1] to the range of the children of q. `parents` ascends."""
    t = 0
    n = len(parents)
    for q in range(n_parents):
        out[q] = t
        while t < n and parents[t] == q:
            t += 1
    out[n_parents] = n


@njit(nogil=True, cache=True)
def merge_runs(keys, counts, suffixes, begins, out_keys, out_counts, out_suffixes, out_index):
    """Merge sorted runs (keys[begins[r]:begins[r + 1]]) into one; counts of equal keys are added.

    out_index[i] is the index of input entry i in the output. Runs are few, so a scan finds the smallest head.
    """
    n_runs = len(begins) - 1
    heads = begins[:-1].copy()
    n = -1
    last = np.int64(-1)
    while True:
        best = np.int64(-1)
        smallest = np.int64(0)
        for r in range(n_runs):
            if heads[r] < begins[r + 1]:
                key = keys[heads[r]]
                if best < 0 or key < smallest:
                    best = r
                    smallest = key
        if best < 0:
            break
        i = heads[best]
        heads[best] = i + 1
        if n < 0 or smallest != last:
            n += 1
            last = smallest
            out_keys[n] = smallest
            out_counts[n] = 0
            out_suffixes[n] = suffixes[i]
        out_counts[n] += counts[i]
        out_index[i] = n
    return n + 1


# ---- cache


@njit(nogil=True, cache=True)
def window_counts(ids, lengths, window, vocab_size, out):
    """Compute out[i]: the share of the last `window` tokens of the unit that equal ids[i]; -1 if
    nothing was read yet.
    """
    counts = np.zeros(vocab_size, np.int64)
    start = 0
    for u in range(len(lengths)):
        end = start + lengths[u]
        for i in range(start, end):
            oldest = max(start, i - window)
            out[i] = counts[ids[i]] / (i - oldest) if i > oldest else -1.0
            counts[ids[i]] += 1
            if i - oldest == window:
                counts[ids[oldest]] -= 1
        for i in range(max(start, end - window - 1), end):
            counts[ids[i]] = 0
        start = end
