"""Attention (Vaswani et al. 2017) of queries to keys and values in pages, and additive attention
(Bahdanau et al. 2015), for training and for inference.

A page holds keys and values of 64 tokens: for each layer the keys (K, 64), transposed so that 16 scores
are computed at a time without adding across lanes, then the values (64, K). A sequence is a list of
addresses of pages (`runtime.attention`), so sequences may grow, share a prefix, join and leave without a
copy. One loop serves a new token, a prompt, the tokens of an encoder and a decoder that attends to its
sources. A query's sums are made in the order of the keys, so its result does not depend on what is
computed beside it, to the bit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import carray, njit, types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from seqloom.kernels.maths import (
    FUSED,
    ONE,
    TANH,
    ZERO,
    activate,
    add_scaled,
    dot,
    exp_row,
    softmax,
    tanh_sum,
)
from seqloom.kernels.matmul import LANES, add_block, linear
from seqloom.kernels.team import do_parts, share

PAGE = 64  # tokens
QUERIES = 64  # of a sequence that are scored at a time, so that scores of a long one stay small


@intrinsic
def _pointer(context, address):
    """Return a pointer to an address."""

    def code(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), code


@njit(nogil=True, cache=True)
def page_at(address, layer, d_keys):
    """Return keys and values of one layer of the page at this address, flat, followed by space for a
    vector.
    """
    size = 2 * d_keys * PAGE
    return carray(_pointer(address + 4 * layer * size), (size + LANES,), np.float32)


@njit(nogil=True, cache=True)
def store_tokens(x, column, d_keys, layer, pages, starts, counts, lengths):
    """Write the keys and values of tokens, x[:, column:column + 2 d_keys], to their pages.

    Sequence r has counts[r] tokens, x[starts[r]:], the last of its lengths[r]; pages (R, P) has the
    addresses of its pages.
    """
    for r in range(len(starts)):
        for i in range(counts[r]):
            position = lengths[r] - counts[r] + i
            page, slot = page_at(pages[r, position // PAGE], layer, d_keys), position % PAGE
            keys = x[starts[r] + i, column : column + d_keys]
            for j in range(d_keys):
                page[j * PAGE + slot] = keys[j]
            at = d_keys * PAGE + slot * d_keys
            page[at : at + d_keys] = x[starts[r] + i, column + d_keys : column + 2 * d_keys]


@njit(nogil=True, cache=True)
def copy_tokens(source, target, n_layers, d_keys, count):
    """Copy the first `count` tokens of the page at one address to that at another."""
    for layer in range(n_layers):
        old, new = page_at(source, layer, d_keys), page_at(target, layer, d_keys)
        for j in range(d_keys):
            new[j * PAGE : j * PAGE + count] = old[j * PAGE : j * PAGE + count]
        at = d_keys * PAGE
        new[at : at + count * d_keys] = old[at : at + count * d_keys]


@njit(nogil=True, cache=True, fastmath=FUSED, error_model="numpy")
def _add_distances(scores, position, by_distance):
    """Add by_distance (2 F - 1,): its middle is for distance 0, its ends also for larger distances."""
    far = len(by_distance) // 2
    for t in range(len(scores)):
        scores[t] += by_distance[min(max(t - position, -far), far) + far]


@njit(nogil=True, cache=True, fastmath=FUSED, error_model="numpy")
def _add_relative(query, relative, scores, position):
    """Add the products of a query and the vector of each distance, relative (R, d) (Shaw et al. 2018)."""
    products = np.empty(min(len(relative), position + 1), np.float32)
    for distance in range(len(products)):
        products[distance] = dot(query, relative[distance])
    for t in range(position + 1):
        scores[t] += products[min(position - t, len(products) - 1)]


@njit(nogil=True, cache=True)
def attend(
    x,
    n_heads,
    d_head,
    scale,
    d_keys,
    layer,
    pages,
    starts,
    counts,
    lengths,
    causal,
    window,
    by_distance,
    relative,
    low,
    high,
    out,
    weights,
):
    """Write the contexts of the queries x (N, heads d_head ...) to out (N, heads d_head), for the heads
    from `low` to `high`.

    Sequence r has the queries x[starts[r]:][:counts[r]] and the lengths[r] tokens of pages[r]. With `causal`
    its queries are the last of its tokens, and attend to themselves and at most `window` tokens before;
    otherwise all attend to all. Where n_heads d_head is more than d_keys, neighbouring heads share keys and
    values. by_distance (heads, 2 F - 1) or (heads, 0) is added to the scores, and so are the products of
    the queries with relative (R, d_head) or (0, d_head). The attention weights are written to `weights`
    (N, heads, S), if it is not empty.
    """
    group = n_heads * d_head // d_keys
    room = 1
    for r in range(len(starts)):
        room = max(room, lengths[r])
    room = -(-room // PAGE) * PAGE + LANES
    wide = -(-d_head // LANES) * LANES
    queries, mixed = (
        np.empty((QUERIES, d_head), np.float32),
        np.empty((QUERIES, wide + LANES), np.float32),
    )
    scores, shares = np.empty((QUERIES, room), np.float32), np.empty(QUERIES, np.float32)
    for r in range(len(starts)):
        length, before = lengths[r], lengths[r] - counts[r]
        for head in range(low, high):
            column, offset = head * d_head, head // group * d_head
            for first in range(0, counts[r], QUERIES):
                rows = min(QUERIES, counts[r] - first)
                for i in range(rows):
                    for j in range(d_head):
                        queries[i, j] = x[starts[r] + first + i, column + j] * scale
                end = before + first + rows if causal else length  # after the last visible token
                begin = max(before + first - window, 0) // PAGE if causal else 0  # the first page
                for i in range(rows):
                    scores[i, begin * PAGE : end] = ZERO
                for p in range(begin, -(-end // PAGE)):
                    page = page_at(pages[r, p], layer, d_keys)
                    add_block(
                        queries,
                        rows,
                        0,
                        page,
                        offset * PAGE,
                        PAGE,
                        d_head,
                        scores,
                        p * PAGE,
                        min(end - p * PAGE, PAGE),
                    )
                for i in range(rows):
                    position = before + first + i
                    visible = position + 1 if causal else length
                    start = max(position - window, 0) if causal else 0
                    row = scores[i, :visible]
                    if by_distance.shape[1] > 0:
                        _add_distances(row, position, by_distance[head])
                    if len(relative) > 0:
                        _add_relative(queries[i], relative, row, position)
                    shares[i] = exp_row(row[start:]) if visible > start else ZERO
                    scores[i, begin * PAGE : start] = ZERO
                    scores[i, visible:end] = ZERO
                    mixed[i, :wide] = ZERO
                for p in range(begin, -(-end // PAGE)):
                    page = page_at(pages[r, p], layer, d_keys)
                    add_block(
                        scores,
                        rows,
                        p * PAGE,
                        page,
                        d_keys * PAGE + offset,
                        d_keys,
                        min(end - p * PAGE, PAGE),
                        mixed,
                        0,
                        d_head,
                    )
                for i in range(rows):
                    for j in range(d_head):
                        out[starts[r] + first + i, column + j] = mixed[i, j] * shares[i]
                    if len(weights) > 0:
                        written = weights[starts[r] + first + i, head]
                        written[:] = ZERO
                        for t in range(begin * PAGE, end):
                            written[t] = scores[i, t] * shares[i]


class HeadsJob(NamedTuple):
    """Attention that threads share, head by head."""

    x: np.ndarray
    heads: Any  # `transformer.Heads`
    layer: int
    tokens: Any  # `transformer.Tokens`
    causal: bool
    by_distance: np.ndarray
    relative: np.ndarray
    out: np.ndarray
    weights: np.ndarray


@overload(do_parts)
def _do_heads(job, low, high):
    def run(job, low, high):
        heads, tokens = job.heads, job.tokens
        attend(
            job.x,
            heads.n_heads,
            heads.d_head,
            heads.scale,
            heads.d_keys,
            job.layer,
            tokens.pages,
            tokens.starts,
            tokens.counts,
            tokens.lengths,
            job.causal,
            heads.window,
            job.by_distance,
            job.relative,
            low,
            high,
            job.out,
            job.weights,
        )

    return run if job.instance_class is HeadsJob else None


@njit(nogil=True, cache=True)
def attend_heads(team, x, heads, layer, tokens, causal, by_distance, relative, weights):
    """Return the contexts of the queries at the beginning of each row of x, (N, heads d_head); `weights`
    as in `attend`.
    """
    out = np.empty((len(x), heads.n_heads * heads.d_head), np.float32)
    pairs = 0  # of a query and a key
    for r in range(len(tokens.counts)):
        pairs += tokens.counts[r] * tokens.lengths[r]
    job = HeadsJob(x, heads, layer, tokens, causal, by_distance, relative, out, weights)
    share(team, job, heads.n_heads, pairs * heads.n_heads * heads.d_head)
    return out


# ---- additive attention (`nn.memory`): energy . tanh(query + key) of all pairs, without an array of all tanh


@njit(nogil=True, cache=True, fastmath=FUSED, error_model="numpy")
def additive_score(query, key, energy, inner):
    """Return energy . tanh(query + key), and leave the tanh in `inner`."""
    tanh_sum(query, key, inner)
    return dot(energy, inner)


@njit(nogil=True, cache=True)
def additive_scores(queries, keys, energy, scores):
    """Write the scores (B, T, S) of queries (B, T, D) and keys (B, S, D)."""
    inner = np.empty_like(energy)
    for b in range(len(queries)):
        for t in range(queries.shape[1]):
            for s in range(keys.shape[1]):
                scores[b, t, s] = additive_score(queries[b, t], keys[b, s], energy, inner)


@njit(nogil=True, cache=True, fastmath=FUSED)
def additive_scores_back(queries, keys, energy, above, d_queries, d_keys, d_energy):
    """Add the gradients of queries, keys and energy to d_queries, d_keys and d_energy; `above` (B, T, S)
    is that of the scores. Zeros, as at padding, cost nothing.
    """
    inner, one = np.empty_like(energy), energy.dtype.type(1)
    for b in range(len(queries)):
        for t in range(queries.shape[1]):
            to_query = d_queries[b, t]
            for s in range(keys.shape[1]):
                up = above[b, t, s]
                if up == 0:
                    continue
                tanh_sum(queries[b, t], keys[b, s], inner)
                for j in range(len(energy)):
                    d_energy[j] += up * inner[j]
                for j in range(len(energy)):
                    inner[j] = up * energy[j] * (one - inner[j] * inner[j])
                for j in range(len(energy)):
                    to_query[j] += inner[j]
                to_key = d_keys[b, s]
                for j in range(len(energy)):
                    to_key[j] += inner[j]


@njit(nogil=True, cache=True)
def attend_memory(
    queries, vectors, keys, offsets, source, energy, scale, covered, coverage, out, weights
):
    """Add the contexts of the queries (n, Q), means of the vectors (N, D) of their sources weighted by
    the keys (N, Q), to out (n, D), as `nn.memory` does.

    Source s has the steps offsets[s] to offsets[s + 1]; the attention weights are written to weights
    (n, S), which must be zeros. With an `energy` (Q,) scores are additive, else products times `scale`.
    With `covered` (Q,) a key is shifted by `covered` times its step's earlier weights, coverage (n, S),
    which is updated.
    """
    shifted, inner = np.empty(queries.shape[1], np.float32), np.empty(queries.shape[1], np.float32)
    for row in range(len(queries)):
        low = offsets[source[row]]
        steps = offsets[source[row] + 1] - low
        if steps == 0:
            continue
        query, row_weights = queries[row], weights[row, :steps]
        for t in range(steps):
            key = keys[low + t]
            if len(covered) > 0:
                shifted[:] = key
                add_scaled(shifted, coverage[row, t], covered)
                key = shifted
            if len(energy) > 0:
                row_weights[t] = additive_score(query, key, energy, inner)
            else:
                row_weights[t] = scale * dot(query, key)
        softmax(row_weights)
        for t in range(steps):
            add_scaled(out[row], row_weights[t], vectors[low + t])
        if len(covered) > 0:
            add_scaled(coverage[row, :steps], ONE, row_weights)


@njit(nogil=True, cache=True)
def read_memory(
    hidden,
    readout,
    query,
    vectors,
    keys,
    offsets,
    source,
    energy,
    scale,
    covered,
    coverage,
    weights,
):
    """Return tanh of the readout of hidden states (n, H) and of their contexts in the sources: (n, D).

    Queries are `query` times the hidden states where scores are additive, else the states themselves; the
    other arguments as in `attend_memory`.
    """
    out = linear(readout, hidden)
    queries = linear(query, hidden) if len(energy) > 0 else hidden
    attend_memory(
        queries, vectors, keys, offsets, source, energy, scale, covered, coverage, out, weights
    )
    return activate(out, TANH)
