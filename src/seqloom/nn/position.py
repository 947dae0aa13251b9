"""Where a token stands: four ways to tell a Transformer, which by itself sees a set.

Added to the embeddings: a learned table (GPT-2) or sinusoids (Vaswani et al. 2017, section 3.5). Inside the attention:
rotary (RoPE, Su et al. 2021), which turns queries and keys so that their product depends on the distance alone,
and linear biases (ALiBi, Press et al. 2022), which make a score fall with the distance, more steeply in some heads.
Only the learned table ends; the others are functions of the position and go on past the length of training.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def sinusoids(positions: Tensor, d_model: int, base: float = 10000.0) -> Tensor:
    """sin in the even places and cos in the odd ones, wavelengths from 2 pi to 2 pi base; (..., T) to (..., T, D).

    >>> [round(x, 4) for x in sinusoids(torch.tensor([1]), 4)[0].tolist()]
    [0.8415, 0.5403, 0.01, 0.9999]
    """
    if d_model % 2:
        raise ValueError(f"sinusoidal positions need an even width, not {d_model}")
    angles = positions[..., None] * _frequencies(d_model, base, positions.device)  # (..., T, D / 2)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(-2)


def rotary_angles(positions: Tensor, d_head: int, base: float = 10000.0) -> tuple[Tensor, Tensor]:
    """cos and sin of the angle by which each pair of a head is turned; (..., T) to twice (..., T, d_head / 2)."""
    if d_head % 2:
        raise ValueError(f"rotary positions turn pairs and need an even head width, not {d_head}")
    angles = positions[..., None] * _frequencies(d_head, base, positions.device)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Queries or keys (B, heads, T, d_head), turned. Pair i is (i, i + d_head / 2), as in GPT-NeoX and Llama.

    The paper pairs neighbours; that is the same up to the order of the rows of the projections, and slower.
    """
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def alibi_slopes(n_heads: int) -> Tensor:
    """(heads,) 2^(-8/n), 2^(-16/n), ...; between powers of two, every other slope of the next one is added, as in the paper.

    >>> alibi_slopes(4).tolist()
    [0.25, 0.0625, 0.015625, 0.00390625]
    """
    whole = 2 ** int(math.log2(n_heads))
    slopes = [2.0 ** (-8 * (i + 1) / whole) for i in range(whole)]
    slopes += [2.0 ** (-4 * (2 * i + 1) / whole) for i in range(n_heads - whole)]
    return torch.tensor(slopes)


def alibi_bias(slopes: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
    """-slope x distance, and -inf for what comes later; queries (B, T) and keys (S,) hold positions; (B, heads, T, S)."""
    distance = (queries[:, None, :, None] - keys).to(slopes.dtype)
    return (distance * -slopes[:, None, None]).masked_fill_(distance < 0, -math.inf)


def distance_buckets(distance: Tensor, buckets: int, max_distance: int, *, causal: bool) -> Tensor:
    """The bucket of each distance, key minus query (T5, Raffel et al. 2020): a half of the buckets has one distance each, the
    other half ranges that grow by one factor up to `max_distance`, beyond which all are in the last one.

    `causal`: keys never come after their query. Otherwise those that do have buckets of their own. In float32 as in the first
    implementation, whose rounding decides where a range ends.

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
