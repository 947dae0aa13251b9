"""Reading sources without torch: vectors of their steps, and the encoders, on all sources of a batch side by side.

The steps of all sources lie one after the other in one array (N, D), with `borders` (B + 1,) between the sources: nothing is
padded. The weights are those of `nn.encoders` and `nn.encoder_decoder` by name, and a test holds both to the same numbers.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from seqloom.kernels.decode import add_gelu, add_relu, add_row, norm_rows, rotate
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
        return np.asarray(arrays[own if own in arrays else "embedding.weight"][encoded.steps["ids"]], np.float32)
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


def transformer_block(weights: Weights, place: str, x: np.ndarray, borders: np.ndarray, n_heads: int, *, pre: bool, relu: bool,
                      turning: Turning = UNTURNED) -> None:
    """`nn.transformer.Block` without a memory, in place on x (N, D)."""
    def norm(name: str, x: np.ndarray, out: np.ndarray) -> np.ndarray:
        norm_rows(x, weights.vector(f"{place}{name}.weight"), weights.vector(f"{place}{name}.bias"), out)
        return out

    def times(name: str, x: np.ndarray) -> np.ndarray:
        product: np.ndarray = x @ weights.arrays[f"{place}{name}.weight"].T
        return product

    def bias(name: str) -> np.ndarray:
        return weights.vector(f"{place}{name}.bias")

    qkv = times("attention.qkv", norm("norm1", x, np.empty_like(x)) if pre else x)
    qkv += bias("attention.qkv")
    if len(turning.cos):
        rotate(qkv, turning.positions, 2 * n_heads, turning.cos, turning.sin)  # queries and keys lie side by side
    seen = np.empty_like(x)
    for start, stop in zip(borders[:-1].tolist(), borders[1:].tolist()):
        seen[start:stop] = attend_all(qkv[start:stop], n_heads)
    add_row(x, times("attention.out", seen), bias("attention.out"))
    if not pre:
        norm("norm1", x, x)
    inner = times("mlp.up", norm("norm2", x, np.empty_like(x)) if pre else x)
    (add_relu if relu else add_gelu)(inner, bias("mlp.up"))
    add_row(x, times("mlp.down", inner), bias("mlp.down"))
    if not pre:
        norm("norm2", x, x)


def attend_all(qkv: np.ndarray, n_heads: int) -> np.ndarray:
    """Attention of each step of one source, (S, 3D), to all of them: (S, D)."""
    steps = len(qkv)
    if not steps:
        return qkv[:, :qkv.shape[1] // 3]
    q, k, v = qkv.reshape(steps, 3, n_heads, -1).transpose(1, 2, 0, 3)  # each (heads, S, d)
    scores = q @ k.transpose(0, 2, 1) / np.float32(math.sqrt(q.shape[2]))
    scores -= scores.max(axis=2, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=2, keepdims=True)
    return (scores @ v).transpose(1, 0, 2).reshape(steps, -1)


def rotary_encoder(weights: Weights, x: np.ndarray, borders: np.ndarray, n_layers: int, n_heads: int) -> np.ndarray:
    """`nn.encoders.Transformer`, (N, D) to (N, d_out)."""
    x = x @ weights.arrays["encoder.input.weight"].T + weights.vector("encoder.input.bias")
    turning = Turning.of(borders, x.shape[1] // n_heads)
    for i in range(n_layers):
        transformer_block(weights, f"encoder.blocks.{i}.", x, borders, n_heads, pre=True, relu=False, turning=turning)
    norm_rows(x, weights.vector("encoder.norm.weight"), weights.vector("encoder.norm.bias"), x)
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
