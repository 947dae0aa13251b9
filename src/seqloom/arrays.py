"""Named arrays in one safetensors file, read back without copying.

The library's own NumPy loader copies everything into memory; tables of counts and vocabularies can be
larger than that is worth. Here the library checks the file and the arrays are then mapped at the offsets
that the header gives, copy-on-write, so that a model opens at once and processes share its pages.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
from pathlib import Path

import numpy as np

from seqloom.errors import ModelError

_DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
}


def write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write the arrays, readable for whom new files are; safetensors orders them so that each one is aligned."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    try:
        path.touch()
        mode = path.stat().st_mode  # the library's own files are for their owner alone
        save_file({name: np.asarray(array, order="C") for name, array in arrays.items()}, path)
        if path.stat().st_mode != mode:
            with contextlib.suppress(OSError):  # some file systems know no modes
                path.chmod(mode)
    except SafetensorError as error:  # a full disk comes as this, with the system's number in its text
        found = re.search(r"\(os error (\d+)\)", str(error))
        code = int(found[1]) if found else errno.EIO
        raise OSError(code, os.strerror(code) if found else str(error), str(path)) from None


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
