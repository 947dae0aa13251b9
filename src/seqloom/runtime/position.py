"""Positions of tokens (`nn.position` without torch): tables by position, and biases of attention
scores by distance.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np


def _angles(positions: np.ndarray, width: int, base: float = 10000.0) -> np.ndarray:
    """Return position times frequency, float64 (N, width / 2)."""
    return np.outer(positions, base ** (np.arange(0, width, 2) / -width))


def sinusoids(positions: np.ndarray, width: int) -> np.ndarray:
    """Return sin in the even columns and cos in the odd ones, (N, D)."""
    angles = _angles(positions, width)
    return (
        np.stack([np.sin(angles), np.cos(angles)], 2).reshape(len(angles), width).astype(np.float32)
    )


@lru_cache(maxsize=32)
def rotary_tables(
    context: int, d_head: int, base: float = 10000.0, scale: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return cos and sin of the angles of rotary positions, each (context, d_head / 2);
    positions are divided by `scale`.
    """
    angles = _angles(np.arange(context) / scale, d_head, base)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def alibi_slopes(n_heads: int) -> np.ndarray:
    """Return ALiBi's slopes (Press et al. 2022); between powers of two, those of the lower power and
    every other one of the next.
    """
    power = 2 ** int(math.log2(n_heads))
    slopes = [2.0 ** (-8 * (i + 1) / power) for i in range(power)]
    slopes += [2.0 ** (-4 * (2 * i + 1) / power) for i in range(n_heads - power)]
    return np.array(slopes, np.float32)


def alibi_biases(n_heads: int, context: int) -> np.ndarray:
    """Return the bias of a key's score by distance, -context < key - query < context: (heads, 2
    context - 1).
    """
    distance = np.abs(np.arange(1 - context, context)).astype(np.float32)
    return -alibi_slopes(n_heads)[:, None] * distance


def bucket_biases(table: np.ndarray, max_distance: int, *, causal: bool) -> np.ndarray:
    """Return `nn.encoder_decoder.DistanceBias` of its table (buckets, heads) by distance, key - query:
    (heads, 2 F - 1).
    """
    buckets = len(table) if causal else len(table) // 2
    back = table[distance_buckets(max_distance, buckets)]  # of a key before its query, by distance
    ahead = back if causal else table[distance_buckets(max_distance, buckets) + buckets]
    return np.ascontiguousarray(np.concatenate([back[:0:-1], back[:1], ahead[1:]]).T, np.float32)


def distance_buckets(max_distance: int, buckets: int) -> np.ndarray:
    """Return `nn.position.distance_buckets` of the distances 0 to `max_distance`, (F,), rounded as there."""
    far, exact = np.arange(max_distance + 1), buckets // 2
    logs = np.log((np.maximum(far, exact) / exact).astype(np.float32), dtype=np.float64).astype(
        np.float32
    )
    growing = exact + (
        logs / np.float32(math.log(max_distance / exact)) * np.float32(buckets - exact)
    ).astype(np.int64)
    return np.where(far < exact, far, np.minimum(growing, buckets - 1))


def positions_in(offsets: np.ndarray) -> np.ndarray:
    """Return the position of each step in its sequence, (N,)."""
    return np.arange(offsets[-1]) - np.repeat(offsets[:-1], np.diff(offsets))
