"""GGUF files (of llama.cpp), versions 2 and 3: named values, the offset of each tensor, the tensors.

All sizes in the file are checked against its length before memory is allocated, so a damaged or
hostile file gives an error of one line and never takes more memory than its own size. Tensors stay in
the mapped file until `array` is called.

A quantised format stores blocks of 32 or 256 numbers: small integers, and the scales (in some also
minima) that they share. In the K formats a block of 256 is divided further, and the scales of its parts
are integers of a few bits under one scale of the block. Sums and products are in the order of ggml, so
the results are the same to the bit.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from seqloom.errors import DataError, quoted
from seqloom.interop.values import TensorFile
from seqloom.runtime.quantised import Blocks

MAGIC = b"GGUF"
VERSIONS = (2, 3)
ALIGNMENT = 32  # of tensors, unless the file says another
MOST_DIMENSIONS = 4
MOST_TENSORS, MOST_KEYS = 20_000, 10_000
MOST_STRINGS = (
    1 << 20
)  # in all lists; the largest published vocabularies have 3/4 of it with their merges
LONGEST_NAME = 1 << 16  # bytes of a key or of a tensor's name
PORTION = 1 << 13  # blocks that are turned at a time, so that what lies in between stays small

_NUMBERS = {
    0: "<u1",
    1: "<i1",
    2: "<u2",
    3: "<i2",
    4: "<u4",
    5: "<i4",
    6: "<f4",
    7: "<u1",
    10: "<u8",
    11: "<i8",
    12: "<f8",
}
_BOOL, _STRING, _LIST = 7, 8, 9


class Format(NamedTuple):
    name: str
    values: int  # in a block
    size: int  # of a block, in bytes
    turn: Callable[[np.ndarray], np.ndarray]  # blocks, uint8 (n, size), to float32 (n, values)


class TensorInfo(NamedTuple):
    name: str
    shape: tuple[int, ...]  # rows first, as in NumPy; the file has it the other way round
    form: Format
    start: int  # in the file
    size: int  # bytes


@dataclass(frozen=True)
class GGUFFile(TensorFile):
    """What a GGUF file holds; lists of numbers are arrays, lists of texts are lists."""

    tensors: dict[str, TensorInfo]
    data: np.ndarray  # the whole file, mapped

    def array(self, name: str) -> np.ndarray:
        info = self.tensors[name]
        return self.checked(
            name,
            to_floats(self.data[info.start : info.start + info.size], info.form).reshape(
                info.shape
            ),
        )

    def blocks(self, name: str, bits: int) -> Blocks:
        info = self.tensors[name]
        stored = kept_blocks(
            self.data[info.start : info.start + info.size], info.shape, info.form, bits
        )
        if stored is None or not (
            np.isfinite(stored.scale).all()
            and (stored.minimum is None or np.isfinite(stored.minimum).all())
        ):
            return super().blocks(name, bits)
        return stored  # as it is stored

    def digest(self) -> str:
        with open(self.name, "rb") as raw:
            return hashlib.file_digest(raw, "sha256").hexdigest()

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: info.shape for name, info in self.tensors.items()}


def read_gguf(path: str | Path) -> GGUFFile:
    """Read the values and tensor locations of a file, all of them checked."""
    source = Path(path)
    if not source.is_file() or not source.stat().st_size:
        raise DataError(f"{path}: {'is empty' if source.is_file() else 'no such file'}")
    return _Reader(str(path), np.memmap(source, np.uint8, mode="r")).read()


class _Reader:
    """Takes one thing after the other from the mapped file."""

    def __init__(self, name: str, data: np.ndarray) -> None:
        self.name, self.data, self.at, self.strings = name, data, 0, 0

    def read(self) -> GGUFFile:
        if self.take(4, "its first bytes") != MAGIC:
            self.fail("not a GGUF file")
        version = self.number("<I")
        if version not in VERSIONS:
            turned = version.to_bytes(4, "big") in [v.to_bytes(4, "little") for v in VERSIONS]
            self.fail(
                "a big-endian GGUF file; only little-endian ones can be read"
                if turned
                else f"GGUF of version {version}; versions {VERSIONS[0]} and {VERSIONS[1]} can be read"
            )
        n_tensors, n_values = self.number("<Q"), self.number("<Q")
        self.check_room(n_tensors, 24, "tensors")  # the least that one takes
        self.check_room(n_values, 13, "values")
        for count, most, what in (
            (n_tensors, MOST_TENSORS, "tensors"),
            (n_values, MOST_KEYS, "values"),
        ):
            if count > most:
                self.fail(f"it has {count:,} {what}; at most {most:,} can be read")
        values: dict[str, Any] = {}
        for _ in range(n_values):
            key = self.string("a key", LONGEST_NAME)
            if key in values:
                self.fail(f"{quoted(key)} appears twice")
            values[key] = self.value(key, self.number("<I"))
        alignment = values.get("general.alignment", ALIGNMENT)
        if (
            type(alignment) is not int
            or not 0 < alignment <= 1 << 20
            or alignment & (alignment - 1)
        ):
            self.fail(f"general.alignment is {quoted(alignment)}; it must be a power of two")
        infos = [self.info(alignment) for _ in range(n_tensors)]
        start = -(-self.at // alignment) * alignment
        tensors: dict[str, TensorInfo] = {}
        for info in infos:
            if info.name in tensors:
                self.fail(f"the tensor {quoted(info.name)} appears twice")
            if start + info.start + info.size > len(self.data):
                self.fail(
                    f"cut off or damaged: the tensor {quoted(info.name)} would end at byte "
                    f"{start + info.start + info.size:,}, the file at {len(self.data):,}"
                )
            tensors[info.name] = info._replace(start=start + info.start)
        for first, second in pairwise(sorted(tensors.values(), key=lambda info: info.start)):
            if first.start + first.size > second.start:
                self.fail(
                    f"damaged: the tensors {quoted(first.name)} and {quoted(second.name)} overlap"
                )
        return GGUFFile(self.name, values, tensors, self.data)

    def info(self, alignment: int) -> TensorInfo:
        """Read the description of a tensor, with its start from the first of all tensors."""
        name = self.string("the name of a tensor", LONGEST_NAME)
        dimensions = self.number("<I")
        if not 1 <= dimensions <= MOST_DIMENSIONS:
            self.fail(f"damaged: the tensor {quoted(name)} has {dimensions:,} dimensions")
        shape = tuple(self.number("<Q") for _ in range(dimensions))
        kind, start = self.number("<I"), self.number("<Q")
        form = FORMATS.get(kind)
        if form is None:
            known = ", ".join(form.name for form in FORMATS.values())
            self.fail(
                f"the tensor {quoted(name)} is stored as {OTHERS.get(kind, f'type {kind}')}, which "
                f"cannot be read "
                f"(known: {known}); get the file in one of these"
            )
        if min(shape) < 1 or shape[0] % form.values:
            self.fail(
                f"damaged: the tensor {quoted(name)} of {' x '.join(map(str, shape[::-1]))} "
                f"numbers is not made of "
                f"blocks of {form.values}, as {form.name} is"
            )
        if start % alignment:
            self.fail(
                f"damaged: the tensor {quoted(name)} begins at {start:,}, not at a multiple of {alignment}"
            )
        return TensorInfo(
            name, shape[::-1], form, start, math.prod(shape) // form.values * form.size
        )

    def value(self, key: str, kind: int) -> Any:
        if kind == _STRING:
            return self.string(key)
        if kind == _LIST:
            return self.list_of(key)
        if kind not in _NUMBERS:
            self.fail(f"damaged: {quoted(key)} is of type {kind}, which there is not")
        value = np.frombuffer(self.take(np.dtype(_NUMBERS[kind]).itemsize, key), _NUMBERS[kind])[
            0
        ].item()
        return bool(value) if kind == _BOOL else value

    def list_of(self, key: str) -> Any:
        kind, count = self.number("<I"), self.number("<Q")
        if kind == _LIST:
            self.fail(f"{quoted(key)} is a list of lists, which cannot be read")
        if kind == _STRING:
            self.check_room(count, 8, f"texts of {key}")
            self.strings += count
            if self.strings > MOST_STRINGS:
                self.fail(
                    f"with {quoted(key)} it has {self.strings:,} texts; at most {MOST_STRINGS:,} can be read"
                )
            return [self.string(key) for _ in range(count)]
        if kind not in _NUMBERS:
            self.fail(f"damaged: {quoted(key)} is a list of type {kind}, which there is not")
        size = np.dtype(_NUMBERS[kind]).itemsize
        self.check_room(count, size, f"numbers of {key}")
        return np.frombuffer(self.take(count * size, key), _NUMBERS[kind])

    def string(self, what: str, longest: int | None = None) -> str:
        size = self.number("<Q")
        if longest is not None and size > longest:
            self.fail(f"damaged: {what} of {size:,} bytes")
        try:
            return self.take(size, what).decode("utf-8")
        except UnicodeDecodeError:
            self.fail(f"damaged: {quoted(what)} has bytes that are not UTF-8")

    def number(self, form: str) -> int:
        return struct.unpack(form, self.take(struct.calcsize(form), "a number"))[0]

    def take(self, size: int, what: str) -> bytes:
        if size > len(self.data) - self.at:
            self.fail(
                f"cut off or damaged: {quoted(what)} would take {size:,} bytes at {self.at:,}, the "
                f"file ends at "
                f"{len(self.data):,}"
            )
        self.at += size
        return self.data[self.at - size : self.at].tobytes()

    def check_room(self, count: int, least: int, what: str) -> None:
        if count * least > len(self.data) - self.at:
            self.fail(
                f"cut off or damaged: {count:,} {what} do not fit into its {len(self.data):,} bytes"
            )

    def fail(self, fault: str) -> NoReturn:
        raise DataError(f"{self.name}: {fault}")


# ---- formats


def _half(raw: np.ndarray) -> np.ndarray:
    """Convert two bytes per row to a number, float32 (n, 1)."""
    return np.ascontiguousarray(raw).view("<f2").astype(np.float32)


def _nibbles(raw: np.ndarray) -> np.ndarray:
    """Return the low halves of all bytes of the last axis, then their high halves."""
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
    """Decode eight parts of 32, each with a scale and a minimum of six bits, which lie across
    twelve bytes.
    """
    packed = raw[:, 4:16]
    first, second, third = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    scales = np.concatenate([first & 63, third & 15 | first >> 6 << 4], 1)  # (n, 8)
    minima = np.concatenate([second & 63, third >> 4 | second >> 6 << 4], 1)
    numbers = _nibbles(raw[:, 16:].reshape(-1, 4, 32)).reshape(-1, 8, 32)
    scale, minimum = (
        _half(raw[:, :2]) * scales.astype(np.float32),
        _half(raw[:, 2:4]) * minima.astype(np.float32),
    )
    return (scale[:, :, None] * numbers - minimum[:, :, None]).reshape(len(raw), 256)


def _q6_k(raw: np.ndarray) -> np.ndarray:
    """Decode sixteen parts of 16, each with a scale of eight bits; four bits of a number lie in
    one table, two in another.
    """
    low, high = raw[:, :128].reshape(-1, 2, 2, 32), raw[:, 128:192].reshape(-1, 2, 1, 32)
    four = np.concatenate([low & 15, low >> 4], 2)  # (n, 2, 4, 32)
    two = high >> np.array([0, 2, 4, 6], np.uint8)[:, None] & 3
    numbers = (four | two << 4).astype(np.float32).reshape(-1, 16, 16) - np.float32(32)
    scale = _half(raw[:, 208:]) * raw[:, 192:208].view(np.int8).astype(np.float32)  # (n, 16)
    return (scale[:, :, None] * numbers).reshape(len(raw), 256)


def kept_blocks(raw: np.ndarray, shape: tuple[int, ...], form: Format, bits: int) -> Blocks | None:
    """Return a matrix as it is stored if its format is one that quantised models have, else None."""
    if len(shape) != 2 or (form.name, bits) not in {("Q8_0", 8), ("Q4_0", 4), ("Q4_1", 4)}:
        return None
    blocks = raw.reshape(-1, form.size)
    scale = np.ascontiguousarray(blocks[:, :2]).view("<f2").reshape(shape[0], -1)
    if bits == 8:
        return Blocks(np.ascontiguousarray(blocks[:, 2:]).view(np.int8).reshape(shape), scale, None)
    numbers = np.concatenate([blocks[:, -16:] & 15, blocks[:, -16:] >> 4], 1).reshape(shape)
    with np.errstate(over="ignore", invalid="ignore"):  # found by the caller
        minimum = (
            scale * np.float16(-8)
            if form.name == "Q4_0"
            else np.ascontiguousarray(blocks[:, 2:4]).view("<f2")
        )
    return Blocks(numbers, scale, minimum.reshape(scale.shape))


FORMATS = {
    0: Format("F32", 1, 4, _f32),
    1: Format("F16", 1, 2, _half),
    2: Format("Q4_0", 32, 18, _q4_0),
    3: Format("Q4_1", 32, 20, _q4_1),
    8: Format("Q8_0", 32, 34, _q8_0),
    12: Format("Q4_K", 256, 144, _q4_k),
    14: Format("Q6_K", 256, 210, _q6_k),
}
OTHERS = {
    6: "Q5_0",
    7: "Q5_1",
    9: "Q8_1",
    10: "Q2_K",
    11: "Q3_K",
    13: "Q5_K",
    15: "Q8_K",
    16: "IQ2_XXS",
    17: "IQ2_XS",
    18: "IQ3_XXS",
    19: "IQ1_S",
    20: "IQ4_NL",
    21: "IQ3_S",
    22: "IQ2_S",
    23: "IQ4_XS",
    24: "I8",
    25: "I16",
    26: "I32",
    27: "I64",
    28: "F64",
    29: "IQ1_M",
    30: "BF16",
    34: "TQ1_0",
    35: "TQ2_0",
}  # known by name only


def to_floats(raw: np.ndarray, form: Format) -> np.ndarray:
    """Convert uint8 (N,) that holds whole blocks to float32."""
    blocks = raw.reshape(-1, form.size)
    out = np.empty((len(blocks), form.values), np.float32)
    portion = PORTION * max(256 // form.values, 1)
    with np.errstate(
        invalid="ignore", over="ignore"
    ):  # of a damaged file, which is told afterwards
        for low in range(0, len(blocks), portion):
            out[low : low + portion] = form.turn(blocks[low : low + portion])
    return out.ravel()
