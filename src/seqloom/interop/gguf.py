"""GGUF files (of llama.cpp), versions 2 and 3: named values, then where each tensor lies, then the tensors.

Everything that the file says about itself is held against its size before room is made for it, so a damaged or hostile file
gives one line and never takes more memory than it has bytes itself. Tensors stay in the mapped file until `array` is called.
"""

from __future__ import annotations

import hashlib
import math
import struct
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from seqloom.errors import DataError, quoted
from seqloom.interop.gguf_blocks import FORMATS, OTHERS, Format, kept_blocks, to_floats
from seqloom.interop.values import TensorFile
from seqloom.runtime.quantised import Blocks

MAGIC = b"GGUF"
VERSIONS = (2, 3)
ALIGNMENT = 32  # of tensors, unless the file says another
MOST_DIMENSIONS = 4
MOST_STRINGS = 1 << 23  # in one list; each takes ten times the room that it has in the file
LONGEST_NAME = 1 << 16  # bytes of a key or of a tensor's name

_NUMBERS = {0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "<u1", 10: "<u8", 11: "<i8", 12: "<f8"}
_BOOL, _STRING, _LIST = 7, 8, 9


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
        return self.checked(name, to_floats(self.data[info.start:info.start + info.size], info.form).reshape(info.shape))

    def blocks(self, name: str, bits: int) -> Blocks:
        info = self.tensors[name]
        made = kept_blocks(self.data[info.start:info.start + info.size], info.shape, info.form, bits)
        if made is None or not (np.isfinite(made.scale).all() and (made.minimum is None or np.isfinite(made.minimum).all())):
            return super().blocks(name, bits)
        return made  # as it is stored

    def digest(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: info.shape for name, info in self.tensors.items()}


def is_gguf(path: str | Path) -> bool:
    """Whether this is such a file, by its name or its first bytes."""
    place = Path(path)
    if place.name.endswith(".gguf") or not place.is_file():
        return place.name.endswith(".gguf")
    with place.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def read_gguf(path: str | Path) -> GGUFFile:
    """The values and the places of the tensors of a file, all of them checked."""
    source = Path(path)
    if not source.is_file() or not source.stat().st_size:
        raise DataError(f"{path}: {'is empty' if source.is_file() else 'no such file'}")
    return _Reader(str(path), np.memmap(source, np.uint8, mode="r")).read()


class _Reader:
    """Takes one thing after the other from the mapped file."""

    def __init__(self, name: str, data: np.ndarray) -> None:
        self.name, self.data, self.at = name, data, 0

    def read(self) -> GGUFFile:
        if self.take(4, "its first bytes") != MAGIC:
            self.fail("not a GGUF file")
        version = self.number("<I")
        if version not in VERSIONS:
            turned = version.to_bytes(4, "big") in [v.to_bytes(4, "little") for v in VERSIONS]
            self.fail("a big-endian GGUF file; only little-endian ones can be read" if turned else
                      f"GGUF of version {version}; versions {VERSIONS[0]} and {VERSIONS[1]} can be read")
        n_tensors, n_values = self.number("<Q"), self.number("<Q")
        self.check_room(n_tensors, 24, "tensors")  # the least that one takes
        self.check_room(n_values, 13, "values")
        values: dict[str, Any] = {}
        for _ in range(n_values):
            key = self.string("a key", LONGEST_NAME)
            if key in values:
                self.fail(f"{quoted(key)} appears twice")
            values[key] = self.value(key, self.number("<I"))
        alignment = values.get("general.alignment", ALIGNMENT)
        if type(alignment) is not int or not 0 < alignment <= 1 << 20 or alignment & (alignment - 1):
            self.fail(f"general.alignment is {quoted(alignment)}; it must be a power of two")
        infos = [self.info(alignment) for _ in range(n_tensors)]
        start = -(-self.at // alignment) * alignment
        tensors: dict[str, TensorInfo] = {}
        for info in infos:
            if info.name in tensors:
                self.fail(f"the tensor {quoted(info.name)} appears twice")
            if start + info.start + info.size > len(self.data):
                self.fail(f"cut off or damaged: the tensor {quoted(info.name)} would end at byte "
                          f"{start + info.start + info.size:,}, the file at {len(self.data):,}")
            tensors[info.name] = info._replace(start=start + info.start)
        for first, second in pairwise(sorted(tensors.values(), key=lambda info: info.start)):
            if first.start + first.size > second.start:
                self.fail(f"damaged: the tensors {quoted(first.name)} and {quoted(second.name)} overlap")
        return GGUFFile(self.name, values, tensors, self.data)

    def info(self, alignment: int) -> TensorInfo:
        """A tensor, with its start from the first of all tensors."""
        name = self.string("the name of a tensor", LONGEST_NAME)
        dimensions = self.number("<I")
        if not 1 <= dimensions <= MOST_DIMENSIONS:
            self.fail(f"damaged: the tensor {quoted(name)} has {dimensions:,} dimensions")
        shape = tuple(self.number("<Q") for _ in range(dimensions))
        kind, start = self.number("<I"), self.number("<Q")
        form = FORMATS.get(kind)
        if form is None:
            known = ", ".join(form.name for form in FORMATS.values())
            self.fail(f"the tensor {quoted(name)} is stored as {OTHERS.get(kind, f'type {kind}')}, which cannot be read "
                      f"(known: {known}); get the file in one of these")
        if min(shape) < 1 or shape[0] % form.values:
            self.fail(f"damaged: the tensor {quoted(name)} of {' x '.join(map(str, shape[::-1]))} numbers is not made of "
                      f"blocks of {form.values}, as {form.name} is")
        if start % alignment:
            self.fail(f"damaged: the tensor {quoted(name)} begins at {start:,}, not at a multiple of {alignment}")
        return TensorInfo(name, shape[::-1], form, start, math.prod(shape) // form.values * form.size)

    def value(self, key: str, kind: int) -> Any:
        if kind == _STRING:
            return self.string(key)
        if kind == _LIST:
            return self.list_of(key)
        if kind not in _NUMBERS:
            self.fail(f"damaged: {quoted(key)} is of type {kind}, which there is not")
        value = np.frombuffer(self.take(np.dtype(_NUMBERS[kind]).itemsize, key), _NUMBERS[kind])[0].item()
        return bool(value) if kind == _BOOL else value

    def list_of(self, key: str) -> Any:
        kind, count = self.number("<I"), self.number("<Q")
        if kind == _LIST:
            self.fail(f"{quoted(key)} is a list of lists, which cannot be read")
        if kind == _STRING:
            self.check_room(count, 8, f"texts of {key}")
            if count > MOST_STRINGS:
                self.fail(f"{quoted(key)} has {count:,} texts; at most {MOST_STRINGS:,} can be read")
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
            self.fail(f"cut off or damaged: {quoted(what)} would take {size:,} bytes at {self.at:,}, the file ends at "
                      f"{len(self.data):,}")
        self.at += size
        return self.data[self.at - size:self.at].tobytes()

    def check_room(self, count: int, least: int, what: str) -> None:
        if count * least > len(self.data) - self.at:
            self.fail(f"cut off or damaged: {count:,} {what} do not fit into its {len(self.data):,} bytes")

    def fail(self, fault: str) -> NoReturn:
        raise DataError(f"{self.name}: {fault}")
