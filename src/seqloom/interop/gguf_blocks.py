"""The number formats of GGUF tensors, each turned into float32.

A quantised format stores blocks of 32 or 256 numbers: small whole numbers, and the scales (some also minima) that they
share. In the K formats a block of 256 is divided further, and the scales of its parts are whole numbers of a few bits
under one scale of the block. Sums and products are in the order in which ggml has them, so the results are the same to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from seqloom.runtime.quantised import Blocks

PORTION = 1 << 13  # blocks that are turned at a time, so that what lies in between stays small


class Format(NamedTuple):
    name: str
    values: int  # in a block
    size: int  # of a block, in bytes
    turn: Callable[[np.ndarray], np.ndarray]  # blocks, uint8 (n, size), to float32 (n, values)


def _half(raw: np.ndarray) -> np.ndarray:
    """Two bytes a row as a number, float32 (n, 1)."""
    return np.ascontiguousarray(raw).view("<f2").astype(np.float32)


def _nibbles(raw: np.ndarray) -> np.ndarray:
    """The low halves of all bytes of the last axis, then their high halves."""
    return np.concatenate([raw & 15, raw >> 4], -1).astype(np.float32)


def _f32(raw: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(raw).view("<f4").astype(np.float32)


def _q8_0(raw: np.ndarray) -> np.ndarray:
    return _half(raw[:, :2]) * raw[:, 2:].view(np.int8).astype(np.float32)


def _q4_0(raw: np.ndarray) -> np.ndarray:
    return _half(raw[:, :2]) * (_nibbles(raw[:, 2:]) - np.float32(8))


def _q4_1(raw: np.ndarray) -> np.ndarray:
    return _half(raw[:, :2]) * _nibbles(raw[:, 4:]) + _half(raw[:, 2:4])


def _q4_k(raw: np.ndarray) -> np.ndarray:
    """Eight parts of 32, each with a scale and a minimum of six bits, which lie across twelve bytes."""
    packed = raw[:, 4:16]
    first, second, third = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    scales = np.concatenate([first & 63, third & 15 | first >> 6 << 4], 1)  # (n, 8)
    minima = np.concatenate([second & 63, third >> 4 | second >> 6 << 4], 1)
    numbers = _nibbles(raw[:, 16:].reshape(-1, 4, 32)).reshape(-1, 8, 32)
    scale, minimum = _half(raw[:, :2]) * scales.astype(np.float32), _half(raw[:, 2:4]) * minima.astype(np.float32)
    return (scale[:, :, None] * numbers - minimum[:, :, None]).reshape(len(raw), 256)


def _q6_k(raw: np.ndarray) -> np.ndarray:
    """Sixteen parts of 16, each with a scale of eight bits; four bits of a number lie in one table, two in another."""
    low, high = raw[:, :128].reshape(-1, 2, 2, 32), raw[:, 128:192].reshape(-1, 2, 1, 32)
    four = np.concatenate([low & 15, low >> 4], 2)  # (n, 2, 4, 32)
    two = high >> np.array([0, 2, 4, 6], np.uint8)[:, None] & 3
    numbers = (four | two << 4).astype(np.float32).reshape(-1, 16, 16) - np.float32(32)
    scale = _half(raw[:, 208:]) * raw[:, 192:208].view(np.int8).astype(np.float32)  # (n, 16)
    return (scale[:, :, None] * numbers).reshape(len(raw), 256)


def kept_blocks(raw: np.ndarray, shape: tuple[int, ...], form: Format, bits: int) -> Blocks | None:
    """A matrix as it is stored, where its format is one of those that quantised models have; None: where it is not."""
    if len(shape) != 2 or (form.name, bits) not in {("Q8_0", 8), ("Q4_0", 4), ("Q4_1", 4)}:
        return None
    blocks = raw.reshape(-1, form.size)
    scale = np.ascontiguousarray(blocks[:, :2]).view("<f2").reshape(shape[0], -1)
    if bits == 8:
        return Blocks(np.ascontiguousarray(blocks[:, 2:]).view(np.int8).reshape(shape), scale, None)
    numbers = np.concatenate([blocks[:, -16:] & 15, blocks[:, -16:] >> 4], 1).reshape(shape)
    with np.errstate(over="ignore", invalid="ignore"):  # found by the caller
        minimum = scale * np.float16(-8) if form.name == "Q4_0" else np.ascontiguousarray(blocks[:, 2:4]).view("<f2")
    return Blocks(numbers, scale, minimum.reshape(scale.shape))


FORMATS = {0: Format("F32", 1, 4, _f32), 1: Format("F16", 1, 2, _half), 2: Format("Q4_0", 32, 18, _q4_0),
           3: Format("Q4_1", 32, 20, _q4_1), 8: Format("Q8_0", 32, 34, _q8_0), 12: Format("Q4_K", 256, 144, _q4_k),
           14: Format("Q6_K", 256, 210, _q6_k)}
OTHERS = {6: "Q5_0", 7: "Q5_1", 9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 13: "Q5_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS",
          18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32",
          27: "I64", 28: "F64", 29: "IQ1_M", 30: "BF16", 34: "TQ1_0", 35: "TQ2_0"}  # known by name only


def to_floats(raw: np.ndarray, form: Format) -> np.ndarray:
    """uint8 (N,) that holds whole blocks to float32."""
    blocks = raw.reshape(-1, form.size)
    out = np.empty((len(blocks), form.values), np.float32)
    portion = PORTION * max(256 // form.values, 1)
    with np.errstate(invalid="ignore", over="ignore"):  # of a damaged file, which is told afterwards
        for low in range(0, len(blocks), portion):
            out[low:low + portion] = form.turn(blocks[low:low + portion])
    return out.ravel()
