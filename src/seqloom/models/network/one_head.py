"""One head of attention at one position, with every number between what the layer reads and what the head
gives: query, keys, values, products, scores, weights, mix. In float64 NumPy, held against what the network
computed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from seqloom.runtime.position import rotary_tables
from seqloom.runtime.transformer import GPTNet, normed
from seqloom.traces import Trace

WITHIN = 1e-3  # how far the weights may be from those of the network, whose kernels have 32 bits


class HeadNumbers(NamedTuple):
    """A head at the last position of a window of T tokens, whose heads have d numbers."""

    ids: np.ndarray  # (T,) what is read, oldest first
    query: np.ndarray  # (d,)
    keys: np.ndarray  # (T, d)
    values: np.ndarray  # (T, d)
    products: np.ndarray  # (T,) q . k
    added: np.ndarray  # (T,) to the scores, by distance; zeros without such positions
    scores: (
        np.ndarray
    )  # (T,) products times the scale, and what is added; -inf where nothing is seen
    weights: np.ndarray  # (T,) softmax of the scores
    mix: np.ndarray  # (d,) sum of weights times values
    scale: float
    follows: bool  # whether the weights are those that the network computed


def head_numbers(model: Any, before: np.ndarray, layer: int, head: int) -> HeadNumbers:
    """Return the numbers of one head of a language model's Transformer after these tokens."""
    stepper, network = model.stepper(), model.runtime()
    ids = stepper.window(np.asarray(before, np.int64))
    trace = Trace(f"blocks.{layer}.attention.weights", f"blocks.{layer - 1}.out")
    stepper.read(ids[None], trace)
    x = read_by(network, ids, layer, trace)
    attention = network.blocks[layer].attention
    sizes = attention.heads
    d, d_queries = sizes.d_head, sizes.n_heads * sizes.d_head
    both = _turned(network, attention.qkv(x), sizes)
    shared = head // (d_queries // sizes.d_keys)  # neighbouring heads may share keys
    query = both[-1, head * d : (head + 1) * d]
    keys = both[:, d_queries + shared * d :][:, :d]
    values = both[:, d_queries + sizes.d_keys + shared * d :][:, :d]
    distance = len(ids) - 1 - np.arange(len(ids))
    added = _added(network, attention, head, query, distance)
    products, scale = keys @ query, float(sizes.scale)
    scores = np.where(distance <= sizes.window, products * scale + added, -np.inf)
    weights = np.exp(scores - scores.max())
    weights /= weights.sum()
    found = trace[f"blocks.{layer}.attention.weights"][-1, head]
    follows = bool(np.abs(weights - found).max() <= WITHIN)
    return HeadNumbers(
        ids, query, keys, values, products, added, scores, weights, weights @ values, scale, follows
    )


def read_by(network: GPTNet, ids: np.ndarray, layer: int, trace: Trace) -> np.ndarray:
    """Return what the attention of a layer reads, (T, D): the output of the layer below, after the norm
    where it comes first.
    """
    below = f"blocks.{layer - 1}.out"
    x = trace[below] if layer else network.embed(ids, np.arange(len(ids)))
    block = network.blocks[layer]
    return normed(np.array(x, np.float32), block.norm1 if block.pre else None)


def _turned(network: GPTNet, both: np.ndarray, sizes: Any) -> np.ndarray:
    """Return queries, keys and values, the first two turned by rotary positions where there are such."""
    both = both.astype(np.float64)
    if network.positions != "rope":
        return both
    cos, sin = (table[: len(both)] for table in _tables(network))
    for head in range((sizes.n_heads * sizes.d_head + sizes.d_keys) // sizes.d_head):
        part = both[:, head * sizes.d_head : (head + 1) * sizes.d_head]
        first, second = np.split(part.copy(), 2, axis=1)
        part[:] = np.concatenate([first * cos - second * sin, second * cos + first * sin], 1)
    return both


def _tables(network: GPTNet) -> tuple[np.ndarray, np.ndarray]:
    cos, sin = rotary_tables(network.context, network.d_head, *network.rope)
    return cos.astype(np.float64), sin.astype(np.float64)


def _added(
    network: GPTNet, attention: Any, head: int, query: np.ndarray, distance: np.ndarray
) -> np.ndarray:
    """Return what positions add to the scores of keys so many tokens back."""
    if network.by_distance.shape[1]:
        table = network.by_distance[head].astype(np.float64)
        return table[len(table) // 2 - distance]
    if len(attention.relative):
        vectors = attention.relative.astype(np.float64)
        return (vectors @ query)[np.minimum(distance, len(vectors) - 1)] * float(
            attention.heads.scale
        )
    return np.zeros(len(distance))
