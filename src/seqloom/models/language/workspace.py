"""Where large arrays live while a counting model is built: in memory, or in files that the system may page out.

With a memory limit the arrays are memory-mapped temporary files, unlinked at once, so that even `kill -9`
leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from seqloom.errors import SeqloomError


@dataclass(frozen=True)
class Workspace:
    memory: int | None = None  # bytes that counting may use; None: all that there is
    on_disk: bool = False

    def empty(self, n: int, dtype: DTypeLike) -> np.ndarray:
        if not self.on_disk or n == 0:
            return np.empty(n, dtype)
        size = n * np.dtype(dtype).itemsize
        handle, path = tempfile.mkstemp(prefix="seqloom-")
        try:
            os.truncate(path, size)
            if hasattr(os, "posix_fallocate"):  # a full disk must be an error here, not a SIGBUS later
                os.posix_fallocate(handle, 0, size)
            area = mmap.mmap(handle, size)
        except OSError as error:
            raise SeqloomError(f"no room for {size >> 20} MiB of temporary files in {tempfile.gettempdir()} "
                               f"({error.strerror}); set TMPDIR to a larger disk or raise --memory") from error
        finally:
            os.close(handle)
            with contextlib.suppress(OSError):
                os.unlink(path)
        return np.frombuffer(area, dtype=dtype)

    def keep(self, array: np.ndarray) -> np.ndarray:
        """The array itself, or its copy on disk."""
        if not self.on_disk or len(array) == 0:
            return array
        copy = self.empty(len(array), array.dtype)
        copy[:] = array
        self.release(copy)
        return copy

    def release(self, *arrays: np.ndarray) -> None:
        """Give the memory of mapped arrays back for now; their content stays in the file."""
        for array in arrays:
            base = array
            while isinstance(base, np.ndarray) and base.base is not None:
                base = base.base
            area = base.obj if isinstance(base, memoryview) else base
            if isinstance(area, mmap.mmap) and hasattr(area, "madvise"):
                area.madvise(mmap.MADV_DONTNEED)
