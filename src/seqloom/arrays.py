"""Named arrays in one safetensors file, read back without copying.

The library's own NumPy loader copies everything into memory; tables of counts and vocabularies can be
larger than that is worth. Here the library checks the file and the arrays are then mapped at the offsets
that the header gives, copy-on-write, so that a model opens at once and processes share its pages.
"""

from __future__ import annotations

import errno
import json
import mmap
import os
import weakref
from pathlib import Path

import numpy as np

from seqloom.errors import ModelError

_DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
}
_RANKS = ("BOOL", "U8", "I8", "I16", "U16", "F16", "I32", "U32", "F32", "F64", "I64", "U64")  # those of high rank come first
_PORTION = 16 << 20  # bytes that are written at a time

SCRATCH: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()  # mapped so that dropping pages loses nothing, unlike copy-on-write


def write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write the arrays, byte by byte as safetensors would; what is mapped is given back on the way, however large it is."""
    order = sorted(arrays, key=lambda name: (-_RANKS.index(_code(arrays[name])), name))
    header, at = {}, 0
    for name in order:
        array = arrays[name]
        header[name] = {"dtype": _code(array), "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    try:
        with open(path, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for name in order:
                array = arrays[name]
                flat = np.asarray(array, array.dtype.newbyteorder("<"), order="C").reshape(-1).view(np.uint8)
                for low in range(0, len(flat), _PORTION):
                    file.write(flat[low:low + _PORTION].data)
                    give_back(array)
    except OSError as error:
        raise OSError(error.errno or errno.EIO, error.strerror or str(error), str(path)) from None


def give_back(*arrays: np.ndarray) -> None:
    """Give the memory of arrays in scratch files back for now; their content stays in the file."""
    for array in arrays:
        base: object = array
        while isinstance(base, np.ndarray) and base.base is not None:
            base = base.base
        area = base.obj if isinstance(base, memoryview) else base
        if isinstance(area, mmap.mmap) and area in SCRATCH and hasattr(area, "madvise"):
            area.madvise(mmap.MADV_DONTNEED)


def _code(array: np.ndarray) -> str:
    """What safetensors calls the type of an array."""
    return next(code for code, dtype in _DTYPES.items() if np.dtype(dtype) == array.dtype.newbyteorder("<"))


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file, mapped copy-on-write; a broken file is a ModelError."""
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
        raise ModelError(f"{path}: damaged or not a safetensors file ({error}); save the model again") from None


def _map(path: Path, entry: dict, base: int) -> np.ndarray:
    dtype, shape = np.dtype(_DTYPES[entry["dtype"]]), tuple(entry["shape"])
    start, stop = entry["data_offsets"]
    if start == stop:  # mmap refuses a length of zero
        return np.empty(shape, dtype)
    array = np.memmap(path, dtype, "c", offset=base + start, shape=shape).view(np.ndarray)
    return array if array.flags.aligned else array.copy()  # foreign writers need not align
