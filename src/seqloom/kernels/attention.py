"""Attention (Vaswani et al. 2017; Bahdanau et al. 2015):
of queries to the keys and values of tokens, wherever these lie.

Keys and values of tokens lie in pages of 64 tokens. A page has, for each layer, the keys (K, 64), turned so
that 16 scores are made at a time without adding across lanes, then the values (64, K). A sequence is a list
of addresses of pages, so sequences may grow, share what they have in common, join and leave without a copy;
`runtime.attention` has the pages. One loop serves a new token, a prompt, the tokens of an encoder and a
decoder that looks at its sources. A query's sums are made in the order of the keys, whatever is computed
beside it, so its result does not depend on that, to the bit.

Additive attention stands here too, for training and for inference.
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
QUERIES = (
    64  # of a sequence whose scores are there at a time, so that they stay small for a long one
)


@intrinsic
def _pointer(context, address):
    """Return the memory at an address."""

    def code(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), code


@njit(nogil=True, cache=True)
def page_at(address, layer, d_keys):
    """Return keys and values of one layer of the page at this address, flat,
    with a vector of room behind them.
    """
    size = 2 * d_keys * PAGE
    return carray(_pointer(address + 4 * layer * size), (size + LANES,), np.float32)


@njit(nogil=True, cache=True)
def store_tokens(x, column, d_keys, layer, pages, starts, counts, lengths):
    """Write the keys and values of tokens, x[:, column:column + 2 d_keys], to their pages.

    Sequence r has counts[r] tokens, x[starts[r]:], the last of lengths[r];
    pages (R, P) has the addresses of its pages.
    """
    for r in range(len(starts)):
        for i in range(counts[r]):
            place = lengths[r] - counts[r] + i
            page, slot = page_at(pages[r, place // PAGE], layer, d_keys), place % PAGE
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
def _add_distances(scores, place, by_distance):
    """Add by_distance (2 F - 1,), of which the middle is for distance 0 and
    the ends for all that is further away.
    """
    far = len(by_distance) // 2
    for t in range(len(scores)):
        scores[t] += by_distance[min(max(t - place, -far), far) + far]


@njit(nogil=True, cache=True, fastmath=FUSED, error_model="numpy")
def _add_relative(query, relative, scores, place):
    """Add what a query has in common with the vector of each distance, relative (R, d) (Shaw et al. 2018)."""
    common = np.empty(min(len(relative), place + 1), np.float32)
    for distance in range(len(common)):
        common[distance] = dot(query, relative[distance])
    for t in range(place + 1):
        scores[t] += common[min(place - t, len(common) - 1)]


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
    """Write what the queries x (N, heads d_head ...) see to out (N, heads d_head),
    for the heads from `low` to `high`.

    Sequence r has the queries x[starts[r]:][:counts[r]] and the lengths[r] tokens of pages[r]. With `causal`
    its queries are the last of its tokens, and see themselves and at most `window` before; otherwise all see
    all. Where n_heads d_head is more than d_keys, neighbouring heads share keys and values. by_distance
    (heads, 2 F - 1) or (heads, 0) is added to the scores, relative (R, d_head) or (0, d_head) multiplied with
    queries first. With weights (N, heads, S) the shares are written there.
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
                end = before + first + rows if causal else length  # tokens that some query sees
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
                    place = before + first + i
                    seen = place + 1 if causal else length
                    start = max(place - window, 0) if causal else 0
                    row = scores[i, :seen]
                    if by_distance.shape[1] > 0:
                        _add_distances(row, place, by_distance[head])
                    if len(relative) > 0:
                        _add_relative(queries[i], relative, row, place)
                    shares[i] = exp_row(row[start:]) if seen > start else ZERO
                    scores[i, begin * PAGE : start] = ZERO
                    scores[i, seen:end] = ZERO
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
                        shown = weights[starts[r] + first + i, head]
                        shown[:] = ZERO
                        for t in range(begin * PAGE, end):
                            shown[t] = scores[i, t] * shares[i]


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
    """Return what the queries at the beginning of each row of x see, (N, heads d_head);
    `weights` as of `attend`.
    """
    out = np.empty((len(x), heads.n_heads * heads.d_head), np.float32)
    pairs = 0  # of a query and a key
    for r in range(len(tokens.counts)):
        pairs += tokens.counts[r] * tokens.lengths[r]
    job = HeadsJob(x, heads, layer, tokens, causal, by_distance, relative, out, weights)
    share(team, job, heads.n_heads, pairs * heads.n_heads * heads.d_head)
    return out


# ---- additive attention (`nn.memory`): energy . tanh(query + key) of all pairs, which are never in memory
# together


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
    """Add the gradients of the three to theirs; `above` (B, T, S) is that of the scores.
    What is zero, as at padding, is free.
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
    """Add what the queries (n, Q) see of the vectors (N, D) of their sources to out (n, D),
    by the keys (N, Q), as `nn.memory`.

    Source s has the steps offsets[s] to offsets[s + 1]; the shares are written to weights (n, S), which has
    zeros. With an `energy` (Q,) scores are additive, else products times `scale`. With `covered` (Q,) a key
    is shifted by what its step was given before, coverage (n, S), to which the shares are added.
    """
    shifted, inner = np.empty(queries.shape[1], np.float32), np.empty(queries.shape[1], np.float32)
    for row in range(len(queries)):
        low = offsets[source[row]]
        steps = offsets[source[row] + 1] - low
        if steps == 0:
            continue
        query, shares = queries[row], weights[row, :steps]
        for t in range(steps):
            key = keys[low + t]
            if len(covered) > 0:
                shifted[:] = key
                add_scaled(shifted, coverage[row, t], covered)
                key = shifted
            if len(energy) > 0:
                shares[t] = additive_score(query, key, energy, inner)
            else:
                shares[t] = scale * dot(query, key)
        softmax(shares)
        for t in range(steps):
            add_scaled(out[row], shares[t], vectors[low + t])
        if len(covered) > 0:
            add_scaled(coverage[row, :steps], ONE, shares)


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
    """Return tanh of the readout of hidden states (n, H) and of what they see of their sources: (n, D).

    Queries are `query` times the hidden states where scores are additive, else the states themselves;
    the others as of `attend_memory`.
    """
    out = linear(readout, hidden)
    queries = linear(query, hidden) if len(energy) > 0 else hidden
    attend_memory(
        queries, vectors, keys, offsets, source, energy, scale, covered, coverage, out, weights
    )
    return activate(out, TANH)
