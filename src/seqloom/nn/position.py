"""Positions of tokens: five ways to encode them for a Transformer, which by itself sees a set.

Added to the embeddings: a learned table (GPT-2) or sinusoids (Vaswani et al. 2017, section 3.5).
Inside the attention: rotary (RoPE, Su et al. 2021), which turns queries and keys so that their
product depends on the distance alone; linear biases (ALiBi, Press et al. 2022), which make a score
fall with the distance, more steeply in some heads; and a learned vector for each distance, added to
the key (Shaw et al. 2018), far distances sharing one. Only the learned table has an end; the others
are functions of the position and are defined beyond the length of training, but not always accurate
there: rotary positions are then better divided by a factor, which brings them back into the trained
range (position interpolation, Chen et al. 2023).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def sinusoids(positions: Tensor, d_model: int, base: float = 10000.0) -> Tensor:
    """Compute sin in the even columns and cos in the odd ones, with wavelengths from 2 pi to
    2 pi base; (..., T) to (..., T, D).

    >>> [round(x, 4) for x in sinusoids(torch.tensor([1]), 4)[0].tolist()]
    [0.8415, 0.5403, 0.01, 0.9999]
    """
    if d_model % 2:
        raise ValueError(f"sinusoidal positions need an even width, not {d_model}")
    angles = positions[..., None] * _frequencies(d_model, base, positions.device)  # (..., T, D / 2)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(-2)


def rotary_angles(
    positions: Tensor, d_head: int, base: float = 10000.0, scale: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Compute cos and sin of the angle by which each pair of a head is rotated; (..., T) to twice
    (..., T, d_head / 2).

    Positions are divided by `scale`.
    """
    if d_head % 2:
        raise ValueError(f"rotary positions turn pairs and need an even head width, not {d_head}")
    angles = positions[..., None] * _frequencies(d_head, base, positions.device) / scale
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Return rotated queries or keys (B, heads, T, d_head). Pair i is (i, i + d_head / 2), as in
    GPT-NeoX and Llama.

    The paper pairs neighbours; that is the same up to the order of the rows of the projections, and slower.
    """
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def alibi_slopes(n_heads: int) -> Tensor:
    """Return slopes (heads,) 2^(-8/n), 2^(-16/n), ...; between powers of two, every other slope of
    the next one is added, as in the paper.

    >>> alibi_slopes(4).tolist()
    [0.25, 0.0625, 0.015625, 0.00390625]
    """
    power = 2 ** int(math.log2(n_heads))
    slopes = [2.0 ** (-8 * (i + 1) / power) for i in range(power)]
    slopes += [2.0 ** (-4 * (2 * i + 1) / power) for i in range(n_heads - power)]
    return torch.tensor(slopes)


def alibi_bias(slopes: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
    """Compute -slope x distance, to be added to a causal mask; queries (B, T) and keys (S,) hold
    positions; (B, heads, T, S).
    """
    return (queries[:, None, :, None].to(slopes.dtype) - keys) * -slopes[:, None, None]


def relative_scores(q: Tensor, table: Tensor, rows: Tensor) -> Tensor:
    """Compute q_i . a_ij of queries (B, heads, T, d_head), where a_ij is row rows[i, j] of the
    table (R, d_head).

    `rows` is (B or 1, T, S); the result, (B, heads, T, S), is to be added to q_i . k_j. As Shaw et
    al. remark, q is multiplied with the table once; a_ij for every i and j would take d_head times
    the memory.
    """
    by_row = q @ table.T  # (B, heads, T, R)
    return by_row.gather(3, rows[:, None].expand(q.shape[0], q.shape[1], -1, -1))


def relative_rows(distance: Tensor, distances: range) -> Tensor:
    """Return the table row for each distance, query minus key; `distances` have a row each, others take
    the nearest one.

    >>> relative_rows(torch.tensor([0, 1, 2, 3, -5]), range(-2, 3)).tolist()
    [2, 3, 4, 4, 0]
    """
    return distance.clamp(distances[0], distances[-1]) - distances[0]


def distance_buckets(distance: Tensor, buckets: int, max_distance: int, *, causal: bool) -> Tensor:
    """Return the bucket of each distance, key minus query (T5, Raffel et al. 2020): half of the
    buckets have one distance each, the others ranges that grow by one factor up to
    `max_distance`, beyond which all are in the last one.

    `causal`: keys never come after their query. Otherwise those that do have buckets of their own.
    In float32 as in the first implementation, whose rounding decides where a range ends.

    >>> distance_buckets(-torch.tensor([0, 1, 3, 4, 5, 6, 9, 10, 15, 16, 99]), 8, 16, causal=True).tolist()
    [0, 1, 3, 4, 4, 5, 6, 6, 7, 7, 7]
    """
    later = 0 if causal else (distance > 0) * (buckets // 2)
    buckets = buckets if causal else buckets // 2
    far, exact = (-distance).clamp(min=0) if causal else distance.abs(), buckets // 2
    ratio = (far.float().clamp(min=exact) / exact).log() / math.log(max_distance / exact)
    growing = (exact + (ratio * (buckets - exact)).long()).clamp(max=buckets - 1)
    return torch.where(far < exact, far, growing) + later


def _frequencies(width: int, base: float, device: torch.device) -> Tensor:
    return base ** (torch.arange(0, width, 2, device=device) / -width)  # (width / 2,)
