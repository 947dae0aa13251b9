"""Reading sources without torch: vectors of their steps, and the encoders, on all sources of a batch side by side.

The steps of all sources lie one after the other in one array (N, D), with `borders` (B + 1,) between the sources: nothing is
padded. The weights are those of `nn.encoders` and `nn.encoder_decoder` by name, and a test holds both to the same numbers.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from seqloom.kernels.decode import add_row, rotate
from seqloom.kernels.translate import ACTIVATIONS, add_activated, norm_rows
from seqloom.models.network.recurrent_layer import RecurrentLayer, State
from seqloom.models.network.step_weights import NONE, Weights
from seqloom.models.sequence.encoded import Encoded
from seqloom.models.sequence.sizes import Sizes

ZERO = np.float32(0)


def read_sources(weights: Weights, sizes: Sizes, encoded: Encoded) -> np.ndarray:
    """Vectors of all steps, (N, D); without a table of their own, texts have the vectors of the targets."""
    arrays = weights.arrays
    if not sizes.columns:
        own = "reader.embedding.weight"
        return np.asarray(weights.table(own if own in arrays else "embedding.weight")[encoded.steps["ids"]], np.float32)
    values = encoded.steps["values"]
    absent = np.isnan(values)
    scaled = np.where(absent, ZERO, (values - arrays["reader.mean"]) / arrays["reader.scale"]).astype(np.float32)
    return np.concatenate([scaled, absent.astype(np.float32)], 1) if sizes.missing else scaled


def places(borders: np.ndarray) -> np.ndarray:
    """The position of each step in its source, (N,)."""
    return np.arange(borders[-1]) - np.repeat(borders[:-1], np.diff(borders))


def sinusoids(positions: np.ndarray, width: int) -> np.ndarray:
    """`nn.position.sinusoids`, (N, D)."""
    angles = np.outer(positions, 10000.0 ** (np.arange(0, width, 2) / -width))
    return np.stack([np.sin(angles), np.cos(angles)], 2).reshape(len(angles), width).astype(np.float32)


# ---- Transformers


class Style(NamedTuple):
    """How the layers of a Transformer are made; kernels take it as it is."""

    n_heads: int
    scale: np.float32  # of the products of queries and keys
    pre: bool = True  # norms come before the parts of a layer
    rms: bool = False  # they are RMSNorm
    epsilon: np.float32 = np.float32(1e-5)
    kind: int = ACTIVATIONS.index("gelu")

    @property
    def gated(self) -> bool:
        return self.kind >= ACTIVATIONS.index("geglu")

    def norm(self, x: np.ndarray, weight: np.ndarray, bias: np.ndarray, out: np.ndarray) -> np.ndarray:
        norm_rows(x, weight, bias, self.rms, self.epsilon, out)
        return out

    def activated(self, x: np.ndarray, bias: np.ndarray) -> np.ndarray:
        out = np.empty((len(x), x.shape[1] // 2), np.float32) if self.gated else x
        add_activated(x, bias, self.kind, out)
        return out


class Turning(NamedTuple):
    """Rotary positions: the tables, and the row of each step in them; empty ones where there are none."""

    cos: np.ndarray = NONE
    sin: np.ndarray = NONE
    positions: np.ndarray = NONE

    @classmethod
    def of(cls, borders: np.ndarray, d_head: int) -> Turning:
        longest = int(np.diff(borders).max(initial=1))
        angles = np.outer(np.arange(longest), 10000.0 ** (np.arange(0, d_head, 2) / -d_head))
        return cls(np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32), places(borders))


UNTURNED = Turning()


def transformer_block(weights: Weights, place: str, x: np.ndarray, borders: np.ndarray, style: Style, *,
                      turning: Turning = UNTURNED, bias: np.ndarray | None = None) -> None:
    """`nn.transformer.Block` without a memory, in place on x (N, D); `bias` (heads, S, S) or more is added to the scores."""
    def norm(name: str, x: np.ndarray, out: np.ndarray) -> np.ndarray:
        return style.norm(x, weights.vector(f"{place}{name}.weight"), shift(name, x.shape[1]), out)

    def times(name: str, x: np.ndarray) -> np.ndarray:
        return weights.times(f"{place}{name}.weight", x)

    def shift(name: str, size: int) -> np.ndarray:
        return weights.vector_or_zeros(f"{place}{name}.bias", size)

    pre, width = style.pre, x.shape[1]
    qkv = times("attention.qkv", norm("norm1", x, np.empty_like(x)) if pre else x)
    qkv += shift("attention.qkv", qkv.shape[1])
    if len(turning.cos):
        rotate(qkv, turning.positions, 2 * style.n_heads, turning.cos, turning.sin)  # queries and keys lie side by side
    seen = np.empty((len(x), qkv.shape[1] // 3), np.float32)
    for start, stop in zip(borders[:-1].tolist(), borders[1:].tolist()):
        added = None if bias is None else bias[:, :stop - start, :stop - start]
        seen[start:stop] = attend_all(qkv[start:stop], style.n_heads, style.scale, added)
    add_row(x, times("attention.out", seen), shift("attention.out", width))
    if not pre:
        norm("norm1", x, x)
    inner = times("mlp.up", norm("norm2", x, np.empty_like(x)) if pre else x)
    inner = style.activated(inner, shift("mlp.up", inner.shape[1]))
    add_row(x, times("mlp.down", inner), shift("mlp.down", width))
    if not pre:
        norm("norm2", x, x)


def attend_all(qkv: np.ndarray, n_heads: int, scale: np.float32, bias: np.ndarray | None = None) -> np.ndarray:
    """Attention of each step of one source, (S, 3K), to all of them: (S, K)."""
    steps = len(qkv)
    if not steps:
        return qkv[:, :qkv.shape[1] // 3]
    q, k, v = qkv.reshape(steps, 3, n_heads, -1).transpose(1, 2, 0, 3)  # each (heads, S, d)
    scores = q @ k.transpose(0, 2, 1) * scale
    if bias is not None:
        scores += bias
    scores -= scores.max(axis=2, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=2, keepdims=True)
    return (scores @ v).transpose(1, 0, 2).reshape(steps, -1)


def biases_back(table: np.ndarray, max_distance: int) -> np.ndarray:
    """`nn.encoder_decoder.DistanceBias` of its table (buckets, heads) by the distance to an earlier key, (heads, F); from F - 1
    on they are the same."""
    return np.ascontiguousarray(table[distance_buckets(max_distance, len(table))].T, np.float32)


def biases_around(table: np.ndarray, max_distance: int, longest: int) -> np.ndarray:
    """The same for each of so many queries and keys on either side of them, (heads, longest, longest)."""
    buckets = len(table) // 2
    distance = np.arange(longest) - np.arange(longest)[:, None]  # key minus query
    rows = distance_buckets(max_distance, buckets)[np.abs(distance).clip(max=max_distance)] + (distance > 0) * buckets
    return np.ascontiguousarray(table[rows].transpose(2, 0, 1), np.float32)


def distance_buckets(max_distance: int, buckets: int) -> np.ndarray:
    """`nn.position.distance_buckets` of the distances 0 to `max_distance`, (F,), rounded as there."""
    far, exact = np.arange(max_distance + 1), buckets // 2
    logs = np.log((np.maximum(far, exact) / exact).astype(np.float32), dtype=np.float64).astype(np.float32)
    growing = exact + (logs / np.float32(math.log(max_distance / exact)) * np.float32(buckets - exact)).astype(np.int64)
    return np.where(far < exact, far, np.minimum(growing, buckets - 1))


def rotary_encoder(weights: Weights, x: np.ndarray, borders: np.ndarray, n_layers: int, n_heads: int) -> np.ndarray:
    """`nn.encoders.Transformer`, (N, D) to (N, d_out)."""
    x = x @ weights.arrays["encoder.input.weight"].T + weights.vector("encoder.input.bias")
    d_head = x.shape[1] // n_heads
    style, turning = Style(n_heads, np.float32(d_head ** -0.5)), Turning.of(borders, d_head)
    for i in range(n_layers):
        transformer_block(weights, f"encoder.blocks.{i}.", x, borders, style, turning=turning)
    style.norm(x, weights.vector("encoder.norm.weight"), weights.vector("encoder.norm.bias"), x)
    return x * np.float32(x.shape[1] ** -0.5)


# ---- recurrent networks


def walk(layer: RecurrentLayer, x: np.ndarray, borders: np.ndarray, *, reverse: bool = False) -> tuple[np.ndarray, State]:
    """One direction of a layer over all steps x (N, D), all sources a step further at a time: what it gives (N, H), and the
    state after each source's last step."""
    projected = layer.project(x)
    lengths = np.diff(borders)
    order = np.argsort(-lengths, kind="stable")  # those that go on are the first ones
    ends, lengths = (borders[1:] - 1)[order] if reverse else borders[:-1][order], lengths[order]
    state = layer.start_rows(len(order))
    out = np.empty((len(x), state[0].shape[1]), np.float32)
    for t in range(int(lengths.max(initial=0))):
        going = int(np.count_nonzero(lengths > t))
        at = ends[:going] - t if reverse else ends[:going] + t
        moved = layer.move(projected[at], tuple(leaf[:going] for leaf in state))
        out[at] = moved[0]
        for leaf, new in zip(state, moved):
            leaf[:going] = new
    return out, tuple(leaf[np.argsort(order)] for leaf in state)


def recurrent_encoder(layers: list[list[RecurrentLayer]], x: np.ndarray, borders: np.ndarray) -> np.ndarray:
    """Layers of one or two directions, (N, D) to (N, d_out)."""
    for directions in layers:
        x = np.concatenate([walk(layer, x, borders, reverse=bool(i))[0] for i, layer in enumerate(directions)], 1)
    return x
