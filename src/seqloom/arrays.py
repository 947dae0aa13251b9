"""Named arrays in one safetensors file, read back without copying.

The library's own NumPy loader copies everything into memory; tables of counts and vocabularies can be
larger than that is worth. Here the library checks the file and the arrays are then mapped at the offsets
that the header gives, copy-on-write, so that a model opens at once and processes share its pages.

Kernels trust their arrays, so whoever reads a stranger's file says what each array must be
(`Spec`), and `check_arrays` holds the file to it before anything else sees it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import mmap
import os
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from seqloom.errors import ModelError

_DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "u1",
    "BOOL": "?",
}
LARGE = 1 << 26  # bytes of a table of floats from which on it is not read through when it is opened
MAX_WEIGHT = 1e15  # no number that was learnt is larger; products of two such still fit a float32
MAX_NUMBER = (
    1e25  # of a series; sums of squares stay finite, also in units of the smallest deviation
)
# In the order of rank, ascending; safetensors writes arrays of high rank first.
_RANKS = ("BOOL", "U8", "I8", "I16", "U16", "F16", "I32", "U32", "F32", "F64", "I64", "U64")
_PORTION = 16 << 20  # bytes that are written at a time
LINE = 64  # bytes of a cache line

# Mapped so that dropping pages loses nothing, unlike copy-on-write.
SCRATCH: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()

Length = Callable[[str], int]  # how many rows the array of that name has in the file


@dataclass(frozen=True)
class Spec:
    """What an array of a file must be: exactly this type and shape, with no value outside `low` and `high`.

    Integers may be indices, so their range is always looked at. NaN lies outside every range. A
    table of floats above LARGE is not read through, since opening it would then take as long as
    reading it: there whoever uses its rows looks at them.
    """

    dtype: str  # or several, with blanks between
    shape: tuple[int, ...]
    low: float | None = None  # of floats -MAX_WEIGHT unless given
    high: float | None = None
    optional: bool = False  # may be missing

    def fault(self, array: np.ndarray) -> str:
        """Return what is wrong with an array, or an empty string."""
        if array.dtype.name not in self.dtype.split() or array.shape != self.shape:
            actual = _kind(array.dtype.name, array.shape)
            return f"is {actual} where {_kind(self.dtype, self.shape)} is needed"
        is_float = array.dtype.kind == "f"
        low, high = (-MAX_WEIGHT, MAX_WEIGHT) if is_float else (None, None)
        low, high = low if self.low is None else self.low, high if self.high is None else self.high
        if not array.size or (low is None and high is None) or (is_float and array.nbytes > LARGE):
            return ""
        if (low is None or array.min() >= low) and (high is None or array.max() <= high):
            return ""
        lowest, highest = ("..." if end is None else f"{end:.9g}" for end in (low, high))
        return f"has a value outside {lowest} to {highest}"


def check_arrays(arrays: Mapping[str, np.ndarray], specs: Mapping[str, Spec]) -> None:
    """Refuse arrays that are missing, too many, or not what they must be."""
    missing = sorted(
        name for name, spec in specs.items() if name not in arrays and not spec.optional
    )
    unknown = sorted(arrays.keys() - specs.keys())
    for names, what in ((missing, "missing"), (unknown, "unknown")):
        if names:
            raise ModelError(
                f"the array{'s' * (len(names) > 1)} "
                f"{', '.join(map(repr, names[:3]))}{', ...' * (len(names) > 3)} "
                f"{'is' if len(names) == 1 else 'are'} {what}: the file is damaged or of another model"
            )
    for name, array in arrays.items():
        if fault := specs[name].fault(array):
            raise ModelError(f"the array {name!r} {fault}: the file is damaged")


def lengths(arrays: Mapping[str, np.ndarray]) -> Length:
    """Return a function that gives the number of rows of an array of the file, for specs that
    depend on it.
    """

    def length(name: str) -> int:
        if name not in arrays or not arrays[name].ndim:
            raise ModelError(
                f"the array {name!r} is {'not a list' if name in arrays else 'missing'}: the file is damaged"
            )
        return len(arrays[name])

    return length


def _kind(dtype: str, shape: tuple[int, ...]) -> str:
    return f"{' or '.join(dtype.split())} {' x '.join(map(str, shape)) or 'alone'}"


def write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write the arrays, byte by byte as safetensors would; what is mapped is given back on the way,
    however large it is.
    """
    order = sorted(arrays, key=lambda name: (-_RANKS.index(_code(arrays[name])), name))
    header, at = {}, 0
    for name in order:
        array = arrays[name]
        header[name] = {
            "dtype": _code(array),
            "shape": list(array.shape),
            "data_offsets": [at, at + array.nbytes],
        }
        at += array.nbytes
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    try:
        with open(path, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for name in order:
                array = arrays[name]
                flat = (
                    np.asarray(array, array.dtype.newbyteorder("<"), order="C")
                    .reshape(-1)
                    .view(np.uint8)
                )
                for low in range(0, len(flat), _PORTION):
                    file.write(flat[low : low + _PORTION].data)
                    give_back(array)
    except OSError as error:
        raise OSError(error.errno or errno.EIO, error.strerror or str(error), str(path)) from None


def resident() -> int:
    """Return the bytes of memory that this process holds now; 0 where the system does not tell."""
    with contextlib.suppress(OSError, ValueError), open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * mmap.PAGESIZE
    return 0


def peak_resident() -> int:
    """Return the most bytes of memory that this process has held; 0 where the system does not tell."""
    try:
        from resource import RUSAGE_SELF, getrusage
    except ImportError:  # Windows
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return getrusage(RUSAGE_SELF).ru_maxrss * unit


def give_back(*arrays: np.ndarray) -> None:
    """Give the memory of arrays in scratch files back for now; their content stays in the file."""
    for array in arrays:
        base: object = array
        while isinstance(base, np.ndarray) and base.base is not None:
            base = base.base
        area = base.obj if isinstance(base, memoryview) else base
        if isinstance(area, mmap.mmap) and area in SCRATCH and hasattr(area, "madvise"):
            area.madvise(mmap.MADV_DONTNEED)


def aligned(array: np.ndarray) -> np.ndarray:
    """Return a copy that begins on a cache line, so that no vector that a kernel reads spans two."""
    room = np.empty(array.nbytes + LINE, np.uint8)
    begin = -room.ctypes.data % LINE
    copy = room[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def can_be_written(array: np.ndarray) -> bool:
    """Return whether safetensors has the array's type: numbers and booleans, not text, objects or
    complex numbers.
    """
    return any(np.dtype(dtype) == array.dtype.newbyteorder("<") for dtype in _DTYPES.values())


def _code(array: np.ndarray) -> str:
    """Return the safetensors name of an array's type."""
    return next(
        code for code, dtype in _DTYPES.items() if np.dtype(dtype) == array.dtype.newbyteorder("<")
    )


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read the arrays of a safetensors file, mapped copy-on-write; raise ModelError if it is
    broken.
    """
    _check_file(path)
    with open(path, "rb") as file:
        header_size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(header_size))
    header.pop("__metadata__", None)
    unknown = sorted({entry["dtype"] for entry in header.values()} - _DTYPES.keys())
    if unknown:
        raise ModelError(f"{path}: arrays of type {', '.join(unknown)} cannot be read by NumPy")
    return {name: _map(path, entry, 8 + header_size) for name, entry in header.items()}


def _check_file(path: Path) -> None:
    """Let the library validate header, dtypes, shapes and total size before anything is mapped."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise ModelError(f"{path}: no such file; the saved model is incomplete")
    if not os.access(path, os.R_OK):
        raise ModelError(f"{path}: cannot be read: {os.strerror(errno.EACCES)}; ask its owner")
    try:
        with safe_open(path, framework="numpy"):
            pass
    except (SafetensorError, OSError, ValueError) as error:
        raise ModelError(
            f"{path}: damaged or not a safetensors file ({error}); save the model again"
        ) from None


def _map(path: Path, entry: dict, base: int) -> np.ndarray:
    dtype, shape = np.dtype(_DTYPES[entry["dtype"]]), tuple(entry["shape"])
    start, stop = entry["data_offsets"]
    if stop - start != math.prod(shape) * dtype.itemsize or min(shape, default=0) < 0:
        # Such as a name that stands twice in the header.
        raise ModelError(f"{path}: its header contradicts itself; save the model again")
    if start == stop:  # mmap refuses a length of zero
        return np.empty(shape, dtype)
    array = np.memmap(path, dtype, "c", offset=base + start, shape=shape).view(np.ndarray)
    return array if array.flags.aligned else array.copy()  # foreign writers need not align


def digest(arrays: Mapping[str, np.ndarray]) -> str:
    """Return 16 hexadecimal digits that tell these arrays, with their names, from others."""
    hasher = hashlib.sha256()
    for name in sorted(arrays):
        hasher.update(name.encode() + np.ascontiguousarray(arrays[name]).tobytes())
    return hasher.hexdigest()[:16]


# ---- words


def pack_words(words: Iterable[str]) -> dict[str, np.ndarray]:
    """Convert words to two arrays: their bytes, one after the other, and where each ends."""
    spelled = [word.encode("utf-8", "surrogatepass") for word in words]
    return {
        "words": np.frombuffer(b"".join(spelled), np.uint8).copy(),
        "word_ends": np.cumsum([len(w) for w in spelled]),
    }


def unpack_words(arrays: dict[str, np.ndarray]) -> list[str]:
    """Return the words, all different, or else the file is damaged."""
    blob, ends = np.asarray(arrays["words"]).tobytes(), arrays["word_ends"].tolist()
    words = [
        blob[start:end].decode("utf-8", "surrogatepass") for start, end in zip([0, *ends], ends)
    ]
    if ends != sorted(ends) or ends[-1:] != [len(blob)] or len(set(words)) < len(words):
        raise ModelError("its words contradict each other: the file is damaged")
    return words
